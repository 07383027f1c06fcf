//! Pools of endpoints, and connections to them: load balancing, affinity, health and outlier
//! detection, idle connections and their reuse.
//!
//! Knows no route and sends no response: a failure is a value. What it counts goes to
//! [`LeaseMetrics`].

#![forbid(unsafe_code)]

mod administration;
mod affinity;
mod balance;
mod connection_usage;
mod dial_error;
mod endpoint;
mod endpoint_limit;
pub mod endpoint_name;
mod forecast;
mod h2_pool;
mod health;
mod latency;
mod lease;
mod lease_request;
mod notice;
mod outlier_detection;
mod pool;
mod pool_succession;
mod preference;
mod private_connections;
mod random;
mod reports;
mod sessions;
mod settings;
mod sticky;
mod upstream_buffers;
mod upstream_connection;
mod upstream_pool;
mod wait_budget;
mod worker_sockets;

pub use administration::AdminMode;
pub use affinity::{Affinity, AffinityInput};
pub use balance::{Balance, CheckChange, Member, Score};
pub use dial_error::DialError;
pub use endpoint::{Endpoint, EndpointAddress, EndpointIndex, EndpointPermit, InFlight};
pub use forecast::{Forecast, ForecastMember, NextMember};
pub use h2_pool::ReusePolicy;
pub use health::{Health, Transition};
pub use latency::Latency;
pub use lease::{Lease, PendingLease};
pub use lease_request::{LeaseMetrics, LeaseRequest};
pub use outlier_detection::{Condition, EndpointFailure};
pub use pool::{Dialled, Pool};
pub use preference::Preference;
pub use private_connections::{PrivateConnection, PrivateConnections};
pub use random::Random;
pub use sessions::{SessionIdReader, Sessions};
pub use settings::{ErrorPage, Settings};
pub use sticky::Sticky;
pub use upstream_buffers::UpstreamBuffers;
pub use upstream_connection::UpstreamConnection;
pub use upstream_pool::UpstreamPool;
pub use wait_budget::WaitBudget;
pub use worker_sockets::{SocketPermit, WorkerSockets};
