//! Futures in boxes of their own.

use std::pin::Pin;

/// Boxes the future that `make` makes, where it is long and rarely there.
///
/// In a function of its own: whoever awaits `Box::pin(future)` has, for as long as it lives, room
/// for the future as well as for the box, because the one goes through its own state on its way
/// into the other. That was 3 KB a kept connection.
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}
