//! What is changed of a request or an answer on its way, without IO: targets, fields, and what answers say of where
//! things are.
//!
//! # Layout
//! - [`template`]: texts with placeholders.
//! - [`target`]: the target that goes to the origin.
//! - [`headers`]: fields that are set, added and removed.
//! - [`location`]: the origin's URLs and cookie paths, as the client must see them.

pub mod headers;
pub mod location;
pub mod target;
pub mod template;

pub use headers::{HeaderError, HeaderOp, HeaderRule, HeaderRules};
pub use location::{Origin, Public};
pub use target::TargetRewrite;
pub use template::{Purpose, Template, TemplateError, Values};
