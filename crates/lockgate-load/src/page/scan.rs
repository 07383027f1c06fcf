//! Preload scanner: the objects of a page in the order of the document, as a browser's preload
//! scanner finds them, each with its kind and priority.

use super::html::{HtmlToken, Tag, Tokenizer};
use super::reference::{Base, UrlReference};
use super::result::ObjectKind;
use super::style::{StyleScanner, UrlUse};

/// Priority of a fetch; objects of one priority are fetched in the order of the document.
///
/// Three of the classes of browsers, which also change them after layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FetchPriority {
    /// Render-blocking: style sheets, scripts that block the parser, fonts.
    First,
    /// Scripts that do not block: async, defer, modules.
    Second,
    /// Images, media and icons, which block nothing.
    Last,
}

/// An object that a page or style sheet names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundObject {
    pub(super) kind: ObjectKind,
    pub(super) priority: FetchPriority,
    pub(super) reference: UrlReference,
}

/// Scanner of a page or style sheet.
#[derive(Debug)]
pub(super) enum ObjectScanner {
    Page(Box<PageScanner>),
    Sheet { style: StyleScanner, base: Base },
}

impl ObjectScanner {
    pub(super) fn page(base: Base) -> Self {
        Self::Page(Box::new(PageScanner {
            tokenizer: Tokenizer::new(),
            document: ObjectFinder {
                base,
                rebased: false,
                template: 0,
                picture: Choice::None,
                media: Choice::None,
                style: StyleScanner::new(),
            },
        }))
    }

    pub(super) fn sheet(base: Base) -> Self {
        Self::Sheet {
            style: StyleScanner::new(),
            base,
        }
    }

