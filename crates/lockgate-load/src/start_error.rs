//! Reasons why a run does not begin.

use std::io;

/// A reason why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There are fewer descriptors than connections.
    #[error(
        "{connections} connections need {needed} descriptors, and {allowed} are allowed here: raise the hard limit \
         (ulimit -Hn) or ask for fewer connections"
    )]
    Descriptors {
        /// Connections that the options ask for.
        connections: usize,
        /// Descriptors that the run needs, with the program's own.
        needed: u64,
        /// The hard limit of descriptors.
        allowed: u64,
    },
    /// One source address has fewer ports than connections.
    #[error(
        "{connections} connections to one address need as many local ports, and net.ipv4.ip_local_port_range has \
         {ports} for each source address: widen it, add source addresses by --bind, or ask for fewer connections"
    )]
    Ports {
        /// Connections that the options ask for.
        connections: usize,
        /// Number of ports in the range.
        ports: usize,
    },
    /// The first response of a target was not as expected.
    #[error("{target}: {text}")]
    First {
        /// URL of the target, as written.
        target: String,
        /// The failure, and the option that helps.
        text: String,
    },
    /// A program to be watched does not run.
    #[error("cannot watch process {pid} ({name}): {error}")]
    Watch {
        /// The name that the options give it.
        name: String,
        /// Process ID of the program.
        pid: u32,
        /// The error of reading /proc.
        error: io::Error,
    },
    /// A thread cannot start or go on: a CPU does not exist, or descriptors are missing.
    #[error("a thread of the generator cannot run: {0}")]
    Thread(#[from] io::Error),
}
