//! The arguments of `compare` and of the guard that it starts programs through.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::load::LoadTyped;
use lockgate_compare::cpus::Cpus;
use lockgate_compare::guard::ProcessGuard;
use lockgate_compare::{CompareOptions, OutputFormat};

#[derive(Args)]
pub(super) struct CompareTyped {
    /// What is compared, by which loads
    file: PathBuf,
    /// Only look whether the file is right
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown", "html"])]
    check: bool,
    /// How many times each program is measured under each load; verdicts take 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Only these loads
    #[arg(long, value_name = "LOAD,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these programs
    #[arg(long, value_name = "PROGRAM,…", value_delimiter = ',')]
    programs: Vec<String>,
    /// Every figure of every round, and what follows from them
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A line for each measurement
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Tables for a document
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// A page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl CompareTyped {
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

/// What is wrong with words of `load`, as the command line would say it.
pub(crate) fn check_load(words: &[String]) -> Result<(), String> {
    let command = LoadTyped::augment_args(clap::Command::new("load"));
    let words = std::iter::once("load").chain(words.iter().map(String::as_str));
    command
        .try_get_matches_from(words)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[derive(Args)]
pub(super) struct GuardTyped {
    #[arg(long)]
    cpus: Option<Cpus>,
    #[arg(long, value_name = "PID")]
    parent: Option<u32>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl GuardTyped {
    pub(super) fn resolve(self) -> ProcessGuard {
        ProcessGuard {
            cpus: self.cpus,
            parent: self.parent,
            command: self.command,
        }
    }
}
