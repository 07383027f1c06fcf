//! `load --page`: loads a page as often as was asked for, and tells of it.

use std::process::ExitCode;
use std::sync::Arc;

use lockgate_load::Stop;
use lockgate_load::page::{self, PagePlan};
use lockgate_load::result::RunEnd;
use lockgate_report::page as report;

use super::interrupts::Interrupts;
use super::outputs::{self, Output};
use crate::cli::load::Load;

/// Makes the loads; a line about each goes to stderr. Signals end them as they do any other run.
///
/// # Errors
/// When there is no page, or a report cannot be written.
pub(super) fn run(load: &Load) -> anyhow::Result<ExitCode> {
    let plan = PagePlan::new(&load.options)?;
    let file = load
        .files
        .json
        .as_deref()
        .filter(|path| !outputs::is_stdout(path));
    let file = file.map(Output::open).transpose()?;
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
