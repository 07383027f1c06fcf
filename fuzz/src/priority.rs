//! Priorities: a second parser of structured fields reads the same.

use lockgate_http::priority::{self, Priority};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

/// Any bytes as a value of Priority, and as the payload of a PRIORITY_UPDATE.
pub fn priority(data: &[u8]) {
    let ours = Priority::parse(data);
    let theirs = Parser::new(data)
        .with_version(sfv::Version::Rfc9651)
        .parse::<Dictionary>();
    match (ours, &theirs) {
        (Some(ours), Ok(theirs)) => assert_eq!(ours, of(theirs)),
        (None, Err(_)) => {}
        // Whether base64 can be decoded is nothing to us.
        (Some(_), Err(_)) if data.contains(&b':') => {}
        other => panic!("{other:?}"),
    }
    let update = priority::priority_update(data);
    assert_eq!(
        update.map(|update| update.1),
        data.get(4..)
            .and_then(Priority::parse)
            .filter(|_| update.is_some())
    );
    if let Some((stream, priority)) = update {
        assert!(stream > 0 && stream < 1 << 31 && priority.urgency <= 7);
    }
}

fn of(dictionary: &Dictionary) -> Priority {
    let item = |key: &str| match dictionary.get(key) {
        Some(ListEntry::Item(item)) => Some(&item.bare_item),
        _ => None,
    };
    let urgency = match item("u") {
        Some(BareItem::Integer(urgency)) if (0..=7).contains(&i64::from(*urgency)) => {
            i64::from(*urgency) as u8
        }
        _ => 3,
    };
    Priority {
        urgency,
        incremental: matches!(item("i"), Some(BareItem::Boolean(true))),
    }
}
