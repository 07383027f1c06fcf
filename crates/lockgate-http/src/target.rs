//! Request targets: their forms (RFC 9112 §3.2), authorities (RFC 3986 §3.2), and the path as
//! routing, rules and files see it.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use crate::head::Method;

/// A request-target, by its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetForm<'a> {
    /// `/path?query`: the usual form.
    Origin {
        /// From its first slash.
        path: &'a [u8],
        /// Behind the first question mark.
        query: Option<&'a [u8]>,
    },
    /// `http://host/path?query`, as to a forward proxy; servers must accept it, too. Its authority
    /// overrides Host.
    Absolute {
        /// Whether the scheme is https.
        secure: bool,
        /// The host and port of the URL.
        authority: Authority<'a>,
        /// From its first slash; `/` if there is none.
        path: &'a [u8],
        /// Behind the first question mark.
        query: Option<&'a [u8]>,
    },
    /// `host:port`, the only form of CONNECT.
    Authority(Authority<'a>),
    /// `*`: OPTIONS for the server as a whole.
    Asterisk,
}

/// The reason why a target, a Host or a path is refused: always 400 (RFC 9112 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// None of the four forms, or one that this method does not allow.
    #[error("the form of the request-target does not fit the method")]
    Form,
    /// Not a host and port: userinfo, characters that hosts do not have, a port above 65535.
    #[error("host and port are malformed")]
    Authority,
    /// A `%` without two hexadecimal digits, an escaped NUL, or an overlong UTF-8 sequence.
    #[error("the path has a malformed escape")]
    Escape,
    /// A path that origins may read differently: an escaped slash or backslash, a backslash, dot
    /// segments.
    #[error("the path is ambiguous")]
    Ambiguous,
}

/// Parses a request-target of visible ASCII characters, which [`h1::parse`](crate::h1::parse)
/// ensures.
///
/// # Errors
/// When it has none of the forms, or its host is invalid.
pub fn parse(method: Method, target: &[u8]) -> Result<TargetForm<'_>, TargetError> {
    if method == Method::Connect {
        let authority = Authority::parse(target)?;
        return if authority.port.is_some() {
            Ok(TargetForm::Authority(authority))
        } else {
            Err(TargetError::Authority)
        };
    }
    match target {
        b"*" if method == Method::Options => Ok(TargetForm::Asterisk),
        [b'/', ..] => {
            let (path, query) = split_query(target)?;
            Ok(TargetForm::Origin { path, query })
        }
        _ => absolute(target),
    }
}

fn absolute(target: &[u8]) -> Result<TargetForm<'_>, TargetError> {
    let scheme = |scheme: &[u8]| {
        let (found, rest) = target.split_at_checked(scheme.len())?;
        found.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let (secure, rest) = match (scheme(b"http://"), scheme(b"https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err(TargetError::Form),
    };
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (path, query) = split_query(rest)?;
    let path = if path.is_empty() { b"/" } else { path };
    Ok(TargetForm::Absolute {
        secure,
        authority: Authority::parse(authority)?,
        path,
        query,
    })
}

/// A target for display: an authority with user and password (RFC 3986 §3.2.1) is refused, but the
/// sender means these to stay secret.
pub fn without_userinfo(target: &[u8]) -> Cow<'_, [u8]> {
    let start = match target.windows(3).position(|text| text == b"://") {
        _ if target.starts_with(b"/") => return Cow::Borrowed(target),
        Some(at) => at + 3,
        None => 0,
    };
    let (scheme, rest) = target.split_at(start);
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .unwrap_or(rest.len());
    match rest[..end].iter().rposition(|byte| *byte == b'@') {
        Some(at) => Cow::Owned([scheme, b"***", &rest[at..]].concat()),
        None => Cow::Borrowed(target),
    }
}

fn split_query(target: &[u8]) -> Result<(&[u8], Option<&[u8]>), TargetError> {
    let (path, query) = match target.iter().position(|byte| matches!(byte, b'?' | b'#')) {
        Some(at) if target[at] == b'?' => (&target[..at], Some(&target[at + 1..])),
        Some(_) => return Err(TargetError::Form),
        None => (target, None),
    };
    // RFC 9112 §3.2: a target has no fragment.
    if query.is_some_and(|query| query.contains(&b'#')) {
        Err(TargetError::Form)
    } else {
        Ok((path, query))
    }
}

