//! What tests run on a reactor.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use super::Reactor;

/// Runs `future` on a reactor of its own.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    Reactor::new().unwrap().block_on(future).unwrap()
}

/// A task whose output can be waited for.
pub(crate) struct Joined<T> {
    output: oneshot::Receiver<T>,
    is_finished: Rc<Cell<bool>>,
}

impl<T> Joined<T> {
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished.get()
    }
}

impl<T> Future for Joined<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.output).poll(cx)
    }
}

/// Spawns a task whose output can be waited for.
pub(crate) fn spawn<T: 'static>(future: impl Future<Output = T> + 'static) -> Joined<T> {
    let (end, output) = oneshot::channel();
    let is_finished = Rc::new(Cell::new(false));
    let finished = Rc::clone(&is_finished);
    super::spawn(async move {
        let output = future.await;
        finished.set(true);
        // Not every test waits for it.
        let _ = end.send(output);
    });
    Joined {
        output,
        is_finished,
    }
}

/// A context without a task to wake.
pub(crate) fn noop_context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}
