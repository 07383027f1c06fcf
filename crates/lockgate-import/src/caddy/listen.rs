//! `bind` and `default_bind`: the addresses that sites bind.

use super::texts::{self, CaddyTextKind};

/// Addresses to bind, and what differs.
pub(super) fn addresses(words: &[String]) -> Option<(Vec<String>, Option<String>)> {
    let mut addresses = Vec::new();
    let mut differs = None;
    for word in words {
        let bare = word.trim_matches(['[', ']']);
        let address = bare.strip_prefix("tcp/").unwrap_or(bare);
        if address.parse::<std::net::IpAddr>().is_ok() {
            addresses.push(address.to_owned());
        } else if address == "localhost" {
            addresses.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
        } else if let Ok(text) = texts::convert(address, CaddyTextKind::Plain, None)
            && text.text.starts_with("${env:")
            && text.text.ends_with('}')
        {
            addresses.push(text.text);
            differs = Some("the variable must have one IP address".to_owned());
        } else {
            return None;
        }
    }
    (!addresses.is_empty()).then_some((addresses, differs))
}
