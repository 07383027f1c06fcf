//! The live page: its document, its style and its program.

pub(super) const HTML: &str = include_str!("page.html");
pub(super) const STYLE: &str = include_str!("page.css");
pub(super) const PROGRAM: &str = include_str!("page.js");
