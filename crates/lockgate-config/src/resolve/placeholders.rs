//! Placeholders in redirects, rewrites, bodies and fields: which ones stand for something, and where.

use crate::codes::Code;
use crate::pattern::{Pattern, is_param};
use crate::place::At;

use super::Resolver;

/// What every request has.
const REQUEST: [&str; 3] = ["host", "path", "query"];
/// What can stand in a text besides, but not in a URL.
const TEXT: [&str; 4] = ["client", "scheme", "method", "id"];

impl Resolver<'_> {
    /// Every `{…}` of a target must stand for something: braces do not stand in URLs.
    pub(super) fn target(&mut self, text: &str, at: &At, pattern: &Pattern, route: &At) -> bool {
        self.placed(text, at, pattern, route, &REQUEST)
    }

    /// The same where only `always` stands for something, besides what the pattern brings.
    pub(super) fn placed(
        &mut self,
        text: &str,
        at: &At,
        pattern: &Pattern,
        route: &At,
        always: &[&str],
    ) -> bool {
        let mut whole = true;
        for found in braces(text) {
            let (name, why) = match found {
                Brace::Open => ("{", "the closing brace is missing"),
                Brace::Named("*") if pattern.has_tail() => continue,
                Brace::Named("*") => ("{*}", "the path has no `*`"),
                Brace::Named(name) if always.contains(&name) => continue,
                Brace::Named(name) if pattern.params().any(|param| param == name) => continue,
                Brace::Named(name) if REQUEST.contains(&name) => (name, "it may lead anywhere"),
                Brace::Named(name) => (name, "the path has no such parameter"),
            };
            whole = false;
            if self.warned(Code::BadPlaceholder, at) {
                continue;
            }
            let shown =
                if at.text().contains(name) { format!("`{name}`") } else { "a placeholder".to_owned() };
            let message = format!("{shown} stands for nothing here");
            let cure = format!("write {}", known(pattern, always));
            let pair = (route, "for this path");
            if route.rank() == at.rank() {
                self.report.push_at(Code::BadPlaceholder, at, message, why, cure);
            } else {
                self.report.push_pair(Code::BadPlaceholder, at, (message, why, cure), pair);
            }
        }
        whole
    }

    /// In other texts braces may mean themselves; what looks like a placeholder and is none is told.
    pub(super) fn text(&mut self, text: &str, at: &At, pattern: &Pattern) {
        self.text_with(text, at, pattern, &[]);
    }

    /// The same where `besides` stand for something, too.
    pub(super) fn text_with(&mut self, text: &str, at: &At, pattern: &Pattern, besides: &[&str]) {
        let all = [REQUEST.as_slice(), &TEXT, besides].concat();
        for found in braces(text) {
            let Brace::Named(name) = found else { continue };
            let known_here = all.contains(&name)
                || name == "*" && pattern.has_tail()
                || pattern.params().any(|param| param == name);
            let looks = name == "*" || is_param(name) && !name.starts_with(|c: char| c.is_ascii_digit());
            if known_here || !looks || self.warned(Code::LeftAsItIs, at) || !at.text().contains(name) {
                continue;
            }
            let message = format!("`{{{name}}}` is kept as text");
            let cure = format!("the placeholders here are {}", known(pattern, &all));
            self.report.push_at(Code::LeftAsItIs, at, message, "it is no placeholder", cure);
        }
    }
}

enum Brace<'a> {
    Named(&'a str),
    /// Without an end.
    Open,
}

fn braces(text: &str) -> impl Iterator<Item = Brace<'_>> {
    text.split('{').skip(1).map(|after| match after.split_once('}') {
        Some((name, _)) => Brace::Named(name),
        None => Brace::Open,
    })
}

fn known(pattern: &Pattern, always: &[&str]) -> String {
    let tail = pattern.has_tail().then_some("*");
    let names = tail.into_iter().chain(pattern.params()).chain(always.iter().copied());
    names.map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ")
}
