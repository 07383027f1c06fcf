//! From what was written on the command line to a plan: the only place that reads files and
//! resolves names.

use std::net::ToSocketAddrs as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockgate_http::h1::encode;
use lockgate_http::h1::parse::is_token;
use lockgate_http::head::Method;
use lockgate_net::dial;
use lockgate_net::proxy_protocol::Version;
use lockgate_net::tls::{
    CaSource, CertFiles, ClientSettings, Connector, ConnectorError, Policy, PolicyError,
};

use crate::shared_link::{SharedLink, LinkRate};
use crate::expect::{Expect, Length};
use crate::plan::{Loop, Plan, Stage, Until};
use crate::profile::{Profile, ProfileError, Rates};
use crate::schedule::Schedule;
use crate::target::{
    Exchange, Body, Http2, Peer, Request, Scheme, Target, ConnectProxy, Url, UrlError, Varying, WebSocket,
};

/// How long a stage lasts where nothing was said.
pub const USUAL: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"));

/// What can be said of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The words of the command line, for reports.
    pub command: Vec<String>,
    /// URLs.
    pub urls: Vec<String>,
    /// Of each URL in its order; all alike where there are none.
    pub weights: Vec<u32>,
    /// See [`Plan`].
    pub connections: usize,
    /// See [`Plan`]: with a number of them HTTP/2 is spoken.
    pub streams: Option<usize>,
    /// Whether requests are calls of gRPC, and bodies their messages.
    pub grpc: bool,
    /// See [`Plan`].
    pub per_connection: Option<u64>,
    /// See [`Plan`].
    pub threads: usize,
    /// See [`Plan`].
    pub cpus: Vec<usize>,
    /// See [`Plan`].
    pub timeout: Duration,
    /// Rates and how long they last, for an open loop.
    pub profile: Option<Profile>,
    /// How long a closed loop lasts.
    pub duration: Option<Duration>,
    /// Whether requests of a page say how soon they are wanted, over HTTP/2.
    pub priorities: bool,
    /// Requests after which a stage ends.
    pub count: Option<u64>,
    /// How often all stages are gone through.
    pub rounds: usize,
    /// What is not counted before them.
    pub warm_up: Duration,
    /// The method of HTTP requests.
    pub method: Option<String>,
    /// Fields, as they are.
    pub headers: Vec<(String, String)>,
    /// Fields with one value out of several.
    pub varying: Vec<Varying>,
    /// What is sent.
    pub body: Body,
    /// What must come back.
    pub expect: Expect,
    /// A path instead of addresses.
    pub unix: Option<PathBuf>,
    /// A CONNECT proxy, `http://host:port`, and its user and password.
    pub proxy: Option<String>,
    /// `user:password` for it.
    pub proxy_user: Option<String>,
    /// How fast the link is that all connections are behind.
    pub link: Option<LinkRate>,
    /// A PROXY header.
    pub proxy_protocol: Option<Version>,
    /// TLS.
    pub tls: Tls,
    /// See [`Plan`].
    pub stop_on: Vec<u16>,
    /// See [`Plan`].
    pub anyway: bool,
    /// See [`Plan`].
    pub watch: Vec<(String, u32)>,
}

/// What is said of TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct Tls {
    /// Who signs certificates.
    pub ca: CaSource,
    /// SNI, and the name that is looked for.
    pub name: Option<String>,
    /// `1.2`, `1.3`; both where there are none.
    pub versions: Vec<String>,
    /// Suites by their IANA names; the usual ones where there are none.
    pub suites: Vec<String>,
    /// Key exchange groups, the first of which is offered with a share; the usual ones where there
    /// are none.
    pub groups: Vec<String>,
    /// Whether sessions are resumed.
    pub resume: bool,
    /// A certificate to show.
    pub identity: Option<CertFiles>,
}

