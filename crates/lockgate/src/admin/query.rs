//! The query of a request: parameters by their names, each of which must be known.

use std::time::Duration;

use hyper::StatusCode;
use lockgate_rules::network::Cidr;

use super::error::AdminError;

/// The parameters of a request, in their order.
#[derive(Debug)]
pub(super) struct RequestQuery(Vec<(String, String)>);

impl RequestQuery {
    /// Reads `a=b&c=d`, percent-encoded.
    pub(super) fn parse(text: &str, known: &[&str]) -> Result<Self, AdminError> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let read = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if known.contains(&name.as_str()) {
                return Ok((name, value));
            }
            let cure = format!("there are {}", known.join(", "));
            Err(bad_query(format!("there is no parameter `{name}`"), cure))
        });
        read.collect::<Result<_, _>>().map(Self)
    }

    /// All values of a parameter.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let of = move |pair: &&'a (String, String)| pair.0 == name;
        let mut found: Vec<&str> = Vec::new();
        found.extend(self.0.iter().filter(of).map(|(_, value)| value.as_str()));
        found.into_iter()
    }

    /// The last value of a parameter.
    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// A number.
    pub(super) fn count(&self, name: &str) -> Result<Option<usize>, AdminError> {
        let read = self.last(name).map(|value| {
            let wrong = || bad_query(format!("`{name}` is no number"), "write 100");
            value.parse().map_err(|_| wrong())
        });
        read.transpose()
    }

    /// A time in seconds.
    pub(super) fn seconds(&self, name: &str) -> Result<Option<Duration>, AdminError> {
        let read = self.last(name).map(|value| {
            let seconds = value.parse().ok();
            let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            time.ok_or_else(|| bad_query(format!("`{name}` is no time in seconds"), "write 1.5"))
        });
        read.transpose()
    }

    /// A network or an address.
    pub(super) fn network(&self, name: &str) -> Result<Option<Cidr>, AdminError> {
        let read = self.last(name).map(|value| network(name, value));
        read.transpose()
    }
}

/// A network or an address.
pub(super) fn network(name: &str, value: &str) -> Result<Cidr, AdminError> {
    Cidr::parse(value).map_err(|_| {
        let message = format!("`{name}` is no address and no network");
        bad_query(message, "write 192.0.2.7 or 10.0.0.0/8")
    })
}

/// An error in a parameter.
pub(super) fn bad_query(message: impl Into<String>, cure: impl Into<String>) -> AdminError {
    AdminError::new(StatusCode::BAD_REQUEST, "bad_query", message, cure)
}

fn decoded(text: &str) -> Result<String, AdminError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let digits = after.first_chunk().filter(|_| *byte == b'%');
        match digits.map(hex_byte) {
            None if *byte == b'%' => return Err(malformed()),
            None => {
                bytes.push(if *byte == b'+' { b' ' } else { *byte });
                rest = after;
            }
            Some(decoded) => {
                bytes.push(decoded.ok_or_else(malformed)?);
                rest = after.get(2..).unwrap_or_default();
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

fn hex_byte(digits: &[u8; 2]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok()?;
    u8::from_str_radix(text, 16)
        .ok()
        .filter(|_| !text.starts_with('+'))
}

fn malformed() -> AdminError {
    bad_query(
        "the query is not percent-encoded UTF-8",
        "write %25 for the sign %",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_and_its_parameters_must_be_known() {
        let read = |text: &str| RequestQuery::parse(text, &["a", "b"]);
        let query = read("a=%3A443&b=x+y&a=%C3%A9&").unwrap();
        assert_eq!(query.all("a").collect::<Vec<_>>(), [":443", "é"]);
        assert_eq!((query.last("b"), query.last("c")), (Some("x y"), None));
        for wrong in ["c=1", "a=%", "a=%4", "a=%+1", "a=%FF", "%zz=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_of_a_query_have_a_type() {
        let text = "n=12&t=1.5&c=10.0.0.0/8&x=-1";
        let query = RequestQuery::parse(text, &["n", "t", "c", "x"]).unwrap();
        assert_eq!(query.count("n").unwrap(), Some(12));
        assert_eq!(query.count("y").unwrap(), None);
        assert_eq!(
            query.seconds("t").unwrap(),
            Some(Duration::from_millis(1_500))
        );
        assert_eq!(query.network("c").unwrap(), Cidr::parse("10.0.0.0/8").ok());
        assert!(query.count("t").is_err() && query.count("x").is_err());
        assert!(query.seconds("x").is_err() && query.seconds("c").is_err());
        assert!(query.network("n").is_err());
    }
}
