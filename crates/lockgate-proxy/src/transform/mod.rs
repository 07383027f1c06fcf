//! What is changed of a request or an answer on its way, without IO: targets, fields, and what
//! answers say of where things are.
//!
//! # Layout
//! - [`template`]: texts with placeholders.
//! - [`target`]: the target that goes to the origin.
//! - [`headers`]: fields that are set, added and removed.
//! - [`compress`], [`media_range`]: which answers are compressed.
//! - [`body`]: a body that is changed or compressed as it comes.
//! - [`rewrite`]: what is changed of bodies, and the values that each request brings.
//! - [`caching`]: how long they may be kept.
//! - [`cors`]: whose pages may read them.
//! - [`types`]: media types of a route's own.
//! - [`redirect_map`]: redirects by path, by the thousand.
//! - [`location`]: the origin's URLs and cookie paths, as the client must see them.

pub mod body;
pub mod caching;
pub mod compress;
pub mod cors;
pub mod headers;
pub mod location;
pub mod media_range;
pub mod redirect_map;
pub mod rewrite;
pub mod target;
pub mod template;
pub mod types;

pub use caching::Caching;
pub use compress::Compress;
pub use cors::Cors;
pub use headers::{HeaderError, HeaderOp, HeaderRule, HeaderRules};
pub use location::{OriginAuthority, PublicUrl};
pub use media_range::MediaRange;
pub use redirect_map::RedirectMap;
pub use rewrite::Rewrite;
pub use target::TargetRewrite;
pub use template::{Purpose, Template, TemplateError, Values};
pub use types::Types;
