//! The origin's side: endpoints, which of them is next, and the connection to it.

mod affinity;
mod avoidance;
mod balance;
mod endpoint;
mod health;
mod latency;
mod lease;
pub mod name;
mod pool;
mod random;
mod sessions;
mod settings;
mod sharing;
mod sticky;
mod wire;

pub use affinity::{Affinity, Asker, Key, Wish};
pub use avoidance::{Condition, Eject, Statuses};
pub use balance::{Balance, Balancer, Member};
pub use endpoint::{Endpoint, Failure, Hold, InFlight, Place};
pub use health::{Health, Transition};
pub use latency::Latency;
pub use lease::{Lease, Private, Upstream, Wanted};
pub use pool::{DialError, Dialled, Pool, Tried};
pub use random::Random;
pub use sessions::{Answer, Sessions};
pub use settings::{Keeping, Queue, Retry, Settings};
pub use sticky::Sticky;
pub use wire::Wire;
