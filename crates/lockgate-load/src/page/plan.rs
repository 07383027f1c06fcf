//! What loads of a page need, from the options of a run.

use std::sync::Arc;
use std::time::Duration;

use lockgate_http::h1::encode;
use lockgate_http::head::Method;

use super::result::{ObjectKind, Protocol};
use super::scan::Priority;
use crate::options::{Options, OptionsError};
use crate::shared_link::SharedLink;
use crate::target::{Body, Http1Request, Http2Request, Peer, Scheme, Url};

/// A page to be loaded, and how.
#[derive(Debug)]
pub struct PagePlan {
    pub(super) options: Options,
    pub(super) url: Url,
    pub(super) protocol: Protocol,
    /// Connections at once, at the most.
    pub(super) connections: usize,
    pub(super) loads: u64,
    /// What one load may take.
    pub(super) timeout: Duration,
    pub(super) link: Option<Arc<SharedLink>>,
}

impl PagePlan {
    /// Makes one: `connections`, `count` and `timeout` of the options are of a load's connections,
    /// of loads, and of one load; what belongs to rates, bodies, threads and several targets is
    /// not looked at, and must not be there.
    ///
    /// # Errors
    /// As [`Options::plan`], and when there is not one URL of HTTP.
    pub fn new(options: &Options) -> Result<Self, OptionsError> {
        options.check()?;
        let one = || OptionsError::Together("--page takes one URL, of http or https".to_owned());
        let [written] = &*options.requests.urls else {
            return Err(one());
        };
        let url = Url::parse(written)?;
        if !matches!(url.scheme, Scheme::Http | Scheme::Https) {
            return Err(one());
        }
        if options.requests.priorities && options.requests.has_field("priority") {
            let text =
                "--priorities and -H 'Priority: …' contradict each other: leave out one of them";
            return Err(OptionsError::Together(text.to_owned()));
        }
        let protocol = match options.connections.streams {
            None => Protocol::Http1,
            Some(_) if options.connections.number > 1 => {
                let text = "over HTTP/2 a page uses one connection: leave out --connections";
                return Err(OptionsError::Together(text.to_owned()));
            }
            Some(_) => Protocol::Http2 {
                priorities: options.requests.priorities,
            },
        };
        let plan = Self {
            url,
            protocol,
            connections: options.connections.number,
            loads: options.timing.count.unwrap_or(1),
            timeout: options.timing.timeout,
            link: options.connections.shared_link(),
            options: options.clone(),
        };
        plan.peer()?;
        Ok(plan)
    }

    /// Where the page is, as if nobody had been there before: no session to resume, no address that
    /// has answered.
    pub(super) fn peer(&self) -> Result<Peer, OptionsError> {
        self.options.peer(&self.url)
    }

    /// A request for something on the page's origin.
    pub(super) fn request(&self, target: &str) -> Http1Request {
        let mut head = self.options.requests.head(
            "GET",
            &Url {
                target: target.to_owned(),
                ..self.url.clone()
            },
        );
        encode::end(&mut head);
        Http1Request {
            method: Method::Get,
            head,
            varying: Vec::new(),
            body: Body::Fixed(Arc::default()),
        }
    }

    /// The same over HTTP/2.
    pub(super) fn http2(&self, target: &str, kind: ObjectKind, priority: Priority) -> Http2Request {
        let url = Url {
            target: target.to_owned(),
            ..self.url.clone()
        };
        let mut request = self.options.requests.http2("GET", &url, false);
        if self.protocol == (Protocol::Http2 { priorities: true }) {
            request
                .fields
                .push(("priority".to_owned(), said(kind, priority).to_owned()));
        }
        request
    }
}

/// How soon something is wanted, in the words that Chromium has for it (RFC 9218 §4). It wants
/// images more that it has found to be in view, which nobody lays out here.
fn said(kind: ObjectKind, priority: Priority) -> &'static str {
    match (kind, priority) {
        (ObjectKind::Page, _) => "u=0, i",
        (ObjectKind::Style, Priority::First) => "u=0",
        (_, Priority::First) => "u=1",
        (ObjectKind::Script | ObjectKind::Style, _) => "u=3",
        (ObjectKind::Image | ObjectKind::Icon | ObjectKind::Media, _) => "u=3, i",
        (_, Priority::Second) => "u=2",
        (_, Priority::Last) => "u=4",
    }
}
