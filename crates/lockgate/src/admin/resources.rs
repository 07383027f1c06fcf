//! The resources of the admin socket: one row and one file each.

mod certs;
mod clients;
mod configuration;
mod connections;
mod endpoints;
mod explain;
mod limits;
mod log_level;
mod logs;
mod maintenance;
mod pool_endpoints;
mod pools;
mod reload;
mod renew_cert;
mod revoke_cert;
mod sites;
mod status;
mod stop;
mod tail;
mod takeover;
mod traces;
mod try_certs;
mod upgrade;

use std::pin::Pin;

use hyper::{Method, StatusCode};

use crate::handover::TAKEOVER_PATH;

use super::error::AdminError;
use super::line_stream::LineStream;
use super::request::{AdminRequest, AdminResult, AdminText};
use super::state::AdminState;
pub(super) use log_level::{level_name, level_named};
pub(super) use takeover::take_over;

/// The work of one method of a resource.
pub(super) type Handler = fn(AdminRequest) -> WrittenAnswer;

/// An answer as text, once there is one.
type WrittenAnswer = Pin<Box<dyn Future<Output = AdminResult<AdminText>> + Send>>;

/// A path and its methods.
pub(super) struct Resource {
    pub(super) path: &'static str,
    handlers: &'static [(Method, Handler)],
}

/// The begin of a response that goes on, by the query of a GET.
pub(super) type StreamHandler = fn(&AdminState, &str) -> Result<LineStream, AdminError>;

/// The resources with responses that go on.
const STREAMS: &[(&str, StreamHandler)] = &[("/v1/tail", tail::open)];

/// All other resources.
const RESOURCES: &[Resource] = &[
    Resource {
        path: "/v1/status",
        handlers: &[(Method::GET, |request| written(status::show(request)))],
    },
    Resource {
        path: "/v1/pools",
        handlers: &[(Method::GET, |request| written(pools::show(request)))],
    },
    Resource {
        path: "/v1/endpoints/drain",
        handlers: &[(Method::POST, |request| written(endpoints::drain(request)))],
    },
    Resource {
        path: "/v1/endpoints/maintenance",
        handlers: &[(Method::POST, |request| {
            written(request.carry_out(endpoints::maintenance))
        })],
    },
    Resource {
        path: "/v1/endpoints/ready",
        handlers: &[(Method::POST, |request| {
            written(request.carry_out(endpoints::ready))
        })],
    },
    Resource {
        path: "/v1/endpoints/weight",
        handlers: &[(Method::POST, |request| {
            written(request.carry_out(endpoints::weight))
        })],
    },
    Resource {
        path: "/v1/endpoints/add",
        handlers: &[(Method::POST, |request| {
            written(request.carry_out(pool_endpoints::add))
        })],
    },
    Resource {
        path: "/v1/endpoints/remove",
        handlers: &[(Method::POST, |request| {
            written(request.carry_out(pool_endpoints::remove))
        })],
    },
    Resource {
        path: "/v1/sites/maintenance",
        handlers: &[
            (Method::GET, |request| written(maintenance::show(request))),
            (Method::POST, |request| written(maintenance::set(request))),
        ],
    },
    Resource {
        path: "/v1/clients/bans",
        handlers: &[(Method::GET, |request| written(clients::bans(request)))],
    },
    Resource {
        path: "/v1/clients/ban",
        handlers: &[(Method::POST, |request| written(clients::ban(request)))],
    },
    Resource {
        path: "/v1/clients/unban",
        handlers: &[(Method::POST, |request| written(clients::unban(request)))],
    },
    Resource {
        path: "/v1/limits",
        handlers: &[(Method::GET, |request| written(limits::show(request)))],
    },
    Resource {
        path: "/v1/limits/clear",
        handlers: &[(Method::POST, |request| written(limits::clear(request)))],
    },
    Resource {
        path: "/v1/config",
        handlers: &[(Method::GET, |request| written(configuration::show(request)))],
    },
    Resource {
        path: "/v1/explain",
        handlers: &[(Method::POST, |request| written(explain::explain(request)))],
    },
    Resource {
        path: "/v1/traces",
        handlers: &[(Method::POST, |request| written(traces::begin(request)))],
    },
    Resource {
        path: "/v1/traces/wait",
        handlers: &[(Method::POST, |request| written(traces::wait(request)))],
    },
    Resource {
        path: "/v1/sites",
        handlers: &[(Method::GET, |request| written(sites::show(request)))],
    },
    Resource {
        path: "/v1/clients",
        handlers: &[(Method::GET, |request| written(sites::show_clients(request)))],
    },
    Resource {
        path: "/v1/connections",
        handlers: &[(Method::GET, |request| written(connections::list(request)))],
    },
    Resource {
        path: "/v1/connections/close",
        handlers: &[(Method::POST, |request| written(connections::close(request)))],
    },
    Resource {
        path: "/v1/certs",
        handlers: &[(Method::GET, |request| written(certs::show(request)))],
    },
    Resource {
        path: "/v1/certs/renew",
        handlers: &[(Method::POST, |request| written(renew_cert::renew(request)))],
    },
    Resource {
        path: "/v1/certs/revoke",
        handlers: &[(Method::POST, |request| {
            written(revoke_cert::revoke(request))
        })],
    },
    Resource {
        path: "/v1/certs/try",
        handlers: &[(Method::POST, |request| written(try_certs::try_out(request)))],
    },
    Resource {
        path: "/v1/log-level",
        handlers: &[
            (Method::GET, |request| written(log_level::show(request))),
            (Method::POST, |request| written(log_level::set(request))),
        ],
    },
    Resource {
        path: "/v1/logs/reopen",
        handlers: &[(Method::POST, |request| written(logs::reopen(request)))],
    },
    Resource {
        path: "/v1/reload",
        handlers: &[(Method::POST, |request| written(reload::reload(request)))],
    },
    Resource {
        path: "/v1/rollback",
        handlers: &[(Method::POST, |request| written(reload::roll_back(request)))],
    },
    Resource {
        path: "/v1/confirm",
        handlers: &[(Method::POST, |request| written(reload::confirm(request)))],
    },
    Resource {
        path: "/v1/upgrade",
        handlers: &[(Method::POST, |request| written(upgrade::upgrade(request)))],
    },
    Resource {
        path: "/v1/drain",
        handlers: &[(Method::POST, |request| written(stop::drain(request)))],
    },
    Resource {
        path: "/v1/stop",
        handlers: &[(Method::POST, |request| written(stop::stop(request)))],
    },
];

