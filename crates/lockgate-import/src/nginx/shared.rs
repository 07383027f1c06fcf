//! What the routes of a server, and those of all servers, share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::scope::{NginxScope, NginxVerdicts};
use super::syntax::NginxDirective;
use super::upstream::NginxUpstream;
use super::users::NginxUsers;
use super::values::NginxWords;

/// What the routes of all servers share.
pub(super) struct NginxShared<'a> {
    pub(super) verdicts: NginxVerdicts,
    pub(super) upstreams: BTreeMap<&'a str, NginxUpstream<'a>>,
    /// `limit_req_zone` by name, with the number of its uses.
    pub(super) zones: BTreeMap<String, (&'a NginxDirective, Cell<usize>)>,
    /// Whether `trusted` is what `set_real_ip_from` says.
    pub(super) real_ip: bool,
    /// Formats that an `access_log` uses.
    pub(super) formats: RefCell<Vec<String>>,
    /// The files of passwords.
    pub(super) users: &'a NginxUsers<'a>,
}

/// What the routes of a server share.
pub(super) struct NginxSite<'a, 's> {
    pub(super) shared: &'s NginxShared<'a>,
    pub(super) scope: NginxScope<'a>,
    pub(super) words: NginxWords,
    /// All locations with their scopes, for `@name` and for `auth_request`.
    pub(super) locations: Vec<(NginxScope<'a>, &'a NginxDirective)>,
    /// Where in `locations` a location stands, by its arguments.
    pub(super) by_args: BTreeMap<String, usize>,
    /// Whether scripts of PHP lie among the files.
    pub(super) php: bool,
}

impl<'a> NginxSite<'a, '_> {
    pub(super) fn verdicts(&self) -> &NginxVerdicts {
        &self.shared.verdicts
    }

    /// The location with exactly these arguments, joined by a space.
    pub(super) fn location(&self, args: &str) -> Option<&(NginxScope<'a>, &'a NginxDirective)> {
        self.locations.get(*self.by_args.get(args)?)
    }

    /// The location of a path: `= /x` or `/x`.
    pub(super) fn location_of(&self, path: &str) -> Option<&(NginxScope<'a>, &'a NginxDirective)> {
        self.location(&format!("= {path}"))
            .or_else(|| self.location(path))
    }
}
