//! States that users of the configuration share, and what the users are called: the same user in the
//! next configuration takes its state over.
//!
//! A place in a file names no user: it moves with every line that is added above it.

use std::collections::{HashMap, HashSet};

use lockgate_config::{Config, SharedSetting, SiteRoute};

/// The user of a setting, by its name: the same in two configurations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SettingUser {
    /// A route of a site.
    Route { site: Box<str>, route: Box<str> },
    /// A `[tcp]` table.
    Relay(Box<str>),
    /// A `[tunnel]` table.
    Tunnel(Box<str>),
}

impl SettingUser {
    pub(super) fn route(site: &str, route: &SiteRoute) -> Self {
        Self::Route {
            site: site.into(),
            route: route.name.as_str().into(),
        }
    }

    /// Its name for people: the site and the route, or the table.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Route { site, route } => format!("{site}{route}"),
            Self::Relay(name) | Self::Tunnel(name) => name.to_string(),
        }
    }

    pub(super) fn relay(name: &str) -> Self {
        Self::Relay(name.into())
    }

    pub(super) fn tunnel(name: &str) -> Self {
        Self::Tunnel(name.into())
    }
}

/// The states behind one kind of setting, such as the buckets of rate limits: users that have a
/// setting from one place of the configuration share its state.
pub(super) struct SharedStates<V, S> {
    by_place: HashMap<(usize, usize), NumberedState<S>>,
    by_user: UsedStates<V, S>,
}

/// The states by their users, each with the value of its setting.
pub(super) type UsedStates<V, S> = HashMap<SettingUser, (V, NumberedState<S>)>;

/// A state with its number among those of the assembly.
#[derive(Debug, Clone)]
pub(super) struct NumberedState<S> {
    number: usize,
    state: S,
}

impl<V, S> Default for SharedStates<V, S> {
    fn default() -> Self {
        Self {
            by_place: HashMap::new(),
            by_user: HashMap::new(),
        }
    }
}

impl<S> NumberedState<S> {
    pub(super) fn state(&self) -> &S {
        &self.state
    }
}

impl<V: Clone + PartialEq, S: Clone> SharedStates<V, S> {
    /// Takes over the state of every user that had an equal setting before. Where several users
    /// share a setting the first of them decides; where they no longer share it, only one of them
    /// takes over the state, as a start would give each its own.
    pub(super) fn after<'a>(
        previous: &UsedStates<V, S>,
        users: impl Iterator<Item = (SettingUser, &'a SharedSetting<V>)>,
    ) -> Self
    where
        V: 'a,
    {
        let (mut states, mut taken) = (Self::default(), HashSet::new());
        states.by_user.reserve(previous.len());
        if previous.is_empty() {
            return states;
        }
        for (user, setting) in users {
            let place = setting.at.start();
            if states.by_place.contains_key(&place) {
                continue;
            }
            let before = previous
                .get(&user)
                .filter(|(value, _)| *value == setting.value);
            if let Some((_, NumberedState { number, state })) = before
                && taken.insert(*number)
            {
                states.add(place, state.clone());
            }
        }
        states
    }

    /// The state of a user's setting; `make` makes it where no other user has it.
    pub(super) fn of(
        &mut self,
        user: SettingUser,
        setting: &SharedSetting<V>,
        make: impl FnOnce(&V) -> S,
    ) -> S {
        let place = setting.at.start();
        if !self.by_place.contains_key(&place) {
            self.add(place, make(&setting.value));
        }
        let shared = self.by_place[&place].clone();
        let state = shared.state.clone();
        self.by_user.insert(user, (setting.value.clone(), shared));
        state
    }

    pub(super) fn into_used(self) -> UsedStates<V, S> {
        self.by_user
    }

    fn add(&mut self, place: (usize, usize), state: S) {
        let number = self.by_place.len();
        self.by_place.insert(place, NumberedState { number, state });
    }
}

/// The routes of all sites, as users of settings.
pub(super) fn routes(config: &Config) -> impl Iterator<Item = (&str, &SiteRoute)> {
    config
        .sites
        .iter()
        .flat_map(|site| site.routes.iter().map(|route| (site.name.as_str(), route)))
}
