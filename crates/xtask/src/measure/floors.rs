//! Floors: a crate depends only on crates of lower floors, and a top-level module imports only from
//! modules of lower floors. Within a floor nothing is imported.
//!
//! Which dependencies a crate must not have for other reasons, `tests/it/tidy.rs` says.

use super::imports;
use super::sources::{Crate, SourceFile};

/// Names by floor, the lowest first.
pub(super) type Floors = [&'static [&'static str]];

/// The crates, but for the testkit and this one.
const CRATES: &Floors = &[
    &["lockgate-content", "lockgate-http", "lockgate-metrics"],
    &["lockgate-rules"],
    &[
        "lockgate-config",
        "lockgate-export",
        "lockgate-import",
        "lockgate-net",
    ],
    &[
        "lockgate-client",
        "lockgate-http-io",
        "lockgate-limits",
        "lockgate-load",
    ],
    &["lockgate-dns", "lockgate-report", "lockgate-upstream"],
    &[
        "lockgate-certs",
        "lockgate-compare",
        "lockgate-ddns",
        "lockgate-proxy",
    ],
    &["lockgate"],
];

/// The top-level modules of the crates that have floors.
const MODULES: [(&str, &Floors); 4] = [
    (
        "lockgate-http-io",
        &[&["body"], &["message"], &["h1"], &["h2"]],
    ),
    (
        "lockgate-limits",
        &[
            &["box_future", "index", "sharded_table"],
            &["member_set", "process_limit"],
            &["clients"],
            &["clock", "handshakes"],
            &["connections", "memory", "preemption", "sockets"],
        ],
    ),
    (
        "lockgate-upstream",
        &[
            &[
                "administration",
                "connection_usage",
                "dial_error",
                "endpoint_limit",
                "endpoint_name",
                "health",
                "latency",
                "notice",
                "outlier_detection",
                "preference",
                "random",
                "sessions",
                "upstream_buffers",
                "upstream_connection",
                "wait_budget",
            ],
            &["sticky", "worker_sockets"],
            &["affinity", "endpoint"],
            &["balance", "settings"],
            &["pool"],
            &["forecast", "h2_pool", "pool_succession", "reports"],
            &["lease_request", "upstream_pool"],
            &["lease"],
            &["private_connections"],
        ],
    ),
    (
        "lockgate-proxy",
        &[
            &[
                "admit",
                "escape",
                "request_id",
                "request_traces",
                "route",
                "shaping",
                "top_requests",
                "transform",
            ],
            &["access_log", "files", "pump", "spans"],
            &["error_response"],
            &["metrics", "rules"],
            &["generation"],
            &["worker"],
            &["exchange"],
            &["action"],
            &["site"],
            &["downstream"],
        ],
    ),
];

/// What breaks the floors of a crate, a line each: dependencies, imports, and names that have no
/// floor.
pub(super) fn breaches(source: &Crate) -> Vec<String> {
    let mut found = dependency_breaches(CRATES, source);
    if let Some((_, floors)) = MODULES.iter().find(|(name, _)| *name == source.name) {
        found.extend(import_breaches(floors, &source.files));
    }
    found
}

/// The dependencies of a crate on crates that are not on a lower floor.
pub(super) fn dependency_breaches(floors: &Floors, source: &Crate) -> Vec<String> {
    let Some(floor) = floor_of(floors, &source.name) else {
        return vec![format!("{}: the crate has no floor", source.manifest)];
    };
    let mut found = Vec::new();
    for dependency in &source.dependencies {
        if let Some(other) = floor_of(floors, &dependency.name)
            && other >= floor
        {
            found.push(format!(
                "{}:{}: {} is on floor {other}, {} on floor {floor}",
                source.manifest, dependency.line, dependency.name, source.name
            ));
        }
    }
    found
}

/// The imports of a crate from modules that are not on a lower floor, and its modules and floors
/// that lack each other.
pub(super) fn import_breaches(floors: &Floors, files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    // The root of a crate has no floor: it holds no code.
    let module = |file: &SourceFile| file.module.first().cloned();
    for file in files {
        if let [name] = file.module.as_slice()
            && floor_of(floors, name).is_none()
        {
            found.push(format!("{}: the module {name} has no floor", file.path));
        }
    }
    for name in floors.iter().copied().flatten() {
        if !files
            .iter()
            .any(|file| module(file).as_deref() == Some(*name))
        {
            found.push(format!("there is a floor for {name}, and no such module"));
        }
    }
    for import in imports::imports(files) {
        let (from, to) = (&files[import.from], &files[import.to]);
        let (Some(importer), Some(imported)) = (module(from), module(to)) else {
            continue;
        };
        if importer == imported {
            continue;
        }
        if let (Some(floor), Some(other)) =
            (floor_of(floors, &importer), floor_of(floors, &imported))
            && other >= floor
        {
            found.push(format!(
                "{}:{}: {}: {imported} is on floor {other}, {importer} on floor {floor}",
                from.path, import.line, import.path
            ));
        }
    }
    found
}

/// The floor of a crate or module, from 1.
fn floor_of(floors: &Floors, name: &str) -> Option<usize> {
    let floor = floors.iter().position(|floor| floor.contains(&name))?;
    Some(floor + 1)
}
