//! The arguments of `lockgate healthcheck`: the configuration or the URL to ask.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct HealthcheckArgs {
    /// The configuration file that has the metrics address or the admin socket
    /// [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(
        short = 'c',
        short_alias = 'f',
        long = "config",
        value_name = "FILE",
        id = "file"
    )]
    config: Option<PathBuf>,
    /// The URL to ask instead; it is healthy if it answers with 200
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    url: Option<PlainHttpUrl>,
}

/// The address that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HealthcheckOptions {
    /// `/ready` of the metrics address in this file; the admin socket without one.
    Configured(PathBuf),
    /// A URL.
    Url(PlainHttpUrl),
}

/// A URL with the scheme `http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlainHttpUrl {
    /// Host and port, as they are written.
    pub(crate) authority: String,
    /// The host without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path with its query.
    pub(crate) path: String,
}

impl HealthcheckArgs {
    pub(super) fn resolve(self) -> (Option<PathBuf>, Option<PlainHttpUrl>) {
        (self.config, self.url)
    }
}

impl FromStr for PlainHttpUrl {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let cure = "write http://HOST:PORT/PATH, for example http://127.0.0.1:9090/ready";
        let uri: hyper::Uri = written.parse().map_err(|_| cure.to_owned())?;
        let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(cure.to_owned());
        };
        let host = authority.host();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        Ok(Self {
            authority: authority.as_str().to_owned(),
            host: bare.unwrap_or(host).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            path: uri
                .path_and_query()
                .map_or("/", |path| path.as_str())
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_url_has_a_host_a_port_and_a_path() {
        for (written, expected) in [
            (
                "http://127.0.0.1:9090/ready",
                Some(("127.0.0.1", 9090, "/ready")),
            ),
            (
                "http://[::1]:9090/ready?full",
                Some(("::1", 9090, "/ready?full")),
            ),
            ("http://app.internal", Some(("app.internal", 80, "/"))),
            ("https://app.internal/", None),
            ("127.0.0.1:9090", None),
            ("/ready", None),
            ("", None),
        ] {
            let read = written.parse::<PlainHttpUrl>().ok();
            let parts = read.as_ref().map(|url| (&*url.host, url.port, &*url.path));
            assert_eq!(parts, expected, "{written}");
        }
    }
}
