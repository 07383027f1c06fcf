//! The target of a request with its query, percent-encoded.

use std::fmt::Write as _;

/// `/path?name=value&name=value`, or the path alone.
pub(super) fn with_query(path: &str, parameters: &[(&'static str, String)]) -> String {
    let mut target = path.to_owned();
    for (number, (name, value)) in parameters.iter().enumerate() {
        target.push(if number == 0 { '?' } else { '&' });
        target.push_str(name);
        target.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    target.push(char::from(byte));
                }
                byte => {
                    let _ = write!(target, "%{byte:02X}"); // writing to a String cannot fail
                }
            }
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_query_are_encoded() {
        let parameters = [
            ("listener", ":443".to_owned()),
            ("site", "a&b é".to_owned()),
        ];
        assert_eq!(
            with_query("/v1/connections", &parameters),
            "/v1/connections?listener=%3A443&site=a%26b%20%C3%A9"
        );
        assert_eq!(with_query("/v1/connections", &[]), "/v1/connections");
    }
}
