//! References of a page, resolved as RFC 3986 §5.2 says, with the leniency of the WHATWG URL
//! Standard that pages rely on (spaces around, line breaks within, backslashes, bytes that need
//! escapes).

use crate::target::{Url, UrlScheme};

/// Limit of a reference in bytes; longer ones are ignored.
const MAX_LENGTH: usize = 8 * 1024;

/// A resolved reference to a resource that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlReference {
    /// A resource of the page's own origin: path and query, as they are sent.
    Same(String),
    /// A resource of another origin: the whole URL.
    Other(String),
}

/// Base URL of references, and the page's own origin.
#[derive(Debug, Clone)]
pub struct Base {
    page: Url,
    at: Url,
}

impl Base {
    /// The base of a page.
    pub fn new(page: &Url) -> Self {
        Self {
            page: page.clone(),
            at: page.clone(),
        }
    }

    /// The base of a resource at `target` of the same origin.
    pub fn at(&self, target: &str) -> Self {
        Self {
            page: self.page.clone(),
            at: Url {
                target: target.to_owned(),
                ..self.page.clone()
            },
        }
    }

    /// Replaces the base by `<base href>`, itself resolved against the page's URL (WHATWG HTML
    /// §4.2.3).
    pub fn rebase(&mut self, href: &[u8]) {
        if let Some(url) = Self::new(&self.page).absolute(href) {
            self.at = url;
        }
    }

    /// Resolves a reference; `None` for one that is empty, of a scheme that is never fetched over
    /// HTTP, or no URL.
    pub fn resolve(&self, written: &[u8]) -> Option<UrlReference> {
        let url = self.absolute(written)?;
        let same = url.scheme == self.page.scheme
            && url.port == self.page.port
            && url.host.eq_ignore_ascii_case(&self.page.host);
        Some(if same {
            UrlReference::Same(url.target)
        } else {
            let scheme = if url.scheme == UrlScheme::Https {
                "https"
            } else {
                "http"
            };
            UrlReference::Other(format!("{scheme}://{}{}", url.authority(), url.target))
        })
    }

    fn absolute(&self, written: &[u8]) -> Option<Url> {
        let written = clean(written).filter(|written| !written.is_empty())?;
        let own = if self.at.scheme == UrlScheme::Https {
            "https"
        } else {
            "http"
        };
        let (scheme, rest) = match scheme(&written) {
            Some((scheme, rest)) if rest.starts_with("//") => (scheme.to_ascii_lowercase(), rest),
            // RFC 3986 §5.4.2 allows it, and the URL Standard demands it.
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(own) => (own.to_owned(), rest),
            Some(_) => return None,
            None => (own.to_owned(), &*written),
        };
        if rest.starts_with("//") {
            if !matches!(&*scheme, "http" | "https") {
                return None;
            }
            let url = Url::parse(&format!("{scheme}:{rest}")).ok()?;
            let (path, query) = split(&url.target);
            return Some(Url {
                target: format!("{}{query}", without_dots(path)),
                ..url
            });
        }
        let (base_path, base_query) = split(&self.at.target);
        let (path, query) = split(rest);
        let target = match (path, query) {
            ("", "") => format!("{base_path}{base_query}"),
            ("", query) => format!("{base_path}{query}"),
            (path, query) if path.starts_with('/') => format!("{}{query}", without_dots(path)),
            (path, query) => {
                // §5.2.3
                let folder = &base_path[..=base_path.rfind('/').unwrap_or(0)];
                format!("{}{query}", without_dots(&format!("{folder}{path}")))
            }
        };
        Some(Url {
            target,
            ..self.at.clone()
        })
    }
}

