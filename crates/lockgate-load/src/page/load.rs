//! One load of a page: its objects as they are found, over HTTP/1 by a few connections.

mod http2;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fastrand::Rng;
use lockgate_net::stream::BufferPool;
use lockgate_net::timer::Timer;

use super::plan::PagePlan;
use super::reference::{Base, UrlReference};
use super::result::{Object, ObjectKind, PageLoad, PageProtocol};
use super::scan::{FetchPriority, FoundObject, ObjectScanner};
use crate::client::{self, ClientBuffers, ExchangeError, ExchangeStats, ResponsePart, Transport};
use crate::expect::{Expect, Length, ObservedResponse};
use crate::result::FailureKind;
use crate::shared_link::LinkQueue;
use crate::target::RemotePeer;
use crate::worker::Stop;

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(10);
/// Limit of the objects of one load, and of the URLs of other origins: a page may name any number.
const MAX_OBJECTS: usize = 2000;

/// Resources that all loads of a run share.
pub(super) struct LoadResources<'a> {
    pub(super) plan: &'a PagePlan,
    pub(super) stop: &'a Stop,
    pub(super) blocks: Rc<BufferPool>,
    pub(super) link_queue: Option<Rc<LinkQueue>>,
    pub(super) timer: Timer,
}

/// State of one load, over HTTP/1 or HTTP/2.
struct Visit<'a> {
    resources: &'a LoadResources<'a>,
    peer: &'a RemotePeer,
    base: Base,
    expect: Expect,
    begin: Instant,
    load: RefCell<PageLoad>,
    /// Known objects: targets of the page's origin, URLs of other origins.
    known: RefCell<HashSet<String>>,
    /// Objects that no connection has taken yet, by priority, then in the order of the document.
    pending: RefCell<BTreeSet<(FetchPriority, usize)>>,
}

/// Request for one object on an HTTP/1 connection.
struct ObjectRequest {
    /// Its index among the objects of the load.
    index: usize,
    target: String,
    kind: ObjectKind,
}

/// A connection with its number.
type Numbered = (u32, Transport);
/// A fetch under way, which gives back its connection where that can have another.
type Fetch<'a> = Pin<Box<dyn Future<Output = Option<Numbered>> + 'a>>;

/// Loads the page once; `None` if the load was interrupted.
///
/// # Errors
/// The alarm cannot be set.
pub(super) async fn load(
    resources: &LoadResources<'_>,
    peer: &RemotePeer,
) -> io::Result<Option<PageLoad>> {
    let visit = Visit {
        resources,
        peer,
        base: Base::new(&resources.plan.url),
        expect: Expect {
            length: Length::Any,
            ..resources.plan.options.expect.clone()
        },
        begin: Instant::now(),
        load: RefCell::default(),
        known: RefCell::default(),
        pending: RefCell::default(),
    };
    let page = UrlReference::Same(resources.plan.url.target.clone());
    visit.find(FoundObject {
        kind: ObjectKind::Page,
        priority: FetchPriority::First,
        reference: page,
    });
    resources.timer.set(TICK)?;
    let whole = match resources.plan.protocol {
        PageProtocol::Http1 => visit.run().await?,
        PageProtocol::Http2 { .. } => visit.run_http2().await?,
    };
    let mut load = visit.load.into_inner();
    if !whole {
        return Ok(None);
    }
    for object in load
        .objects
        .iter_mut()
        .filter(|object| object.end.is_none() && object.failure.is_none())
    {
        object.failure = Some((
            FailureKind::Timeout,
            "the load exceeded its time limit".to_owned(),
        ));
    }
    Ok(Some(load))
}

