//! Futures in boxes of their own.

use std::pin::Pin;

/// Boxes the future that `make` makes, where it is long and rarely there.
///
/// In a function of its own: a caller of `Box::pin(future)` has, for as long as it lives, room
/// for the future as well as for the box, because the future goes through the caller's state on its
/// way into the box. That was 3 KB a kept connection.
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}
