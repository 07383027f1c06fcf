//! The origin's side: endpoints, which of them is next, and the connection to it.

mod lease;
pub mod name;
mod pool;

pub use lease::{Keeping, Lease, Upstream};
pub use pool::{DialError, Dialled, Endpoint, Hold, Place, Pool};
