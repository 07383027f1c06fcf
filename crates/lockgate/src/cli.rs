//! The command line, parsed into one value.
//!
//! Does not read the configuration and runs nothing: `main` acts on [`Command`]. Addresses stay
//! text, because the configuration parses them, and `proxy` is a configuration of one table.

pub(crate) mod admin;
pub(crate) mod ca;
pub(crate) mod cert;
pub(crate) mod check;
mod compare;
pub(crate) mod connections;
mod demo;
mod describe;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod fmt;
mod foreign;
pub(crate) mod healthcheck;
pub(crate) mod import;
pub(crate) mod load;
pub(crate) mod plan;
pub(crate) mod serve;
pub(crate) mod tail;
pub(crate) mod top;
pub(crate) mod tunnel;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use admin::AdminVerb;
use clap::{Args, CommandFactory as _, Parser, Subcommand, error::ErrorKind};
use clap_complete::Shell;
pub(crate) use compare::check_load;
pub(crate) use demo::DemoOptions;
pub(crate) use describe::{print_completion, print_manual};
use lockgate_compare::CompareOptions;
use lockgate_compare::guard::ProcessGuard;

use crate::handover::StartKind;

/// The configuration file where neither `-c` nor [`CONFIG_VARIABLE`] names one.
pub(crate) const DEFAULT_CONFIG: &str = "/etc/lockgate/lockgate.toml";
/// The environment variable that names the configuration file; `-c` wins over it.
pub(crate) const CONFIG_VARIABLE: &str = "LOCKGATE_CONFIG";

/// One invocation, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Run {
        config: PathBuf,
        kind: StartKind,
    },
    /// Serve with the last configuration that worked.
    RunLastGood {
        /// The file that was meant.
        config: PathBuf,
        kind: StartKind,
    },
    /// Check a configuration file and print its mistakes.
    Check(check::CheckOptions),
    /// Examine the machine that a configuration is to run on.
    Doctor(doctor::DoctorOptions),
    /// Say what becomes of a request.
    Explain(explain::ExplainOptions),
    /// Say what becomes of one live request.
    Trace(explain::TraceOptions),
    /// Say what a changed configuration changes.
    Plan(plan::PlanOptions),
    /// Bring configuration files into their canonical form.
    Fmt(fmt::FmtOptions),
    /// Write a configuration of another server anew.
    Import(import::ForeignConfigOptions),
    /// Serve a built-in page and application with a self-signed certificate.
    Demo(DemoOptions),
    /// Relay one listener without a configuration file.
    Proxy {
        listen: String,
        upstream: String,
        tls: Option<ListenerTls>,
    },
    /// Serve the files of a folder without a configuration file.
    Serve(serve::ServeOptions),
    /// Serve tunnels without a configuration file.
    Tunnel(tunnel::TunnelOptions),
    /// Generate load and measure the responses.
    Load(Box<load::LoadRun>),
    /// Measure programs side by side.
    Compare(CompareOptions),
    /// Run a program for `compare` and end everything that it started.
    Guard(ProcessGuard),
    Version {
        output: PrintFormat,
    },
    /// Ask a running Lockgate over its admin socket.
    Admin(admin::AdminOptions),
    /// Look at certificates that Lockgate obtains, or change them.
    Cert(cert::CertOptions),
    /// List or close the connections of a running Lockgate.
    Connections(connections::ConnectionsOptions),
    /// Follow the access log of a running Lockgate.
    Tail(tail::TailOptions),
    /// Show the figures of a running Lockgate as they change.
    Top(top::TopOptions),
    /// Ask a running Lockgate whether it is ready.
    Healthcheck(healthcheck::HealthcheckOptions),
    /// Use the internal authority.
    Ca(ca::CaOptions),
    /// Print the completion script of a shell.
    Completion(Shell),
    /// Print the manual page of a command; `None` is the program.
    Man(Option<String>),
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrintFormat {
    Text,
    Json,
}

/// TLS of the listener of `proxy`, `serve` or `tunnel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenerTls {
    /// TLS with a self-signed certificate made at start.
    SelfSigned,
    /// TLS with a certificate of the authority in the state folder, made at start.
    Internal,
    /// TLS with the certificate and key of two PEM files.
    Files { cert: PathBuf, key: PathBuf },
}

