//! How much memory the process may have, and how much of what it has is not counted.
//!
//! The counts are those of `lockgate_net::memory`. They miss what lies between allocations, and
//! libraries in C: that is measured here, with the tick.

use std::fs;
use std::path::{Path, PathBuf};

use lockgate_config::Memory;
use lockgate_net::memory::{self as counted, Budget, MemoryKind, MemoryLevel};

mod cgroup;

use cgroup::Cgroup;

/// Percent of what the cgroup allows that are ours: the kernel has page tables in there, and files
/// that we read.
const SHARE_OF_CGROUP: u64 = 80;
/// Percent of the machine's memory.
const SHARE_OF_MACHINE: u64 = 50;
/// Ticks of which the least surplus counts: what was just freed is still there for the next
/// allocations.
const WINDOW: usize = 20;
/// Ticks between two measurements while little is in use.
const SELDOM: u32 = 10;
/// Ticks between two lines in the log.
const TOLD_EVERY: u32 = 100;

/// A limit, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Nothing where there is none.
    pub(crate) bytes: Option<u64>,
    /// In words, for people.
    pub(crate) why: String,
    /// Whether the limit is that of the cgroup: then what the kernel has in there counts.
    of_cgroup: bool,
}

impl Allowed {
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

/// How much the process may have by what was written, its cgroup, and the machine.
pub(crate) fn allowed(written: Memory) -> Allowed {
    match written {
        Memory::Off => Allowed::of(None, "limits.memory is off"),
        Memory::Bytes(bytes) => Allowed::of(Some(bytes), "limits.memory"),
        Memory::Auto => by_itself(Cgroup::own().limit(), machine(&read("/proc/meminfo"))),
    }
}

fn by_itself(cgroup: Option<(u64, PathBuf)>, machine: Option<u64>) -> Allowed {
    let percent = |bytes: u64, percent: u64| bytes / 100 * percent;
    match (cgroup, machine) {
        (Some((limit, at)), machine) if machine.is_none_or(|machine| limit <= machine) => {
            Allowed::of_cgroup(
                percent(limit, SHARE_OF_CGROUP),
                format!("{SHARE_OF_CGROUP} % of {}", at.display()),
            )
        }
        (_, Some(machine)) => Allowed::of(
            Some(percent(machine, SHARE_OF_MACHINE)),
            format!("{SHARE_OF_MACHINE} % of the machine's memory"),
        ),
        _ => Allowed::of(
            None,
            "neither a cgroup nor the machine says how much there is",
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

/// Bytes of the process that are no file's, by /proc/self/statm.
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

/// Measures what is not counted, and tells the operator how near the limit is.
pub(crate) struct Measuring {
    budget: &'static Budget,
    cgroup: Option<Cgroup>,
    page: u64,
    surpluses: [usize; WINDOW],
    next: usize,
    ticks: u32,
    level: MemoryLevel,
    told: Option<u32>,
}

impl Measuring {
    /// Of this process, whose limit is set by that.
    pub(crate) fn begin(allowed: &Allowed) -> Self {
        let budget = counted::process();
        budget.set_limit(allowed.bytes);
        Self {
            budget,
            // Elsewhere other processes may be in it.
            cgroup: allowed.of_cgroup.then(Cgroup::own),
            page: rustix::param::page_size() as u64,
            surpluses: [0; WINDOW],
            next: 0,
            ticks: 0,
            level: MemoryLevel::Easy,
            told: None,
        }
    }

    /// Takes a tick.
    pub(crate) fn tick(&mut self) {
        let Some(limit) = self.budget.limit() else {
            return;
        };
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(SELDOM) || self.budget.level() > MemoryLevel::Easy {
            self.measure();
        }
        self.tell(limit);
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

    /// Says that a level was entered or left, seldom enough that a log is not filled by it.
    fn tell(&mut self, limit: usize) {
        let level = self.budget.level();
        let recently = self
            .told
            .is_some_and(|told| self.ticks.wrapping_sub(told) < TOLD_EVERY);
        // What has become worse is said at once, but for what was said just now.
        if level == self.level
            || (recently && level != MemoryLevel::Full)
            || (recently && self.level == MemoryLevel::Full)
        {
            return;
        }
        (self.level, self.told) = (level, Some(self.ticks));
        let used = self.budget.total();
        match level {
            MemoryLevel::Easy => tracing::info!(used, limit, "there is enough memory again"),
            MemoryLevel::Lean => {
                tracing::warn!(used, limit, "memory is scarce: nothing is kept for later")
            }
            MemoryLevel::Full => {
                tracing::warn!(
                    used,
                    limit,
                    "memory is full: what is new waits, and the largest clients are cut"
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
        let both = by_itself(cgroup(GB), Some(4 * GB));
        assert_eq!(
            both,
            Allowed::of_cgroup(800_000_000, "80 % of /sys/fs/cgroup/memory.max".to_owned())
        );
        // Version 1 says "no limit" by a number that no machine has.
        assert_eq!(by_itself(cgroup(1 << 62), Some(4 * GB)).bytes, Some(2 * GB));
        assert_eq!(by_itself(None, Some(4 * GB)).bytes, Some(2 * GB));
        assert_eq!(by_itself(None, None).bytes, None);
        assert_eq!(allowed(Memory::Bytes(7)).bytes, Some(7));
        assert_eq!(allowed(Memory::Off).bytes, None);
    }
}
