//! HTTP/1 on a connection, the same towards clients and towards endpoints: messages are read, and
//! written.

mod heads;
mod link;
mod reader;
mod websocket;
mod writer;

pub use heads::{accept, agrees};
pub use link::Link;
pub use reader::Reader;
pub use writer::Writer;
