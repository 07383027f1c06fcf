//! An upgrade: a new program takes over the listening sockets of the running one, which then only
//! finishes what it has begun.
//!
//! 1. The old process starts the new program with a Unix socket as its standard input, and sends
//!    all listening sockets, its standard error, the keys of session tickets, and what operators
//!    have set over it.
//! 2. The new process reads its configuration, takes the sockets that this names, binds the others,
//!    and says `ready`. Until then nothing has changed, and its end is a failed upgrade.
//! 3. The old one says `go`; the new one accepts, and says `serving`.
//! 4. The old one closes the sockets, which the new one has too: no accept queue is lost.
//!
//! A takeover is the same with a new process that others have started: it asks over the admin
//! socket, and the other end of the socket pair is passed to it there. It keeps its standard input
//! and its standard error.
//!
//! Neither binds nor decides what is served: see `start_steps` and `supervisor::upgrade`.

mod message;
mod new_process;
mod packets;
mod received;
mod takeover_request;

pub(crate) use message::{HandoverOffer, OfferedAddress, OfferedListener, TakenSockets};
pub(crate) use new_process::{
    HandedOver, NewProcess, ProgramKiller, StartedBy, UpgradeFailure, own_program,
};
pub(crate) use received::{HandedSockets, Handover, HandoverEnd, is_begun};
pub(crate) use takeover_request::{PATH as TAKEOVER_PATH, pass};

/// What a start does about a Lockgate that serves already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartKind {
    /// Nothing.
    Plain,
    /// It takes over from it, if there is one.
    Takeover,
}

/// The protocol to which the connection of a takeover is upgraded.
pub(crate) const PROTOCOL: &str = "lockgate-handover/1";

/// The variable by which a new program knows that its standard input is the socket of a handover.
/// Its value is the version of the protocol: a program that does not know it says so, and an older
/// one without handovers finds its addresses in use.
const VARIABLE: &str = "LOCKGATE_HANDOVER";
/// The version of the protocol.
const VERSION: &str = "1";
