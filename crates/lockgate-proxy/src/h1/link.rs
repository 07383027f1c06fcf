//! A connection that speaks HTTP/1: its bytes, what is being read and what is being written.

use std::rc::Rc;

use lockgate_net::stream::{Blocks, Stream};

use super::{Reader, Writer};

/// One connection.
#[derive(Debug)]
pub struct Link {
    /// The socket with its TLS.
    pub stream: Stream,
    /// What comes.
    pub reader: Reader,
    /// What goes.
    pub writer: Writer,
}

impl Link {
    /// A connection on which nothing was said; `received` was read already.
    pub fn new(stream: Stream, blocks: &Rc<Blocks>, received: &[u8]) -> Self {
        Self { stream, reader: Reader::new(blocks, received), writer: Writer::new(blocks) }
    }
}
