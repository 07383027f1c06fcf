//! The keys about what is put into bodies as they are sent.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::MediaRange;

use crate::model::HttpUrl;
use crate::values::*;

use super::Unset::{Absent, Required};
use super::{Defaulted, Key, Names, Row};

const RULE_LIST: List<TableOf> = List {
    of: TableOf(rule::ALL),
    least: 1,
};

const BESIDE_WITH: &str = r#"with = "b""#;
const BESIDE_SELECT: &str = r#"select = "head""#;

pub(crate) const REWRITE_BODY: Defaulted<Form<Option<Items<Table>>>> = Key::defaulted(
    "rewrite_body",
    &Short { short: Unless(False, RULE_LIST), long: TableOf(rewrite_body::ALL) },
    "false",
    r#"[{ text = "{{user}}", with = "{client}" }, { select = "head", append = "<meta name=id content='{id}'>" }]"#,
    "What is changed in the bodies of answers as they are sent; the short form is the value of `rules`. First selectors \
     act on the page as it came, then texts and patterns in one pass over what is left of it; what a rule has put in is \
     not changed by another. Length, `ETag`, ranges and `Content-Encoding` are those of what is sent.",
)
.inside(r#"rules = [{ text = "a", with = "b" }]"#);

table! {
    /// `rewrite_body`, as a table.
    mod rewrite_body;

    const RULES: Key<Items<Table>> = Key::new(
        "rules",
        &RULE_LIST,
        Required,
        r#"[{ regex = "v[0-9]+", with = "v2" }]"#,
        "The rules. Each has one of `text`, `regex` and `select`.",
    );

    const TYPES: Defaulted<Items<MediaRange>> = Key::defaulted(
        "types",
        &List { of: Media, least: 1 },
        r#"["text/html"]"#,
        r#"["text/html", "application/json"]"#,
        "The media types that are changed; all others are sent as they are. Selectors act in `text/html` only. Of an answer \
         that comes bit by bit, what may still become a match waits: about as many bytes as the longest `text` has, and up to \
         24 KB with a `regex` whose matches may be long, so such rules do not fit `text/event-stream`.",
    );

    const MAX: Defaulted<u64> = Key::defaulted(
        "max",
        &Size { min: 1_000, max: 1 << 40 },
        r#""16MB""#,
        r#""1MB""#,
        "The longest body that may come out; one that grows beyond it is broken off.",
    );
}

table! {
    /// A rule of `rewrite_body`.
    mod rule;

    const TEXT: Key<String> = Key::new(
        "text",
        &Body,
        Absent("`regex` or `select`"),
        r#""@version@""#,
        "A text that is replaced wherever it stands. Upper and lower case differ.",
    )
    .with(BESIDE_WITH);

    const REGEX: Key<String> = Key::new(
        "regex",
        &Body,
        Absent("`text` or `select`"),
        r#""(?i)colou?r""#,
        "A regular expression, in the syntax of the `regex` crate, that is replaced wherever it matches. In `with`, `$1` and \
         `${name}` are what its groups matched, and `$$` is a dollar.",
    )
    .with(BESIDE_WITH);

    const WITH: Key<String> = Key::new(
        "with",
        &Body,
        Absent("an operation of `select`"),
        r#""{value:version}""#,
        "What stands there instead, beside `text` or `regex`. The placeholders of `respond` are replaced, and `{time}` (of the \
         request, in UTC, as `2026-05-04T12:30:00Z`), `{counter}` (of this route, one more for each request) and `{value:NAME}` \
         (of `[values.NAME]`). What a request brings is escaped, so that it cannot become a tag, end an attribute in quotes or end a string of \
         JSON and JavaScript. That does not help inside `<script>` and `<style>`, in an attribute that is code (`onclick`, \
         `style`), in a tag without quotes, or where it would choose a URL's scheme or host (`href='{path}'`, `src='/{*}'`): \
         a rule that shows such a place itself is an error. One that only matches there cannot be told: do not write it. \
         `{value:NAME}` is put in as it is.",
    )
    .with(r#"text = "@version@""#)
    .atop("values.version.file = \"/etc/version\"");

    const SELECT: Key<String> = Key::new(
        "select",
        &Body,
        Absent("`text` or `regex`"),
        r#""nav > a[href='/']""#,
        "A CSS selector (types, classes, ids, attributes, `:not`, `:nth-child`, `:nth-of-type`, children, descendants) of the \
         elements to which one operation is done: `append`, `prepend`, `before`, `after`, `replace`, `inner`, `remove` or \
         `set`. What is put in is HTML with the placeholders of `with`; inside `<script>` and `<style>` those of the request \
         are left out. Elements are those whose tags are written in the page: a `<head>` that is left out is not found.",
    )
    .with("remove = true");

    const APPEND: Key<String> = Key::new(
        "append",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "Put in at the end of the element, right before its end tag; nothing happens where that is left out, as with most `<p>` and `<li>`.",
    )
    .with(BESIDE_SELECT);

    const PREPEND: Key<String> = Key::new(
        "prepend",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "Put in at its beginning.",
    )
    .with(BESIDE_SELECT);

    const BEFORE: Key<String> = Key::new(
        "before",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "Put in before it.",
    )
    .with(BESIDE_SELECT);

    const AFTER: Key<String> = Key::new(
        "after",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "Put in behind its end tag; nothing happens where that is left out.",
    )
    .with(BESIDE_SELECT);

    const REPLACE: Key<String> = Key::new(
        "replace",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "Put in its place.",
    )
    .with(BESIDE_SELECT);

    const INNER: Key<String> = Key::new(
        "inner",
        &Body,
        Absent("another operation"),
        r#""{client}""#,
        "Put in the place of what is in it.",
    )
    .with(BESIDE_SELECT);

    const REMOVE: Defaulted<bool> = Key::defaulted(
        "remove",
        &Flag,
        "false",
        "true",
        "Takes it out, with all that is in it.",
    )
    .with(BESIDE_SELECT);

    const SET: Key<MapOf<Option<String>>> = Key::new(
        "set",
        &Map { names: Names::Attributes, of: Unless(False, Body), beside: &[] },
        Absent("another operation"),
        r#"{ nonce = "{id}", onload = false }"#,
        "Attributes that it gets; `false` takes one away.",
    )
    .with(BESIDE_SELECT);
}

table! {
    /// `[values.NAME]`.
    mod value;

    const FILE: Key<PathBuf> = Key::new(
        "file",
        &FilePath,
        Absent("`url`"),
        r#""/etc/version""#,
        "A file whose text it is, without its last line break.",
    );

    const URL: Key<HttpUrl> = Key::new(
        "url",
        &PlainUrl,
        Absent("`file`"),
        r#""http://127.0.0.1:9000/motd""#,
        "A URL of plain HTTP whose body it is, without its last line break. An answer that is not 200 changes nothing.",
    );

    const EVERY: Defaulted<Duration> = Key::defaulted(
        "every",
        &Time { min: 1_000 },
        r#""10s""#,
        r#""1m""#,
        "How often it is looked for anew. What cannot be had, or is longer than 64 KB, leaves the last one in place; an answer has 5 seconds.",
    )
    .with(r#"file = "/etc/version""#);

    const DEFAULT: Key<String> = Key::new(
        "default",
        &Line,
        Absent("nothing"),
        r#""1.0""#,
        "What it is until it was had once.",
    )
    .with(r#"file = "/etc/version""#);
}
