//! `lockgate explain`: what becomes of a request. The rules that serve are asked; nothing is opened
//! or sent.

mod choice;
mod decision;
mod limits;
mod place;
mod question;
mod request;
mod text;
mod traced;

use std::process::ExitCode;
use std::time::Duration;

use lockgate_proxy::downstream::explain::ExplanationDepth;
use serde_json::{Value, json};

use crate::admin_client;
use crate::cli::PrintFormat;
use crate::cli::explain::{ExplainOptions, ExplainSource, TraceOptions};
use crate::examine::{Examination, examine};
use crate::print::{self, out};
use crate::start_steps::Mode;

pub(crate) use decision::{Decider, LoggedRequest, RequestDecision};
pub(crate) use question::{ExplainedConfig, Question};
pub(crate) use request::{AskedUrl, ExplainRequest, GivenField};

/// The time for a request that is followed: longer than its token may be used.
const TRACE: Duration = Duration::from_secs(90);

/// Follows one live request: says what it must bring, and waits for it.
///
/// # Errors
/// When no Lockgate runs that is asked, or it follows too many requests.
pub(crate) fn trace(options: &TraceOptions) -> anyhow::Result<ExitCode> {
    let socket = admin_client::find(&options.socket)?;
    let begun = admin_client::ask(&socket, "POST", "/v1/traces", Value::Null)?;
    let token = begun.value["token"].as_str().filter(|_| begun.status < 400);
    let Some(token) = token else {
        let why = begun.value["error"]["message"].as_str().unwrap_or_default();
        anyhow::bail!("no request can be followed: {why}");
    };
    let url = options.url.as_ref().map(ToString::to_string);
    // The trace alone goes to standard output.
    eprintln!(
        "within {} seconds: curl -H '{}' {}",
        begun.value["seconds"],
        begun.value["field"].as_str().unwrap_or_default(),
        url.as_deref().unwrap_or("URL")
    );
    let asked = ("POST", "/v1/traces/wait", json!({ "token": token }));
    let response = admin_client::ask_within(TRACE, &socket, asked)?;
    Ok(admin_client::print(&response, options.output, text::of))
}

/// Says what becomes of a request.
///
/// # Errors
/// When no listener has the URL, the request could not be sent, or no Lockgate runs that is asked.
pub(crate) fn run(options: &ExplainOptions) -> anyhow::Result<ExitCode> {
    let mut request = options.request.clone();
    if options.resolve {
        request.addresses = request.url.look_up()?;
    }
    let request = &request;
    let file = match &options.source {
        ExplainSource::File(file) => file,
        ExplainSource::Running(socket) => {
            let socket = admin_client::find(socket)?;
            let asked = ("POST", "/v1/explain", request.to_json());
            return admin_client::ask_and_print(&socket, asked, options.output, text::of);
        }
    };
    let Examination {
        report,
        draft,
        assembly,
    } = examine(file, Mode::Serving);
    let (Some(draft), Some(assembly)) = (draft, assembly) else {
        print::report(&report);
        return Ok(ExitCode::FAILURE);
    };
    let question = Question {
        loaded: draft.understood(),
        assembly: &assembly,
        ports: None,
        request,
        depth: ExplanationDepth::Losses,
    };
    let answer = question.answer().map_err(anyhow::Error::msg)?;
    match options.output {
        PrintFormat::Json => out!("{answer:#}"),
        PrintFormat::Text => out!("{}", text::of(&answer).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}