/// A host with an optional port, as in Host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a> {
    /// The host as it was written: a name, an IPv4 address, or an IPv6 address with its brackets.
    pub host: &'a str,
    /// The port, if it was written.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Parses `host[:port]`. An empty port is none (RFC 3986 §3.2.3).
    ///
    /// # Errors
    /// Userinfo, an empty host, an invalid address in brackets, characters beyond letters, digits,
    /// `-`, `.` and `_`: international names come as `xn--` (RFC 5890), and escapes would be a
    /// second spelling.
    pub fn parse(text: &'a [u8]) -> Result<Self, TargetError> {
        let text = std::str::from_utf8(text).map_err(|_| TargetError::Authority)?;
        let end = match text.strip_prefix('[') {
            Some(rest) => {
                let end = rest.find(']').ok_or(TargetError::Authority)?;
                rest[..end]
                    .parse::<Ipv6Addr>()
                    .map_err(|_| TargetError::Authority)?;
                end + 2
            }
            None => host_length(text.as_bytes())?,
        };
        let (host, port) = text.split_at(end);
        let port = match port.as_bytes() {
            [] | [b':'] => None,
            [b':', digits @ ..] => Some(port_of(digits)?),
            _ => return Err(TargetError::Authority),
        };
        Ok(Self { host, port })
    }

    /// The host as routing compares it: in lower case, without the last dot (RFC 1034 §3.1); an
    /// IPv6 address in its canonical spelling (RFC 5952 §4).
    pub fn name(&self) -> Cow<'a, str> {
        let host = self.host.strip_suffix('.').unwrap_or(self.host);
        if host.starts_with('[') {
            return ipv6_name(host);
        }
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            host.to_ascii_lowercase().into()
        } else {
            host.into()
        }
    }
}

/// The canonical spelling of an IPv6 host, which is in brackets.
#[cold]
fn ipv6_name(host: &str) -> Cow<'_, str> {
    let ip = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok());
    let usual = ip.map(|ip| format!("[{ip}]"));
    usual
        .filter(|usual| usual != host)
        .map_or(host.into(), Cow::Owned)
}

/// The length of the name or IPv4 address at the front of `text`; a port may follow.
fn host_length(text: &[u8]) -> Result<usize, TargetError> {
    // One look at each byte: this runs for every request.
    let (mut label, mut last, mut end) = (0, 0, text.len());
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => {}
            b'.' if at > label => (last, label) = (label, at + 1),
            b':' => {
                end = at;
                break;
            }
            _ => return Err(TargetError::Authority),
        }
    }
    // A dot at the end belongs to no label.
    let (last, behind) = if label == end {
        (last, end.saturating_sub(1))
    } else {
        (label, end)
    };
    if last == behind || end > 254 {
        return Err(TargetError::Authority);
    }
    // "1.2.3.400" is neither a name nor an address, and "0x7f.1" is an address to some (RFC 3986
    // §7.4).
    let label = &text[last..behind];
    let numeric = label[0].is_ascii_digit()
        && (label.iter().all(u8::is_ascii_digit)
            || label.starts_with(b"0x")
            || label.starts_with(b"0X"));
    if numeric && !is_ipv4(&text[..end]) {
        Err(TargetError::Authority)
    } else {
        Ok(end)
    }
}

/// RFC 3986 §3.2.2: four numbers up to 255 without leading zeros. The library's parser takes five
/// times as long.
fn is_ipv4(text: &[u8]) -> bool {
    let (mut octets, mut digits, mut octet) = (1, 0, 0_u16);
    for &byte in text {
        match byte {
            b'0'..=b'9' if digits < 3 && (digits == 0 || octet > 0) => {
                octet = octet * 10 + u16::from(byte - b'0');
                digits += 1;
            }
            b'.' if digits > 0 && octet < 256 => {
                octets += 1;
                (digits, octet) = (0, 0);
            }
            _ => return false,
        }
    }
    octets == 4 && digits > 0 && octet < 256
}

fn port_of(digits: &[u8]) -> Result<u16, TargetError> {
    if digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(TargetError::Authority);
    }
    let port = digits
        .iter()
        .fold(0_u32, |port, digit| port * 10 + u32::from(digit - b'0'));
    u16::try_from(port).map_err(|_| TargetError::Authority)
}

