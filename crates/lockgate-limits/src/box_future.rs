//! Boxed futures.

use std::pin::Pin;

/// Boxes the future that `make` makes: for a large one that is rarely awaited.
///
/// In a function of its own: the state of an `async fn` that awaits `Box::pin(future)` holds room
/// for the future as well as for the box, since the future is a local before it is moved. That was
/// 3 KB a kept connection.
pub fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}
