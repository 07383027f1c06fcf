//! A service that says of every request whether it may: what it is asked, and what of its answer
//! the request gets.
//!
//! Without IO: it is asked as any endpoint is.

use lockgate_http::fields::{Field, Fields, Known, alike};
use lockgate_http::forwarding::EndToEndFields;
use lockgate_http::head::RequestHead;
use lockgate_http::request_target::RequestTarget;

use super::proxy::Proxy;
use crate::message::OutgoingHead;
use crate::rules::Rules;

/// Of names that begin so, requests say elsewhere what they are about: services that are asked in
/// another way believe them.
const ABOUT: [&[u8]; 3] = [b"x-forwarded-", b"x-original-", b"x-rewrite-"];

/// What the service needs to know who it is that asks, also where it says the same anew.
const CREDENTIALS: [&[u8]; 2] = [b"authorization", b"cookie"];

/// A service that is asked.
#[derive(Debug)]
pub struct ForwardAuth {
    /// How it is asked.
    pub proxy: Proxy,
    /// The path, and perhaps query, that it is asked for.
    pub target: String,
    /// Fields that the request gets from its answer, and never from the client.
    pub copy: Vec<Vec<u8>>,
    /// What holds for the exchange with it: nothing.
    pub rules: Rules,
}

impl ForwardAuth {
    /// What it is asked about a request: a GET without a body, with those of the request's `fields`
    /// that go on. What others say about where a request came from is left out, but for what
    /// [`ForwardedClient`](lockgate_http::forwarding::ForwardedClient) replaces or adds to. Neither
    /// is it asked whether it has something newer, or a part of something: that is about what was
    /// asked for.
    pub fn question(
        &self,
        head: &RequestHead,
        fields: &Fields,
        asked: &RequestTarget<'_>,
    ) -> RequestHead {
        let mut question = RequestHead::of(head.version, b"GET", self.target.as_bytes());
        let onward = EndToEndFields::of(fields);
        for field in fields
            .iter()
            .filter(|field| onward.passes(field) && !self.withholds(field))
        {
            question.fields.append(field.name, field.value);
        }
        question
            .fields
            .append(b"X-Forwarded-Method", head.method_name());
        let uri = match asked.query {
            None => asked.path.to_vec(),
            Some(query) => [asked.path, query].join(&b'?'),
        };
        question.fields.append(b"X-Forwarded-Uri", &uri);
        question
    }

    /// Of whom and what it is asked: of the host that the request is for.
    pub fn asked<'a>(&'a self, of: &RequestTarget<'a>) -> RequestTarget<'a> {
        let (path, query) = match self.target.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes())),
            None => (self.target.as_str(), None),
        };
        RequestTarget {
            path: path.as_bytes(),
            query,
            secure: None,
            ..*of
        }
    }

    fn withholds(&self, field: &Field<'_>) -> bool {
        match field.known {
            // What earlier hops say is kept or replaced where it is known who they are.
            Some(Known::XForwardedFor | Known::XForwardedHost | Known::XForwardedProto) => false,
            Some(
                Known::Expect
                | Known::IfMatch
                | Known::IfModifiedSince
                | Known::IfNoneMatch
                | Known::IfRange
                | Known::IfUnmodifiedSince
                | Known::Range
                | Known::Trailer,
            ) => true,
            _ => {
                let about = |begins: &&[u8]| {
                    field
                        .name
                        .get(..begins.len())
                        .is_some_and(|it| alike(begins, it))
                };
                ABOUT.iter().any(about) || self.copies(field.name) && !is_credential(field.name)
            }
        }
    }

    fn copies(&self, name: &[u8]) -> bool {
        self.copy.iter().any(|copied| alike(copied, name))
    }

    /// Puts what it has said into the request's fields, in the place of what the client has.
    pub fn admit(&self, answer: &Fields, outgoing: &mut OutgoingHead<'_>) {
        if self.copy.is_empty() {
            return;
        }
        let fields = outgoing.change();
        fields.retain(|field| !self.copies(field.name));
        for name in &self.copy {
            for value in answer.named(name) {
                fields.append(name, value);
            }
        }
    }
}

fn is_credential(name: &[u8]) -> bool {
    CREDENTIALS
        .iter()
        .any(|credential| credential.eq_ignore_ascii_case(name))
}
