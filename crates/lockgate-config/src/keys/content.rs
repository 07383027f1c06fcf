//! The keys of changes to bodies and of fetched values.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_rules::MediaRange;

use crate::model::HttpUrl;
use crate::table::CheckedTable;
use crate::values::*;

use super::Unset::{Absent, Required};
use super::{ConfigKey, Defaulted, KeyRow, MapKeys};

const RULE_LIST: List<TableOf> = List {
    of: TableOf(rule::ALL),
    least: 1,
};

const BESIDE_WITH: &str = r#"with = "b""#;
const BESIDE_SELECT: &str = r#"select = "head""#;

pub(crate) const REWRITE_BODY: Defaulted<ShortOrLong<Option<Items<CheckedTable>>>> = ConfigKey::defaulted(
    "rewrite_body",
    &Short { short: Unless(False, RULE_LIST), long: TableOf(rewrite_body::ALL) },
    "false",
    r#"[{ text = "{{user}}", with = "{client}" }, { select = "head", append = "<meta name=id content='{id}'>" }]"#,
    "Changes to response bodies while they are sent. The short form is the value of `rules`. \
     Selectors act first, on the page as it was received; then texts and patterns act in one pass \
     over the rest. Text that a rule inserts is not changed by other rules. Length, `ETag`, ranges \
     and `Content-Encoding` are those of the changed body.",
)
.inside(r#"rules = [{ text = "a", with = "b" }]"#);

table! {
    mod rewrite_body;

    const RULES: ConfigKey<Items<CheckedTable>> = ConfigKey::new(
        "rules",
        &RULE_LIST,
        Required,
        r#"[{ regex = "v[0-9]+", with = "v2" }]"#,
        "The rules. Each has one of `text`, `regex` and `select`.",
    );

    const TYPES: Defaulted<Items<MediaRange>> = ConfigKey::defaulted(
        "types",
        &List { of: Media, least: 1 },
        r#"["text/html"]"#,
        r#"["text/html", "application/json"]"#,
        "The media types that are changed. Other responses are sent unchanged. Selectors act on \
         `text/html` only. In a streamed response, bytes that may still become a match are held \
         back: about the length of the longest `text`, and up to 24 KB for a `regex` with long \
         matches. Such rules do not suit `text/event-stream`.",
    );

    const MAX: Defaulted<u64> = ConfigKey::defaulted(
        "max",
        &Size { min: 1_000, max: 1 << 40 },
        r#""16MB""#,
        r#""1MB""#,
        "The longest body after the changes. The response is cut off when it grows beyond this.",
    );
}

table! {
    /// A rule of `rewrite_body`.
    mod rule;

    const TEXT: ConfigKey<String> = ConfigKey::new(
        "text",
        &Body,
        Absent("`regex` or `select`"),
        r#""@version@""#,
        "A text that is replaced everywhere. Upper and lower case differ.",
    )
    .with(BESIDE_WITH);

    const REGEX: ConfigKey<String> = ConfigKey::new(
        "regex",
        &Body,
        Absent("`text` or `select`"),
        r#""(?i)colou?r""#,
        "A regular expression whose matches are replaced, in the syntax of the `regex` crate. In \
         `with`, `$1` and `${name}` are the groups of a match, and `$$` is a dollar sign.",
    )
    .with(BESIDE_WITH);

    const WITH: ConfigKey<String> = ConfigKey::new(
        "with",
        &Body,
        Absent("an operation of `select`"),
        r#""{value:version}""#,
        "The replacement for `text` or `regex`. It may use the placeholders of `respond`, and \
         `{time}` (of the request, in UTC, such as `2026-05-04T12:30:00Z`), `{counter}` (of this \
         route, one more for each request) and `{value:NAME}` (of `[values.NAME]`, inserted \
         unescaped).\n\n\
         Text from the request is escaped, so that it cannot become a tag, end a quoted attribute, \
         or end a JSON or JavaScript string. Escaping does not help inside `<script>` and \
         `<style>`, in attributes that are code (`onclick`, `style`), in a tag without quotes, or \
         where it chooses a URL's scheme or host (`href='{path}'`, `src='/{*}'`). A rule that \
         contains such a place is an error. A rule that only matches at such a place cannot be \
         detected: do not write one.",
    )
    .with(r#"text = "@version@""#)
    .atop("values.version.file = \"/etc/version\"");

    const SELECT: ConfigKey<String> = ConfigKey::new(
        "select",
        &Body,
        Absent("`text` or `regex`"),
        r#""nav > a[href='/']""#,
        "A CSS selector of the elements that one operation changes. It may use types, classes, ids, \
         attributes, `:not`, `:nth-child`, `:nth-of-type`, children and descendants. The operation \
         is one of `append`, `prepend`, `before`, `after`, `replace`, `inner`, `remove` and `set`. \
         Inserted text is HTML with the placeholders of `with`; inside `<script>` and `<style>` \
         those of the request are left out. Only elements whose tags are in the page are found: an \
         omitted `<head>` is not.",
    )
    .with("remove = true");

    const APPEND: ConfigKey<String> = ConfigKey::new(
        "append",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "HTML to insert at the end of the element, before its end tag. An element without an end \
         tag, such as most `<p>` and `<li>`, is not changed.",
    )
    .with(BESIDE_SELECT);

    const PREPEND: ConfigKey<String> = ConfigKey::new(
        "prepend",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "HTML to insert at the beginning of the element.",
    )
    .with(BESIDE_SELECT);

    const BEFORE: ConfigKey<String> = ConfigKey::new(
        "before",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "HTML to insert before the element.",
    )
    .with(BESIDE_SELECT);

    const AFTER: ConfigKey<String> = ConfigKey::new(
        "after",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "HTML to insert after the element's end tag. An element without an end tag is not changed.",
    )
    .with(BESIDE_SELECT);

    const REPLACE: ConfigKey<String> = ConfigKey::new(
        "replace",
        &Body,
        Absent("another operation"),
        r#""<p>{id}""#,
        "HTML that replaces the element.",
    )
    .with(BESIDE_SELECT);

    const INNER: ConfigKey<String> = ConfigKey::new(
        "inner",
        &Body,
        Absent("another operation"),
        r#""{client}""#,
        "HTML that replaces the content of the element.",
    )
    .with(BESIDE_SELECT);

    const REMOVE: Defaulted<bool> = ConfigKey::defaulted(
        "remove",
        &Flag,
        "false",
        "true",
        "Removes the element and its content.",
    )
    .with(BESIDE_SELECT);

    const SET: ConfigKey<MapOf<Option<String>>> = ConfigKey::new(
        "set",
        &Map { names: MapKeys::Attributes, of: Unless(False, Body), beside: &[] },
        Absent("another operation"),
        r#"{ nonce = "{id}", onload = false }"#,
        "Attributes to set on the element. `false` removes one.",
    )
    .with(BESIDE_SELECT);
}

table! {
    mod value;

    const FILE: ConfigKey<PathBuf> = ConfigKey::new(
        "file",
        &FilePath,
        Absent("`url`"),
        r#""/etc/version""#,
        "A file with the text. The last line break is dropped.",
    );

    const URL: ConfigKey<HttpUrl> = ConfigKey::new(
        "url",
        &PlainUrl,
        Absent("`file`"),
        r#""http://127.0.0.1:9000/motd""#,
        "A plain HTTP URL whose body is the text. The last line break is dropped. A response other \
         than 200 keeps the previous text.",
    );

    const EVERY: Defaulted<Duration> = ConfigKey::defaulted(
        "every",
        &Time { min: 1_000 },
        r#""10s""#,
        r#""1m""#,
        "How often the text is fetched. If a fetch fails, takes longer than 5 seconds, or returns \
         more than 64 KB, the previous text stays.",
    )
    .with(r#"file = "/etc/version""#);

    const DEFAULT: ConfigKey<String> = ConfigKey::new(
        "default",
        &SingleLine,
        Absent("an empty text"),
        r#""1.0""#,
        "The text until the first fetch has succeeded.",
    )
    .with(r#"file = "/etc/version""#);
}
