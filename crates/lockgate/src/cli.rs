//! The command line: what the user typed, as one value.
//!
//! Does not read the configuration and does nothing: `main` acts on [`Command`]. Addresses stay as
//! written, because the configuration has one grammar for them and `proxy` is a configuration of
//! one table.

mod compare;
mod foreign;
pub(crate) mod load;
pub(crate) mod serve;
pub(crate) mod tunnel;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, CommandFactory as _, Parser, Subcommand, error::ErrorKind};
pub(crate) use compare::check_load;
use lockgate_compare::CompareOptions;
use lockgate_compare::guard::ProcessGuard;

use crate::one_liners::Demo;

/// Where the configuration is read from when neither `-c` nor [`CONFIG_VARIABLE`] says otherwise.
pub(crate) const DEFAULT_CONFIG: &str = "/etc/lockgate/lockgate.toml";
/// The environment variable that names the configuration file; `-c` wins over it.
pub(crate) const CONFIG_VARIABLE: &str = "LOCKGATE_CONFIG";

/// One invocation, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// Serve what the file says.
    Run { config: PathBuf },
    /// Check the file and print what is wrong with it.
    Check(Check),
    /// Serve a built-in page and application behind a self-signed certificate.
    Demo(Demo),
    /// Serve one listener without a file.
    Proxy {
        listen: String,
        upstream: String,
        tls: ListenerTls,
    },
    /// Serve the files of a folder without a file of configuration.
    Serve(serve::Serve),
    /// Let clients have tunnels without a file of configuration.
    Tunnel(tunnel::Tunnel),
    /// Make load and measure.
    Load(Box<load::Load>),
    /// Measure programs side by side.
    Compare(CompareOptions),
    /// Hold a program that `compare` runs.
    Guard(ProcessGuard),
    /// Print the version.
    Version { output: Output },
}

/// What `check` looks at, how much it says, and what fails it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) config: PathBuf,
    pub(crate) detail: Detail,
    pub(crate) output: Output,
    pub(crate) warnings: Warnings,
    pub(crate) addresses: Addresses,
}

/// How much `check` prints when nothing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Mistakes and one line at the end.
    Mistakes,
    /// Also what a client will get at each address (`-v`).
    Everything,
}

/// Who reads the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A person.
    Text,
    /// A program (`--json`).
    Json,
}

/// How `check` looks at the addresses of listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// Whether this machine has them; their ports may be in use, by the server that is to be
    /// restarted for example.
    OfMachine,
    /// Also whether their ports are free (`--bind`).
    Bind,
}

/// What warnings do to the exit code of `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warnings {
    /// Printed only: exit code 0.
    Printed,
    /// They give exit code 2 (`--strict`).
    Fatal,
}

/// Whether the listener of `proxy` or `serve` speaks TLS, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenerTls {
    /// Bytes as they are.
    Plain,
    /// A self-signed certificate made at start.
    SelfSigned,
    /// Two PEM files.
    Files { cert: PathBuf, key: PathBuf },
}

impl Command {
    /// Reads the arguments and environment of this process.
    ///
    /// Ends the process for `--help` and `--version` (exit code 0) and for usage errors (exit code
    /// 2), after printing what clap says about them.
    pub(crate) fn from_environment() -> Self {
        let variable = std::env::var_os(CONFIG_VARIABLE);
        Self::parse(std::env::args_os(), variable).unwrap_or_else(|error| error.exit())
    }

    /// Reads `arguments` (the program's name first); `variable` is the value of
    /// [`CONFIG_VARIABLE`].
    ///
    /// # Errors
    /// A usage error, or the text of `--help` or `--version` (clap treats both alike: `exit()`
    /// tells them apart).
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = OsString>,
        variable: Option<OsString>,
    ) -> Result<Self, clap::Error> {
        let typed = Typed::try_parse_from(arguments).map_err(foreign::instead)?;
        if let Some(word) = &typed.signal {
            return Err(foreign::signal(word));
        }
        let named = variable.filter(|value| !value.is_empty());
        let default = named.map_or_else(|| PathBuf::from(DEFAULT_CONFIG), PathBuf::from);
        let outer = typed.config;
        match (typed.verb, typed.test || typed.test_in_detail) {
            (Some(_), true) => Err(usage(
                ErrorKind::ArgumentConflict,
                "-t is a command of its own: `lockgate -t -c FILE`",
            )),
            (Some(verb), false) => verb.resolve(outer, default),
            (None, true) => {
                let check = CheckTyped {
                    verbose: typed.test_in_detail,
                    ..CheckTyped::default()
                };
                Ok(Self::Check(check.resolve(outer.unwrap_or(default))))
            }
            (None, false) => match outer {
                Some(config) => Ok(Self::Run { config }),
                None => Err(usage(
                    ErrorKind::MissingSubcommand,
                    "say what to do, for example `lockgate run`",
                )),
            },
        }
    }
}

