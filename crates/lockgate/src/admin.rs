//! The admin socket: HTTP with JSON on a Unix socket, for the commands that look at a running
//! Lockgate or change it.
//!
//! It runs on the main thread. Figures are read there; what the supervisor must do goes to it as an
//! [`AdminCommand`]. Each resource is one file in `resources`.

mod body;
mod command;
mod error;
mod handed_changes;
mod kept_changes;
mod line_stream;
mod listener;
mod peers;
mod phase;
mod place;
mod query;
mod request;
mod resources;
mod server;
mod state;
mod traces;
mod turns;
mod usage_peaks;

pub(crate) use command::{
    AdminCommand, CommandReceiver, CommandSender, DrainAnswer, ReloadOutcome, ReloadRequest,
    ReloadSource, Reply, SteadyCommand, TakeoverOutcome, TakeoverRequest, UpgradeOutcome,
    UpgradeRequest, command_channel, tell,
};
pub(crate) use handed_changes::HandedChanges;
pub(crate) use kept_changes::{KeptChanges, KeptFile};
pub(crate) use listener::{AdminListener, SocketFileRights};
pub(crate) use peers::AllowedPeers;
pub(crate) use phase::AdminPhase;
pub(crate) use place::{FILE_NAME, folders_to_make, paths_to_search};
pub(crate) use server::serve;
pub(crate) use state::AdminState;
pub(crate) use usage_peaks::LimitPeaks;
