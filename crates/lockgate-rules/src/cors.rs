//! Cross-origin resource sharing (Fetch, "CORS protocol"): origins with pages that may read
//! responses.

use lockgate_http::coding::vary;
use lockgate_http::fields::Fields;
use lockgate_http::head::{Method, RequestHead, ResponseHead};

/// The rules for cross-origin requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// The allowed origins.
    pub origins: Origins,
    /// The value of Access-Control-Allow-Methods.
    pub methods: String,
    /// The value of Access-Control-Allow-Headers; `None` repeats Access-Control-Request-Headers.
    pub headers: Option<String>,
    /// The value of Access-Control-Expose-Headers; empty sends none.
    pub expose: String,
    /// Whether requests with cookies are allowed; never with [`Origins::Any`].
    pub credentials: bool,
    /// The value of Access-Control-Max-Age, in seconds.
    pub max_age: u64,
}

/// A set of origins (RFC 6454).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// Every origin.
    Any,
    /// The listed origins.
    Only(Vec<Origin>),
}

/// An origin as browsers serialize it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// One origin.
    Exact(String),
    /// Every origin that begins with the first text and ends with the second, with a name between
    /// them.
    Under(String, String),
}

impl Origin {
    fn matches(&self, origin: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => origin == exact.as_bytes(),
            Self::Under(before, after) => {
                let rest = origin.strip_prefix(before.as_bytes());
                let between = rest.and_then(|rest| rest.strip_suffix(after.as_bytes()));
                let plain =
                    |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
                between.is_some_and(|name| !name.is_empty() && name.iter().all(plain))
            }
        }
    }
}

/// The response fields of CORS. An origin's are removed: browsers reject a response that has one of
/// them twice.
const OURS: [&[u8]; 6] = [
    b"access-control-allow-origin",
    b"access-control-allow-credentials",
    b"access-control-allow-methods",
    b"access-control-allow-headers",
    b"access-control-expose-headers",
    b"access-control-max-age",
];

impl Cors {
    /// The method that a preflight asks about; `None` if this request is no preflight (Fetch §4.8).
    #[inline]
    pub fn preflight_method(head: &RequestHead) -> Option<&[u8]> {
        let named = |name: &[u8]| head.fields.named(name).next();
        let is_options = head.method == Method::Options && named(b"origin").is_some();
        is_options.then(|| named(b"access-control-request-method"))?
    }

    /// The response to a preflight. It has no permission if the origin or method is not allowed.
    pub fn preflight(&self, asked: &Fields) -> ResponseHead {
        let mut answer = ResponseHead::of(204);
        if self.permit(asked, &mut answer.fields) {
            let fields = &mut answer.fields;
            fields.append(b"Access-Control-Allow-Methods", self.methods.as_bytes());
            let wanted = asked.named(b"access-control-request-headers").next();
            if let Some(headers) = self
                .headers
                .as_ref()
                .map(String::as_bytes)
                .or(wanted)
                .filter(|headers| !headers.is_empty())
            {
                fields.append(b"Access-Control-Allow-Headers", headers);
            }
            fields.append(
                b"Access-Control-Max-Age",
                itoa::Buffer::new().format(self.max_age).as_bytes(),
            );
        }
        if self.headers.is_none() {
            vary(&mut answer.fields, b"Access-Control-Request-Headers");
        }
        answer
    }

    /// Removes the CORS fields of an origin's response.
    pub fn clear(fields: &mut Fields) {
        let front = b"access-control-";
        fields.retain(|field| {
            field
                .name
                .get(..front.len())
                .is_none_or(|of| !of.eq_ignore_ascii_case(front))
        });
    }

    /// Adds the CORS fields to a response.
    pub fn apply(&self, asked: &Fields, fields: &mut Fields) {
        fields.retain(|field| {
            !OURS
                .iter()
                .any(|ours| ours.eq_ignore_ascii_case(field.name))
        });
        if self.permit(asked, fields) && !self.expose.is_empty() {
            fields.append(b"Access-Control-Expose-Headers", self.expose.as_bytes());
        }
    }

    fn permit(&self, asked: &Fields, fields: &mut Fields) -> bool {
        let Origins::Only(origins) = &self.origins else {
            fields.append(b"Access-Control-Allow-Origin", b"*");
            return true;
        };
        // Also without permission: a request of another origin may have it.
        vary(fields, b"Origin");
        let mut said = asked.named(b"origin");
        let (Some(origin), None) = (said.next(), said.next()) else {
            return false;
        };
        if !origins.iter().any(|one| one.matches(origin)) {
            return false;
        }
        fields.append(b"Access-Control-Allow-Origin", origin);
        if self.credentials {
            fields.append(b"Access-Control-Allow-Credentials", b"true");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cors_origin_is_compared_as_browsers_write_it() {
        let exact = |origin: &str| Origin::Exact(origin.to_owned());
        let under = Origin::Under("https://".into(), ".c.example".into());
        let known = [
            exact("https://a.example"),
            exact("http://b.example:8080"),
            under,
            exact("http://[::1]:3000"),
        ];
        for (origin, matches) in [
            ("https://a.example", true),
            ("https://a.example:443", false),
            ("http://a.example", false),
            ("http://b.example:8080", true),
            ("http://b.example", false),
            ("https://x.c.example", true),
            ("https://x.y.c.example", true),
            ("https://c.example", false),
            ("https://.c.example", false),
            ("https://evil.example/.c.example", false),
            ("https://evil.example:1.c.example", false),
            ("https://a@x.c.example", false),
            ("http://[::1]:3000", true),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(
                known.iter().any(|one| one.matches(origin.as_bytes())),
                matches,
                "{origin}"
            );
        }
    }

    #[test]
    fn a_cors_wildcard_matches_between_the_ends_of_a_pattern() {
        let under = Origin::Under("https://".into(), ".example.org:8443".into());
        for (origin, matches) in [
            ("https://a.example.org:8443", true),
            ("https://a-b.c_d.example.org:8443", true),
            ("https://.example.org:8443", false),
            ("https://example.org:8443", false),
            ("https://a.example.org", false),
            ("https://a:1.example.org:8443", false),
            ("https://evil/.example.org:8443", false),
            ("https://evil@.example.org:8443", false),
            ("https://a.example.org:8443.evil", false),
            ("http://a.example.org:8443", false),
            // Prefix and suffix may not overlap.
            ("https://", false),
            ("", false),
        ] {
            assert_eq!(under.matches(origin.as_bytes()), matches, "{origin}");
        }
    }
}
