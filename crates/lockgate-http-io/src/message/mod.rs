//! Messages between a client and an endpoint over either HTTP: the request as the endpoint gets it,
//! and the client's side of the exchange.

mod client_exchange;
mod outgoing;
mod request;

pub use client_exchange::{ClientExchange, Persistence};
pub use outgoing::OutgoingHead;
pub use request::{FieldWriter, OutgoingRequest};
