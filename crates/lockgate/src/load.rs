//! `load`: makes one run and reports it.

mod interrupts;
mod live;
mod outputs;
mod page;

use std::process::ExitCode;
use std::sync::Arc;

use lockgate_load::Stop;
use lockgate_load::result::RunEnd;
use lockgate_report::push::Push;

use crate::cli::load::{LoadKind, LoadRun};
use interrupts::Interrupts;
use live::{LiveView, ProgressDisplay};
use outputs::Outputs;

/// The exit code where the condition of `--fail-if` holds.
const BROKEN: u8 = 3;

/// Makes the run. Ctrl-C and TERM end it early, with a report of the measurements so far and the
/// exit code of a program that such a signal ended.
///
/// # Errors
/// When it cannot begin, or a report cannot be written.
pub(crate) fn run(load: &LoadRun) -> anyhow::Result<ExitCode> {
    if load.kind == LoadKind::Page {
        return page::run(load);
    }
    let plan = load.options.plan()?;
    let outputs = Outputs::open(&load.files)?;
    let stop = Arc::new(Stop::default());
    let interrupts = Interrupts::ending(&stop)?;
    let shown = if load.quiet {
        ProgressDisplay::Quiet
    } else {
        ProgressDisplay::on_stderr()
    };
    let mut view = LiveView::new(shown, &plan.stages)?;
    let mut push = load
        .push
        .clone()
        .map(|gateway| Push::start(gateway, &plan.stages))
        .transpose()?;
    let made = lockgate_load::run(plan, &stop, |progress| {
        view.update(&progress);
        if let Some(warning) = push.as_mut().and_then(|push| push.observe(&progress)) {
            view.print(&warning);
        }
    });
    let report = made?;
    let render = outputs.stdout();
    let written = outputs.write(&report);
    // The text stands where the block stood.
    drop(view);
    let written = written.and(outputs::print(&render(&report)));
    // The report is printed already, so a gateway that hangs may be waited for.
    if let Some(pushes) = push.map(Push::finish)
        && let Some(why) = pushes.why
    {
        let all = pushes.made + pushes.failed;
        eprintln!(
            "lockgate: {} of {all} pushes failed; the last error: {why}",
            pushes.failed
        );
    }
    let breaches = load
        .fail_if
        .as_ref()
        .map(|condition| condition.breaches(&report))
        .unwrap_or_default();
    for breach in &breaches {
        eprintln!("lockgate: {breach}");
    }
    // Without a stage the condition cannot be checked.
    let unmeasured = load.fail_if.is_some() && report.stages.is_empty();
    if unmeasured {
        eprintln!("lockgate: nothing was measured, so --fail-if cannot be checked");
    }
    written?;
    if report.end == RunEnd::Interrupted {
        return Ok(interrupts.exit_code());
    }
    Ok(if breaches.is_empty() && !unmeasured {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(BROKEN)
    })
}