impl Visit<'_> {
    /// Fetches objects until none is left, or time is up; `false` if the load was interrupted.
    async fn run(&self) -> io::Result<bool> {
        let (mut running, mut idle): (Vec<Fetch<'_>>, Vec<Numbered>) = Default::default();
        loop {
            while running.len() < self.resources.plan.connections
                && let Some((_, index)) = self.pending.borrow_mut().pop_first()
            {
                // The connection used last is the least likely to have been closed.
                let transport =
                    std::iter::from_fn(|| idle.pop()).find(|(_, transport)| transport.is_quiet());
                running.push(Box::pin(self.fetch(index, transport)));
            }
            if running.is_empty() {
                return Ok(true);
            }
            let ended = poll_fn(|cx| {
                if let Some(whole) = self.poll_end(cx)? {
                    return Poll::Ready(Ok::<_, io::Error>(Some(whole)));
                }
                let before = running.len();
                running.retain_mut(|fetch| match fetch.as_mut().poll(cx) {
                    Poll::Ready(transport) => {
                        idle.extend(transport);
                        false
                    }
                    Poll::Pending => true,
                });
                let room = running.len() < self.resources.plan.connections
                    && !self.pending.borrow().is_empty();
                if running.len() < before || room {
                    Poll::Ready(Ok(None))
                } else {
                    Poll::Pending
                }
            })
            .await?;
            if let Some(whole) = ended {
                return Ok(whole);
            }
        }
    }

    /// Why the load ends: time is up (`true`), or the run is interrupted (`false`).
    fn poll_end(&self, cx: &mut Context<'_>) -> io::Result<Option<bool>> {
        while self.resources.timer.poll(cx)?.is_ready() {
            self.resources.timer.set(TICK)?;
        }
        if self.resources.stop.is_requested() {
            return Ok(Some(false));
        }
        Ok((self.begin.elapsed() >= self.resources.plan.timeout).then_some(true))
    }

    /// Adds an object that the page names, if it is a new one.
    fn find(&self, found: FoundObject) {
        let mut load = self.load.borrow_mut();
        let name = match found.reference {
            UrlReference::Same(target) => target,
            UrlReference::Other(url) => {
                if load.other_origins.len() == MAX_OBJECTS {
                    load.left_out += 1;
                } else if self.known.borrow_mut().insert(url.clone()) {
                    load.other_origins.push(url);
                }
                return;
            }
        };
        if load.objects.len() == MAX_OBJECTS {
            load.left_out += 1;
        } else if self.known.borrow_mut().insert(name.clone()) {
            self.pending
                .borrow_mut()
                .insert((found.priority, load.objects.len()));
            load.objects
                .push(Object::new(name, found.kind, self.begin.elapsed()));
        }
    }

    fn update(&self, index: usize, take: impl FnOnce(&mut Object, Duration)) {
        let now = self.begin.elapsed();
        take(&mut self.load.borrow_mut().objects[index], now);
    }

    /// Fetches one object, on an idle connection or on a new one.
    async fn fetch(&self, index: usize, mut transport: Option<Numbered>) -> Option<Numbered> {
        let pending = {
            let object = &self.load.borrow().objects[index];
            ObjectRequest {
                index,
                target: object.target.clone(),
                kind: object.kind,
            }
        };
        self.update(index, |object, now| object.start = Some(now));
        let mut buffers = ClientBuffers::new(Rc::clone(&self.resources.blocks), Rng::new());
        buffers.link_queue.clone_from(&self.resources.link_queue);
        loop {
            let used = transport.is_some();
            let (number, mut opened) = match transport.take() {
                Some(transport) => transport,
                None => match self.open(index, &mut buffers).await {
                    Ok(transport) => transport,
                    Err(error) => {
                        self.end(index, Err(error));
                        return None;
                    }
                },
            };
            self.update(index, |object, _| object.connection = Some(number));
            let mut stats = ExchangeStats::default();
            let made = self
                .exchange(&pending, &mut opened, &mut buffers, &mut stats)
                .await;
            // RFC 9112 §9.3.1: where a used connection was closed before the response, the request
            // is sent again.
            if used
                && stats.received == 0
                && made
                    .as_ref()
                    .is_err_and(|error| error.failure == FailureKind::Closed)
            {
                continue;
            }
            self.update(index, |object, _| {
                object.status = stats.response.status;
                object.length = stats.response.length;
                object.received = stats.received;
            });
            let reusable = made.is_ok() && stats.reusable;
            let judged = made.and_then(|()| self.judge(&stats.response));
            self.end(index, judged);
            return reusable.then_some((number, opened));
        }
    }

    fn judge(&self, response: &ObservedResponse) -> Result<(), ExchangeError> {
        self.expect
            .judge(response, None)
            .map_err(|(failure, text)| ExchangeError::new(failure, text))
    }

    fn end(&self, index: usize, made: Result<(), ExchangeError>) {
        self.update(index, |object, now| {
            object.end = Some(now);
            object.failure = made.err().map(|error| (error.failure, error.text));
        });
    }

    /// Opens a connection; the first load tries the addresses until one answers.
    async fn open(
        &self,
        index: usize,
        buffers: &mut ClientBuffers,
    ) -> Result<Numbered, ExchangeError> {
        let begun = self.begin.elapsed();
        let number = {
            let mut load = self.load.borrow_mut();
            load.opened += 1;
            load.opened
        };
        let addresses = match self.peer.chosen.get() {
            Some(chosen) => *chosen..chosen + 1,
            None => 0..self.peer.addresses.len(),
        };
        let mut failed = ExchangeError::new(FailureKind::Connect, "its host name has no address");
        for at in addresses {
            match client::connect(self.peer, &self.peer.addresses[at], buffers).await {
                Ok(transport) => {
                    self.peer.choose(at);
                    self.update(index, |object, now| object.connect = Some(now - begun));
                    return Ok((number, transport));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The scanner for objects in a response of this kind.
    fn scanner(&self, kind: ObjectKind, target: &str) -> Option<ObjectScanner> {
        match kind {
            ObjectKind::Page => Some(ObjectScanner::page(self.base.clone())),
            ObjectKind::Style => Some(ObjectScanner::sheet(self.base.at(target))),
            _ => None,
        }
    }

    async fn exchange(
        &self,
        pending: &ObjectRequest,
        transport: &mut Transport,
        buffers: &mut ClientBuffers,
        stats: &mut ExchangeStats,
    ) -> Result<(), ExchangeError> {
        let request = self.resources.plan.request(&pending.target);
        let mut scanner = self.scanner(pending.kind, &pending.target);
        client::fetch(transport, &request, buffers, stats, |piece| match piece {
            ResponsePart::Head(head) => {
                self.update(pending.index, |object, now| object.first = Some(now));
                // References of an error page are not fetched.
                let response = ObservedResponse {
                    status: Some(head.status),
                    ..ObservedResponse::default()
                };
                scanner = scanner.take().filter(|_| self.judge(&response).is_ok());
                if scanner.is_none() {
                    return Ok(());
                }
                check_coding(head.fields.named(b"content-encoding").next())
            }
            ResponsePart::Data(data) => {
                if let Some(scanner) = &mut scanner {
                    scanner.feed(data, &mut |found| self.find(found));
                }
                Ok(())
            }
        })
        .await
    }
}

/// Refuses a content coding, which no request asks for: the scanner could not read it.
fn check_coding(coding: Option<&[u8]>) -> Result<(), ExchangeError> {
    let coding = coding.unwrap_or(b"identity");
    if coding.eq_ignore_ascii_case(b"identity") {
        return Ok(());
    }
    let coding = String::from_utf8_lossy(coding);
    Err(ExchangeError::new(
        FailureKind::Garbage,
        format!("content-encoding {coding}, which was not requested"),
    ))
}
