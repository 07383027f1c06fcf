//! `load --page`: loads a page a number of times, and reports the loads.

use std::process::ExitCode;
use std::sync::Arc;

use lockgate_load::Stop;
use lockgate_load::page::{self, PagePlan};
use lockgate_load::result::RunEnd;
use lockgate_report::page as report;

use super::interrupts::Interrupts;
use super::outputs::{self, ReportFile};
use crate::cli::load::LoadRun;

/// Makes the loads, and prints a line about each to stderr. Signals end them as they end any other
/// run.
///
/// # Errors
/// When there is no page, or a report cannot be written.
pub(super) fn run(load: &LoadRun) -> anyhow::Result<ExitCode> {
    let plan = PagePlan::new(&load.options)?;
    let file = load
        .files
        .json
        .as_deref()
        .filter(|path| !outputs::is_stdout(path));
    let file = file.map(ReportFile::open).transpose()?;
    let stop = Arc::new(Stop::default());
    let interrupts = Interrupts::ending(&stop)?;
    let mut made = 0;
    let found = page::run(&plan, &stop, |done| {
        made += 1;
        if !load.quiet {
            let all = done.all().map_or("not complete".to_owned(), |time| {
                format!("complete in {time:.1?}")
            });
            eprintln!(
                "load {made}: {} objects, {} failed, {all}",
                done.objects.len(),
                done.failed()
            );
        }
    })?;
    let written = match (file, &load.files.json) {
        (Some(file), _) => file
            .write(&report::json(&found))
            .and(outputs::print(&report::text(&found))),
        (None, Some(_)) => outputs::print(&report::json(&found)),
        (None, None) => outputs::print(&report::text(&found)),
    };
    written?;
    Ok(if found.end == RunEnd::Interrupted {
        interrupts.exit_code()
    } else {
        ExitCode::SUCCESS
    })
}
