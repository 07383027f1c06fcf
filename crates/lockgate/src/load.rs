//! `load`: makes the run that was asked for, and tells of it.

use std::process::ExitCode;
use std::sync::Arc;

use lockgate_load::{Progress, Stop};

use crate::cli::load::Load;
use crate::print::out;

/// Makes the run; Ctrl-C and TERM end it early, with a report of what was measured.
///
/// # Errors
/// When it cannot begin.
pub(crate) fn run(load: &Load) -> anyhow::Result<ExitCode> {
    let plan = load.options.plan()?;
    let stop = Arc::new(Stop::default());
    let report = lockgate_load::run(plan, &stop, |progress| {
        if let Progress::Second { elapsed, second, .. } = progress {
            eprintln!("{:.0}s {} ok {} failed p99 {} us", elapsed.as_secs_f64(), second.succeeded, second.failed, second.p99 / 1000);
        }
    })?;
    for stage in &report.stages {
        out!(
            "{} {:?}: {} ok, {} failed, {:.0}/s, p50 {} p99 {} max {} us, opened {} cpu {:?}+{:?} busy {:.2} {:?}",
            stage.name, stage.elapsed,
            stage.tally.succeeded(), stage.tally.failed(),
            stage.tally.succeeded() as f64 / stage.elapsed.as_secs_f64(),
            stage.tally.latency.value_at_quantile(0.5) / 1000,
            stage.tally.latency.value_at_quantile(0.99) / 1000,
            stage.tally.latency.max() / 1000,
            stage.tally.opened, stage.generator.user, stage.generator.system, stage.generator.busiest, stage.tally.examples,
        );
    }
    Ok(ExitCode::SUCCESS)
}
