//! Where the line of an entry goes: the access log, the readers that want it, and the last errors.

use super::connection::ClientConnection;
use crate::access_log::{ConnectionEntry, ErrorSink, ExchangeEntry, OpenTails};
use crate::generation::{Generation, SharedLog};

/// The places for the line of an entry, at least one of them.
pub(super) struct LineSinks<'a> {
    log: Option<&'a SharedLog>,
    tails: Option<OpenTails>,
    errors: Option<ErrorSink<'a>>,
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
        if let Some(errors) = &self.errors {
            errors.write(entry);
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
        if let Some(errors) = &self.errors {
            errors.write_exchange(entry);
        }
    }
}

impl ClientConnection {
    /// Where an entry goes that has this log; nothing where nothing wants it.
    pub(super) fn line_sinks<'a>(
        &'a self,
        log: Option<&'a SharedLog>,
        generation: &Generation,
        is_error: bool,
    ) -> Option<LineSinks<'a>> {
        let mask = || log.map_or(generation.rules.mask, |log| log.borrow().mask());
        let (worker, now) = (&self.worker, self.guard.clock().now());
        let tails = worker.shared.tails.for_worker(worker.index, mask);
        let errors = is_error
            .then(|| worker.shared.errors.sink(worker.index, now, mask()))
            .flatten();
        (log.is_some() || tails.is_some() || errors.is_some()).then_some(LineSinks {
            log,
            tails,
            errors,
        })
    }
}
