//! What is changed of bodies, and of what responses say of where things are, without IO.
//!
//! # Layout
//! - [`body`]: a body that is changed or compressed as it comes.
//! - [`rewrite`]: what is changed of bodies, and the values that each request brings.
//! - [`location`]: the origin's URLs and cookie paths, as the client must see them.

pub mod body;
pub mod location;
pub mod rewrite;

pub use location::{OriginAuthority, PublicUrl};
pub use rewrite::Rewrite;
