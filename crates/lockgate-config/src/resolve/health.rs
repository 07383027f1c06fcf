//! Active checks of the endpoints of a pool.

use std::ops::RangeInclusive;

use crate::check::Value;
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
        if path.is_none() && service.is_none() && !long.broken(&["path", "grpc"]) {
            self.without_path(&long);
        }
        let probe = match (service, path) {
            (Some(service), _) => Probe::Grpc { service },
            (None, None) => Probe::Tcp,
            (None, Some(path)) => Probe::Http {
                path,
                method: long.text("method").unwrap_or_default(),
                expect: match long.value("expect") {
                    Value::List(items) => items.iter().filter_map(|item| range(&item.value)).collect(),
                    one => range(&one).into_iter().collect(),
                },
                body: long.text("body"),
            },
        };
        let unix = |endpoint: &Endpoint| matches!(endpoint.addr, EndpointAddr::Unix(_));
        if let (Some(written), true) = (long.written("port"), endpoints.iter().all(unix)) {
            let message = "`port` has no effect";
            let why = "a Unix socket has none";
            self.report.push_at(Code::NoEffect, &written.at, message, why, "remove it");
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
            self.report.push_at(Code::WrongProtocol, &written.at, message, why, cure);
        }
        for name in ["path", "method", "expect", "body"] {
            let Some(other) = long.written(name) else { continue };
            let message = format!("`{name}` beside `grpc`");
            let why = "the gRPC health protocol has its own request, and its own answer";
            let cure = format!("remove `{name}`, or `grpc`");
            self.report.push_at(Code::Excluded, &other.at, message, why, cure);
        }
        Some(service)
    }

    /// What is about answers, where nothing is asked.
    fn without_path(&mut self, long: &View<'_>) {
        for name in ["method", "expect", "body"] {
            let Some(written) = long.written(name) else { continue };
            let message = format!("`{name}` without `path`");
            let why = "without a request there is no answer";
            self.report.push_at(Code::MissingKey, &written.at, message, why, "add path = \"/health\"");
        }
    }
}

fn range(value: &Value) -> Option<RangeInclusive<u16>> {
    if let Value::Statuses(range) = value { Some(range.clone()) } else { None }
}
