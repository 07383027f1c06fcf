//! The arguments of `lockgate cert`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use lockgate_certs::RevocationWord;
use lockgate_certs::import::ImportSource;

use super::admin::{AdminArgs, SocketChoice};
use super::{PrintFormat, output};

/// A command about certificates that Lockgate obtains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertOptions {
    /// Over the admin socket; some also without a Lockgate that runs.
    Ask {
        socket: SocketChoice,
        output: PrintFormat,
        verb: CertVerb,
    },
    Import(ImportOptions),
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertVerb {
    List,
    Show(String),
    /// Obtain the certificates of these names now; with `wait`, until it is done or has failed.
    Renew {
        names: Vec<String>,
        wait: bool,
    },
    Revoke {
        name: String,
        reason: RevocationWord,
    },
    /// Try to obtain them, and keep nothing.
    TryOut(Vec<String>),
}

/// What `cert import` reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportOptions {
    /// The program that has stored it; `None` finds that out.
    pub(crate) source: Option<ImportSource>,
    pub(crate) path: PathBuf,
    pub(crate) target: ImportInto,
    /// Whether newer certificates are replaced.
    pub(crate) force: bool,
    pub(crate) output: PrintFormat,
}

/// Where `cert import` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImportInto {
    /// The `state` of this configuration; only names that it wants.
    Config(PathBuf),
    /// This `state` folder; every name.
    State(PathBuf),
}

// No doc comments on the following types: clap would print them instead of the command's.
#[derive(Subcommand)]
pub(super) enum CertCommand {
    /// List the certificates that Lockgate obtains: state, days left, next renewal, failures
    #[command(
        after_help = "Example:\n  lockgate cert list\n\nWithout a running Lockgate the folder of `state` is read."
    )]
    List(AdminArgs),
    /// Show all that is known of the certificates of a name
    #[command(
        after_help = "Example:\n  lockgate cert show app.example.com\n\nWithout a running Lockgate the folder of \
        `state` is read."
    )]
    Show {
        /// The name, as `lockgate cert list` shows it
        name: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Renew the certificates of names now, whatever the schedule says
    #[command(
        after_help = "Example:\n  lockgate cert renew app.example.com --wait\n\n\
        Exit codes: 0 it begins (with --wait: it is done), 1 it does not, or has failed."
    )]
    Renew {
        /// The names, as `lockgate cert list` shows them
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Wait until they are obtained, or have failed
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Have the authority revoke the certificate of a name, and obtain another with a new key
    #[command(
        after_help = "Examples:\n  lockgate cert revoke app.example.com --reason superseded\n  \
        lockgate cert revoke app.example.com --reason keyCompromise\n\n\
        With keyCompromise the certificate is removed at once: until there is another, handshakes are refused, or get\n        the certificate of `acme.fallback`."
    )]
    Revoke {
        /// The name, as `lockgate cert list` shows it
        name: String,
        /// Why
        #[arg(long, value_name = "WORD", default_value = "unspecified")]
        reason: ReasonArg,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Obtain the certificates of names now, or try whether they can be obtained
    #[command(
        after_help = "Examples:\n  lockgate cert obtain app.example.com --dry-run\n  \
        lockgate cert obtain app.example.com --wait\n\n\
        A trial is an order at the authority's directory for trials (staging), by the running Lockgate, which answers the \
        challenges; its certificate is thrown away. Exit codes: 0 obtained (without --wait: begun), 1 not."
    )]
    Obtain {
        /// The names, as `lockgate cert list` shows them
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Try a whole order, and keep nothing of it
        #[arg(long, conflicts_with = "wait")]
        dry_run: bool,
        /// Wait until they are obtained, or have failed
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Take over certificates and accounts that certbot, Caddy or Traefik have stored
    #[command(after_help = "Examples:\n  lockgate cert import /etc/letsencrypt\n  \
        lockgate cert import --from caddy /var/lib/caddy/.local/share/caddy\n  \
        lockgate cert import --from traefik acme.json --state /var/lib/lockgate\n\n\
        Run it before Lockgate starts, as its user or as root. Exit codes: 0 something is imported or there already, 1 \
        nothing is.")]
    Import(ImportArgs),
}

