//! What a configuration takes of the machine: workers, connections, sockets, descriptors.

use lockgate_config::{Config, EndpointAddr};

use super::machine::MachineFacts;
use crate::assemble::Assembly;
use crate::descriptors::{self, Division};
use crate::memory::{self, MemoryLimit};
use crate::start::held_by_worker;
use crate::start_steps::worker_count;

/// What a start would take, by the configuration and the descriptors.
#[derive(Debug)]
pub(super) struct Needs {
    pub(super) workers: usize,
    /// `limits.connections`, if it is a number.
    pub(super) wanted: Option<usize>,
    /// The connections for which the descriptors suffice, with a socket towards an endpoint each.
    pub(super) fitting: usize,
    pub(super) division: Division,
    pub(super) handshakes: usize,
    pub(super) memory: MemoryLimit,
    /// `socket.backlog`.
    pub(super) backlog: u32,
    /// The addresses of endpoints that are reached by TCP, each once.
    pub(super) tcp_endpoints: usize,
    /// Whether the workers run as root, for which the kernel's limits of a user do not hold.
    pub(super) is_root: bool,
}

impl Needs {
    /// The needs of an assembled configuration on this machine.
    pub(super) fn of(config: &Config, assembly: &Assembly, machine: &MachineFacts) -> Self {
        let workers = worker_count(config.workers);
        let nofile = machine.descriptors;
        let held = held_by_worker(assembly, nofile, workers);
        let wanted = config.limits.connections;
        Self {
            workers,
            wanted,
            fitting: descriptors::connection_limit(nofile, workers, held),
            division: Division::of(nofile, wanted, workers, held),
            handshakes: config.limits.handshakes,
            memory: memory::allowed(config.limits.memory),
            backlog: config.socket.backlog,
            tcp_endpoints: tcp_endpoints(config),
            is_root: config.user.is_none() && machine.is_root,
        }
    }
}

fn tcp_endpoints(config: &Config) -> usize {
    let pools = config.pools.iter().flat_map(|pool| &pool.endpoints);
    let mut addresses: Vec<_> = pools
        .filter(|endpoint| !matches!(endpoint.addr, EndpointAddr::Unix(_)))
        .map(|endpoint| endpoint.addr.to_string())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.len()
}
