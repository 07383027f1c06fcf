//! The table of keys against the checker: defaults, examples, alternatives.

use super::places::elsewhere;
use super::*;
use crate::document::Text;
use crate::keys::Unset;

#[test]
fn an_alternative_has_at_most_one_text_besides_words() {
    for way in keys::ways() {
        let key = way.last().unwrap();
        let text = Node::Text(Text {
            raw: String::new(),
            value: String::new(),
        });
        let of = key.language.of();
        let texts = of
            .iter()
            .filter(|one| one.takes(&text) && one.words().is_empty());
        assert!(texts.count() <= 1, "{}", keys::full_name(&way));
    }
}

#[test]
fn every_key_has_a_meaning_and_an_example() {
    for way in keys::ways() {
        let key = way.last().unwrap();
        let name = keys::full_name(&way);
        assert!(key.doc.ends_with('.'), "{name}");
        assert!(!keys::example(&way).is_empty(), "{name}");
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
        elsewhere("to", "tcp.*").unwrap(),
        "`proxy` of [tcp.\"ADDR\"]"
    );
    assert_eq!(
        elsewhere("workers", "tcp.*").unwrap(),
        "the top of the file, before the first [table]"
    );
    assert_eq!(elsewhere("policy", "").unwrap(), "[tls]");
    assert_eq!(elsewhere("banana", ""), None);
}
