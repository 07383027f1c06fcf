//! `lockgate check`: every mistake at once, and what a client will get.

use std::process::ExitCode;

use lockgate_config::{Report, Severity};
use lockgate_net::listen::BindCheck;
use serde_json::{Value, json};

use crate::assemble::Assembly;
use crate::cli::{Addresses, Check, Detail, Output, Warnings};
use crate::examine::{Examined, examine};
use crate::opening::Mode;
use crate::print::{self, out};

mod describe;
mod names;
mod text;
mod words;

/// Errors found.
const ERRORS: u8 = 1;
/// Warnings found, and `--strict`.
const WARNINGS: u8 = 2;

/// Checks a configuration file and what a start needs; opens and starts nothing.
pub(crate) fn run(check: &Check) -> ExitCode {
    let trial = match check.addresses {
        Addresses::OfMachine => BindCheck::Address,
        Addresses::Bind => BindCheck::Port,
    };
    let Examined {
        mut report,
        draft,
        assembly,
    } = examine(&check.config, Mode::Check(trial));
    let config = draft.as_ref().map(|draft| &draft.understood().config);
    if let Some(config) = config {
        names::doubt(config, &mut report);
    }
    let served = match (config, &assembly, check.detail) {
        (Some(config), Some(assembly), Detail::Everything) => {
            Some(describe::listeners(config, assembly))
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
                out!(
                    "{}: {}",
                    check.config.display(),
                    summary(&report, assembly.as_ref())
                );
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
    let listeners = words::counted(listeners, "listener");
    match report.count(Severity::Warning) {
        0 => format!("ok, {listeners}"),
        warnings => format!("ok, {listeners}, {}", words::counted(warnings, "warning")),
    }
}

fn print_json(report: &Report, served: Option<&Value>) {
    let mut out = json!({ "report": report.to_json() });
    if let Some(served) = served {
        out["listeners"] = served.clone();
    }
    out!("{out:#}");
}
