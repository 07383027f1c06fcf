//! The arguments of `lockgate import`: a configuration of another server.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lockgate_import::Format;

use super::PrintFormat;

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct ForeignConfigArgs {
    /// The server
    format: FormatName,
    /// Its files; those that they include are read too
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the configuration into this file, which must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Let Lockgate obtain the certificates that certbot has, and write this address as that of its
    /// account; `lockgate cert import /etc/letsencrypt` takes over what is valid
    #[arg(long, value_name = "EMAIL")]
    acme: Option<String>,
    /// List every statement, also those that are converted or the default
    #[arg(short, long)]
    verbose: bool,
    /// Exit with 2 if a statement differs or is not supported
    #[arg(long)]
    strict: bool,
    /// Print a JSON object: the configuration, and the verdict of every statement
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    Nginx,
    Haproxy,
    Caddy,
    Traefik,
    Hitch,
}

/// A configuration of another server, to be written anew.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForeignConfigOptions {
    pub(crate) format: Format,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) out: Option<PathBuf>,
    /// The address for `[acme]`, where certificates of certbot are obtained anew.
    pub(crate) acme: Option<String>,
    pub(crate) listed: ListedStatements,
    pub(crate) is_strict: bool,
    pub(crate) output: PrintFormat,
}

/// The statements that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListedStatements {
    /// Those that differ or are not supported.
    Losses,
    All,
}

impl ForeignConfigArgs {
    pub(super) fn resolve(self) -> ForeignConfigOptions {
        ForeignConfigOptions {
            format: match self.format {
                FormatName::Nginx => Format::Nginx,
                FormatName::Haproxy => Format::Haproxy,
                FormatName::Caddy => Format::Caddy,
                FormatName::Traefik => Format::Traefik,
                FormatName::Hitch => Format::Hitch,
            },
            files: self.files,
            out: self.out,
            acme: self.acme,
            listed: match self.verbose {
                true => ListedStatements::All,
                false => ListedStatements::Losses,
            },
            is_strict: self.strict,
            output: super::output(self.json),
        }
    }
}
