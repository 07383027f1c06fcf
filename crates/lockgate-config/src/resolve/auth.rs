//! Authentication of clients: by a file of passwords, or by a service that is asked.

use crate::codes::Code;
use crate::keys::route::{self, auth};
use crate::keys::tcp::Destination;
use crate::language::KeyRow;
use crate::model::{AuthMethod, AuthService, BasicAuth};
use crate::table::PlacedValue;

use super::{Resolver, View};

impl Resolver<'_> {
    /// The method of the nearest table that has one: it is one decision, never merged.
    pub(super) fn auth(&mut self, view: &View<'_>) -> Option<AuthMethod> {
        let written = view.written(&route::AUTH)?;
        if !written.value.is_long() {
            return None;
        }
        let long = view.section(&route::AUTH).nearest();
        match (long.has(&auth::BASIC), long.has(&auth::FORWARD)) {
            (true, true) => self.both_methods(&long),
            (false, false) => {
                let strange = long.has_unknown_keys();
                if !strange {
                    let why = "it has neither `basic` nor `forward`";
                    let cure =
                        "add basic = \"/etc/lockgate/htpasswd\", or forward = \"127.0.0.1:4181\"";
                    self.push_once(
                        Code::MissingKey,
                        written.at,
                        "no authentication is configured",
                        why,
                        cure,
                    );
                }
                None
            }
            (true, false) => {
                self.without_effect_beside(
                    &long,
                    [auth::PATH.row(), auth::COPY.row()],
                    "it is for `forward`",
                );
                basic(&long).map(|basic| AuthMethod::Basic(Box::new(basic)))
            }
            (false, true) => {
                self.without_effect_beside(&long, [auth::REALM.row()], "it is for `basic`");
                let service = long.written(&auth::FORWARD)?;
                let pool = self.auth_service_pool(service)?;
                Some(AuthMethod::Forward(Box::new(AuthService {
                    pool,
                    path: long.get(&auth::PATH),
                    copy: long.list(&auth::COPY),
                    at: service.at.clone(),
                })))
            }
        }
    }

    /// The pool of a `forward`, which the routes that inherit it share.
    fn auth_service_pool(&mut self, service: PlacedValue<'_, Destination>) -> Option<usize> {
        let rank = service.at.rank();
        if let Some((_, pool)) = self.forwards.iter().find(|(known, _)| *known == rank) {
            return *pool;
        }
        let pool = self.destination_pool(service.value, service.at);
        if let Some(pool) = pool {
            self.check_site_pool(pool);
        }
        self.forwards.push((rank, pool));
        pool
    }

    fn both_methods(&mut self, long: &View<'_>) -> Option<AuthMethod> {
        let places = (long.key_at(&auth::BASIC), long.key_at(&auth::FORWARD));
        if let (Some(basic), Some(forward)) = places {
            let (first, second) = if basic.rank() < forward.rank() {
                (basic, forward)
            } else {
                (forward, basic)
            };
            if !self.was_reported(Code::Excluded, second) {
                let texts = (
                    "`basic` beside `forward`",
                    "a table has one kind of authentication",
                    "keep one of them",
                );
                self.report
                    .push_pair(Code::Excluded, second, texts, (first, "the other one"));
            }
        }
        None
    }

    fn without_effect_beside<const N: usize>(
        &mut self,
        long: &View<'_>,
        keys: [KeyRow; N],
        why: &str,
    ) {
        for key in keys {
            if let Some(at) = long.place_of(key) {
                self.no_effect(key.name, at, why, "remove it");
            }
        }
    }
}

impl View<'_> {
    /// Whether a service is asked about every request.
    pub(super) fn has_forward_auth(&self) -> bool {
        let written = self.written(&route::AUTH);
        written.is_some_and(|written| written.value.is_long())
            && self.section(&route::AUTH).nearest().has(&auth::FORWARD)
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
