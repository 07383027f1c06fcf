//! Names of series as paths with dots between their parts, as Graphite and statsd have them.

use crate::encoder::bound_text;

/// What all names of Lockgate's metrics begin with; a prefix stands in its place.
const OURS: &str = "lockgate_";

/// Appends the name of a metric behind the prefix, with a dot between them.
///
/// The prefix stands for the beginning that all names have: `lockgate` makes `lockgate.clients` of
/// `lockgate_clients`. Without one the name is whole.
pub(crate) fn put_name(out: &mut Vec<u8>, prefix: &str, name: &str, suffix: &str) {
    let rest = if prefix.is_empty() {
        name
    } else {
        out.extend_from_slice(prefix.as_bytes());
        out.push(b'.');
        name.strip_prefix(OURS).unwrap_or(name)
    };
    out.extend_from_slice(rest.as_bytes());
    out.extend_from_slice(suffix.as_bytes());
}

/// Appends labels as parts of a path: `.name.value` for each, in their order.
pub(crate) fn put_label_parts(out: &mut Vec<u8>, labels: &[(&str, &str)], le: Option<f64>) {
    for (label, value) in labels {
        put_part(out, label);
        put_part(out, value);
    }
    if let Some(bound) = le {
        put_part(out, "le");
        put_part(out, &bound_text(bound));
    }
}

/// Appends a part of a path with its dot. Dots would divide it, and spaces, slashes, colons and the
/// like have a meaning in one protocol or another: each such character is an underscore.
fn put_part(out: &mut Vec<u8>, part: &str) {
    out.push(b'.');
    if part.is_empty() {
        // A path has no empty parts.
        out.push(b'_');
    }
    put_replaced(out, part, |char| {
        char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
    });
}

/// Appends a text with an underscore for each character that is not kept.
pub(crate) fn put_replaced(out: &mut Vec<u8>, text: &str, is_kept: impl Fn(char) -> bool) {
    for char in text.chars() {
        let kept = if is_kept(char) { char } else { '_' };
        out.extend_from_slice(kept.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Graphite, "Feeding In Your Data": a path has parts with dots between them, and a line has
    /// spaces between its fields.
    #[test]
    fn labels_become_parts_of_a_path_without_dots_spaces_and_slashes() {
        for (labels, le, path) in [
            (&[][..], None, "x.clients"),
            (&[("listener", ":443")], None, "x.clients.listener._443"),
            (
                &[("path", "/etc/a b.pem"), ("name", "*.ü.example")],
                None,
                "x.clients.path._etc_a_b_pem.name.____example",
            ),
            (&[("a", "")], None, "x.clients.a._"),
            (&[], Some(0.005), "x.clients.le.0_005"),
            (&[], Some(f64::INFINITY), "x.clients.le._Inf"),
        ] {
            let mut out = Vec::new();
            put_name(&mut out, "x", "lockgate_clients", "");
            put_label_parts(&mut out, labels, le);
            assert_eq!(String::from_utf8(out).unwrap(), path);
        }
    }

    #[test]
    fn a_prefix_stands_for_the_beginning_of_our_names() {
        for (prefix, name, suffix, path) in [
            ("lockgate", "lockgate_clients", "", "lockgate.clients"),
            (
                "web.one",
                "lockgate_a_seconds",
                "_sum",
                "web.one.a_seconds_sum",
            ),
            ("web", "other", "", "web.other"),
            ("", "lockgate_clients", "", "lockgate_clients"),
        ] {
            let mut out = Vec::new();
            put_name(&mut out, prefix, name, suffix);
            assert_eq!(String::from_utf8(out).unwrap(), path);
        }
    }
}
