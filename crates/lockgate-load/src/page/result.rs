//! What loads of a page have found, before anybody prints it. Times count from when a load began.

use std::time::Duration;

use crate::result::{FailureKind, RunEnd};

/// What a page is loaded over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageProtocol {
    /// HTTP/1.1, over several connections.
    Http1,
    /// HTTP/2, over one.
    Http2 {
        /// Whether each request says how soon it is wanted, as Chromium does (RFC 9218 §4).
        priorities: bool,
    },
}

impl PageProtocol {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 { priorities: false } => "HTTP/2",
            Self::Http2 { priorities: true } => "HTTP/2 with priorities",
        }
    }
}

/// What became of all loads of a page.
#[derive(Debug, Clone)]
pub struct PageReport {
    /// The words of the command line.
    pub command: Vec<String>,
    /// The page as written.
    pub url: String,
    /// What they were loaded over.
    pub protocol: PageProtocol,
    /// Connections at once, at the most.
    pub connections: usize,
    /// What one load may take.
    pub timeout: Duration,
    /// What readers must know: that the link was the limit.
    pub notes: Vec<String>,
    /// The loads in their order.
    pub loads: Vec<PageLoad>,
    /// How it ended. A load that was cut is none.
    pub end: RunEnd,
}

/// One load: the page and its objects, on new connections and with nothing known before.
#[derive(Debug, Clone, Default)]
pub struct PageLoad {
    /// The page itself first, then its objects as they were found.
    pub objects: Vec<Object>,
    /// Objects of other origins, which are not fetched: their URLs, each once.
    pub other_origins: Vec<String>,
    /// What was beyond the most that one load keeps, and was neither fetched nor named.
    pub left_out: u64,
    /// Connections that were opened.
    pub opened: u32,
}

/// What something on a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// The page itself.
    Page,
    /// A style sheet.
    Style,
    /// A script.
    Script,
    /// An image.
    Image,
    /// An icon of the site.
    Icon,
    /// A font.
    Font,
    /// Sound or film, whole: a browser may ask for parts.
    Media,
    /// What the page will ask for itself.
    Other,
}

impl ObjectKind {
    /// Its name in reports.
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
    /// Path and query.
    pub target: String,
    /// What it is.
    pub kind: ObjectKind,
    /// When it was found in what had come of the page or a style sheet.
    pub found: Duration,
    /// When a connection took it up.
    pub start: Option<Duration>,
    /// What it took to open that connection, TLS included, if it was opened for it.
    pub connect: Option<Duration>,
    /// When the head of its response was there.
    pub first: Option<Duration>,
    /// When its response was whole, or failed.
    pub end: Option<Duration>,
    /// The number of the connection, from 1 on in the order in which they were opened.
    pub connection: Option<u32>,
    /// The status of its response.
    pub status: Option<u16>,
    /// Bytes of its body.
    pub length: u64,
    /// Bytes of its response, head included.
    pub received: u64,
    /// Why it is no success.
    pub failure: Option<(FailureKind, String)>,
}

impl Object {
    /// An object that was found and not fetched yet.
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

    /// When its response was whole, if it came as it should.
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

    /// When everything was.
    pub fn all(&self) -> Option<Duration> {
        self.complete(|_| true)
    }

    /// The latest end of some; nothing if one of them failed.
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

    /// How many objects failed.
    pub fn failed(&self) -> usize {
        self.objects
            .iter()
            .filter(|object| object.failure.is_some())
            .count()
    }
}

impl PageReport {
    /// Failures of each kind over all loads, with what was said of the first.
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

    /// The load to show: the one in the middle by when everything was complete, those that never
    /// were behind the others.
    pub fn median(&self) -> Option<usize> {
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        order.sort_by_key(|index| self.loads[*index].all().unwrap_or(Duration::MAX));
        order.get((order.len().max(1) - 1) / 2).copied()
    }
}