#[derive(Args)]
pub(super) struct ImportArgs {
    /// The folder of certbot or of Caddy's data, or the acme.json of Traefik
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The program that has stored it
    #[arg(long, value_name = "PROGRAM", default_value = "auto")]
    from: SourceArg,
    /// The configuration file, for its `state` and the names that it wants
    /// [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(
        short = 'c',
        short_alias = 'f',
        long = "config",
        value_name = "FILE",
        id = "file"
    )]
    config: Option<PathBuf>,
    /// The folder of `state` instead: every name is imported
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    state: Option<PathBuf>,
    /// Replace newer certificates too, and import those of directories for trials
    #[arg(long)]
    force: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SourceArg {
    Auto,
    Certbot,
    Caddy,
    Traefik,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ReasonArg {
    #[value(name = "unspecified")]
    Unspecified,
    #[value(name = "keyCompromise", alias = "key-compromise")]
    KeyCompromise,
    #[value(name = "affiliationChanged", alias = "affiliation-changed")]
    AffiliationChanged,
    #[value(name = "superseded")]
    Superseded,
    #[value(name = "cessationOfOperation", alias = "cessation-of-operation")]
    CessationOfOperation,
}

/// A command, as it was written.
pub(super) enum WrittenCert {
    Ask(CertVerb, AdminArgs),
    Import(ImportArgs),
}

impl CertCommand {
    pub(super) fn split(self) -> WrittenCert {
        match self {
            Self::List(admin) => WrittenCert::Ask(CertVerb::List, admin),
            Self::Show { name, admin } => WrittenCert::Ask(CertVerb::Show(lower(&name)), admin),
            Self::Renew { names, wait, admin } => {
                let names = names.iter().map(|name| lower(name)).collect();
                WrittenCert::Ask(CertVerb::Renew { names, wait }, admin)
            }
            Self::Revoke {
                name,
                reason,
                admin,
            } => {
                let (name, reason) = (lower(&name), reason.word());
                WrittenCert::Ask(CertVerb::Revoke { name, reason }, admin)
            }
            Self::Obtain {
                names,
                dry_run,
                wait,
                admin,
            } => {
                let names = names.iter().map(|name| lower(name)).collect();
                let verb = match dry_run {
                    true => CertVerb::TryOut(names),
                    false => CertVerb::Renew { names, wait },
                };
                WrittenCert::Ask(verb, admin)
            }
            Self::Import(args) => WrittenCert::Import(args),
        }
    }
}

impl ImportArgs {
    /// The file that was written, if one was.
    pub(super) fn take_config(&mut self) -> Option<PathBuf> {
        self.config.take()
    }

    /// Whether a folder was written instead.
    pub(super) fn names_state(&self) -> bool {
        self.state.is_some()
    }

    /// With the configuration file `config`, unless a folder was written.
    pub(super) fn resolve(self, config: PathBuf) -> ImportOptions {
        ImportOptions {
            source: match self.from {
                SourceArg::Auto => None,
                SourceArg::Certbot => Some(ImportSource::Certbot),
                SourceArg::Caddy => Some(ImportSource::Caddy),
                SourceArg::Traefik => Some(ImportSource::Traefik),
            },
            path: self.path,
            target: match self.state {
                Some(state) => ImportInto::State(state),
                None => ImportInto::Config(config),
            },
            force: self.force,
            output: output(self.json),
        }
    }
}

impl ReasonArg {
    fn word(self) -> RevocationWord {
        match self {
            Self::Unspecified => RevocationWord::Unspecified,
            Self::KeyCompromise => RevocationWord::KeyCompromise,
            Self::AffiliationChanged => RevocationWord::AffiliationChanged,
            Self::Superseded => RevocationWord::Superseded,
            Self::CessationOfOperation => RevocationWord::CessationOfOperation,
        }
    }
}

/// Names of certificates are in lower case.
fn lower(name: &str) -> String {
    name.to_ascii_lowercase()
}
