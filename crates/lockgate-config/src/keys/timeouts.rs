//! The keys of `timeouts` tables: each deadline once, for all tables that have it.

use std::time::Duration;

use crate::values::Unless;

use super::{AT_LEAST_1MS, ConfigKey, Defaulted, KeyRow, OFF};

table! {
    const HANDSHAKE: Defaulted<Duration> = ConfigKey::defaulted(
        "handshake",
        &AT_LEAST_1MS,
        r#""10s""#,
        r#""5s""#,
        "From accepting a connection to the end of its TLS handshake, including a PROXY header. On \
         listeners where the client speaks first, Lockgate accepts a connection with its first \
         byte, or after one second; the deadline begins then.",
    );

    const HEAD: Defaulted<Duration> = ConfigKey::defaulted(
        "head",
        &AT_LEAST_1MS,
        r#""10s""#,
        r#""5s""#,
        "From the first byte of a request to the end of its head. Over HTTP/2 it holds while no other \
         request of the connection is open.",
    );

    const IDLE: Defaulted<Duration> = ConfigKey::defaulted(
        "idle",
        &AT_LEAST_1MS,
        r#""75s""#,
        r#""20s""#,
        "How long a client connection may wait for its next request, and for its first one. Less if \
         other clients have no permit: see `limits.connections`.",
    );

    const CONNECT: Defaulted<Duration> = ConfigKey::defaulted(
        "connect",
        &AT_LEAST_1MS,
        r#""5s""#,
        r#""2s""#,
        "For one attempt to connect to an endpoint, and again for its TLS handshake. How long \
         requests wait for a free endpoint is `queue.wait` of the pool.",
    );

    const RESPONSE: Defaulted<Option<Duration>> = ConfigKey::defaulted(
        "response",
        &Unless(OFF, AT_LEAST_1MS),
        r#""60s""#,
        r#""5m""#,
        "From the end of a request to the end of its response's head.",
    );

    const TUNNEL_IDLE: Defaulted<Duration> = ConfigKey::defaulted(
        "tunnel_idle",
        &AT_LEAST_1MS,
        r#""1h""#,
        r#""10m""#,
        "How long a relayed or upgraded connection may move no byte in either direction.",
    );
}

table! {
    /// `timeouts` of `[tcp]` and `[tunnel]` tables.
    mod relay;

    const HANDSHAKE: Defaulted<Duration> = super::HANDSHAKE;
    const CONNECT: Defaulted<Duration> = super::CONNECT;
    const TUNNEL_IDLE: Defaulted<Duration> = super::TUNNEL_IDLE;
}

table! {
    /// `timeouts` of a site and its paths.
    mod route;

    const CONNECT: Defaulted<Duration> = super::CONNECT;
    const RESPONSE: Defaulted<Option<Duration>> = super::RESPONSE;
    const TUNNEL_IDLE: Defaulted<Duration> = super::TUNNEL_IDLE;
}
