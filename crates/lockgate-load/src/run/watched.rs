//! A watched program during a run: CPU time and memory, stage by stage.

use std::time::Duration;

use crate::control_group::ControlGroup;
use crate::plan::WatchedProcess;
use crate::process_tree::{CpuUsage, ProcessTree, TopProcess};
use crate::result::{CpuSource, Watched};
use crate::start_error::StartError;

/// The processes of a watched program.
pub(super) struct WatchedTree {
    name: String,
    tree: ProcessTree,
    /// The control group that its guard has made for it.
    group: Option<ControlGroup>,
    /// Memory before the first connection.
    before: Option<u64>,
    /// Peak memory of the stage so far.
    peak: Option<u64>,
}

/// CPU time of a program so far, from both sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuReading {
    processes: CpuUsage,
    group: Option<CpuUsage>,
}

impl CpuReading {
    /// The time since `earlier`, and its source: the group, which has all of it, unless the program
    /// has left its group.
    fn since(self, earlier: Self) -> (CpuUsage, CpuSource) {
        // Both are read one after the other, and the processes' ticks are cut off.
        const APART: Duration = Duration::from_millis(50);
        let processes = self.processes.since(earlier.processes);
        let group = self.group.zip(earlier.group);
        match group.map(|(now, earlier)| now.since(earlier)) {
            Some(group) if group.total() + APART >= processes.total() => (group, CpuSource::Cgroup),
            _ => (processes, CpuSource::Processes),
        }
    }
}

impl WatchedTree {
    /// The processes of `program`.
    ///
    /// # Errors
    /// The process does not run.
    pub(super) fn new(program: &WatchedProcess) -> Result<Self, StartError> {
        let WatchedProcess { name, pid, top } = program;
        let tree = ProcessTree::with(*pid, *top);
        let before = tree.memory();
        tree.cpu().map_err(|error| StartError::Watch {
            name: name.clone(),
            pid: *pid,
            error,
        })?;
        let group = match top {
            TopProcess::Counted => None,
            TopProcess::Guard => ControlGroup::of_guard(*pid),
        };
        Ok(Self {
            name: name.clone(),
            tree,
            group,
            before,
            peak: None,
        })
    }

    /// CPU time so far; `None` where the program has ended.
    pub(super) fn cpu(&self) -> Option<CpuReading> {
        Some(CpuReading {
            processes: self.tree.cpu().ok()?,
            group: self.group.as_ref().and_then(|group| group.cpu().ok()),
        })
    }

    /// Reads the memory of the moment.
    pub(super) fn sample_memory(&mut self) {
        self.peak = self.peak.max(self.tree.memory());
    }

    /// CPU time and memory of a stage that began when the program had used `before`.
    ///
    /// # Errors
    /// A note for the reader: the program has ended.
    pub(super) fn end_stage(&mut self, before: Option<CpuReading>) -> Result<Watched, String> {
        self.sample_memory();
        let peak = self.peak.take();
        let (Some(before), Some(now)) = (before, self.cpu()) else {
            return Err(format!(
                "{} has ended: its CPU time and memory are not known",
                self.name
            ));
        };
        let (CpuUsage { user, system }, source) = now.since(before);
        Ok(Watched {
            name: self.name.clone(),
            user,
            system,
            source,
            allowed_cpus: self.tree.allowed_cpus().unwrap_or_default(),
            before: self.before,
            peak,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_has_the_cpu_time_unless_the_program_has_left_it() {
        let usage = |milliseconds| CpuUsage {
            user: Duration::from_millis(milliseconds),
            system: Duration::ZERO,
        };
        let reading = |processes, group: Option<u64>| CpuReading {
            processes: usage(processes),
            group: group.map(usage),
        };
        let before = reading(10, Some(10));
        assert_eq!(
            reading(110, Some(1010)).since(before),
            (usage(1000), CpuSource::Cgroup)
        );
        assert_eq!(
            reading(110, Some(100)).since(before),
            (usage(90), CpuSource::Cgroup)
        );
        assert_eq!(
            reading(1010, Some(20)).since(before),
            (usage(1000), CpuSource::Processes)
        );
        assert_eq!(
            reading(110, None).since(before),
            (usage(100), CpuSource::Processes)
        );
    }
}