fn usage(kind: ErrorKind, message: &str) -> clap::Error {
    Typed::command().error(kind, message)
}

/// One binary in front of applications: terminates TLS, relays TCP, balances HTTP, serves files,
/// measures.
#[derive(Parser)]
#[command(
    name = "lockgate",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Start here:\n  lockgate demo                              a running example in one second\n  \
                  lockgate proxy :8443 unix:/run/app.sock --tls self\n  \
                  lockgate serve ./public                    the files of a folder\n  \
                  lockgate check -v -c lockgate.toml         what will a client get?\n\n\
                  Exit codes: 0 ok, 1 failed start or invalid configuration, 2 usage, 3 unclean stop."
)]
struct Typed {
    /// Check the configuration and exit, as `check` does
    #[arg(short = 't')]
    test: bool,
    /// As `check -v` does, for those who know it from nginx
    #[arg(short = 'T', hide = true)]
    test_in_detail: bool,
    /// Signals that nginx sends so
    #[arg(short = 's', hide = true, value_name = "SIGNAL")]
    signal: Option<String>,
    /// The configuration file [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(short = 'c', short_alias = 'f', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Serve what the configuration says
    #[command(
        after_help = "Example:\n  lockgate run -c /etc/lockgate/lockgate.toml\n\n\
        Signals: TERM and INT drain, a second one stops at once; QUIT drains; \
        HUP reads the certificates again and checks the file; USR1 reopens the access log."
    )]
    Run(ConfigTyped),
    /// Check the configuration and what it needs to start, and print every mistake
    #[command(aliases = ["validate", "configtest"], after_help = "Example:\n  lockgate check -v lockgate.toml\n\n\
        It looks at what a start needs, as the user that runs it: files, folders, users, addresses and names. Run it as root \
        where the service starts as root.\n\n\
        Exit codes: 0 clean, 1 errors, 2 warnings with --strict.")]
    Check(CheckTyped),
    /// Serve a built-in page and application over HTTPS, without a file, and say what to try
    #[command(after_help = "Example:\n  lockgate demo --listen 127.0.0.1:9443")]
    Demo {
        /// Where the site is served
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8443", value_parser = socket_address)]
        listen: SocketAddr,
        /// Where the relay listens [default: the port after that of the site]
        #[arg(long, value_name = "ADDR", value_parser = socket_address)]
        relay: Option<SocketAddr>,
        /// Where /metrics, /top, /health and /ready are served
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090", value_parser = socket_address)]
        metrics: SocketAddr,
    },
    /// Relay one listener to one upstream, without a file
    #[command(
        after_help = "Examples:\n  lockgate proxy :8443 127.0.0.1:8080 --tls self\n  \
        lockgate proxy 0.0.0.0:5432 unix:/run/postgresql/.s.PGSQL.5432\n  \
        lockgate proxy :443 app.internal:80 --tls /etc/tls/app.pem,/etc/tls/app.key"
    )]
    Proxy {
        /// Where to listen: ADDR:PORT, :PORT or unix:/PATH
        #[arg(value_parser = not_empty)]
        listen: String,
        /// Where to relay to: HOST:PORT or unix:/PATH
        #[arg(value_parser = not_empty)]
        upstream: String,
        /// Terminate TLS: `self` makes a certificate, else the files of a certificate and its key
        #[arg(long, value_name = "self|CERT,KEY")]
        tls: Option<ListenerTls>,
    },
    /// Serve the files of a folder, without a file of configuration
    #[command(after_help = "Examples:\n  lockgate serve ./public\n  \
        lockgate serve ./dist --spa --tls self\n  \
        lockgate serve /srv/files --listen :8000 --listing")]
    Serve(serve::ServeTyped),
    /// Be an HTTP proxy for tunnels (CONNECT), without a file of configuration
    #[command(after_help = "Examples:\n  lockgate tunnel :3128\n  \
        lockgate tunnel 127.0.0.1:3128 --allow '*.example.org:443' --allow 10.1.0.0/16:22\n  \
        lockgate tunnel :3128 --auth users.htpasswd --tls /etc/tls/proxy.pem,/etc/tls/proxy.key\n\n\
        Without --allow tunnels lead to port 443 of every public host; without --auth they are for loopback and private networks.")]
    Tunnel(tunnel::TunnelTyped),
    /// Measure programs side by side, and say what that shows
    #[command(
        after_help = "Examples:\n  lockgate compare proxies.toml --html proxies.html\n  \
        lockgate compare proxies.toml --only get-100 --programs lockgate,nginx --rounds 3\n\n\
        Exit codes: 0 ok, 1 a file with mistakes or a program that failed, 130 and 143 ended by INT and TERM, \
        after what was measured has been printed."
    )]
    Compare(compare::CompareTyped),
    /// Run a command so that nothing of it outlives whoever asked for it
    #[command(hide = true)]
    Guard(compare::GuardTyped),
    /// Make load and say what came of it
    #[command(
        after_help = "Examples:\n  lockgate load http://127.0.0.1:8080/ -c 100 -d 10s\n  \
        lockgate load https://app.example.com/ --rate 1k..10k --step 1k --every 10s"
    )]
    Load(Box<load::LoadTyped>),
    /// Print the version
    #[command(after_help = "Example:\n  lockgate version --json")]
    Version {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Default)]
