//! Who may come: a file of passwords, or a service that is asked.

use crate::check::Value;
use crate::codes::Code;
use crate::model::{Auth, BasicAuth, ForwardAuth};
use crate::place::At;

use super::{Resolver, View};

impl Resolver<'_> {
    /// From the nearest table that says something: who may come is one decision.
    pub(super) fn auth(&mut self, view: &View<'_>) -> Option<Auth> {
        let written = view.written("auth")?;
        if !matches!(written.value, Value::Table(_)) {
            return None;
        }
        let mut long = view.section("auth");
        long.layers.truncate(1);
        match (long.mentions("basic"), long.mentions("forward")) {
            (true, true) => self.either_of_two(&long),
            (false, false) => {
                let strange = long.layers.iter().any(|layer| layer.strange.any);
                if !strange && !self.warned(Code::MissingKey, &written.at) {
                    let why = "it has neither `basic` nor `forward`";
                    let cure =
                        "add basic = \"/etc/lockgate/htpasswd\", or forward = \"127.0.0.1:4181\"";
                    self.report.push_at(
                        Code::MissingKey,
                        &written.at,
                        "nobody says who may come",
                        why,
                        cure,
                    );
                }
                None
            }
            (true, false) => {
                self.unused_beside(&long, &["path", "copy"], "it is for `forward`");
                basic(&long).map(Auth::Basic)
            }
            (false, true) => {
                self.unused_beside(&long, &["realm"], "it is for `basic`");
                let service = long.written("forward")?;
                let pool = self.asked_pool(&long, &service.at)?;
                let path = long.text("path").unwrap_or_default();
                Some(Auth::Forward(ForwardAuth {
                    pool,
                    path,
                    copy: long.texts("copy"),
                    at: service.at,
                }))
            }
        }
    }

    /// The pool of a `forward`, which the routes that inherit it share.
    fn asked_pool(&mut self, long: &View<'_>, at: &At) -> Option<usize> {
        if let Some((_, pool)) = self.forwards.iter().find(|(known, _)| *known == at.rank()) {
            return *pool;
        }
        let pool = self.leads_to(&long.written("forward")?);
        if let Some(pool) = pool {
            self.requested(pool);
        }
        self.forwards.push((at.rank(), pool));
        pool
    }

    fn either_of_two(&mut self, long: &View<'_>) -> Option<Auth> {
        let place = |name: &str| {
            long.layers
                .iter()
                .find_map(|layer| layer.key_places.get(name))
        };
        if let (Some(basic), Some(forward)) = (place("basic"), place("forward")) {
            let (first, second) = if basic.rank() < forward.rank() {
                (basic, forward)
            } else {
                (forward, basic)
            };
            if !self.warned(Code::Excluded, second) {
                let texts = (
                    "`basic` beside `forward`",
                    "both say who may come",
                    "keep one of them",
                );
                self.report
                    .push_pair(Code::Excluded, second, texts, (first, "the other one"));
            }
        }
        None
    }

    fn unused_beside(&mut self, long: &View<'_>, names: &[&str], why: &str) {
        for name in names {
            let Some(at) = long
                .layers
                .iter()
                .find_map(|layer| layer.key_places.get(name))
            else {
                continue;
            };
            if !self.warned(Code::NoEffect, at) {
                let message = format!("`{name}` has no effect");
                self.report
                    .push_at(Code::NoEffect, at, message, why, "remove it");
            }
        }
    }
}

impl View<'_> {
    /// Whether a service is asked about every request.
    pub(super) fn asks_somebody(&self) -> bool {
        let mut long = self.section("auth");
        long.layers.truncate(1);
        matches!(self.value("auth"), Value::Table(_)) && long.mentions("forward")
    }
}

/// A file of passwords, of which a table of `auth` says where it is.
pub(super) fn basic(long: &View<'_>) -> Option<BasicAuth> {
    let file = long.written("basic")?;
    let Value::Path(path) = file.value else {
        return None;
    };
    Some(BasicAuth {
        file: path,
        realm: long.text("realm").unwrap_or_default(),
        at: file.at,
    })
}
