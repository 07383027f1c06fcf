//! The head of a request as it goes to an endpoint.

use lockgate_http::fields::{Fields, Known};
use lockgate_http::forwarding;
use lockgate_http::head::RequestHead;
use lockgate_http::request_target::RequestTargetError;
use lockgate_http::target::Authority;

/// The received head as the route's rules, its auth service and a trace have changed it.
///
/// The received head itself never changes: the access log, the response and all else that concerns
/// the client read that.
#[derive(Debug)]
pub struct OutgoingHead<'a> {
    received: &'a RequestHead,
    /// Host and port that the client has asked for, by Host or an absolute target.
    asked_host: &'a [u8],
    /// Fields in place of the received ones, from the first change on: most requests need no copy.
    /// Their Host is the one for the endpoint.
    changed: Option<Box<Fields>>,
}

impl<'a> OutgoingHead<'a> {
    /// The received head unchanged, for this host.
    pub fn of(received: &'a RequestHead, asked_host: &'a [u8]) -> Self {
        Self {
            received,
            asked_host,
            changed: None,
        }
    }

    /// Its fields, hop-by-hop fields among them.
    pub fn fields(&self) -> &Fields {
        self.changed.as_deref().unwrap_or(&self.received.fields)
    }

    /// Its fields, to be changed. Those that Connection names are removed first: the client cannot
    /// remove an added field.
    pub fn change(&mut self) -> &mut Fields {
        self.changed.get_or_insert_with(|| {
            let mut fields = Box::new(self.received.fields.clone());
            forwarding::remove_connection_fields(&mut fields);
            // Not the client's Host beside an absolute target: it would pass for the Host of a rule
            // (RFC 9112 §3.2.2).
            fields.set(Known::Host, self.asked_host);
            fields
        })
    }

    /// Host and port that the endpoint is asked for: a rule's Host, else the client's.
    pub fn host(&self) -> &[u8] {
        self.changed.as_deref().map_or(self.asked_host, |fields| {
            fields.first(Known::Host).unwrap_or_default()
        })
    }

    /// The Host that a rule has set, where it differs from the client's.
    pub fn other_host(&self) -> Option<&[u8]> {
        Some(self.host()).filter(|host| *host != self.asked_host)
    }

    /// Checks that the Host of a rule is valid: its template may contain values of the request.
    ///
    /// # Errors
    /// When it is no host and port.
    pub fn check_host(&self) -> Result<(), RequestTargetError> {
        match self.other_host().map(Authority::parse) {
            Some(Err(_)) => Err(RequestTargetError::BadHost),
            Some(Ok(_)) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(fields: &[(&str, &str)]) -> RequestHead {
        let mut head = RequestHead::default();
        fields
            .iter()
            .for_each(|(name, value)| head.fields.append(name.as_bytes(), value.as_bytes()));
        head
    }

    #[test]
    fn the_received_head_is_unchanged_by_outgoing_changes() {
        let received = received(&[("Host", "a.example"), ("Accept", "text/html")]);
        let mut outgoing = OutgoingHead::of(&received, b"a.example");
        assert!(
            std::ptr::eq(outgoing.fields(), &raw const received.fields),
            "no copy without a change"
        );
        outgoing.change().set(Known::Host, b"b.example");
        outgoing.change().append(b"X-Added", b"1");
        assert_eq!(received.fields.first(Known::Host), Some(&b"a.example"[..]));
        assert_eq!(outgoing.fields().named(b"x-added").next(), Some(&b"1"[..]));
        assert_eq!(
            outgoing.fields().named(b"accept").next(),
            Some(&b"text/html"[..])
        );
    }

    /// RFC 9110 §7.6.1; CVE-2022-1388.
    #[test]
    fn the_connection_field_removes_no_added_field() {
        let received = received(&[("Connection", "x-user, x-mine"), ("X-Mine", "1")]);
        let mut outgoing = OutgoingHead::of(&received, b"");
        outgoing.change().append(b"X-User", b"ann");
        let onward = forwarding::EndToEndFields::of(outgoing.fields());
        let fields = outgoing
            .fields()
            .iter()
            .filter(|field| onward.passes(field));
        assert_eq!(
            fields.map(|field| field.name).collect::<Vec<_>>(),
            [&b"Host"[..], b"X-User"]
        );
    }

    /// RFC 9112 §3.2.2: an absolute target overrides Host, and a rule overrides both, also where
    /// the client sends the same.
    #[test]
    fn the_outgoing_host_is_the_rules_or_the_clients() {
        let received = received(&[("Host", "b.example")]);
        let mut outgoing = OutgoingHead::of(&received, b"a.example:81");
        outgoing.change().append(b"X-Added", b"1");
        assert_eq!(
            (outgoing.host(), outgoing.other_host()),
            (&b"a.example:81"[..], None)
        );
        outgoing.change().set(Known::Host, b"b.example");
        assert_eq!(
            (outgoing.host(), outgoing.other_host()),
            (&b"b.example"[..], Some(&b"b.example"[..]))
        );
        assert_eq!(outgoing.check_host(), Ok(()));
        outgoing.change().set(Known::Host, b"b example");
        assert_eq!(outgoing.check_host(), Err(RequestTargetError::BadHost));
    }
}
