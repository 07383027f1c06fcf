//! Lockgate as its users see it: the real program among scripted peers, one module for each
//! capability.
//!
//! `docs` and `tidy` look at the repository instead of the program.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by a panic, also in what its cases share"
)]

mod acme;
mod admin;
mod balancing;
mod ca;
mod cert_command;
mod check_sites;
mod check_start;
mod compare;
mod dashboards;
mod ddns;
mod docs;
mod doctor;
mod exhaustion;
mod explain;
mod export;
mod files;
mod fmt;
mod forward_auth;
mod h2;
mod h2_upstream;
mod http;
mod import;
mod limits;
mod lints;
mod live_page;
mod load;
mod load_live;
mod load_page;
mod logs_and_metrics;
mod memory;
mod observe;
mod otlp;
mod plan;
mod proxy_protocol;
mod redirects;
mod relay;
mod reload;
mod request_tests;
mod run;
mod scene;
mod session_affinity;
mod shape;
mod sites;
mod sni;
mod srv_records;
mod tidy;
mod tls;
mod transform;
mod tunnel;
mod upgrade;
mod values;
