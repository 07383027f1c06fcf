//! The origin's side: endpoints, which of them is next, and the connection to it.

mod affinity;
mod avoidance;
mod balance;
mod endpoint;
mod health;
mod latency;
mod lease;
pub mod name;
mod notice;
mod patience;
mod pool;
mod private;
mod random;
mod sessions;
mod settings;
mod sharing;
pub mod slots;
mod sticky;
mod wire;

pub use affinity::{Affinity, Asker, Key, Wish};
pub use avoidance::{Condition, Eject, Statuses};
pub use balance::{Balance, Balancer, Member};
pub use endpoint::{Endpoint, Failure, Hold, InFlight, Place};
pub use health::{Health, Transition};
pub use latency::Latency;
pub use lease::{Lease, Upstream, Wanted};
pub use patience::Patience;
pub(crate) use pool::bit;
pub use pool::{DialError, Dialled, Pool, Tried};
pub use private::{Kept, Private};
pub use random::Random;
pub use sessions::{Answer, Sessions};
pub use settings::{Keeping, Queue, Retry, Settings};
pub use slots::{Slot, Slots};
pub use sticky::Sticky;
pub use wire::Wire;
