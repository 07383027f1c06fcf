//! HTTP/1 on a connection, the same towards clients and towards endpoints: messages are read, and
//! written.

mod heads;
mod connection;
mod reader;
mod websocket;
mod writer;

pub use heads::{websocket_accept, confirms_upgrade};
pub use connection::H1Connection;
pub use reader::MessageReader;
pub use writer::MessageWriter;