impl Command {
    /// Reads the arguments and environment of this process.
    ///
    /// Ends the process for `--help` and `--version` (exit code 0) and for usage errors (exit code
    /// 2), after printing clap's text.
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
        let args = Cli::try_parse_from(arguments).map_err(foreign::replace)?;
        if let Some(word) = &args.signal {
            return Err(foreign::signal(word));
        }
        let named = variable.filter(|value| !value.is_empty());
        let default = named.map_or_else(|| PathBuf::from(DEFAULT_CONFIG), PathBuf::from);
        let outer = args.config;
        match (args.command, args.test || args.test_in_detail) {
            (Some(_), true) => Err(usage(
                ErrorKind::ArgumentConflict,
                "-t cannot be combined with a command: `lockgate -t -c FILE`",
            )),
            (Some(command), false) => command.resolve(outer, default),
            (None, true) => {
                let check = check::CheckArgs {
                    verbose: args.test_in_detail,
                    ..check::CheckArgs::default()
                };
                Ok(Self::Check(check.resolve(outer.unwrap_or(default))))
            }
            (None, false) => match outer {
                Some(config) => Ok(Self::Run {
                    config,
                    kind: StartKind::Plain,
                }),
                None => Err(usage(
                    ErrorKind::MissingSubcommand,
                    "a command is missing, for example `lockgate run`",
                )),
            },
        }
    }
}

fn usage(kind: ErrorKind, message: &str) -> clap::Error {
    Cli::command().error(kind, message)
}

/// TLS terminator, TCP relay, HTTP load balancer, file server and load generator in one binary.
#[derive(Parser)]
#[command(
    name = "lockgate",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Start here:\n  lockgate demo                              a running example in one second\n  \
                  lockgate proxy :8443 unix:/run/app.sock --tls self\n  \
                  lockgate serve ./public                    the files of a folder\n  \
                  lockgate check -v -c lockgate.toml         what each address serves\n\n\
                  Exit codes: 0 ok, 1 failed start or invalid configuration, 2 usage, 3 unclean stop."
)]
struct Cli {
    /// Check the configuration and exit, as `check` does
    #[arg(short = 't')]
    test: bool,
    /// The same as `check -v`, as in nginx
    #[arg(short = 'T', hide = true)]
    test_in_detail: bool,
    /// The signals of `nginx -s`
    #[arg(short = 's', hide = true, value_name = "SIGNAL")]
    signal: Option<String>,
    /// The configuration file [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(short = 'c', short_alias = 'f', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<CommandArgs>,
}

