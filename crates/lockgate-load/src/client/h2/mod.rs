//! HTTP/2 client (RFC 9113) of a load generator: many concurrent requests on a connection, with as
//! few system calls as possible. The protocol is `lockgate_http::h2`'s.

mod connection;
mod exchange;
mod receive;
mod response_fields;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use connection::{FinishedRequest, Http2Connection, ReceiveWindows, RequestOutcome};
pub(crate) use exchange::check;
pub(super) use exchange::exchange;
pub(crate) use stream::{BodyUse, BufferedResponse};
