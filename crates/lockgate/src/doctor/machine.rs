//! The facts of this machine, read once: settings of the kernel, limits of processes, the clock.

use std::fs;
use std::io;

use lockgate_net::kernel::{self, KernelFeature};
use rustix::process::{Resource, getrlimit};

use crate::start_steps::worker_count;

/// What is known of this machine. A setting that cannot be read is `None`.
#[derive(Debug)]
pub(super) struct MachineFacts {
    /// The release of the kernel.
    pub(super) kernel: String,
    pub(super) features: Vec<KernelFeature>,
    /// Whether something keeps the clock right.
    pub(super) clock: io::Result<bool>,
    /// Whether this command was started as root.
    pub(super) is_root: bool,
    /// The CPUs of the quota.
    pub(super) cpus: usize,
    /// The limit of open descriptors of a process.
    pub(super) descriptors: u64,
    /// The descriptors that the running Lockgate has open now.
    pub(super) open_descriptors: Option<usize>,
    /// Whether `descriptors` is the limit of the running Lockgate, not that of this command.
    pub(super) are_of_running: bool,
    /// net.core.somaxconn.
    pub(super) backlog: Option<u64>,
    /// net.ipv4.tcp_max_syn_backlog.
    pub(super) syn_backlog: Option<u64>,
    /// Whether net.ipv4.tcp_syncookies is on.
    pub(super) syn_cookies: Option<bool>,
    /// The first and the last of net.ipv4.ip_local_port_range.
    pub(super) source_ports: Option<(u64, u64)>,
    /// net.ipv4.tcp_congestion_control.
    pub(super) congestion: Option<String>,
    /// net.ipv4.tcp_available_congestion_control.
    pub(super) congestions: Vec<String>,
    /// fs.pipe-user-pages-soft, in pages; 0 is no limit.
    pub(super) pipe_pages: Option<u64>,
}

impl MachineFacts {
    /// Reads the facts; the limits of descriptors are those of the process `running`, if there is
    /// one and its limits can be read.
    pub(super) fn read(running: Option<u32>) -> Self {
        let limits = running.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/limits")).ok());
        let of_running = limits.as_deref().and_then(descriptors_of);
        // A start raises the soft limit to the hard one.
        let own = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        Self {
            kernel: setting("kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            features: kernel::features(),
            clock: kernel::is_clock_synchronized(),
            is_root: nix::unistd::geteuid().is_root(),
            cpus: worker_count(lockgate_config::Workers::Auto),
            descriptors: of_running.unwrap_or(own),
            open_descriptors: running.and_then(open_descriptors),
            are_of_running: of_running.is_some(),
            backlog: number("net/core/somaxconn"),
            syn_backlog: number("net/ipv4/tcp_max_syn_backlog"),
            syn_cookies: number("net/ipv4/tcp_syncookies").map(|word| word != 0),
            source_ports: setting("net/ipv4/ip_local_port_range")
                .and_then(|text| port_range(&text)),
            congestion: setting("net/ipv4/tcp_congestion_control"),
            congestions: setting("net/ipv4/tcp_available_congestion_control")
                .map(|text| text.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            pipe_pages: number("fs/pipe-user-pages-soft"),
        }
    }
}

/// A setting below /proc/sys, without its line end.
fn setting(path: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/{path}")).ok()?;
    Some(text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    setting(path)?.parse().ok()
}

fn port_range(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// The soft limit of open descriptors, by the text of /proc/PID/limits.
fn descriptors_of(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The open descriptors of a process; only its own user and root may count them.
fn open_descriptors(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_port_ranges_are_read_as_proc_writes_them() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             1024                 2048                 processes \n\
                      Max open files            4096                 524288               files     \n";
        assert_eq!(descriptors_of(limits), Some(4096));
        assert_eq!(
            descriptors_of(
                "Max open files            unlimited            unlimited            files"
            ),
            Some(u64::MAX)
        );
        assert_eq!(descriptors_of("Max processes 1"), None);
        assert_eq!(port_range("32768\t60999"), Some((32_768, 60_999)));
        assert_eq!(port_range("32768"), None);
    }

    #[test]
    fn the_facts_of_this_machine_are_there() {
        let own = MachineFacts::read(Some(std::process::id()));
        assert!(own.are_of_running);
        assert!(own.open_descriptors.is_some_and(|open| open > 2));
        assert!(own.cpus > 0 && !own.kernel.is_empty());
        // A process that does not exist has no limits.
        assert!(!MachineFacts::read(Some(u32::MAX)).are_of_running);
    }
}
