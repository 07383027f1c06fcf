//! A view of a table for resolving: its values, those of the tables that it inherits from, and the
//! defaults.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr;
use std::sync::Arc;

use crate::document;
use crate::environment::Environment;
use crate::keys::{ConfigKey, Defaulted, HasDefault, Optional, ROOT};
use crate::language::{KeyRow, TreeChecker, Unset};
use crate::report::Report;
use crate::source::{ConfigFile, SourceSpan};
use crate::table::{CheckedEntry, CheckedTable, MayBeTable, PlacedValue, Typed};
use crate::values::{Items, MapEntry, MapOf};

/// A table with the tables that it is merged over, key by key, and the defaults beneath them.
#[derive(Clone, Default)]
pub(super) struct View<'a> {
    pub(super) layers: Vec<&'a CheckedTable>,
}

/// A key that a view can read.
pub(super) trait Readable: Typed {
    /// The type of the result: the value, or an `Option` of it.
    type Read;

    fn read(&self, written: Option<Self::Value>) -> Self::Read;
}

impl<T: 'static> Readable for ConfigKey<T, Optional> {
    type Read = Option<T>;

    fn read(&self, written: Option<T>) -> Option<T> {
        written
    }
}

impl<T: Clone + 'static> Readable for ConfigKey<T, HasDefault> {
    type Read = T;

    fn read(&self, written: Option<T>) -> T {
        written.unwrap_or_else(|| default(self))
    }
}

impl<'a> View<'a> {
    /// The view of one table alone.
    pub(super) fn of(table: &'a CheckedTable) -> View<'a> {
        View {
            layers: vec![table],
        }
    }

    /// The same view with the tables of `farther` behind it.
    pub(super) fn over(mut self, farther: View<'a>) -> View<'a> {
        self.layers.extend(farther.layers);
        self
    }

    /// The nearest table alone: what belongs together is not merged.
    pub(super) fn nearest(mut self) -> View<'a> {
        self.layers.truncate(1);
        self
    }

    /// The value with its place, from the first layer that has the key; `None` for a mistake.
    pub(super) fn written<K: Typed>(&self, key: &K) -> Option<PlacedValue<'a, K::Value>> {
        self.entry(key)?.written()
    }

    /// The value, or the default.
    pub(super) fn get<K: Readable>(&self, key: &K) -> K::Read
    where
        K::Value: Clone,
    {
        key.read(self.written(key).map(|written| written.value.clone()))
    }

    /// The table under a key, every layer merged: `timeouts` of a listener over the global ones.
    pub(super) fn section<K: Typed>(&self, key: &K) -> View<'a>
    where
        K::Value: MayBeTable,
    {
        let inner = |layer: &&'a CheckedTable| layer.value(key)?.table();
        View {
            layers: self.layers.iter().filter_map(inner).collect(),
        }
    }

    /// The entries of a list, or of its default.
    pub(super) fn items<T: Clone + 'static, U>(&self, key: &ConfigKey<Items<T>, U>) -> Items<T>
    where
        ConfigKey<Items<T>, U>: Readable<Value = Items<T>, Read: Into<Option<Items<T>>>>,
    {
        let items: Option<Items<T>> = self.get(key).into();
        items.unwrap_or_default()
    }

    /// The entries without mistakes.
    pub(super) fn list<T: Clone + 'static, U>(&self, key: &ConfigKey<Items<T>, U>) -> Vec<T>
    where
        ConfigKey<Items<T>, U>: Readable<Value = Items<T>, Read: Into<Option<Items<T>>>>,
    {
        self.items(key).values().cloned().collect()
    }

    /// The entries of a map in every layer, the nearer first.
    pub(super) fn entries<K, T>(&self, key: &K) -> impl Iterator<Item = &'a MapEntry<T>>
    where
        K: Typed<Value = MapOf<T>>,
        T: 'static,
    {
        let maps = self.layers.iter().filter_map(|layer| layer.value(key));
        maps.flat_map(|map| &map.entries)
    }

    /// The place of the key in the first layer that has it.
    pub(super) fn key_at<K: Typed>(&self, key: &K) -> Option<&'a SourceSpan> {
        self.entry(key).map(|entry| &entry.key_at)
    }

    /// The same for the row of a key.
    pub(super) fn place_of(&self, row: KeyRow) -> Option<&'a SourceSpan> {
        let entry = self
            .layers
            .iter()
            .find_map(|layer| layer.entries.get(row.name));
        entry.map(|entry| &entry.key_at)
    }

    /// The place of a key's value, if it is no mistake.
    pub(super) fn value_at(&self, row: KeyRow) -> Option<&'a SourceSpan> {
        let entry = self
            .layers
            .iter()
            .find_map(|layer| layer.entries.get(row.name))?;
        entry.value.is_some().then_some(&entry.at)
    }

    /// Whether the key was written, be it wrongly.
    pub(super) fn has<K: Typed>(&self, key: &K) -> bool {
        self.entry(key).is_some()
    }

    /// Whether one of the tables has a key that is not known, or lines that could not be read.
    pub(super) fn has_unknown_keys(&self) -> bool {
        self.layers.iter().any(|layer| layer.strange.any)
    }

    /// Whether something in one of the keys was wrong and has been reported.
    pub(super) fn broken(&self, keys: &[KeyRow]) -> bool {
        let entries = |layer: &&'a CheckedTable| {
            keys.iter()
                .filter_map(|key| layer.entries.get(key.name))
                .any(|entry| entry.broken)
        };
        self.layers.iter().any(entries)
    }

    fn entry<K: Typed>(&self, key: &K) -> Option<&'a CheckedEntry> {
        self.layers.iter().find_map(|layer| layer.entry(key))
    }
}

/// A default by where the name of its key and its text are in memory, and by its type: they are
/// constants, and each of many routes asks for all of them.
type DefaultKey = (*const str, *const str, TypeId);

thread_local! {
    /// Defaults that have been read.
    static DEFAULTS: RefCell<HashMap<DefaultKey, CheckedEntry, BuildHasherDefault<WordHasher>>> =
        RefCell::default();
}

/// A quick hash of a few words that no user chooses, as rustc's own FxHash.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = self
            .0
            .wrapping_add(word)
            .wrapping_mul(0xf135_7aea_2e62_a9c5);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// The default in the table of keys, read by the same checker as what users write.
fn default<T: Clone + 'static>(key: &Defaulted<T>) -> T {
    let row = key.row();
    let text = match row.default {
        Unset::Is(text) => text,
        _ => "",
    };
    DEFAULTS.with_borrow_mut(|defaults| {
        let entry = defaults
            .entry((
                ptr::from_ref(row.name),
                ptr::from_ref(text),
                TypeId::of::<T>(),
            ))
            .or_insert_with(|| default_of(&row, &mut Report::new()).expect(READ));
        entry.written::<T>().expect(READ).value.clone()
    })
}

/// Why a default is a value.
const READ: &str = "a test reads every default";

/// The default of a key. A mistake in it would be reported; a test ensures that there is none.
pub(super) fn default_of(key: &KeyRow, report: &mut Report) -> Option<CheckedEntry> {
    let Unset::Is(toml) = key.default else {
        return None;
    };
    let text = format!("value = {toml}");
    let source = Arc::new(ConfigFile {
        name: key.name.into(),
        dir: "/".into(),
        order: 0,
        text,
    });
    let (branch, syntax) = document::parse(&source, &Environment::none(), report);
    let written = branch.entries.get("value")?;
    Some(TreeChecker::new(report, syntax, ROOT).entry(key, written, key.name))
}
