//! The whole of the crate: with simulated time, and with a server that tells addresses.

mod simulation;
mod url;
