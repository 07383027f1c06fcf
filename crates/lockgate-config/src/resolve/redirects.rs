//! Files of redirects: read and checked once, however many tables name them.

use std::path::Path;
use std::sync::Arc;

use crate::codes::Code;
use crate::keys::route;
use crate::model::RedirectFile;
use crate::redirect_map::{MapMistake, MapProblem, parse_redirects};
use crate::source::{ConfigFile, SourceSpan};

use super::{Resolver, View};

/// Their mistakes come after those of the configuration.
const AFTER_ALL: usize = usize::MAX / 2;

impl Resolver<'_> {
    /// The redirects of the nearest table that has some.
    pub(super) fn redirects(&mut self, view: &View<'_>) -> Option<Arc<RedirectFile>> {
        let written = view.written(&route::REDIRECTS)?;
        let file = written.value.as_ref()?;
        if let Some(known) = self.redirect_maps.get(file) {
            return known.clone();
        }
        let map = self.redirect_file(file, written.at).map(Arc::new);
        self.redirect_maps.insert(file.clone(), map.clone());
        map
    }

    fn redirect_file(&mut self, file: &Path, at: &SourceSpan) -> Option<RedirectFile> {
        let text = match self.env.read_file(file) {
            Ok(text) => text,
            Err(error) => {
                let message = "this file of redirects cannot be read";
                let cure = "correct the path";
                self.report
                    .push_at(Code::FileUnreadable, at, message, error.to_string(), cure);
                return None;
            }
        };
        match parse_redirects(&text) {
            Ok(map) => Some(RedirectFile {
                file: file.to_owned(),
                map: Arc::new(map),
            }),
            Err(mistakes) => {
                let dir = file.parent().unwrap_or(Path::new("/")).to_owned();
                let order = AFTER_ALL + self.redirect_maps.len();
                let source = Arc::new(ConfigFile {
                    name: file.to_owned(),
                    dir,
                    order,
                    text,
                });
                mistakes
                    .into_iter()
                    .for_each(|mistake| self.bad_redirect(&source, mistake));
                None
            }
        }
    }

    fn bad_redirect(
        &mut self,
        source: &Arc<ConfigFile>,
        MapMistake { span, problem, .. }: MapMistake,
    ) {
        let at = SourceSpan::new(source, span);
        let (message, why, cure) = match problem {
            MapProblem::Twice(first) => {
                let first = SourceSpan::new(source, first);
                let texts = (
                    "this path is redirected twice",
                    "this is the second redirect",
                    "keep one of them",
                );
                return self.report.push_pair(
                    Code::Duplicate,
                    &at,
                    texts,
                    (&first, "it is redirected here"),
                );
            }
            MapProblem::NoTarget => (
                "this path has no target",
                "",
                "write it after the path: /old /new",
            ),
            MapProblem::From(why) => (
                "this is not the path of requests",
                why,
                "write \"/old\" or \"/old/*\", and %20 for a space",
            ),
            MapProblem::To(why) => (
                "this is not a target",
                why,
                "write \"/new\", \"/new/{*}\" or \"https://example.org{path}\"",
            ),
            MapProblem::Status => (
                "this is not the status of a redirect",
                "",
                "write 301, 302, 303, 307 or 308",
            ),
            MapProblem::More => (
                "nothing may follow the status",
                "",
                "remove it, or write # before it",
            ),
            MapProblem::TooLong => (
                "this line is longer than 8,000 bytes",
                "",
                "no client would follow it",
            ),
        };
        self.report
            .push_at(Code::BadRedirect, &at, message, why, cure);
    }
}
