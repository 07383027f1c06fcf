//! HTTP/1 on a connection, towards clients and endpoints alike: a reader and a writer of messages.

mod heads;
mod connection;
mod reader;
mod websocket;
mod writer;

pub use heads::{websocket_accept, confirms_upgrade};
pub use connection::H1Connection;
pub use reader::MessageReader;
pub use writer::MessageWriter;
