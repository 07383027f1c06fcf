//! The keys of sites and paths that serve files: `root` and what belongs to it.

use std::path::PathBuf;

use crate::model::SymlinkRule;
use crate::values::*;

use super::Unset::Absent;
use super::{ConfigKey, Defaulted, MapKeys};

/// A verb without which the others change nothing.
const BESIDE: &str = r#"root = "/srv/www""#;

pub(crate) const ROOT: ConfigKey<PathBuf> = ConfigKey::new(
    "root",
    &FilePath,
    Absent("`proxy`, `redirect`, `respond`, or the action of the site"),
    r#""/srv/www""#,
    "The folder whose files answer requests. Nothing outside of it is served. The whole request \
     path is looked up in it, in a path table too; with `strip_prefix`, without the part before \
     `/*`. A missing folder is a warning, and its requests get 404 until it exists. A file without \
     read permission gets 403. Write a new file beside the old one and rename it: overwriting a \
     large file in place breaks responses that are being sent.",
);

pub(crate) const INDEX: Defaulted<Items<String>> = ConfigKey::defaulted(
    "index",
    &List {
        of: FileName,
        least: 0,
    },
    r#"["index.html"]"#,
    r#"["index.html", "index.htm"]"#,
    "The files that answer for their folder. The first one that exists is sent. `[]` has none.",
)
.with(BESIDE);

pub(crate) const CLEAN_URLS: Defaulted<bool> = ConfigKey::defaulted(
    "clean_urls",
    &Flag,
    "false",
    "true",
    "Whether `/post` is answered with `post.html`. Then `/post.html`, `/post/` and \
     `/blog/index.html` redirect to the clean paths.",
)
.with(BESIDE);

pub(crate) const TRY: ConfigKey<Items<String>> = ConfigKey::new(
    "try",
    &List {
        of: TryPath,
        least: 1,
    },
    Absent("the path of the request"),
    r#"["{path}", "/app.html"]"#,
    "Paths in `root`, tried in order; the first that exists is sent. A path that ends in `/` is a \
     folder with one of its `index` files. `{path}` is the request path, `{*}` the part that the \
     `*` of the path matched, `{id}` a parameter. Cannot be combined with `spa`.",
)
.with(BESIDE);

pub(crate) const SPA: Defaulted<Switch<String>> = ConfigKey::defaulted(
    "spa",
    &OrFlag(InsidePath),
    "false",
    r#""/app.html""#,
    "A file that is sent with 200 for paths that do not exist, for a single-page application. \
     `true` is `\"/index.html\"`. A path with a file extension, such as `/logo.png`, still gets \
     404, unless the client asks for a page (`Accept` has `text/html`).",
)
.with(BESIDE);

pub(crate) const NOT_FOUND: Defaulted<Option<String>> = ConfigKey::defaulted(
    "not_found",
    &Unless(False, InsidePath),
    "false",
    r#""/404.html""#,
    "A file in `root` that is sent with 404 for paths that do not exist.",
)
.with(BESIDE);

pub(crate) const LISTING: Defaulted<bool> = ConfigKey::defaulted(
    "listing",
    &Flag,
    "false",
    "true",
    "Whether a folder without an `index` file is answered with a list of its files: as a page, or \
     as JSON for clients whose `Accept` prefers JSON.",
)
.with(BESIDE);

pub(crate) const HIDDEN: Defaulted<bool> = ConfigKey::defaulted(
    "hidden",
    &Flag,
    "false",
    "true",
    "Whether names that begin with a dot are served. If not, they get 404, except `.well-known`.",
)
.with(BESIDE);

pub(crate) const SYMLINKS: Defaulted<SymlinkRule> = ConfigKey::defaulted(
    "symlinks",
    &Words(&[
        ("inside", SymlinkRule::Inside),
        ("follow", SymlinkRule::Follow),
    ]),
    r#""inside""#,
    r#""follow""#,
    "Which symbolic links are followed: those that lead to a place inside `root`, or all.",
)
.with(BESIDE);

pub(crate) const TYPES: Defaulted<MapOf<String>> = ConfigKey::defaulted(
    "types",
    &Map { names: MapKeys::FileTypes, of: MediaType, beside: &[] },
    "{}",
    r#"{ ".wasm" = "application/wasm", "/feed/*" = "application/rss+xml" }"#,
    "Media types of files, by file extension or by request path (`\"/x\"` or `\"/x/*\"`). They take \
     precedence over the built-in types. A path wins over an extension, and a longer path over a \
     shorter one.",
)
.with(BESIDE);

pub(crate) const CHARSET: Defaulted<Option<String>> = ConfigKey::defaulted(
    "charset",
    &Unless(False, Token),
    r#""utf-8""#,
    r#""iso-8859-1""#,
    "The `charset` of text files, unless their media type in `types` names one. `false` sends none.",
)
.with(BESIDE);

pub(crate) const PRECOMPRESSED: Defaulted<bool> = ConfigKey::defaulted(
    "precompressed",
    &Flag,
    "true",
    "false",
    "Whether `app.js.zst`, `app.js.br` or `app.js.gz` beside `app.js` is sent to clients that \
     accept it.",
)
.with(BESIDE);
