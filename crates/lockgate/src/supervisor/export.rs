//! What is pushed for the configuration that runs: figures and spans.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use lockgate_metrics::MetricSink;

use super::RunningServer;
use crate::exporter::{CountedBefore, FigureSource, SinkSettings, SinkTransport, SpanSettings};

impl RunningServer {
    /// Pushes figures and spans to the programs that the configuration names.
    pub(super) fn keep_exporting(&mut self) {
        let export = &self.generation.config.export;
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let sinks = export.sinks.iter();
        let started = self.workers.started.duration_since(UNIX_EPOCH);
        let started = started.unwrap_or_default();
        let connectors = &self.generation.assembly.sink_connectors;
        let wanted = sinks.filter_map(|sink| {
            let transport = SinkTransport::of(sink.form.authorities(), connectors)?;
            let (filter, host) = (&export.filter, host.as_str());
            Some(SinkSettings::new(sink, transport, filter, host, started))
        });
        let exposition = Arc::clone(&self.exposition);
        let figures: FigureSource =
            Arc::new(move |sink: &mut dyn MetricSink| exposition.load().write(sink));
        // The first ones begin before the workers serve.
        let counted = match self.generation.number() {
            1 => CountedBefore::Nothing,
            _ => CountedBefore::Something,
        };
        self.exporter.keep(wanted.collect(), &figures, counted);
        let traces = export.traces.as_ref().and_then(|traces| {
            let transport = SinkTransport::of(traces.to.authorities(), connectors)?;
            Some(SpanSettings::new(traces, transport, &host))
        });
        self.span_exporter.keep(traces);
    }
}
