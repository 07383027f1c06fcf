//! What a route does to its requests and their responses, and what it holds them to, once they are
//! admitted.

use std::sync::Arc;
use lockgate_rules::{Caching, Compression, Cors, HeaderRules, MinRates, RedirectMap, TargetRewrite};

use crate::answer::Pages;
use crate::shaping::Shape;
use crate::transform::Rewrite;

/// What the requests of a route and their answers are held to.
#[derive(Debug)]
pub struct Rules {
    /// What becomes of the path.
    pub target: TargetRewrite,
    /// Changes to a request's fields.
    pub request_headers: HeaderRules,
    /// Changes to an answer's fields.
    pub headers: HeaderRules,
    /// Bytes of a request's body; more is 413.
    pub body_max: Option<u64>,
    /// Minimum rates of the client.
    pub rates: MinRates,
    /// The rates that bodies are held to, and what upgrades carry.
    pub shape: Option<Arc<Shape>>,
    /// Whether requests that are of no trace begin one: so many of a hundred are to be recorded.
    pub trace: Option<u8>,
    /// How long answers may be kept.
    pub cache: Option<Caching>,
    /// What is changed of bodies.
    pub rewrite: Option<Arc<Rewrite>>,
    /// Which answers are compressed.
    pub compress: Option<Compression>,
    /// Whose pages may read them.
    pub cors: Option<Cors>,
    /// Whether `Location` and cookie paths are put back to what the client sees.
    pub rewrite_location: bool,
    /// What is shown instead of our own pages.
    pub pages: Arc<Pages>,
    /// Paths that lead elsewhere, before the action is asked.
    pub redirects: Option<Arc<RedirectMap>>,
    /// Whether paths that an origin could read otherwise are let through.
    pub raw_paths: bool,
}

