//! Placeholders in redirects, rewrites, bodies and fields: which ones stand for something, and
//! where.

use crate::codes::Code;
use crate::foreign_names::placeholders::{self, Foreign, Form};
use crate::pattern::{Pattern, is_param};
use crate::source::SourceSpan;

use super::Resolver;

/// The placeholders that every request has.
const REQUEST: [&str; 3] = ["host", "path", "query"];
/// What can stand in a text besides, but not in a URL.
const TEXT: [&str; 4] = ["client", "scheme", "method", "id"];

impl Resolver<'_> {
    /// Every `{…}` of a target must stand for something: braces do not stand in URLs.
    pub(super) fn target(
        &mut self,
        text: &str,
        at: &SourceSpan,
        pattern: &Pattern,
        route: &SourceSpan,
    ) -> bool {
        self.placed(text, at, pattern, route, &REQUEST)
    }

    /// The same where only `always` stands for something, besides what the pattern brings.
    pub(super) fn placed(
        &mut self,
        text: &str,
        at: &SourceSpan,
        pattern: &Pattern,
        route: &SourceSpan,
        always: &[&str],
    ) -> bool {
        if let Some(found) = placeholders::foreign(text) {
            self.foreign_in_target(&found, at, pattern, always);
            return false;
        }
        let mut whole = true;
        for found in braces(text) {
            let (name, why) = match found {
                Brace::Open => ("{", "the closing brace is missing"),
                Brace::Named("*") if pattern.has_tail() => continue,
                Brace::Named("*") => ("{*}", "the path has no `*`"),
                Brace::Named(name) if always.contains(&name) => continue,
                Brace::Named(name) if pattern.params().any(|param| param == name) => continue,
                Brace::Named(name) if REQUEST.contains(&name) => (name, "it may lead anywhere"),
                Brace::Named(name) if TEXT.contains(&name) => {
                    (name, "it stands for something in other texts only")
                }
                Brace::Named(name) if placeholders::ours(name).is_some() => (name, FOREIGN),
                Brace::Named(name) => (name, "the path has no such parameter"),
            };
            whole = false;
            if self.was_reported(Code::BadPlaceholder, at) {
                continue;
            }
            let message = format!("{} stands for nothing here", shown(name, at));
            let cure = match placeholders::ours(name).filter(|ours| always.contains(ours)) {
                Some(ours) => placeholder_cure(ours),
                None if name == "scheme" => "write https:// or http://".to_owned(),
                None => format!("write {}", known_placeholders(pattern, always)),
            };
            let pair = (route, "for this path");
            if route.rank() == at.rank() {
                self.report
                    .push_at(Code::BadPlaceholder, at, message, why, cure);
            } else {
                self.report
                    .push_pair(Code::BadPlaceholder, at, (message, why, cure), pair);
            }
        }
        whole
    }

    /// What another server would replace is hardly meant as it is where a URL is made of it.
    fn foreign_in_target(
        &mut self,
        found: &Foreign<'_>,
        at: &SourceSpan,
        pattern: &Pattern,
        always: &[&str],
    ) {
        self.report.withdraw(Code::LeftAsItIs, at);
        if self.was_reported(Code::BadPlaceholder, at) {
            return;
        }
        let cure = match (found.form, found.ours.filter(|ours| always.contains(ours))) {
            (Form::Marked, Some(ours)) => placeholder_cure(ours),
            (_, Some(ours)) => format!("{}; a `$` itself is %24", placeholder_cure(ours)),
            (Form::Group, None) => format!(
                "write one of {}; a `$` itself is %24",
                known_placeholders(pattern, always)
            ),
            (_, None) => format!("write {}", known_placeholders(pattern, always)),
        };
        let message = format!(
            "{} is a placeholder of another server",
            shown(found.written, at)
        );
        let why = "it would be part of the URL as it is";
        self.report
            .push_at(Code::BadPlaceholder, at, message, why, cure);
    }

    /// A warning, since in a text it may be meant as it is.
    fn foreign_in_text(&mut self, text: &str, at: &SourceSpan) {
        let Some(Foreign {
            written,
            ours: Some(ours),
            ..
        }) = placeholders::foreign(text)
        else {
            return;
        };
        if self.was_reported(Code::LeftAsItIs, at) || !at.text().contains(written) {
            return;
        }
        let message = format!("`{written}` is kept as text");
        let why = FOREIGN;
        self.report.push_at(
            Code::LeftAsItIs,
            at,
            message,
            why,
            format!("write {{{ours}}}"),
        );
    }

    /// In other texts braces may mean themselves; what looks like a placeholder and is none is
    /// told.
    pub(super) fn text(&mut self, text: &str, at: &SourceSpan, pattern: &Pattern) {
        self.template(text, at, pattern, &[]);
    }

    /// The same where `besides` stand for something, too.
    pub(super) fn template(
        &mut self,
        text: &str,
        at: &SourceSpan,
        pattern: &Pattern,
        besides: &[&str],
    ) {
        if besides.is_empty() {
            self.foreign_in_text(text, at);
        }
        let all = [REQUEST.as_slice(), &TEXT, besides].concat();
        for found in braces(text) {
            let Brace::Named(name) = found else { continue };
            let ours = placeholders::ours(name).filter(|_| name.contains('.'));
            let known_here = all.contains(&name)
                || name == "*" && pattern.has_tail()
                || pattern.params().any(|param| param == name);
            let looks =
                name == "*" || is_param(name) && !name.starts_with(|c: char| c.is_ascii_digit());
            if known_here
                || !looks && ours.is_none()
                || self.was_reported(Code::LeftAsItIs, at)
                || !at.text().contains(name)
            {
                continue;
            }
            let message = format!("`{{{name}}}` is kept as text");
            let cure = match placeholders::ours(name) {
                Some(ours) => format!("write {{{ours}}}"),
                None => format!(
                    "the placeholders here are {}",
                    known_placeholders(pattern, &all)
                ),
            };
            let why = if placeholders::ours(name).is_some() {
                FOREIGN
            } else {
                "it is no placeholder"
            };
            self.report
                .push_at(Code::LeftAsItIs, at, message, why, cure);
        }
    }
}

const FOREIGN: &str = "it is a placeholder of another server";

/// What was written, unless it came from outside.
fn shown(written: &str, at: &SourceSpan) -> String {
    if at.text().contains(written) {
        format!("`{written}`")
    } else {
        "a placeholder".to_owned()
    }
}

fn placeholder_cure(ours: &str) -> String {
    let query = if ours == "path" {
        "; the query is kept"
    } else {
        ""
    };
    format!("write {{{ours}}}{query}")
}

enum Brace<'a> {
    Named(&'a str),
    /// A brace that is not closed.
    Open,
}

fn braces(text: &str) -> impl Iterator<Item = Brace<'_>> {
    text.split('{')
        .skip(1)
        .map(|after| match after.split_once('}') {
            Some((name, _)) => Brace::Named(name),
            None => Brace::Open,
        })
}

fn known_placeholders(pattern: &Pattern, always: &[&str]) -> String {
    let tail = pattern.has_tail().then_some("*");
    let names = tail
        .into_iter()
        .chain(pattern.params())
        .chain(always.iter().copied());
    names
        .map(|name| format!("{{{name}}}"))
        .collect::<Vec<_>>()
        .join(", ")
}
