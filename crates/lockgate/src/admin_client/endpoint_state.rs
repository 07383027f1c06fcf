//! The state of an endpoint as tables show it: what an operator has set comes before its health.

use serde_json::Value;

use super::units::plain;

/// The state of an endpoint, with what an operator has set first.
pub(crate) fn shown_state(endpoint: &Value) -> String {
    let (state, admin) = (plain(&endpoint["state"]), plain(&endpoint["admin"]));
    match (admin.as_str(), state.as_str()) {
        ("", _) => state,
        (_, "up") => admin,
        _ => format!("{admin}, {state}"),
    }
}

/// Whether it takes requests: it is up, and no operator has taken it out of its pool.
pub(crate) fn is_up(endpoint: &Value) -> bool {
    endpoint["state"] == "up" && endpoint["admin"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_an_operator_has_set_comes_first() {
        for (state, admin, shown, up) in [
            ("up", json!(null), "up", true),
            ("up", json!("drain"), "drain", false),
            ("down", json!("maintenance"), "maintenance, down", false),
            ("ejected", json!(null), "ejected", false),
        ] {
            let endpoint = json!({ "state": state, "admin": admin });
            assert_eq!(shown_state(&endpoint), shown);
            assert_eq!(is_up(&endpoint), up, "{endpoint}");
        }
    }
}
