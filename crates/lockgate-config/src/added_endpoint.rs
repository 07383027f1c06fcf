//! Endpoints that operators name while Lockgate runs: what the configuration would say against them.

use crate::document::TomlString;
use crate::model::{EndpointAddr, EndpointPool, UpstreamTls};
use crate::values::{TextLanguage as _, UpstreamAddress};

/// Why an address cannot be an endpoint, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointMistake {
    /// What is wrong, with the reason.
    pub message: String,
    /// What to write instead.
    pub cure: String,
}

impl EndpointAddr {
    /// The address of a text that stands in no file, so that paths begin at the root.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_operator(text: &str) -> Result<Self, EndpointMistake> {
        let addr = UpstreamAddress.parse(&TomlString::plain(text));
        let addr = addr.map_err(|invalid| {
            let (message, why, cure) = invalid.into_texts();
            EndpointMistake {
                message: format!("{message}: {why}"),
                cure,
            }
        })?;
        match &addr {
            EndpointAddr::Unix(path) if !path.is_absolute() => Err(EndpointMistake {
                message: format!("{text:?} is not a path from the root"),
                cure: "write \"unix:/run/app.sock\"".to_owned(),
            }),
            _ => Ok(addr),
        }
    }

    /// Whether both are written for the same endpoint. Case and a dot at the end of a name do not
    /// matter, nor whether an IPv4 address is written as IPv6 has it.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ip(one), Self::Ip(other)) => {
                (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
            }
            (
                Self::Name { host, port },
                Self::Name {
                    host: other,
                    port: at,
                },
            ) => port == at && is_same_name(host, other),
            (Self::Srv(name), Self::Srv(other)) => is_same_name(name, other),
            (one, other) => one == other,
        }
    }
}

fn is_same_name(one: &str, other: &str) -> bool {
    let without_dot = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    without_dot(one) == without_dot(other)
}

impl EndpointPool {
    /// Why an endpoint of this address cannot be in the pool, if it cannot: where TLS has no name to
    /// verify.
    pub fn refuses(&self, addr: &EndpointAddr) -> Option<EndpointMistake> {
        let why = addr.has_no_name()?;
        let nameless =
            |tls: &Option<UpstreamTls>| tls.as_ref().is_some_and(|tls| tls.name.is_none());
        let checks = self.health.as_ref().map(|health| &health.tls);
        let is_nameless = nameless(&self.tls) || checks.is_some_and(nameless);
        is_nameless.then(|| EndpointMistake {
            message: format!("there is no name to verify: {why}"),
            cure:
                "write tls = { name = \"app.internal\" } in the pool: the name in its certificate"
                    .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_operators_have_the_mistakes_of_the_configuration() {
        for good in [
            "10.0.0.1:80",
            "[::1]:80",
            "unix:/run/app.sock",
            "app.internal:80",
            "srv:_app._tcp.internal",
        ] {
            assert_eq!(EndpointAddr::of_operator(good).unwrap().to_string(), good);
        }
        for (wrong, message, cure) in [
            ("10.0.0.1", "the port is missing", "10.0.0.1:3000"),
            ("http://10.0.0.1", "a URL", "10.0.0.1:80"),
            ("unix:app.sock", "not a path from the root", "unix:/run"),
            ("pool:app", "a pool", "pool:app"),
            ("a b:80", "neither", "127.0.0.1"),
            ("", "empty", "127.0.0.1:3000"),
        ] {
            let mistake = EndpointAddr::of_operator(wrong).unwrap_err();
            assert!(mistake.message.contains(message), "{mistake:?}");
            assert!(mistake.cure.contains(cure), "{mistake:?}");
        }
    }

    #[test]
    fn other_spellings_of_an_address_are_the_same_endpoint() {
        let addr = |text: &str| EndpointAddr::of_operator(text).unwrap();
        for (one, other) in [
            ("app.internal:80", "App.Internal.:80"),
            ("srv:_app._tcp.internal", "srv:_APP._tcp.internal."),
            ("10.0.0.1:80", "[::ffff:10.0.0.1]:80"),
            ("[::1]:80", "[0:0::1]:80"),
            ("unix:/run/app.sock", "unix:/run//app.sock"),
        ] {
            assert!(addr(one).is_same(&addr(other)), "{one} {other}");
        }
        for (one, other) in [
            ("app.internal:80", "app.internal:81"),
            ("app.internal:80", "srv:app.internal"),
            ("10.0.0.1:80", "[::a00:1]:80"),
            ("unix:/run/app.sock", "unix:/run/App.sock"),
        ] {
            assert!(!addr(one).is_same(&addr(other)), "{one} {other}");
        }
    }
}