struct ConfigTyped {
    /// The configuration file [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(
        short = 'c',
        short_alias = 'f',
        long = "config",
        value_name = "FILE",
        id = "file"
    )]
    config: Option<PathBuf>,
    /// The same without -c
    #[arg(value_name = "FILE", id = "named", conflicts_with = "file")]
    named: Option<PathBuf>,
}

impl ConfigTyped {
    /// The file, however it was named.
    fn file(self) -> Option<PathBuf> {
        self.config.or(self.named)
    }
}

#[derive(Args, Default)]
struct CheckTyped {
    #[command(flatten)]
    config: ConfigTyped,
    /// Print per address what a client will get: certificate, versions, ALPN, endpoints
    #[arg(short, long)]
    verbose: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Exit with 2 when there are warnings
    #[arg(long)]
    strict: bool,
    /// Try to bind the addresses too: fails where another process, such as a running Lockgate, has
    /// them
    #[arg(long)]
    bind: bool,
}

impl Verb {
    fn resolve(self, outer: Option<PathBuf>, default: PathBuf) -> Result<Command, clap::Error> {
        let once = |inner: Option<PathBuf>| match (inner, outer.clone()) {
            (Some(_), Some(_)) => Err(usage(
                ErrorKind::ArgumentConflict,
                "the configuration file is given twice",
            )),
            (inner, outer) => Ok(inner.or(outer).unwrap_or_else(|| default.clone())),
        };
        // An option that a command would ignore is refused, like a key without an effect.
        let without_file = |command| match outer {
            Some(_) => Err(usage(
                ErrorKind::ArgumentConflict,
                "this command reads no configuration: leave out -c",
            )),
            None => Ok(command),
        };
        match self {
            Self::Run(typed) => Ok(Command::Run {
                config: once(typed.file())?,
            }),
            Self::Check(mut typed) => {
                let config = once(std::mem::take(&mut typed.config).file())?;
                Ok(Command::Check(typed.resolve(config)))
            }
            Self::Demo {
                listen,
                relay,
                metrics,
            } => {
                let relay = relay.unwrap_or_else(|| beside(listen));
                without_file(Command::Demo(Demo {
                    listen,
                    relay,
                    metrics,
                }))
            }
            Self::Proxy {
                listen,
                upstream,
                tls,
            } => without_file(Command::Proxy {
                listen,
                upstream,
                tls: tls.unwrap_or(ListenerTls::Plain),
            }),
            Self::Serve(typed) => without_file(Command::Serve(typed.resolve())),
            Self::Tunnel(typed) => without_file(Command::Tunnel(typed.resolve())),
            Self::Load(typed) => {
                let load = typed
                    .resolve()
                    .map_err(|text| usage(ErrorKind::Io, &text))?;
                without_file(Command::Load(Box::new(load)))
            }
            Self::Compare(typed) => without_file(Command::Compare(typed.resolve())),
            Self::Guard(typed) => without_file(Command::Guard(typed.resolve())),
            Self::Version { json } => without_file(Command::Version {
                output: output(json),
            }),
        }
    }
}

