//! `shape` of a table, taken whole from the nearest layer: rates belong together.

use std::num::NonZeroU64;

use lockgate_rules::{Directions, ShapeRates};

use crate::codes::Code;
use crate::keys::ConfigKey;
use crate::keys::shape::{self, directions, listener, tunnel};
use crate::model::SharedSetting;
use crate::values::ShortOrLong;

use super::{Resolver, View};

impl Resolver<'_> {
    /// The rates of a `[tcp]` table, a site or a path, if there are any.
    pub(super) fn shape(&mut self, view: &View<'_>) -> Option<SharedSetting<ShapeRates>> {
        self.shape_of(view, &listener::PER_CONNECTION)
    }

    /// The rates of a `[tunnel]` table, if there are any.
    pub(super) fn tunnel_shape(&mut self, view: &View<'_>) -> Option<SharedSetting<ShapeRates>> {
        self.shape_of(view, &tunnel::PER_TUNNEL)
    }

    /// The rates of a table in which `each` is the key of the short form.
    fn shape_of(
        &mut self,
        view: &View<'_>,
        each: &ConfigKey<ShortOrLong<u64>>,
    ) -> Option<SharedSetting<ShapeRates>> {
        let written = view.written(&shape::SHAPE)?;
        let mut shape = ShapeRates::default();
        match written.value {
            ShortOrLong::Short(rate) => shape.per_connection = both((*rate)?),
            ShortOrLong::Long(_) => {
                let long = view.section(&shape::SHAPE).nearest();
                shape.per_connection = directions(&long, each);
                shape.per_client = directions(&long, &shape::PER_CLIENT);
                shape.per_user = directions(&long, &tunnel::PER_USER);
                shape.total = directions(&long, &shape::TOTAL);
            }
        }
        let at = written.at.clone();
        if !shape.is_empty() {
            return Some(SharedSetting { value: shape, at });
        }
        let broken = view.broken(&[shape::SHAPE.row()]);
        if !broken {
            let why = "it holds nothing back";
            let cure = "write shape = { per_connection = \"10MB/s\" }, or remove it";
            self.push_once(Code::NoEffect, &at, "`shape` has no rate", why, cure);
        }
        None
    }
}

fn directions(view: &View<'_>, key: &ConfigKey<ShortOrLong<u64>>) -> Directions {
    if let Some(ShortOrLong::Short(rate)) = view.get(key) {
        return both(rate);
    }
    let apart = view.section(key);
    Directions {
        received: apart.get(&directions::IN).and_then(NonZeroU64::new),
        sent: apart.get(&directions::OUT).and_then(NonZeroU64::new),
    }
}

fn both(rate: u64) -> Directions {
    let rate = NonZeroU64::new(rate);
    Directions {
        received: rate,
        sent: rate,
    }
}