/// The answer of a resource, as text.
fn written<T: Into<AdminText>>(
    answer: impl Future<Output = AdminResult<T>> + Send + 'static,
) -> WrittenAnswer {
    Box::pin(async { Ok(answer.await?.into()) })
}

/// The resources with changes that an upgrade hands over.
const HANDED_OVER: &[&str] = &[
    "/v1/endpoints/drain",
    "/v1/endpoints/maintenance",
    "/v1/endpoints/ready",
    "/v1/endpoints/weight",
    "/v1/endpoints/add",
    "/v1/endpoints/remove",
    "/v1/sites/maintenance",
    "/v1/clients/ban",
    "/v1/clients/unban",
    "/v1/log-level",
];

/// The longest body.
const LONGEST_BODY: usize = 64 << 10;
/// The longest configuration.
const LONGEST_CONFIGURATION: usize = 16 << 20;

impl Resource {
    /// The longest body of its requests, in bytes.
    pub(super) fn longest_body(&self) -> usize {
        match self.path {
            "/v1/reload" => LONGEST_CONFIGURATION,
            _ => LONGEST_BODY,
        }
    }

    /// Whether a POST changes what an upgrade hands over.
    pub(super) fn is_handed_over(&self) -> bool {
        HANDED_OVER.contains(&self.path)
    }

    /// The handler of a method; HEAD is GET without a body.
    pub(super) fn handler(&self, method: &Method) -> Option<Handler> {
        let method = if *method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let mut handlers = self.handlers.iter();
        handlers
            .find(|(own, _)| own == method)
            .map(|(_, handler)| *handler)
    }

    /// Its methods, as the field `Allow` lists them.
    pub(super) fn methods(&self) -> String {
        let methods: Vec<_> = self.handlers.iter().map(|(own, _)| own.as_str()).collect();
        methods.join(", ")
    }
}

/// The handler of a path with a response that goes on.
pub(super) fn find_stream(path: &str) -> Option<StreamHandler> {
    let mut streams = STREAMS.iter();
    streams
        .find(|(own, _)| *own == path)
        .map(|(_, handler)| *handler)
}

/// The resource of a path.
pub(super) fn find(path: &str) -> Result<&'static Resource, AdminError> {
    let known = RESOURCES.iter().find(|resource| resource.path == path);
    known.ok_or_else(|| {
        let whole = RESOURCES.iter().map(|resource| resource.path);
        let others = STREAMS.iter().map(|(path, _)| *path).chain([TAKEOVER_PATH]);
        let paths: Vec<_> = whole.chain(others).collect();
        AdminError::new(
            StatusCode::NOT_FOUND,
            "unknown_path",
            "there is no such resource in this version",
            format!("there are {}", paths.join(", ")),
        )
    })
}
