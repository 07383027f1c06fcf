//! Lines of an access log in JSON, and the requests that they stand for.

use std::borrow::Cow;

use lockgate_http::h1::HeadLimits;
use lockgate_http::h1::parse::{self, HeadProgress};
use lockgate_http::head::RequestHead;
use lockgate_rules::ClientAddress;
use serde::Deserialize;

use crate::explain::LoggedRequest;

/// Credentials that a request with a `user` surely had; the password is not known.
const AUTHORIZATION: &str = "Basic eDp4";
/// What ends a target that was cut.
const CUT: char = '…';

/// The fields of a line that decide what becomes of a request.
#[derive(Deserialize)]
pub(super) struct LogLine<'a> {
    #[serde(borrow)]
    listener: Cow<'a, str>,
    #[serde(borrow, default)]
    client: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    user: Option<Cow<'a, str>>,
    /// Only lines of requests have one.
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    /// Only lines of TLS have one; `scheme` is what a proxy in front may have said.
    #[serde(borrow, default)]
    tls_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    host: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    sni: Option<Cow<'a, str>>,
    #[serde(default)]
    received_bytes: u64,
}

/// What a line stands for.
pub(super) enum LoggedLine {
    /// A request, the head of which was made.
    Request,
    /// A connection, or a tunnel.
    Connection,
    /// A request of which the log does not have enough: a target that was cut, one that no server
    /// could read.
    Incomplete,
}

impl LogLine<'_> {
    /// Makes the head of the request anew.
    pub(super) fn head(&self, text: &mut String, head: &mut RequestHead) -> LoggedLine {
        let Some(method) = &self.method else {
            return LoggedLine::Connection;
        };
        let Some(target) = self
            .target
            .as_deref()
            .filter(|target| !target.ends_with(CUT))
        else {
            return LoggedLine::Incomplete;
        };
        text.clear();
        let host = self.host.as_deref().unwrap_or_default();
        for part in [method, " ", target, " HTTP/1.1\r\nHost: ", host, "\r\n"] {
            text.push_str(part);
        }
        if self.user.is_some() {
            for part in ["Authorization: ", AUTHORIZATION, "\r\n"] {
                text.push_str(part);
            }
        }
        if self.received_bytes > 0 {
            text.push_str(&format!("Content-Length: {}\r\n", self.received_bytes));
        }
        text.push_str("\r\n");
        let limits = HeadLimits::default();
        let parsed = parse::request(text.as_bytes(), &mut HeadProgress::default(), &limits, head);
        match parsed {
            Ok(Some(length)) if length == text.len() => LoggedLine::Request,
            _ => LoggedLine::Incomplete,
        }
    }

    /// The request for people.
    pub(super) fn sample(&self) -> String {
        let part = |part: &Option<Cow<'_, str>>| part.as_deref().unwrap_or_default().to_owned();
        let scheme = if self.tls_version.is_some() {
            "https"
        } else {
            "http"
        };
        let (method, host, target) = (part(&self.method), part(&self.host), part(&self.target));
        format!("{method} {scheme}://{host}{target}")
    }

    /// The request with this head.
    pub(super) fn request<'a>(&'a self, head: &'a RequestHead) -> LoggedRequest<'a> {
        let client = match self.client.as_deref() {
            Some("unix") => ClientAddress::Unix,
            Some(address) => address
                .parse()
                .map_or(ClientAddress::Unknown, ClientAddress::Ip),
            None => ClientAddress::Unknown,
        };
        LoggedRequest {
            listener: &self.listener,
            secure: self.tls_version.is_some(),
            sni: self.sni.as_deref(),
            client,
            head,
        }
    }
}
