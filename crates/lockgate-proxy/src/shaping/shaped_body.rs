//! A body that is held to a rate.

use std::task::{Context, Poll, ready};

use lockgate_http::fields::Fields;
use lockgate_http_io::body::{BodyReader, ReadError};
use lockgate_net::relay::Meter;
use lockgate_net::traffic_shaping::Shaper;

/// A body of which no more data is visible than its rate allows. Allowance that is left when this
/// is dropped goes to others.
pub struct ShapedBody<'a, S> {
    source: &'a mut S,
    shaper: &'a mut Shaper,
    meter: &'a Meter,
}

impl<'a, S: BodyReader> ShapedBody<'a, S> {
    /// `source` at the rate of `shaper`; the time that it waits is added to `meter`.
    pub fn new(source: &'a mut S, shaper: &'a mut Shaper, meter: &'a Meter) -> Self {
        Self {
            source,
            shaper,
            meter,
        }
    }
}

impl<S> Drop for ShapedBody<'_, S> {
    fn drop(&mut self) {
        give_back(self.shaper, self.meter);
    }
}

/// Gives unused allowance back to the buckets, and adds the time waited to `meter`.
pub fn give_back(shaper: &mut Shaper, meter: &Meter) {
    shaper.give_back();
    meter
        .held_for
        .set(meter.held_for.get() + shaper.take_waited());
}

impl<S: BodyReader> BodyReader for ShapedBody<'_, S> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        ready!(self.source.poll_data(cx))?;
        // Allowance is taken only when there is data: without any it would be kept from others.
        if !self.source.data().is_empty() {
            ready!(self.shaper.poll(cx));
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        let data = self.source.data();
        &data[..data.len().min(self.shaper.left())]
    }

    fn consume(&mut self, count: usize) {
        self.shaper.spend(count);
        self.source.consume(count);
    }

    fn is_last(&self) -> bool {
        self.source.data().len() <= self.shaper.left() && self.source.is_last()
    }

    fn is_complete(&self) -> bool {
        self.source.is_complete()
    }

    fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    fn trailers(&self) -> Option<&Fields> {
        self.source.trailers()
    }

    fn release_memory(&mut self, cx: &mut Context<'_>) {
        self.source.release_memory(cx);
    }
}
