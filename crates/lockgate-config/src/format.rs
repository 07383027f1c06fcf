//! The canonical form of a configuration file: keys and tables in the order of the reference,
//! spaces, quotes, line breaks.
//!
//! Comments stay where they belong: those on lines of their own with the key or the header that
//! follows them, one at the end of a line with that line, and those at the top of the file there.
//! Tables with names of the user's own (sites, paths, pools) keep their order.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use toml_edit::{Array, DocumentMut, InlineTable, Item, Key, RawString, Table, Value};

use crate::keys::ROOT;
use crate::language::{KeyRow, Notation, find};
use crate::toml_comments::first_lost;

/// The longest line with a list on it.
const WIDTH: usize = 100;
/// The indentation of the entries of a longer list.
const INDENT: &str = "    ";

/// The keys of a table, in the order of the reference; none where they are not known.
type KnownKeys = &'static [KeyRow];

/// The text in its canonical form, which has the same meaning.
///
/// # Errors
/// When it is no TOML: the message names the line. When a value or a comment would be lost.
pub fn format(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| error.to_string())?;
    let (head, mut tails) = take_comments(&mut document);
    let end = lines(document.trailing().as_str().unwrap_or_default());
    let end = match end.iter().position(String::is_empty) {
        // What follows the last table at once belongs to it.
        Some(0) => end,
        _ if document.as_table().is_empty() => end,
        at => {
            let mut tail = end;
            let end = tail.split_off(at.unwrap_or(tail.len()));
            let last = positions(document.as_table()).into_iter().max();
            tails.entry(last).or_default().extend(tail);
            end
        }
    };
    document.set_trailing("");
    tidy_table(document.as_table_mut(), Some(ROOT), None, &mut tails);
    sort_named(document.as_table_mut(), Some(ROOT));
    let mut position = 0;
    place(document.as_table_mut(), Some(ROOT), &mut position);
    let body = document.to_string();
    let mut parts = vec![head.join("\n"), body.trim_matches('\n').to_owned()];
    parts.push(end.join("\n").trim_matches('\n').to_owned());
    parts.retain(|part| !part.is_empty());
    let mut formatted = parts.join("\n\n");
    if !formatted.is_empty() {
        formatted.push('\n');
    }
    if !is_same(text, &formatted) {
        return Err("its form cannot be changed without changing what it says".to_owned());
    }
    match first_lost(text, &formatted) {
        Some(comment) => Err(format!(
            "its form cannot be changed without losing this comment: {comment}"
        )),
        None => Ok(formatted),
    }
}

fn is_same(one: &str, other: &str) -> bool {
    let parse = |text: &str| text.parse::<toml::Table>().ok();
    let (one, other) = (parse(one), parse(other));
    one.is_some() && one == other
}

/// The comments at the end of each table, by its position; those of the keys at the top have none.
type Tails = BTreeMap<Option<isize>, Vec<String>>;

/// Takes the comments that an empty line separates from the header or the key that follows them:
/// those at the top of the file, and those at the end of each table.
fn take_comments(document: &mut DocumentMut) -> (Vec<String>, Tails) {
    let table = document.as_table_mut();
    let mut headers = positions(table);
    headers.sort_unstable();
    let mut tails = Tails::new();
    let mut before = None;
    let mut head = None;
    if let Some((key, item)) = table.iter_mut().find(|(_, item)| is_line(item)) {
        head = Some(take_from(key, item));
    }
    for position in headers {
        let decor = header_at(table, position).map(Table::decor_mut);
        let (front, rest) = split_head(decor.as_ref().and_then(|decor| decor.prefix()));
        if let Some(decor) = decor {
            decor.set_prefix(rest);
        }
        if head.is_none() {
            head = Some(front);
        } else if front.iter().any(|line| !line.is_empty()) {
            tails.insert(before, front);
        }
        before = Some(position);
    }
    (spaced(head.unwrap_or_default(), true), tails)
}

