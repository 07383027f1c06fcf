//! The arguments of `lockgate ca`: the internal authority, what it issues, and where it is trusted.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use lockgate_certs::authority::{LeafUsage, certificate_name};
use lockgate_rules::CertKeyKind;

use super::{PrintFormat, output};

/// The file that stands for standard output.
const STANDARD_OUTPUT: &str = "-";
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Subcommand)]
pub(super) enum CaCommand {
    /// Show the root and the intermediate certificate: fingerprints, validity, files
    #[command(after_help = "Example:\n  lockgate ca show --state /var/lib/lockgate")]
    Show {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Write the root certificate, which clients must trust
    #[command(
        after_help = "Examples:\n  lockgate ca export > root.pem\n  lockgate ca export --der root.cer\n\n\
        An authority that is not there yet is made."
    )]
    Export {
        /// The file; `-` is standard output
        #[arg(value_name = "FILE", default_value = STANDARD_OUTPUT, id = "to")]
        to: PathBuf,
        /// Write DER instead of PEM
        #[arg(long)]
        der: bool,
        /// Replace a file that has something else
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Issue a certificate as files, for another program or for a client
    #[command(after_help = "Examples:\n  lockgate ca issue box.lan 192.168.1.10\n  \
        lockgate ca issue printer.lan --days 365 --cert /etc/tls/printer.crt --key /etc/tls/printer.key\n  \
        lockgate ca issue alice --client --out ./alice\n\n\
        Nothing renews these files. An authority that is not there yet is made.")]
    Issue(IssueArgs),
    /// Have this machine trust the root certificate, and the browsers of the user of sudo
    #[command(
        after_help = "Examples:\n  sudo lockgate ca trust\n  sudo lockgate ca trust --uninstall\n\n\
        It writes a file to the folder of the system's trust store and runs the program that takes it over \
        (Debian, Fedora, Arch, openSUSE and those like them). Where certutil is installed, it also adds the \
        certificate to the databases of Firefox and Chromium. It says what it has done."
    )]
    Trust {
        /// Take the certificate out again
        #[arg(long)]
        uninstall: bool,
        #[command(flatten)]
        state: StateArgs,
    },
}

#[derive(Args)]
pub(super) struct IssueArgs {
    /// The DNS names and IP addresses of a server; with --client the name of a client
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// For a client, as `client_auth` asks for it
    #[arg(long)]
    client: bool,
    /// The days that it is valid, up to 365
    #[arg(long, value_name = "N", default_value_t = 90,
        value_parser = clap::value_parser!(u32).range(1..=365))]
    days: u32,
    /// Use a key of RSA with 2048 bits, for clients that know no ECDSA
    #[arg(long)]
    rsa: bool,
    /// The folder for NAME.crt and NAME.key [default: the working directory]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cert", "key"])]
    out: Option<PathBuf>,
    /// The file for the certificate and its intermediate certificate
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The file for the private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    state: StateArgs,
}

#[derive(Args)]
pub(super) struct StateArgs {
    /// The configuration file; its `state` has the authority
    /// [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(
        short = 'c',
        short_alias = 'f',
        long = "config",
        value_name = "FILE",
        id = "file"
    )]
    config: Option<PathBuf>,
    /// The folder of `state`, instead of a configuration file
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    state: Option<PathBuf>,
}

/// A command about the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaOptions {
    pub(crate) state: StateChoice,
    pub(crate) verb: CaVerb,
}

/// The folder of `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateChoice {
    /// This one.
    At(PathBuf),
    /// The one that this configuration file names.
    Configured(PathBuf),
}

/// What is done with the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaVerb {
    Show(PrintFormat),
    Export(ExportOptions),
    Issue(IssueOptions),
    Trust,
    Distrust,
}

/// How the root certificate is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExportOptions {
    /// The file; `None` is standard output.
    pub(crate) file: Option<PathBuf>,
    pub(crate) format: CertFormat,
    pub(crate) overwrite: Overwrite,
}

/// The format of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertFormat {
    Pem,
    Der,
}

/// What becomes of files that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// They stay, and the command fails.
    Refuse,
    /// They are replaced (`--force`).
    Replace,
}

