//! Interpretations of a path by different servers: a rule that holds for one of them and not for
//! another can be bypassed.
//!
//! Whether an escaped slash is a slash, a backslash is one, a parameter behind a semicolon belongs
//! to its segment, and dot segments are resolved depends on the server ("Breaking Parser Logic",
//! Tsai 2018; CVE-2020-5902, CVE-2021-41773). The usual path has none of these.

/// Every interpretation of a path with well-formed escapes; repeated slashes count as one.
pub fn interpretations(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0_u8..16).map(|habits| {
        let has = |habit: u8| habits & habit != 0;
        read(path, has(1), has(2), has(4), has(8))
    })
}

/// The path without parameters behind semicolons in its segments (RFC 3986 §3.3).
pub fn without_parameters(path: &[u8]) -> Vec<u8> {
    resolve(path, true, false)
}

fn read(path: &[u8], unescape: bool, backslash: bool, parameters: bool, dots: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, behind @ ..] = rest {
        let (byte, behind) = match escaped(rest) {
            Some((b'/' | b'\\', _)) if !unescape => (*byte, behind),
            Some((byte, behind)) => (byte, behind),
            None => (*byte, behind),
        };
        text.push(if byte == b'\\' && backslash {
            b'/'
        } else {
            byte
        });
        rest = behind;
    }
    resolve(&text, parameters, dots)
}

/// The byte that an escape of three bytes stands for, and the rest.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, behind @ ..] = text else {
        return None;
    };
    let digit = |byte: u8| (byte as char).to_digit(16);
    Some(((digit(*high)? * 16 + digit(*low)?) as u8, behind))
}

fn resolve(path: &[u8], parameters: bool, dots: bool) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    // A path that ends in a slash or a dot segment ends in an empty segment.
    let mut open = false;
    for segment in path.split(|&byte| byte == b'/') {
        let end = if parameters {
            memchr::memchr(b';', segment)
        } else {
            None
        };
        let segment = &segment[..end.unwrap_or(segment.len())];
        open = true;
        match segment {
            b"" => {}
            b"." if dots => {}
            b".." if dots => {
                segments.pop();
            }
            _ => {
                segments.push(segment);
                open = false;
            }
        }
    }
    if open {
        segments.push(b"");
    }
    let mut whole = Vec::with_capacity(path.len() + 1);
    for segment in segments {
        whole.push(b'/');
        whole.extend_from_slice(segment);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &str) -> Vec<String> {
        let mut all: Vec<_> = interpretations(path.as_bytes())
            .map(|reading| reading.escape_ascii().to_string())
            .collect();
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn an_unambiguous_path_has_one_interpretation() {
        for path in ["/", "/a", "/a/", "/a/b..c/.d"] {
            assert_eq!(all(path), [path]);
        }
        assert_eq!(all("//a///b//"), ["/a/b/"]);
        assert_eq!(all("/%61%2D"), ["/a-"]);
    }

    #[test]
    fn every_path_normalization_of_a_server_is_an_interpretation() {
        assert_eq!(all("/x/../a"), ["/a", "/x/../a"]);
        assert_eq!(all("/x/.."), ["/", "/x/.."]);
        assert_eq!(all("/../a/."), ["/../a/.", "/a/"]);
        assert_eq!(all("/x%2fa"), ["/x%2fa", "/x/a"]);
        assert_eq!(all("/x\\a"), ["/x/a", r"/x\\a"]);
        assert_eq!(all("/a;b/c"), ["/a/c", "/a;b/c"]);
        assert_eq!(all("/x/..;/a"), ["/a", "/x/../a", "/x/..;/a"]);
        for (path, hidden) in [
            ("/x/%2e%2e%5c%61", "/a"),
            ("/a/..%2fx", "/a/..%2fx"),
            ("/a/..%2fx", "/x"),
            ("/x%5c..%5ca;b/c", "/a/c"),
        ] {
            assert!(
                all(path).iter().any(|reading| reading == hidden),
                "{path}: {:?}",
                all(path)
            );
        }
        assert_eq!(without_parameters(b"/;x/a;b=c/d"), b"/a/d");
    }
}
