//! The memory limit of the process, and the memory that is in use but not counted.
//!
//! `lockgate_net::memory` counts. Its counts miss the gaps between allocations and the libraries in
//! C: that surplus is measured here.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lockgate_config::Memory;
use lockgate_net::memory::{self as counted, Budget, MemoryKind, MemoryLevel};

mod cgroup;

use cgroup::Cgroup;

/// Our percentage of the cgroup's limit: the kernel's page tables and files that we read count
/// there too.
const SHARE_OF_CGROUP: u64 = 80;
/// Our percentage of the machine's memory.
const SHARE_OF_MACHINE: u64 = 50;
/// The number of measurements of which the least surplus counts: memory that was just freed stays
/// for the next allocations.
const WINDOW: usize = 20;
/// The least time between two measurements while little memory is in use.
const SELDOM: Duration = Duration::from_millis(900);
/// The least time between two log messages.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// A memory limit, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    /// `None` without a limit.
    pub(crate) bytes: Option<u64>,
    /// The source, for the log.
    pub(crate) why: String,
    /// Whether the limit is that of the cgroup: then the kernel's memory in it counts.
    of_cgroup: bool,
}

impl MemoryLimit {
    fn of(bytes: Option<u64>, why: impl Into<String>) -> Self {
        Self {
            bytes,
            why: why.into(),
            of_cgroup: false,
        }
    }

    fn of_cgroup(bytes: u64, why: String) -> Self {
        Self {
            of_cgroup: true,
            ..Self::of(Some(bytes), why)
        }
    }
}

/// The limit by the configuration, the cgroup, or the machine.
pub(crate) fn allowed(written: Memory) -> MemoryLimit {
    match written {
        Memory::Off => MemoryLimit::of(None, "limits.memory is off"),
        Memory::Bytes(bytes) => MemoryLimit::of(Some(bytes), "limits.memory"),
        Memory::Auto => automatic(Cgroup::own().limit(), machine(&read("/proc/meminfo"))),
    }
}

fn automatic(cgroup: Option<(u64, PathBuf)>, machine: Option<u64>) -> MemoryLimit {
    let percent = |bytes: u64, percent: u64| bytes / 100 * percent;
    match (cgroup, machine) {
        (Some((limit, at)), machine) if machine.is_none_or(|machine| limit <= machine) => {
            MemoryLimit::of_cgroup(
                percent(limit, SHARE_OF_CGROUP),
                format!("{SHARE_OF_CGROUP} % of {}", at.display()),
            )
        }
        (_, Some(machine)) => MemoryLimit::of(
            Some(percent(machine, SHARE_OF_MACHINE)),
            format!("{SHARE_OF_MACHINE} % of the machine's memory"),
        ),
        _ => MemoryLimit::of(
            None,
            "neither a cgroup nor the machine reports a size of memory",
        ),
    }
}

