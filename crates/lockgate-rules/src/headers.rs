//! Fields that are set, added and removed in requests or responses.

use lockgate_http::fields::{Fields, Known, alike};
use lockgate_http::h1::parse::is_token;

use crate::template::{RequestValues, Template};

/// An operation on the lines of one field name. Templates are for
/// [`Purpose::Text`](crate::Purpose::Text).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderOp {
    /// Replaces all lines by these.
    Set(Vec<Template>),
    /// Adds these lines to those received.
    Add(Vec<Template>),
    /// Adds this line if there is none.
    Default(Template),
    /// Removes all lines.
    Remove,
}

/// A field name and the operation on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRule {
    /// The name, in the spelling that is sent. An operation that replaces or removes also covers
    /// names that applications take for the same ([`alike`]): a client cannot evade it by writing
    /// `X_User`.
    pub name: Vec<u8>,
    /// The operation.
    pub op: HeaderOp,
}

/// Why a header rule is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The name is no token (RFC 9110 §5.1).
    #[error("{0:?} is no field name")]
    Name(String),
    /// The field is part of the framing or of connection management, which Lockgate alone sets.
    #[error("{0} belongs to the connection, and only the proxy sets it")]
    Connection(String),
    /// An operation on Host other than `Set` with one value; a request has exactly one (RFC 9112
    /// §3.2).
    #[error("Host can only be set, to one value")]
    Host,
    /// The value has a control character, which might end the line.
    #[error("the value of {0} has a control character")]
    Value(String),
    /// Two rules have the same name.
    #[error("there are two rules for {0}")]
    Twice(String),
}

/// All rules for the fields of a message. An empty set costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderRules {
    rules: Vec<HeaderRule>,
    /// Names that Lockgate sets itself.
    reserved: Vec<Vec<u8>>,
    /// A bitmap of the lengths of replaced and removed names. Most received lines have another
    /// length and need no comparison.
    lengths: u64,
}

impl HeaderRules {
    /// Header rules, at most one for each name.
    ///
    /// # Errors
    /// When a rule would break the message or the connection.
    pub fn new(rules: impl IntoIterator<Item = HeaderRule>) -> Result<Self, HeaderError> {
        let mut all = Self::default();
        for rule in rules {
            all.add(rule)?;
        }
        Ok(all)
    }

    /// Adds a rule; its name must not have one yet.
    ///
    /// # Errors
    /// When the rule would break the message or the connection.
    pub fn add(&mut self, rule: HeaderRule) -> Result<(), HeaderError> {
        rule.check()?;
        if self.has(&rule.name) {
            return Err(HeaderError::Twice(rule.shown()));
        }
        if rule.replaces() {
            self.lengths |= length_bit(&rule.name);
        }
        self.rules.push(rule);
        Ok(())
    }

