//! What loads of a page need, from the options of a run.

use std::sync::Arc;
use std::time::Duration;

use lockgate_http::h1::encode;
use lockgate_http::head::Method;

use crate::bucket::Bucket;
use crate::options::{Options, OptionsError};
use crate::target::{Body, Peer, Request, Scheme, Url};

/// A page to be loaded, and how.
#[derive(Debug)]
pub struct Plan {
    pub(super) options: Options,
    pub(super) url: Url,
    /// Connections at once, at the most.
    pub(super) connections: usize,
    pub(super) loads: u64,
    /// What one load may take.
    pub(super) timeout: Duration,
    pub(super) link: Option<Arc<Bucket>>,
}

impl Plan {
    /// Makes one: `connections`, `count` and `timeout` of the options are of a load's connections, of loads, and of one
    /// load; what belongs to rates, bodies, threads and several targets is not looked at, and must not be there.
    ///
    /// # Errors
    /// As [`Options::plan`], and when there is not one URL of HTTP.
    pub fn new(options: &Options) -> Result<Self, OptionsError> {
        options.check()?;
        let one = || OptionsError::Together("--page takes one URL, of http or https".to_owned());
        let [written] = &*options.urls else { return Err(one()) };
        let url = Url::parse(written)?;
        if !matches!(url.scheme, Scheme::Http | Scheme::Https) {
            return Err(one());
        }
        let plan = Self {
            url,
            connections: options.connections,
            loads: options.count.unwrap_or(1),
            timeout: options.timeout,
            link: options.link.map(|rate| Arc::new(Bucket::new(rate))),
            options: options.clone(),
        };
        plan.peer()?;
        Ok(plan)
    }

    /// Where the page is, as if nobody had been there before: no session to resume, no address that has answered.
    pub(super) fn peer(&self) -> Result<Peer, OptionsError> {
        self.options.peer(&self.url)
    }

    /// A request for something on the page's origin.
    pub(super) fn request(&self, target: &str) -> Request {
        let mut head = self.options.head("GET", &Url { target: target.to_owned(), ..self.url.clone() });
        encode::end(&mut head);
        Request { method: Method::Get, head, varying: Vec::new(), body: Body::Fixed(Arc::default()) }
    }
}
