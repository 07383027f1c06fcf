//! Plan of page loads, from the options of a run.

use std::sync::Arc;
use std::time::Duration;

use lockgate_http::h1::encode;
use lockgate_http::head::Method;

use super::result::{ObjectKind, PageProtocol};
use super::scan::FetchPriority;
use crate::options::{LoadOptions, OptionsError};
use crate::shared_link::SharedLink;
use crate::target::{Http1Request, Http2Request, RemotePeer, RequestBody, Url, UrlScheme};

/// Plan of the loads of one page.
#[derive(Debug)]
pub struct PagePlan {
    pub(super) options: LoadOptions,
    pub(super) url: Url,
    pub(super) protocol: PageProtocol,
    /// Connections at once, at the most.
    pub(super) connections: usize,
    pub(super) loads: u64,
    pub(super) timeout: Duration,
    pub(super) link: Option<Arc<SharedLink>>,
}

impl PagePlan {
    /// A plan from options: `connections`, `count` and `timeout` are the connections of a load, the
    /// number of loads, and the timeout of one load. Options about rates, bodies, threads and
    /// several targets are ignored; the command line refuses them.
    ///
    /// # Errors
    /// As [`LoadOptions::plan`], and where there is not exactly one URL of HTTP.
    pub fn new(options: &LoadOptions) -> Result<Self, OptionsError> {
        options.check()?;
        let one = || OptionsError::Together("--page takes one URL, of http or https".to_owned());
        let [written] = &*options.requests.urls else {
            return Err(one());
        };
        let url = Url::parse(written)?;
        if !matches!(url.scheme, UrlScheme::Http | UrlScheme::Https) {
            return Err(one());
        }
        if options.requests.priorities && options.requests.has_field("priority") {
            let text =
                "--priorities and -H 'Priority: …' contradict each other: leave out one of them";
            return Err(OptionsError::Together(text.to_owned()));
        }
        let protocol = match options.connections.streams {
            None => PageProtocol::Http1,
            Some(_) if options.connections.number > 1 => {
                let text = "over HTTP/2 a page uses one connection: leave out --connections";
                return Err(OptionsError::Together(text.to_owned()));
            }
            Some(_) => PageProtocol::Http2 {
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

    /// The peer of the page, without a session to resume and without a chosen address, as for a
    /// first visit.
    pub(super) fn peer(&self) -> Result<RemotePeer, OptionsError> {
        self.options.peer(&self.url)
    }

    /// The HTTP/1.1 request for an object of the page's origin.
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
            body: RequestBody::Fixed(Arc::default()),
        }
    }

    /// The HTTP/2 request for an object of the page's origin.
    pub(super) fn http2(
        &self,
        target: &str,
        kind: ObjectKind,
        priority: FetchPriority,
    ) -> Http2Request {
        let url = Url {
            target: target.to_owned(),
            ..self.url.clone()
        };
        let mut request = self.options.requests.http2("GET", &url, false);
        if self.protocol == (PageProtocol::Http2 { priorities: true }) {
            request.fields.push((
                "priority".to_owned(),
                priority_field(kind, priority).to_owned(),
            ));
        }
        request
    }
}

/// The Priority field (RFC 9218 §4) that Chromium sends for an object. It raises images in view,
/// which need a layout.
fn priority_field(kind: ObjectKind, priority: FetchPriority) -> &'static str {
    match (kind, priority) {
        (ObjectKind::Page, _) => "u=0, i",
        (ObjectKind::Style, FetchPriority::First) => "u=0",
        (_, FetchPriority::First) => "u=1",
        (ObjectKind::Script | ObjectKind::Style, _) => "u=3",
        (ObjectKind::Image | ObjectKind::Icon | ObjectKind::Media, _) => "u=3, i",
        (_, FetchPriority::Second) => "u=2",
        (_, FetchPriority::Last) => "u=4",
    }
}