/// The path with its escapes decoded: rules compare this form, so that no spelling bypasses them.
///
/// # Errors
/// Malformed escapes, NUL, and anything that an origin could read differently: `%2f`, `%5c`, a
/// backslash, dot segments in any spelling. Path traversal in every published form is among these
/// (CWE-22, CWE-180).
pub fn decode(path: &[u8]) -> Result<Cow<'_, [u8]>, TargetError> {
    let decoded = unescape(path)?;
    // With parameters, too: some servers strip these first (CVE-2020-5902).
    let dotted = |segment: &[u8]| {
        matches!(
            segment,
            b"." | b".." | [b'.', b';', ..] | [b'.', b'.', b';', ..]
        )
    };
    if memchr::memchr2(b'.', b'\\', &decoded).is_some()
        && (decoded.contains(&b'\\') || decoded.split(|&byte| byte == b'/').any(dotted))
    {
        return Err(TargetError::Ambiguous);
    }
    Ok(decoded)
}

fn unescape(path: &[u8]) -> Result<Cow<'_, [u8]>, TargetError> {
    let Some(first) = memchr::memchr(b'%', path) else {
        return Ok(Cow::Borrowed(path));
    };
    let mut decoded = path[..first].to_vec();
    let mut rest = &path[first..];
    let mut ambiguous = false;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let &[high, low, ref behind @ ..] = behind else {
            return Err(TargetError::Escape);
        };
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or(TargetError::Escape);
        match (digit(high)? * 16 + digit(low)?) as u8 {
            0 => return Err(TargetError::Escape),
            b'/' | b'\\' => ambiguous = true,
            // RFC 3629 §10: "C0 AE" was a dot to many (CVE-2000-0884, CVE-2008-2938).
            byte @ 0x80..=0xbf if is_overlong(decoded.last().copied(), byte) => {
                return Err(TargetError::Escape);
            }
            byte => decoded.push(byte),
        }
        rest = behind;
    }
    // Last, so that malformed escapes are reported as such.
    if ambiguous {
        Err(TargetError::Ambiguous)
    } else {
        Ok(Cow::Owned(decoded))
    }
}

