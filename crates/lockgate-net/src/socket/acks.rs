//! The acknowledgements that one connection owes its peer.

use std::cell::Cell;

/// The number of acknowledgements at once per message. Asked for one piece, the kernel acknowledges
/// later ones, too, but not always: not the second of two with the same length. So it is asked
/// again, but not for each read of a large body.
pub const ACKS_PER_MESSAGE: u8 = 8;

/// The data that one connection has received since it last sent: sending has acknowledged all
/// earlier data.
#[derive(Debug, Default)]
pub(super) struct PendingAcks {
    reads: Cell<u8>,
    /// Whether anything was read since the kernel was asked.
    due: Cell<bool>,
    asked: Cell<u8>,
}

impl PendingAcks {
    pub(super) fn received(&self) {
        self.reads.set(self.reads.get().saturating_add(1));
        self.due.set(true);
    }

    pub(super) fn sent(&self) {
        self.reads.set(0);
        self.due.set(false);
        self.asked.set(0);
    }

    /// Whether to ask the kernel now, because it may delay an acknowledgement.
    pub(super) fn ask(&self) -> bool {
        let due = self.due.replace(false);
        self.asked
            .set(self.asked.get().saturating_add(u8::from(due)));
        due
    }

    /// Whether the kernel may not have acknowledged all data that was read.
    pub(super) fn is_due(&self) -> bool {
        self.due.get()
    }

    /// The number of requests to the kernel since the last send.
    pub(super) fn asked(&self) -> u8 {
        self.asked.get()
    }

    /// Whether nothing was sent between the last two reads.
    pub(super) fn reads_again(&self) -> bool {
        self.reads.get() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_due_for_data_read_and_not_answered() {
        let acks = PendingAcks::default();
        assert!(!acks.ask(), "nothing was received");
        acks.received();
        assert!(acks.ask());
        assert!(!acks.ask(), "nothing was received since then");
        acks.received();
        assert!(acks.ask());
        assert_eq!(acks.asked(), 2);
        acks.received();
        acks.sent();
        assert!(!acks.ask(), "what was sent has carried one");
        assert_eq!(acks.asked(), 0);
    }
}
