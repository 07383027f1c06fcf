//! The state of an endpoint as tables show it: what an operator has set comes before its health.

use std::borrow::Cow;

/// The state of an endpoint, with what an operator has set first.
pub(crate) fn shown_state<'s>((state, admin): (&'s str, Option<&'s str>)) -> Cow<'s, str> {
    match (admin, state) {
        (None, _) => Cow::Borrowed(state),
        (Some(admin), "up") => Cow::Borrowed(admin),
        (Some(admin), _) => Cow::Owned(format!("{admin}, {state}")),
    }
}

/// Whether it takes requests: it is up, and no operator has taken it out of its pool.
pub(crate) fn is_up((state, admin): (&str, Option<&str>)) -> bool {
    state == "up" && admin.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_has_set_comes_first() {
        for (state, admin, shown, up) in [
            ("up", None, "up", true),
            ("up", Some("drain"), "drain", false),
            ("down", Some("maintenance"), "maintenance, down", false),
            ("ejected", None, "ejected", false),
        ] {
            assert_eq!(shown_state((state, admin)), shown);
            assert_eq!(is_up((state, admin)), up, "{shown}");
        }
    }
}
