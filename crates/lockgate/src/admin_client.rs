//! The commands that ask a running Lockgate over its admin socket: the request, and the response as
//! a table or as JSON.

pub(crate) mod cert;
mod cert_text;
pub(crate) mod change;
pub(crate) mod connections;
pub(crate) mod endpoint_state;
mod find;
mod query;
mod show;
pub(crate) mod tail;
pub(crate) mod units;

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use lockgate_client::ClientError;
use lockgate_net::dial::DialTarget;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::PrintFormat;
use crate::cli::admin::{AdminOptions, AdminVerb};
use crate::local_request::{CollectedResponse, LocalRequest};
use crate::print::out;

pub(crate) use find::find;

/// The time for everything: a check of a configuration reads files and looks names up.
const TIME: Duration = Duration::from_secs(60);
/// What every Lockgate calls itself on its admin socket, before its version.
const SERVER: &str = "lockgate/";

/// A program listens at the socket, and has not answered in time.
#[derive(Debug, thiserror::Error)]
#[error("unix:{} does not answer as a Lockgate: {error}", socket.display())]
pub(crate) struct Unanswered {
    pub(crate) socket: PathBuf,
    pub(crate) error: ClientError,
}

/// A response of the admin socket.
pub(crate) struct AdminResponse {
    pub(crate) status: u16,
    pub(crate) value: Value,
}

/// Asks, and prints the response; the exit code is 1 where it is an error.
///
/// # Errors
/// When there is no socket, or no Lockgate there.
pub(crate) fn run(options: &AdminOptions) -> anyhow::Result<ExitCode> {
    let socket = find(&options.socket)?;
    let (method, path, body) = request(&options.verb)?;
    let time = match &options.verb {
        AdminVerb::Upgrade(upgrade) => TIME + Duration::from_secs(upgrade.timeout),
        // Lockgate waits for so long itself.
        AdminVerb::Change(change) => TIME + change.waits(),
        _ => TIME,
    };
    let response = ask_within(time, &socket, (method, path, body))?;
    let text = |value: &Value| show::text(&options.verb, value);
    Ok(print(&response, options.output, text))
}

/// Asks for one resource, and prints the response, as JSON or as `text` has it; the exit code is 1
/// where it is an error.
///
/// # Errors
/// When there is no Lockgate, or no permission.
pub(crate) fn ask_and_print(
    socket: &Path,
    (method, path, body): (&str, &str, Value),
    output: PrintFormat,
    text: impl FnOnce(&Value) -> String,
) -> anyhow::Result<ExitCode> {
    let response = ask(socket, method, path, body)?;
    Ok(print(&response, output, text))
}

