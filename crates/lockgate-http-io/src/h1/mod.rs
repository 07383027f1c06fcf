//! HTTP/1 on a connection, towards clients and endpoints alike: a reader and a writer of messages.

mod connection;
mod heads;
mod reader;
mod websocket;
mod writer;

pub use connection::H1Connection;
pub use heads::confirms_upgrade;
pub(crate) use heads::websocket_accept;
pub use reader::MessageReader;
pub use writer::MessageWriter;