/// A certificate to issue, and its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssueOptions {
    /// DNS names, in the order in which they were written.
    pub(crate) names: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) usage: LeafUsage,
    pub(crate) key: CertKeyKind,
    pub(crate) life: Duration,
    pub(crate) files: IssuedFiles,
    pub(crate) overwrite: Overwrite,
}

/// Where a certificate and its key are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IssuedFiles {
    /// In this folder, called by the first name.
    Named {
        folder: PathBuf,
        /// The name as it was written.
        name: String,
    },
    /// These files.
    These { cert: PathBuf, key: PathBuf },
}

impl CaCommand {
    /// What was asked for, with the arguments that choose the folder.
    ///
    /// # Errors
    /// A name that no certificate can have.
    pub(super) fn split(self) -> Result<(CaVerb, StateArgs), String> {
        Ok(match self {
            Self::Show { json, state } => (CaVerb::Show(output(json)), state),
            Self::Export {
                to,
                der,
                force,
                state,
            } => {
                let options = ExportOptions {
                    file: Some(to).filter(|to| to.as_os_str() != STANDARD_OUTPUT),
                    format: match der {
                        true => CertFormat::Der,
                        false => CertFormat::Pem,
                    },
                    overwrite: overwrite(force),
                };
                (CaVerb::Export(options), state)
            }
            Self::Issue(args) => {
                let (options, state) = args.split()?;
                (CaVerb::Issue(options), state)
            }
            Self::Trust {
                uninstall: true,
                state,
            } => (CaVerb::Distrust, state),
            Self::Trust {
                uninstall: false,
                state,
            } => (CaVerb::Trust, state),
        })
    }
}

impl IssueArgs {
    fn split(self) -> Result<(IssueOptions, StateArgs), String> {
        let first = self.names.first().cloned().unwrap_or_default();
        let (mut names, mut addresses) = (Vec::new(), Vec::new());
        let usage = if self.client {
            if self.names.len() > 1 {
                return Err("a certificate of a client has one name".to_owned());
            }
            let common_name = first.clone();
            LeafUsage::Client { common_name }
        } else {
            for written in self.names {
                match address(&written) {
                    Some(address) => addresses.push(address),
                    None => {
                        let shown = written.escape_debug();
                        let name = certificate_name(&written)
                            .map_err(|fault| format!("the name \"{shown}\": {fault}"))?;
                        names.push(name);
                    }
                }
            }
            LeafUsage::Server
        };
        let files = match (self.cert, self.key) {
            (Some(cert), Some(key)) => IssuedFiles::These { cert, key },
            _ => IssuedFiles::Named {
                folder: self.out.unwrap_or_else(|| PathBuf::from(".")),
                name: first,
            },
        };
        let options = IssueOptions {
            names,
            addresses,
            usage,
            key: match self.rsa {
                true => CertKeyKind::Rsa2048,
                false => CertKeyKind::EcdsaP256,
            },
            life: DAY * self.days,
            files,
            overwrite: overwrite(self.force),
        };
        Ok((options, self.state))
    }
}

impl StateArgs {
    /// The folder; `None` where two things name one. `outer` is the `-c` in front of the command.
    pub(super) fn choice(self, outer: Option<PathBuf>, default: PathBuf) -> Option<StateChoice> {
        match (self.state, self.config, outer) {
            (None, Some(_), Some(_)) | (Some(_), _, Some(_)) => None,
            (Some(state), _, None) => Some(StateChoice::At(state)),
            (None, inner, outer) => {
                let file = inner.or(outer).unwrap_or(default);
                Some(StateChoice::Configured(file))
            }
        }
    }
}

/// An IP address, as it is or in the brackets of a URL.
fn address(written: &str) -> Option<IpAddr> {
    let inner = written.strip_prefix('[');
    let inner = inner.and_then(|inner| inner.strip_suffix(']'));
    inner.unwrap_or(written).parse().ok()
}

fn overwrite(force: bool) -> Overwrite {
    match force {
        true => Overwrite::Replace,
        false => Overwrite::Refuse,
    }
}