/// Prints a response, as JSON or as `text` has it; the exit code is 1 where it is an error.
pub(crate) fn print(
    response: &AdminResponse,
    output: PrintFormat,
    text: impl FnOnce(&Value) -> String,
) -> ExitCode {
    let is_ok = response.status < 400;
    match output {
        PrintFormat::Json => out!("{:#}", response.value),
        PrintFormat::Text if is_ok => out!("{}", text(&response.value).trim_end()),
        PrintFormat::Text => eprint!("{}", show::error(&response.value)),
    }
    if is_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn request(verb: &AdminVerb) -> anyhow::Result<(&'static str, &'static str, Value)> {
    Ok(match verb {
        AdminVerb::Status => ("GET", "/v1/status", Value::Null),
        AdminVerb::Pools | AdminVerb::Endpoints => ("GET", "/v1/pools", Value::Null),
        AdminVerb::Certs => ("GET", "/v1/certs", Value::Null),
        AdminVerb::LogLevel(None) => ("GET", "/v1/log-level", Value::Null),
        AdminVerb::LogLevel(Some(level)) => {
            ("POST", "/v1/log-level", json!({ "level": level.as_str() }))
        }
        AdminVerb::Reload { stdin, confirm } => {
            ("POST", "/v1/reload", reload_body(*stdin, *confirm)?)
        }
        AdminVerb::Check => ("POST", "/v1/reload", json!({ "dry_run": true })),
        AdminVerb::Confirm => ("POST", "/v1/confirm", Value::Null),
        AdminVerb::Rollback => ("POST", "/v1/rollback", Value::Null),
        AdminVerb::Upgrade(options) => {
            let mut body = json!({ "limit_seconds": options.timeout });
            if let Some(program) = &options.program {
                let program = std::path::absolute(program)?;
                body["program"] = program.to_str().context("BINARY is no UTF-8")?.into();
            }
            ("POST", "/v1/upgrade", body)
        }
        AdminVerb::Reopen => ("POST", "/v1/logs/reopen", Value::Null),
        AdminVerb::Drain => ("POST", "/v1/drain", Value::Null),
        AdminVerb::Stop => ("POST", "/v1/stop", Value::Null),
        AdminVerb::Change(change) => (change.method, change.path, change.body.clone()),
    })
}

fn reload_body(stdin: bool, confirm: Option<u64>) -> anyhow::Result<Value> {
    let mut body = json!({});
    if stdin {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.context("the configuration on standard input cannot be read")?;
        body["text"] = text.into();
    }
    if let Some(seconds) = confirm {
        body["confirm_seconds"] = seconds.into();
    }
    Ok(body)
}

/// Sends a request to the socket.
///
/// # Errors
/// When there is no Lockgate, or no permission.
pub(crate) fn ask(
    socket: &Path,
    method: &str,
    path: &str,
    body: Value,
) -> anyhow::Result<AdminResponse> {
    ask_within(TIME, socket, (method, path, body))
}

/// Reads a resource as a value of type `T`, which may leave members out.
///
/// # Errors
/// When there is no Lockgate, no permission, or another response.
pub(crate) fn ask_for<T: DeserializeOwned>(socket: &Path, path: &str) -> anyhow::Result<T> {
    ask_for_within(TIME, socket, path)
}

/// As [`ask_for`], within a time.
///
/// # Errors
/// As [`ask_for`]; [`Unanswered`] when a program listens and the time passes.
pub(crate) fn ask_for_within<T: DeserializeOwned>(
    time: Duration,
    socket: &Path,
    path: &str,
) -> anyhow::Result<T> {
    let request = LocalRequest {
        time,
        ..request_to(socket, "GET", path, Bytes::new())
    };
    let response = request.send().map_err(|error| unreachable(socket, error))?;
    if response.status < 400 && response.server.starts_with(SERVER) {
        return value_of(socket, &response.body);
    }
    let response = response_of(socket, response)?;
    bail!(
        "{path}: {}",
        units::plain(&response.value["error"]["message"])
    )
}

/// Sends a request to the socket, which has so long to answer.
///
/// # Errors
/// As [`ask`].
pub(crate) fn ask_within(
    time: Duration,
    socket: &Path,
    (method, path, body): (&str, &str, Value),
) -> anyhow::Result<AdminResponse> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let request = LocalRequest {
        time,
        ..request_to(socket, method, path, body)
    };
    let response = request.send().map_err(|error| unreachable(socket, error))?;
    response_of(socket, response)
}

fn request_to<'a>(socket: &Path, method: &'a str, path: &'a str, body: Bytes) -> LocalRequest<'a> {
    LocalRequest {
        addresses: vec![DialTarget::Unix(socket.to_owned())],
        host: "lockgate",
        method,
        path,
        body,
        time: TIME,
    }
}

/// The response of a Lockgate.
fn response_of(socket: &Path, response: CollectedResponse) -> anyhow::Result<AdminResponse> {
    let shown = socket.display();
    if !response.server.starts_with(SERVER) {
        bail!("another program answers at unix:{shown}: name the admin socket with -c or --admin");
    }
    Ok(AdminResponse {
        status: response.status,
        value: value_of(socket, &response.body)?,
    })
}

fn value_of<T: DeserializeOwned>(socket: &Path, body: &[u8]) -> anyhow::Result<T> {
    let shown = socket.display();
    serde_json::from_slice(body)
        .with_context(|| format!("the response of unix:{shown} is not the JSON of a Lockgate"))
}

/// The error in words of the reader, with its cure.
fn unreachable(socket: &Path, error: ClientError) -> anyhow::Error {
    let shown = socket.display();
    let kind = match &error {
        ClientError::Unreachable(error) => Some(error.kind()),
        ClientError::Late(_) => Some(ErrorKind::TimedOut),
        _ => None,
    };
    match kind {
        Some(ErrorKind::NotFound) => anyhow!(
            "there is no admin socket at unix:{shown}: Lockgate does not run, or has its socket elsewhere (-c or --admin names it)"
        ),
        Some(ErrorKind::PermissionDenied) => anyhow!(
            "no permission for unix:{shown}: run this as root (sudo) or as the user of Lockgate; admin = {{ group = \"GROUP\" }} allows others"
        ),
        Some(ErrorKind::ConnectionRefused) => anyhow!(
            "no program listens at unix:{shown}: the Lockgate that made this socket has ended"
        ),
        // A full backlog, or no response.
        Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => Unanswered {
            socket: socket.to_owned(),
            error,
        }
        .into(),
        _ => anyhow!("unix:{shown} does not answer as a Lockgate: {error}"),
    }
}
