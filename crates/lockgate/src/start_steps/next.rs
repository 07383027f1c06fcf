//! The steps of a reload: what the next configuration needs beyond the one that runs is opened, and
//! nothing that runs is touched.

use std::sync::Arc;

use lockgate_config::{LoadedConfig, Report};
use lockgate_limits::ListenerIndex;
use lockgate_net::listen::{self, BindCheck, BoundListener, ListenAddress};

use super::{Logs, Mode, StartSteps};
use crate::assemble::{self, Assembly, ReadAccess};
use crate::endpoint_changes::EndpointChanges;
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

impl OpenedNext {
    /// Gives up what was opened.
    pub(crate) fn discard(&self) {
        self.socket_files.iter().for_each(SocketFile::remove);
    }
}

impl NextSteps<'_> {
    /// Tries to bind the new addresses and to open the logs; mistakes are added to `report`.
    pub(crate) fn rehearse(&self, report: &mut Report) {
        let mut steps = StartSteps {
            loaded: self.loaded,
            report,
            mode: Mode::Check(BindCheck::Port),
            access: ReadAccess::AsStart,
            failed: false,
            handed: HandedSockets::default(),
            changes: EndpointChanges::default(),
            open_logs: self.running.open_logs().cloned().collect(),
        };
        let listeners = self.assembly.listeners.iter().zip(self.known);
        for (planned, _) in listeners.filter(|(_, known)| known.is_none()) {
            if let Err(error) = listen::try_bind(&planned.address, BindCheck::Port) {
                steps.cannot_listen(&planned.address, &planned.at, &error);
            }
        }
        if let Some(at) = self.new_metrics() {
            steps.metrics(&assemble::address(at));
        }
        steps.logs();
    }

    /// The metrics address, if it is another one.
    fn new_metrics(&self) -> Option<&lockgate_config::ListenAddr> {
        let at = |config: &'_ lockgate_config::Config| {
            let metrics = config.metrics.as_ref();
            metrics.map(|metrics| metrics.at.clone())
        };
        let before = at(&self.running.config);
        let metrics = self.loaded.config.metrics.as_ref();
        metrics
            .map(|metrics| &metrics.at)
            .filter(|now| before.as_ref() != Some(*now))
    }

    /// Opens everything; mistakes are added to `report`, and what was opened is closed again.
    pub(crate) fn open(&self, report: &mut Report) -> Option<OpenedNext> {
        let mut steps = StartSteps {
            loaded: self.loaded,
            report,
            mode: Mode::Start,
            access: ReadAccess::AsStart,
            failed: false,
            open_logs: self.running.open_logs().cloned().collect(),
            handed: HandedSockets::default(),
            changes: EndpointChanges::default(),
        };
        let listeners = self.assembly.listeners.iter().zip(self.known);
        let new = listeners.filter(|(_, known)| known.is_none());
        let bound = steps.bind(new.map(|(planned, _)| planned), self.workers);
        let metrics = self
            .new_metrics()
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
        known.find(|log| log.target().is_same_file(target)).cloned()
    }
}
