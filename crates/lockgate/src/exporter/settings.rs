//! What is pushed to one program: its configuration, and what is made of it.

use lockgate_config::{ExportForm, ExportSink, InfluxTarget};
use lockgate_export::{GraphiteEncoder, InfluxEncoder, PointEncoder, StatsdEncoder};
use lockgate_rules::MetricFilter;

use super::connection::{HttpSink, SinkConnection, TcpSink, UdpSink};

/// What is pushed to one program. A task goes on over a reload while they are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SinkSettings {
    /// Where to, how often, and in which form.
    pub(crate) sink: ExportSink,
    /// Which metrics.
    pub(crate) filter: MetricFilter,
    /// The name of this machine.
    pub(crate) host: String,
}

impl SinkSettings {
    pub(super) fn encoder(&self) -> Box<dyn PointEncoder> {
        match &self.sink.form {
            ExportForm::Graphite {
                protocol,
                naming,
                prefix,
                ..
            } => Box::new(GraphiteEncoder::new(
                *protocol, *naming, prefix, &self.host,
            )),
            ExportForm::Statsd { tags, prefix, .. } => Box::new(StatsdEncoder::new(*tags, prefix)),
            ExportForm::Influx(InfluxTarget::Udp(_)) => {
                Box::new(InfluxEncoder::for_datagrams(&self.host))
            }
            ExportForm::Influx(InfluxTarget::Http(_) | InfluxTarget::Tcp(_)) => {
                Box::new(InfluxEncoder::for_bodies(&self.host))
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
                SinkConnection::Http(HttpSink::new(url.clone()))
            }
        }
    }
}