/// The reference without its fragment, other characters percent-encoded; `None` where it is too
/// long.
fn clean(written: &[u8]) -> Option<String> {
    let trimmed = written.trim_ascii();
    let end = trimmed
        .iter()
        .position(|byte| *byte == b'#')
        .unwrap_or(trimmed.len());
    let (mut out, mut query) = (String::new(), false);
    if trimmed.len() > MAX_LENGTH {
        return None;
    }
    for byte in &trimmed[..end] {
        match byte {
            b'\t' | b'\n' | b'\r' => {}
            b'\\' if !query => out.push('/'),
            byte if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>') => {
                query |= *byte == b'?';
                out.push(char::from(*byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    // A fragment alone refers to the page itself.
    Some(out)
}

/// The scheme and the rest behind its colon (§3.1).
fn scheme(written: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = written.split_once(':')?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let is_one =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(allowed);
    is_one.then_some((scheme, rest))
}

/// Path, and query with its question mark.
fn split(target: &str) -> (&str, &str) {
    target.split_at(target.find('?').unwrap_or(target.len()))
}

/// §5.2.4, for a path that begins with a slash.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(target: &str) -> Option<UrlReference> {
        Some(UrlReference::Same(target.to_owned()))
    }

    fn other(url: &str) -> Option<UrlReference> {
        Some(UrlReference::Other(url.to_owned()))
    }

    #[test]
    fn the_examples_of_the_standard_resolve_as_it_says() {
        let base = Base::new(&Url::parse("http://a/b/c/d;p?q").unwrap());
        // RFC 3986 §5.4.1 and 5.4.2, without fragments, which are never sent
        for (written, target) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("g;x", "/b/c/g;x"),
            ("g;x?y#s", "/b/c/g;x?y"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            (".g", "/b/c/.g"),
            ("g..", "/b/c/g.."),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/./y", "/b/c/g;x=1/y"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/./x", "/b/c/g?y/./x"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("http:g", "/b/c/g"),
        ] {
            assert_eq!(base.resolve(written.as_bytes()), same(target), "{written}");
        }
        assert_eq!(base.resolve(b"//g"), other("http://g/"));
        for nothing in [
            "g:h",
            "",
            "#s",
            "  ",
            "data:image/gif;base64,AA",
            "javascript:x",
            "http://",
            "//u@g/",
        ] {
            assert_eq!(base.resolve(nothing.as_bytes()), None, "{nothing}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let base = Base::new(&Url::parse("http://A.test/x").unwrap());
        for (written, to) in [
            ("http://a.TEST:80/y", same("/y")),
            ("//a.test", same("/")),
            ("HTTP://a.test/a/../b", same("/b")),
            ("https://a.test/y", other("https://a.test/y")),
            ("//a.test:8080/y", other("http://a.test:8080/y")),
            ("//cdn.test/y?z", other("http://cdn.test/y?z")),
        ] {
            assert_eq!(base.resolve(written.as_bytes()), to, "{written}");
        }
    }

    #[test]
    fn references_are_repaired_as_browsers_do() {
        let base = Base::new(&Url::parse("http://a/").unwrap());
        for (written, target) in [
            (" a.png\n", "/a.png"),
            ("a\n b.png", "/a%20b.png"),
            ("b\\c\\..\\d", "/b/d"),
            ("?a\\b", "/?a\\b"),
            ("\u{e9}.png", "/%C3%A9.png"),
            ("a%20b|c", "/a%20b|c"),
        ] {
            assert_eq!(base.resolve(written.as_bytes()), same(target), "{written}");
        }
        assert_eq!(base.resolve(&[b'a'; MAX_LENGTH + 1]), None);
    }

    #[test]
    fn another_base_is_taken_and_may_be_another_origin() {
        let mut base = Base::new(&Url::parse("http://a/x/y").unwrap());
        base.rebase(b"sub/");
        assert_eq!(base.resolve(b"g"), same("/x/sub/g"));
        base.rebase(b"//b/z/");
        assert_eq!(base.resolve(b"g"), other("http://b/z/g"));
        assert_eq!(base.resolve(b"http://a/g"), same("/g"));
        assert_eq!(base.at("/css/a.css").resolve(b"../i.png"), same("/i.png"));
    }
}
