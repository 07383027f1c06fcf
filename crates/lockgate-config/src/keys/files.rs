//! The keys of sites and paths that serve files: `root` and what belongs to it.

use std::path::PathBuf;

use crate::model::SymlinkRule;
use crate::values::*;

use super::Unset::Absent;
use super::{Defaulted, Key, Names};

/// A verb without which the others change nothing.
const BESIDE: &str = r#"root = "/srv/www""#;

pub(crate) const ROOT: Key<PathBuf> = Key::new(
    "root",
    &FilePath,
    Absent("`proxy`, `redirect`, `respond`, or what the site says"),
    r#""/srv/www""#,
    "Requests are answered with the files of a folder, and nothing outside of it. The whole path of the request is \
     looked for in it, also in a path table: with `strip_prefix` without what stands before `/*`. A folder that is not \
     there yet is a warning, and its requests are answered with 404 until it is; what may not be read is 403. Files are \
     best written beside and renamed: a large one that is overwritten while it is sent breaks that answer off.",
);

pub(crate) const INDEX: Defaulted<Items<String>> = Key::defaulted(
    "index",
    &List {
        of: FileName,
        least: 0,
    },
    r#"["index.html"]"#,
    r#"["index.html", "index.htm"]"#,
    "The files that stand for their folder, of which the first that exists is sent; `[]` is none.",
)
.with(BESIDE);

pub(crate) const CLEAN_URLS: Defaulted<bool> = Key::defaulted(
    "clean_urls",
    &Flag,
    "false",
    "true",
    "Whether `/post` is answered with `post.html`, and `/post.html`, `/post/` and `/blog/index.html` are redirected to \
     the paths without these endings.",
)
.with(BESIDE);

pub(crate) const TRY: Key<Items<String>> = Key::new(
    "try",
    &List { of: TryPath, least: 1 },
    Absent("the path of the request"),
    r#"["{path}", "/app.html"]"#,
    "The paths in `root` that are looked for, of which the first that exists is sent; one that ends in `/` is a folder \
     with one of its `index`. `{path}` stands for that of the request, `{*}` for what the `*` of the path matched, \
     `{id}` for a parameter. Not beside `spa`.",
)
.with(BESIDE);

pub(crate) const SPA: Defaulted<Switch<String>> = Key::defaulted(
    "spa",
    &OrFlag(InsidePath),
    "false",
    r#""/app.html""#,
    "A file that is sent, with 200, for what is not there: an application whose pages are paths in the browser only. \
     `true` is `\"/index.html\"`. A name with an ending, such as `/logo.png`, is still answered with 404, \
     unless a page is asked for (`Accept` has `text/html`).",
)
.with(BESIDE);

pub(crate) const NOT_FOUND: Defaulted<Option<String>> = Key::defaulted(
    "not_found",
    &Unless(False, InsidePath),
    "false",
    r#""/404.html""#,
    "A file in `root` that is sent, with 404, for what is not there.",
)
.with(BESIDE);

pub(crate) const LISTING: Defaulted<bool> = Key::defaulted(
    "listing",
    &Flag,
    "false",
    "true",
    "Whether a folder without any of its `index` is answered with a list of what is in it: a page, or JSON for clients \
     whose `Accept` prefers that.",
)
.with(BESIDE);

pub(crate) const HIDDEN: Defaulted<bool> = Key::defaulted(
    "hidden",
    &Flag,
    "false",
    "true",
    "Whether names that begin with a dot are served. Without, all but `.well-known` are answered with 404.",
)
.with(BESIDE);

pub(crate) const SYMLINKS: Defaulted<SymlinkRule> = Key::defaulted(
    "symlinks",
    &Words(&[("inside", SymlinkRule::Inside), ("follow", SymlinkRule::Follow)]),
    r#""inside""#,
    r#""follow""#,
    "Which symbolic links are followed: those that lead to a place inside of `root`, or all.",
)
.with(BESIDE);

pub(crate) const TYPES: Defaulted<MapOf<String>> = Key::defaulted(
    "types",
    &Map { names: Names::FileTypes, of: MediaType, beside: &[] },
    "{}",
    r#"{ ".wasm" = "application/wasm", "/feed/*" = "application/rss+xml" }"#,
    "Media types of files, by the ending of the name or by the path of the request, over the well-known ones. A path is \
     `\"/x\"` or `\"/x/*\"`; it wins over an ending, and the longer one over the shorter.",
)
.with(BESIDE);

pub(crate) const CHARSET: Defaulted<Option<String>> = Key::defaulted(
    "charset",
    &Unless(False, Token),
    r#""utf-8""#,
    r#""iso-8859-1""#,
    "The `charset` that is told with text, where its media type in `types` names none; `false` tells none.",
)
.with(BESIDE);

pub(crate) const PRECOMPRESSED: Defaulted<bool> = Key::defaulted(
    "precompressed",
    &Flag,
    "true",
    "false",
    "Whether `app.js.zst`, `app.js.br` and `app.js.gz` beside `app.js` are sent instead of it to clients that take them.",
)
.with(BESIDE);
