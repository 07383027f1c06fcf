//! `lockgate check`: every mistake at once, and what a client will get.

use std::process::ExitCode;

use lockgate_config::{Report, Severity, load};
use serde_json::{Value, json};

use crate::assemble::{Assembly, assemble};
use crate::cli::{Check, Detail, Output, Warnings};
use crate::print::{self, out};

mod describe;
mod text;

/// Errors found.
const ERRORS: u8 = 1;
/// Warnings found, and `--strict`.
const WARNINGS: u8 = 2;

/// Checks a configuration file and what it names; binds and starts nothing.
pub(crate) fn run(check: &Check) -> ExitCode {
    let (loaded, mut report) = match load(&check.config) {
        Ok(loaded) => {
            let warnings = loaded.warnings.clone();
            (Some(loaded), warnings)
        }
        Err(report) => (None, report),
    };
    let assembly = loaded.as_ref().and_then(|loaded| assemble(&loaded.config, &mut report));
    let served = match (&loaded, &assembly, check.detail) {
        (Some(loaded), Some(assembly), Detail::Everything) => {
            Some(describe::listeners(&loaded.config, assembly))
        }
        _ => None,
    };
    match check.output {
        Output::Json => print_json(&report, served.as_ref()),
        Output::Text => {
            print::report(&report);
            if let Some(served) = &served {
                text::print(served);
            }
            if !report.has_errors() {
                out!("{}: {}", check.config.display(), summary(&report, assembly.as_ref()));
            }
        }
    }
    if report.has_errors() {
        ExitCode::from(ERRORS)
    } else if check.warnings == Warnings::Fatal && !report.is_empty() {
        ExitCode::from(WARNINGS)
    } else {
        ExitCode::SUCCESS
    }
}

fn summary(report: &Report, assembly: Option<&Assembly>) -> String {
    let listeners = assembly.map_or(0, |assembly| assembly.listeners.len());
    match report.count(Severity::Warning) {
        0 => format!("ok, {listeners} listener(s)"),
        warnings => format!("ok, {listeners} listener(s), {warnings} warning(s)"),
    }
}

fn print_json(report: &Report, served: Option<&Value>) {
    let mut out = json!({ "report": report.to_json() });
    if let Some(served) = served {
        out["listeners"] = served.clone();
    }
    out!("{out:#}");
}
