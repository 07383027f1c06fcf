//! The keys of `timeouts` tables: each deadline once, whoever has it.

use super::Kind::Either;
use super::Unset::Is;
use super::{AT_LEAST_1MS, Key, OFF};

pub(super) const HANDSHAKE: Key = Key::new(
    "handshake",
    AT_LEAST_1MS,
    Is(r#""10s""#),
    r#""5s""#,
    "From accepting a connection to the end of its TLS handshake, a PROXY header included. Where the client speaks first, \
     one that says nothing is accepted a second after it has connected.",
);

pub(super) const CONNECT: Key = Key::new(
    "connect",
    AT_LEAST_1MS,
    Is(r#""5s""#),
    r#""2s""#,
    "For one attempt to connect to an endpoint, again for its TLS, and for a place where all endpoints are at their `max`.",
);

pub(super) const RESPONSE: Key = Key::new(
    "response",
    Either(&[OFF, AT_LEAST_1MS]),
    Is(r#""60s""#),
    r#""5m""#,
    "From the end of a request to the first byte of its answer.",
);

pub(super) const TUNNEL_IDLE: Key = Key::new(
    "tunnel_idle",
    AT_LEAST_1MS,
    Is(r#""1h""#),
    r#""10m""#,
    "How long a relayed or upgraded connection may carry no byte in either direction.",
);

pub(super) const TIMEOUTS: &[Key] = &[
    HANDSHAKE,
    Key::new(
        "head",
        AT_LEAST_1MS,
        Is(r#""10s""#),
        r#""5s""#,
        "From the first byte of a request to the end of its head.",
    ),
    Key::new(
        "idle",
        AT_LEAST_1MS,
        Is(r#""75s""#),
        r#""20s""#,
        "How long a client connection may wait for its next request, and for the first one. Less where other clients have no \
         place: see `limits.connections`.",
    ),
    CONNECT,
    RESPONSE,
    TUNNEL_IDLE,
];
