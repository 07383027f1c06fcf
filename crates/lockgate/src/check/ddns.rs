//! The names that are kept at this machine's address, for `check -v`: as JSON, and as text.

use lockgate_config::Config;
use lockgate_rules::AddressSource;
use serde_json::{Value, json};

use super::units;
use crate::print::out;

/// The names, their provider and the sources of the address; nothing where there is no `[ddns]`.
pub(super) fn describe(config: &Config) -> Option<Value> {
    let ddns = config.ddns.as_ref()?;
    let sources = |sources: &[AddressSource]| {
        let texts = sources.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>()
    };
    Some(json!({
        "names": ddns.names,
        "provider": ddns.dns.provider.name,
        "ipv4": sources(&ddns.ipv4),
        "ipv6": sources(&ddns.ipv6),
        "every": units::duration(ddns.every),
        "private": ddns.private,
    }))
}

/// Prints the description.
pub(super) fn print(ddns: &Value) {
    let list = |key: &str| {
        let items = ddns[key].as_array().into_iter().flatten();
        let texts: Vec<_> = items.filter_map(Value::as_str).collect();
        match texts.is_empty() {
            true => "left alone".to_owned(),
            false => texts.join(", "),
        }
    };
    let text = |key: &str| ddns[key].as_str().unwrap_or_default();
    out!("dynamic DNS");
    out!("  names        {}", list("names"));
    out!("  set by       {}", text("provider"));
    out!("  IPv4         {}", list("ipv4"));
    out!("  IPv6         {}", list("ipv6"));
    let private = match ddns["private"] == true {
        true => ", private addresses too",
        false => "",
    };
    out!("  looked at    every {}{private}", text("every"));
}