#[derive(Subcommand)]
enum CommandArgs {
    /// Run the server with a configuration file
    #[command(
        after_help = "Examples:\n  lockgate run -c /etc/lockgate/lockgate.toml\n  \
        lockgate run -c /etc/lockgate/lockgate.toml --takeover\n\n\
        Signals: TERM, INT and QUIT drain the connections and stop, a second one stops at once; \
        HUP takes over the changed configuration; USR1 reopens the access logs."
    )]
    Run {
        #[command(flatten)]
        config: ConfigArgs,
        /// Start with the last configuration that worked, which the folder of `state` keeps
        #[arg(long)]
        last_good: bool,
        /// Take over from the Lockgate that serves, if there is one: it hands over its sockets and
        /// finishes what it has begun
        #[arg(long)]
        takeover: bool,
    },
    /// Check a configuration file and everything that a start needs, and print every mistake
    #[command(aliases = ["validate", "configtest"], after_help = "Example:\n  lockgate check -v lockgate.toml\n\n\
        It also checks the files, folders, users, addresses and host names that a start needs, as the user that runs it. Run \
        it as root if the service starts as root.\n\n\
        Exit codes: 0 clean, 1 errors, 2 warnings with --strict.")]
    Check(check::CheckArgs),
    /// Examine the machine that a configuration runs on: ports, names, certificates, kernel, disks, and
    /// which limit is reached first
    #[command(
        after_help = "Examples:\n  sudo lockgate doctor\n  lockgate doctor -c lockgate.toml --strict --json\n\n\
        The configuration is checked first, as `check` does it, and the running Lockgate is asked over its admin socket. \
        Nothing is changed and no file is written. DNS is asked for the names of the sites; connections go to the \
        listeners of sites and tunnels, to the metrics address, and to addresses of the names that are not of this \
        machine, there with a TLS handshake. None goes to a relay, since it would go on to an endpoint.\n\n\
        Exit codes: 0 no problem, 1 a problem, an invalid configuration, or a warning with --strict, 2 usage."
    )]
    Doctor(doctor::DoctorArgs),
    /// Say what becomes of a request: listener, certificate, site, route and why no other, rewrites,
    /// conditions, endpoints
    #[command(
        after_help = "Examples:\n  lockgate explain https://app.example.com/api/users\n  \
        lockgate explain -X POST http://127.0.0.1:8080/upload -H 'Host: files.example.com' --from 10.0.0.7 --json\n  \
        lockgate explain --live https://app.example.com/\n  \
        lockgate explain --via http://127.0.0.1:3128 tcp://db.example.org:5432\n  \
        lockgate explain --trace https://app.example.com/\n\n\
        Nothing is sent: the rules that serve are asked. Exit codes: 0 explained, 1 invalid configuration, \
        or no listener has the URL's port."
    )]
    Explain(explain::ExplainArgs),
    /// Say what a changed configuration changes: tables, keys, listeners, and what the requests of an
    /// access log would meet
    #[command(after_help = "Examples:\n  lockgate plan -c new.toml\n  \
        lockgate plan -c new.toml --from lockgate.toml --log /var/log/lockgate/access.log\n  \
        zcat access.log.*.gz | lockgate plan -c new.toml --log -\n\n\
        Nothing is changed, opened or sent. Exit codes: 0 compared, 1 invalid configuration or log, \
        2 changes with --strict.")]
    Plan(plan::PlanArgs),
    /// Bring configuration files into their canonical form: the order of the reference, spaces,
    /// quotes; comments stay
    #[command(after_help = "Examples:\n  lockgate fmt\n  \
        lockgate fmt --check /etc/lockgate/*.toml\n\n\
        Exit codes: 0 done, 1 a file that would change with --check, is no TOML or cannot be written.")]
    Fmt(fmt::FmtArgs),
    /// Write a configuration of nginx, HAProxy, Caddy, Traefik or hitch anew, with a verdict for each
    /// of its statements
    #[command(
        after_help = "Examples:\n  lockgate import nginx /etc/nginx/nginx.conf -o lockgate.toml\n  \
        lockgate import traefik traefik.yml dynamic.yml docker-compose.yml --verbose\n\n\
        The file has tests ([[test]]) of what was understood: `lockgate check` runs them. Exit codes: 0 converted, 1 a file that \
        cannot be read or is not of the format, 2 losses with --strict."
    )]
    Import(import::ForeignConfigArgs),
    /// Run a demo without a configuration file: a built-in page and application over HTTPS
    #[command(after_help = "Example:\n  lockgate demo --listen 127.0.0.1:9443")]
    Demo(DemoOptions),
    /// Relay TCP connections from one address to another, without a configuration file
    #[command(
        after_help = "Examples:\n  lockgate proxy :8443 127.0.0.1:8080 --tls self\n  \
        lockgate proxy 0.0.0.0:5432 unix:/run/postgresql/.s.PGSQL.5432\n  \
        lockgate proxy :443 app.internal:80 --tls /etc/tls/app.pem,/etc/tls/app.key"
    )]
    Proxy {
        /// The address to listen on: ADDR:PORT, :PORT or unix:/PATH
        #[arg(value_parser = not_empty)]
        listen: String,
        /// The address to relay to: HOST:PORT or unix:/PATH
        #[arg(value_parser = not_empty)]
        upstream: String,
        /// Terminate TLS with the files of a certificate and its key; `self` makes a
        /// certificate, `internal` has one of Lockgate's own authority, as `lockgate ca` shows it
        #[arg(long, value_name = "self|internal|CERT,KEY")]
        tls: Option<ListenerTls>,
    },
    /// Serve the files of a folder, without a configuration file
    #[command(after_help = "Examples:\n  lockgate serve ./public\n  \
        lockgate serve ./dist --spa --tls self\n  \
        lockgate serve /srv/files --listen :8000 --listing")]
    Serve(serve::ServeOptions),
    /// Run an HTTP proxy for tunnels (CONNECT), without a configuration file
    #[command(after_help = "Examples:\n  lockgate tunnel :3128\n  \
        lockgate tunnel 127.0.0.1:3128 --allow '*.example.org:443' --allow 10.1.0.0/16:22\n  \
        lockgate tunnel :3128 --auth users.htpasswd --tls /etc/tls/proxy.pem,/etc/tls/proxy.key\n\n\
        Without --allow, tunnels may lead to port 443 of every public host. Without --auth, only clients in loopback and \
        private networks may open tunnels.")]
    Tunnel(tunnel::TunnelOptions),
    /// Measure programs side by side and compare the results
    #[command(
        after_help = "Examples:\n  lockgate compare proxies.toml --html proxies.html\n  \
        lockgate compare proxies.toml --only get-100 --programs lockgate,nginx --rounds 3\n\n\
        Exit codes: 0 ok, 1 mistakes in the file or a program that failed, 130 and 143 stopped by INT and TERM, after the \
        measurements so far were printed."
    )]
    Compare(compare::CompareArgs),
    /// Run a command, and end all of its processes when the caller ends
    #[command(hide = true)]
    Guard(compare::GuardArgs),
    /// Generate load and report the results
    #[command(
        after_help = "Examples:\n  lockgate load http://127.0.0.1:8080/ -c 100 -d 10s\n  \
        lockgate load https://app.example.com/ --rate 1k..10k --step 1k --every 10s"
    )]
    Load(Box<load::LoadArgs>),
    /// Print the version
    #[command(after_help = "Example:\n  lockgate version --json")]
    Version {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show a running Lockgate: its phase, listeners, limits, configuration
    #[command(
        after_help = "Examples:\n  lockgate status\n  lockgate status --admin unix:/run/lockgate/admin.sock --json"
    )]
    Status(admin::AdminArgs),
    /// Show the pools of a running Lockgate
    #[command(after_help = "Example:\n  lockgate pools")]
    Pools(admin::AdminArgs),
    /// Show the endpoints of a running Lockgate: state, connections, requests, latency
    #[command(after_help = "Example:\n  lockgate endpoints -c /etc/lockgate/lockgate.toml")]
    Endpoints(admin::AdminArgs),
    /// List the connections of a running Lockgate, or close some
    #[command(
        after_help = "Examples:\n  lockgate connections --client 10.0.0.0/8 --older-than 10m\n  \
        lockgate connections close 9b1d3a52c07e4f10"
    )]
    Connections(connections::ConnectionsArgs),
    /// Follow the access log of a running Lockgate, also where it is written nowhere
    #[command(
        after_help = "Examples:\n  lockgate tail --status 5xx --status 404\n  \
        lockgate tail --site app.example.com --slower-than 1s --json"
    )]
    Tail(tail::TailArgs),
    /// Show what a running Lockgate does, each second anew: sites, pools, endpoints, clients
    #[command(after_help = "Examples:\n  lockgate top\n  lockgate top --once")]
    Top(top::TopArgs),
    /// Show the certificates of a running Lockgate, the first to expire first
    #[command(after_help = "Example:\n  lockgate certs")]
    Certs(admin::AdminArgs),
    /// Look at the certificates that Lockgate obtains; renew, revoke, try or import them
    #[command(subcommand)]
    Cert(cert::CertCommand),
    /// Show or set the level of the operator log of a running Lockgate, until its next start
    #[command(after_help = "Example:\n  lockgate log-level debug")]
    LogLevel {
        /// The least severe level that is written [default: show the level]
        level: Option<admin::LevelName>,
        #[command(flatten)]
        admin: admin::AdminArgs,
    },
    /// Let a running Lockgate take over its changed configuration, as a whole or not at all
    #[command(
        after_help = "Examples:\n  lockgate reload\n  lockgate reload --confirm 5m\n  \
        lockgate reload --stdin < new.toml\n\n\
        Exit codes: 0 the configuration runs, 1 it does not and nothing has changed."
    )]
    Reload {
        /// Take over the configuration from standard input, until the next reload or start
        #[arg(long)]
        stdin: bool,
        /// Go back to the configuration before after this time, unless `lockgate confirm` comes
        #[arg(long, value_name = "TIME", value_parser = admin::confirmation)]
        confirm: Option<u64>,
        #[command(flatten)]
        admin: admin::AdminArgs,
    },
    /// Let a running Lockgate keep a configuration that was to be confirmed
    #[command(after_help = "Example:\n  lockgate confirm")]
    Confirm(admin::AdminArgs),
    /// Let a running Lockgate take over the configuration that ran before
    #[command(after_help = "Example:\n  lockgate rollback")]
    Rollback(admin::AdminArgs),
    /// Let a new program take over from a running Lockgate, without a connection lost
    #[command(
        after_help = "Examples:\n  lockgate upgrade\n  lockgate upgrade ./lockgate-1.3 --timeout 20\n\n\
        The new program gets every listening socket and reads the configuration file. When it serves,\n\
        the running one finishes what it has begun. Exit codes: 0 the new one serves, 1 the running one goes on."
    )]
    Upgrade {
        #[command(flatten)]
        options: admin::UpgradeOptions,
        #[command(flatten)]
        admin: admin::AdminArgs,
    },
    /// Let a running Lockgate open its access logs again
    #[command(after_help = "Example:\n  lockgate reopen")]
    Reopen(admin::AdminArgs),
    /// Let a running Lockgate drain its connections and stop, as TERM does
    #[command(
        after_help = "Example:\n  lockgate drain\n\nWhile it drains already, this changes nothing."
    )]
    Drain(admin::AdminArgs),
    /// Let a running Lockgate stop: drain first, and at once when it drains already
    #[command(
        after_help = "Example:\n  lockgate stop\n\nA second one cuts the connections that are left."
    )]
    Stop(admin::AdminArgs),
    /// Add an endpoint to a pool of a running Lockgate, remove it, drain it, or set its weight
    #[command(subcommand)]
    Endpoint(admin::EndpointCommand),
    /// Begin or end the maintenance of a site of a running Lockgate
    #[command(subcommand)]
    Site(admin::SiteCommand),
    /// Ban clients of a running Lockgate for a while
    #[command(subcommand)]
    Client(admin::ClientCommand),
    /// Show the rate limits of a running Lockgate, or forget what clients have used of them
    #[command(after_help = "Examples:\n  lockgate limits\n  lockgate limits clear 192.0.2.1")]
    Limits(admin::LimitsArgs),
    /// Ask a running Lockgate whether it is ready, for containers: exit code 0 or 1
    #[command(
        after_help = "Examples:\n  lockgate healthcheck -c /etc/lockgate/lockgate.toml\n  \
        lockgate healthcheck --url http://127.0.0.1:9090/ready\n\n\
        Exit codes: 0 ready, 1 not ready or no response, 2 usage."
    )]
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Use the internal authority: show and export its root, issue certificates, trust it
    #[command(subcommand)]
    Ca(ca::CaCommand),
    /// Print the completion script of a shell
    #[command(
        after_help = "Examples:\n  lockgate completion bash > /etc/bash_completion.d/lockgate\n  \
        lockgate completion fish > ~/.config/fish/completions/lockgate.fish"
    )]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page in roff
    #[command(after_help = "Examples:\n  lockgate man | man -l -\n  \
        lockgate man check > /usr/local/share/man/man1/lockgate-check.1")]
    Man {
        /// The command that the page is for [default: the program]
        #[arg(value_name = "COMMAND", value_parser = describe::command_name)]
        command: Option<String>,
    },
}

#[derive(Args, Default)]
struct ConfigArgs {
    /// The configuration file [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(
        short = 'c',
        short_alias = 'f',
        long = "config",
        value_name = "FILE",
        id = "file"
    )]
    config: Option<PathBuf>,
    /// The configuration file, without -c
    #[arg(value_name = "FILE", id = "named", conflicts_with = "file")]
    named: Option<PathBuf>,
}

impl ConfigArgs {
    /// The file of either spelling.
    fn file(self) -> Option<PathBuf> {
        self.config.or(self.named)
    }
}

impl CommandArgs {
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
        let choose = |args: admin::AdminArgs| {
            args.choice(outer.clone(), default.clone()).ok_or_else(|| {
                usage(
                    ErrorKind::ArgumentConflict,
                    "give one configuration file or one admin socket",
                )
            })
        };
        let ask = |args: admin::AdminArgs, verb| {
            let (socket, output) = choose(args)?;
            Ok(Command::Admin(admin::AdminOptions {
                socket,
                output,
                verb,
            }))
        };
        let change = |(change, args)| ask(args, AdminVerb::Change(change));
        match self {
            Self::Connections(args) => {
                let (verb, args) = args.split();
                let (socket, output) = choose(args)?;
                Ok(Command::Connections(connections::ConnectionsOptions {
                    socket,
                    output,
                    verb,
                }))
            }
            Self::Tail(args) => {
                let (parameters, args) = args.split();
                let (socket, output) = choose(args)?;
                Ok(Command::Tail(tail::TailOptions {
                    socket,
                    output,
                    parameters,
                }))
            }
            Self::Top(args) => {
                let (socket, output) = choose(args.admin)?;
                Ok(Command::Top(top::TopOptions {
                    socket,
                    output,
                    once: args.once,
                }))
            }
            Self::Status(args) => ask(args, AdminVerb::Status),
            Self::Pools(args) => ask(args, AdminVerb::Pools),
            Self::Endpoints(args) => ask(args, AdminVerb::Endpoints),
            Self::Certs(args) => ask(args, AdminVerb::Certs),
            Self::Cert(command) => match command.split() {
                cert::WrittenCert::Ask(verb, args) => {
                    let (socket, output) = choose(args)?;
                    Ok(Command::Cert(cert::CertOptions::Ask {
                        socket,
                        output,
                        verb,
                    }))
                }
                cert::WrittenCert::Import(mut args) => {
                    if args.names_state() && outer.is_some() {
                        return Err(usage(
                            ErrorKind::ArgumentConflict,
                            "give one configuration file or one folder of `state`",
                        ));
                    }
                    let config = once(args.take_config())?;
                    let import = args.resolve(config);
                    Ok(Command::Cert(cert::CertOptions::Import(import)))
                }
            },
            Self::LogLevel { level, admin } => ask(admin, AdminVerb::LogLevel(level)),
            Self::Reload {
                stdin,
                confirm,
                admin,
            } => ask(admin, AdminVerb::Reload { stdin, confirm }),
            Self::Confirm(args) => ask(args, AdminVerb::Confirm),
            Self::Upgrade { options, admin } => ask(admin, AdminVerb::Upgrade(options)),
            Self::Rollback(args) => ask(args, AdminVerb::Rollback),
            Self::Reopen(args) => ask(args, AdminVerb::Reopen),
            Self::Drain(args) => ask(args, AdminVerb::Drain),
            Self::Stop(args) => ask(args, AdminVerb::Stop),
            Self::Endpoint(command) => change(command.resolve()),
            Self::Site(command) => change(command.resolve()),
            Self::Client(command) => change(command.resolve()),
            Self::Limits(args) => change(args.resolve()),
            Self::Run {
                config,
                last_good,
                takeover,
            } => {
                let config = once(config.file())?;
                let kind = match takeover {
                    true => StartKind::Takeover,
                    false => StartKind::Plain,
                };
                Ok(match last_good {
                    true => Command::RunLastGood { config, kind },
                    false => Command::Run { config, kind },
                })
            }
            Self::Check(mut args) => {
                let config = once(std::mem::take(&mut args.config).file())?;
                Ok(if args.against_running {
                    Command::Admin(admin::check(config, args.json))
                } else {
                    Command::Check(args.resolve(config))
                })
            }
            Self::Doctor(mut args) => {
                let config = once(std::mem::take(&mut args.config).file())?;
                Ok(Command::Doctor(args.resolve(config)))
            }
            Self::Explain(args) => {
                let Some(url) = args.asked_url() else {
                    let (url, args) = args.into_trace();
                    let (socket, output) = choose(args)?;
                    return Ok(Command::Trace(explain::TraceOptions {
                        socket,
                        url,
                        output,
                    }));
                };
                let (is_live, resolve) = (args.is_live(), args.resolves());
                let (request, args) = args.split(url);
                let (source, output) = if is_live {
                    let (socket, output) = choose(args)?;
                    (explain::ExplainSource::Running(socket), output)
                } else {
                    let (file, output) = args.into_file();
                    (explain::ExplainSource::File(once(file)?), output)
                };
                Ok(Command::Explain(explain::ExplainOptions {
                    source,
                    request,
                    resolve,
                    output,
                }))
            }
            Self::Plan(mut args) => {
                let config = once(std::mem::take(&mut args.config).file())?;
                Ok(Command::Plan(args.resolve(config)))
            }
            Self::Fmt(mut args) => {
                let named = std::mem::take(&mut args.files);
                let first = once(named.first().cloned())?;
                let files = if named.is_empty() { vec![first] } else { named };
                Ok(Command::Fmt(args.resolve(files)))
            }
            Self::Import(args) => without_file(Command::Import(args.resolve())),
            Self::Demo(options) => without_file(Command::Demo(options)),
            Self::Proxy {
                listen,
                upstream,
                tls,
            } => without_file(Command::Proxy {
                listen,
                upstream,
                tls,
            }),
            Self::Serve(options) => without_file(Command::Serve(options)),
            Self::Tunnel(options) => without_file(Command::Tunnel(options)),
            Self::Load(args) => {
                let load = args.resolve().map_err(|text| usage(ErrorKind::Io, &text))?;
                without_file(Command::Load(Box::new(load)))
            }
            Self::Compare(args) => without_file(Command::Compare(args.resolve())),
            Self::Guard(args) => without_file(Command::Guard(args.resolve())),
            Self::Version { json } => without_file(Command::Version {
                output: output(json),
            }),
            Self::Healthcheck(args) => match args.resolve() {
                (config, None) => Ok(Command::Healthcheck(
                    healthcheck::HealthcheckOptions::Configured(once(config)?),
                )),
                (_, Some(url)) => without_file(Command::Healthcheck(
                    healthcheck::HealthcheckOptions::Url(url),
                )),
            },
            Self::Ca(command) => {
                let (verb, args) = command
                    .split()
                    .map_err(|text| usage(ErrorKind::ValueValidation, &text))?;
                let state = args.choice(outer, default).ok_or_else(|| {
                    usage(
                        ErrorKind::ArgumentConflict,
                        "give one configuration file or one folder of `state`",
                    )
                })?;
                Ok(Command::Ca(ca::CaOptions { state, verb }))
            }
            Self::Completion { shell } => without_file(Command::Completion(shell)),
            Self::Man { command } => without_file(Command::Man(command)),
        }
    }
}

fn output(json: bool) -> PrintFormat {
    if json {
        PrintFormat::Json
    } else {
        PrintFormat::Text
    }
}

fn not_empty(written: &str) -> Result<String, String> {
    if written.trim().is_empty() {
        return Err(
            "an address is needed, for example 127.0.0.1:8080 or unix:/run/app.sock".into(),
        );
    }
    Ok(written.to_owned())
}

impl FromStr for ListenerTls {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        if written == "self" {
            return Ok(Self::SelfSigned);
        }
        if written == "internal" {
            return Ok(Self::Internal);
        }
        match written.split_once(',') {
            Some((cert, key)) if !cert.is_empty() && !key.is_empty() && !key.contains(',') => {
                Ok(Self::Files {
                    cert: cert.into(),
                    key: key.into(),
                })
            }
            _ => Err(
                "write `self`, `internal`, or two files: /etc/tls/app.pem,/etc/tls/app.key".into(),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
