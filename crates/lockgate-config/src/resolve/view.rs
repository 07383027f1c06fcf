//! A table as resolving sees it: what was written, the tables beneath it, and the defaults of its
//! keys.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::check::{Absolute, Checked, Checker, Table, Value};
use crate::document;
use crate::environment::Environment;
use crate::keys::{self, Key, Unset};
use crate::model::{Cidr, ListenAddr};
use crate::place::Source;
use crate::report::Report;

/// A table with the tables that it is merged over, key by key, and the defaults beneath them.
#[derive(Clone)]
pub(super) struct View<'a> {
    pub(super) keys: &'static [Key],
    pub(super) layers: Vec<&'a Table>,
}

impl<'a> View<'a> {
    /// What was written, in the first layer that has the key; nothing when it was a mistake.
    pub(super) fn written(&self, name: &str) -> Option<Checked> {
        let found = self
            .layers
            .iter()
            .find_map(|layer| layer.entries.get(name))?;
        if matches!(found.value, Value::Invalid) {
            None
        } else {
            Some(found.clone())
        }
    }

    /// What was written, or the default.
    pub(super) fn value(&self, name: &str) -> Value {
        self.written(name)
            .map_or_else(|| default(self.keys, name), |checked| checked.value)
    }

    /// The table under a key, every layer merged: `timeouts` of a listener over the global ones.
    pub(super) fn section(&self, name: &str) -> View<'a> {
        let keys = keys::find(self.keys, name)
            .and_then(|key| key.kind.table())
            .unwrap_or(&[]);
        let inner = |layer: &&'a Table| match layer.entries.get(name) {
            Some(Checked {
                value: Value::Table(table),
                ..
            }) => Some(table),
            _ => None,
        };
        View {
            keys,
            layers: self.layers.iter().filter_map(inner).collect(),
        }
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        self.limit(name).unwrap_or_default()
    }

    /// A duration that may be off.
    pub(super) fn limit(&self, name: &str) -> Option<Duration> {
        if let Value::Duration(duration) = self.value(name) {
            Some(duration)
        } else {
            None
        }
    }

    /// A number that may be a word instead.
    pub(super) fn count(&self, name: &str) -> Option<usize> {
        if let Value::Integer(count) = self.value(name) {
            usize::try_from(count).ok()
        } else {
            None
        }
    }

    /// A number; `keys` keeps it within the range of the type.
    pub(super) fn number<N: TryFrom<u64> + Default>(&self, name: &str) -> N {
        match self.value(name) {
            Value::Integer(number) => N::try_from(number).unwrap_or_default(),
            _ => N::default(),
        }
    }

    pub(super) fn size(&self, name: &str) -> u64 {
        if let Value::Size(size) = self.value(name) {
            size
        } else {
            0
        }
    }

    /// Bytes a second that may be off.
    pub(super) fn rate(&self, name: &str) -> Option<u64> {
        if let Value::Rate(rate) = self.value(name) {
            Some(rate)
        } else {
            None
        }
    }

    pub(super) fn on(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Bool(true))
    }

    pub(super) fn word(&self, name: &str) -> &'static str {
        if let Value::Word(word) = self.value(name) {
            word
        } else {
            ""
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        if let Value::Text(text) = self.value(name) {
            Some(text)
        } else {
            None
        }
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        if let Value::Path(path) = self.value(name) {
            Some(path)
        } else {
            None
        }
    }

    pub(super) fn listener(&self, name: &str) -> Option<ListenAddr> {
        if let Value::Listener(addr) = self.value(name) {
            Some(addr)
        } else {
            None
        }
    }

    pub(super) fn list(&self, name: &str) -> Vec<Checked> {
        if let Value::List(items) = self.value(name) {
            items
        } else {
            Vec::new()
        }
    }

    pub(super) fn networks(&self, name: &str) -> Vec<Cidr> {
        let network = |item: Checked| {
            if let Value::Network(cidr) = item.value {
                Some(cidr)
            } else {
                None
            }
        };
        self.list(name).into_iter().filter_map(network).collect()
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let text = |item: Checked| {
            if let Value::Text(text) = item.value {
                Some(text)
            } else {
                None
            }
        };
        self.list(name).into_iter().filter_map(text).collect()
    }
}

/// The default in the table of keys, read by the same checker as what users write.
pub(super) fn default(keys: &'static [Key], name: &str) -> Value {
    let mut report = Report::new();
    keys::find(keys, name).map_or(Value::Invalid, |key| default_of(key, &mut report))
}

/// The same, with what is wrong with it: nothing, as a test makes sure.
pub(super) fn default_of(key: &Key, report: &mut Report) -> Value {
    let Unset::Is(toml) = key.default else {
        return Value::Invalid;
    };
    let text = format!("value = {toml}");
    let source = Arc::new(Source {
        name: key.name.into(),
        dir: "/".into(),
        order: 0,
        text,
    });
    let (branch, syntax) = document::parse(&source, &Environment::none(), report);
    let mut checker = Checker {
        report,
        syntax,
        absolute: Absolute::default(),
    };
    branch.entries.get("value").map_or(Value::Invalid, |entry| {
        checker.value(&key.kind, &entry.item, key.name)
    })
}
