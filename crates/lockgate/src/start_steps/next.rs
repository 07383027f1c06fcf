//! The steps of a reload: what the next configuration needs beyond the one that runs is opened, and
//! nothing that runs is touched.

use std::sync::Arc;

use lockgate_config::{LoadedConfig, Report};
use lockgate_limits::ListenerIndex;
use lockgate_net::listen::{BoundListener, ListenAddress};

use super::{Logs, Mode, StartSteps};
use crate::assemble::{self, Assembly, ReadAccess};
use crate::generation::RunningGeneration;
use crate::handover::HandedSockets;
use crate::log_writer::LogWriter;
use crate::metrics_server::MetricsListener;
use crate::socket_file::SocketFile;

/// The next configuration beside the one that runs.
pub(crate) struct NextSteps<'a> {
    pub(crate) loaded: &'a LoadedConfig,
    pub(crate) assembly: &'a Assembly,
    pub(crate) running: &'a RunningGeneration,
    /// For each listener, the one that runs on its address.
    pub(crate) known: &'a [Option<ListenerIndex>],
    pub(crate) workers: usize,
}

/// What was opened for the next configuration.
pub(crate) struct OpenedNext {
    /// The listeners on new addresses, in their order.
    pub(crate) bound: Vec<BoundListener>,
    /// The metrics address, if it is another one.
    pub(crate) metrics: Option<(MetricsListener, ListenAddress)>,
    pub(crate) logs: Logs,
    /// The files of new Unix sockets.
    pub(crate) socket_files: Vec<SocketFile>,
}

impl NextSteps<'_> {
    /// Opens everything; mistakes are added to `report`, and what was opened is closed again.
    pub(crate) fn open(&self, report: &mut Report) -> Option<OpenedNext> {
        let mut steps = StartSteps {
            loaded: self.loaded,
            report,
            mode: Mode::Start,
            access: ReadAccess::AsStart,
            failed: false,
            handed: HandedSockets::default(),
            open_logs: self.running.logs.iter().cloned().collect(),
        };
        let (config, before) = (&self.loaded.config, &self.running.config);
        let listeners = self.assembly.listeners.iter().zip(self.known);
        let new = listeners.filter(|(_, known)| known.is_none());
        let bound = steps.bind(new.map(|(planned, _)| planned), self.workers);
        let is_new = |at: &&lockgate_config::ListenAddr| {
            let before = before.metrics.as_ref().map(|metrics| &metrics.at);
            before != Some(*at)
        };
        let metrics = config.metrics.as_ref().map(|metrics| &metrics.at);
        let metrics = metrics
            .filter(is_new)
            .and_then(|at| steps.metrics(&assemble::address(at)));
        let logs = steps.logs();
        let socket_files = SocketFile::of(&bound, metrics.iter().map(|(_, address)| address));
        if steps.failed {
            socket_files.iter().for_each(SocketFile::remove);
            return None;
        }
        Some(OpenedNext {
            bound,
            metrics,
            logs: logs?,
            socket_files,
        })
    }
}

impl StartSteps<'_> {
    /// The writer of a log that is open already.
    pub(super) fn open_log(
        &self,
        target: &crate::log_writer::LogDestination,
    ) -> Option<Arc<LogWriter>> {
        let mut known = self.open_logs.iter();
        known.find(|log| log.target() == target).cloned()
    }
}
