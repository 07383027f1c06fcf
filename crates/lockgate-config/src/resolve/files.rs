//! Routes that serve files: `root` of the nearer table that has it, and what belongs to it, merged.

use crate::check::{Named, Value};
use crate::codes::Code;
use crate::model::{Action, FileTypes, Files, Pattern, Segment, Symlinks};
use crate::place::At;

use super::route::{maps, on};
use super::{Resolver, View};

/// What `spa = true` sends.
const APPLICATION: &str = "/index.html";

impl Resolver<'_> {
    /// `verb` is the table with `root`, `view` has what belongs to it.
    pub(super) fn files(
        &mut self,
        verb: &View<'_>,
        view: &View<'_>,
        pattern: &Pattern,
        route: &At,
    ) -> Option<Action> {
        let at = verb.written("root")?.at;
        let (attempts, fallback) = self.attempts(view, pattern, route)?;
        Some(Action::Files(Box::new(Files {
            root: verb.path("root")?,
            at,
            index: view.texts("index"),
            clean_urls: view.on("clean_urls"),
            attempts,
            fallback,
            not_found: view.text("not_found"),
            listing: view.on("listing"),
            hidden: view.on("hidden"),
            symlinks: if view.word("symlinks") == "follow" {
                Symlinks::Follow
            } else {
                Symlinks::Inside
            },
            types: types(view),
            charset: view.text("charset"),
            precompressed: view.on("precompressed"),
        })))
    }

    /// What is looked for, and what is sent when none of it is there: the nearer of `try` and `spa`
    /// holds.
    fn attempts(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
        route: &At,
    ) -> Option<(Vec<String>, Option<String>)> {
        for layer in &view.layers {
            let alone = View {
                keys: view.keys,
                layers: vec![*layer],
            };
            match (on(layer, "try"), on(layer, "spa")) {
                (Some(_), Some((true, at))) => {
                    if !self.warned(Code::Excluded, &at) {
                        let why = "both say what is sent for a path that is no file";
                        let cure = "keep one of them: spa = \"/app.html\" is try = [\"{path}\", \"/app.html\"]";
                        self.report
                            .push_at(Code::Excluded, &at, "`spa` beside `try`", why, cure);
                    }
                    return None;
                }
                (Some(_), _) => {
                    let mut whole = true;
                    for item in alone.list("try") {
                        let Value::Text(text) = &item.value else {
                            return None;
                        };
                        whole &= self.placed(text, &item.at, pattern, route, &["path"]);
                    }
                    return whole.then(|| (alone.texts("try"), None));
                }
                (None, Some((false, _))) => break,
                (None, Some((true, _))) => {
                    return Some((
                        Vec::new(),
                        alone.text("spa").or(Some(APPLICATION.to_owned())),
                    ));
                }
                (None, None) => {}
            }
        }
        Some((Vec::new(), None))
    }
}

/// Those of every layer, by key, the nearer first.
fn types(view: &View<'_>) -> FileTypes {
    let mut types = FileTypes::default();
    for Named { name, value, .. } in maps(view, "types") {
        let Value::Text(media_type) = &value.value else {
            continue;
        };
        // The nearer table has been first.
        if let Some(ending) = name.strip_prefix('.') {
            let ending = ending.to_ascii_lowercase();
            if types.extensions.iter().all(|(told, _)| *told != ending) {
                types.extensions.push((ending, media_type.clone()));
            }
            continue;
        }
        let Ok(pattern) = Pattern::parse(name) else {
            continue;
        };
        if types.paths.iter().all(|(told, _)| *told != pattern) {
            types.paths.push((pattern, media_type.clone()));
        }
    }
    types.paths.sort_by_key(|(pattern, _)| specificity(pattern));
    types
}

/// The smaller the more specific, of patterns without parameters.
pub(super) fn specificity(pattern: &Pattern) -> (bool, std::cmp::Reverse<usize>) {
    let none: &[Segment] = &[];
    let (segments, tail) = match pattern {
        Pattern::Any => (none, true),
        Pattern::Path { segments, tail } => (segments.as_slice(), *tail),
    };
    (tail, std::cmp::Reverse(segments.len()))
}
