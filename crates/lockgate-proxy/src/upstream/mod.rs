//! The origin's side: endpoints, which of them is next, and the connection to it.

pub mod name;
mod pool;

pub use pool::{DialError, Dialled, Endpoint, Hold, Place, Pool};