    /// Scans the next bytes; `each` gets the objects in them.
    pub(super) fn feed(&mut self, input: &[u8], each: &mut impl FnMut(FoundObject)) {
        match self {
            Self::Page(page) => {
                let PageScanner {
                    tokenizer,
                    document,
                } = &mut **page;
                tokenizer.feed(input, &mut |token| document.take(token, each));
            }
            Self::Sheet { style, base } => {
                style.feed(input, &mut |used_for, url| named(base, used_for, url, each))
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct PageScanner {
    tokenizer: Tokenizer,
    document: ObjectFinder,
}

/// A browser's choice among several sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// There is no choice to make.
    None,
    /// The next source is taken.
    Open,
    /// A source was taken, or none is fetched.
    Made,
}

#[derive(Debug)]
struct ObjectFinder {
    base: Base,
    rebased: bool,
    /// Depth within templates, which are inert (WHATWG HTML §4.12.3).
    template: usize,
    picture: Choice,
    media: Choice,
    /// Scanner of the current style element.
    style: StyleScanner,
}

impl ObjectFinder {
    fn take(&mut self, token: HtmlToken<'_>, each: &mut impl FnMut(FoundObject)) {
        match token {
            HtmlToken::Start(tag) if tag.name() == b"template" => self.template += 1,
            HtmlToken::End(b"template") => self.template = self.template.saturating_sub(1),
            _ if self.template > 0 => {}
            HtmlToken::Start(tag) => self.start(tag, each),
            HtmlToken::End(b"picture") => self.picture = Choice::None,
            HtmlToken::End(b"video" | b"audio") => self.media = Choice::None,
            HtmlToken::End(b"style") => self.style = StyleScanner::new(),
            HtmlToken::End(_) => {}
            HtmlToken::Style(text) => {
                let base = &self.base;
                self.style
                    .feed(text, &mut |used_for, url| named(base, used_for, url, each));
            }
        }
    }

    fn start(&mut self, tag: &Tag, each: &mut impl FnMut(FoundObject)) {
        let base = &self.base;
        let mut find = |kind, priority, written: Option<Vec<u8>>| {
            if let Some(reference) = written.and_then(|written| base.resolve(&written)) {
                each(FoundObject {
                    kind,
                    priority,
                    reference,
                });
            }
        };
        match tag.name() {
            b"base" if !self.rebased => {
                if let Some(href) = tag.attribute("href") {
                    self.base.rebase(&href);
                    self.rebased = true;
                }
            }
            b"script" if is_javascript(tag) => {
                let waits = ["async", "defer"]
                    .iter()
                    .all(|name| tag.attribute(name).is_none());
                let priority = if waits && !is_module(tag) {
                    FetchPriority::First
                } else {
                    FetchPriority::Second
                };
                find(ObjectKind::Script, priority, tag.attribute("src"));
            }
            b"link" => {
                if let Some((kind, priority)) = link(tag) {
                    find(kind, priority, tag.attribute("href"));
                }
            }
            b"picture" => self.picture = Choice::Open,
            b"source" if self.picture == Choice::Open => {
                if let Some(srcset) = tag.attribute("srcset") {
                    find(
                        ObjectKind::Image,
                        FetchPriority::Last,
                        Some(candidate(&srcset)),
                    );
                    self.picture = Choice::Made;
                }
            }
            b"img" => {
                let srcset = tag.attribute("srcset").map(|srcset| candidate(&srcset));
                if self.picture != Choice::Made {
                    find(
                        ObjectKind::Image,
                        FetchPriority::Last,
                        srcset.or_else(|| tag.attribute("src")),
                    );
                }
            }
            b"video" | b"audio" => {
                find(
                    ObjectKind::Image,
                    FetchPriority::Last,
                    tag.attribute("poster"),
                );
                let none = tag
                    .attribute("preload")
                    .is_some_and(|how| how.eq_ignore_ascii_case(b"none"));
                let source = tag.attribute("src").filter(|_| !none);
                self.media = if none || source.is_some() {
                    Choice::Made
                } else {
                    Choice::Open
                };
                find(ObjectKind::Media, FetchPriority::Last, source);
            }
            b"source" if self.media == Choice::Open => {
                if let Some(source) = tag.attribute("src") {
                    find(ObjectKind::Media, FetchPriority::Last, Some(source));
                    self.media = Choice::Made;
                }
            }
            b"input"
                if tag
                    .attribute("type")
                    .is_some_and(|kind| kind.eq_ignore_ascii_case(b"image")) =>
            {
                find(ObjectKind::Image, FetchPriority::Last, tag.attribute("src"));
            }
            _ => {}
        }
    }
}

fn named(base: &Base, used_for: UrlUse, url: &[u8], each: &mut impl FnMut(FoundObject)) {
    let (kind, priority) = match used_for {
        UrlUse::Import => (ObjectKind::Style, FetchPriority::First),
        UrlUse::Font => (ObjectKind::Font, FetchPriority::First),
        UrlUse::Image => (ObjectKind::Image, FetchPriority::Last),
    };
    if let Some(reference) = base.resolve(url) {
        each(FoundObject {
            kind,
            priority,
            reference,
        });
    }
}

/// Kind and priority of a link that is fetched (WHATWG HTML §4.6.8).
fn link(tag: &Tag) -> Option<(ObjectKind, FetchPriority)> {
    let rel = tag.attribute("rel")?.to_ascii_lowercase();
    let says = |word: &[u8]| rel.split(u8::is_ascii_whitespace).any(|one| one == word);
    if says(b"stylesheet") {
        let wanted = !says(b"alternate") && tag.attribute("disabled").is_none();
        return wanted.then_some((ObjectKind::Style, FetchPriority::First));
    }
    if says(b"modulepreload") {
        return Some((ObjectKind::Script, FetchPriority::Second));
    }
    if says(b"preload") {
        return match &*tag.attribute("as")?.to_ascii_lowercase() {
            b"style" => Some((ObjectKind::Style, FetchPriority::First)),
            b"script" => Some((ObjectKind::Script, FetchPriority::First)),
            b"font" => Some((ObjectKind::Font, FetchPriority::First)),
            b"image" => Some((ObjectKind::Image, FetchPriority::Last)),
            b"fetch" => Some((ObjectKind::Other, FetchPriority::Second)),
            b"track" => Some((ObjectKind::Media, FetchPriority::Last)),
            // Other destinations are not fetched.
            _ => None,
        };
    }
    says(b"icon").then_some((ObjectKind::Icon, FetchPriority::Last))
}

/// Whether a browser runs the script (WHATWG HTML §4.12.1.1).
fn is_javascript(tag: &Tag) -> bool {
    if tag.attribute("nomodule").is_some() && !is_module(tag) {
        return false;
    }
    let Some(kind) = tag.attribute("type") else {
        return true;
    };
    let kind = kind.trim_ascii().to_ascii_lowercase();
    kind.is_empty()
        || kind == b"module"
        || kind.ends_with(b"javascript")
        || kind.ends_with(b"ecmascript")
}

fn is_module(tag: &Tag) -> bool {
    tag.attribute("type")
        .is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"module"))
}

/// The URL of the first candidate of a srcset (WHATWG HTML §4.8.4.2.1).
fn candidate(srcset: &[u8]) -> Vec<u8> {
    let begin = srcset
        .iter()
        .position(|byte| !byte.is_ascii_whitespace() && *byte != b',');
    let rest = &srcset[begin.unwrap_or(srcset.len())..];
    let url = &rest[..rest
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(rest.len())];
    let end = url
        .iter()
        .rposition(|byte| *byte != b',')
        .map_or(0, |last| last + 1);
    url[..end].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Url;

    fn found(document: &str) -> Vec<String> {
        let base = Base::new(&Url::parse("http://a/dir/page").unwrap());
        let mut found = Vec::new();
        ObjectScanner::page(base).feed(document.as_bytes(), &mut |each| {
            let (UrlReference::Same(to) | UrlReference::Other(to)) = each.reference;
            found.push(format!("{:?} {:?} {to}", each.priority, each.kind));
        });
        found
    }

    #[test]
    fn each_kind_of_object_is_found_with_its_priority() {
        for (document, expected) in [
            (
                "<link rel=stylesheet href=a.css>",
                vec!["First Style /dir/a.css"],
            ),
            (
                "<link rel='Shortcut ICON' href=/i.ico>",
                vec!["Last Icon /i.ico"],
            ),
            (
                "<link rel='alternate stylesheet' href=a><link rel=stylesheet disabled href=b>",
                vec![],
            ),
            (
                "<link rel=preload as=font href=f><link rel=preload href=x>",
                vec!["First Font /dir/f"],
            ),
            (
                "<link rel=modulepreload href=m.js>",
                vec!["Second Script /dir/m.js"],
            ),
            (
                "<link rel=canonical href=c><link rel=next href=n><a href=x>",
                vec![],
            ),
            (
                "<script src=a.js></script><script async src=b.js></script><script type=module src=c.js></script>",
                vec![
                    "First Script /dir/a.js",
                    "Second Script /dir/b.js",
                    "Second Script /dir/c.js",
                ],
            ),
            (
                "<script type=text/JavaScript src=a></script><script type=application/json src=b></script>\
                 <script nomodule src=c></script><script>'<img src=d>'</script>",
                vec!["First Script /dir/a"],
            ),
            (
                "<img src=a.png><img srcset='b.png 1x, c.png 2x' src=d.png>",
                vec!["Last Image /dir/a.png", "Last Image /dir/b.png"],
            ),
            (
                "<picture><source srcset='a.avif'><source srcset=b.webp><img src=c.png></picture><img src=d.png>",
                vec!["Last Image /dir/a.avif", "Last Image /dir/d.png"],
            ),
            (
                "<video poster=p.jpg><source src=a.webm><source src=b.mp4></video><audio src=c.ogg></audio>",
                vec![
                    "Last Image /dir/p.jpg",
                    "Last Media /dir/a.webm",
                    "Last Media /dir/c.ogg",
                ],
            ),
            ("<video preload=none src=a><source src=b></video>", vec![]),
            (
                "<template><img src=a></template><img src=b>",
                vec!["Last Image /dir/b"],
            ),
            (
                "<noscript><img src=a></noscript><!-- <img src=b> -->",
                vec![],
            ),
            (
                "<base href=/other/><base href=/x/><img src=a>",
                vec!["Last Image /other/a"],
            ),
            (
                "<style>@import 'a.css';p{b:url(c.png)}</style>",
                vec!["First Style /dir/a.css", "Last Image /dir/c.png"],
            ),
            (
                "<img src='data:image/png;base64,AA'><img src=//b/c>",
                vec!["Last Image http://b/c"],
            ),
            (
                "<input type=image src=a><input src=b>",
                vec!["Last Image /dir/a"],
            ),
        ] {
            assert_eq!(found(document), expected, "{document}");
        }
    }

    #[test]
    fn the_first_candidate_of_a_set_is_taken_without_its_comma() {
        for (srcset, url) in [
            ("a.png 1x, b.png 2x", "a.png"),
            (" , a.png, b.png 2x", "a.png"),
            ("a,b.png 100w", "a,b.png"),
            ("", ""),
            (" ,, ", ""),
        ] {
            assert_eq!(
                String::from_utf8(candidate(srcset.as_bytes())).unwrap(),
                url,
                "{srcset}"
            );
        }
    }
}
