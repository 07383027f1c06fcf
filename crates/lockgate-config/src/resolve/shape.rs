//! `shape` of a table, taken whole from the nearest layer: rates belong together.

use std::num::NonZeroU64;

use crate::check::Value;
use crate::codes::Code;
use crate::keys;
use crate::model::{Directions, Shape};

use super::{Resolver, View};

impl Resolver<'_> {
    /// The rates that bytes are held to, if there are any.
    pub(super) fn shape(&mut self, view: &View<'_>) -> Option<Shape> {
        let written = view.written("shape")?;
        let broken = written.value.is_broken();
        let mut long = view.section("shape");
        long.layers.truncate(1);
        let mut shape = Shape {
            per_connection: Directions::default(),
            per_client: Directions::default(),
            per_user: Directions::default(),
            total: Directions::default(),
            at: written.at,
        };
        match written.value {
            Value::Rate(rate) => shape.per_connection = both(rate),
            Value::Table(_) => {
                let each = if keys::find(long.keys, "per_tunnel").is_some() {
                    "per_tunnel"
                } else {
                    "per_connection"
                };
                shape.per_connection = directions(&long, each);
                shape.per_client = directions(&long, "per_client");
                shape.per_user = directions(&long, "per_user");
                shape.total = directions(&long, "total");
            }
            _ => return None,
        }
        let rates = [
            shape.per_connection,
            shape.per_client,
            shape.per_user,
            shape.total,
        ];
        if !rates.iter().all(|one| one.is_empty()) {
            return Some(shape);
        }
        if !broken && !self.warned(Code::NoEffect, &shape.at) {
            let cure = "write shape = { per_connection = \"10MB/s\" }, or remove it";
            self.report.push_at(
                Code::NoEffect,
                &shape.at,
                "`shape` has no rate",
                "it holds nothing back",
                cure,
            );
        }
        None
    }
}

fn directions(view: &View<'_>, name: &str) -> Directions {
    match view.value(name) {
        Value::Rate(rate) => both(rate),
        _ => {
            let apart = view.section(name);
            let rate = |name| apart.rate(name).and_then(NonZeroU64::new);
            Directions {
                received: rate("in"),
                sent: rate("out"),
            }
        }
    }
}

fn both(rate: u64) -> Directions {
    let rate = NonZeroU64::new(rate);
    Directions {
        received: rate,
        sent: rate,
    }
}
