//! Results of page loads, before they are reported. Times count from the begin of a load.

use std::time::Duration;

use crate::result::{FailureKind, RunEnd};

/// Protocol of a page load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageProtocol {
    /// HTTP/1.1 over several connections at once.
    Http1,
    /// HTTP/2 over one connection for all objects.
    Http2 {
        /// Whether each request carries the priority that Chromium sends (RFC 9218 §4).
        priorities: bool,
    },
}

impl PageProtocol {
    /// The name of protocol and priorities in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 { priorities: false } => "HTTP/2",
            Self::Http2 { priorities: true } => "HTTP/2 with priorities",
        }
    }
}

/// Results of all loads of a page.
#[derive(Debug, Clone)]
pub struct PageReport {
    /// The words of the command line.
    pub command: Vec<String>,
    /// URL of the page, as written.
    pub url: String,
    /// Protocol that all loads use.
    pub protocol: PageProtocol,
    /// Connections at once, at the most.
    pub connections: usize,
    /// Timeout of one load with all its objects.
    pub timeout: Duration,
    /// Notes for the reader, such as that the link was the bottleneck.
    pub notes: Vec<String>,
    /// The loads, in their order.
    pub loads: Vec<PageLoad>,
    /// How the run ended. An interrupted load is left out.
    pub end: RunEnd,
}

/// One load: the page and its objects, on new connections and with an empty cache.
#[derive(Debug, Clone, Default)]
pub struct PageLoad {
    /// The page itself first, then its objects as they were found.
    pub objects: Vec<Object>,
    /// URLs of objects of other origins, each once. They are not fetched.
    pub other_origins: Vec<String>,
    /// References beyond the limit of one load: neither fetched nor named.
    pub left_out: u64,
    /// Number of connections that the load opened.
    pub opened: u32,
}

/// Kind of an object, which decides on its priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// The HTML document itself.
    Page,
    /// Style sheet, also an imported one.
    Style,
    /// Script or module that a browser runs.
    Script,
    /// Image, also one of a style sheet or a poster.
    Image,
    /// Icon of the site (`rel=icon`).
    Icon,
    /// Font of a style sheet.
    Font,
    /// Audio or video, fetched whole: a browser may request ranges.
    Media,
    /// A resource that a script will fetch (`preload as=fetch`).
    Other,
}

impl ObjectKind {
    /// The name of the kind in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Style => "style",
            Self::Script => "script",
            Self::Image => "image",
            Self::Icon => "icon",
            Self::Font => "font",
            Self::Media => "media",
            Self::Other => "other",
        }
    }
}

/// One object of a load.
#[derive(Debug, Clone)]
pub struct Object {
    /// Request target: path and query.
    pub target: String,
    /// Kind of the object, by the element that names it.
    pub kind: ObjectKind,
    /// When the scanner found it in the page or a style sheet.
    pub found: Duration,
    /// When its request was sent.
    pub start: Option<Duration>,
    /// Time to open the connection, TLS included, if it was opened for this object.
    pub connect: Option<Duration>,
    /// When the head of the response was there.
    pub first: Option<Duration>,
    /// When the response was whole, or failed.
    pub end: Option<Duration>,
    /// Number of the connection, from 1 on in the order of opening.
    pub connection: Option<u32>,
    /// HTTP status, if there is a response.
    pub status: Option<u16>,
    /// Length of the body in bytes.
    pub length: u64,
    /// Bytes received for it, head included.
    pub received: u64,
    /// The failure, if there is one.
    pub failure: Option<(FailureKind, String)>,
}

impl Object {
    /// A found object without a request.
    pub fn new(target: String, kind: ObjectKind, found: Duration) -> Self {
        Self {
            target,
            kind,
            found,
            start: None,
            connect: None,
            first: None,
            end: None,
            connection: None,
            status: None,
            length: 0,
            received: 0,
            failure: None,
        }
    }

    /// When the response was whole, if it was a success.
    pub fn done(&self) -> Option<Duration> {
        self.end.filter(|_| self.failure.is_none())
    }
}

impl PageLoad {
    /// When the page itself was complete.
    pub fn page(&self) -> Option<Duration> {
        self.complete(|kind| kind == ObjectKind::Page)
    }

    /// When page, style sheets and scripts were complete: a browser can show the page and run it.
    pub fn usable(&self) -> Option<Duration> {
        self.complete(|kind| {
            matches!(
                kind,
                ObjectKind::Page | ObjectKind::Style | ObjectKind::Script
            )
        })
    }

    /// When all objects were complete.
    pub fn all(&self) -> Option<Duration> {
        self.complete(|_| true)
    }

    /// The latest end of some objects; `None` if one of them failed.
    fn complete(&self, is_one: impl Fn(ObjectKind) -> bool) -> Option<Duration> {
        let ends = self
            .objects
            .iter()
            .filter(|object| is_one(object.kind))
            .map(Object::done);
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Bytes of all responses, heads included.
    pub fn received(&self) -> u64 {
        self.objects.iter().map(|object| object.received).sum()
    }

    /// Number of objects that failed.
    pub fn failed(&self) -> usize {
        self.objects
            .iter()
            .filter(|object| object.failure.is_some())
            .count()
    }
}

impl PageReport {
    /// Failures of each kind over all loads, with the text of the first.
    pub fn failures(&self) -> Vec<(FailureKind, u64, &str)> {
        let all = || {
            self.loads
                .iter()
                .flat_map(|load| &load.objects)
                .filter_map(|object| object.failure.as_ref())
        };
        let kinds = FailureKind::ALL.into_iter().filter_map(|kind| {
            let mut of_kind = all().filter(|(failure, _)| *failure == kind);
            let (_, example) = of_kind.next()?;
            Some((kind, 1 + of_kind.count() as u64, example.as_str()))
        });
        kinds.collect()
    }

    /// Index of the load to show: the median by the time of completion; incomplete loads count as
    /// the slowest.
    pub fn median(&self) -> Option<usize> {
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        order.sort_by_key(|index| self.loads[*index].all().unwrap_or(Duration::MAX));
        order.get((order.len().max(1) - 1) / 2).copied()
    }
}
