//! What a configuration says of routes and pools, in the one form that is checked and that runs.
//!
//! Words without IO and without TOML. `lockgate-config` builds these values from what was written,
//! with the parsers here; `lockgate-proxy` runs them as they are. What must be opened, resolved or
//! counted first (files, pools, buckets) is no rule.
//!
//! # Layout
//! - [`pattern`], [`template`]: paths, and texts with placeholders; the parsers of both.
//! - [`target`], [`headers`]: what a route changes of requests and responses.
//! - [`fixed_response`], [`redirect_map`]: what it answers itself.
//! - [`caching`], [`compression`], [`cors`]: what clients may do with responses.
//! - [`pool`]: how endpoints are kept, tried again, waited for and left alone.
//! - [`host_pattern`], [`network`], [`target_rule`]: hosts, networks, and where tunnels may lead.
//! - [`limits`]: what clients are held to.
//! - [`proxy_header`], [`site_log`]: what listeners expect and endpoints are sent; where lines go.
//! - [`media_range`], [`media_types`]: rules by media type, and the media types of files.
//! - [`client_address`]: the address that rules take a client by.

#![forbid(unsafe_code)]

pub mod caching;
pub mod client_address;
pub mod compression;
pub mod cors;
pub mod fixed_response;
pub mod headers;
pub mod host_pattern;
pub mod limits;
pub mod media_range;
pub mod media_types;
pub mod network;
pub mod pattern;
pub mod pool;
pub mod proxy_header;
pub mod redirect_map;
pub mod site_log;
pub mod target;
pub mod target_rule;
pub mod template;

pub use caching::Caching;
pub use client_address::ClientAddress;
pub use compression::Compression;
pub use cors::{Cors, Origin, Origins};
pub use fixed_response::FixedResponse;
pub use headers::{HeaderError, HeaderOp, HeaderRule, HeaderRules};
pub use host_pattern::HostPattern;
pub use limits::{Allowance, Directions, Http2, LimitScope, MinRates, RateLimit, ShapeRates};
pub use lockgate_content::coding::Coding;
pub use media_range::MediaRange;
pub use media_types::FileTypes;
pub use network::Cidr;
pub use pattern::{PathKey, Pattern, PatternError, Segment};
pub use pool::{Eject, HashKey, IdleSettings, Queue, Retry, ServerErrors};
pub use proxy_header::{AcceptProxy, ProxyVersion, SentHeader};
pub use redirect_map::RedirectMap;
pub use site_log::SiteLog;
pub use target::TargetRewrite;
pub use target_rule::{TargetName, TargetRule};
pub use template::{Purpose, RequestValues, Template, TemplateError};
