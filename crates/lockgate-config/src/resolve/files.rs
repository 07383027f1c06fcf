//! Routes that serve files: `root` of the nearer table that has it, and what belongs to it, merged.

use std::sync::Arc;

use lockgate_rules::{FileTypes, Pattern, Purpose, Template};

use crate::codes::Code;
use crate::keys::files as keys;
use crate::model::{RouteAction, StaticFiles};
use crate::source::SourceSpan;
use crate::values::{Items, Switch};

use super::{Resolver, View};

/// The file for `spa = true`.
const APPLICATION: &str = "/index.html";

impl Resolver<'_> {
    /// `verb` is the table with `root`, `view` has what belongs to it.
    pub(super) fn files(
        &mut self,
        verb: &View<'_>,
        view: &View<'_>,
        pattern: &Pattern,
        route: &SourceSpan,
    ) -> Option<RouteAction> {
        let root = verb.written(&keys::ROOT)?;
        let (attempts, fallback) = self.attempts(view, pattern, route)?;
        Some(RouteAction::Files(Arc::new(StaticFiles {
            root: root.value.clone(),
            at: root.at.clone(),
            index: view.list(&keys::INDEX),
            clean_urls: view.get(&keys::CLEAN_URLS),
            attempts,
            fallback,
            not_found: view.get(&keys::NOT_FOUND),
            listing: view.get(&keys::LISTING),
            hidden: view.get(&keys::HIDDEN),
            symlinks: view.get(&keys::SYMLINKS),
            types: types(view),
            charset: view.get(&keys::CHARSET),
            precompressed: view.get(&keys::PRECOMPRESSED),
        })))
    }

    /// The paths to try and the file for missing ones: the nearer of `try` and `spa` applies.
    fn attempts(
        &mut self,
        view: &View<'_>,
        pattern: &Pattern,
        route: &SourceSpan,
    ) -> Option<(Vec<Template>, Option<String>)> {
        for layer in &view.layers {
            let spa = layer.written(&keys::SPA);
            let fallback = spa.map(|spa| (fallback(spa.value), spa.at));
            match (layer.entry(&keys::TRY), fallback) {
                (Some(_), Some((Some(_), at))) => {
                    self.spa_beside_try(at);
                    return None;
                }
                (Some(entry), _) => {
                    let attempts = entry.written::<Items<String>>();
                    let attempts = attempts.map(|written| written.value.clone());
                    let attempts = attempts.unwrap_or_default();
                    let mut templates = Vec::new();
                    // Every mistake is told, also behind the first.
                    for item in attempts.iter() {
                        let text = item.value.as_ref()?;
                        let purpose = Purpose::File;
                        templates
                            .extend(self.url_template(text, &item.at, purpose, pattern, route));
                    }
                    let whole = templates.len() == attempts.as_slice().len();
                    return whole.then_some((templates, None));
                }
                (None, Some((fallback, _))) => return Some((Vec::new(), fallback)),
                (None, None) if layer.is_invalid(&keys::SPA) => break,
                (None, None) => {}
            }
        }
        Some((Vec::new(), None))
    }

    fn spa_beside_try(&mut self, at: &SourceSpan) {
        if self.was_reported(Code::Excluded, at) {
            return;
        }
        let why = "both say what is sent for a path that is no file";
        let cure = "keep one of them: spa = \"/app.html\" is try = [\"{path}\", \"/app.html\"]";
        self.report
            .push_at(Code::Excluded, at, "`spa` beside `try`", why, cure);
    }
}

/// The file for missing paths.
fn fallback(spa: &Switch<String>) -> Option<String> {
    match spa {
        Switch::Flag(on) => on.then(|| APPLICATION.to_owned()),
        Switch::Value(file) => Some(file.clone()),
    }
}

/// The media types of all layers, by key, the nearer first.
fn types(view: &View<'_>) -> FileTypes {
    let mut types = FileTypes::default();
    for one in view.entries(&keys::TYPES) {
        let (name, Some(media_type)) = (&one.name, &one.value) else {
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
    types
        .paths
        .sort_by_key(|(pattern, _)| pattern.specificity());
    types
}
