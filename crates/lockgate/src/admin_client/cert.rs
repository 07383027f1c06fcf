//! `cert list`, `show`, `renew`, `revoke` and `obtain`: by the running Lockgate; the first two also
//! from the folder of `state` where none runs.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
use lockgate_certs::CertFolder;
use serde_json::{Value, json};

use super::cert_text::{detail, failure, managed, trials};
use super::show::items;
use super::units::plain;
use super::{AdminResponse, TIME, ask, ask_within, find, print};
use crate::cli::PrintFormat;
use crate::cli::admin::SocketChoice;
use crate::cli::cert::CertVerb;
use crate::print::out;
use crate::views;

/// The time that a revocation and a trial may take in the running Lockgate, beside [`TIME`].
const REVOCATION: Duration = Duration::from_secs(180);
const TRIAL: Duration = Duration::from_secs(300);
/// The longest wait for the end of a renewal: each authority and each challenge may have a try.
const RENEWAL: Duration = Duration::from_secs(600);
/// The time between two looks at a renewal that is waited for.
const LOOKS: Duration = Duration::from_millis(200);

/// Asks; the exit code is 1 where the response is an error, or what was waited for has failed.
///
/// # Errors
/// When there is no Lockgate where one is needed, or no folder instead.
pub(crate) fn run(
    choice: &SocketChoice,
    output: PrintFormat,
    verb: &CertVerb,
) -> anyhow::Result<ExitCode> {
    match verb {
        CertVerb::List => {
            let response = certs(choice)?;
            Ok(print(&response, output, |value| {
                match managed(&value["managed"]) {
                    table if table.is_empty() => "no certificate is obtained".to_owned(),
                    table => table,
                }
            }))
        }
        CertVerb::Show(name) => show(certs(choice)?, output, name),
        CertVerb::Renew { names, wait } => renew(&find(choice)?, output, names, *wait),
        CertVerb::Revoke { name, reason } => {
            let socket = find(choice)?;
            let body = json!({ "name": name, "reason": reason.as_str() });
            let request = ("POST", "/v1/certs/revoke", body);
            let response = ask_within(TIME + REVOCATION, &socket, request)?;
            Ok(print(&response, output, revoked))
        }
        CertVerb::TryOut(names) => {
            let request = ("POST", "/v1/certs/try", json!({ "names": names }));
            let asked = find(choice).and_then(|at| ask_within(TIME + TRIAL, &at, request));
            let needs = "a trial needs a running Lockgate, which answers the challenges";
            let response = asked.context(needs)?;
            let has_failed = items(&response.value["results"]).any(|one| one["obtained"] != true);
            let code = print(&response, output, trials);
            Ok(if has_failed { ExitCode::FAILURE } else { code })
        }
    }
}

/// The certificates of the running Lockgate, or those in its folder.
fn certs(choice: &SocketChoice) -> anyhow::Result<AdminResponse> {
    let (why, file) = match (find(choice), choice) {
        (Ok(socket), _) if may_answer(&socket) => {
            return ask(&socket, "GET", "/v1/certs", Value::Null);
        }
        (Ok(socket), SocketChoice::At(_)) => return ask(&socket, "GET", "/v1/certs", Value::Null),
        (Ok(socket), SocketChoice::Configured(file) | SocketChoice::Default(file)) => {
            let why = format!("no Lockgate listens at unix:{}", socket.display());
            (why, file)
        }
        (Err(error), SocketChoice::Configured(file) | SocketChoice::Default(file)) => {
            (error.to_string(), file)
        }
        (Err(error), SocketChoice::At(_)) => return Err(error),
    };
    let Some(state) = state_of(file) else {
        bail!("{why}, and {} names no readable `state`", file.display());
    };
    let folder = CertFolder::of_state(&state);
    let shown = folder.path().display().to_string();
    let now = SystemTime::now();
    let stored = folder.stored(now);
    let stored = stored.with_context(|| format!("{why}, and {shown} cannot be read"))?;
    eprintln!("lockgate: {why}: this is what {shown} has");
    let managed = stored.into_iter();
    let managed = managed.map(|(id, status)| views::managed_cert(id, status, now));
    let managed: Vec<_> = managed.collect();
    Ok(AdminResponse {
        status: 200,
        value: json!({ "running": false, "folder": shown, "managed": managed }),
    })
}

/// Whether something listens at the socket; another error than that nothing does is told later.
fn may_answer(socket: &Path) -> bool {
    let refused = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => !refused.contains(&error.kind()),
    }
}

/// The folder of `state` in a configuration file, mistakes elsewhere in it notwithstanding.
fn state_of(file: &Path) -> Option<PathBuf> {
    let draft = lockgate_config::read(file).ok()?;
    draft.understood().config.state.clone()
}

fn show(mut response: AdminResponse, output: PrintFormat, name: &str) -> anyhow::Result<ExitCode> {
    if response.status < 400 {
        let all = items(&response.value["managed"]);
        let found: Vec<_> = all.filter(|one| one["name"] == name).cloned().collect();
        if found.is_empty() {
            bail!("there is no certificate for {name:?}: `lockgate cert list` shows the names");
        }
        response.value = json!({ "managed": found });
    }
    Ok(print(&response, output, |value| {
        let texts: Vec<_> = items(&value["managed"]).map(detail).collect();
        texts.join("\n")
    }))
}

