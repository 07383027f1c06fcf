//! Sorts directives into the order in which Caddy runs them.

use super::blocks::CaddyStatement;

/// The directives of Caddy, in the order in which they run.
const ORDER: [&str; 37] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "timeouts",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
];

/// The most statements of one name that are sorted by insertion, as in the `sort.SliceStable` of Go.
const MOST_INSERTED: usize = 20;

type CaddySortKey = Option<(usize, String, usize)>;
type CaddySorted<'a> = (usize, bool, (u8, CaddySortKey), &'a CaddyStatement);

/// Whether a statement runs before another one of the same name: one with the longer path, or one
/// with a matcher before one without. A path and another matcher are equal.
fn is_before(one: &CaddySorted<'_>, other: &CaddySorted<'_>) -> bool {
    let before = match (&one.2.1, &other.2.1) {
        (Some(path), Some(second)) => path < second,
        _ => one.2.0 < 2 && other.2.0 == 2,
    };
    before != one.1
}

/// The order of directives, with what the option `order` changes.
#[derive(Debug, Clone)]
pub(super) struct CaddyOrder {
    names: Vec<String>,
}

impl Default for CaddyOrder {
    fn default() -> Self {
        let names = ORDER.iter().chain(&["file_server", "acme_server"]);
        Self {
            names: names.map(|name| (*name).to_owned()).collect(),
        }
    }
}

impl CaddyOrder {
    /// Takes over `order NAME first|last|before OTHER|after OTHER`. Returns whether it was
    /// understood.
    pub(super) fn change(&mut self, args: &[String]) -> bool {
        let Some((name, rest)) = args.split_first() else {
            return false;
        };
        let words: Vec<&str> = rest.iter().map(String::as_str).collect();
        let mut names = self.names.clone();
        names.retain(|known| known != name);
        let at = |other: &str| names.iter().position(|known| known == other);
        let index = match words.as_slice() {
            ["first"] => Some(0),
            ["last"] => Some(names.len()),
            ["before", other] => at(other),
            ["after", other] => at(other).map(|index| index + 1),
            _ => None,
        };
        let Some(index) = index else {
            return false;
        };
        names.insert(index, name.clone());
        self.names = names;
        true
    }

    /// Whether it is a directive of HTTP that has a place in the order.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// The statements as Caddy runs them. `path_of` gives the only path that a statement's matcher
    /// has, and whether it has a matcher.
    pub(super) fn sorted<'a>(
        &self,
        statements: &'a [CaddyStatement],
        path_of: &dyn Fn(&CaddyStatement) -> (bool, Option<String>),
    ) -> Vec<&'a CaddyStatement> {
        let mut keyed: Vec<CaddySorted<'a>> = statements
            .iter()
            .map(|statement| {
                // Both kinds of `handle` have one place.
                let name = match statement.name() {
                    "handle_path" => "handle",
                    "basicauth" => "basic_auth",
                    "skip_log" => "log_skip",
                    name => name,
                };
                let position = self.names.iter().position(|known| known == name);
                let (has_matcher, path) = path_of(statement);
                let reversed = name == "vars";
                let rank = match (&path, has_matcher) {
                    (Some(path), _) => {
                        let trimmed = path.strip_suffix('*').unwrap_or(path).to_owned();
                        let key = (usize::MAX - trimmed.len(), trimmed, path.len());
                        (0, Some(key))
                    }
                    (None, true) => (1, None),
                    (None, false) => (2, None),
                };
                (position.unwrap_or(usize::MAX), reversed, rank, statement)
            })
            .collect();
        keyed.sort_by_key(|one| one.0);
        let mut from = 0;
        while from < keyed.len() {
            let position = keyed.get(from).map(|one| one.0);
            let until = keyed
                .iter()
                .skip(from)
                .position(|one| Some(one.0) != position)
                .map_or(keyed.len(), |length| from + length);
            let Some(group) = keyed.get_mut(from..until) else {
                break;
            };
            if position == Some(usize::MAX) {
            } else if group.len() > MOST_INSERTED {
                group.sort_by(|one, other| one.2.cmp(&other.2));
            } else {
                // As Caddy's own sort does it: its comparison is no total order.
                for end in 1..group.len() {
                    let mut at = end;
                    while at > 0
                        && group
                            .get(at)
                            .zip(group.get(at - 1))
                            .is_some_and(|(one, before)| is_before(one, before))
                    {
                        group.swap(at, at - 1);
                        at -= 1;
                    }
                }
            }
            from = until;
        }
        keyed.into_iter().map(|(.., statement)| statement).collect()
    }
}
