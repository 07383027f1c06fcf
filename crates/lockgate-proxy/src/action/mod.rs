//! What is done with a connection or an exchange.

pub mod connect;
pub mod files;
pub mod forward_auth;
pub mod proxy;
pub mod relay;
