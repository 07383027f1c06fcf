//! Cache-Control of responses (RFC 9111 §5.2).

use lockgate_http::fields::Fields;

use crate::media_range::MediaRange;
use crate::pattern::Pattern;

/// The rules of Cache-Control. The first matching rule of `paths` applies, else the first of
/// `types`, else `hashed` for a file with a hash of its content in its name, else `otherwise`.
/// `None` leaves the response unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caching {
    /// Rules by request path, the more specific first.
    pub paths: Vec<(Pattern, Option<String>)>,
    /// Rules by media type.
    pub types: Vec<(MediaRange, Option<String>)>,
    /// The value for files with a hash in their names.
    pub hashed: Option<String>,
    /// The value for all other responses.
    pub otherwise: Option<String>,
}

impl Caching {
    /// The value of Cache-Control for a response of this media type to a request for this decoded
    /// path; `name` is the name of the file, if a file is sent.
    pub fn of(&self, path: &[u8], content_type: &[u8], name: Option<&[u8]>) -> Option<&str> {
        let by_path = self.paths.iter().find(|(pattern, _)| pattern.matches(path));
        if let Some((_, said)) = by_path {
            return said.as_deref();
        }
        if let Some((_, said)) = self
            .types
            .iter()
            .find(|(range, _)| range.matches(content_type))
        {
            return said.as_deref();
        }
        let hashed = self
            .hashed
            .as_deref()
            .filter(|_| name.is_some_and(has_hash));
        hashed.or(self.otherwise.as_deref())
    }

    /// Adds Cache-Control to an origin's response that has none. Error responses are left alone.
    pub fn apply(&self, status: u16, path: &[u8], fields: &mut Fields) {
        let own = [&b"cache-control"[..], b"expires"];
        if !matches!(status, 200..=299 | 304)
            || own.iter().any(|name| fields.named(name).next().is_some())
        {
            return;
        }
        let content_type = fields
            .named(b"content-type")
            .next()
            .unwrap_or_default()
            .to_vec();
        // A 304 may lack Content-Type (RFC 9110 §15.4.5), and its Cache-Control replaces that of
        // the stored response: without the type, a rule by type cannot be applied.
        let untold = status == 304 && content_type.is_empty() && !self.types.is_empty();
        if untold && !self.paths.iter().any(|(pattern, _)| pattern.matches(path)) {
            return;
        }
        if let Some(said) = self.of(path, &content_type, None) {
            fields.append(b"Cache-Control", said.as_bytes());
        }
    }
}

/// Extensions of the files that bundlers write.
const BUNDLED: [&[u8]; 7] = [b"css", b"js", b"mjs", b"map", b"wasm", b"woff", b"woff2"];

/// Whether a file's name has a hash of its content, as bundlers write it: `app.3f2a9c1b.js`,
/// `index-BX7d8sQk.css`. The hash follows the last `.` or `-` before the extension. It is at least
/// eight hexadecimal digits, one of them a letter unless there are sixteen; or at least eight
/// letters and digits that change at least four times between digit, capital and small letter, more
/// often than a word with a number does. Only extensions that bundlers write count: pages, pictures
/// and documents often have such names by hand.
pub fn has_hash(name: &[u8]) -> bool {
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let Some(dot) = memchr::memrchr(b'.', name) else {
        return false;
    };
    if !BUNDLED.contains(&&name[dot + 1..]) {
        return false;
    }
    let stem = name[..dot].strip_suffix(b".min").unwrap_or(&name[..dot]);
    let Some(before) = stem.iter().rposition(|byte| matches!(byte, b'.' | b'-')) else {
        return false;
    };
    let hash = &stem[before + 1..];
    if before == 0 || hash.len() < 8 || !hash.iter().any(u8::is_ascii_digit) {
        return false;
    }
    if hash.iter().all(u8::is_ascii_hexdigit) {
        return hash.iter().any(u8::is_ascii_alphabetic) || hash.len() >= 16;
    }
    let kind = |byte: &u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    hash.iter().all(word)
        && hash
            .windows(2)
            .filter(|pair| kind(&pair[0]) != kind(&pair[1]))
            .count()
            >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_file_names_are_distinguished_from_words_and_dates() {
        for name in [
            "app.3f2a9c1b.js",
            "index-BX7d8sQk.css",
            "chunk-vendors.0a1b2c3d4e5f.min.js",
            "assets/font.d41d8cd98f00b204e9800998ecf8427e.woff2",
            "main.12345678901234567890.js",
            "a-Dq_8sX2v.woff2",
        ] {
            assert!(has_hash(name.as_bytes()), "{name}");
        }
        for name in [
            "index.html",
            "jquery-3.7.1.min.js",
            "report-20261122.pdf",
            "post-2026-11-22.html",
            "bootstrap.bundle.min.js",
            "deadbeef.js",
            "photo-IMG20261122.jpg",
            "a.b",
            "decade-accede.css",
            "book-Chapter1.pdf",
            "guide-Version2.pdf",
            "IMG-Photo2024a.jpg",
            "page.3f2a9c1b.html",
            "avatar-550e8400.jpg",
            "Report-FinalV2Draft.pdf",
            "",
        ] {
            assert!(!has_hash(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn cache_control_rules_apply_path_then_type_then_default() {
        let say = |text: &str| Some(text.to_owned());
        let caching = Caching {
            paths: vec![
                (Pattern::parse("/assets/*").unwrap(), say("path")),
                (Pattern::parse("/own").unwrap(), None),
            ],
            types: vec![(MediaRange::Under("text".into()), say("type"))],
            hashed: say("hashed"),
            otherwise: say("otherwise"),
        };
        for (path, content_type, name, said) in [
            ("/assets/a.css", "text/css", "a.css", Some("path")),
            ("/own", "text/css", "own", None),
            ("/a.css", "text/css", "a.css", Some("type")),
            ("/a.1234567a.js", "x/y", "a.1234567a.js", Some("hashed")),
            ("/a.js", "x/y", "a.js", Some("otherwise")),
        ] {
            let found = caching.of(
                path.as_bytes(),
                content_type.as_bytes(),
                Some(name.as_bytes()),
            );
            assert_eq!(found, said, "{path}");
        }
    }

    #[test]
    fn a_304_without_a_type_gets_cache_control_by_path() {
        let say = |text: &str| Some(text.to_owned());
        let mut caching = Caching {
            paths: vec![(Pattern::parse("/assets/*").unwrap(), say("path"))],
            otherwise: say("otherwise"),
            ..Caching::default()
        };
        let said = |caching: &Caching, path: &str| {
            let mut fields = Fields::default();
            caching.apply(304, path.as_bytes(), &mut fields);
            fields
                .named(b"cache-control")
                .next()
                .map(|said| String::from_utf8_lossy(said).into_owned())
        };
        assert_eq!(said(&caching, "/a"), say("otherwise"));
        caching
            .types
            .push((MediaRange::Under("text".into()), say("type")));
        assert_eq!(
            (said(&caching, "/a"), said(&caching, "/assets/a")),
            (None, say("path"))
        );
    }
}