/// Whether two bytes begin an overlong UTF-8 sequence.
fn is_overlong(first: Option<u8>, second: u8) -> bool {
    match first {
        Some(0xc0 | 0xc1) => true,
        Some(0xe0) => second < 0xa0,
        Some(0xf0) => second < 0x90,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(method: Method, target: &str) -> Option<(String, Option<String>)> {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        match parse(method, target.as_bytes()) {
            Ok(TargetForm::Origin { path, query }) => Some((text(path), query.map(text))),
            _ => None,
        }
    }

    /// RFC 9112 §3.2.1 to §3.2.4.
    #[test]
    fn each_request_target_form_goes_with_its_methods() {
        assert_eq!(
            origin(Method::Get, "/a/b?c?d"),
            Some(("/a/b".into(), Some("c?d".into())))
        );
        assert_eq!(origin(Method::Get, "//a"), Some(("//a".into(), None)));
        assert_eq!(parse(Method::Options, b"*"), Ok(TargetForm::Asterisk));
        let host = |port| super::Authority {
            host: "a.example",
            port,
        };
        assert_eq!(
            parse(Method::Connect, b"a.example:443"),
            Ok(TargetForm::Authority(host(Some(443))))
        );
        for (target, path, query) in [
            ("HTTP://a.example", &b"/"[..], None),
            ("http://a.example/b?c", b"/b", Some(&b"c"[..])),
            ("http://a.example?c", b"/", Some(b"c")),
        ] {
            let absolute = TargetForm::Absolute {
                secure: false,
                authority: host(None),
                path,
                query,
            };
            assert_eq!(
                parse(Method::Get, target.as_bytes()),
                Ok(absolute),
                "{target}"
            );
        }
        use TargetError::*;
        for (method, target, error) in [
            (Method::Get, "*", Form),
            (Method::Get, "a.example:443", Form),
            (Method::Get, "a", Form),
            (Method::Get, "ftp://a/", Form),
            (Method::Get, "http:/a", Form),
            (Method::Get, "/a#b", Form),
            (Method::Get, "http://", Authority),
            (Method::Get, "http://user@a/", Authority),
            (Method::Get, "http://a:b/", Authority),
            (Method::Connect, "a.example", Authority),
            (Method::Connect, "a.example:", Authority),
            (Method::Connect, "/", Authority),
            (Method::Connect, "http://a:1/", Authority),
        ] {
            assert_eq!(
                parse(method, target.as_bytes()),
                Err(error),
                "{method:?} {target}"
            );
        }
    }

    #[test]
    fn a_host_is_a_reg_name_or_ip_address() {
        let read = |text: &str| {
            Authority::parse(text.as_bytes())
                .ok()
                .map(|authority| (authority.name().into_owned(), authority.port))
        };
        for (text, name, port) in [
            ("a.example", "a.example", None),
            ("A.Example.:8080", "a.example", Some(8080)),
            ("a.example:", "a.example", None),
            ("localhost", "localhost", None),
            ("xn--bcher-kva.example", "xn--bcher-kva.example", None),
            ("a_b-c.example", "a_b-c.example", None),
            ("192.0.2.1:65535", "192.0.2.1", Some(65535)),
            ("[2001:DB8::1]:1", "[2001:db8::1]", Some(1)),
            ("[::1]", "[::1]", None),
            ("[0:0:0:0:0:0:0:1]:80", "[::1]", Some(80)),
            ("[2001:DB8:0:0::00A]", "[2001:db8::a]", None),
            ("[::FFFF:192.0.2.1]", "[::ffff:192.0.2.1]", None),
            ("[::ffff:c000:201]", "[::ffff:192.0.2.1]", None),
        ] {
            assert_eq!(read(text), Some((name.to_owned(), port)), "{text}");
        }
        for text in [
            "",
            ".",
            ":80",
            "a..b",
            ".a",
            "a b",
            "a,b",
            "user@a",
            "a/b",
            "a?b",
            "b\u{fc}cher.example",
            "a%2eb",
            "a:65536",
            "a:-1",
            "a:8a",
            "a:1:2",
            "::1",
            "[::1",
            "[a]",
            "[::1]a",
            "[fe80::1%25eth0]",
            "[v1.a]",
            "192.0.2.256",
            "1.2.3",
            "0x7f.1",
            "a.0x1",
            "127.1",
            "a\0",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read(&"a.".repeat(127)).map(|read| read.0.len()), Some(253));
        assert_eq!(read(&"a".repeat(255)), None);
    }

    #[test]
    fn a_path_is_percent_decoded_once() {
        for (path, decoded) in [
            ("/a", "/a"),
            ("/%61%2D%7e", "/a-~"),
            ("/%25%32%66", "/%2f"),
            ("/a%20b", "/a b"),
            ("/a//b", "/a//b"),
            ("/.a/b./c..d/...", "/.a/b./c..d/..."),
            ("/%c3%a4", "/\u{e4}"),
            ("/%e2%82%ac%f0%9f%98%80", "/\u{20ac}\u{1f600}"),
            ("/a;b/c.;", "/a;b/c.;"),
        ] {
            assert_eq!(
                decode(path.as_bytes()).unwrap(),
                decoded.as_bytes(),
                "{path}"
            );
        }
    }

    #[test]
    fn encoded_slashes_and_dot_segments_are_refused() {
        use TargetError::*;
        for (path, error) in [
            ("/a%2fb", Ambiguous),
            ("/a%2Fb", Ambiguous),
            ("/a%5cb", Ambiguous),
            ("/a\\b", Ambiguous),
            ("/./a", Ambiguous),
            ("/a/..", Ambiguous),
            ("/../a", Ambiguous),
            ("/a/%2e%2E/b", Ambiguous),
            ("/%2e", Ambiguous),
            ("/.%2e/a", Ambiguous),
            ("/a/.", Ambiguous),
            ("/a/..;/b", Ambiguous),
            ("/a/.;x", Ambiguous),
            ("/a%2f%00", Escape),
            ("/%2f%", Escape),
            ("/%c0%ae", Escape),
            ("/%c0%af", Escape),
            ("/%c1%9c", Escape),
            ("/%e0%80%af", Escape),
            ("/%f0%80%80%af", Escape),
            ("/%00", Escape),
            ("/%", Escape),
            ("/%2", Escape),
            ("/%zz", Escape),
            ("/%+1", Escape),
            ("/a%", Escape),
        ] {
            assert_eq!(decode(path.as_bytes()), Err(error), "{path}");
        }
    }

    #[test]
    fn userinfo_in_a_request_target_is_masked() {
        for (target, shown) in [
            ("http://user:secret@a.test/x?y", "http://***@a.test/x?y"),
            ("ftp://user:se@cret@a.test", "ftp://***@a.test"),
            ("user:secret@a.test:443", "***@a.test:443"),
            ("@", "***@"),
            ("http://a.test/~u@b?c@d", "http://a.test/~u@b?c@d"),
            ("http://a.test?u@b", "http://a.test?u@b"),
            ("a.test:443", "a.test:443"),
            ("/a@b://c@d", "/a@b://c@d"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(without_userinfo(target.as_bytes()), shown.as_bytes());
        }
    }
}
