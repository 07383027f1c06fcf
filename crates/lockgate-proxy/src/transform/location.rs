//! The rewriting of locations in an origin's response, for the client: Location, Content-Location,
//! Refresh and the path of cookies.
//!
//! An origin behind a prefix or another scheme does not know it, unless it heeds `X-Forwarded-*`;
//! then its URLs are public already and stay. So does every URL of another host, and every value
//! that is no such URL.

use lockgate_http::fields::Fields;
use lockgate_http::target::Authority;

/// An authority that means the origin itself: an endpoint's address or name with its port, or the
/// Host that it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginAuthority<'a> {
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    pub host: &'a str,
    /// The port.
    pub port: u16,
}

/// The URL that the client asked for, and the origins that were asked instead.
#[derive(Debug, Clone, Copy)]
pub struct PublicUrl<'a> {
    /// Whether the client came over TLS.
    pub secure: bool,
    /// Host and port as the client wrote them; empty if it named none.
    pub authority: &'a [u8],
    /// The names that the origin might use for itself.
    pub origins: &'a [OriginAuthority<'a>],
    /// The raw prefix that was left out of the path:
    /// [`TargetRewrite::stripped`](lockgate_rules::target::TargetRewrite::stripped).
    pub prefix: &'a [u8],
}

/// The fields that have a URL or a path of the origin's in them.
enum UrlField {
    Url,
    Refresh,
    Cookie,
}

impl UrlField {
    fn of(name: &[u8]) -> Option<Self> {
        let (kind, spelling) = match name.len() {
            7 => (Self::Refresh, &b"refresh"[..]),
            8 => (Self::Url, &b"location"[..]),
            10 => (Self::Cookie, &b"set-cookie"[..]),
            16 => (Self::Url, &b"content-location"[..]),
            _ => return None,
        };
        name.eq_ignore_ascii_case(spelling).then_some(kind)
    }
}

