//! `load`: makes the run that was asked for, and tells of it.

mod interrupts;
mod live;
mod outputs;
mod page;

use std::process::ExitCode;
use std::sync::Arc;

use lockgate_load::Stop;
use lockgate_load::result::RunEnd;
use lockgate_report::push::Push;

use crate::cli::load::{Load, What};
use interrupts::Interrupts;
use live::{Shown, View};
use outputs::Outputs;

/// What `--fail-if` names has come about.
const BROKEN: u8 = 3;

/// Makes the run; Ctrl-C and TERM end it early, with a report of what was measured and the exit
/// code that programs have which such a signal ended: half a run is not what was asked for.
///
/// # Errors
/// When it cannot begin, or a report cannot be written.
pub(crate) fn run(load: &Load) -> anyhow::Result<ExitCode> {
    if load.what == What::Page {
        return page::run(load);
    }
    let plan = load.options.plan()?;
    let outputs = Outputs::open(&load.files)?;
    let stop = Arc::new(Stop::default());
    let interrupts = Interrupts::ending(&stop)?;
    let shown = if load.quiet {
        Shown::Quiet
    } else {
        Shown::on_stderr()
    };
    let mut view = View::new(shown, &plan.stages)?;
    let mut push = load
        .push
        .clone()
        .map(|gateway| Push::start(gateway, &plan.stages))
        .transpose()?;
    let made = lockgate_load::run(plan, &stop, |progress| {
        view.observe(&progress);
        if let Some(warning) = push.as_mut().and_then(|push| push.observe(&progress)) {
            view.say(&warning);
        }
    });
    let report = made?;
    let told = outputs.told();
    let written = outputs.write(&report);
    // The text stands where the block stood.
    drop(view);
    let written = written.and(outputs::print(&told(&report)));
    // The report is there already: a gateway that hangs is waited for.
    if let Some(pushes) = push.map(Push::finish)
        && let Some(why) = pushes.why
    {
        let all = pushes.made + pushes.failed;
        eprintln!(
            "lockgate: {} of {all} pushes failed; the last one that did: {why}",
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
    // What was to hold of every stage holds of none.
    let unmeasured = load.fail_if.is_some() && report.stages.is_empty();
    if unmeasured {
        eprintln!("lockgate: nothing was measured that --fail-if could be held against");
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
