//! What is pushed for the configuration that runs.

use std::sync::Arc;

use lockgate_metrics::MetricSink;

use super::RunningServer;
use crate::exporter::{CountedBefore, FigureSource, SinkSettings};

impl RunningServer {
    /// Pushes figures to the programs that the configuration names.
    pub(super) fn keep_exporting(&mut self) {
        let export = &self.generation.config.export;
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let sinks = export.sinks.iter();
        let wanted = sinks.map(|sink| SinkSettings::new(sink, &export.filter, &host));
        let exposition = Arc::clone(&self.exposition);
        let figures: FigureSource =
            Arc::new(move |sink: &mut dyn MetricSink| exposition.load().write(sink));
        // The first ones begin before the workers serve.
        let counted = match self.generation.number() {
            1 => CountedBefore::Nothing,
            _ => CountedBefore::Something,
        };
        self.exporter.keep(wanted.collect(), &figures, counted);
    }
}
