//! Where the line of an entry goes: the access log, and the readers that want it.

use super::connection::ClientConnection;
use crate::access_log::{ConnectionEntry, ExchangeEntry, OpenTails};
use crate::generation::{Generation, SharedLog};

/// The log of an entry and the open readers, at least one of both.
pub(super) struct LineSinks<'a> {
    log: Option<&'a SharedLog>,
    tails: Option<OpenTails>,
}

impl LineSinks<'_> {
    /// Writes the line of a connection.
    pub(super) fn write(&self, entry: &ConnectionEntry<'_>) {
        if let Some(log) = self.log {
            log.borrow_mut().write(entry);
        }
        if let Some(tails) = &self.tails {
            tails.write(entry);
        }
    }

    /// Writes the line of an exchange.
    pub(super) fn write_exchange(&self, entry: &ExchangeEntry<'_>) {
        if let Some(log) = self.log {
            log.borrow_mut().write_exchange(entry);
        }
        if let Some(tails) = &self.tails {
            tails.write_exchange(entry);
        }
    }
}

impl ClientConnection {
    /// Where an entry goes that has this log; nothing where nothing wants it.
    pub(super) fn line_sinks<'a>(
        &self,
        log: Option<&'a SharedLog>,
        generation: &Generation,
    ) -> Option<LineSinks<'a>> {
        let mask = || log.map_or(generation.rules.mask, |log| log.borrow().mask());
        let worker = &self.worker;
        let tails = worker.shared.tails.for_worker(worker.index, mask);
        (log.is_some() || tails.is_some()).then_some(LineSinks { log, tails })
    }
}
