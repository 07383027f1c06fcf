//! What a route does to its requests and their responses, and what it holds them to, once they are
//! admitted.

use std::sync::Arc;

use lockgate_http::fields::Fields;
use lockgate_net::stream::BufferPool;
use lockgate_rules::{
    Caching, Compression, Cors, HeaderRules, MinRates, RedirectMap, RequestValues, TargetRewrite,
    TraceShare,
};

use crate::error_response::ErrorPages;
use crate::shaping::Shape;
use crate::transform::Rewrite;

/// The rules of a route for its requests and their responses. Large ones that few routes have are
/// boxed.
#[derive(Debug)]
pub struct RouteRules {
    /// The rewrite of the target.
    pub target: TargetRewrite,
    /// Changes to a request's fields.
    pub request_headers: HeaderRules,
    /// Changes to a response's fields.
    pub headers: HeaderRules,
    /// Bytes of a request's body; more is 413.
    pub body_max: Option<u64>,
    /// Minimum rates of the client.
    pub rates: MinRates,
    /// The rates that bodies are held to, and what upgrades carry.
    pub shape: Option<Arc<Shape>>,
    /// Whether requests that are of no trace begin one, and the share that is to be recorded.
    pub trace: Option<TraceShare>,
    /// The caching of responses.
    pub cache: Option<Box<Caching>>,
    /// The rewrite of bodies.
    pub rewrite: Option<Arc<Rewrite>>,
    /// Which responses are compressed.
    pub compress: Option<Compression>,
    /// The pages of other origins that may read responses.
    pub cors: Option<Box<Cors>>,
    /// Whether `Location` and cookie paths are put back to what the client sees.
    pub rewrite_location: bool,
    /// The error pages instead of the built-in ones.
    pub pages: Arc<ErrorPages>,
    /// Paths that lead elsewhere, before the action is asked.
    pub redirects: Option<Arc<RedirectMap>>,
    /// Whether paths that an origin could read otherwise are let through.
    pub raw_paths: bool,
}

/// Changes fields by rules; values are put together in one of the worker's buffers.
pub fn apply(
    rules: &HeaderRules,
    fields: &mut Fields,
    values: &RequestValues<'_>,
    blocks: &BufferPool,
) {
    let mut scratch = blocks.text();
    rules.apply(fields, values, &mut scratch);
    blocks.take_back(scratch);
}