impl PublicUrl<'_> {
    /// Makes the fields of a response right for the client.
    pub fn restore(&self, fields: &mut Fields) {
        fields.revise(|field, out| match UrlField::of(field.name) {
            Some(UrlField::Url) => self.url(field.value, out),
            Some(UrlField::Refresh) => self.refresh(field.value, out),
            Some(UrlField::Cookie) => self.cookie(field.value, out),
            None => false,
        });
    }

    /// Writes the public form of a URL reference (RFC 3986 §4.1), if it has one.
    fn url(&self, url: &[u8], out: &mut Vec<u8>) -> bool {
        if let Some((scheme, authority, rest)) = split_authority(url) {
            let Ok(authority) = Authority::parse(authority) else {
                return false;
            };
            if !self.is_origin(scheme, &authority) || self.authority.is_empty() {
                return false;
            }
            out.extend_from_slice(if self.secure { b"https://" } else { b"http://" });
            out.extend_from_slice(self.authority);
            out.extend_from_slice(self.prefix);
            if !self.prefix.is_empty() && !rest.starts_with(b"/") {
                out.push(b'/');
            }
            out.extend_from_slice(rest);
            return true;
        }
        // What is relative to the request's own path, or of another scheme, is right as it is.
        // Browsers take a backslash for a slash, so "/\" begins a host as "//" does.
        if self.prefix.is_empty()
            || !matches!(url, [b'/'] | [b'/', b'!'..=b'.' | b'0'..=b'[' | b']'..=b'~', ..])
        {
            return false;
        }
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(url);
        true
    }

    /// Whether a URL with this authority is one of the origin's, and not of what the client asked
    /// for.
    fn is_origin(&self, scheme: LinkScheme, authority: &Authority<'_>) -> bool {
        let name = authority.name();
        if let Ok(public) = Authority::parse(self.authority)
            && public.name() == name
        {
            let same_port =
                |default| authority.port.unwrap_or(default) == public.port.unwrap_or(default);
            match (scheme, self.secure) {
                (LinkScheme::Http, false) if same_port(80) => return false,
                (LinkScheme::Https, true) if same_port(443) => return false,
                (LinkScheme::Relative, _) if authority.port == public.port => return false,
                // It made a URL of Host and does not know of the TLS in front of it.
                (LinkScheme::Http, true) if authority.port == public.port => return true,
                _ => {}
            }
        }
        let port = |port: u16| match (authority.port, scheme) {
            (Some(explicit), _) => port == explicit,
            (None, LinkScheme::Http) => port == 80,
            (None, LinkScheme::Https) => port == 443,
            (None, LinkScheme::Relative) => matches!(port, 80 | 443),
        };
        self.origins
            .iter()
            .any(|origin| port(origin.port) && name.eq_ignore_ascii_case(origin.host))
    }

    /// `5; url=…`, as browsers read it: quotes or none.
    fn refresh(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(separator) = value.iter().position(|byte| matches!(byte, b';' | b',')) else {
            return false;
        };
        let rest = value[separator + 1..].trim_ascii_start();
        let Some((_, rest)) = rest
            .split_at_checked(3)
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"url"))
        else {
            return false;
        };
        let Some(rest) = rest.trim_ascii_start().strip_prefix(b"=") else {
            return false;
        };
        let rest = rest.trim_ascii_start();
        let (rest, url) = match rest {
            [quote @ (b'"' | b'\''), rest @ ..] => (rest, rest.split(|byte| byte == quote).next()),
            rest => (rest, Some(rest)),
        };
        let url = url.unwrap_or_default();
        out.extend_from_slice(&value[..value.len() - rest.len()]);
        if !self.url(url, out) {
            return false;
        }
        out.extend_from_slice(&rest[url.len()..]);
        true
    }

    /// Puts the prefix before the value of every Path attribute (RFC 6265 §5.2.4).
    fn cookie(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        // A cookie with this name is for the whole host, or refused (RFC 6265bis §4.1.3.2).
        if self.prefix.is_empty()
            || value
                .get(..7)
                .is_some_and(|name| name.eq_ignore_ascii_case(b"__Host-"))
        {
            return false;
        }
        let mut changed = false;
        for (at, attribute) in value.split(|&byte| byte == b';').enumerate() {
            if at > 0 {
                out.push(b';');
            }
            match path_of(attribute).filter(|_| at > 0) {
                Some(path) => {
                    let before = attribute.len() - path.len();
                    out.extend_from_slice(&attribute[..before]);
                    self.cookie_prefix(out);
                    // Path=/api also means /api/ and all below, but Path=/api/ not /api (RFC 6265
                    // §5.1.4).
                    let path = if path.trim_ascii_end() == b"/" {
                        &path[1..]
                    } else {
                        path
                    };
                    out.extend_from_slice(path);
                    changed = true;
                }
                None => out.extend_from_slice(attribute),
            }
        }
        changed
    }

    /// The client wrote the prefix, and a semicolon in it would begin another attribute.
    fn cookie_prefix(&self, out: &mut Vec<u8>) {
        for &byte in self.prefix {
            match byte {
                b';' => out.extend_from_slice(b"%3B"),
                byte => out.push(byte),
            }
        }
    }
}

/// The beginning of a URL with an authority.
#[derive(Debug, Clone, Copy)]
enum LinkScheme {
    Http,
    Https,
    /// `//host/path`.
    Relative,
}

/// Takes a URL apart into scheme, authority, and what follows it. `None` if there is no authority.
fn split_authority(url: &[u8]) -> Option<(LinkScheme, &[u8], &[u8])> {
    let begins = |text: &[u8]| {
        let (found, rest) = url.split_at_checked(text.len())?;
        found.eq_ignore_ascii_case(text).then_some(rest)
    };
    let (scheme, rest) = (begins(b"http://").map(|rest| (LinkScheme::Http, rest)))
        .or_else(|| begins(b"https://").map(|rest| (LinkScheme::Https, rest)))
        .or_else(|| begins(b"//").map(|rest| (LinkScheme::Relative, rest)))?;
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    Some((scheme, authority, rest))
}

