//! What is done with a connection or an exchange.

pub mod files;
pub mod forward_auth;
pub mod forward_proxy;
pub mod proxy;
pub mod relay;
