//! Buffers that a client uses again for each exchange.

use std::rc::Rc;

use fastrand::Rng;
use lockgate_http::head::ResponseHead;
use lockgate_net::stream::BufferPool;

use crate::shared_link::LinkQueue;
use crate::target::{Http1Request, RequestBody};

/// Buffers of one client, and its source of random numbers.
pub(crate) struct ClientBuffers {
    pub(crate) blocks: Rc<BufferPool>,
    pub(crate) rng: Rng,
    /// The queue of the slow link, if connections share one.
    pub(crate) link_queue: Option<Rc<LinkQueue>>,
    /// Head of the latest response.
    pub(crate) head: ResponseHead,
    /// Fields of the request that vary, with the empty line.
    pub(crate) fields: Vec<u8>,
    /// Random body of the request.
    pub(crate) body: Vec<u8>,
}

impl ClientBuffers {
    pub(crate) fn new(blocks: Rc<BufferPool>, rng: Rng) -> Self {
        Self {
            blocks,
            rng,
            link_queue: None,
            head: ResponseHead::default(),
            fields: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Makes the varying fields and the random body of a request.
    pub(crate) fn vary(&mut self, request: &Http1Request) {
        self.fields.clear();
        if !request.varying.is_empty() {
            for field in &request.varying {
                let value = &field.values[self.rng.usize(..field.values.len())];
                lockgate_http::h1::encode::field(
                    &mut self.fields,
                    field.name.as_bytes(),
                    value.as_bytes(),
                );
            }
            lockgate_http::h1::encode::end(&mut self.fields);
        }
        self.make(&request.body);
    }

    /// Makes the bytes of a random body; a fixed body needs none.
    pub(crate) fn make(&mut self, body: &RequestBody) {
        if let RequestBody::Random(length) = *body {
            self.body.resize(length, 0);
            self.rng.fill(&mut self.body);
        }
    }
}
