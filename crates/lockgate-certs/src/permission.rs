//! The question to the operator's service whether a certificate may be obtained for a name.

use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use lockgate_client::{ClientError, ClientRequest, ExchangeLimits, HttpConnection, RemoteServer};
use lockgate_net::dial::DialTarget;
use lockgate_net::tls::{CaSource, ClientSettings, Connector};
use lockgate_rules::OnDemand;

/// Limits of the exchange: a handshake waits for it.
const LIMITS: ExchangeLimits = ExchangeLimits {
    time: Duration::from_secs(5),
    head_bytes: 64 << 10,
    body_bytes: 64 << 10,
};

/// What the service has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permission {
    Given,
    Denied,
    /// It has not answered, for this reason.
    Unknown(String),
}

/// Asks for a name that is listed; without a service that is permission enough.
pub(crate) async fn ask(rules: &OnDemand, name: &str) -> Permission {
    let Some(url) = &rules.ask else {
        return Permission::Given;
    };
    match LIMITS.bound(status_of(url, name)).await {
        Ok(200) => Permission::Given,
        Ok(status) if status < 500 => Permission::Denied,
        Ok(status) => Permission::Unknown(format!("{url}: status {status}")),
        Err(error) => Permission::Unknown(format!("{url}: {error}")),
    }
}

/// The status for `?domain=NAME`, beside the query that the URL may have. The name has no byte that
/// a query encodes.
async fn status_of(url: &str, name: &str) -> Result<u16, ClientError> {
    let uri: Uri = url.parse().map_err(|_| ClientError::InvalidRequest)?;
    let (Some(host), is_secure) = (uri.host(), uri.scheme_str() == Some("https")) else {
        return Err(ClientError::InvalidRequest);
    };
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let bare = host.trim_matches(['[', ']']);
    let found = tokio::net::lookup_host((bare, port)).await;
    let found = found.map_err(ClientError::Unreachable)?;
    let connector = is_secure.then(|| Connector::new(ClientSettings::new(CaSource::System)));
    let connector = connector
        .transpose()
        .map_err(|error| ClientError::Unreachable(std::io::Error::other(error)))?;
    let server = RemoteServer {
        addresses: found.map(DialTarget::Tcp).collect(),
        tls: connector.as_ref().map(|connector| (connector, bare)),
        proxy_header: &[],
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let and = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{and}domain={name}");
    let authority = uri.authority().map_or(host, |authority| authority.as_str());
    let mut connection = HttpConnection::http1(server.connect(LIMITS).await?).await?;
    let request = ClientRequest {
        method: "GET",
        host: authority,
        path: &path,
        fields: &[("connection", "close")],
        body: Bytes::new(),
    };
    Ok(connection.exchange(&request).await?.status)
}
