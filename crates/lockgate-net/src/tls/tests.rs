//! Certificates from files, and whole handshakes in memory with a real client.

mod acceptors;
mod files;
mod handshakes;
mod managed;
mod resumption;