/// The positions of all headers.
fn positions(table: &Table) -> Vec<isize> {
    let of = |table: &Table| {
        let own = table
            .position()
            .filter(|_| !table.is_implicit() && !table.is_dotted());
        own.into_iter().chain(positions(table)).collect::<Vec<_>>()
    };
    let items = table.iter().map(|(_, item)| item);
    items
        .flat_map(|item| match item {
            Item::Table(table) => of(table),
            Item::ArrayOfTables(list) => list.iter().flat_map(of).collect(),
            _ => Vec::new(),
        })
        .collect()
}

/// The table with the header at a position.
fn header_at(table: &mut Table, position: isize) -> Option<&mut Table> {
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(inner) => {
                let is_it = inner.position() == Some(position) && !inner.is_implicit();
                if is_it && !inner.is_dotted() {
                    return Some(inner);
                }
                if positions(inner).contains(&position) {
                    return header_at(inner, position);
                }
            }
            Item::ArrayOfTables(list) => {
                for inner in list.iter_mut() {
                    if inner.position() == Some(position) {
                        return Some(inner);
                    }
                    if positions(inner).contains(&position) {
                        return header_at(inner, position);
                    }
                }
            }
            _ => {}
        }
    }
    None
}

fn take_from(mut key: toml_edit::KeyMut<'_>, item: &mut Item) -> Vec<String> {
    // The prefix of `a.b = 1` is that of its last key.
    if let Item::Table(inner) = item
        && let Some((key, item)) = inner.iter_mut().next()
    {
        return take_from(key, item);
    }
    let decor = key.leaf_decor_mut();
    let (head, rest) = split_head(decor.prefix());
    decor.set_prefix(rest);
    head
}

/// The comments before the last empty line, and the rest.
fn split_head(prefix: Option<&RawString>) -> (Vec<String>, String) {
    let all = lines(prefix.and_then(RawString::as_str).unwrap_or_default());
    let Some(last) = all.iter().rposition(String::is_empty) else {
        return (Vec::new(), written(&all));
    };
    (all[..last].to_vec(), written(&all[last + 1..]))
}

/// Whether an item is written on lines of its table, and not below a header of its own.
fn is_line(item: &Item) -> bool {
    match item {
        Item::Value(_) => true,
        Item::Table(table) => table.is_dotted(),
        _ => false,
    }
}

/// Orders and spaces what stands in a table; `named` are the keys of tables with names of the
/// user's own.
fn tidy_table(
    table: &mut Table,
    keys: Option<KnownKeys>,
    named: Option<KnownKeys>,
    tails: &mut Tails,
) {
    let tail = tails.remove(&table.position().filter(|_| !is_top(keys)));
    let decor = table.decor_mut();
    let before = lines(
        decor
            .prefix()
            .and_then(RawString::as_str)
            .unwrap_or_default(),
    );
    let before: Vec<_> = before.into_iter().filter(|line| !line.is_empty()).collect();
    decor.set_prefix(format!("\n{}", written(&before)));
    let comment = end_comment(decor.suffix());
    decor.set_suffix(comment);
    if let Some(keys) = keys {
        table.sort_values_by(|one, _, other, _| order(keys, one, other));
    }
    tidy_entries(table, (keys, named), true, tails);
    if let Some(tail) = tail {
        let text: String = tail.iter().map(|line| format!("\n{line}")).collect();
        add_tail(table, &text);
    }
}

/// Whether these are the keys at the top.
fn is_top(keys: Option<KnownKeys>) -> bool {
    keys.is_some_and(|keys| std::ptr::eq(keys, ROOT))
}

/// Adds comments behind the last line of a table.
fn add_tail(table: &mut Table, tail: &str) {
    let decor = match last_line(table) {
        Some(value) => value.decor_mut(),
        None => table.decor_mut(),
    };
    let line = decor.suffix().and_then(RawString::as_str);
    let line = line.unwrap_or_default().to_owned();
    decor.set_suffix(line + tail);
}