    /// Whether this name has a rule.
    pub fn has(&self, name: &[u8]) -> bool {
        let mut names = self.rules.iter().map(|rule| &rule.name);
        names.any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The rules, in the order in which they were added.
    pub fn rules(&self) -> &[HeaderRule] {
        &self.rules
    }

    /// The same rules, with names that Lockgate sets itself. Trailers of these names are removed;
    /// the head is left alone, since Lockgate sets them there.
    #[must_use]
    pub fn reserving(mut self, names: &[impl AsRef<[u8]>]) -> Self {
        self.reserved = names.iter().map(|name| name.as_ref().to_vec()).collect();
        for name in &self.reserved {
            self.lengths |= length_bit(name);
        }
        self
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether the fields are the same for every message: no template has a placeholder.
    pub fn is_fixed(&self) -> bool {
        let fixed =
            |templates: &Vec<Template>| templates.iter().all(|template| template.fixed().is_some());
        self.rules.iter().all(|rule| match &rule.op {
            HeaderOp::Set(templates) | HeaderOp::Add(templates) => fixed(templates),
            HeaderOp::Default(template) => template.fixed().is_some(),
            HeaderOp::Remove => true,
        })
    }

    /// Whether a peer's trailers of this name are removed: those that the rules set or remove in
    /// the head, and reserved ones. Some recipients merge trailers into the head (RFC 9110 §6.5.1).
    pub fn takes_out(&self, name: &[u8]) -> bool {
        self.replaces(name)
            || self.lengths & length_bit(name) != 0
                && self.reserved.iter().any(|reserved| alike(reserved, name))
    }

    /// Whether lines of this name are replaced or removed.
    fn replaces(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name) != 0
            && self
                .rules
                .iter()
                .any(|rule| rule.replaces() && alike(&rule.name, name))
    }

    /// Applies the rules to the fields of a message. `scratch` is a buffer for rendered values; it
    /// is left empty.
    pub fn apply(&self, fields: &mut Fields, values: &RequestValues<'_>, scratch: &mut Vec<u8>) {
        if self.lengths != 0 {
            fields.retain(|field| !self.replaces(field.name));
        }
        for rule in &self.rules {
            let templates = match &rule.op {
                HeaderOp::Default(_)
                    if fields.iter().any(|field| alike(&rule.name, field.name)) =>
                {
                    &[]
                }
                HeaderOp::Default(template) => std::slice::from_ref(template),
                HeaderOp::Set(templates) | HeaderOp::Add(templates) => templates.as_slice(),
                HeaderOp::Remove => &[],
            };
            for template in templates {
                if let Some(value) = template.fixed() {
                    fields.append(&rule.name, value);
                } else {
                    scratch.clear();
                    template.render(values, scratch);
                    fields.append(&rule.name, scratch);
                    scratch.clear();
                }
            }
        }
    }
}

impl HeaderRule {
    fn check(&self) -> Result<(), HeaderError> {
        if !is_token(&self.name) {
            return Err(HeaderError::Name(self.shown()));
        }
        match Known::of(&self.name) {
            Some(
                Known::Connection
                | Known::ContentLength
                | Known::Expect
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::Te
                | Known::Trailer
                | Known::TransferEncoding
                | Known::Upgrade,
            ) => return Err(HeaderError::Connection(self.shown())),
            Some(Known::Host) if !matches!(&self.op, HeaderOp::Set(values) if values.len() == 1) => {
                return Err(HeaderError::Host);
            }
            _ => {}
        }
        let sound = match &self.op {
            HeaderOp::Set(templates) | HeaderOp::Add(templates) => {
                templates.iter().all(Template::is_field_value)
            }
            HeaderOp::Default(template) => template.is_field_value(),
            HeaderOp::Remove => true,
        };
        if sound {
            Ok(())
        } else {
            Err(HeaderError::Value(self.shown()))
        }
    }

