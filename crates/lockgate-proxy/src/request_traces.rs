//! Requests that an operator wants to follow: tokens for one request each, and what the worker knows
//! of it once it is over.
//!
//! Without a token it costs one load of an atomic for each request. A wrong token does nothing that a
//! client could see, and a right one is compared as long as any other.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use lockgate_http::head::RequestHead;
use lockgate_net::millis::Millis;
use lockgate_net::tls::AcceptorIndex;
use lockgate_rules::ClientAddress;
use tokio::sync::oneshot;

/// Tokens at once.
const MOST: usize = 16;
/// The time for which a token may be used.
const VALID: Millis = Millis::from_secs(60);
/// Bytes of randomness in a token.
const RANDOM: usize = 16;

/// The tokens of the process.
#[derive(Debug, Default)]
pub struct RequestTraces {
    /// The number of tokens, so that no request takes the lock while there are none.
    open: AtomicUsize,
    tokens: Mutex<Vec<TraceToken>>,
}

#[derive(Debug)]
struct TraceToken {
    /// As it is written.
    text: String,
    until: Millis,
    reply: oneshot::Sender<TracedRequest>,
}

/// A new token, and the request that brings it.
#[derive(Debug)]
pub struct OpenTrace {
    /// The value of the request's field: 32 hexadecimal digits.
    pub token: String,
    /// The request, once it is over.
    pub request: oneshot::Receiver<TracedRequest>,
}

/// A request that has brought a token.
#[derive(Debug)]
pub struct TracedRequest {
    /// The name of its listener.
    pub listener: String,
    /// Its id.
    pub id: String,
    /// The number of the generation that served it.
    pub generation: u64,
    /// Its head as it was received.
    pub head: RequestHead,
    /// The other end of its connection, after a PROXY header.
    pub peer: ClientAddress,
    /// The address that the client connected to, if it is known.
    pub local: Option<IpAddr>,
    /// Whether its connection has TLS.
    pub secure: bool,
    /// The acceptor of that.
    pub acceptor: Option<AcceptorIndex>,
    /// The server name in it.
    pub server_name: Option<String>,
    /// What happened: its line in a JSON access log.
    pub line: Vec<u8>,
}

/// The right to report a request.
pub type ClaimedTrace = oneshot::Sender<TracedRequest>;

impl RequestTraces {
    /// The time in seconds for which a token may be used.
    pub const VALID_SECONDS: u64 = VALID.as_u64() / 1_000;

    /// A new token; none while there are too many, or the system gives no random numbers. `now` is
    /// [`lockgate_limits::clock::Clock::now`], here and below.
    pub fn open(&self, now: Millis) -> Option<OpenTrace> {
        let mut random = [0; RANDOM];
        aws_lc_rs::rand::fill(&mut random).ok()?;
        let token = format!("{:032x}", u128::from_be_bytes(random));
        let (reply, request) = oneshot::channel();
        let mut tokens = self.lock();
        tokens.retain(|token| token.is_open(now));
        let opened = (tokens.len() < MOST).then(|| {
            tokens.push(TraceToken {
                text: token.clone(),
                until: now + VALID,
                reply,
            });
            OpenTrace { token, request }
        });
        self.open.store(tokens.len(), Ordering::Relaxed);
        opened
    }

    /// Whether there is a token.
    pub fn are_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Takes the token that this is, if it is one.
    #[cold]
    pub fn claim(&self, said: &[u8], now: Millis) -> Option<ClaimedTrace> {
        if said.len() != 2 * RANDOM {
            return None;
        }
        let mut tokens = self.lock();
        tokens.retain(|token| token.is_open(now));
        let mut found = None;
        for (at, token) in tokens.iter().enumerate() {
            // All are compared, so that the time tells nothing of them.
            if verify_slices_are_equal(token.text.as_bytes(), said).is_ok() {
                found = Some(at);
            }
        }
        let claimed = found.map(|at| tokens.swap_remove(at).reply);
        self.open.store(tokens.len(), Ordering::Relaxed);
        claimed
    }

    /// Forgets tokens that are too old, or that no receiver waits for any more.
    pub fn close_stale(&self, now: Millis) {
        let mut tokens = self.lock();
        tokens.retain(|token| token.is_open(now));
        self.open.store(tokens.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TraceToken>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TraceToken {
    fn is_open(&self, now: Millis) -> bool {
        now < self.until && !self.reply.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_token_is_claimed_once() {
        let traces = RequestTraces::default();
        assert!(!traces.are_open());
        let opened = traces.open(Millis::ZERO).unwrap();
        assert!(traces.are_open() && opened.token.len() == 32);
        let mut wrong = opened.token.clone().into_bytes();
        wrong[31] ^= 1;
        for said in [&b""[..], b"x", &wrong, &opened.token.as_bytes()[..31]] {
            assert!(traces.claim(said, Millis::ZERO).is_none(), "{said:?}");
        }
        assert!(
            traces
                .claim(opened.token.as_bytes(), Millis::ZERO)
                .is_some()
        );
        assert!(!traces.are_open());
        assert!(
            traces
                .claim(opened.token.as_bytes(), Millis::ZERO)
                .is_none()
        );
    }

    #[test]
    fn trace_tokens_are_few_and_expire() {
        let traces = RequestTraces::default();
        let mut opened: Vec<_> = (0..MOST)
            .map(|_| traces.open(Millis::ZERO).unwrap())
            .collect();
        assert!(traces.open(Millis::ZERO).is_none());
        // One that no receiver waits for makes room.
        opened.pop();
        let last = traces.open(Millis::from_secs(59)).unwrap();
        let first = opened[0].token.as_bytes();
        assert!(traces.claim(first, VALID).is_none());
        assert!(traces.claim(last.token.as_bytes(), VALID).is_some());
        traces.close_stale(VALID);
        assert!(!traces.are_open());
    }
}
