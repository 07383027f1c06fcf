//! The settings of routes and pools, in one form for the check and for the run.
//!
//! The crate does no IO and reads no TOML. `lockgate-config` parses what was written into these
//! values, with the parsers here; `lockgate-proxy` uses the values unchanged. Settings that need a
//! file, a pool or a shared counter have other types: they are built when Lockgate starts.
//!
//! # Layout
//! - [`pattern`], [`template`]: paths, and texts with placeholders; the parsers of both.
//! - [`target`], [`headers`]: changes to the target and the fields of messages.
//! - [`fixed_response`], [`redirect_map`]: responses without an endpoint or a file.
//! - [`caching`], [`compression`], [`cors`]: Cache-Control, compressed responses, cross-origin
//!   requests.
//! - [`pool`]: ejection, retries, queue and idle connections of a pool.
//! - [`host_pattern`], [`network`], [`target_rule`]: hosts, networks, and the targets of tunnels.
//! - [`limits`]: rate limits, minimum rates, bandwidth, limits of HTTP/2.
//! - [`proxy_header`], [`site_log`]: PROXY headers, and the access log of a site.
//! - [`media_range`], [`media_types`]: rules by media type, and the media types of files.
//! - [`acme`], [`certifiable`]: certificates that come by themselves, and names that can have none.
//! - [`dns_provider`]: the provider that writes records of DNS.
//! - [`dynamic_dns`]: names that are kept at the machine's address, and where that is learnt.
//! - [`export`], [`metric_names`]: the forms of metrics that are pushed, and their names.
//! - [`trace_share`]: the share of traces that is recorded.
//! - [`client_address`]: the address by which rules know a client.

#![forbid(unsafe_code)]

pub mod acme;
pub mod caching;
pub mod certifiable;
pub mod client_address;
pub mod compression;
pub mod cors;
pub mod dns_provider;
pub mod dynamic_dns;
pub mod export;
pub mod fixed_response;
pub mod headers;
pub mod host_pattern;
pub mod limits;
pub mod media_range;
pub mod media_types;
pub mod metric_names;
pub mod network;
pub mod on_demand;
pub mod pattern;
pub mod pool;
pub mod proxy_header;
pub mod redirect_map;
pub mod site_log;
pub mod target;
pub mod target_rule;
pub mod template;
pub mod trace_share;

pub use acme::{
    AcmeDirectory, AcmeSettings, CertFallback, CertIssuer, CertKeyKind, ExternalAccount,
    SecretBytes,
};
pub use caching::Caching;
pub use certifiable::{NameRefusal, public_refusal};
pub use client_address::ClientAddress;
pub use compression::Compression;
pub use cors::{Cors, Origin, Origins};
pub use dns_provider::{DnsProvider, KnownDnsProvider, SecretText};
pub use dynamic_dns::{AddressSource, DynamicDns, SourceUrl, SourceUrlError};
pub use export::{GraphiteNaming, GraphiteProtocol, MetricFilter, StatsdTags};
pub use fixed_response::FixedResponse;
pub use headers::{HeaderError, HeaderOp, HeaderRule, HeaderRules};
pub use host_pattern::HostPattern;
pub use limits::{Allowance, Directions, Http2, LimitScope, MinRates, RateLimit, ShapeRates};
pub use lockgate_content::coding::Coding;
pub use media_range::MediaRange;
pub use media_types::FileTypes;
pub use metric_names::METRIC_NAMES;
pub use network::Cidr;
pub use on_demand::OnDemand;
pub use pattern::{PathKey, Pattern, PatternError, Segment};
pub use pool::{Eject, HashKey, IdleSettings, Queue, Retry, ServerErrors};
pub use proxy_header::{AcceptProxy, ProxyVersion, SentHeader};
pub use redirect_map::RedirectMap;
pub use site_log::SiteLog;
pub use target::TargetRewrite;
pub use target_rule::{TargetName, TargetRule};
pub use template::{Purpose, RequestValues, Template, TemplateError};
pub use trace_share::TraceShare;
