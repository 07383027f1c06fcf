//! The trace that a request is a part of: of the one that it came with, else of one that begins here;
//! and whether its spans are recorded (W3C Trace Context).

use lockgate_http::fields::Fields;
use lockgate_http::head::RequestHead;
use lockgate_http::trace::{TraceFlags, TraceId, TraceParent};
use lockgate_http_io::message::OutgoingHead;
use lockgate_rules::TraceShare;

use super::{IncomingRequest, ServeContext};
use crate::downstream::exchange_record::ExchangeRecord;
use crate::site::Route;
use crate::spans::OpenSpans;

impl ServeContext<'_> {
    /// Has the spans of a request be recorded: if the trace that it came with is, or else if a trace
    /// that begins with it is among the share.
    pub(super) fn begin_spans(
        &self,
        share: TraceShare,
        head: &RequestHead,
        record: &mut ExchangeRecord<'_>,
    ) {
        let connection = self.connection;
        let (ids, number) = (&connection.worker.shared.request_ids, record.number);
        let spans = if record.trace.is_some() {
            TraceParent::of(&head.fields)
                .filter(|told| told.flags.is_sampled())
                .map(|told| OpenSpans::within(&told, ids.spans(connection.id, number)))
        } else if share.takes(ids.trace_number(connection.id, number)) {
            let trace = ids.trace(connection.id, number);
            Some(OpenSpans::first(trace, ids.spans(connection.id, number)))
        } else {
            None
        };
        if let Some(spans) = spans {
            record.trace = Some(spans.trace);
            record.spans = Some(Box::new(spans));
        }
    }
}

impl<D> IncomingRequest<'_, '_, D> {
    /// Has the request tell its endpoint of its trace, if it is a part of one. Where the route traces,
    /// one begins with a request that came with none, and the route's share decides whether it is
    /// recorded.
    pub(super) fn begin_trace(&mut self, route: &Route, outgoing: &mut OutgoingHead<'_>) {
        let spans = self.record.spans.as_deref();
        if self.record.trace.is_some() && spans.is_none_or(|spans| spans.parent.is_some()) {
            if let Some(spans) = spans {
                // Trace Context §3.4: a party to a trace is the parent of what follows.
                spans.told().write(outgoing.change());
            }
            return;
        }
        remove_doubtful_trace(&self.head.fields, outgoing);
        let Some(share) = route.rules.trace else {
            if let Some(spans) = spans {
                spans.told().write(outgoing.change());
            }
            return;
        };
        let connection = self.context.connection;
        let (ids, number) = (&connection.worker.shared.request_ids, self.record.number);
        let trace = ids.trace(connection.id, number);
        let first = OpenSpans::first(trace, ids.spans(connection.id, number));
        // Every program that has the id comes to the same decision.
        let is_recorded = share.takes(ids.trace_number(connection.id, number));
        let flags = match is_recorded {
            true => TraceFlags::SAMPLED,
            false => TraceFlags::NONE,
        };
        let told = TraceParent {
            flags,
            ..first.told()
        };
        told.write(outgoing.change());
        self.record.trace = Some(trace);
        let is_exported = self.generation().rules.spans.is_some();
        self.record.spans = (is_recorded && is_exported).then(|| Box::new(first));
    }
}

/// Removes the fields of a trace that cannot be read.
pub(super) fn remove_doubtful_trace(received: &Fields, outgoing: &mut OutgoingHead<'_>) {
    if TraceId::is_in_doubt(received) {
        TraceId::remove(outgoing.change());
    }
}
