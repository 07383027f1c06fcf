//! Options that contradict each other, or that a scheme or protocol has no use for.

use lockgate_http::h1::parse::is_token;
use lockgate_net::tls::CaSource;

use super::{LoadOptions, OptionsError};
use crate::expect::Length;
use crate::target::{RequestBody, Url, UrlError, UrlScheme};

/// Fields of a connection, which HTTP/2 has not (RFC 9113 §8.2.2).
const CONNECTION_FIELDS: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

impl LoadOptions {
    /// Checks the options without reading or resolving anything.
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        self.check_weights()?;
        let connections = &self.connections;
        if connections.unix.is_some() && connections.proxy.is_some() {
            return Err(OptionsError::together(
                "--unix and --proxy cannot be used together",
            ));
        }
        if connections.proxy_user.is_some() && connections.proxy.is_none() {
            return Err(OptionsError::together("--proxy-user needs --proxy"));
        }
        if connections.unix.is_some() && !connections.bind.is_empty() {
            return Err(OptionsError::together(
                "--unix and --bind cannot be used together: a Unix socket has no source address",
            ));
        }
        self.check_resolve()?;
        self.check_schemes()?;
        match connections.streams {
            Some(_) => self.check_http2()?,
            None if self.requests.grpc => {
                return Err(OptionsError::together("--grpc needs --http2"));
            }
            None => {}
        }
        self.check_fields()
    }

    /// Refuses addresses of hosts that no connection goes to.
    fn check_resolve(&self) -> Result<(), OptionsError> {
        let connections = &self.connections;
        let urls = match &connections.proxy {
            Some(proxy) => std::slice::from_ref(proxy),
            None => &self.requests.urls[..],
        };
        let urls = urls.iter().map(|written| Url::parse(written));
        let urls = urls.collect::<Result<Vec<_>, UrlError>>()?;
        for one in &connections.resolve {
            let is_used =
                |url: &Url| url.host.eq_ignore_ascii_case(&one.host) && url.port == one.port;
            if connections.unix.is_some() || !urls.iter().any(is_used) {
                return Err(OptionsError::Together(format!(
                    "--resolve {}:{}: no connection goes to this host and port",
                    one.host, one.port
                )));
            }
        }
        Ok(())
    }

    fn check_weights(&self) -> Result<(), OptionsError> {
        let weights = &self.requests.weights;
        if !weights.is_empty() && weights.len() != self.requests.urls.len() {
            return Err(OptionsError::together(
                "--weights needs one number for each URL",
            ));
        }
        let sum = weights
            .iter()
            .try_fold(0_u32, |sum, weight| sum.checked_add(*weight));
        if weights.contains(&0) || sum.is_none() {
            return Err(OptionsError::together(
                "--weights takes numbers from 1 on that add up to less than 2^32",
            ));
        }
        Ok(())
    }

    /// Refuses options that no target's scheme has a use for.
    fn check_schemes(&self) -> Result<(), OptionsError> {
        const HTTP: &str = "http and https";
        const FRAMED: &str = "http, https, ws and wss";
        const OVER_TLS: &str = "https, wss and tls";
        let (requests, expect, tls) = (&self.requests, &self.expect, &self.tls);
        let schemes = requests.urls.iter().map(|url| Ok(Url::parse(url)?.scheme));
        let schemes = schemes.collect::<Result<Vec<_>, UrlError>>()?;
        let is_http = |scheme: &UrlScheme| matches!(scheme, UrlScheme::Http | UrlScheme::Https);
        let is_bytes = |scheme: &UrlScheme| matches!(scheme, UrlScheme::Tcp | UrlScheme::Tls);
        let is_tls = |scheme: &UrlScheme| {
            matches!(scheme, UrlScheme::Https | UrlScheme::Wss | UrlScheme::Tls)
        };
        let all_http = schemes.iter().all(is_http);
        let some_http = schemes.iter().any(is_http);
        let some_bytes = schemes.iter().any(is_bytes);
        let some_framed = !schemes.iter().all(is_bytes);
        let some_tls = schemes.iter().any(is_tls);
        let has_streams = self.connections.streams.is_some();
        let has_ca = matches!(tls.ca, CaSource::File(_));
        for (option, is_set, is_useful, schemes) in [
            ("--http2", has_streams, all_http, HTTP),
            ("--method", requests.method.is_some(), all_http, HTTP),
            (
                "--header",
                !requests.headers.is_empty(),
                !some_bytes,
                FRAMED,
            ),
            ("--header-any", !requests.varying.is_empty(), all_http, HTTP),
            ("--expect-sha256", expect.wants_hash(), all_http, HTTP),
            (
                "--expect-status",
                expect.status != [200..=299],
                some_http,
                HTTP,
            ),
            ("--stop-on", !self.stop_on.is_empty(), some_framed, FRAMED),
            ("--insecure", tls.ca == CaSource::Anyone, some_tls, OVER_TLS),
            ("--ca", has_ca, some_tls, OVER_TLS),
            ("--sni", tls.name.is_some(), some_tls, OVER_TLS),
            ("--tls", !tls.versions.is_empty(), some_tls, OVER_TLS),
            ("--suites", !tls.suites.is_empty(), some_tls, OVER_TLS),
            ("--groups", !tls.groups.is_empty(), some_tls, OVER_TLS),
            ("--no-resumption", !tls.resume, some_tls, OVER_TLS),
            ("--cert", tls.identity.is_some(), some_tls, OVER_TLS),
        ] {
            if is_set && !is_useful {
                return Err(OptionsError::Together(format!(
                    "{option} is for {schemes} only"
                )));
            }
        }
        let expects_nothing = matches!(expect.length, Length::First | Length::Exactly(0));
        if some_bytes && requests.body.is_empty() && expects_nothing {
            return Err(OptionsError::together(
                "tcp and tls need a body to send, or --expect-length for the bytes that the server sends by itself",
            ));
        }
        Ok(())
    }

    /// Refuses options of HTTP/1 that HTTP/2 has no use for (RFC 9113 §8.2.2, §8.5).
    fn check_http2(&self) -> Result<(), OptionsError> {
        let requests = &self.requests;
        let is_varied =
            requests.method.is_some() || matches!(requests.body, RequestBody::Random(_));
        if requests.grpc && is_varied {
            return Err(OptionsError::together(
                "--grpc posts one message, the same in each request: leave out --method and --body-random",
            ));
        }
        if requests.method.as_deref() == Some("CONNECT") {
            return Err(OptionsError::Field(
                "CONNECT".to_owned(),
                "over HTTP/2 it opens a tunnel, and is no request",
            ));
        }
        let mut varying = requests.varying.iter();
        if varying.any(|field| field.name.eq_ignore_ascii_case("host")) {
            return Err(OptionsError::Field(
                "Host".to_owned(),
                "HTTP/2 has one authority for all requests: use -H",
            ));
        }
        let mut connection_fields = CONNECTION_FIELDS.into_iter();
        match connection_fields.find(|name| requests.has_field(name)) {
            Some(name) => Err(OptionsError::Field(
                name.to_owned(),
                "HTTP/2 has no connection-specific fields",
            )),
            None => Ok(()),
        }
    }

    /// Refuses a method and fields that cannot be sent (RFC 9110 §5.1, §5.5, §9.1).
    fn check_fields(&self) -> Result<(), OptionsError> {
        let requests = &self.requests;
        let is_method = |method: &&String| is_token(method.as_bytes());
        if let Some(method) = requests.method.as_ref().filter(|method| !is_method(method)) {
            return Err(OptionsError::Field(method.clone(), "a method is letters"));
        }
        let headers = requests.headers.iter().map(|(name, value)| (name, value));
        let varying = requests
            .varying
            .iter()
            .flat_map(|field| field.values.iter().map(|value| (&field.name, value)));
        for (name, value) in headers.chain(varying) {
            let why = if !is_token(name.as_bytes()) {
                "its name is no field name"
            } else if value.chars().any(|char| char.is_control() && char != '\t') {
                "it has control characters"
            } else {
                continue;
            };
            return Err(OptionsError::Field(format!("{name}: {value}"), why));
        }
        Ok(())
    }
}
