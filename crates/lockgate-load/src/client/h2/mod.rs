//! HTTP/2 (RFC 9113) as who makes load speaks it: many requests at once on a connection, in as few
//! system calls as there can be.

mod connection;
mod exchange;
mod frame;
mod receive;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use connection::{FinishedRequest, Http2Connection, ReceiveWindows, RequestOutcome};
pub(crate) use exchange::check;
pub(super) use exchange::exchange;
pub(crate) use stream::{BodyUse, BufferedResponse};
