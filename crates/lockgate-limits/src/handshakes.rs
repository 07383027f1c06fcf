//! TLS handshakes: how many are computed at once, and in which order. A handshake that waits for
//! its client holds no permit.

use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_net::reactor;

use crate::clients::ClientAccount;
use crate::process_limit::{CountGuard, Permit, ProcessLimit};

/// The permits to compute handshakes in, for the process.
#[derive(Debug)]
pub struct HandshakeLimit {
    permits: ProcessLimit,
    begun: AtomicUsize,
    waiting: AtomicUsize,
}

impl HandshakeLimit {
    /// Allows `size` to be computed at once.
    pub fn new(size: usize) -> Self {
        Self {
            permits: ProcessLimit::new(size),
            begun: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Allows `size` to be computed at once from now on.
    pub fn resize(&self, size: usize) {
        self.permits.resize(size);
    }

    /// The size of the limit.
    pub fn size(&self) -> usize {
        self.permits.size()
    }

    /// The number of unfinished handshakes, computed or waiting for their clients.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// The number of handshakes that wait for a permit.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Counts a handshake until what is returned is dropped.
    pub fn begin(&self) -> CountGuard<'_> {
        CountGuard::one(&self.begun)
    }

    /// A permit to compute one flight in. Clients take turns: one handshake of each waits with
    /// those of the others, in the order of asking, and the rest of its own wait behind it.
    pub async fn take(&self, account: Option<&ClientAccount>) -> Permit {
        let permit = match self.permits.try_take() {
            Some(permit) => permit,
            None => {
                let _waiting = CountGuard::one(&self.waiting);
                let _turn = match account {
                    Some(account) => account.handshake_turn().await,
                    None => None,
                };
                self.permits.take().await
            }
        };
        // A flight takes up to a millisecond. With its permit held over one turn of the worker, no
        // more flights than there are permits are computed before the worker's other
        // connections go on.
        reactor::yield_now().await;
        permit
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::clients::{ClientClass, Clients};

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_client_with_many_waiting_handshakes_delays_others_by_one() {
        let clients = Clients::new();
        let of = |last: u8| clients.of([192, 0, 2, last].into(), ClientClass::Ordinary);
        let (greedy, honest) = (of(1), of(2));
        let handshakes = HandshakeLimit::new(1);
        let taken = handshakes.permits.try_take();
        let mut first = pin!(handshakes.take(Some(&greedy)));
        let mut second = pin!(handshakes.take(Some(&greedy)));
        let mut third = pin!(handshakes.take(Some(&honest)));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert!(poll(third.as_mut()).is_pending());
        assert_eq!(handshakes.waiting(), 3);
        drop(taken);
        // Outside of a runtime a yield ends with the next poll.
        let until_ready = |mut future: std::pin::Pin<&mut dyn Future<Output = Permit>>| {
            let mut context = Context::from_waker(Waker::noop());
            (0..3).find_map(|_| match future.as_mut().poll(&mut context) {
                Poll::Ready(permit) => Some(permit),
                Poll::Pending => None,
            })
        };
        let permit = until_ready(first.as_mut());
        assert!(permit.is_some(), "it asked first");
        assert!(
            poll(second.as_mut()).is_pending(),
            "it is among those that wait now"
        );
        drop(permit);
        let permit = until_ready(third.as_mut());
        assert!(
            permit.is_some(),
            "the second of the first client asked for a permit later"
        );
        drop(permit);
        assert!(until_ready(second.as_mut()).is_some());
        assert_eq!(handshakes.waiting(), 0);
    }

    #[test]
    fn a_cancelled_handshake_gives_its_turn_back() {
        let clients = Clients::new();
        let account = clients.of([192, 0, 2, 1].into(), ClientClass::Ordinary);
        let handshakes = HandshakeLimit::new(1);
        let taken = handshakes.permits.try_take();
        {
            let mut waiting = pin!(handshakes.take(Some(&account)));
            assert!(poll(waiting.as_mut()).is_pending());
        }
        assert_eq!(handshakes.waiting(), 0);
        drop(taken);
        assert!(handshakes.permits.try_take().is_some());
        assert!(poll(pin!(account.handshake_turn())).is_ready());
    }
}
