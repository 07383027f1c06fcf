//! The request that is explained, in the words of a command line or of the admin socket.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::str::FromStr;

use anyhow::Context as _;
use lockgate_http::target::Authority;
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
    /// The URL of the proxy that is asked for a tunnel to the URL, or to forward the request.
    pub(crate) via: Option<AskedUrl>,
    /// The addresses that the URL's host has, where it is a name that was looked up.
    pub(crate) addresses: Vec<IpAddr>,
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
            "via": self.via.as_ref().map(ToString::to_string),
            "addresses": self.addresses,
        })
    }

    /// The URL that leads to the listener.
    pub(super) fn reached_url(&self) -> &AskedUrl {
        self.via.as_ref().unwrap_or(&self.url)
    }

    /// The method and the target as they are sent: over a proxy a tunnel is asked for, unless the
    /// URL is one of HTTP without TLS.
    pub(super) fn request_line(&self) -> (&str, String) {
        let url = &self.url;
        let is_tunnel = url.scheme != UrlScheme::Http || self.method == "CONNECT";
        match &self.via {
            Some(_) if is_tunnel => ("CONNECT", url.host_and_port()),
            Some(_) => (&self.method, url.to_string()),
            None => (&self.method, url.target.clone()),
        }
    }
}

/// A URL in its parts, as they were written: the program decides what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedUrl {
    pub(crate) scheme: UrlScheme,
    /// Host and port.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) target: String,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlScheme {
    Http,
    Https,
    /// Bytes: only a tunnel leads there.
    Tcp,
}

impl UrlScheme {
    const ALL: [(Self, &str, u16); 3] = [
        (Self::Http, "http", 80),
        (Self::Https, "https", 443),
        (Self::Tcp, "tcp", 0),
    ];

    /// Its name, and the port without one in the URL.
    fn facts(self) -> (&'static str, u16) {
        let mut all = Self::ALL.into_iter();
        all.find(|(scheme, ..)| *scheme == self)
            .map_or(("", 0), |(_, name, port)| (name, port))
    }
}

impl AskedUrl {
    /// Whether its connections have TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.scheme == UrlScheme::Https
    }

    /// The port that connections are made to, where it is not written.
    pub(super) fn default_port(&self) -> u16 {
        self.scheme.facts().1
    }

    /// The addresses that the system has for the host, each once; none for an address.
    ///
    /// # Errors
    /// When it has none.
    pub(super) fn look_up(&self) -> anyhow::Result<Vec<IpAddr>> {
        let authority = Authority::parse(self.authority.as_bytes());
        let name = authority.map_err(|error| anyhow::anyhow!("{}: {error}", self.authority))?;
        let name = name.name();
        let is_address = name.starts_with('[') || name.parse::<IpAddr>().is_ok();
        if is_address {
            return Ok(Vec::new());
        }
        let found = (&*name, 0_u16).to_socket_addrs();
        let found = found.with_context(|| format!("{name} cannot be looked up"))?;
        let mut addresses = Vec::new();
        for address in found.map(|address| address.ip()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    /// The host and the port, which a tunnel is asked for with.
    fn host_and_port(&self) -> String {
        let authority = &self.authority;
        let has_port = match authority.rsplit_once(']') {
            Some((_, port)) => port.starts_with(':'),
            None => authority.contains(':'),
        };
        if has_port {
            authority.clone()
        } else {
            format!("{authority}:{}", self.default_port())
        }
    }
}

impl FromStr for AskedUrl {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let cure = "write a URL, for example https://app.example.com/api";
        let (scheme, rest) = written.split_once("://").ok_or(cure)?;
        let scheme = scheme.to_ascii_lowercase();
        let mut known = UrlScheme::ALL.into_iter();
        let (scheme, ..) = known
            .find(|(_, name, _)| *name == scheme)
            .ok_or("the scheme must be http or https, or tcp for a tunnel")?;
        // Clients do not send fragments (RFC 9110 §7.1).
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err(cure.into());
        }
        if scheme == UrlScheme::Tcp && (!authority.contains(':') || !matches!(target, "" | "/")) {
            return Err("write tcp://HOST:PORT".into());
        }
        let target = if target.starts_with('/') {
            target.to_owned()
        } else {
            format!("/{target}")
        };
        Ok(Self {
            scheme,
            authority: authority.to_owned(),
            target,
        })
    }
}

impl fmt::Display for AskedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, _) = self.scheme.facts();
        write!(f, "{scheme}://{}", self.authority)?;
        match self.scheme {
            UrlScheme::Http | UrlScheme::Https => f.write_str(&self.target),
            UrlScheme::Tcp => Ok(()),
        }
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
