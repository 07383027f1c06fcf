//! The metrics of the process: limits, sockets, memory, lost lines, and its configuration.

use std::sync::atomic::Ordering;

use lockgate_metrics::MetricFamilies;
use lockgate_net::memory::{self as counted, MemoryKind};
use rustix::time::{ClockId, clock_gettime};

use super::{Exposition, seconds};
use crate::operator_log;

impl Exposition {
    pub(super) fn process(&self, families: &mut MetricFamilies<'_>) {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        families
            .gauge("lockgate_build_info", "Always 1; the version is the label.")
            .sample(&version, 1_i64);
        families
            .gauge(
                "lockgate_start_time_seconds",
                "When the process started, in seconds since 1970.",
            )
            .sample(&[], seconds(self.state.started));
        families
            .counter(
                "lockgate_cpu_seconds_total",
                "CPU time of all threads of the process, the kernel's work for them included.",
            )
            .sample(&[], cpu_seconds());
        families
            .gauge("lockgate_connections_limit", "The limit of connections.")
            .sample(&[], self.state.shared.connections.size() as i64);
        families
            .gauge(
                "lockgate_clients",
                "Connected clients: IPv4 addresses and IPv6 /64 networks.",
            )
            .sample(&[], self.state.shared.clients.count() as i64);
        families
            .counter(
                "lockgate_connections_evicted_total",
                "Idle connections that were closed because other clients waited.",
            )
            .sample(&[], self.state.shared.connections.gave_way());
        let handshakes = &self.state.shared.handshakes;
        families
            .gauge(
                "lockgate_tls_handshakes_in_flight",
                "Handshakes with clients in progress.",
            )
            .sample(&[], handshakes.begun() as i64);
        families
            .gauge(
                "lockgate_tls_handshakes_waiting",
                "Handshakes with clients that wait for the computation of others.",
            )
            .sample(&[], handshakes.waiting() as i64);
        families
            .gauge(
                "lockgate_tls_handshakes_limit",
                "The limit of handshakes with clients that are computed at once.",
            )
            .sample(&[], handshakes.size() as i64);
        self.sockets(families);
        memory(families);
        let lost: u64 = self
            .state
            .lost
            .iter()
            .map(|lost| lost.load(Ordering::Relaxed))
            .sum();
        families
            .counter(
                "lockgate_access_log_lost_total",
                "Lines of the access log that were lost.",
            )
            .sample(&[], lost);
        families
            .counter(
                "lockgate_operator_log_lost_total",
                "Lines of the operator log that were lost.",
            )
            .sample(&[], operator_log::lost());
    }

    pub(super) fn configuration(&self, families: &mut MetricFamilies<'_>) {
        families.gauge(
            "lockgate_config_earlier_generations",
            "Earlier configurations that requests and streams still use; relays and tunnels are not counted.",
        )
        .sample(&[], self.earlier_generations() as i64);
        let Some(configuration) = self.state.file.as_deref() else {
            return;
        };
        let running = configuration.running();
        let file = configuration.file.to_string_lossy();
        let labels = [("file", &*file), ("hash", &running.hash)];
        families.gauge(
            "lockgate_config_info",
            "Always 1; the file of the running configuration, and the SHA-256 of it and of its included files.",
        )
        .sample(&labels, 1_i64);
        families
            .gauge(
                "lockgate_config_read_timestamp_seconds",
                "When the configuration that runs was read, in seconds since 1970.",
            )
            .sample(&[], seconds(running.read));
        let last = configuration.last_check();
        families
            .gauge(
                "lockgate_config_check_timestamp_seconds",
                "When the file was last checked, at start or on HUP, in seconds since 1970.",
            )
            .sample(&[], seconds(last.time));
        families
            .gauge(
                "lockgate_config_check_errors",
                "Mistakes that the last check of the file found.",
            )
            .sample(&[], i64::try_from(last.errors).unwrap_or(i64::MAX));
        families.gauge(
            "lockgate_config_differs",
            "1 when the file differed from the running configuration at its last check, else 0.",
        )
        .sample(&[], i64::from(last.differs));
        let reloads = configuration.reloads();
        let mut family = families.counter(
            "lockgate_config_reloads_total",
            "Reloads of the configuration, by result: one that fails changes nothing.",
        );
        family.sample(&[("result", "success")], reloads.succeeded);
        family.sample(&[("result", "failure")], reloads.failed);
        families
            .gauge(
                "lockgate_config_last_reload_successful",
                "1 when the last reload succeeded, or there was none since the start, else 0.",
            )
            .sample(&[], i64::from(reloads.last_succeeded));
        families
            .gauge(
                "lockgate_config_last_reload_success_timestamp_seconds",
                "When a reload, or the start, last succeeded, in seconds since 1970.",
            )
            .sample(&[], seconds(reloads.success));
    }

    fn sockets(&self, families: &mut MetricFamilies<'_>) {
        let sockets = &self.state.shared.sockets;
        let (open, idle) = (sockets.open() as i64, sockets.idle() as i64);
        let mut family = families.gauge(
            "lockgate_upstream_sockets",
            "Sockets towards endpoints, in use or idle. Idle ones are closed when others are needed.",
        );
        family.sample(&[("state", "used")], (open - idle).max(0));
        family.sample(&[("state", "idle")], idle);
        families
            .gauge(
                "lockgate_upstream_sockets_limit",
                "The limit of sockets towards endpoints.",
            )
            .sample(&[], sockets.size() as i64);
        families
            .gauge(
                "lockgate_upstream_sockets_waiting",
                "Requests and relays that wait for a socket towards an endpoint.",
            )
            .sample(&[], sockets.waiting() as i64);
        let [places, shares] = sockets.waited();
        let mut family = families.counter(
            "lockgate_upstream_sockets_waited_total",
            "Requests and relays that had to wait for a socket, because there was none (limit) or because their client used its whole share (share).",
        );
        family.sample(&[("reason", "limit")], places);
        family.sample(&[("reason", "share")], shares);
        families
            .counter(
                "lockgate_upstream_sockets_evicted_total",
                "Idle sockets towards endpoints that were closed because others were needed.",
            )
            .sample(&[], sockets.gave_way());
        families
            .counter(
                "lockgate_upstream_sockets_preempted_total",
                "Stalled exchanges that were ended because others needed their sockets.",
            )
            .sample(&[], sockets.preempted());
    }
}

/// The CPU time of the process since its start, ended threads included.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn memory(families: &mut MetricFamilies<'_>) {
    let budget = counted::process();
    if let Some(limit) = budget.limit() {
        families
            .gauge(
                "lockgate_memory_limit_bytes",
                "The memory limit of the process.",
            )
            .sample(&[], limit as i64);
    }
    let mut family = families.gauge(
        "lockgate_memory_bytes",
        "Memory in use by kind: allocations, zstd's contexts, an estimate of the kernel's buffers, and the measured rest.",
    );
    for (kind, name) in MemoryKind::ALL {
        family.sample(&[("kind", name)], budget.used(kind) as i64);
    }
    family.sample(&[("kind", "surplus")], budget.surplus() as i64);
    families
        .gauge(
            "lockgate_memory_level",
            "0 with enough memory, 1 while it is scarce, 2 while it is full.",
        )
        .sample(&[], budget.level() as i64);
}