/// Why options make no plan.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// A URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Rates.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// TLS cannot start.
    #[error(transparent)]
    Tls(#[from] ConnectorError),
    /// Versions or suites.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A name that is no address.
    #[error("{host}: {error}")]
    Resolve {
        /// The name.
        host: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// Anything that two options cannot be together.
    #[error("{0}")]
    Together(String),
    /// A method or field that cannot be sent.
    #[error("`{0}` cannot be sent: {1}")]
    Field(String, &'static str),
}

impl Options {
    /// Makes a plan of them. Resolves names and reads certificates.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn plan(&self) -> Result<Plan, OptionsError> {
        self.check()?;
        let stages = self.stages()?;
        let warm_up = stages
            .first()
            .filter(|_| !self.warm_up.is_zero())
            .map(|first| Stage {
                round: 0,
                name: "warm-up".to_owned(),
                shape: match &first.shape {
                    Loop::Closed => Loop::Closed,
                    Loop::Open(schedule) => Loop::Open(Schedule::Constant(schedule.at_first())),
                },
                until: Until::Time(self.warm_up),
            });
        Ok(Plan {
            command: self.command.clone(),
            targets: self.targets()?,
            connections: self.connections,
            streams: self.streams,
            per_connection: self.per_connection,
            threads: self.threads.min(self.connections),
            cpus: self.cpus.clone(),
            link: self.link.map(|rate| Arc::new(SharedLink::new(rate))),
            timeout: self.timeout,
            warm_up,
            stages,
            stop_on: self.stop_on.clone(),
            anyway: self.anyway,
            watch: self.watch.clone(),
        })
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let together = |text: &str| Err(OptionsError::Together(text.to_owned()));
        if !self.weights.is_empty() && self.weights.len() != self.urls.len() {
            return together("--weights needs one number for each URL");
        }
        if self.weights.contains(&0)
            || self
                .weights
                .iter()
                .try_fold(0_u32, |sum, weight| sum.checked_add(*weight))
                .is_none()
        {
            return together("--weights takes numbers from 1 on that add up to less than 2^32");
        }
        if self.unix.is_some() && self.proxy.is_some() {
            return together("--unix and --proxy cannot both say where to connect");
        }
        if self.proxy_user.is_some() && self.proxy.is_none() {
            return together("--proxy-user needs --proxy");
        }
        self.check_for_schemes()?;
        self.check_for_http2()?;
        if let Some(method) = self
            .method
            .as_ref()
            .filter(|method| !is_token(method.as_bytes()))
        {
            return Err(OptionsError::Field(method.clone(), "a method is letters"));
        }
        let varying = self
            .varying
            .iter()
            .flat_map(|field| field.values.iter().map(|value| (&field.name, value)));
        for (name, value) in self
            .headers
            .iter()
            .map(|(name, value)| (name, value))
            .chain(varying)
        {
            if !is_token(name.as_bytes()) {
                return Err(OptionsError::Field(
                    format!("{name}: {value}"),
                    "its name is no field name",
                ));
            }
            if value.chars().any(|char| char.is_control() && char != '\t') {
                return Err(OptionsError::Field(
                    format!("{name}: {value}"),
                    "it has control characters",
                ));
            }
        }
        Ok(())
    }

    /// What a scheme has no use for is not passed over in silence.
    fn check_for_schemes(&self) -> Result<(), OptionsError> {
        let schemes = self.urls.iter().map(|url| Ok(Url::parse(url)?.scheme));
        let schemes = schemes.collect::<Result<Vec<_>, UrlError>>()?;
        let is_http = |scheme: &Scheme| matches!(scheme, Scheme::Http | Scheme::Https);
        let is_bytes = |scheme: &Scheme| matches!(scheme, Scheme::Tcp | Scheme::Tls);
        let (all_http, some_bytes) = (schemes.iter().all(is_http), schemes.iter().any(is_bytes));
        let some_http = schemes.iter().any(is_http);
        let some_tls = schemes
            .iter()
            .any(|scheme| matches!(scheme, Scheme::Https | Scheme::Wss | Scheme::Tls));
        let (tls, over_tls) = (&self.tls, "https, wss and tls");
        for (option, said, fits, fitting) in [
            (
                "--http2",
                self.streams.is_some(),
                all_http,
                "http and https",
            ),
            (
                "--method",
                self.method.is_some(),
                all_http,
                "http and https",
            ),
            (
                "--header",
                !self.headers.is_empty(),
                !some_bytes,
                "http, https, ws and wss",
            ),
            (
                "--header-any",
                !self.varying.is_empty(),
                all_http,
                "http and https",
            ),
            (
                "--expect-sha256",
                self.expect.wants_hash(),
                all_http,
                "http and https",
            ),
            (
                "--expect-status",
                self.expect.status != [200..=299],
                some_http,
                "http and https",
            ),
            (
                "--stop-on",
                !self.stop_on.is_empty(),
                !schemes.iter().all(is_bytes),
                "http, https, ws and wss",
            ),
            ("--insecure", tls.ca == CaSource::Anyone, some_tls, over_tls),
            (
                "--ca",
                matches!(tls.ca, CaSource::File(_)),
                some_tls,
                over_tls,
            ),
            ("--sni", tls.name.is_some(), some_tls, over_tls),
            ("--tls", !tls.versions.is_empty(), some_tls, over_tls),
            ("--suites", !tls.suites.is_empty(), some_tls, over_tls),
            ("--groups", !tls.groups.is_empty(), some_tls, over_tls),
            ("--no-resumption", !tls.resume, some_tls, over_tls),
            ("--cert", tls.identity.is_some(), some_tls, over_tls),
        ] {
            if said && !fits {
                return Err(OptionsError::Together(format!(
                    "{option} is for {fitting} only"
                )));
            }
        }
        if some_bytes
            && self.body.is_empty()
            && matches!(self.expect.length, Length::First | Length::Exactly(0))
        {
            let text =
                "tcp and tls need something to send, or an --expect-length of what comes by itself";
            return Err(OptionsError::Together(text.to_owned()));
        }
        Ok(())
    }

    /// What HTTP/1 has and HTTP/2 has not (RFC 9113 §8.2.2, §8.5).
    fn check_for_http2(&self) -> Result<(), OptionsError> {
        const OF_CONNECTIONS: [&str; 5] = [
            "connection",
            "keep-alive",
            "proxy-connection",
            "transfer-encoding",
            "upgrade",
        ];
        let together = |text: &str| Err(OptionsError::Together(text.to_owned()));
        if self.streams.is_none() {
            return if self.grpc {
                together("--grpc needs --http2")
            } else {
                Ok(())
            };
        }
        if self.grpc && (self.method.is_some() || matches!(self.body, Body::Random(_))) {
            return together(
                "--grpc posts one message, which is the same each time: no --method, no --body-random",
            );
        }
        if self.method.as_deref() == Some("CONNECT") {
            return Err(OptionsError::Field(
                "CONNECT".to_owned(),
                "over HTTP/2 it opens a tunnel, which is no request",
            ));
        }
        if self
            .varying
            .iter()
            .any(|field| field.name.eq_ignore_ascii_case("host"))
        {
            return Err(OptionsError::Field(
                "Host".to_owned(),
                "it is no field of HTTP/2, and one with each request: say -H",
            ));
        }
        match OF_CONNECTIONS.into_iter().find(|name| self.says(name)) {
            Some(name) => Err(OptionsError::Field(
                name.to_owned(),
                "HTTP/2 has no fields of a connection",
            )),
            None => Ok(()),
        }
    }

    fn stages(&self) -> Result<Vec<Stage>, OptionsError> {
        let mut once = Vec::new();
        if let Some(profile) = &self.profile {
            let changes = profile.spike.is_some() || matches!(profile.rates, Rates::Range(..));
            if changes && self.count.is_some() {
                let text = "--count cannot end a ramp or a spike, which take their time: say --duration instead";
                return Err(OptionsError::Together(text.to_owned()));
            }
            for planned in profile.stages(USUAL)? {
                let until = self.count.map_or(Until::Time(planned.lasts), Until::Count);
                let shape = Loop::Open(planned.schedule);
                once.push(Stage {
                    round: 1,
                    name: planned.name,
                    shape,
                    until,
                });
            }
        } else {
            let time = Until::Time(self.duration.unwrap_or(USUAL));
            let until = self.count.map_or(time, Until::Count);
            once.push(Stage {
                round: 1,
                name: "closed loop".to_owned(),
                shape: Loop::Closed,
                until,
            });
        }
        let rounds = (1..=self.rounds).flat_map(|round| {
            once.iter().map(move |stage| Stage {
                round,
                ..stage.clone()
            })
        });
        Ok(rounds.collect())
    }

    fn targets(&self) -> Result<Vec<Target>, OptionsError> {
        let mut peers: Vec<((Scheme, String, u16), Arc<Peer>)> = Vec::new();
        let mut targets = Vec::new();
        for (place, written) in self.urls.iter().enumerate() {
            let url = Url::parse(written)?;
            let key = (url.scheme, url.host.clone(), url.port);
            let is_web_socket = matches!(url.scheme, Scheme::Ws | Scheme::Wss);
            // Each WebSocket is of one target.
            let known = peers
                .iter()
                .find(|(other, _)| *other == key && !is_web_socket);
            let peer = match known {
                Some((_, peer)) => Arc::clone(peer),
                None => {
                    let peer = Arc::new(self.peer(&url)?);
                    peers.push((key, Arc::clone(&peer)));
                    peer
                }
            };
            targets.push(Target {
                written: written.clone(),
                weight: self.weights.get(place).copied().unwrap_or(1),
                peer,
                ask: self.ask(&url),
                expect: self.expect.clone(),
                first: Default::default(),
            });
        }
        Ok(targets)
    }

    fn connector(&self, scheme: Scheme) -> Result<Option<Arc<Connector>>, OptionsError> {
        // Bytes are of no protocol that could be named.
        let alpn = match scheme {
            Scheme::Https if self.streams.is_some() => vec![b"h2".to_vec()],
            Scheme::Https | Scheme::Wss => vec![b"http/1.1".to_vec()],
            Scheme::Tls => Vec::new(),
            Scheme::Http | Scheme::Ws | Scheme::Tcp => return Ok(None),
        };
        let Tls {
            versions,
            suites,
            groups,
            ..
        } = &self.tls;
        let policy = Policy::from_names(&borrowed(versions), &borrowed(suites), &borrowed(groups))?;
        let settings = ClientSettings {
            name: self.tls.name.clone(),
            alpn,
            policy,
            resume: self.tls.resume,
            identity: self.tls.identity.clone(),
            ..ClientSettings::new(self.tls.ca.clone())
        };
        Ok(Some(Arc::new(Connector::new(settings)?)))
    }

    pub(crate) fn peer(&self, url: &Url) -> Result<Peer, OptionsError> {
        let through = match &self.proxy {
            None => None,
            Some(written) => {
                let proxy = Url::parse(written)?;
                if proxy.scheme != Scheme::Http {
                    let text = format!(
                        "--proxy takes http://HOST:PORT, and `{written}` is something else"
                    );
                    return Err(OptionsError::Together(text));
                }
                Some((proxy, written.clone()))
            }
        };
        let addresses = match (&self.unix, &through) {
            (Some(path), _) => vec![dial::Target::Unix(path.clone())],
            (None, Some((proxy, _))) => resolve(&proxy.host, proxy.port)?,
            (None, None) => resolve(&url.host, url.port)?,
        };
        let authorization = self
            .proxy_user
            .as_ref()
            .map(|user| format!("Basic {}", base64(user)));
        Ok(Peer {
            addresses,
            host: url.host.clone(),
            port: url.port,
            tls: self.connector(url.scheme)?,
            through: through.map(|(_, written)| ConnectProxy {
                written,
                authorization,
            }),
            proxy_protocol: self.proxy_protocol,
            chosen: Default::default(),
        })
    }

    fn ask(&self, url: &Url) -> Exchange {
        match url.scheme {
            Scheme::Http | Scheme::Https => {
                let usual = if self.body.is_empty() && !self.grpc {
                    "GET"
                } else {
                    "POST"
                };
                let method = self.method.as_deref().unwrap_or(usual);
                let wants_length =
                    !self.body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH");
                let wants_length = wants_length && !self.says("content-length");
                if self.streams.is_some() {
                    return Exchange::Http2(self.http2(method, url, wants_length));
                }
                let mut head = self.head(method, url);
                if wants_length && !self.says("transfer-encoding") {
                    encode::content_length(&mut head, self.body.len() as u64);
                }
                if self.per_connection == Some(1) && !self.says("connection") {
                    encode::field(&mut head, b"Connection", b"close");
                }
                if self.varying.is_empty() {
                    encode::end(&mut head);
                }
                let varying = self.varying.clone();
                let body = self.body.clone();
                Exchange::Http(Request {
                    method: Method::of(method.as_bytes()),
                    head,
                    varying,
                    body,
                })
            }
            Scheme::Ws | Scheme::Wss => Exchange::WebSocket(WebSocket {
                head: self.head("GET", url),
                message: self.body.clone(),
            }),
            Scheme::Tcp | Scheme::Tls => Exchange::Bytes(self.body.clone()),
        }
    }

    /// The same request over HTTP/2 (RFC 9113 §8.3.1).
    pub(crate) fn http2(&self, method: &str, url: &Url, wants_length: bool) -> Http2 {
        let host = self
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host.map_or_else(|| url.authority(), |(_, value)| value.clone());
        let scheme = if url.scheme == Scheme::Https {
            "https"
        } else {
            "http"
        };
        let mut fields = vec![
            (":method".to_owned(), method.to_owned()),
            (":scheme".to_owned(), scheme.to_owned()),
            (":authority".to_owned(), authority),
            (":path".to_owned(), url.target.clone()),
        ];
        let mut usual = |name: &str, value: &str| {
            if !self.says(name) {
                fields.push((name.to_owned(), value.to_owned()));
            }
        };
        usual("user-agent", USER_AGENT);
        let body = if self.grpc {
            grpc_message(&self.body)
        } else {
            self.body.clone()
        };
        if self.grpc {
            usual("content-type", "application/grpc");
            usual("te", "trailers");
        } else {
            usual("accept", "*/*");
        }
        if wants_length && !self.grpc {
            usual("content-length", &body.len().to_string());
        }
        let said = self
            .headers
            .iter()
            .filter(|(name, _)| !name.eq_ignore_ascii_case("host"));
        fields.extend(said.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
        let varying = self.varying.iter().map(|field| Varying {
            name: field.name.to_ascii_lowercase(),
            values: field.values.clone(),
        });
        let varying = varying.collect();
        Http2 {
            method: Method::of(method.as_bytes()),
            fields,
            varying,
            body,
            is_grpc: self.grpc,
        }
    }

    /// The first line and the fields that were asked for; without an end.
    pub(crate) fn head(&self, method: &str, url: &Url) -> Vec<u8> {
        let mut head = Vec::new();
        encode::request_line(&mut head, method.as_bytes(), url.target.as_bytes(), None);
        if !self.says("host") {
            encode::field(&mut head, b"Host", url.authority().as_bytes());
        }
        if !self.says("user-agent") {
            encode::field(&mut head, b"User-Agent", USER_AGENT.as_bytes());
        }
        if !self.says("accept") {
            encode::field(&mut head, b"Accept", b"*/*");
        }
        for (name, value) in &self.headers {
            encode::field(&mut head, name.as_bytes(), value.as_bytes());
        }
        head
    }

    pub(crate) fn says(&self, name: &str) -> bool {
        self.headers
            .iter()
            .any(|(said, _)| said.eq_ignore_ascii_case(name))
            || self
                .varying
                .iter()
                .any(|field| field.name.eq_ignore_ascii_case(name))
    }
}

/// A message with its prefix: not compressed, and so many bytes (gRPC over HTTP/2,
/// Length-Prefixed-Message).
fn grpc_message(message: &Body) -> Body {
    let message = message.or(&[]);
    let length = (message.len() as u32).to_be_bytes();
    Body::Fixed([&[0], &length[..], message].concat().into())
}

fn resolve(host: &str, port: u16) -> Result<Vec<dial::Target>, OptionsError> {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    let found = (bare, port).to_socket_addrs();
    let addresses = found.map_err(|error| OptionsError::Resolve {
        host: host.to_owned(),
        error,
    })?;
    Ok(addresses.map(dial::Target::Tcp).collect())
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn base64(text: &str) -> String {
    use base64ct::{Base64, Encoding as _};
    Base64::encode_string(text.as_bytes())
}