/// The value of the last line of a table.
fn last_line(table: &mut Table) -> Option<&mut Value> {
    let is_last = |(_, item): &(toml_edit::KeyMut<'_>, &mut Item)| is_line(item);
    match table.iter_mut().filter(is_last).last()?.1 {
        Item::Value(value) => Some(value),
        Item::Table(inner) => last_line(inner),
        _ => None,
    }
}

/// The entries of a table, `first` if none of its lines is written before them.
fn tidy_entries(
    table: &mut Table,
    (keys, named): (Option<KnownKeys>, Option<KnownKeys>),
    mut first: bool,
    tails: &mut Tails,
) -> bool {
    for (mut key, item) in table.iter_mut() {
        let row = keys.and_then(|keys| find(keys, key.get()));
        let inner = row.and_then(|row| row.language.table()).or(named);
        let is_named = row.is_some_and(|row| row.language.by().is_some());
        let before = key.leaf_decor().prefix().and_then(RawString::as_str);
        let before = lines(before.unwrap_or_default());
        key.fmt();
        match item {
            Item::Value(value) => {
                let before = spaced(before, first);
                key.leaf_decor_mut().set_prefix(written(&before));
                key.leaf_decor_mut().set_suffix(" ");
                let width = key.display_repr().chars().count() + " = ".len();
                tidy_line(value, row.map(|row| row.language as &dyn Notation), width);
                first = false;
            }
            Item::Table(table) if table.is_dotted() => {
                first = tidy_entries(table, (inner, None), first, tails);
            }
            Item::Table(table) if is_named => tidy_table(table, None, inner, tails),
            Item::Table(table) => tidy_table(table, inner, None, tails),
            Item::ArrayOfTables(list) => {
                let listed = row.and_then(|row| row.language.listed_table());
                for table in list.iter_mut() {
                    tidy_table(table, listed, None, tails);
                }
            }
            Item::None => {}
        }
    }
    first
}

/// Orders tables with names of the user's own by where the first header of each was.
fn sort_named(table: &mut Table, keys: Option<KnownKeys>) {
    for (key, item) in table.iter_mut() {
        let row = keys.and_then(|keys| find(keys, key.get()));
        let Item::Table(inner) = item else { continue };
        let of_inner = row.and_then(|row| row.language.table());
        if row.is_some_and(|row| row.language.by().is_some()) {
            inner
                .sort_values_by(|_, one, _, other| first_position(one).cmp(&first_position(other)));
            for (_, item) in inner.iter_mut() {
                if let Item::Table(named) = item {
                    sort_named(named, of_inner);
                }
            }
        } else {
            sort_named(inner, of_inner);
        }
    }
}

fn first_position(item: &Item) -> Option<isize> {
    match item {
        Item::Table(table) => {
            let own = table.position().filter(|_| !table.is_implicit());
            own.into_iter().chain(positions(table)).min()
        }
        _ => None,
    }
}

/// The value of a line, and the comment behind it.
fn tidy_line(value: &mut Value, language: Option<&dyn Notation>, width: usize) {
    let comment = end_comment(value.decor().suffix());
    tidy_value(value, language, width);
    value.decor_mut().set_prefix(" ");
    value.decor_mut().set_suffix(comment);
}

fn tidy_value(value: &mut Value, language: Option<&dyn Notation>, width: usize) {
    match value {
        // How a text with line breaks is written was chosen by hand.
        Value::String(text) if !text.value().contains('\n') => text.fmt(),
        Value::Array(list) => tidy_list(list, language, width),
        Value::InlineTable(table) => tidy_inline(table, language, width),
        _ => {}
    }
}

fn tidy_list(list: &mut Array, language: Option<&dyn Notation>, width: usize) {
    let of = language.and_then(Notation::entries);
    let listed = language.and_then(Notation::listed_table);
    for value in list.iter_mut() {
        match value {
            Value::InlineTable(table) => sort_inline(table, listed, width),
            value => {
                let decor = value.decor().clone();
                tidy_value(value, of, width);
                *value.decor_mut() = decor;
            }
        }
    }
    let has_comments = list.to_string().contains('#') && {
        let text = |raw: Option<&RawString>| raw.and_then(RawString::as_str).map(str::to_owned);
        let mut around = list
            .iter()
            .flat_map(|value| [text(value.decor().prefix()), text(value.decor().suffix())])
            .chain([text(Some(list.trailing()))])
            .flatten();
        around.any(|text| text.contains('#'))
    };
    if !has_comments {
        for (at, value) in list.iter_mut().enumerate() {
            value.decor_mut().set_prefix(if at == 0 { "" } else { " " });
            value.decor_mut().set_suffix("");
        }
        list.set_trailing("");
        list.set_trailing_comma(false);
        let line = list.to_string();
        if width + line.trim().chars().count() <= WIDTH && !line.trim().contains('\n') {
            return;
        }
    }
    // A comment between an entry and its comma comes behind the comma.
    let mut comment = String::new();
    for value in list.iter_mut() {
        let before = value.decor().prefix().and_then(RawString::as_str);
        let before = broken(&(comment + before.unwrap_or_default()), INDENT);
        value.decor_mut().set_prefix(before);
        let after = value.decor().suffix().and_then(RawString::as_str);
        let after = after.filter(|after| after.contains('#'));
        comment = after.unwrap_or_default().trim_end_matches('\n').to_owned();
        value.decor_mut().set_suffix("");
    }
    let end = comment + list.trailing().as_str().unwrap_or_default();
    let end = broken(&end, "");
    list.set_trailing(end);
    list.set_trailing_comma(!list.is_empty());
}

/// The space before an entry of a list over several lines: a comment behind the entry before it,
/// comments of its own, a line break.
fn broken(space: &str, indent: &str) -> String {
    let (same_line, rest) = space.split_once('\n').unwrap_or((space, ""));
    let mut text = match same_line.trim() {
        "" => String::new(),
        comment => format!(" {comment}"),
    };
    for line in rest.lines().map(str::trim).filter(|line| !line.is_empty()) {
        text += &format!("\n{INDENT}{line}");
    }
    text + "\n" + indent
}

fn tidy_inline(table: &mut InlineTable, language: Option<&dyn Notation>, width: usize) {
    sort_inline(table, language.and_then(Notation::table), width);
}

fn sort_inline(table: &mut InlineTable, keys: Option<KnownKeys>, width: usize) {
    // With comments it was laid out by hand.
    let text = table.to_string();
    if text.contains('\n') && text.contains('#') {
        return;
    }
    if let Some(keys) = keys {
        table.sort_values_by(|one, _, other, _| order(keys, one, other));
    }
    for (mut key, value) in table.iter_mut() {
        let row = keys.and_then(|keys| find(keys, key.get()));
        tidy_value(value, row.map(|row| row.language as &dyn Notation), width);
        key.fmt();
    }
    let decor = table.decor().clone();
    table.fmt();
    table.set_trailing("");
    table.set_trailing_comma(false);
    *table.decor_mut() = decor;
}

/// The order of the reference; keys that it does not have come last, as they were written.
fn order(keys: KnownKeys, one: &Key, other: &Key) -> Ordering {
    let rank = |key: &Key| {
        let place = keys.iter().position(|row| row.name == key.get());
        place.unwrap_or(usize::MAX)
    };
    rank(one).cmp(&rank(other))
}

/// Gives headers their positions: those of a table, then those in it.
fn place(table: &mut Table, keys: Option<KnownKeys>, position: &mut isize) {
    if !table.is_dotted() {
        table.set_position(Some(*position));
        *position += 1;
    }
    for (key, item) in table.iter_mut() {
        let row = keys.and_then(|keys| find(keys, key.get()));
        let inner = row.and_then(|row| row.language.table());
        match item {
            Item::Table(table) => place(table, inner, position),
            Item::ArrayOfTables(list) => {
                for table in list.iter_mut() {
                    place(table, None, position);
                }
            }
            _ => {}
        }
    }
}

/// The comments of a space, a line each, and an empty line where there were some.
fn lines(space: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut all = space.split('\n').map(str::trim).peekable();
    while let Some(line) = all.next() {
        // Behind the last line break stands what the space is before.
        if all.peek().is_none() && line.is_empty() {
            break;
        }
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) || lines.is_empty()
        {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// The same without empty lines at the beginning of a table.
fn spaced(lines: Vec<String>, first: bool) -> Vec<String> {
    let begin = lines.iter().position(|line| !line.is_empty());
    match begin {
        Some(begin) if first => lines[begin..].to_vec(),
        None if first => Vec::new(),
        _ => lines,
    }
}

fn written(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A comment at the end of a line.
fn end_comment(space: Option<&RawString>) -> String {
    let comment = space.and_then(RawString::as_str).unwrap_or_default().trim();
    if comment.is_empty() {
        String::new()
    } else {
        format!(" {comment}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn formats(text: &str, expected: &str) {
        let formatted = format(text).unwrap();
        assert_eq!(formatted, expected);
        assert_eq!(format(&formatted).as_deref(), Ok(expected), "again");
    }

    #[test]
    fn keys_and_tables_come_in_the_order_of_the_reference() {
        formats(
            "[pool.b]\nendpoints=['10.0.0.1:1']\n[site.'b.test'.path.\"/x\"]\nrespond=1\n\
             [site.'b.test']\nroot='/srv'\ntls='a.pem'\n[pool.a]\nendpoints=[]\n[site.a]\nproxy='pool:a'\n\
             [acme]\nemail='a@b.c'\n",
            "[acme]\nemail = \"a@b.c\"\n\n[site.\"b.test\"]\ntls = \"a.pem\"\nroot = \"/srv\"\n\n\
             [site.\"b.test\".path.\"/x\"]\nrespond = 1\n\n[site.a]\nproxy = \"pool:a\"\n\n\
             [pool.b]\nendpoints = [\"10.0.0.1:1\"]\n\n[pool.a]\nendpoints = []\n",
        );
        formats(
            "trusted=[ '10.0.0.0/8' ,]\nworkers   =  2\ntimeouts={idle='1m',head=\"5s\"}\nfoo=1\n",
            "workers = 2\ntrusted = [\"10.0.0.0/8\"]\ntimeouts = { head = \"5s\", idle = \"1m\" }\nfoo = 1\n",
        );
    }

    #[test]
    fn comments_stay_with_what_they_belong_to() {
        formats(
            "\n# The file.\n#:schema x\n\n\n# of metrics\nmetrics=\"127.0.0.1:1\"   # here\n  # of workers\nworkers=1\n\
             # of the site\n[site.a] # head\n\n# of the root\nroot='/srv'#r\n\n\n# floating\n\nproxy='b:1'\n# the end\n",
            "# The file.\n#:schema x\n\n# of workers\nworkers = 1\n# of metrics\nmetrics = \"127.0.0.1:1\" # here\n\n\
             # of the site\n[site.a] # head\n# floating\n\nproxy = \"b:1\"\n\n# of the root\nroot = \"/srv\" #r\n# the end\n",
        );
        formats("# only\n\n# comments", "# only\n\n# comments\n");
        formats(
            "# The file.\n\n[site.x.path.\"/y\"]\nrespond = 1\n\n[site.b]\nproxy = \"b:1\"\n\n# A\n\n# B\n[site.x]\nproxy = \"b:2\"\n",
            "# The file.\n\n# B\n[site.x]\nproxy = \"b:2\"\n\n[site.x.path.\"/y\"]\nrespond = 1\n\n[site.b]\nproxy = \"b:1\"\n\n# A\n",
        );
        formats(
            "[site.a]\nproxy = \"b:1\"\n# root = \"/srv\"\n\n[pool.p]\nendpoints = []\n[acme]\nemail = \"a@b.c\"\n# staging\n",
            "[acme]\nemail = \"a@b.c\"\n# staging\n\n[site.a]\nproxy = \"b:1\"\n# root = \"/srv\"\n\n[pool.p]\nendpoints = []\n",
        );
        formats(
            "workers = 1\n# metrics\n\n[tls] # none\n# policy\n\n[tcp.\":1\"]\nproxy = \"a:1\"\n",
            "workers = 1\n# metrics\n\n[tls] # none\n# policy\n\n[tcp.\":1\"]\nproxy = \"a:1\"\n",
        );
        formats(
            "# of the table\n[tcp.\":1\"]\nproxy='a:1'",
            "# of the table\n[tcp.\":1\"]\nproxy = \"a:1\"\n",
        );
        formats(
            "# of the file\n\n[tcp.\":1\"]\nproxy='a:1'",
            "# of the file\n\n[tcp.\":1\"]\nproxy = \"a:1\"\n",
        );
    }

    #[test]
    fn long_lists_and_lists_with_comments_have_a_line_for_each_entry() {
        let long = (0..12)
            .map(|n| format!("\"10.0.0.{n}:80\""))
            .collect::<Vec<_>>();
        formats(
            &format!("[pool.a]\nendpoints = [{}]\n", long.join(",")),
            &format!(
                "[pool.a]\nendpoints = [\n    {},\n]\n",
                long.join(",\n    ")
            ),
        );
        formats(
            "[pool.a]\nendpoints=[ 'a:1',# first\n  # of b\n 'b:1' , # second\n]\n",
            "[pool.a]\nendpoints = [\n    \"a:1\", # first\n    # of b\n    \"b:1\", # second\n]\n",
        );
        formats(
            "[pool.a]\nendpoints=[\n 'a:1' # x\n , 'b:1' # y\n]\n",
            "[pool.a]\nendpoints = [\n    \"a:1\", # x\n    \"b:1\", # y\n]\n",
        );
        formats(
            "[pool.a]\nendpoints=[\n{ weight=2,addr='a:1'},\n'b:1'\n]\n",
            "[pool.a]\nendpoints = [{ addr = \"a:1\", weight = 2 }, \"b:1\"]\n",
        );
    }

    #[test]
    fn texts_over_several_lines_and_dotted_keys_are_left_as_they_are() {
        formats(
            "[site.a]\ntimeouts . idle = '5s'\nrespond = \"\"\"\none\n  two # no comment\n\"\"\"\n",
            "[site.a]\nrespond = \"\"\"\none\n  two # no comment\n\"\"\"\ntimeouts.idle = \"5s\"\n",
        );
        formats(
            "[site.a]\nrespond = { body = \"hello\\n\", type = 'text/plain' }\n",
            "[site.a]\nrespond = { body = \"hello\\n\", type = \"text/plain\" }\n",
        );
        formats("[values.a]\nfile='C:\\x'\n", "[values.a]\nfile = 'C:\\x'\n");
    }

    #[test]
    fn tables_of_a_list_keep_their_order() {
        formats(
            "[[test]]\nexpect={status=1}\nrequest='GET http://b'\n# second\n[[test]]\nrequest='GET http://a'\n[site.a]\nproxy='b:1'\n",
            "[site.a]\nproxy = \"b:1\"\n\n[[test]]\nrequest = \"GET http://b\"\nexpect = { status = 1 }\n\n# second\n[[test]]\nrequest = \"GET http://a\"\n",
        );
    }

    #[test]
    fn a_file_that_is_no_toml_is_an_error_with_its_line() {
        let error = format("a = 1\nb = = 2\n").unwrap_err();
        assert!(error.contains("line 2"), "{error}");
        assert_eq!(format(""), Ok(String::new()));
    }
}
