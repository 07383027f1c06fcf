//! Placeholders in redirects, rewrites, bodies and fields: their templates, and the mistakes of
//! placeholders without a value.

use lockgate_rules::pattern::is_param;
use lockgate_rules::{Pattern, Purpose, Template, TemplateError};

use crate::codes::Code;
use crate::foreign_names::placeholders::{self, Foreign, Form};
use crate::source::SourceSpan;

use super::Resolver;

impl Resolver<'_> {
    /// The template of a path or URL. Every `{…}` must be a placeholder with a value: URLs have no
    /// braces. `route` is the place of the path with the parameters.
    pub(super) fn url_template(
        &mut self,
        text: &str,
        at: &SourceSpan,
        purpose: Purpose,
        pattern: &Pattern,
        route: &SourceSpan,
    ) -> Option<Template> {
        let parsed = Template::parse(text, purpose, pattern);
        if let Err(error @ (TemplateError::Start | TemplateError::NoHost)) = parsed {
            self.bad_start(text, at, purpose, &error);
            return None;
        }
        if let Some(found) = placeholders::foreign(text) {
            self.foreign_in_url(&found, at, purpose, pattern);
            return None;
        }
        match parsed {
            Ok(template) => Some(template),
            Err(error) => {
                if !self.was_reported(Code::BadPlaceholder, at) {
                    self.bad_placeholder(&error, at, purpose, pattern, route);
                }
                None
            }
        }
    }

    fn bad_placeholder(
        &mut self,
        error: &TemplateError,
        at: &SourceSpan,
        purpose: Purpose,
        pattern: &Pattern,
        route: &SourceSpan,
    ) {
        let (always, code) = (purpose.placeholders(), Code::BadPlaceholder);
        let (name, why) = match error {
            TemplateError::Unknown(name) => (&**name, unknown(name, purpose)),
            TemplateError::NoRest => ("{*}", "the path has no `*`"),
            TemplateError::Open => ("{", error.reason()),
            TemplateError::Brace => ("}", error.reason()),
            TemplateError::InHost(name) => {
                let message = format!("{} would be part of the host", shown(name, at));
                let why = "a link could lead to any host";
                let cure = "write a `/` before it";
                return self.report.push_at(code, at, message, why, cure);
            }
            TemplateError::Fragment => {
                let cure = "remove the `#` and the text after it; a `#` in a path is written %23";
                return self.report.push_at(code, at, error.reason(), "", cure);
            }
            _ => {
                let cure = "remove it, or write it percent-encoded";
                return self.report.push_at(code, at, error.reason(), "", cure);
            }
        };
        let message = format!("{} has no value here", shown(name, at));
        let cure = match placeholders::ours(name).filter(|ours| always.contains(ours)) {
            Some(ours) => placeholder_cure(ours),
            None if name == "scheme" => "write https:// or http://".to_owned(),
            None => format!("write {}", known_placeholders(pattern, always)),
        };
        if route.rank() == at.rank() {
            self.report.push_at(code, at, message, why, cure);
        } else {
            let pair = (route, "for this path");
            self.report.push_pair(code, at, (message, why, cure), pair);
        }
    }

    /// The beginning of a path or URL: browsers would make something else of it.
    fn bad_start(&mut self, text: &str, at: &SourceSpan, purpose: Purpose, error: &TemplateError) {
        let host = ["https://", "http://"];
        let host = host.iter().find_map(|scheme| text.strip_prefix(scheme));
        let (message, why, cure) = match (purpose, host) {
            (Purpose::Target, _) => (
                "the rewritten path does not begin with `/`",
                "",
                "write a path such as \"/v1/{*}\"; the host stays that of the request".to_owned(),
            ),
            (Purpose::File | Purpose::Text, _) => (
                "this is not the path of a file",
                "it begins neither with `/` nor with `{path}`",
                "write a `/` before it".to_owned(),
            ),
            (Purpose::Redirect, _) => {
                let why = match text.starts_with("//") {
                    true => "it names a host without its scheme",
                    false => error.reason(),
                };
                let cure = match host {
                    Some(host) if host.starts_with("{path}") => "https://{host}{path}".to_owned(),
                    Some(_) => "https://{host}".to_owned(),
                    None if !at.text().contains(text) => "https://example.org{path}".to_owned(),
                    None if text.starts_with('{') && !text.starts_with("{host}") => {
                        format!("/{text}")
                    }
                    None => format!("https://{}", text.trim_start_matches('/')),
                };
                (
                    "this is not the target of a redirect",
                    why,
                    format!("write \"{cure}\""),
                )
            }
        };
        self.push_once(Code::BadPath, at, message, why, cure);
    }

    /// Reports a placeholder of another server in a URL, where it is surely a mistake.
    fn foreign_in_url(
        &mut self,
        found: &Foreign<'_>,
        at: &SourceSpan,
        purpose: Purpose,
        pattern: &Pattern,
    ) {
        let always = purpose.placeholders();
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
        let why = "it would stay in the URL as text";
        self.report
            .push_at(Code::BadPlaceholder, at, message, why, cure);
    }

    /// Warns about a placeholder of another server in a text, where it may be intended.
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
    pub(super) fn text(&mut self, text: &str, at: &SourceSpan, pattern: &Pattern) -> Template {
        self.warn_left_as_text(text, at, pattern, &[]);
        Template::text(text, pattern)
    }

    /// The same with further placeholders, `besides`.
    pub(super) fn warn_left_as_text(
        &mut self,
        text: &str,
        at: &SourceSpan,
        pattern: &Pattern,
        besides: &[&str],
    ) {
        if besides.is_empty() {
            self.foreign_in_text(text, at);
        }
        let all = [Purpose::Text.placeholders(), besides].concat();
        for name in braces(text) {
            let ours = placeholders::ours(name).filter(|_| name.contains('.'));
            let known_here = all.contains(&name)
                || name == "*" && pattern.is_prefix()
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

/// The written text, unless it came from `${…}`.
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

/// The reason why a placeholder has no value.
fn unknown(name: &str, purpose: Purpose) -> &'static str {
    let is_for = |other: Purpose| purpose != other && other.placeholders().contains(&name);
    if is_for(Purpose::Redirect) {
        "it may lead anywhere"
    } else if is_for(Purpose::Text) {
        "it has a value in other texts only"
    } else if placeholders::ours(name).is_some() {
        FOREIGN
    } else {
        "the path has no such parameter"
    }
}

/// The texts between braces.
fn braces(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split('{').skip(1);
    after.filter_map(|after| Some(after.split_once('}')?.0))
}

fn known_placeholders(pattern: &Pattern, always: &[&str]) -> String {
    let tail = pattern.is_prefix().then_some("*");
    let names = tail
        .into_iter()
        .chain(pattern.params())
        .chain(always.iter().copied());
    names
        .map(|name| format!("{{{name}}}"))
        .collect::<Vec<_>>()
        .join(", ")
}
