//! Active checks of the endpoints of a pool.

use std::ops::RangeInclusive;

use crate::check::{Value, statuses};
use crate::codes::Code;
use crate::model::{Endpoint, EndpointAddr, Health, Probe, Protocol, UpstreamTls};

use super::{Resolver, View};

impl Resolver<'_> {
    /// The checks of the pool that `view` shows, which speaks `protocol`.
    pub(super) fn health(
        &mut self,
        view: &View<'_>,
        endpoints: &[Endpoint],
        protocol: Option<Protocol>,
        of_pool: Option<&UpstreamTls>,
    ) -> Option<Health> {
        let written = view.written("health")?;
        let long = view.section("health");
        let path = match &written.value {
            Value::Text(path) => Some(path.clone()),
            Value::Word(_) => None,
            Value::Table(_) => long.text("path"),
            _ => return None,
        };
        let service = self.service(&long, protocol);
        let scripted = long.on("tcp") || long.mentions("send");
        if scripted {
            self.beside_tcp(&long);
        } else if path.is_none() && service.is_none() && !long.broken(&["path", "grpc"]) {
            self.without_path(&long);
        }
        let probe = match (service, path) {
            _ if scripted => Probe::Tcp {
                send: long.text("send").unwrap_or_default(),
                expect: self.expected(&long),
            },
            (Some(service), _) => Probe::Grpc { service },
            (None, None) => Probe::Tcp {
                send: String::new(),
                expect: None,
            },
            (None, Some(path)) => Probe::Http {
                path,
                method: long.text("method").unwrap_or_default(),
                expect: self.statuses(&long),
                body: long.text("body"),
            },
        };
        let unix = |endpoint: &Endpoint| matches!(endpoint.addr, EndpointAddr::Unix(_));
        if let (Some(written), true) = (long.written("port"), endpoints.iter().all(unix)) {
            let message = "`port` has no effect";
            let why = "a Unix socket has none";
            self.report
                .push_at(Code::NoEffect, &written.at, message, why, "remove it");
        }
        let tls = match long.written("tls").map(|written| written.value) {
            None => of_pool.cloned(),
            Some(_) => self.tls_to(&long, endpoints, protocol),
        };
        Some(Health {
            probe,
            every: long.duration("every"),
            timeout: long.duration("timeout"),
            fall: long.number("fall"),
            rise: long.number("rise"),
            port: long.count("port").and_then(|port| u16::try_from(port).ok()),
            tls,
        })
    }

    /// The service that is asked about, where a check is one of gRPC.
    fn service(&mut self, long: &View<'_>, protocol: Option<Protocol>) -> Option<String> {
        let written = long.written("grpc")?;
        let service = match &written.value {
            Value::Text(service) => service.clone(),
            Value::Bool(true) => String::new(),
            _ => return None,
        };
        if protocol == Some(Protocol::Http1) {
            let message = "`grpc` over HTTP/1.1";
            let why = "gRPC is spoken over HTTP/2";
            let cure = "write protocol = \"h2c\" in the pool, or \"h2\" with tls";
            self.report
                .push_at(Code::WrongProtocol, &written.at, message, why, cure);
        }
        for name in ["path", "method", "expect", "body"] {
            let Some(other) = long.written(name) else {
                continue;
            };
            let message = format!("`{name}` beside `grpc`");
            let why = "the gRPC health protocol has its own request, and its own answer";
            let cure = format!("remove `{name}`, or `grpc`");
            self.report
                .push_at(Code::Excluded, &other.at, message, why, cure);
        }
        Some(service)
    }

    /// What is about requests, where bytes are sent.
    fn beside_tcp(&mut self, long: &View<'_>) {
        let with = if long.on("tcp") { "tcp" } else { "send" };
        for name in ["path", "grpc", "method", "body"] {
            let Some(other) = long.written(name) else {
                continue;
            };
            let message = format!("`{name}` beside `{with}`");
            let why = "bytes are sent and expected, and no request";
            let cure = format!("remove `{name}`, or `{with}`");
            self.report
                .push_at(Code::Excluded, &other.at, message, why, cure);
        }
        if let Some(written) = long
            .written("send")
            .filter(|_| long.text("send").is_some_and(|text| text.is_empty()))
        {
            let cure = "remove it: where the endpoint speaks first, expect alone will do";
            self.report.push_at(
                Code::BadText,
                &written.at,
                "nothing is sent",
                "the text is empty",
                cure,
            );
        }
    }

    /// What must come, of a connection.
    fn expected(&mut self, long: &View<'_>) -> Option<String> {
        let written = long.written("expect")?;
        match written.value {
            Value::Text(text) if !text.is_empty() => return Some(text),
            Value::Text(_) => {
                let cure = "remove it, or write what must come";
                self.report.push_at(
                    Code::BadText,
                    &written.at,
                    "anything is expected",
                    "the text is empty",
                    cure,
                );
            }
            _ => {
                let why = "bytes are sent, and no request";
                let cure = "write one text such as \"PONG\"";
                self.report.push_at(
                    Code::WrongType,
                    &written.at,
                    "a list of statuses cannot stand here",
                    why,
                    cure,
                );
            }
        }
        None
    }

    /// What an answer's status may be.
    fn statuses(&mut self, long: &View<'_>) -> Vec<RangeInclusive<u16>> {
        let Some(written) = long.written("expect") else {
            return vec![200..=399];
        };
        match written.value {
            Value::List(items) => items.iter().filter_map(|item| range(&item.value)).collect(),
            Value::Text(text) => match statuses(&text) {
                Some(range) => vec![range],
                None => {
                    let why = "statuses go from 100 to 599";
                    let cure = "write \"200\" or \"200-399\"";
                    self.report.push_at(
                        Code::BadText,
                        &written.at,
                        "this is not a status",
                        why,
                        cure,
                    );
                    Vec::new()
                }
            },
            _ => Vec::new(),
        }
    }

    /// What is about answers, where nothing is asked.
    fn without_path(&mut self, long: &View<'_>) {
        for name in ["method", "expect", "body"] {
            let Some(written) = long.written(name) else {
                continue;
            };
            let message = format!("`{name}` without `path`");
            let why = "without a request there is no answer";
            let cure = match name {
                "expect" => {
                    "add path = \"/health\", or tcp = true where it is a text that must come"
                }
                _ => "add path = \"/health\"",
            };
            self.report
                .push_at(Code::MissingKey, &written.at, message, why, cure);
        }
    }
}

/// Statuses that were written.
pub(super) fn range(value: &Value) -> Option<RangeInclusive<u16>> {
    if let Value::Statuses(range) = value {
        Some(range.clone())
    } else {
        None
    }
}
