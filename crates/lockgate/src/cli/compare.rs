//! The arguments of `compare` and of the guard that it starts programs through.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::load::LoadArgs;
use lockgate_compare::cpus::Cpus;
use lockgate_compare::guard::ProcessGuard;
use lockgate_compare::{CompareOptions, OutputFormat};

#[derive(Args)]
pub(super) struct CompareArgs {
    /// The file with the programs and loads
    file: PathBuf,
    /// Only check the file
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown", "html"])]
    check: bool,
    /// Measurements of each program under each load; verdicts need at least 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Measure only these loads
    #[arg(long, value_name = "LOAD,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Measure only these programs
    #[arg(long, value_name = "PROGRAM,…", value_delimiter = ',')]
    programs: Vec<String>,
    /// Write every figure of every round, and the results, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one line per measurement as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the results as Markdown tables
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl CompareArgs {
    pub(super) fn resolve(self) -> CompareOptions {
        let outputs = [
            (OutputFormat::Json, self.json),
            (OutputFormat::Csv, self.csv),
            (OutputFormat::Markdown, self.markdown),
            (OutputFormat::Html, self.html),
        ];
        CompareOptions {
            file: self.file,
            check: self.check,
            rounds: self.rounds.and_then(|rounds| usize::try_from(rounds).ok()),
            loads: self.only,
            programs: self.programs,
            outputs: outputs
                .into_iter()
                .filter_map(|(format, path)| Some((format, path?)))
                .collect(),
        }
    }
}

/// Checks arguments of `load`.
///
/// # Errors
/// The text of the command line's error.
pub(crate) fn check_load(words: &[String]) -> Result<(), String> {
    let command = LoadArgs::augment_args(clap::Command::new("load"));
    let words = std::iter::once("load").chain(words.iter().map(String::as_str));
    command
        .try_get_matches_from(words)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[derive(Args)]
pub(super) struct GuardArgs {
    #[arg(long)]
    cpus: Option<Cpus>,
    #[arg(long, value_name = "PID")]
    parent: Option<u32>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl GuardArgs {
    pub(super) fn resolve(self) -> ProcessGuard {
        ProcessGuard {
            cpus: self.cpus,
            parent: self.parent,
            command: self.command,
        }
    }
}
