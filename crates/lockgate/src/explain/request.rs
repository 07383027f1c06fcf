//! The request that is explained, in the words of a command line or of the admin socket.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use serde_json::{Value, json};

/// A request that is not sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExplainRequest {
    pub(crate) url: AskedUrl,
    pub(crate) method: String,
    pub(crate) fields: Vec<GivenField>,
    /// The other end of the connection.
    pub(crate) from: IpAddr,
    /// The server name of the client's TLS, empty for none; without one it is the URL's host.
    pub(crate) sni: Option<String>,
    /// The name of the listener, where the URL's port does not decide.
    pub(crate) listener: Option<String>,
}

impl ExplainRequest {
    /// The client where none is named: the address of no network (RFC 5737).
    pub(crate) const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    /// The body of a request to the admin socket.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "url": self.url.to_string(),
            "method": self.method,
            "fields": self.fields.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "from": self.from,
            "sni": self.sni,
            "listener": self.listener,
        })
    }
}

/// A URL in its parts, as they were written: the program decides what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedUrl {
    pub(crate) secure: bool,
    /// Host and port.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) target: String,
}

impl FromStr for AskedUrl {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let cure = "write a URL, for example https://app.example.com/api";
        let (scheme, rest) = written.split_once("://").ok_or(cure)?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("the scheme must be http or https".into()),
        };
        // Clients do not send fragments (RFC 9110 §7.1).
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err(cure.into());
        }
        let target = if target.starts_with('/') {
            target.to_owned()
        } else {
            format!("/{target}")
        };
        Ok(Self {
            secure,
            authority: authority.to_owned(),
            target,
        })
    }
}

impl fmt::Display for AskedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.target)
    }
}

/// A field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenField {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for GivenField {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        match written.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => Ok(Self {
                name: name.trim().to_owned(),
                value: value.trim().to_owned(),
            }),
            _ => Err("write a field as 'Name: value'".into()),
        }
    }
}

impl fmt::Display for GivenField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}
