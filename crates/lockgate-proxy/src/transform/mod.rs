//! What is changed of a request or an answer on its way, without IO: targets, fields, and what answers say of where
//! things are.
//!
//! # Layout
//! - [`template`]: texts with placeholders.
//! - [`target`]: the target that goes to the origin.
//! - [`headers`]: fields that are set, added and removed.
//! - [`compress`], [`media_range`]: which answers are compressed.
//! - [`encoded`]: a body that is compressed as it comes.
//! - [`caching`]: how long they may be kept.
//! - [`cors`]: whose pages may read them.
//! - [`location`]: the origin's URLs and cookie paths, as the client must see them.

pub mod caching;
pub mod compress;
pub mod cors;
pub mod encoded;
pub mod headers;
pub mod location;
pub mod media_range;
pub mod target;
pub mod template;

pub use caching::Caching;
pub use compress::Compress;
pub use cors::Cors;
pub use headers::{HeaderError, HeaderOp, HeaderRule, HeaderRules};
pub use location::{Origin, Public};
pub use media_range::MediaRange;
pub use target::TargetRewrite;
pub use template::{Purpose, Template, TemplateError, Values};
