//! Files that a route serves.

use std::path::PathBuf;

use lockgate_rules::{FileTypes, Template};

use crate::source::SourceSpan;

/// The files of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticFiles {
    /// The folder, absolute, not opened yet.
    pub root: PathBuf,
    /// The place of `root`, for mistakes that are found later.
    pub at: SourceSpan,
    /// Names that stand for their folder, best first, each without a `/`; empty is none.
    pub index: Vec<String>,
    /// Whether `/post` is answered with `post.html`.
    pub clean_urls: bool,
    /// Paths that are looked for, in this order; one that ends in `/` is a folder. Empty is the
    /// path of the request. Never beside `fallback`.
    pub attempts: Vec<Template>,
    /// The file that is sent with 200 for what is not there; it begins with `/` and has no dot
    /// segment.
    pub fallback: Option<String>,
    /// The file that is sent with 404 for what is not there; as `fallback`.
    pub not_found: Option<String>,
    /// Whether folders without an index are listed.
    pub listing: bool,
    /// Whether names that begin with a dot are served, all but `.well-known`, which always is.
    pub hidden: bool,
    /// Which symbolic links are followed.
    pub symlinks: SymlinkRule,
    /// Media types over the well-known ones.
    pub types: FileTypes,
    /// The `charset` of text, a token.
    pub charset: Option<String>,
    /// Whether `.zst`, `.br` and `.gz` siblings are sent.
    pub precompressed: bool,
}

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkRule {
    /// Those that lead to a place inside of the root.
    Inside,
    /// All links, wherever they lead.
    Follow,
}
