//! Limits of connections and of the process: time, sockets, handshakes, memory, and the part of
//! them that one client may hold.
//!
//! The clock of a worker has the deadlines of its connections; all workers share what is promised
//! for the process. Knows no protocol: a connection is its [`Watch`](clock::Watch) here.

#![forbid(unsafe_code)]

pub mod box_future;
pub mod clients;
pub mod clock;
pub mod connections;
pub mod handshakes;
mod index;
pub mod member_set;
pub mod memory;
pub mod preemption;
mod process_limit;
mod sharded_table;
pub mod sockets;

pub use index::{
    ListenerId, ListenerIndex, MemberIndex, PoolIndex, RelayIndex, SiteNumber, WorkerIndex,
};
pub use process_limit::{
    CountGuard, KeyedLimit, KeyedPermit, PerClient, PerClientPermit, Permit, ProcessLimit, client,
};
