//! `shape` of a table, taken whole from the nearest layer: rates belong together.

use std::num::NonZeroU64;

use crate::check::Value;
use crate::codes::Code;
use crate::model::{Directions, Shape};

use super::{Resolver, View};

impl Resolver<'_> {
    /// The rates that bytes are held to, if there are any.
    pub(super) fn shape(&mut self, view: &View<'_>) -> Option<Shape> {
        let written = view.written("shape")?;
        let broken = written.value.is_broken();
        let mut long = view.section("shape");
        long.layers.truncate(1);
        let (per_connection, per_client, total) = match written.value {
            Value::Rate(rate) => (both(rate), Directions::default(), Directions::default()),
            Value::Table(_) => (
                directions(&long, "per_connection"),
                directions(&long, "per_client"),
                directions(&long, "total"),
            ),
            _ => return None,
        };
        let shape = Shape { per_connection, per_client, total, at: written.at };
        if ![shape.per_connection, shape.per_client, shape.total].iter().all(|one| one.is_empty()) {
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
            Directions { received: rate("in"), sent: rate("out") }
        }
    }
}

fn both(rate: u64) -> Directions {
    let rate = NonZeroU64::new(rate);
    Directions { received: rate, sent: rate }
}