/// The value of a Path attribute, if this is one that a browser heeds, with the whitespace behind
/// it.
fn path_of(attribute: &[u8]) -> Option<&[u8]> {
    let equals = memchr::memchr(b'=', attribute)?;
    let (name, value) = (
        attribute[..equals].trim_ascii(),
        attribute[equals + 1..].trim_ascii_start(),
    );
    (name.eq_ignore_ascii_case(b"path") && value.starts_with(b"/")).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINS: &[OriginAuthority<'static>] = &[
        OriginAuthority {
            host: "127.0.0.1",
            port: 1080,
        },
        OriginAuthority {
            host: "app.internal",
            port: 80,
        },
        OriginAuthority {
            host: "tls.internal",
            port: 443,
        },
        OriginAuthority {
            host: "[::1]",
            port: 1080,
        },
    ];

    fn public(secure: bool, prefix: &'static str) -> PublicUrl<'static> {
        PublicUrl {
            secure,
            authority: b"up.example.com",
            origins: ORIGINS,
            prefix: prefix.as_bytes(),
        }
    }

    fn restored(public: &PublicUrl<'_>, name: &str, value: &str) -> String {
        let mut fields = Fields::default();
        fields.append(name.as_bytes(), value.as_bytes());
        public.restore(&mut fields);
        String::from_utf8(fields.iter().next().unwrap().value.to_vec()).unwrap()
    }

    #[test]
    fn location_urls_of_the_origin_become_public() {
        let public = public(true, "");
        for (said, seen) in [
            // An upload server of the tus protocol, that does not heed X-Forwarded-*.
            (
                "http://127.0.0.1:1080/files/abc",
                "https://up.example.com/files/abc",
            ),
            (
                "HTTP://127.0.0.1:1080/files/a%20b?c#d",
                "https://up.example.com/files/a%20b?c#d",
            ),
            ("http://127.0.0.1:1080", "https://up.example.com"),
            ("http://127.0.0.1:1080?a", "https://up.example.com?a"),
            ("http://[::1]:1080/a", "https://up.example.com/a"),
            ("//127.0.0.1:1080/a", "https://up.example.com/a"),
            ("http://App.Internal/a", "https://up.example.com/a"),
            ("http://app.internal:80/a", "https://up.example.com/a"),
            ("//app.internal/a", "https://up.example.com/a"),
            ("https://tls.internal/a", "https://up.example.com/a"),
            ("http://up.example.com/a", "https://up.example.com/a"),
            ("http://UP.example.com./a", "https://up.example.com/a"),
        ] {
            assert_eq!(restored(&public, "Location", said), seen, "{said}");
            assert_eq!(restored(&public, "content-location", said), seen, "{said}");
            assert_eq!(restored(&public, "X-Location", said), said);
        }
    }

    #[test]
    fn public_and_foreign_location_urls_are_kept() {
        for prefix in ["", "/api"] {
            let public = public(true, prefix);
            for said in [
                // Of an origin that heeds X-Forwarded-*.
                "https://up.example.com/files/abc",
                "https://UP.example.com:443/files/abc",
                "//up.example.com/files/abc",
                "https://other.example.com/a",
                "https://up.example.com:8443/a",
                "http://up.example.com:80/a",
                "http://127.0.0.1/a",
                "http://127.0.0.1:1081/a",
                "http://127.0.0.1:1080.evil.example/a",
                "http://127.0.0.1:1080@evil.example/a",
                "http://127.0.0.1:1080\\@evil.example/a",
                "//evil.example/a",
                "/\\evil.example/a",
                "http:/a",
                "http:",
                "http://",
                "//",
                "ftp://127.0.0.1:1080/a",
                "mailto:a@up.example.com",
                "a/b",
                "../a",
                "?a",
                "#a",
                "",
            ] {
                assert_eq!(restored(&public, "Location", said), said);
            }
        }
        assert_eq!(restored(&public(true, ""), "Location", "/a"), "/a");
    }

    #[test]
    fn a_redirect_to_https_is_never_turned_back() {
        let public = public(false, "");
        assert_eq!(
            restored(&public, "Location", "https://up.example.com/login"),
            "https://up.example.com/login"
        );
        assert_eq!(
            restored(&public, "Location", "http://127.0.0.1:1080/a"),
            "http://up.example.com/a"
        );
        let nobody = PublicUrl {
            authority: b"",
            ..public
        };
        assert_eq!(
            restored(&nobody, "Location", "http://127.0.0.1:1080/a"),
            "http://127.0.0.1:1080/a"
        );
    }

    #[test]
    fn the_public_port_is_kept_in_location() {
        let public = PublicUrl {
            authority: b"up.example.com:8443",
            ..public(true, "")
        };
        for (said, seen) in [
            ("http://127.0.0.1:1080/a", "https://up.example.com:8443/a"),
            (
                "http://up.example.com:8443/a",
                "https://up.example.com:8443/a",
            ),
            (
                "https://up.example.com:8443/a",
                "https://up.example.com:8443/a",
            ),
            ("https://up.example.com/a", "https://up.example.com/a"),
        ] {
            assert_eq!(restored(&public, "Location", said), seen, "{said}");
        }
    }

    #[test]
    fn a_stripped_prefix_is_restored_in_location() {
        let public = public(true, "/api");
        for (said, seen) in [
            ("/login?a=/b", "/api/login?a=/b"),
            ("/", "/api/"),
            ("/?a", "/api/?a"),
            ("/api/login", "/api/api/login"),
            ("http://127.0.0.1:1080/a", "https://up.example.com/api/a"),
            ("http://127.0.0.1:1080", "https://up.example.com/api/"),
            ("http://127.0.0.1:1080?a", "https://up.example.com/api/?a"),
            ("http://127.0.0.1:1080//a", "https://up.example.com/api//a"),
        ] {
            assert_eq!(restored(&public, "Location", said), seen, "{said}");
        }
    }

    #[test]
    fn the_url_of_a_refresh_header_is_rewritten() {
        let public = public(true, "/api");
        for (said, seen) in [
            (
                "0; url=http://127.0.0.1:1080/a",
                "0; url=https://up.example.com/api/a",
            ),
            ("5;URL = '/a'; b", "5;URL = '/api/a'; b"),
            ("5, url=\"/a", "5, url=\"/api/a"),
            ("5; url=https://b.example/", "5; url=https://b.example/"),
            ("5", "5"),
            ("5; /a", "5; /a"),
            ("5; ur", "5; ur"),
            ("5; url", "5; url"),
            ("5; url=", "5; url="),
            ("5; url=\"", "5; url=\""),
        ] {
            assert_eq!(restored(&public, "Refresh", said), seen, "{said}");
        }
    }

    /// RFC 6265 §5.2.4, §5.1.4.
    #[test]
    fn a_stripped_prefix_is_restored_in_set_cookie_path() {
        let with = public(true, "/api");
        for (said, seen) in [
            ("a=b; Path=/x; Secure", "a=b; Path=/api/x; Secure"),
            ("a=b; Path=/", "a=b; Path=/api"),
            ("a=b;path = / ;HttpOnly", "a=b;path = /api ;HttpOnly"),
            ("a=b; PATH=/x; Path=/y", "a=b; PATH=/api/x; Path=/api/y"),
            ("a=b; Path=", "a=b; Path="),
            ("a=b; Path=x", "a=b; Path=x"),
            ("a=b; Path", "a=b; Path"),
            ("a=b; Domain=x; Paths=/", "a=b; Domain=x; Paths=/"),
            ("path=/; Secure", "path=/; Secure"),
            ("__Host-a=b; Path=/; Secure", "__Host-a=b; Path=/; Secure"),
            (
                "__Secure-a=b; Path=/; Secure",
                "__Secure-a=b; Path=/api; Secure",
            ),
            ("", ""),
            (";;Path=/", ";;Path=/api"),
        ] {
            assert_eq!(restored(&with, "Set-Cookie", said), seen, "{said}");
            assert_eq!(restored(&public(true, ""), "Set-Cookie", said), said);
        }
        let hostile = public(true, "/t;Domain=evil");
        assert_eq!(
            restored(&hostile, "Set-Cookie", "a=b; Path=/x"),
            "a=b; Path=/t%3BDomain=evil/x"
        );
    }

    #[test]
    fn several_set_cookie_lines_stay_separate() {
        let mut fields = Fields::default();
        for (name, value) in [
            ("Set-Cookie", "a=1; Path=/"),
            ("Date", "x"),
            ("set-cookie", "b=2; Path=/b"),
        ] {
            fields.append(name.as_bytes(), value.as_bytes());
        }
        public(true, "/api").restore(&mut fields);
        let values: Vec<_> = fields.iter().map(|field| field.value.to_vec()).collect();
        assert_eq!(values, [&b"a=1; Path=/api"[..], b"x", b"b=2; Path=/api/b"]);
    }
}
