//! Where spans are sent: the configuration, and the times of the task.

use std::time::Duration;

use lockgate_config::TraceExport;

use super::sink_transport::SinkTransport;

/// How long more of them are waited for.
const GATHERED: Duration = Duration::from_secs(1);
/// How long the same spans are sent again. Newer ones are worth more.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// Where spans go. A task goes on over a reload while they are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpanSettings {
    /// The sink. The share is not the task's business.
    pub(super) export: TraceExport,
    /// How it is reached.
    pub(super) transport: SinkTransport,
    /// The name of this machine.
    pub(super) host: String,
    /// How long spans are waited for once there are some.
    pub(super) gathered: Duration,
    /// How long the same spans are sent again.
    pub(super) given_up: Duration,
}

impl SpanSettings {
    /// What the configuration says, on the machine `host`.
    pub(crate) fn new(export: &TraceExport, transport: SinkTransport, host: &str) -> Self {
        Self {
            export: export.clone(),
            transport,
            host: host.to_owned(),
            gathered: GATHERED,
            given_up: GIVEN_UP,
        }
    }

    /// The sink's name in logs and labels.
    pub(super) fn name(&self) -> &str {
        &self.export.name
    }
}
