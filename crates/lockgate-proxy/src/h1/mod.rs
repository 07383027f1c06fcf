//! HTTP/1 on a connection, the same towards clients and towards endpoints: messages are read, and written.
//!
//! Everything is polled and may be dropped between two polls: what was received and not used stays with the connection.

mod link;
mod pump;
mod reader;
mod writer;

pub use link::Link;
pub use pump::{Fault, poll_pump};
pub use reader::{ReadError, Reader};
pub use writer::Writer;
