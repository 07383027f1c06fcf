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
use lockgate_net::stream::Blocks;
use lockgate_net::timer::Timer;

use super::plan::PagePlan;
use super::reference::{Base, Reference};
use super::result::{Object, ObjectKind, PageLoad, Protocol};
use super::scan::{Found, Priority, Scanner};
use crate::client::{self, ExchangeStats, Fault, Piece, Scratch, Transport};
use crate::expect::{Expect, Length, ObservedResponse};
use crate::result::Failure;
use crate::shared_link::LinkQueue;
use crate::target::Peer;
use crate::worker::Stop;

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(10);
/// Objects of one load, and names of those of other origins: a page may name without end.
const MOST: usize = 2000;

/// What a thread has for its loads.
pub(super) struct Tools<'a> {
    pub(super) plan: &'a PagePlan,
    pub(super) stop: &'a Stop,
    pub(super) blocks: Rc<Blocks>,
    pub(super) link_queue: Option<Rc<LinkQueue>>,
    pub(super) timer: Timer,
}

/// A load under way.
struct Visit<'a> {
    tools: &'a Tools<'a>,
    peer: &'a Peer,
    base: Base,
    expect: Expect,
    begin: Instant,
    load: RefCell<PageLoad>,
    /// Objects by their targets; those of other origins by their URLs.
    known: RefCell<HashSet<String>>,
    /// What nobody has taken up: first by priority, then in the order of the document.
    wanted: RefCell<BTreeSet<(Priority, usize)>>,
}

/// An object that is fetched.
struct Wanted {
    /// Its index among the objects of the load.
    place: usize,
    target: String,
    kind: ObjectKind,
}

/// A connection with its number.
type Numbered = (u32, Transport);
/// A fetch under way, which gives back its connection where that can have another.
type Fetch<'a> = Pin<Box<dyn Future<Output = Option<Numbered>> + 'a>>;

/// Loads the page once; nothing if it was cut.
///
/// # Errors
/// When the alarm cannot be set.
pub(super) async fn load(tools: &Tools<'_>, peer: &Peer) -> io::Result<Option<PageLoad>> {
    let visit = Visit {
        tools,
        peer,
        base: Base::new(&tools.plan.url),
        expect: Expect {
            length: Length::Any,
            ..tools.plan.options.expect.clone()
        },
        begin: Instant::now(),
        load: RefCell::default(),
        known: RefCell::default(),
        wanted: RefCell::default(),
    };
    let page = Reference::Same(tools.plan.url.target.clone());
    visit.find(Found {
        kind: ObjectKind::Page,
        priority: Priority::First,
        reference: page,
    });
    tools.timer.set(TICK)?;
    let whole = match tools.plan.protocol {
        Protocol::Http1 => visit.run().await?,
        Protocol::Http2 { .. } => visit.run_http2().await?,
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
            Failure::Timeout,
            "the load exceeded its time limit".to_owned(),
        ));
    }
    Ok(Some(load))
}