    fn replaces(&self) -> bool {
        matches!(self.op, HeaderOp::Set(_) | HeaderOp::Remove)
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

fn length_bit(name: &[u8]) -> u64 {
    1 << name.len().min(63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::template::tests::values;

    fn template(text: &str) -> Template {
        Template::text(text, &Pattern::everything())
    }

    fn set(name: &str, values: &[&str]) -> HeaderRule {
        let values = values.iter().map(|text| template(text)).collect();
        HeaderRule {
            name: name.into(),
            op: HeaderOp::Set(values),
        }
    }

    fn add(name: &str, value: &str) -> HeaderRule {
        HeaderRule {
            name: name.into(),
            op: HeaderOp::Add(vec![template(value)]),
        }
    }

    fn remove(name: &str) -> HeaderRule {
        HeaderRule {
            name: name.into(),
            op: HeaderOp::Remove,
        }
    }

    fn applied(rules: Vec<HeaderRule>, lines: &[(&str, &str)]) -> Vec<String> {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.append(name.as_bytes(), value.as_bytes());
        }
        let mut scratch = Vec::new();
        HeaderRules::new(rules)
            .unwrap()
            .apply(&mut fields, &values("/a", None), &mut scratch);
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields
            .iter()
            .map(|field| format!("{}: {}", text(field.name), text(field.value)))
            .collect()
    }

    #[test]
    fn header_rules_set_append_and_remove_by_name() {
        let origin = [
            ("Server", "x"),
            ("X-A", "1"),
            ("x-a", "2"),
            ("Vary", "a"),
            ("Other", "3"),
        ];
        let all = vec![
            remove("server"),
            set("X-a", &["{client}", "b"]),
            add("vary", "b"),
            set("X-New", &["c"]),
        ];
        assert_eq!(
            applied(all, &origin),
            [
                "Vary: a",
                "Other: 3",
                "X-a: 192.0.2.7",
                "X-a: b",
                "vary: b",
                "X-New: c"
            ]
        );
        assert_eq!(applied(vec![], &origin).len(), 5);
        assert_eq!(
            applied(vec![set("X-A", &[])], &origin),
            ["Server: x", "Vary: a", "Other: 3"]
        );
        assert_eq!(
            applied(vec![set("Host", &["b"])], &[("host", "a")]),
            ["Host: b"]
        );
    }

    #[test]
    fn a_default_header_yields_to_a_present_one() {
        let default = |name: &str| HeaderRule {
            name: name.into(),
            op: HeaderOp::Default(template("b")),
        };
        assert_eq!(
            applied(vec![default("X-A")], &[("x-a", "1"), ("x-a", "2")]),
            ["x-a: 1", "x-a: 2"]
        );
        assert_eq!(
            applied(vec![default("X-A")], &[("y", "1")]),
            ["y: 1", "X-A: b"]
        );
        assert!(
            !HeaderRules::new(vec![default("X-A")])
                .unwrap()
                .takes_out(b"x-a")
        );
        let host = HeaderRules::new(vec![default("host")]);
        assert_eq!(host, Err(HeaderError::Host));
    }

    /// RFC 3875 §4.1.18: an application that gets fields as variables cannot tell X_User from
    /// X-User.
    #[test]
    fn no_spelling_of_a_name_evades_its_header_rule() {
        let sent = [
            ("X_User", "root"),
            ("x-user", "root"),
            ("X_USER_", "1"),
            ("X.User", "2"),
        ];
        assert_eq!(
            applied(vec![set("X-User", &["nobody"])], &sent),
            ["X_USER_: 1", "X.User: 2", "X-User: nobody"]
        );
        assert_eq!(
            applied(vec![remove("x_user")], &sent),
            ["X_USER_: 1", "X.User: 2"]
        );
        assert_eq!(applied(vec![add("X-User", "nobody")], &sent).len(), 5);
    }

    #[test]
    fn long_header_names_are_found() {
        let (long, longer) = ("x".repeat(63), "x".repeat(100));
        assert_eq!(
            applied(vec![remove(&longer)], &[(&long, "1"), (&longer, "2")]),
            [format!("{long}: 1")]
        );
    }

    /// RFC 9110 §7.6.1, RFC 9112 §6: a rule for framing fields could split messages.
    #[test]
    fn header_rules_cannot_change_framing_or_connection() {
        for name in [
            "Content-Length",
            "transfer-encoding",
            "Connection",
            "TE",
            "Trailer",
            "upgrade",
            "Keep-Alive",
        ] {
            for rule in [set(name, &["1"]), add(name, "1"), remove(name)] {
                assert_eq!(
                    HeaderRules::new(vec![rule]),
                    Err(HeaderError::Connection(name.into()))
                );
            }
        }
        for rule in [
            add("Host", "b"),
            remove("host"),
            set("Host", &["a", "b"]),
            set("Host", &[]),
        ] {
            assert_eq!(HeaderRules::new(vec![rule]), Err(HeaderError::Host));
        }
    }

    #[test]
    fn a_header_rule_cannot_inject_crlf() {
        for name in ["", "a b", "a:", "a\r\n", "\u{e4}"] {
            assert_eq!(
                HeaderRules::new(vec![remove(name)]),
                Err(HeaderError::Name(name.into()))
            );
        }
        for value in ["a\r\nb: c", "a\nb", "a\0", "{client}\r"] {
            assert_eq!(
                HeaderRules::new(vec![set("a", &[value])]),
                Err(HeaderError::Value("a".into()))
            );
            assert_eq!(
                HeaderRules::new(vec![add("a", value)]),
                Err(HeaderError::Value("a".into()))
            );
        }
        assert!(HeaderRules::new(vec![set("a", &["tab\tand \u{e4}"])]).is_ok());
        let twice = vec![remove("a"), add("A", "1")];
        assert_eq!(HeaderRules::new(twice), Err(HeaderError::Twice("A".into())));
    }
}
