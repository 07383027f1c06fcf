//! An auth service: the question about each request, and the fields of its response that the
//! request gets.
//!
//! Without IO: it is asked as any endpoint is.

use lockgate_http::fields::{Field, Fields, Known, alike};
use lockgate_http::forwarding::EndToEndFields;
use lockgate_http::head::RequestHead;
use lockgate_http::request_target::RequestTarget;
use lockgate_http_io::message::OutgoingHead;

use super::proxy::Proxy;
use crate::rules::RouteRules;

/// The beginnings of the names of fields in which other auth protocols describe the request:
/// services of those protocols trust them.
const ABOUT: [&[u8]; 3] = [b"x-forwarded-", b"x-original-", b"x-rewrite-"];

/// The client's credentials: the service gets them even if it sets these fields itself (`copy`).
const CREDENTIALS: [&[u8]; 2] = [b"authorization", b"cookie"];

/// An auth service, which admits or denies each request.
#[derive(Debug)]
pub struct ForwardAuth {
    /// The pool and the timeouts of the service.
    pub proxy: Proxy,
    /// The path, and perhaps query, that it is asked for.
    pub target: String,
    /// Fields that the request gets from its response, and never from the client.
    pub copy: Vec<Vec<u8>>,
    /// The rules of the exchange with it: none.
    pub rules: RouteRules,
}

impl ForwardAuth {
    /// The question about a request: a GET without a body, with those of the request's `fields`
    /// that go on. Claims of others about the origin of a request are left out, but for the fields
    /// that [`ForwardedClient`](lockgate_http::forwarding::ForwardedClient) replaces or adds to.
    /// Conditions and ranges are left out too: they are about the resource.
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

    /// The target of the question: the service's path, and the host that the request is for.
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
            // Forwarding fields of earlier hops are kept or replaced later, where it is known
            // whether the hops are trusted.
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

    /// Replaces fields of the request by those of the service's response.
    pub fn admit(&self, response: &Fields, outgoing: &mut OutgoingHead<'_>) {
        if self.copy.is_empty() {
            return;
        }
        let fields = outgoing.change();
        fields.retain(|field| !self.copies(field.name));
        for name in &self.copy {
            for value in response.named(name) {
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
