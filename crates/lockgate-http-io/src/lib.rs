//! HTTP/1 and HTTP/2 on connections, towards clients and endpoints alike. Data of bodies is lent
//! from the buffer that received it.
//!
//! Heads and framing are parsed in `lockgate_http`. Chooses no endpoint and knows no deadline: a
//! wait ends when its future is dropped.

#![forbid(unsafe_code)]

pub mod body;
pub mod h1;
pub mod h2;
pub mod message;