impl Visit<'_> {
    /// Goes on until there is nothing left to fetch, or time is up; `false` if it was cut.
    async fn run(&self) -> io::Result<bool> {
        let (mut running, mut idle): (Vec<Fetch<'_>>, Vec<Numbered>) = Default::default();
        loop {
            while running.len() < self.tools.plan.connections
                && let Some((_, place)) = self.wanted.borrow_mut().pop_first()
            {
                // The one used last is the one least likely to have been closed.
                let transport =
                    std::iter::from_fn(|| idle.pop()).find(|(_, transport)| transport.is_quiet());
                running.push(Box::pin(self.fetch(place, transport)));
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
                let room =
                    running.len() < self.tools.plan.connections && !self.wanted.borrow().is_empty();
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

    /// Whether time is up (`true`), or the run was ended (`false`).
    fn poll_end(&self, cx: &mut Context<'_>) -> io::Result<Option<bool>> {
        while self.tools.timer.poll(cx)?.is_ready() {
            self.tools.timer.set(TICK)?;
        }
        if self.tools.stop.is_asked() {
            return Ok(Some(false));
        }
        Ok((self.begin.elapsed() >= self.tools.plan.timeout).then_some(true))
    }

    /// Takes note of something that the page names; each once.
    fn find(&self, found: Found) {
        let mut load = self.load.borrow_mut();
        let name = match found.reference {
            Reference::Same(target) => target,
            Reference::Other(url) => {
                if load.others.len() == MOST {
                    load.beyond += 1;
                } else if self.known.borrow_mut().insert(url.clone()) {
                    load.others.push(url);
                }
                return;
            }
        };
        if load.objects.len() == MOST {
            load.beyond += 1;
        } else if self.known.borrow_mut().insert(name.clone()) {
            self.wanted
                .borrow_mut()
                .insert((found.priority, load.objects.len()));
            load.objects
                .push(Object::new(name, found.kind, self.begin.elapsed()));
        }
    }

    fn note(&self, place: usize, take: impl FnOnce(&mut Object, Duration)) {
        let now = self.begin.elapsed();
        take(&mut self.load.borrow_mut().objects[place], now);
    }

    /// Fetches one object, on a connection that is there or on a new one.
    async fn fetch(&self, place: usize, mut transport: Option<Numbered>) -> Option<Numbered> {
        let wanted = {
            let object = &self.load.borrow().objects[place];
            Wanted {
                place,
                target: object.target.clone(),
                kind: object.kind,
            }
        };
        self.note(place, |object, now| object.start = Some(now));
        let mut scratch = Scratch::new(Rc::clone(&self.tools.blocks), Rng::new());
        scratch.link_queue.clone_from(&self.tools.link_queue);
        loop {
            let used = transport.is_some();
            let (number, mut opened) = match transport.take() {
                Some(transport) => transport,
                None => match self.open(place, &mut scratch).await {
                    Ok(transport) => transport,
                    Err(fault) => {
                        self.end(place, Err(fault));
                        return None;
                    }
                },
            };
            self.note(place, |object, _| object.connection = Some(number));
            let mut stats = ExchangeStats::default();
            let made = self
                .exchange(&wanted, &mut opened, &mut scratch, &mut stats)
                .await;
            // RFC 9112 §9.3.1: what was closed before it answered may be asked again.
            if used
                && stats.received == 0
                && made
                    .as_ref()
                    .is_err_and(|fault| fault.failure == Failure::Closed)
            {
                continue;
            }
            self.note(place, |object, _| {
                object.status = stats.response.status;
                object.length = stats.response.length;
                object.received = stats.received;
            });
            let keep = made.is_ok() && stats.keep;
            let judged = made.and_then(|()| self.judge(&stats.response));
            self.end(place, judged);
            return keep.then_some((number, opened));
        }
    }

    fn judge(&self, response: &ObservedResponse) -> Result<(), Fault> {
        self.expect
            .judge(response, None)
            .map_err(|(failure, text)| Fault::new(failure, text))
    }

    fn end(&self, place: usize, made: Result<(), Fault>) {
        self.note(place, |object, now| {
            object.end = Some(now);
            object.failure = made.err().map(|fault| (fault.failure, fault.text));
        });
    }

    /// Opens a connection, the first at each address until one answers.
    async fn open(&self, place: usize, scratch: &mut Scratch) -> Result<Numbered, Fault> {
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
        let mut failed = Fault::new(Failure::Connect, "its host name has no address");
        for at in addresses {
            match client::connect(self.peer, &self.peer.addresses[at], scratch).await {
                Ok(transport) => {
                    self.peer.choose(at);
                    self.note(place, |object, now| object.connect = Some(now - begun));
                    return Ok((number, transport));
                }
                Err(fault) => failed = fault,
            }
        }
        Err(failed)
    }

    /// What looks through something for what it names.
    fn scanner(&self, kind: ObjectKind, target: &str) -> Option<Scanner> {
        match kind {
            ObjectKind::Page => Some(Scanner::page(self.base.clone())),
            ObjectKind::Style => Some(Scanner::sheet(self.base.at(target))),
            _ => None,
        }
    }

    async fn exchange(
        &self,
        wanted: &Wanted,
        transport: &mut Transport,
        scratch: &mut Scratch,
        stats: &mut ExchangeStats,
    ) -> Result<(), Fault> {
        let request = self.tools.plan.request(&wanted.target);
        let mut scanner = self.scanner(wanted.kind, &wanted.target);
        client::fetch(transport, &request, scratch, stats, |piece| match piece {
            Piece::Head(head) => {
                self.note(wanted.place, |object, now| object.first = Some(now));
                // What an error page names belongs to no page.
                let response = ObservedResponse {
                    status: Some(head.status),
                    ..ObservedResponse::default()
                };
                scanner = scanner.take().filter(|_| self.judge(&response).is_ok());
                if scanner.is_none() {
                    return Ok(());
                }
                is_readable(head.fields.named(b"content-encoding").next())
            }
            Piece::Data(data) => {
                if let Some(scanner) = &mut scanner {
                    scanner.feed(data, &mut |found| self.find(found));
                }
                Ok(())
            }
        })
        .await
    }
}

/// Refuses what is coded, which was not asked for: nobody here could look into it.
fn is_readable(coding: Option<&[u8]>) -> Result<(), Fault> {
    let coding = coding.unwrap_or(b"identity");
    if coding.eq_ignore_ascii_case(b"identity") {
        return Ok(());
    }
    let coding = String::from_utf8_lossy(coding);
    Err(Fault::new(
        Failure::Garbage,
        format!("content-encoding {coding}, which was not requested"),
    ))
}
