//! `lockgate explain`: what becomes of a request. The rules that serve are asked; nothing is opened
//! or sent.

mod choice;
mod decision;
mod limits;
mod question;
mod request;
mod text;

use std::process::ExitCode;

use lockgate_proxy::downstream::explain::ExplanationDepth;

use crate::admin_client;
use crate::cli::PrintFormat;
use crate::cli::explain::{ExplainOptions, ExplainSource};
use crate::examine::{Examination, examine};
use crate::print::{self, out};
use crate::start_steps::Mode;

pub(crate) use decision::{Decider, LoggedRequest, RequestDecision};
pub(crate) use question::{ExplainedConfig, Question};
pub(crate) use request::{AskedUrl, ExplainRequest, GivenField};

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
