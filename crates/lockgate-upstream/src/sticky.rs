//! The cookie that names a client's endpoint. Only we set it, and endpoints never see it, as with
//! HAProxy's `cookie NAME insert indirect nocache`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::hmac;
use lockgate_http::fields::Fields;
use lockgate_limits::MemberIndex;

use super::preference::Preference;

/// The cookie's name, and its value for each member of a pool.
pub struct Sticky {
    cookie: Box<[u8]>,
    key: Box<hmac::Key>,
    /// In the order of the members.
    values: Box<[AtomicU64]>,
}

impl Sticky {
    /// A cookie of this name for a pool of this name and members with these labels.
    ///
    /// Its values are the same after every start and in every Lockgate with the same names of pool
    /// and endpoints. A value does not tell the address; but a client that knows the pool's name
    /// can test guesses.
    pub fn new<'a>(cookie: &str, pool: &str, labels: impl Iterator<Item = &'a str>) -> Self {
        let key = Box::new(hmac::Key::new(hmac::HMAC_SHA256, pool.as_bytes()));
        let values = labels
            .map(|label| AtomicU64::new(value(&key, label)))
            .collect();
        Self {
            cookie: cookie.as_bytes().into(),
            key,
            values,
        }
    }

    /// Gives a member another label.
    pub(super) fn rename(&self, member: MemberIndex, label: &str) {
        if let Some(cookie) = self.values.get(member.get()) {
            cookie.store(value(&self.key, label), Ordering::Relaxed);
        }
    }

    /// Gives a member the value that the same endpoint has in an earlier cookie of the pool.
    pub(super) fn copy_value(&self, member: MemberIndex, earlier: &Self, before: MemberIndex) {
        let values = (
            self.values.get(member.get()),
            earlier.values.get(before.get()),
        );
        if let (Some(own), Some(theirs)) = values {
            own.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The member that a request with these fields prefers: the first that one of its cookies
    /// names.
    pub fn preference(&self, fields: &Fields) -> Preference {
        let member = |said: &[u8]| {
            let said = parse(said)?;
            self.values
                .iter()
                .position(|value| value.load(Ordering::Relaxed) == said)
                .map(MemberIndex::new)
        };
        cookies(fields, &self.cookie)
            .find_map(member)
            .map_or(Preference::Any, Preference::Member)
    }

    /// The other cookies, where one of them is ours.
    pub fn without_ours(&self, fields: &Fields) -> Option<Vec<u8>> {
        cookies(fields, &self.cookie).next()?;
        let pairs = fields
            .named(b"cookie")
            .flat_map(|line| line.split(|byte| *byte == b';'));
        let ours = |pair: &&[u8]| {
            let value = pair.strip_prefix(&*self.cookie);
            value.is_some_and(|value| value.starts_with(b"="))
        };
        let theirs = pairs
            .map(<[u8]>::trim_ascii)
            .filter(|pair| !pair.is_empty() && !ours(pair));
        Some(theirs.collect::<Vec<_>>().join(&b"; "[..]))
    }

    /// Sets the cookie in a response of the member; `secure` where the client uses TLS. No shared
    /// cache may keep such a response, also if it has other Cache-Control (RFC 9111 §3): it would
    /// send the cookie to all clients.
    pub fn say(&self, member: MemberIndex, secure: bool, response: &mut Fields) {
        let Some(value) = self.values.get(member.get()) else {
            return;
        };
        let value = format!("{:016x}", value.load(Ordering::Relaxed));
        let rest: &[u8] = if secure {
            b"; Path=/; HttpOnly; SameSite=Lax; Secure"
        } else {
            b"; Path=/; HttpOnly; SameSite=Lax"
        };
        response.append(
            b"Set-Cookie",
            &[&*self.cookie, b"=", value.as_bytes(), rest].concat(),
        );
        response.append(b"Cache-Control", b"private");
    }
}

/// The value for a label: the first 64 bits of its HMAC.
fn value(key: &hmac::Key, label: &str) -> u64 {
    let tag = hmac::sign(key, label.as_bytes());
    tag.as_ref()
        .iter()
        .take(8)
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// A value in its only spelling: 16 lower-case hexadecimal digits.
fn parse(said: &[u8]) -> Option<u64> {
    let digits = said.len() == 16
        && said
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    digits
        .then(|| std::str::from_utf8(said).ok())
        .flatten()
        .and_then(|said| u64::from_str_radix(said, 16).ok())
}

impl fmt::Debug for Sticky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sticky")
            .field("cookie", &self.cookie.escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}

/// The values of the cookies of this name (RFC 6265 §4.2.1).
pub(super) fn cookies<'a>(fields: &'a Fields, name: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    let pairs = fields
        .named(b"cookie")
        .flat_map(|line| line.split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sticky() -> Sticky {
        Sticky::new("lg", "app", ["10.0.0.1:80", "10.0.0.2:80"].into_iter())
    }

    fn values(sticky: &Sticky) -> Vec<String> {
        sticky
            .values
            .iter()
            .map(|value| format!("{:016x}", value.load(Ordering::Relaxed)))
            .collect()
    }

    fn fields(lines: &[&str]) -> Fields {
        let mut fields = Fields::default();
        lines
            .iter()
            .for_each(|line| fields.append(b"Cookie", line.as_bytes()));
        fields
    }

    #[test]
    fn sticky_cookie_values_are_stable_per_pool_and_endpoint() {
        let of = |pool| {
            values(&Sticky::new(
                "lg",
                pool,
                ["10.0.0.1:80", "10.0.0.2:80"].into_iter(),
            ))
        };
        // Sessions must survive a new version: these are not to be changed.
        assert_eq!(of("app"), ["d6830e00cbcbc841", "8162dc75e178bea9"]);
        assert_ne!(of("app"), of("other"));
    }

    #[test]
    fn an_alias_takes_over_the_sticky_cookie() {
        let (one, other) = (
            sticky(),
            Sticky::new("lg", "app", ["srv:a#1", "srv:a#2"].into_iter()),
        );
        other.rename(MemberIndex::new(1), "10.0.0.1:80");
        other.rename(MemberIndex::new(2), "nobody");
        assert_eq!(values(&one)[0], values(&other)[1]);
    }

    #[test]
    fn a_sticky_cookie_selects_its_endpoint() {
        let sticky = sticky();
        let [first, second] = &*values(&sticky) else {
            unreachable!()
        };
        for (lines, expected) in [
            (
                vec![format!("lg={first}")],
                Preference::Member(MemberIndex::new(0)),
            ),
            (
                vec![format!("a=b; lg={second} ; c=d")],
                Preference::Member(MemberIndex::new(1)),
            ),
            (
                vec!["a=b".to_owned(), format!("lg={second}")],
                Preference::Member(MemberIndex::new(1)),
            ),
            // One of an endpoint that is gone, of the same name for another path.
            (
                vec![format!("lg=0123456789abcdef; lg={second}; lg={first}")],
                Preference::Member(MemberIndex::new(1)),
            ),
            (
                vec![format!("LG={first}; xlg={first}; lgx={first}; lg; lg=")],
                Preference::Any,
            ),
            (
                vec![format!("lg={first}0"), format!("lg=\"{first}\"")],
                Preference::Any,
            ),
            (
                vec![format!("lg={}; lg=+{}", first.to_uppercase(), &first[1..])],
                Preference::Any,
            ),
            (vec![], Preference::Any),
        ] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(sticky.preference(&fields(&lines)), expected, "{lines:?}");
        }
    }

    #[test]
    fn the_sticky_cookie_is_not_forwarded_to_endpoints() {
        for (lines, left) in [
            (&["lg=1"][..], Some("")),
            (&["a=b; lg=1; c=\"d e\""], Some("a=b; c=\"d e\"")),
            (&["lg=1; lg=2; a=b"], Some("a=b")),
            (
                &["a=b", "lg=1;; c=d;", "lgx=1; lg"],
                Some("a=b; c=d; lgx=1; lg"),
            ),
            (&["a=b; lgx=1; LG=1; lg"], None),
            (&[], None),
        ] {
            assert_eq!(
                sticky().without_ours(&fields(lines)),
                left.map(|left| left.as_bytes().to_vec()),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_sticky_cookie_is_set_once_with_cache_control_private() {
        let said = |secure| {
            let (sticky, mut response) = (sticky(), Fields::default());
            sticky.say(MemberIndex::new(1), secure, &mut response);
            let cookie = response
                .named(b"set-cookie")
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>();
            assert_eq!(
                response.named(b"cache-control").collect::<Vec<_>>(),
                [b"private"]
            );
            (
                String::from_utf8(cookie.concat()).unwrap(),
                values(&sticky)[1].clone(),
            )
        };
        let (plain, value) = said(false);
        assert_eq!(plain, format!("lg={value}; Path=/; HttpOnly; SameSite=Lax"));
        assert_eq!(said(true).0, plain + "; Secure");
    }
}