impl CheckTyped {
    fn resolve(self, config: PathBuf) -> Check {
        Check {
            config,
            detail: if self.verbose {
                Detail::Everything
            } else {
                Detail::Mistakes
            },
            output: output(self.json),
            warnings: if self.strict {
                Warnings::Fatal
            } else {
                Warnings::Printed
            },
            addresses: if self.bind {
                Addresses::Bind
            } else {
                Addresses::OfMachine
            },
        }
    }
}

fn output(json: bool) -> Output {
    if json { Output::Json } else { Output::Text }
}

/// The next port of the same address; any, where any was asked for.
fn beside(address: SocketAddr) -> SocketAddr {
    let port = if address.port() == 0 {
        0
    } else {
        address.port().checked_add(1).unwrap_or(0)
    };
    SocketAddr::new(address.ip(), port)
}

fn not_empty(written: &str) -> Result<String, String> {
    if written.trim().is_empty() {
        return Err(
            "an address is needed, for example 127.0.0.1:8080 or unix:/run/app.sock".into(),
        );
    }
    Ok(written.to_owned())
}

fn socket_address(written: &str) -> Result<SocketAddr, String> {
    written
        .parse()
        .map_err(|_| "write an IP address and a port: 127.0.0.1:8443 or [::1]:8443".into())
}

