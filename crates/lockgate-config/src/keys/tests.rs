//! The tables of keys: alternatives, examples, places.

use super::*;
use crate::document::{TomlString, TomlValue};
use crate::key_paths::other_places;

#[test]
fn an_alternative_has_at_most_one_text_besides_words() {
    for way in key_paths() {
        let key = way.last().unwrap();
        let text = TomlValue::Text(TomlString::plain(""));
        let of = key.language.of();
        let texts = of
            .iter()
            .filter(|one| one.accepts(&text) && one.words().is_empty());
        assert!(texts.count() <= 1, "{}", full_name(&way));
    }
}

#[test]
fn every_key_has_a_meaning_and_an_example() {
    for way in key_paths() {
        let key = way.last().unwrap();
        let name = full_name(&way);
        assert!(key.doc.ends_with('.'), "{name}");
        assert!(!example(&way).is_empty(), "{name}");
        // What has one value only cannot show another one.
        if let (Unset::Is(default), false) = (
            key.default,
            key.language.words().len() == 1 && key.language.of().is_empty(),
        ) {
            assert_ne!(default, key.example, "{name}");
        }
    }
}

#[test]
fn a_key_in_the_wrong_table_is_sent_to_the_right_one() {
    assert_eq!(
        other_places(ROOT, "to", "tcp.*").unwrap(),
        "`proxy` of [tcp.\"ADDR\"]"
    );
    assert_eq!(
        other_places(ROOT, "workers", "tcp.*").unwrap(),
        "the top of the file, before the first [table]"
    );
    assert_eq!(other_places(ROOT, "policy", "").unwrap(), "[tls]");
    assert_eq!(other_places(ROOT, "banana", ""), None);
}
