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
    /// The index files, in order of preference, without `/`; empty is none.
    pub index: Vec<String>,
    /// Whether `/post` is answered with `post.html`.
    pub clean_urls: bool,
    /// Paths to try in this order; one that ends in `/` is a folder. Empty stands for the request
    /// path. Never set together with `fallback`.
    pub attempts: Vec<Template>,
    /// The file that is sent with 200 instead of a missing one; begins with `/` and has no dot
    /// segment.
    pub fallback: Option<String>,
    /// The file that is sent with 404 instead of a missing one; in the form of `fallback`.
    pub not_found: Option<String>,
    /// Whether folders without an index are listed.
    pub listing: bool,
    /// Whether names that begin with a dot are served; `.well-known` always is.
    pub hidden: bool,
    /// The symbolic links that are followed.
    pub symlinks: SymlinkRule,
    /// Media types that override the well-known ones.
    pub types: FileTypes,
    /// The `charset` of text, a token.
    pub charset: Option<String>,
    /// Whether `.zst`, `.br` and `.gz` siblings are sent.
    pub precompressed: bool,
}

/// The symbolic links that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkRule {
    /// Links to a target inside the root.
    Inside,
    /// All links.
    Follow,
}
