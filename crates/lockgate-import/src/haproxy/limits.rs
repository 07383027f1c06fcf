//! Limits of requests.

use crate::DraftValue;

/// A limit of so many requests in so many milliseconds.
pub(super) fn limit(most: u64, period: u64, status: u16) -> Option<DraftValue> {
    if most == 0 || period == 0 {
        return None;
    }
    let rate = [("s", 1000_u64), ("m", 60_000), ("h", 3_600_000)]
        .into_iter()
        .find_map(|(unit, length)| {
            let number = most.checked_mul(length)?;
            number
                .is_multiple_of(period)
                .then(|| format!("{}/{unit}", number / period))
        })
        .or_else(|| {
            let number = most.checked_mul(3_600_000)? / period;
            (number > 0).then(|| format!("{number}/h"))
        })?;
    let mut keys: Vec<(String, DraftValue)> = vec![
        ("rate".to_owned(), rate.clone().into()),
        (
            "burst".to_owned(),
            i64::try_from(most.min(1_000_000)).ok()?.into(),
        ),
    ];
    let status = if (400..600).contains(&status) {
        status
    } else {
        429
    };
    if rate
        .split_once('/')
        .is_some_and(|(n, _)| n.parse() == Ok(most))
    {
        keys.remove(1);
    }
    if status != 429 {
        keys.push(("status".to_owned(), i64::from(status).into()));
    }
    if let [(_, only)] = keys.as_slice() {
        return Some(only.clone());
    }
    Some(DraftValue::Inline(keys))
}
