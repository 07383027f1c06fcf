//! `tail`: lines of the access log as they happen, as JSON or in a shorter form for people.

use std::io::{self, ErrorKind, Write as _};
use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::Value;

use super::query::with_query;
use super::units::{bytes, latency, plain};
use super::{find, print, request_to, response_of, unreachable};
use crate::cli::PrintFormat;
use crate::cli::tail::TailOptions;
use crate::local_request::FollowEnd;

/// Prints lines until standard output is closed; the exit code is 1 where the response is an error,
/// and where the server has ended it.
///
/// # Errors
/// When there is no socket, no Lockgate there, or nothing can be written.
pub(crate) fn run(options: &TailOptions) -> anyhow::Result<ExitCode> {
    let socket = find(&options.socket)?;
    let target = with_query("/v1/tail", &options.parameters);
    let mut lines = LinePrinter {
        output: options.output,
        rest: Vec::new(),
    };
    let request = request_to(&socket, "GET", &target, Bytes::new());
    let end = request.follow(|data| lines.print(&data));
    match end.map_err(|error| unreachable(&socket, error))? {
        // A closed pipe (`lockgate tail | head`) is the wish of the reader.
        FollowEnd::Left(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        FollowEnd::Left(error) => Err(error).context("a line cannot be written"),
        FollowEnd::Ended => {
            eprintln!("lockgate: the server has ended the log");
            Ok(ExitCode::FAILURE)
        }
        FollowEnd::Refused(response) => {
            let response = response_of(&socket, response)?;
            Ok(print(&response, options.output, |_| String::new()))
        }
    }
}

/// The printer of lines that come in pieces.
struct LinePrinter {
    output: PrintFormat,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl LinePrinter {
    /// Prints the lines that are whole; breaks off where they cannot be written.
    fn print(&mut self, data: &[u8]) -> ControlFlow<io::Error> {
        self.rest.extend_from_slice(data);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |last| last + 1);
        let mut out = Vec::new();
        for line in self
            .rest
            .get(..whole)
            .unwrap_or_default()
            .split_inclusive(|byte| *byte == b'\n')
        {
            match self.output {
                PrintFormat::Json => out.extend_from_slice(line),
                PrintFormat::Text => {
                    let entry = serde_json::from_slice(line).unwrap_or_default();
                    out.extend_from_slice(text(&entry).as_bytes());
                    out.push(b'\n');
                }
            }
        }
        self.rest.drain(..whole);
        let mut stdout = io::stdout().lock();
        match stdout.write_all(&out).and_then(|()| stdout.flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// A line for people.
fn text(entry: &Value) -> String {
    if let Some(lost) = entry["lost"].as_u64() {
        return format!("{lost} lines lost");
    }
    let word = |name: &str| plain(&entry[name]);
    let time = word("time");
    let time = time.split_once('T').map_or("", |(_, time)| time);
    let mut words = vec![time.trim_end_matches('Z').to_owned(), word("client")];
    if entry["status"].is_null() {
        words.extend(["connection".to_owned(), word("listener")]);
    } else {
        let url = format!("{}://{}{}", word("scheme"), word("host"), word("target"));
        words.extend([word("method"), url, word("status")]);
    }
    words.push(latency(&entry["duration_seconds"]).replace(' ', ""));
    words.push(bytes(&entry["sent_bytes"]).replace(' ', ""));
    for name in ["endpoint", "cause", "side", "detail"] {
        let value = word(name);
        if value.contains(' ') {
            words.push(format!("{name}=\"{value}\""));
        } else if !value.is_empty() {
            words.push(format!("{name}={value}"));
        }
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_for_people_tells_what_happened() {
        let exchange = json!({
            "time": "2026-11-24T12:08:36.123Z", "client": "203.0.113.9", "method": "GET",
            "scheme": "https", "host": "a.test", "target": "/x", "status": 502,
            "duration_seconds": 0.0123, "sent_bytes": 170, "endpoint": "10.0.0.1:80",
            "cause": "connect_failed", "side": "upstream", "detail": "cannot connect",
        });
        assert_eq!(
            text(&exchange),
            "12:08:36.123 203.0.113.9 GET https://a.test/x 502 12.3ms 170B endpoint=10.0.0.1:80 \
             cause=connect_failed side=upstream detail=\"cannot connect\""
        );
        let connection = json!({
            "time": "2026-11-24T12:08:36.123Z", "client": "203.0.113.9", "listener": ":443",
            "duration_seconds": 2.0, "sent_bytes": 1_000, "cause": "idle",
        });
        assert_eq!(
            text(&connection),
            "12:08:36.123 203.0.113.9 connection :443 2.00s 1.00KB cause=idle"
        );
        assert_eq!(text(&json!({ "lost": 12 })), "12 lines lost");
    }

    #[test]
    fn a_client_cannot_send_control_characters_to_the_terminal() {
        let entry = json!({ "status": 200, "target": "/\u{1b}[2J\r\n\u{9b}", "host": "é" });
        let text = text(&entry);
        assert!(!text.chars().any(char::is_control), "{text:?}");
        assert!(text.contains("é/\\u{1b}[2J"), "{text}");
    }
}
