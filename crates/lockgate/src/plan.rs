//! `lockgate plan`: what a changed configuration changes, key by key, and for the requests of an
//! access log. Nothing is opened or sent.

mod log_line;
mod replay;
mod text;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use lockgate_config::{
    ConfigDraft, KeyChange, TableChange, TableChangeKind, read, read_text, table_changes,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin_client;
use crate::assemble::Assembly;
use crate::cli::PrintFormat;
use crate::cli::plan::{ConfigBefore, PlanOptions};
use crate::examine::{Examination, examine, examine_draft};
use crate::explain::Decider;
use crate::print::{self, out};
use crate::start_steps::Mode;

use replay::Replay;

/// The exit code of `--strict` where something changes.
const CHANGES: u8 = 2;

/// The configuration that runs, as the admin socket has it.
#[derive(Deserialize)]
struct RunningConfig {
    toml: String,
}

/// Compares two configurations.
///
/// # Errors
/// When the configuration before cannot be had or does not work here, or a log cannot be read.
pub(crate) fn run(options: &PlanOptions) -> anyhow::Result<ExitCode> {
    let Examination {
        report,
        draft,
        assembly,
    } = examine(&options.config, Mode::Serving);
    let (Some(draft), Some(assembly)) = (draft, assembly) else {
        print::report(&report);
        return Ok(ExitCode::FAILURE);
    };
    let (name, before) = before(&options.before)?;
    let texts = (
        before.understood().merged_toml(),
        draft.understood().merged_toml(),
    );
    let tables = table_changes(&texts.0, &texts.1).map_err(|why| anyhow!("{name}: {why}"))?;
    let earlier = match examine_draft(&before, Mode::Serving) {
        (_, Some(assembly)) => Some(assembly),
        // For tables and keys it need not work here.
        (_, None) if options.logs.is_empty() => None,
        (report, None) => {
            print::report(&report);
            return Err(anyhow!(
                "{name} does not work here: its requests cannot be decided about"
            ));
        }
    };
    let mut plan = json!({
        "before": name,
        "after": options.config.display().to_string(),
        "listeners": earlier.as_ref().map(|earlier| listeners(earlier, &assembly)),
        "changes": tables.iter().map(table).collect::<Vec<_>>(),
    });
    let mut differs = !tables.is_empty();
    if let (Some(earlier), false) = (&earlier, options.logs.is_empty()) {
        let deciders = (Decider::new(earlier), Decider::new(&assembly));
        let mut replay = Replay::default();
        for log in &options.logs {
            replay.read(log, (&deciders.0, &deciders.1))?;
        }
        differs = replay.finds_differences();
        plan["log"] = replay.to_json();
    }
    match options.output {
        PrintFormat::Json => out!("{plan:#}"),
        PrintFormat::Text => out!("{}", text::of(&plan).trim_end()),
    }
    Ok(if options.is_strict && differs {
        ExitCode::from(CHANGES)
    } else {
        ExitCode::SUCCESS
    })
}

/// The configuration before, and what it is called.
fn before(before: &ConfigBefore) -> anyhow::Result<(String, ConfigDraft)> {
    match before {
        ConfigBefore::File(file) => {
            let name = file.display().to_string();
            let draft = read(file).map_err(|report| {
                print::report(&report);
                anyhow!("{name} cannot be read")
            })?;
            Ok((name, draft))
        }
        ConfigBefore::Running(socket) => {
            let socket = admin_client::find(socket)
                .context("no running configuration: name the one before by --from FILE")?;
            let running: RunningConfig = admin_client::ask_for(&socket, "/v1/config")?;
            let name = "the configuration that runs";
            Ok((name.to_owned(), read_text(&running.toml, Path::new(name))))
        }
    }
}

/// The names of listeners that are opened and closed.
fn listeners(before: &Assembly, after: &Assembly) -> Value {
    let names = |assembly: &Assembly| -> BTreeSet<String> {
        let all = assembly.listeners.iter();
        all.map(|planned| planned.listener.name.clone()).collect()
    };
    let (before, after) = (names(before), names(after));
    json!({
        "opened": after.difference(&before).collect::<Vec<_>>(),
        "closed": before.difference(&after).collect::<Vec<_>>(),
    })
}

fn table(change: &TableChange) -> Value {
    let key =
        |key: &KeyChange| json!({ "key": key.name, "before": key.before, "after": key.after });
    json!({
        "table": change.header,
        "change": match change.kind {
            TableChangeKind::Added => "added",
            TableChangeKind::Removed => "removed",
            TableChangeKind::Changed => "changed",
        },
        "keys": change.keys.iter().map(key).collect::<Vec<_>>(),
    })
}
