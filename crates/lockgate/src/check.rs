//! `lockgate check`: every mistake at once, and with `-v` the settings of each address.

use std::process::ExitCode;

use lockgate_config::{Config, Report, Severity};
use lockgate_net::listen::BindCheck;
use serde_json::{Value, json};

use crate::assemble::Assembly;
use crate::cli::PrintFormat;
use crate::cli::check::{AddressCheck, CheckOptions, Detail, WarningPolicy};
use crate::examine::{Examination, examine};
use crate::print::{self, out};
use crate::start_steps::Mode;

pub(crate) mod describe;
mod lints;
mod names;
mod request_tests;
pub(crate) mod text;
pub(crate) mod units;

/// The exit code with errors.
const ERRORS: u8 = 1;
/// The exit code with warnings and `--strict`.
const WARNINGS: u8 = 2;

/// Checks a configuration file and what a start needs; opens and starts nothing.
pub(crate) fn run(check: &CheckOptions) -> ExitCode {
    let trial = match check.addresses {
        AddressCheck::OfMachine => BindCheck::Address,
        AddressCheck::Bind => BindCheck::Port,
    };
    let Examination {
        mut report,
        draft,
        assembly,
    } = examine(&check.config, Mode::Check(trial));
    let loaded = draft.as_ref().map(|draft| draft.understood());
    let config = loaded.map(|loaded| &loaded.config);
    if let Some(config) = config {
        names::warn_unresolved(config, &mut report);
    }
    if let (Some(loaded), Some(assembly)) = (loaded, &assembly) {
        lints::warn(&loaded.config, assembly, &mut report);
        request_tests::run(loaded, assembly, &mut report);
    }
    let served = match (config, &assembly, check.detail) {
        (Some(config), Some(assembly), Detail::Everything) => {
            Some(describe::listeners(config, assembly))
        }
        _ => None,
    };
    let exported = match (config, &served) {
        (Some(config), Some(_)) => describe::exported(&config.export),
        _ => Vec::new(),
    };
    match check.output {
        PrintFormat::Json => print_json(&report, served.as_ref(), &exported),
        PrintFormat::Text => {
            print::report(&report);
            if let Some(served) = &served {
                text::print(served);
                text::print_exported(&exported);
            }
            if !report.has_errors() {
                out!(
                    "{}: {}",
                    check.config.display(),
                    summary(&report, config.map(|config| &**config), assembly.as_ref())
                );
            }
        }
    }
    if report.has_errors() {
        ExitCode::from(ERRORS)
    } else if check.warnings == WarningPolicy::Fatal && !report.is_empty() {
        ExitCode::from(WARNINGS)
    } else {
        ExitCode::SUCCESS
    }
}

fn summary(report: &Report, config: Option<&Config>, assembly: Option<&Assembly>) -> String {
    let listeners = assembly.map_or(0, |assembly| assembly.listeners.len());
    let mut summary = format!("ok, {}", units::counted(listeners, "listener"));
    let tests = config.map_or(0, |config| config.tests.len());
    for (count, what) in [
        (tests, "passed test"),
        (report.count(Severity::Warning), "warning"),
    ] {
        if count > 0 {
            summary += &format!(", {}", units::counted(count, what));
        }
    }
    summary
}

fn print_json(report: &Report, served: Option<&Value>, exported: &[Value]) {
    let mut out = json!({ "report": report.to_json() });
    if let Some(served) = served {
        out["listeners"] = served.clone();
        out["export"] = exported.into();
    }
    out!("{out:#}");
}