impl FromStr for ListenerTls {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        if written == "self" {
            return Ok(Self::SelfSigned);
        }
        match written.split_once(',') {
            Some((cert, key)) if !cert.is_empty() && !key.is_empty() && !key.contains(',') => {
                Ok(Self::Files {
                    cert: cert.into(),
                    key: key.into(),
                })
            }
            _ => Err("write `self`, or two files: /etc/tls/app.pem,/etc/tls/app.key".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        parse_with(line, None)
    }

    fn parse_with(line: &str, variable: Option<&str>) -> Result<Command, clap::Error> {
        let words = std::iter::once("lockgate").chain(line.split_whitespace());
        Command::parse(words.map(OsString::from), variable.map(OsString::from))
    }

    fn check(config: &str) -> Check {
        Check {
            config: config.into(),
            detail: Detail::Mistakes,
            output: Output::Text,
            warnings: Warnings::Printed,
            addresses: Addresses::OfMachine,
        }
    }

    #[test]
    fn the_definition_holds_together() {
        Typed::command().debug_assert();
    }

    #[test]
    fn the_file_comes_from_the_option_then_the_variable_then_the_default() {
        let run = |config: &str| Command::Run {
            config: config.into(),
        };
        assert_eq!(
            parse_with("run -c a.toml", Some("b.toml")).unwrap(),
            run("a.toml")
        );
        assert_eq!(
            parse_with("run --config a.toml", None).unwrap(),
            run("a.toml")
        );
        assert_eq!(parse_with("run", Some("b.toml")).unwrap(), run("b.toml"));
        assert_eq!(parse_with("run", Some("")).unwrap(), run(DEFAULT_CONFIG));
        assert_eq!(parse_with("run", None).unwrap(), run(DEFAULT_CONFIG));
    }

    #[test]
    fn the_spellings_of_nginx_and_haproxy_are_understood() {
        assert_eq!(parse("-t").unwrap(), Command::Check(check(DEFAULT_CONFIG)));
        assert_eq!(
            parse("-t -c a.toml").unwrap(),
            Command::Check(check("a.toml"))
        );
        assert_eq!(
            parse_with("-t", Some("b.toml")).unwrap(),
            Command::Check(check("b.toml"))
        );
        assert_eq!(
            parse("-c a.toml").unwrap(),
            Command::Run {
                config: "a.toml".into()
            }
        );
        assert_eq!(
            parse("-c a.toml run").unwrap(),
            Command::Run {
                config: "a.toml".into()
            }
        );
        assert_eq!(
            parse("-c a.toml check").unwrap(),
            Command::Check(check("a.toml"))
        );
        let in_detail = Check {
            detail: Detail::Everything,
            ..check("a.toml")
        };
        assert_eq!(parse("-T -c a.toml").unwrap(), Command::Check(in_detail));
    }

    #[test]
    fn run_and_check_take_the_file_as_a_word() {
        assert_eq!(
            parse("run a.toml").unwrap(),
            Command::Run {
                config: "a.toml".into()
            }
        );
        assert_eq!(
            parse("run -f a.toml").unwrap(),
            Command::Run {
                config: "a.toml".into()
            }
        );
        assert_eq!(
            parse("-f a.toml").unwrap(),
            Command::Run {
                config: "a.toml".into()
            }
        );
        for line in [
            "check a.toml",
            "validate a.toml",
            "validate --config a.toml",
            "configtest -f a.toml",
        ] {
            assert_eq!(
                parse(line).unwrap(),
                Command::Check(check("a.toml")),
                "{line}"
            );
        }
    }

    #[test]
    fn commands_of_other_servers_say_what_to_do_instead() {
        for (line, says) in [
            ("reload", "systemctl restart lockgate"),
            ("reload --config a.toml", "lockgate check -c FILE"),
            ("restart", "systemctl restart lockgate"),
            ("-s reload", "`-s reload`"),
            ("-s stop", "systemctl stop lockgate"),
            ("-s quit", "drain.deadline"),
            ("-s reopen", "USR1"),
            ("-s fly", "TERM stops"),
            ("stop", "systemctl stop lockgate"),
            ("start", "lockgate run -c FILE"),
            ("status", "systemctl status lockgate"),
            ("fmt", "taplo"),
            ("adapt --config a", "docs/config.md"),
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            let text = error.to_string();
            assert!(text.contains(says), "{line}: {text}");
            assert!(
                !text.contains("similar") && text.lines().count() <= 2,
                "{line}: {text}"
            );
        }
    }

    #[test]
    fn check_takes_its_switches() {
        let all = Check {
            config: "a.toml".into(),
            detail: Detail::Everything,
            output: Output::Json,
            warnings: Warnings::Fatal,
            addresses: Addresses::Bind,
        };
        assert_eq!(
            parse("check -v --json --strict --bind -c a.toml").unwrap(),
            Command::Check(all)
        );
    }

    #[test]
    fn demo_listens_on_loopback_unless_told() {
        let demo = |listen: &str, relay: &str, metrics: &str| {
            let address = |text: &str| text.parse().unwrap();
            Command::Demo(Demo {
                listen: address(listen),
                relay: address(relay),
                metrics: address(metrics),
            })
        };
        assert_eq!(
            parse("demo").unwrap(),
            demo("127.0.0.1:8443", "127.0.0.1:8444", "127.0.0.1:9090")
        );
        let typed = "demo --listen [::1]:1 --metrics 0.0.0.0:2";
        assert_eq!(
            parse(typed).unwrap(),
            demo("[::1]:1", "[::1]:2", "0.0.0.0:2")
        );
        let typed = "demo --listen 127.0.0.1:0 --relay 127.0.0.2:3";
        assert_eq!(
            parse(typed).unwrap(),
            demo("127.0.0.1:0", "127.0.0.2:3", "127.0.0.1:9090")
        );
    }

    #[test]
    fn proxy_is_plain_unless_told() {
        let proxy = |tls| Command::Proxy {
            listen: ":8443".into(),
            upstream: "unix:/a.sock".into(),
            tls,
        };
        assert_eq!(
            parse("proxy :8443 unix:/a.sock").unwrap(),
            proxy(ListenerTls::Plain)
        );
        assert_eq!(
            parse("proxy :8443 unix:/a.sock --tls self").unwrap(),
            proxy(ListenerTls::SelfSigned)
        );
        let files = ListenerTls::Files {
            cert: "a.pem".into(),
            key: "a.key".into(),
        };
        assert_eq!(
            parse("proxy --tls a.pem,a.key :8443 unix:/a.sock").unwrap(),
            proxy(files)
        );
    }

    #[test]
    fn serve_listens_on_loopback_and_lists_nothing_unless_told() {
        let bare = serve::Serve {
            root: "public".into(),
            listen: serve::Listen::Address("127.0.0.1:8000".parse().unwrap()),
            tls: ListenerTls::Plain,
            spa: false,
            listing: false,
        };
        assert_eq!(parse("serve public").unwrap(), Command::Serve(bare.clone()));
        for (written, listen) in [
            (":80", serve::Listen::Port(80)),
            (
                "[::1]:80",
                serve::Listen::Address("[::1]:80".parse().unwrap()),
            ),
            (
                "unix:/run/a.sock",
                serve::Listen::Unix("unix:/run/a.sock".into()),
            ),
        ] {
            let found = parse(&format!("serve public --listen {written}")).unwrap();
            assert_eq!(
                found,
                Command::Serve(serve::Serve {
                    listen,
                    ..bare.clone()
                })
            );
        }
        let all = serve::Serve {
            tls: ListenerTls::SelfSigned,
            spa: true,
            listing: true,
            ..bare
        };
        assert_eq!(
            parse("serve --tls self --spa --listing public").unwrap(),
            Command::Serve(all)
        );
    }

    #[test]
    fn tunnel_is_for_neighbours_and_leads_to_https_unless_told() {
        let bare = tunnel::Tunnel {
            listen: ":3128".into(),
            allow: Vec::new(),
            deny: Vec::new(),
            clients: Vec::new(),
            private: false,
            auth: None,
            tls: ListenerTls::Plain,
        };
        assert_eq!(
            parse("tunnel :3128").unwrap(),
            Command::Tunnel(bare.clone())
        );
        let all = tunnel::Tunnel {
            allow: vec!["*.a.test:443".into(), "10.0.0.0/8:22,80".into()],
            deny: vec!["b.a.test".into()],
            clients: vec!["192.0.2.0/24".into()],
            private: true,
            auth: Some("users".into()),
            tls: ListenerTls::SelfSigned,
            ..bare
        };
        let typed = "tunnel :3128 --allow *.a.test:443 --allow 10.0.0.0/8:22,80 --deny b.a.test --clients 192.0.2.0/24 \
                     --private --auth users --tls self";
        assert_eq!(parse(typed).unwrap(), Command::Tunnel(all));
    }

    #[test]
    fn version_speaks_json_too() {
        assert_eq!(
            parse("version").unwrap(),
            Command::Version {
                output: Output::Text
            }
        );
        assert_eq!(
            parse("version --json").unwrap(),
            Command::Version {
                output: Output::Json
            }
        );
    }

    #[test]
    fn usage_errors_exit_with_2_and_say_the_cure() {
        for (line, says) in [
            ("", "Usage"),
            ("chekc", "'check'"),
            ("run --confg a", "--config"),
            ("run a.toml b.toml", "unexpected"),
            ("-c a.toml run -c b.toml", "twice"),
            ("-c a.toml run b.toml", "twice"),
            ("run -c a.toml b.toml", "cannot be used with"),
            ("-c a.toml demo", "leave out -c"),
            ("-t run", "a command of its own"),
            ("demo --listen 8443", "write an IP address and a port"),
            ("proxy :8443", "UPSTREAM"),
            ("proxy :8443 a:1 --tls a.pem", "write `self`, or two files"),
            ("proxy :8443 a:1 --tls a.pem,", "write `self`, or two files"),
            ("proxy :8443 a:1 --tls a,b,c", "write `self`, or two files"),
            ("tunnel", "LISTEN"),
            ("tunnel :1 --allow", "TARGET"),
            ("-c a.toml tunnel :1", "leave out -c"),
            ("serve", "DIR"),
            ("serve a b", "unexpected"),
            ("-c a.toml serve a", "leave out -c"),
            ("serve a --listen 8000", "write 127.0.0.1:8000"),
            ("serve a --listen :65536", "write 127.0.0.1:8000"),
            ("serve a --tls yes", "write `self`, or two files"),
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for verb in [
            "run", "check", "demo", "proxy", "serve", "tunnel", "version",
        ] {
            let help = parse(&format!("{verb} --help")).expect_err(verb);
            assert_eq!(help.exit_code(), 0);
            assert!(
                help.to_string().contains(&format!("lockgate {verb}")),
                "{help}"
            );
        }
        assert_eq!(parse("--version").expect_err("text").exit_code(), 0);
    }
}
