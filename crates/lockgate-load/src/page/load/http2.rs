//! One load over HTTP/2: all found objects are requested at once, over one connection.

use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use fastrand::Rng;

use super::super::scan::{FetchPriority, ObjectScanner};
use super::{MAX_OBJECTS, Visit, check_coding};
use crate::client::h2::{
    self, BodyUse, BufferedResponse, FinishedRequest, Http2Connection, ReceiveWindows,
    RequestOutcome,
};
use crate::client::{ClientBuffers, ExchangeError, Transport};
use crate::expect::ObservedResponse;

/// The windows of Chromium: servers decide on the order of responses within them.
const WINDOWS: ReceiveWindows = ReceiveWindows {
    stream: 6 << 20,
    connection: 15 << 20,
};

/// The connection of a load, with its requests under way.
struct PageConnection<'a> {
    visit: &'a Visit<'a>,
    number: u32,
    transport: Transport,
    connection: Http2Connection,
    running: Vec<PendingObject>,
    rng: Rng,
}

/// A request under way, with the scanner of its response.
struct PendingObject {
    index: usize,
    priority: FetchPriority,
    /// Scanner of the response, where it may name other objects.
    scanner: Option<ObjectScanner>,
    is_answered: bool,
    /// Why the scanner cannot read the response.
    unreadable: Option<ExchangeError>,
}

impl Visit<'_> {
    /// Fetches objects until none is left, or time is up; `false` if the load was interrupted.
    pub(super) async fn run_http2(&self) -> io::Result<bool> {
        let mut unprocessed = HashSet::new();
        loop {
            // The connection counts for the object of the highest priority.
            let Some(&(_, index)) = self.pending.borrow().first() else {
                return Ok(true);
            };
            let mut buffers = ClientBuffers::new(Rc::clone(&self.resources.blocks), Rng::new());
            buffers.link_queue.clone_from(&self.resources.link_queue);
            let opened = match self.within(self.open(index, &mut buffers)).await? {
                Ok(opened) => opened,
                Err(whole) => return Ok(whole),
            };
            match opened
                .and_then(|(number, transport)| h2::check(&transport).map(|()| (number, transport)))
            {
                Ok((number, transport)) => {
                    let connection = Http2Connection::new(MAX_OBJECTS, WINDOWS);
                    let (running, rng) = (Vec::new(), Rng::new());
                    let mut loading = PageConnection {
                        visit: self,
                        number,
                        transport,
                        connection,
                        running,
                        rng,
                    };
                    if let Err(whole) = self
                        .within(poll_fn(|cx| loading.poll(cx, &mut unprocessed)))
                        .await?
                    {
                        return Ok(whole);
                    }
                }
                Err(error) => {
                    self.pending
                        .borrow_mut()
                        .retain(|(_, pending)| *pending != index);
                    self.end(index, Err(error));
                }
            }
        }
    }

    /// The output of `future`; `Err`: [`poll_end`](Self::poll_end) has ended the load.
    async fn within<T>(&self, future: impl Future<Output = T>) -> io::Result<Result<T, bool>> {
        let mut future = std::pin::pin!(future);
        poll_fn(|cx| match self.poll_end(cx)? {
            Some(whole) => Poll::Ready(Ok(Err(whole))),
            None => future.as_mut().poll(cx).map(|made| Ok(Ok(made))),
        })
        .await
    }
}

impl PageConnection<'_> {
    /// Completes when no request is under way: no object is left, or the connection takes no more
    /// requests or has ended.
    fn poll(&mut self, cx: &mut Context<'_>, unprocessed: &mut HashSet<usize>) -> Poll<()> {
        loop {
            self.ask();
            self.connection
                .write(cx, &mut self.transport, &self.visit.resources.blocks);
            if self.running.is_empty() {
                return Poll::Ready(());
            }
            let is_over = match self.connection.poll_read(cx, &mut self.transport) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(error)) => {
                    self.connection.end(&error);
                    true
                }
            };
            self.look();
            while let Some(finished) = self.connection.take_finished() {
                self.take(finished, unprocessed);
            }
            if is_over {
                return Poll::Ready(());
            }
        }
    }

    /// Sends requests for pending objects, as far as the server allows.
    fn ask(&mut self) {
        let Self {
            visit,
            number,
            connection,
            running,
            rng,
            ..
        } = self;
        while connection.has_room()
            && let Some((priority, index)) = visit.pending.borrow_mut().pop_first()
        {
            let (target, kind) = {
                let object = &visit.load.borrow().objects[index];
                (object.target.clone(), object.kind)
            };
            let scanner = visit.scanner(kind, &target);
            let used = if scanner.is_some() {
                BodyUse::Keep
            } else {
                BodyUse::Count
            };
            let request = visit.resources.plan.http2(&target, kind, priority);
            connection.begin(index, index, &request, used, rng);
            running.push(PendingObject {
                index,
                priority,
                scanner,
                is_answered: false,
                unreadable: None,
            });
            visit.update(index, |object, now| {
                object.start = Some(now);
                object.connection = Some(*number);
            });
        }
    }

    /// Scans responses under way, as far as they have come.
    fn look(&mut self) {
        for asked in &mut self.running {
            if let Some((status, buffered)) = self.connection.look(asked.index) {
                asked.look(self.visit, status, buffered);
            }
        }
    }

    /// Records a finished request, or queues it again.
    fn take(&mut self, finished: FinishedRequest, unprocessed: &mut HashSet<usize>) {
        let FinishedRequest {
            slot: index,
            stats,
            mut buffered,
            outcome,
        } = finished;
        let Some(at) = self.running.iter().position(|asked| asked.index == index) else {
            return;
        };
        let mut asked = self.running.swap_remove(at);
        if let Some(status) = stats.response.status {
            asked.look(self.visit, status, buffered.as_mut());
        }
        let made = match outcome {
            RequestOutcome::Answered => asked
                .unreadable
                .map_or_else(|| self.visit.judge(&stats.response), Err),
            // RFC 9113 §6.8: the request may be sent again on another connection.
            RequestOutcome::Unprocessed(_) if unprocessed.insert(index) => {
                self.visit
                    .pending
                    .borrow_mut()
                    .insert((asked.priority, index));
                return;
            }
            RequestOutcome::Unprocessed(error) | RequestOutcome::Failed(error) => Err(error),
        };
        self.visit.update(index, |object, _| {
            object.status = stats.response.status;
            object.length = stats.response.length;
            object.received = stats.received;
        });
        self.visit.end(index, made);
    }
}

impl PendingObject {
    fn look(&mut self, visit: &Visit<'_>, status: u16, buffered: Option<&mut BufferedResponse>) {
        if !std::mem::replace(&mut self.is_answered, true) {
            visit.update(self.index, |object, now| object.first = Some(now));
            let response = ObservedResponse {
                status: Some(status),
                ..ObservedResponse::default()
            };
            self.scanner = self
                .scanner
                .take()
                .filter(|_| visit.judge(&response).is_ok());
            let coding = buffered
                .as_ref()
                .and_then(|buffered| buffered.coding.as_deref());
            if self.scanner.is_some() {
                self.unreadable = check_coding(coding).err();
            }
        }
        let Some(buffered) = buffered else { return };
        if let Some(scanner) = self.scanner.as_mut().filter(|_| self.unreadable.is_none()) {
            scanner.feed(&buffered.data, &mut |found| visit.find(found));
        }
        buffered.data.clear();
    }
}
