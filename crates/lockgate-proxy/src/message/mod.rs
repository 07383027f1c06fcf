//! Messages between a client and an endpoint, whatever HTTP either speaks: the request as the
//! endpoint gets it, and the client's side of the exchange.

mod downstream;
mod outgoing;
mod request;

pub use downstream::{ClientExchange, Persistence};
pub use outgoing::OutgoingHead;
pub use request::{FieldSink, OutgoingRequest};
