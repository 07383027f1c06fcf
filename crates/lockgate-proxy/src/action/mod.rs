//! What is done with a connection or an exchange.

pub mod proxy;
pub mod relay;
