//! What is pushed to one program: its configuration, and what is made of it.

use std::sync::Arc;
use std::time::Duration;

use lockgate_config::{ExportForm, ExportSink, InfluxTarget};
use lockgate_export::otlp::OtlpMetricsEncoder;
use lockgate_export::{GraphiteEncoder, InfluxEncoder, PointEncoder, StatsdEncoder};
use lockgate_metrics::MetricSink;
use lockgate_rules::MetricFilter;

use super::connection::{HttpSink, TcpSink, UdpSink};
use super::otlp::{self, OtlpSink};
use super::sink_connection::SinkConnection;
use super::sink_transport::SinkTransport;

/// Gives the figures of the moment to a sink. Called in the thread of the tasks.
pub(crate) type FigureSource = Arc<dyn Fn(&mut dyn MetricSink) + Send + Sync>;

/// Whether something was counted before a task begins: then counts begin with its first reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedBefore {
    Nothing,
    Something,
}

/// What is pushed to one program. A task goes on over a reload while they are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SinkSettings {
    /// Where to, how often, and in which form.
    pub(crate) sink: ExportSink,
    /// How it is reached, where that is by HTTP.
    pub(crate) transport: SinkTransport,
    /// Which metrics.
    pub(crate) filter: MetricFilter,
    /// The name of this machine.
    pub(crate) host: String,
    /// When the process started, since 1970.
    pub(crate) started: Duration,
    /// The longest time for one step: a name, a connection, a write, a request.
    pub(crate) limit: Duration,
}

/// The longest limit. It is never longer than the time between two readings.
const STEP: Duration = Duration::from_secs(10);

impl SinkSettings {
    /// What the configuration says of a program, on the machine `host`, for a process that started
    /// then.
    pub(crate) fn new(
        sink: &ExportSink,
        transport: SinkTransport,
        filter: &MetricFilter,
        host: &str,
        started: Duration,
    ) -> Self {
        Self {
            sink: sink.clone(),
            transport,
            filter: filter.clone(),
            host: host.to_owned(),
            started,
            limit: STEP.min(sink.every),
        }
    }

    pub(super) fn encoder(&self) -> Box<dyn PointEncoder> {
        match &self.sink.form {
            ExportForm::Graphite {
                protocol,
                naming,
                prefix,
                ..
            } => Box::new(GraphiteEncoder::new(*protocol, *naming, prefix, &self.host)),
            ExportForm::Statsd { tags, prefix, .. } => Box::new(StatsdEncoder::new(*tags, prefix)),
            ExportForm::Influx(InfluxTarget::Udp(_)) => {
                Box::new(InfluxEncoder::for_datagrams(&self.host))
            }
            ExportForm::Influx(InfluxTarget::Http(_) | InfluxTarget::Tcp(_)) => {
                Box::new(InfluxEncoder::for_bodies(&self.host))
            }
            ExportForm::Otlp(to) => {
                let resource = otlp::resource(to, &self.host);
                Box::new(OtlpMetricsEncoder::new(resource, self.started))
            }
        }
    }

    /// The way to it, not connected yet.
    pub(super) fn connection(&self) -> SinkConnection {
        match &self.sink.form {
            ExportForm::Graphite { to, .. } | ExportForm::Influx(InfluxTarget::Tcp(to)) => {
                SinkConnection::Tcp(TcpSink::new(to.clone()))
            }
            ExportForm::Statsd { to, .. } | ExportForm::Influx(InfluxTarget::Udp(to)) => {
                SinkConnection::Udp(UdpSink::new(to.clone()))
            }
            ExportForm::Influx(InfluxTarget::Http(url)) => {
                SinkConnection::Http(HttpSink::new(url.clone(), self.transport.clone()))
            }
            ExportForm::Otlp(to) => {
                SinkConnection::Otlp(OtlpSink::new(to.clone(), self.transport.clone()))
            }
        }
    }
}
