//! Active checks of the endpoints of a pool.

use std::ops::RangeInclusive;

use crate::codes::Code;
use crate::keys::pool::{self, Expected, health};
use crate::model::{EndpointAddr, HealthSettings, Probe, Protocol, UpstreamTls, WeightedEndpoint};
use crate::values::{ShortOrLong, Switch, statuses};

use super::{Resolver, View};

impl Resolver<'_> {
    /// The checks of the pool that `view` shows, which speaks `protocol`.
    pub(super) fn health(
        &mut self,
        view: &View<'_>,
        endpoints: &[WeightedEndpoint],
        protocol: Option<Protocol>,
        of_pool: Option<&UpstreamTls>,
    ) -> Option<HealthSettings> {
        let long = view.section(&pool::HEALTH);
        let path = match view.written(&pool::HEALTH)?.value {
            ShortOrLong::Short(short) => short.clone()?,
            ShortOrLong::Long(_) => long.get(&health::PATH),
        };
        let service = self.service(&long, protocol);
        let scripted = long.get(&health::TCP) == Some(true) || long.has(&health::SEND);
        if scripted {
            self.beside_tcp(&long);
        } else if path.is_none()
            && service.is_none()
            && !long.broken(&[health::PATH.row(), health::GRPC.row()])
        {
            self.without_path(&long);
        }
        let probe = match (service, path) {
            _ if scripted => Probe::Tcp {
                send: long.get(&health::SEND).unwrap_or_default(),
                expect: self.expected(&long),
            },
            (Some(service), _) => Probe::Grpc { service },
            (None, None) => Probe::Tcp {
                send: String::new(),
                expect: None,
            },
            (None, Some(path)) => Probe::Http {
                path,
                method: long.get(&health::METHOD),
                expect: self.statuses(&long),
                body: long.get(&health::BODY),
            },
        };
        let unix = |endpoint: &WeightedEndpoint| matches!(endpoint.addr, EndpointAddr::Unix(_));
        if let (Some(written), true) = (long.written(&health::PORT), endpoints.iter().all(unix)) {
            self.no_effect("port", written.at, "a Unix socket has none", "remove it");
        }
        let tls = match long.written(&health::TLS) {
            None => of_pool.cloned(),
            Some(written) => {
                let view = long.section(&health::TLS);
                let is_table = written.value.is_long();
                is_table.then(|| self.tls_to(&view, written.at, endpoints, protocol))
            }
        };
        Some(HealthSettings {
            probe,
            every: long.get(&health::EVERY),
            timeout: long.get(&health::TIMEOUT),
            fall: long.get(&health::FALL),
            rise: long.get(&health::RISE),
            port: long.get(&health::PORT),
            tls,
        })
    }

    /// The service that is asked about, where a check is one of gRPC.
    fn service(&mut self, long: &View<'_>, protocol: Option<Protocol>) -> Option<String> {
        let written = long.written(&health::GRPC)?;
        let service = match written.value {
            Switch::Value(service) => service.clone(),
            Switch::Flag(true) => String::new(),
            Switch::Flag(false) => return None,
        };
        if protocol == Some(Protocol::Http1) {
            let message = "`grpc` over HTTP/1.1";
            let why = "gRPC is spoken over HTTP/2";
            let cure = "write protocol = \"h2c\" in the pool, or \"h2\" with tls";
            self.report
                .push_at(Code::WrongProtocol, written.at, message, why, cure);
        }
        for key in [
            health::PATH.row(),
            health::METHOD.row(),
            health::EXPECT.row(),
            health::BODY.row(),
        ] {
            let (name, Some(at)) = (key.name, long.value_at(key)) else {
                continue;
            };
            let message = format!("`{name}` beside `grpc`");
            let why = "the gRPC health protocol defines the request and the response";
            let cure = format!("remove `{name}`, or `grpc`");
            self.report.push_at(Code::Excluded, at, message, why, cure);
        }
        Some(service)
    }

    /// Reports keys of requests in a check that sends bytes.
    fn beside_tcp(&mut self, long: &View<'_>) {
        let with = match long.get(&health::TCP) {
            Some(true) => "tcp",
            _ => "send",
        };
        for key in [
            health::PATH.row(),
            health::GRPC.row(),
            health::METHOD.row(),
            health::BODY.row(),
        ] {
            let (name, Some(at)) = (key.name, long.value_at(key)) else {
                continue;
            };
            let message = format!("`{name}` beside `{with}`");
            let why = "a TCP check sends and expects bytes, not a request";
            let cure = format!("remove `{name}`, or `{with}`");
            self.report.push_at(Code::Excluded, at, message, why, cure);
        }
        let send = long.written(&health::SEND);
        if let Some(written) = send.filter(|send| send.value.is_empty()) {
            let cure = "remove it: if the endpoint sends first, expect is enough";
            self.report.push_at(
                Code::BadText,
                written.at,
                "nothing is sent",
                "the text is empty",
                cure,
            );
        }
    }

    /// The expected text of a check that sends bytes.
    fn expected(&mut self, long: &View<'_>) -> Option<String> {
        let written = long.written(&health::EXPECT)?;
        match written.value {
            Expected::Text(text) if !text.is_empty() => return Some(text.clone()),
            Expected::Text(_) => {
                let cure = "remove it, or write the expected text";
                self.report.push_at(
                    Code::BadText,
                    written.at,
                    "no text is expected",
                    "the text is empty",
                    cure,
                );
            }
            Expected::Statuses(_) => {
                let why = "a TCP check expects a text, not a status";
                let cure = "write one text such as \"PONG\"";
                self.report.push_at(
                    Code::WrongType,
                    written.at,
                    "a list of statuses cannot stand here",
                    why,
                    cure,
                );
            }
        }
        None
    }

    /// The expected statuses of a check.
    fn statuses(&mut self, long: &View<'_>) -> Vec<RangeInclusive<u16>> {
        let Some(written) = long.written(&health::EXPECT) else {
            return vec![200..=399];
        };
        match written.value {
            Expected::Statuses(items) => items.values().cloned().collect(),
            Expected::Text(text) => match statuses(text) {
                Some(range) => vec![range],
                None => {
                    let why = "statuses go from 100 to 599";
                    let cure = "write \"200\" or \"200-399\"";
                    self.report.push_at(
                        Code::BadText,
                        written.at,
                        "this is not a status",
                        why,
                        cure,
                    );
                    Vec::new()
                }
            },
        }
    }

    /// Reports keys of responses in a check without a request.
    fn without_path(&mut self, long: &View<'_>) {
        for key in [
            health::METHOD.row(),
            health::EXPECT.row(),
            health::BODY.row(),
        ] {
            let (name, Some(at)) = (key.name, long.value_at(key)) else {
                continue;
            };
            let message = format!("`{name}` without `path`");
            let why = "without a path there is no request, and so no response";
            let cure = match name {
                "expect" => {
                    "add path = \"/health\", or tcp = true if it is a text that the endpoint sends"
                }
                _ => "add path = \"/health\"",
            };
            self.report
                .push_at(Code::MissingKey, at, message, why, cure);
        }
    }
}
