//! A directory as a page, as JSON or as lines: pure text from names.

use std::cmp::Ordering;

use lockgate_http::date;
use lockgate_net::files::{DirectoryEntry, FileKind};

use crate::error_response::BodyFormat;
use crate::escape;
use crate::files::resolve::escaped;

/// Names that one listing has; what is behind them is only counted.
pub(super) const MOST: usize = 10_000;

/// The order of a listing, from its query: `?sort=size&order=desc`. Directories are first in any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ListingOrder {
    by: SortKey,
    descending: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SortKey {
    Name,
    Size,
    Time,
}

impl ListingOrder {
    /// The order that a query asks for; an unknown one is by name.
    pub(super) fn of(query: &[u8]) -> Self {
        let value = |name: &[u8]| {
            query
                .split(|byte| *byte == b'&')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
        };
        let by = match value(b"sort") {
            Some(b"size") => SortKey::Size,
            Some(b"time") => SortKey::Time,
            _ => SortKey::Name,
        };
        Self {
            by,
            descending: value(b"order") == Some(b"desc"),
        }
    }

    pub(super) fn sort(self, entries: &mut [DirectoryEntry]) {
        entries.sort_unstable_by(|a, b| self.compare(a, b));
    }

    fn compare(self, a: &DirectoryEntry, b: &DirectoryEntry) -> Ordering {
        let first = |entry: &DirectoryEntry| entry.kind != FileKind::Directory;
        let inner = match self.by {
            SortKey::Name => a.name.cmp(&b.name),
            SortKey::Size => a.size.cmp(&b.size),
            SortKey::Time => a.modified.cmp(&b.modified),
        };
        let inner = inner.then_with(|| a.name.cmp(&b.name));
        first(a).cmp(&first(b)).then(if self.descending {
            inner.reverse()
        } else {
            inner
        })
    }
}

/// The entries of a directory, to be written in one of the formats.
#[derive(Debug)]
pub(super) struct DirectoryListing<'a> {
    /// The path as it was asked for, decoded.
    pub(super) path: &'a [u8],
    /// In this order.
    pub(super) entries: &'a [DirectoryEntry],
    /// The number of names beside these.
    pub(super) more: usize,
    pub(super) order: ListingOrder,
}

impl DirectoryListing<'_> {
    /// Writes it.
    pub(super) fn write(&self, form: BodyFormat, out: &mut Vec<u8>) {
        match form {
            BodyFormat::Html => self.html(out),
            BodyFormat::Json => self.json(out),
            BodyFormat::Text => self.text(out),
        }
    }

    fn text(&self, out: &mut Vec<u8>) {
        for entry in self.entries {
            out.extend_from_slice(&escaped(&entry.name));
            out.extend_from_slice(if entry.kind == FileKind::Directory {
                b"/\n"
            } else {
                b"\n"
            });
        }
        if self.more > 0 {
            out.extend_from_slice(format!("# and {} more\n", self.more).as_bytes());
        }
    }

    fn json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"[");
        for (index, entry) in self.entries.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
            let kind = if entry.kind == FileKind::Directory {
                "directory"
            } else {
                "file"
            };
            out.extend_from_slice(b"{\"name\":\"");
            escape::json_inside(out, &entry.name);
            let url = escaped(&entry.name);
            let slash = if entry.kind == FileKind::Directory {
                "/"
            } else {
                ""
            };
            out.extend_from_slice(format!("\",\"type\":\"{kind}\",\"url\":\"./").as_bytes());
            escape::json_inside(out, &url);
            out.extend_from_slice(slash.as_bytes());
            out.extend_from_slice(b"\",\"modified\":\"");
            out.extend_from_slice(&modified(entry));
            out.extend_from_slice(b"\"");
            if entry.kind == FileKind::File {
                out.extend_from_slice(format!(",\"size\":{}", entry.size).as_bytes());
            }
            out.extend_from_slice(b"}");
        }
        out.extend_from_slice(b"\n]\n");
    }

    fn html(&self, out: &mut Vec<u8>) {
        let path = String::from_utf8_lossy(self.path);
        out.extend_from_slice(b"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
        escape::html(out, &path);
        out.extend_from_slice(STYLE.as_bytes());
        out.extend_from_slice(b"<h1>");
        escape::html(out, &path);
        out.extend_from_slice(b"</h1>\n<table>\n<tr>");
        for (by, name, title) in [
            (SortKey::Name, "name", "Name"),
            (SortKey::Size, "size", "Size"),
            (SortKey::Time, "time", "Changed"),
        ] {
            // The one that it is sorted by turns it around.
            let order = if self.order.by == by && !self.order.descending {
                "&amp;order=desc"
            } else {
                ""
            };
            out.extend_from_slice(
                format!("<th><a href=\"?sort={name}{order}\">{title}</a>").as_bytes(),
            );
        }
        out.extend_from_slice(b"\n");
        if self.path != b"/" {
            out.extend_from_slice(b"<tr><td><a href=\"../\">../</a><td><td>\n");
        }
        for entry in self.entries {
            let slash = if entry.kind == FileKind::Directory {
                "/"
            } else {
                ""
            };
            // Behind "./" a name with a colon is no scheme (RFC 3986 §4.2).
            out.extend_from_slice(b"<tr><td><a href=\"./");
            escape::html(out, &String::from_utf8_lossy(&escaped(&entry.name)));
            out.extend_from_slice(format!("{slash}\">").as_bytes());
            escape::html(out, &String::from_utf8_lossy(&entry.name));
            out.extend_from_slice(format!("{slash}</a><td>").as_bytes());
            if entry.kind == FileKind::File {
                out.extend_from_slice(entry.size.to_string().as_bytes());
            }
            out.extend_from_slice(b"<td>");
            out.extend_from_slice(&modified(entry));
            out.extend_from_slice(b"\n");
        }
        out.extend_from_slice(b"</table>\n");
        if self.more > 0 {
            out.extend_from_slice(format!("<p>and {} more\n", self.more).as_bytes());
        }
        out.extend_from_slice(b"</body></html>\n");
    }
}

const STYLE: &str = "</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.2rem; overflow-wrap: anywhere }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums }
th { text-align: left }
td, th { padding: .15rem .5rem; border-bottom: 1px solid #8884; overflow-wrap: anywhere }
td:nth-child(2), th:nth-child(2) { text-align: right; white-space: nowrap }
td:nth-child(3) { white-space: nowrap }
</style></head><body>
";

fn modified(entry: &DirectoryEntry) -> [u8; date::LENGTH] {
    date::imf_fixdate(u64::try_from(entry.modified).unwrap_or(0))
}
