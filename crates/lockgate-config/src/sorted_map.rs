//! A map in one block of memory, sorted by key: most tables of a configuration have a few keys, for
//! which a node of a `BTreeMap` is many times too large.

use std::borrow::Borrow;
use std::slice;
use std::vec;

/// Up to so many entries are compared one by one: most names differ by their length already.
const FEW: usize = 8;

/// Entries by key, each key once.
#[derive(Debug, Clone)]
pub(crate) struct SortedMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// An empty map with room for so many entries.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self(Vec::with_capacity(entries))
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let found = match self.0.len() {
            ..=FEW => self.0.iter().find(|(known, _)| known.borrow() == key),
            _ => self.0.get(self.find(key).ok()?),
        };
        found.map(|(_, value)| value)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Sets the value of a key. Quick where the key comes after all others.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => self.0[at] = (key, value),
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&K, &V) -> bool) {
        self.0.retain(|(key, value)| keep(key, value));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.into_iter()
    }

    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        match self.0.last() {
            Some((last, _)) if last.borrow() < key => Err(self.0.len()),
            _ => self
                .0
                .binary_search_by(|(known, _)| known.borrow().cmp(key)),
        }
    }
}

/// The last of equal keys counts.
impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self::with_capacity(entries.size_hint().0);
        entries.for_each(|(key, value)| map.insert(key, value));
        map
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

type Pair<'a, K, V> = fn(&'a (K, V)) -> (&'a K, &'a V);

impl<'a, K, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::iter::Map<slice::Iter<'a, (K, V)>, Pair<'a, K, V>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sorted_map_has_each_key_once_and_in_order() {
        let entries = [("b", 1), ("d", 2), ("a", 3), ("c", 4), ("b", 5)];
        let mut map: SortedMap<String, i32> = entries
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect();
        let listed = |map: &SortedMap<String, i32>| {
            let entries = map.iter().map(|(key, value)| format!("{key}{value}"));
            entries.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(listed(&map), "a3 b5 c4 d2");
        assert_eq!(
            (map.get("c"), map.get("x"), map.get("")),
            (Some(&4), None, None)
        );
        assert_eq!((map.remove("c"), map.remove("c")), (Some(4), None));
        *map.get_mut("d").unwrap() = 6;
        map.retain(|key, _| key != "a");
        assert_eq!(listed(&map), "b5 d6");
        assert!(map.contains_key("d") && !map.contains_key("a") && !map.is_empty());
    }
}
