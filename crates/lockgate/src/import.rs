//! `lockgate import`: a configuration of nginx, HAProxy, Caddy, Traefik or hitch as a file of
//! Lockgate, and what became of each of its statements.

mod disk_files;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use lockgate_import::{ConversionReport, ReportLine, Verdict, import};
use serde_json::{Value, json};

use crate::cli::PrintFormat;
use crate::cli::import::{ForeignConfigOptions, ListedStatements};
use crate::print::out;

use disk_files::DiskFiles;

/// The exit code of `--strict` where a statement is lost.
const LOSSES: u8 = 2;

/// Converts a configuration: the new one goes to standard output or a file, the report to standard
/// error.
///
/// # Errors
/// When a file cannot be read, is not of its format, or the new one cannot be written.
pub(crate) fn run(options: &ForeignConfigOptions) -> anyhow::Result<ExitCode> {
    let imported = import(options.format, &options.files, &DiskFiles);
    let mut imported = imported.map_err(|error| anyhow!("{error}"))?;
    let kept = match &options.acme {
        Some(email) => imported.draft.obtain_certificates(email),
        None => Vec::new(),
    };
    let toml = lockgate_config::format(&imported.draft.to_string())
        .unwrap_or_else(|_| imported.draft.to_string());
    let report = &imported.report;
    match options.output {
        PrintFormat::Json => {
            let lines = report.lines();
            let object = json!({
                "toml": toml,
                "counts": report.counts(),
                "keep_certbot": kept,
                "statements": lines.map(|line| statement(&line)).collect::<Vec<_>>(),
            });
            out!("{object:#}");
        }
        PrintFormat::Text => {
            eprint!("{}", text(report, options.listed));
            for site in &kept {
                eprintln!(
                    "[site.\"{site}\"] keeps its certificate of certbot: [acme] needs the names of hosts, and `dns` for wildcards"
                );
            }
        }
    }
    match (&options.out, options.output) {
        (Some(file), _) => {
            write(file, &toml).with_context(|| format!("{} cannot be written", file.display()))?
        }
        (None, PrintFormat::Text) => out!("{}", toml.trim_end()),
        (None, PrintFormat::Json) => {}
    }
    let is_lossy = report.lines().any(|line| is_loss(&line.verdict));
    Ok(if options.is_strict && is_lossy {
        ExitCode::from(LOSSES)
    } else {
        ExitCode::SUCCESS
    })
}

/// Only for the owner: a source may hold passwords.
fn write(file: &Path, toml: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    options.open(file)?.write_all(toml.as_bytes())
}

fn is_loss(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Differs { .. } | Verdict::NotSupported { .. }
    )
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Converted => "converted",
        Verdict::Default => "is the default",
        Verdict::Differs { .. } => "differs",
        Verdict::NotSupported { .. } => "not supported",
    }
}

fn statement(line: &ReportLine) -> Value {
    let (because, instead) = match &line.verdict {
        Verdict::Differs { because } => (Some(because), None),
        Verdict::NotSupported { because, instead } => (Some(because), instead.as_ref()),
        Verdict::Converted | Verdict::Default => (None, None),
    };
    json!({
        "file": line.place.file.display().to_string(),
        "line": line.place.line,
        "text": line.text,
        "verdict": word(&line.verdict),
        "because": because,
        "instead": instead,
    })
}

/// The report for people: the statements, and how many of each verdict there are.
fn text(report: &ConversionReport, listed: ListedStatements) -> String {
    let mut text = String::new();
    let (mut all, mut kept) = (0, 0);
    for line in report.lines() {
        let is_loss = is_loss(&line.verdict);
        all += 1;
        kept += usize::from(!is_loss);
        if !is_loss && listed == ListedStatements::Losses {
            continue;
        }
        text += &format!("{}: {}: {}\n", line.place, word(&line.verdict), line.text);
        match &line.verdict {
            Verdict::Differs { because } => text += &format!("    because {because}\n"),
            Verdict::NotSupported { because, instead } => {
                text += &format!("    because {because}\n");
                if let Some(instead) = instead {
                    text += &format!("    instead {instead}\n");
                }
            }
            Verdict::Converted | Verdict::Default => {}
        }
    }
    let counts = report.counts();
    let counts: Vec<_> = counts
        .iter()
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    let share = (kept * 100usize).checked_div(all).unwrap_or(100);
    text + &format!(
        "{all} statements: {}; {share} % are in the new file or the default\n",
        counts.join(", ")
    )
}
