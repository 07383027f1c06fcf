//! The buffers of a worker, as connections to endpoints use them.

use std::rc::Rc;

use lockgate_http_io::h2::WorkerBuffers;
use lockgate_net::stream::BufferPool;

/// The buffers of a worker.
#[derive(Debug, Clone)]
pub struct UpstreamBuffers {
    /// Those of messages.
    pub blocks: Rc<BufferPool>,
    /// Those of connections over HTTP/2.
    pub http2: Rc<WorkerBuffers>,
}