fn renew(
    socket: &Path,
    output: PrintFormat,
    names: &[String],
    wait: bool,
) -> anyhow::Result<ExitCode> {
    let before = ask(socket, "GET", "/v1/certs", Value::Null)?;
    let mut begun = Vec::new();
    for name in names {
        let body = json!({ "name": name });
        let response = ask(socket, "POST", "/v1/certs/renew", body)?;
        if response.status >= 400 {
            return Ok(print(&response, output, |_| String::new()));
        }
        begun.push(response.value);
    }
    if !wait {
        match output {
            PrintFormat::Json => out!("{:#}", json!({ "renewals": begun })),
            PrintFormat::Text => out!("the renewal begins: `lockgate cert list` shows how it ends"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let renewed: Vec<_> = items(&before.value["managed"])
        .filter(|one| names.iter().any(|name| one["name"] == **name))
        .cloned()
        .collect();
    let ended = wait_for(socket, renewed)?;
    let has_failed = ended.iter().any(|end| end.error.is_some());
    match output {
        PrintFormat::Json => {
            let certs: Vec<_> = ended.into_iter().map(RenewalEnd::into_json).collect();
            out!("{:#}", json!({ "renewals": certs }));
        }
        PrintFormat::Text => ended.iter().for_each(RenewalEnd::print),
    }
    Ok(match has_failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// How a renewal has ended.
struct RenewalEnd {
    cert: Value,
    /// What has failed.
    error: Option<String>,
}

/// Waits until each of these certificates is obtained, or its try has failed.
fn wait_for(socket: &Path, mut before: Vec<Value>) -> anyhow::Result<Vec<RenewalEnd>> {
    let begun = Instant::now();
    let mut ended = Vec::new();
    while !before.is_empty() {
        let now = ask(socket, "GET", "/v1/certs", Value::Null)?;
        let is_late = begun.elapsed() > RENEWAL;
        before.retain(|old| {
            let mut all = items(&now.value["managed"]);
            let new = all.find(|new| new["name"] == old["name"] && new["key"] == old["key"]);
            let end = match new {
                Some(new) => end_of(old, new, is_late),
                None => Some(Some("the configuration wants it no more".to_owned())),
            };
            let Some(error) = end else {
                return true;
            };
            let cert = new.unwrap_or(old).clone();
            ended.push(RenewalEnd { cert, error });
            false
        });
        if !before.is_empty() {
            sleep(LOOKS);
        }
    }
    Ok(ended)
}

/// Whether a renewal has ended, and with which failure.
fn end_of(old: &Value, new: &Value, is_late: bool) -> Option<Option<String>> {
    let has_grown = |name: &str| new[name].as_u64() > old[name].as_u64();
    match () {
        () if has_grown("obtained") => Some(None),
        () if has_grown("failed") => Some(Some(failure(&new["failure"]))),
        () if is_late => {
            let next = plain(&new["next_try"]);
            Some(Some(format!("it has not ended in time; next try: {next}")))
        }
        () => None,
    }
}

impl RenewalEnd {
    fn print(&self) {
        let [name, key] = ["name", "key"].map(|name| plain(&self.cert[name]));
        match &self.error {
            None => out!(
                "{name}, {key}: obtained, valid until {}",
                plain(&self.cert["not_after"])
            ),
            Some(error) => eprintln!("lockgate: {name}, {key}: {error}"),
        }
    }

    fn into_json(self) -> Value {
        let mut cert = self.cert;
        cert["error"] = json!(self.error);
        cert
    }
}

fn revoked(value: &Value) -> String {
    let name = plain(&value["name"]);
    let lines = items(&value["revoked"]).map(|one| {
        let served = match one["file_removed"] == true {
            true => "it is served no more",
            false => "it is served until there is another",
        };
        let [key, directory] = ["key", "directory"].map(|name| plain(&one[name]));
        format!("{name}, {key}: revoked at {directory}; {served}\n")
    });
    let text: String = lines.collect();
    text + "another certificate is being obtained: `lockgate cert list` shows how it ends\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_ends_with_the_try_that_was_asked_for() {
        let cert = |obtained: u32, failed: u32| {
            json!({ "obtained": obtained, "failed": failed, "next_try": "2026-01-01T00:00:00Z",
                "failure": { "kind": "validation", "message": "closed" } })
        };
        let old = cert(1, 2);
        assert_eq!(end_of(&old, &cert(1, 2), false), None);
        assert_eq!(end_of(&old, &cert(2, 2), false), Some(None));
        let failed = Some(Some("validation: closed".to_owned()));
        assert_eq!(end_of(&old, &cert(1, 3), false), failed);
        let late = end_of(&old, &cert(1, 2), true);
        assert!(late.unwrap().unwrap().contains("2026-01-01"));
    }
}
