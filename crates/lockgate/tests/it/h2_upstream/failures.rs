//! Requests that do not go well: who is asked again, who is told, and that nothing is left behind.

#[test]
fn nothing() {}
