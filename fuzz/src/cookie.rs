//! Cookies of requests: ours is found and taken out, and the others stay as they are.

use lockgate_http::fields::Fields;
use lockgate_net::millis::Millis;
use lockgate_rules::HashKey;
use lockgate_upstream::{Affinity, AffinityInput, Preference, Sticky};

/// Any bytes as lines of Cookie.
pub fn cookie(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let came = fields(&lines);
    let sticky = Sticky::new("lg", "app", ["10.0.0.1:80", "10.0.0.2:80"].into_iter());
    // A second opinion: as if all lines were one (RFC 9113 §8.2.3), cut at every semicolon.
    let all = lines.join(&b';');
    let pairs: Vec<&[u8]> = all
        .split(|byte| *byte == b';')
        .map(<[u8]>::trim_ascii)
        .collect();
    let (ours, theirs): (Vec<_>, Vec<_>) = pairs
        .into_iter()
        .filter(|pair| !pair.is_empty())
        .partition(|pair| pair.get(..3) == Some(b"lg="));
    let preference = sticky.preference(&came);
    assert!(preference == Preference::Any || ours.iter().any(|pair| pair.len() == 3 + 16));
    let affinity = Affinity::Hash(HashKey::Cookie("lg".to_owned()));
    let affinity_input = AffinityInput {
        client: None,
        server_name: None,
        session: None,
        fields: Some(&came),
    };
    assert_eq!(
        affinity.preference(&affinity_input, Millis::ZERO) == Preference::Any,
        ours.first().is_none_or(|pair| pair.len() == 3)
    );
    let Some(left) = sticky.without_ours(&came) else {
        assert!(ours.is_empty() && preference == Preference::Any);
        return;
    };
    assert!(!ours.is_empty());
    assert_eq!(left, theirs.join(&b"; "[..]));
    assert_eq!(sticky.without_ours(&fields(&[&left])), None);
}

fn fields(lines: &[&[u8]]) -> Fields {
    let mut fields = Fields::default();
    lines.iter().for_each(|line| fields.append(b"Cookie", line));
    fields
}
