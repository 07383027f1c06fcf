//! `load`: makes the run that was asked for, and tells of it.

mod interrupts;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use lockgate_load::report::{csv, hdr, html, json, text};
use lockgate_load::result::{End, Report};
use lockgate_load::{Progress, Stop};

use crate::cli::load::{Files, Load};
use interrupts::Interrupts;

/// What `--fail-if` names has come about.
const BROKEN: u8 = 3;

/// Makes the run; Ctrl-C and TERM end it early, with a report of what was measured and the exit code that programs have
/// which such a signal ended: half a run is not what was asked for.
///
/// # Errors
/// When it cannot begin, or a report cannot be written.
pub(crate) fn run(load: &Load) -> anyhow::Result<ExitCode> {
    let plan = load.options.plan()?;
    let stop = Arc::new(Stop::default());
    let interrupts = Interrupts::ending(&stop)?;
    let report = lockgate_load::run(plan, &stop, |progress| {
        if let Progress::Second { elapsed, second, .. } = progress {
            eprintln!(
                "{:.0} s: {} succeeded, {} failed",
                elapsed.as_secs_f64(),
                second.succeeded,
                second.failed
            );
        }
    })?;
    write(&load.files, &report)?;
    let broken = load.fail_if.as_ref().map(|condition| condition.broken(&report)).unwrap_or_default();
    for breach in &broken {
        eprintln!("lockgate: {breach}");
    }
    if report.end == End::Interrupted {
        return Ok(interrupts.exit_code());
    }
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) })
}

/// Writes the report in every form that was asked for.
fn write(files: &Files, report: &Report) -> anyhow::Result<()> {
    let page = || html::page(&[("", report)]);
    let forms: [(&Option<_>, &dyn Fn() -> String); 5] = [
        (&files.json, &|| json::render(report)),
        (&files.csv, &|| csv::stages(report)),
        (&files.timeline, &|| csv::seconds(report)),
        (&files.hdr, &|| hdr::log(report)),
        (&files.html, &page),
    ];
    let stdout = Path::new("-");
    if !forms.iter().any(|(path, _)| path.as_deref() == Some(stdout)) {
        put(stdout, &text::render(report))?;
    }
    for (path, form) in forms {
        if let Some(path) = path {
            put(path, &form())?;
        }
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    if path == Path::new("-") {
        // Where nobody reads it any more, that is no error.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Ok(());
    }
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
