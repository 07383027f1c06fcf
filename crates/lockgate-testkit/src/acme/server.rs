//! Connections of the authority: accepted, served, and closed when it stops; and faults, carried
//! out.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use rustls::ServerConfig;

use super::answer::{Asked, respond};
use super::exchange::{Answer, Request, read_request, write_answer, write_endless};
use super::fault::Fault;
use super::issuing::Issuing;
use super::record::Recorded;
use super::state::State;
use crate::DEADLINE;
use crate::tls::Tls;

/// What all threads of an authority share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Something was recorded, released or stopped.
    pub(super) changed: Condvar,
    pub(super) issuing: Issuing,
    connections: Mutex<Vec<TcpStream>>,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State::new()),
            changed: Condvar::new(),
            issuing: Issuing::new(),
            connections: Mutex::new(Vec::new()),
        }
    }

    /// The state, also after a test has panicked.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for changes that others may wait for.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `found` finds something; `None` when it does not within [`DEADLINE`].
    pub(super) fn wait<T>(&self, mut found: impl FnMut(&State) -> Option<T>) -> Option<T> {
        let end = Instant::now() + DEADLINE;
        let mut state = self.lock();
        loop {
            if let Some(found) = found(&state) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for a release after so many `before`, or the end.
    pub(super) fn wait_released(&self, before: u64) {
        self.wait(|state| (state.releases > before || state.stopped).then_some(()));
    }

    /// Closes all connections.
    pub(super) fn close_connections(&self) {
        let mut connections = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for connection in connections.drain(..) {
            // One that the client has closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// Serves until the authority stops.
pub(super) fn accept_all(
    shared: &Arc<Shared>,
    listener: &TcpListener,
    tls: &Arc<ServerConfig>,
    address: SocketAddr,
) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            return;
        };
        if shared.lock().stopped {
            return;
        }
        let own = stream.try_clone();
        if let Ok(again) = stream.try_clone() {
            let connections = shared.connections.lock();
            connections
                .unwrap_or_else(PoisonError::into_inner)
                .push(again);
        }
        let (shared, tls) = (Arc::clone(shared), Arc::clone(tls));
        std::thread::spawn(move || {
            // A client that does not trust us, or was killed.
            if let Ok(mut tls) = Tls::accept(&tls, stream.into()) {
                while let Some(request) = read_request(&mut tls) {
                    if serve(&shared, address, &mut tls, &request).is_none() {
                        break;
                    }
                }
            }
            // Another descriptor of it is kept, to close it from elsewhere.
            if let Ok(own) = own {
                let _ = own.shutdown(Shutdown::Both);
            }
        });
    }
}

/// One request; `None` is the end of the connection.
fn serve(
    shared: &Arc<Shared>,
    address: SocketAddr,
    tls: &mut Tls,
    request: &Request,
) -> Option<()> {
    let base = match request.host.is_empty() {
        true => format!("https://{address}"),
        false => format!("https://{}", request.host),
    };
    let (asked, place, fault, releases) = {
        let mut state = shared.lock();
        let (asked, refused) = Asked::of(&mut state, request, &base);
        let place = asked.resource().map(|resource| {
            state.log.push(Recorded {
                at: SystemTime::now(),
                resource,
                account: asked.account(),
                names: asked.names.clone(),
                profile: asked.text("profile"),
                replaces: asked.text("replaces"),
                status: None,
                problem: None,
            });
            state.log.len() - 1
        });
        let fault = match (refused, asked.resource()) {
            // Not a fault of the plan: those are for requests that would go well.
            (Some(problem), _) => Some(Fault::Problem(problem)),
            (None, Some(resource)) => state.faults.take(resource, &asked.names),
            (None, None) => None,
        };
        (asked, place, fault, state.releases)
    };
    shared.changed.notify_all();
    let answer = match fault {
        Some(Fault::Close) => return None,
        Some(Fault::Hold) => {
            shared.wait_released(releases);
            respond(shared, &asked, None, &base)
        }
        Some(Fault::Problem(problem)) => Err(problem),
        Some(Fault::Garbage) => Ok(Answer::of(
            "application/json",
            b"\0\xff{]not what you wanted".to_vec(),
        )),
        Some(Fault::Endless) => {
            // It ends when the client has enough of it.
            let _ = write_endless(tls);
            return None;
        }
        fault => respond(shared, &asked, fault, &base),
    };
    let problem = answer.as_ref().err().map(|problem| problem.kind.clone());
    let mut answer = answer.unwrap_or_else(|problem| Answer::problem(&problem));
    answer = answer.with("Link", format!("<{base}/dir>;rel=\"index\""));
    shared.change(|state| {
        if asked.wants_nonce() {
            answer.fields.push(("Replay-Nonce", state.new_nonce()));
        }
        if let Some(place) = place {
            state.log[place].status = Some(answer.status);
            state.log[place].problem = problem;
        }
    });
    write_answer(tls, &answer, request.method == "HEAD").ok()
}
