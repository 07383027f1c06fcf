//! An endpoint that the keys of `top` drain or make ready: the question before it, the request, and
//! its result.

use std::path::Path;

use serde_json::{Value, json};

use crate::admin_client::units::plain;
use crate::admin_client::{AdminResponse, ask, change};
use crate::printable::printable;

/// What a key does to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointVerb {
    Drain,
    Ready,
}

/// A change that is asked about, and then for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndpointChange {
    pub(super) verb: EndpointVerb,
    pub(super) pool: String,
    pub(super) endpoint: String,
}

/// What has come of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangeOutcome {
    pub(super) text: String,
    pub(super) is_refusal: bool,
}

impl EndpointChange {
    /// The question to the user.
    pub(super) fn question(&self) -> String {
        let (pool, endpoint) = (printable(&self.pool), printable(&self.endpoint));
        match self.verb {
            EndpointVerb::Drain => format!("drain {pool}/{endpoint}? y/n"),
            EndpointVerb::Ready => format!("make {pool}/{endpoint} ready? y/n"),
        }
    }

    /// Asks a Lockgate for it. The last endpoint of a pool is refused: top forces nothing.
    pub(super) fn ask(&self, socket: &Path) -> ChangeOutcome {
        let path = match self.verb {
            EndpointVerb::Drain => "/v1/endpoints/drain",
            EndpointVerb::Ready => "/v1/endpoints/ready",
        };
        let body = json!({ "pool": self.pool, "endpoint": self.endpoint });
        match ask(socket, "POST", path, body) {
            Ok(response) => ChangeOutcome::of(&response),
            Err(error) => ChangeOutcome {
                text: format!("{error:#}"),
                is_refusal: true,
            },
        }
    }
}

impl ChangeOutcome {
    fn of(response: &AdminResponse) -> Self {
        let is_refusal = response.status >= 400;
        let text = match is_refusal {
            true => refusal(&response.value["error"]),
            false => change::endpoint_text(&response.value).replace('\n', "; "),
        };
        Self { text, is_refusal }
    }
}

/// The message of an error with its cure.
fn refusal(error: &Value) -> String {
    let parts = ["message", "cure"].map(|name| plain(&error[name]));
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The result of a change, and the request that a server has received for it.
    fn answered(verb: EndpointVerb, status: &str, answer: &Value) -> (ChangeOutcome, String) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("admin.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let change = EndpointChange {
            verb,
            pool: "app".to_owned(),
            endpoint: "10.0.0.1:8080".to_owned(),
        };
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| change.ask(&socket));
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            let mut block = [0; 4096];
            while !received.ends_with(b"}") {
                let count = stream.read(&mut block).unwrap();
                assert!(count > 0, "{received:?}");
                received.extend_from_slice(&block[..count]);
            }
            let body = answer.to_string();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\nserver: lockgate/1\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .unwrap();
            let outcome = asking.join().unwrap();
            (outcome, String::from_utf8(received).unwrap())
        })
    }

    #[test]
    fn a_change_is_asked_for_over_the_admin_socket() {
        for (verb, path, admin, says) in [
            (EndpointVerb::Drain, "drain", json!("drain"), "is drained"),
            (EndpointVerb::Ready, "ready", json!(null), "is ready"),
        ] {
            let answer = json!({
                "pool": "app", "endpoint": "10.0.0.1:8080", "admin": admin, "in_flight": 1,
                "connections": 1, "other_pools": ["api"], "kept": false,
            });
            let (outcome, request) = answered(verb, "200", &answer);
            let line = format!("POST /v1/endpoints/{path} HTTP/1.1\r\n");
            assert!(request.starts_with(&line), "{request}");
            let (_, body) = request.split_once("\r\n\r\n").unwrap();
            let body: Value = serde_json::from_str(body).unwrap();
            let named = json!({ "pool": "app", "endpoint": "10.0.0.1:8080" });
            assert_eq!(body, named);
            assert!(outcome.text.contains(says), "{outcome:?}");
            assert!(
                outcome.text.contains("; other pools use it: api"),
                "{outcome:?}"
            );
            assert!(!outcome.is_refusal);
        }
    }

    #[test]
    fn a_refusal_is_told_with_its_cure() {
        let answer = json!({ "error": {
            "code": "last_endpoint", "message": "it is the last endpoint", "cure": "use `--force`",
        } });
        let (outcome, _) = answered(EndpointVerb::Drain, "409", &answer);
        assert_eq!(outcome.text, "it is the last endpoint: use `--force`");
        assert!(outcome.is_refusal);
    }
}
