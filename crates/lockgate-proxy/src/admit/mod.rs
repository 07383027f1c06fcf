//! The admission of requests: networks, rates and passwords, checked before anything is done for a
//! request.
//!
//! Each module answers one question; the loop that serves requests asks, and sends 401, 403, 429 or
//! 503.

pub mod basic_auth;
pub mod client_bans;
mod credential_cache;
pub mod htpasswd;
pub mod networks;
pub mod password_hash;
pub mod password_pool;
pub mod rate_limit;
pub mod targets;
