//! Peers of a run: addresses, proxies and TLS of its connections.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;

use lockgate_net::dial;
use lockgate_net::tls::{ClientSettings, Connector, Policy, Suite, Version};

use super::{ConnectionOptions, HostAddresses, OptionsError, TlsOptions};
use crate::shared_link::SharedLink;
use crate::target::{ConnectProxy, RemotePeer, Url, UrlScheme};

impl ConnectionOptions {
    /// The link that all connections share, if its rate is limited.
    pub(crate) fn shared_link(&self) -> Option<Arc<SharedLink>> {
        self.link.map(|rate| Arc::new(SharedLink::new(rate)))
    }

    /// The peer of `url`. Resolves names.
    pub(super) fn peer(
        &self,
        url: &Url,
        tls: Option<Arc<Connector>>,
    ) -> Result<RemotePeer, OptionsError> {
        let proxy = self.proxy.as_deref().map(proxy_url).transpose()?;
        let addresses = match (&self.unix, &proxy) {
            (Some(path), _) => vec![dial::DialTarget::Unix(path.clone())],
            (None, Some(proxy)) => self.resolve(&proxy.host, proxy.port)?,
            (None, None) => self.resolve(&url.host, url.port)?,
        };
        let addresses = self.with_source(addresses)?;
        let proxy = self.proxy.as_ref().map(|written| ConnectProxy {
            written: written.clone(),
            authorization: self
                .proxy_user
                .as_ref()
                .map(|user| format!("Basic {}", base64(user))),
        });
        Ok(RemotePeer {
            addresses,
            host: url.host.clone(),
            port: url.port,
            tls,
            proxy,
            proxy_protocol: self.proxy_protocol,
            chosen: Default::default(),
            max_streams: Default::default(),
            sources: self.bind.clone(),
            bound: Default::default(),
        })
    }

    /// The addresses of a host: those of the options, or those that the system knows.
    fn resolve(&self, host: &str, port: u16) -> Result<Vec<dial::DialTarget>, OptionsError> {
        let is_known =
            |one: &&HostAddresses| one.host.eq_ignore_ascii_case(host) && one.port == port;
        let Some(known) = self.resolve.iter().find(is_known) else {
            return resolve(host, port);
        };
        let addresses = known.addresses.iter();
        let addresses = addresses.map(|address| SocketAddr::new(*address, port));
        Ok(addresses.map(dial::DialTarget::Tcp).collect())
    }

    /// Those of `addresses` that there is a source address for. A source address is tried, so that
    /// a wrong one is an error of the option and not of each connection.
    fn with_source(
        &self,
        mut addresses: Vec<dial::DialTarget>,
    ) -> Result<Vec<dial::DialTarget>, OptionsError> {
        if self.bind.is_empty() {
            return Ok(addresses);
        }
        for address in &self.bind {
            UdpSocket::bind((*address, 0)).map_err(|error| OptionsError::Bind {
                address: *address,
                error,
            })?;
        }
        let has_source = |target: &dial::DialTarget| {
            let dial::DialTarget::Tcp(address) = target else {
                return false;
            };
            let mut sources = self.bind.iter();
            sources.any(|source: &IpAddr| source.is_ipv4() == address.is_ipv4())
        };
        let written = addresses.first().map(dial::DialTarget::to_string);
        addresses.retain(has_source);
        if addresses.is_empty() {
            return Err(OptionsError::Together(format!(
                "--bind has no address of the family of {}",
                written.unwrap_or_default()
            )));
        }
        Ok(addresses)
    }
}

impl TlsOptions {
    /// The connector for a scheme; `None` where it is without TLS.
    pub(super) fn connector(
        &self,
        scheme: UrlScheme,
        is_http2: bool,
    ) -> Result<Option<Arc<Connector>>, OptionsError> {
        let alpn = match scheme {
            UrlScheme::Https if is_http2 => vec![b"h2".to_vec()],
            UrlScheme::Https | UrlScheme::Wss => vec![b"http/1.1".to_vec()],
            // Bytes have no protocol that could be named.
            UrlScheme::Tls => Vec::new(),
            UrlScheme::Http | UrlScheme::Ws | UrlScheme::Tcp => return Ok(None),
        };
        let implied = self.implied_version();
        let versions = match &implied {
            Some(version) => vec![version.name()],
            None => borrowed(&self.versions),
        };
        let policy =
            Policy::from_names(&versions, &borrowed(&self.suites), &borrowed(&self.groups))?;
        let settings = ClientSettings {
            name: self.name.clone(),
            alpn,
            policy,
            resume: self.resume,
            identity: self.identity.clone(),
            ..ClientSettings::new(self.ca.clone())
        };
        Ok(Some(Arc::new(Connector::new(settings)?)))
    }

    /// The version that all suites are of, where no version is set: the other would have no suite.
    fn implied_version(&self) -> Option<Version> {
        if !self.versions.is_empty() {
            return None;
        }
        let mut versions = self.suites.iter();
        let first = Suite::parse(versions.next()?)?.version();
        let is_first = |name: &String| Suite::parse(name).map(Suite::version) == Some(first);
        versions.all(is_first).then_some(first)
    }
}

fn proxy_url(written: &str) -> Result<Url, OptionsError> {
    let url = Url::parse(written)?;
    if url.scheme != UrlScheme::Http {
        return Err(OptionsError::Together(format!(
            "--proxy must be http://HOST:PORT, not `{written}`"
        )));
    }
    Ok(url)
}

fn resolve(host: &str, port: u16) -> Result<Vec<dial::DialTarget>, OptionsError> {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    let addresses = (bare, port)
        .to_socket_addrs()
        .map_err(|error| OptionsError::Resolve {
            host: host.to_owned(),
            error,
        })?;
    Ok(addresses.map(dial::DialTarget::Tcp).collect())
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn base64(text: &str) -> String {
    use base64ct::{Base64, Encoding as _};
    Base64::encode_string(text.as_bytes())
}
