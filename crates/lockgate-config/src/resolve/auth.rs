//! Who may come: a file of passwords, or a service that is asked.

use crate::codes::Code;
use crate::keys::Row;
use crate::keys::route::{self, auth};
use crate::keys::tcp::Destination;
use crate::model::{Auth, BasicAuth, AuthService};
use crate::values::Written;

use super::{Resolver, View};

impl Resolver<'_> {
    /// From the nearest table that says something: who may come is one decision.
    pub(super) fn auth(&mut self, view: &View<'_>) -> Option<Auth> {
        let written = view.written(&route::AUTH)?;
        if !written.value.is_long() {
            return None;
        }
        let long = view.section(&route::AUTH).nearest();
        match (long.mentions(&auth::BASIC), long.mentions(&auth::FORWARD)) {
            (true, true) => self.either_of_two(&long),
            (false, false) => {
                let strange = long.is_strange();
                if !strange {
                    let why = "it has neither `basic` nor `forward`";
                    let cure =
                        "add basic = \"/etc/lockgate/htpasswd\", or forward = \"127.0.0.1:4181\"";
                    self.push_once(
                        Code::MissingKey,
                        written.at,
                        "nobody says who may come",
                        why,
                        cure,
                    );
                }
                None
            }
            (true, false) => {
                self.unused_beside(
                    &long,
                    [auth::PATH.row(), auth::COPY.row()],
                    "it is for `forward`",
                );
                basic(&long).map(Auth::Basic)
            }
            (false, true) => {
                self.unused_beside(&long, [auth::REALM.row()], "it is for `basic`");
                let service = long.written(&auth::FORWARD)?;
                let pool = self.asked_pool(service)?;
                Some(Auth::Forward(AuthService {
                    pool,
                    path: long.get(&auth::PATH),
                    copy: long.list(&auth::COPY),
                    at: service.at.clone(),
                }))
            }
        }
    }

    /// The pool of a `forward`, which the routes that inherit it share.
    fn asked_pool(&mut self, service: Written<'_, Destination>) -> Option<usize> {
        let rank = service.at.rank();
        if let Some((_, pool)) = self.forwards.iter().find(|(known, _)| *known == rank) {
            return *pool;
        }
        let pool = self.leads_to(service.value, service.at);
        if let Some(pool) = pool {
            self.requested(pool);
        }
        self.forwards.push((rank, pool));
        pool
    }

    fn either_of_two(&mut self, long: &View<'_>) -> Option<Auth> {
        let places = (long.key_at(&auth::BASIC), long.key_at(&auth::FORWARD));
        if let (Some(basic), Some(forward)) = places {
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

    fn unused_beside<const N: usize>(&mut self, long: &View<'_>, keys: [Row; N], why: &str) {
        for key in keys {
            let Some(at) = long.place_of(key) else {
                continue;
            };
            let message = format!("`{}` has no effect", key.name);
            self.push_once(Code::NoEffect, at, message, why, "remove it");
        }
    }
}

impl View<'_> {
    /// Whether a service is asked about every request.
    pub(super) fn asks_somebody(&self) -> bool {
        let long = self.section(&route::AUTH).nearest();
        self.get(&route::AUTH).is_long() && long.mentions(&auth::FORWARD)
    }
}

/// A file of passwords, of which a table of `auth` says where it is.
pub(super) fn basic(long: &View<'_>) -> Option<BasicAuth> {
    let file = long.written(&auth::BASIC)?;
    Some(BasicAuth {
        file: file.value.clone(),
        realm: long.get(&auth::REALM),
        at: file.at.clone(),
    })
}