/// The machine's memory, by /proc/meminfo.
fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The bytes of the process without pages of files, by /proc/self/statm.
fn anonymous(statm: &str, page: u64) -> Option<u64> {
    let mut pages = statm
        .split_ascii_whitespace()
        .skip(1)
        .map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    resident.saturating_sub(shared).checked_mul(page)
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The measurements of memory that is not counted, and the log messages about the level.
pub(crate) struct MemoryMonitor {
    budget: &'static Budget,
    cgroup: Option<Cgroup>,
    page: u64,
    surpluses: [usize; WINDOW],
    next: usize,
    /// When the surplus was measured.
    measured: Option<Instant>,
    level: MemoryLevel,
    /// When the level was logged.
    logged: Option<Instant>,
}

impl MemoryMonitor {
    /// Sets the limit of this process and begins to measure.
    pub(crate) fn begin(allowed: &MemoryLimit) -> Self {
        let mut monitor = Self {
            budget: counted::process(),
            cgroup: None,
            page: rustix::param::page_size() as u64,
            surpluses: [0; WINDOW],
            next: 0,
            measured: None,
            level: MemoryLevel::Easy,
            logged: None,
        };
        monitor.set_limit(allowed);
        monitor
    }

    /// Sets another limit of this process. Where less is allowed than is in use, the workers free
    /// memory with their next tick.
    pub(crate) fn set_limit(&mut self, allowed: &MemoryLimit) {
        if self.cgroup.is_some() != allowed.of_cgroup {
            // Without a limit of its own the cgroup may have other processes.
            self.cgroup = allowed.of_cgroup.then(Cgroup::own);
            // With the kernel's memory in the cgroup they are larger.
            self.surpluses = [0; WINDOW];
        }
        self.budget.set_limit(allowed.bytes);
    }

    /// Measures where that is due, and logs a change.
    pub(crate) fn look(&mut self) {
        let Some(limit) = self.budget.limit() else {
            return;
        };
        let is_due = self
            .measured
            .is_none_or(|measured| measured.elapsed() >= SELDOM);
        if is_due || self.is_scarce() {
            self.measured = Some(Instant::now());
            self.measure();
        }
        self.log_level(limit);
    }

    /// Whether a change is still to be logged.
    pub(crate) fn is_untold(&self) -> bool {
        self.budget.limit().is_some() && self.level != self.budget.level()
    }

    /// Whether the workers are to free memory: then a look is due with every tick.
    pub(crate) fn is_scarce(&self) -> bool {
        self.budget.level() > MemoryLevel::Easy
    }

    fn measure(&mut self) {
        let counted = |kind| self.budget.used(kind);
        let anonymous = anonymous(&read("/proc/self/statm"), self.page).unwrap_or(0);
        let kernel = self.cgroup.as_ref().and_then(Cgroup::kernel).unwrap_or(0);
        let beyond = |measured: u64, counted: usize| {
            usize::try_from(measured)
                .unwrap_or(usize::MAX)
                .saturating_sub(counted)
        };
        let surplus = beyond(
            anonymous,
            counted(MemoryKind::Heap) + counted(MemoryKind::Coding),
        ) + beyond(kernel, counted(MemoryKind::Kernel));
        self.surpluses[self.next] = surplus;
        self.next = (self.next + 1) % WINDOW;
        self.budget
            .set_surplus(self.surpluses.iter().copied().min().unwrap_or(0));
    }

    /// Logs a change of level, seldom enough that it does not fill the log.
    fn log_level(&mut self, limit: usize) {
        let level = self.budget.level();
        let recently = self
            .logged
            .is_some_and(|logged| logged.elapsed() < LOGGED_EVERY);
        // A worse level is logged at once, except right after it was logged.
        if level == self.level
            || (recently && level != MemoryLevel::Full)
            || (recently && self.level == MemoryLevel::Full)
        {
            return;
        }
        (self.level, self.logged) = (level, Some(Instant::now()));
        let used = self.budget.total();
        match level {
            MemoryLevel::Easy => tracing::info!(used, limit, "there is enough memory again"),
            MemoryLevel::Lean => {
                tracing::warn!(
                    used,
                    limit,
                    "memory is scarce: caches and buffers are not kept"
                )
            }
            MemoryLevel::Full => {
                tracing::warn!(
                    used,
                    limit,
                    "memory is full: new connections and requests wait, and the largest clients are disconnected"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn memory_of_the_machine_and_the_process_are_read_from_proc() {
        assert_eq!(
            machine("MemTotal:        2000 kB\nMemFree:  1 kB\n"),
            Some(2_048_000)
        );
        assert_eq!(machine("nothing"), None);
        assert_eq!(
            anonymous("900 500 200 10 0 100 0\n", 4096),
            Some(300 * 4096)
        );
        assert_eq!(anonymous("900", 4096), None);
    }

    #[test]
    fn the_memory_limit_is_by_cgroup_before_machine() {
        let cgroup = |bytes| Some((bytes, PathBuf::from("/sys/fs/cgroup/memory.max")));
        let both = automatic(cgroup(GB), Some(4 * GB));
        assert_eq!(
            both,
            MemoryLimit::of_cgroup(800_000_000, "80 % of /sys/fs/cgroup/memory.max".to_owned())
        );
        // Version 1 says "no limit" by a number that no machine has.
        assert_eq!(automatic(cgroup(1 << 62), Some(4 * GB)).bytes, Some(2 * GB));
        assert_eq!(automatic(None, Some(4 * GB)).bytes, Some(2 * GB));
        assert_eq!(automatic(None, None).bytes, None);
        assert_eq!(allowed(Memory::Bytes(7)).bytes, Some(7));
        assert_eq!(allowed(Memory::Off).bytes, None);
    }

    #[test]
    fn the_memory_limit_changes_with_its_source() {
        // More than there is: no other test finds memory scarce.
        let limit = |terabytes: u64| MemoryLimit::of(Some(terabytes * 1_000 * GB), "limits.memory");
        let mut monitor = MemoryMonitor::begin(&limit(1));
        let kept = counted::process().limit();
        monitor.surpluses = [7; WINDOW];
        monitor.set_limit(&limit(2));
        assert_eq!(monitor.budget.limit(), kept.map(|limit| 2 * limit));
        assert_eq!((monitor.cgroup.is_some(), monitor.surpluses[0]), (false, 7));
        monitor.set_limit(&MemoryLimit::of_cgroup(1_000 * GB, "a cgroup".to_owned()));
        assert_eq!((monitor.cgroup.is_some(), monitor.surpluses[0]), (true, 0));
        assert_eq!(monitor.budget.limit(), kept);
        monitor.set_limit(&MemoryLimit::of(None, "limits.memory is off"));
        assert_eq!((monitor.budget.limit(), monitor.cgroup), (None, None));
    }
}
