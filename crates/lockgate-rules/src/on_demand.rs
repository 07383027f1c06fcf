//! Certificates that are obtained when a client first asks for their name.

use crate::host_pattern::HostPattern;

/// The permission for certificates on demand, and their limits. At least one of `names` and `ask` is
/// set: without a permission a stranger could have any number of certificates ordered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnDemand {
    /// The hosts that are permitted; empty leaves it to `ask`.
    pub names: Vec<HostPattern>,
    /// A URL that is asked, with `?domain=NAME`: the status 200 permits the name.
    pub ask: Option<String>,
    /// New names in an hour.
    pub per_hour: u32,
    /// New names that one client may ask for in an hour.
    pub per_client: u32,
}

impl OnDemand {
    /// Whether `names` lets a host through; where it is empty, every host.
    pub fn lists(&self, host: &str) -> bool {
        let matches = |pattern: &HostPattern| match pattern {
            HostPattern::Any => false,
            HostPattern::Exact(name) => name == host,
            HostPattern::Under(parent) => host
                .strip_suffix(parent)
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|label| !label.is_empty()),
        };
        self.names.is_empty() || self.names.iter().any(matches)
    }
}

/// Whether a name in SNI is one that a public authority may certify: letters, digits and hyphens in
/// at least two labels of 1 to 63 bytes (RFC 1035 §2.3.1), not an address, at most 253 bytes.
pub fn is_certifiable_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 253
        && name.contains('.')
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_demand_names_are_listed_by_host_and_by_suffix() {
        let rules = OnDemand {
            names: vec![
                HostPattern::Exact("a.example".to_owned()),
                HostPattern::Under("customers.example".to_owned()),
            ],
            ask: None,
            per_hour: 1,
            per_client: 1,
        };
        for listed in ["a.example", "x.customers.example", "x.y.customers.example"] {
            assert!(rules.lists(listed), "{listed}");
        }
        for other in [
            "customers.example",
            "xcustomers.example",
            ".customers.example",
            "b.example",
        ] {
            assert!(!rules.lists(other), "{other}");
        }
    }

    #[test]
    fn only_names_of_hosts_are_certifiable_on_demand() {
        for name in ["a.example", "xn--mnchen-3ya.example", "1.example"] {
            assert!(is_certifiable_name(name), "{name}");
        }
        let long = format!("{}.example", vec!["a".repeat(50); 5].join("."));
        for name in [
            "",
            "box",
            "a..example",
            "-a.example",
            "a_b.example",
            "192.0.2.1",
            "../x.example",
            "a.example.",
            "A.example",
            &long,
        ] {
            assert!(!is_certifiable_name(name), "{name}");
        }
    }
}
