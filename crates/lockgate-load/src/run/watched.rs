//! A watched program during a run: CPU time and memory, stage by stage.

use crate::process_tree::{CpuUsage, ProcessTree};
use crate::result::Watched;
use crate::start_error::StartError;

/// The processes of a watched program.
pub(super) struct WatchedTree {
    name: String,
    tree: ProcessTree,
    /// Memory before the first connection.
    before: Option<u64>,
    /// Peak memory of the stage so far.
    peak: Option<u64>,
}

impl WatchedTree {
    /// The processes of the program `name`: `pid` and its descendants.
    ///
    /// # Errors
    /// The process does not run.
    pub(super) fn new(name: &str, pid: u32) -> Result<Self, StartError> {
        let tree = ProcessTree::new(pid);
        let before = tree.memory();
        tree.cpu().map_err(|error| StartError::Watch {
            name: name.to_owned(),
            pid,
            error,
        })?;
        Ok(Self {
            name: name.to_owned(),
            tree,
            before,
            peak: None,
        })
    }

    /// CPU time so far; `None` where the program has ended.
    pub(super) fn cpu(&self) -> Option<CpuUsage> {
        self.tree.cpu().ok()
    }

    /// Reads the memory of the moment.
    pub(super) fn sample_memory(&mut self) {
        self.peak = self.peak.max(self.tree.memory());
    }

    /// CPU time and memory of a stage that began when the program had used `before`.
    ///
    /// # Errors
    /// A note for the reader: the program has ended.
    pub(super) fn end_stage(&mut self, before: Option<CpuUsage>) -> Result<Watched, String> {
        self.sample_memory();
        let peak = self.peak.take();
        let (Some(before), Some(now)) = (before, self.cpu()) else {
            return Err(format!(
                "{} has ended: its CPU time and memory are not known",
                self.name
            ));
        };
        let CpuUsage { user, system } = now.since(before);
        Ok(Watched {
            name: self.name.clone(),
            user,
            system,
            before: self.before,
            peak,
        })
    }
}
