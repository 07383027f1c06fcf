//! `lockgate cert import`: what another program has stored, into the folder of `state`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use lockgate_certs::CertId;
use lockgate_certs::import::{ImportSource, ImportTarget, ImportedAs};
use lockgate_net::listen::BindCheck;
use serde::Serialize;
use serde_json::json;

use crate::cli::PrintFormat;
use crate::cli::cert::{ImportInto, ImportOptions};
use crate::examine::examine;
use crate::print::{self, out};
use crate::start_steps::Mode;
use crate::text_table::TextTable;
use crate::views::timestamp;

/// A line of the report.
#[derive(Serialize)]
struct Line {
    /// What was found: a name, or `account`.
    what: String,
    result: &'static str,
    /// Until when it is valid, or why it is left out.
    detail: String,
    place: String,
}

/// Imports, and prints a line for each certificate and account; the exit code is 1 where nothing is
/// imported, and was not before.
///
/// # Errors
/// When the source, the configuration or the folder cannot be read, or another process obtains
/// certificates there.
pub(super) fn run(options: &ImportOptions) -> anyhow::Result<ExitCode> {
    let path = &options.path;
    let Some(source) = options.source.or_else(|| ImportSource::of_path(path)) else {
        bail!(
            "{} is neither a folder of certbot (with `live`), nor of Caddy (with `certificates`), nor an acme.json of \
             Traefik: name the program with --from",
            path.display()
        );
    };
    let found = source.read(path)?;
    let (state, wanted) = match &options.target {
        ImportInto::State(state) => (state.clone(), None),
        ImportInto::Config(config) => match of_config(config)? {
            Some((state, wanted)) => (state, Some(wanted)),
            None => return Ok(ExitCode::FAILURE),
        },
    };
    let target = ImportTarget::open(&state, wanted, options.force);
    let target = target.with_context(|| format!("{} cannot be used", state.display()))?;
    let Some(target) = target else {
        bail!(
            "a running Lockgate obtains certificates in {}: stop it, import, and start it again",
            state.display()
        );
    };
    let now = SystemTime::now();
    let (mut lines, mut is_done) = (Vec::new(), false);
    for cert in &found.certs {
        match target.add_cert(cert, now) {
            Ok(imported) => lines.extend(imported.into_iter().map(|one| {
                is_done |= one.result != ImportedAs::OlderThanPresent;
                let until = timestamp(one.validity.not_after);
                Line {
                    what: one.id.name,
                    result: match one.result {
                        ImportedAs::Written => "imported",
                        ImportedAs::Present => "there already",
                        ImportedAs::OlderThanPresent => "left out",
                    },
                    detail: match one.result {
                        ImportedAs::OlderThanPresent => "a newer one is there".to_owned(),
                        _ => format!("valid until {until}"),
                    },
                    place: cert.place.clone(),
                }
            })),
            Err(why) => lines.push(left_out("certificate", why, &cert.place)),
        }
    }
    for account in &found.accounts {
        lines.push(match target.add_account(account) {
            Ok(()) => {
                is_done = true;
                Line {
                    what: "account".to_owned(),
                    result: "imported",
                    detail: String::new(),
                    place: account.place.clone(),
                }
            }
            Err(why) => left_out("account", why, &account.place),
        });
    }
    for skipped in &found.skipped {
        lines.push(left_out("", skipped.why.clone(), &skipped.place));
    }
    report(options.output, source, &state, &lines);
    Ok(match is_done {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn left_out(what: &str, why: String, place: &str) -> Line {
    Line {
        what: what.to_owned(),
        result: "left out",
        detail: why,
        place: place.to_owned(),
    }
}

/// The folder of `state` in a configuration, and the certificates that it wants. `None` where it has
/// mistakes, which are printed.
fn of_config(file: &Path) -> anyhow::Result<Option<(PathBuf, Vec<CertId>)>> {
    let examination = examine(file, Mode::Check(BindCheck::Address));
    let draft = examination.draft.as_ref();
    let state = draft.and_then(|draft| draft.understood().config.state.clone());
    let Some(assembly) = examination.assembly else {
        print::report(&examination.report);
        return Ok(None);
    };
    let Some(state) = state else {
        bail!(
            "{} has no folder of `state`, where certificates are kept",
            file.display()
        );
    };
    let wanted = assembly.wanted_certs.orders.iter();
    let wanted: Vec<_> = wanted.map(|wanted| wanted.id.clone()).collect();
    if wanted.is_empty() {
        bail!(
            "{} wants no certificate: `[acme]` and sites on TLS do; --state imports every name",
            file.display()
        );
    }
    Ok(Some((state, wanted)))
}

fn report(output: PrintFormat, source: ImportSource, state: &Path, lines: &[Line]) {
    match output {
        PrintFormat::Json => out!(
            "{:#}",
            json!({ "from": source.as_str(), "state": state.display().to_string(), "entries": lines })
        ),
        PrintFormat::Text if lines.is_empty() => out!("there is nothing of {}", source.as_str()),
        PrintFormat::Text => {
            let mut table = TextTable::new(&["WHAT", "RESULT", "DETAIL", "PLACE"]);
            for line in lines {
                table.row([
                    line.what.clone(),
                    line.result.to_owned(),
                    line.detail.clone(),
                    line.place.clone(),
                ]);
            }
            out!("{}", table.render().trim_end());
        }
    }
}
