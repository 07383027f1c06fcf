//! Protocols of sites and of pools, and the HTTP/2 limits of a client.

use lockgate_rules::{HashKey, Http2};

use crate::codes::Code;
use crate::keys::route::proxy;
use crate::keys::{http2, tls, top};
use crate::model::{EndpointChoice, Protocol};
use crate::source::SourceSpan;
use crate::units;
use crate::values::Items;

use super::{Resolver, View};

impl Resolver<'_> {
    /// The limits that the `[http2]` table sets.
    pub(super) fn http2(&mut self) -> Http2 {
        let view = self.top().section(&top::HTTP2);
        let (window, connection_window) = (
            view.get(&http2::WINDOW),
            view.get(&http2::CONNECTION_WINDOW),
        );
        let keys = [http2::WINDOW.row(), http2::CONNECTION_WINDOW.row()];
        let mut written = keys
            .into_iter()
            .filter_map(|key| Some((key.name, view.value_at(key)?)));
        // Where one of them is a mistake already, nothing is compared.
        if let (false, Some((name, at))) = (
            view.broken(&keys) || window <= connection_window,
            written.next(),
        ) {
            let (window, whole) = (units::smallest(window), units::smallest(connection_window));
            let message = format!("`window` is {window}, and `connection_window` is {whole}");
            let why = "the window of a request cannot be larger than that of its connection";
            let cure = match name {
                "window" => {
                    format!("write connection_window = \"{window}\" or more, or a smaller window")
                }
                _ => format!(
                    "write window = \"{whole}\" or less beside it, or a larger connection_window"
                ),
            };
            self.report
                .push_at(Code::OutOfRange, at, message, why, cure);
        }
        Http2 {
            streams: view.get(&http2::STREAMS),
            window: u32::try_from(window).unwrap_or_default(),
            connection_window: u32::try_from(connection_window).unwrap_or_default(),
            resets: view.get(&http2::RESETS),
            control: view.get(&http2::CONTROL),
        }
    }

    /// The protocols of a site on its listeners, with or without TLS (`secure`).
    pub(super) fn protocols(&mut self, items: &Items<Protocol>, secure: bool) -> Vec<Protocol> {
        let mut protocols = Vec::new();
        for (protocol, at) in items.placed() {
            let protocol = *protocol;
            let misfit = match protocol {
                Protocol::H2 if !secure => Some((
                    "`\"h2\"` without TLS",
                    "it is HTTP/2 over TLS, and the site has no TLS",
                    "write \"h2c\" for HTTP/2 without TLS, or add tls",
                )),
                Protocol::H2c if secure => Some((
                    "`\"h2c\"` over TLS",
                    "it is HTTP/2 without TLS, and the site has TLS",
                    "write \"h2\", or tls = false",
                )),
                _ => None,
            };
            if let Some((message, why, cure)) = misfit {
                self.report
                    .push_at(Code::WrongProtocol, at, message, why, cure);
            } else if protocols.contains(&protocol) {
                let message = format!("\"{}\" is spoken already", protocol.name());
                self.report.push_at(
                    Code::NoEffect,
                    at,
                    message,
                    "it is given twice",
                    "remove it",
                );
            } else {
                protocols.push(protocol);
            }
        }
        match (protocols.is_empty(), secure) {
            (true, true) => vec![Protocol::H2, Protocol::Http1],
            (true, false) => vec![Protocol::Http1],
            (false, true) => protocols,
            // Clients say which with their first bytes, so that nothing is preferred.
            (false, false) => {
                protocols.sort_unstable();
                protocols
            }
        }
    }

    /// The protocol of a table with endpoints; `None` if it could not be read.
    pub(super) fn protocol(&mut self, view: &View<'_>) -> Option<Protocol> {
        if !view.has(&proxy::PROTOCOL) {
            return Some(Protocol::Http1);
        }
        let written = view.written(&proxy::PROTOCOL)?;
        let protocol = *written.value;
        match protocol {
            Protocol::Http1 => return Some(protocol),
            Protocol::H2 if !view.has(&proxy::TLS) => {
                let message = "`protocol = \"h2\"` without `tls`";
                let why = "it is HTTP/2 over TLS";
                let cure = "add tls = {}, or write \"h2c\" for HTTP/2 without TLS";
                self.report
                    .push_at(Code::WrongProtocol, written.at, message, why, cure);
            }
            Protocol::H2c if view.has(&proxy::TLS) => {
                let message = "`protocol = \"h2c\"` beside `tls`";
                let why = "it is HTTP/2 without TLS";
                let cure = "write \"h2\", or remove tls";
                self.report
                    .push_at(Code::WrongProtocol, written.at, message, why, cure);
            }
            Protocol::H2 | Protocol::H2c => {}
        }
        if let Some(header) = view.written(&proxy::PROXY_PROTOCOL) {
            let message = format!(
                "`proxy_protocol` beside `protocol = \"{}\"`",
                protocol.name()
            );
            let why = "requests of several clients share a connection, and the header names one";
            let cure = "remove it, as X-Forwarded-For names each; or write protocol = \"http1\"";
            self.report
                .push_at(Code::Excluded, header.at, message, why, cure);
        }
        Some(protocol)
    }

    /// The application protocols that are offered over TLS to those endpoints; `view` shows its
    /// `tls`.
    pub(super) fn offered(&mut self, view: &View<'_>, protocol: Option<Protocol>) -> Vec<String> {
        let Some(protocol) = protocol.filter(|protocol| *protocol != Protocol::Http1) else {
            return view.list(&tls::upstream::ALPN);
        };
        if let Some(written) = view.written(&tls::upstream::ALPN) {
            let message = format!("`alpn` beside `protocol = \"{}\"`", protocol.name());
            let why = "with this protocol Lockgate offers h2 only";
            self.report
                .push_at(Code::Excluded, written.at, message, why, "remove it");
        }
        vec!["h2".to_owned()]
    }

    /// Checks the pool of a `[tcp]` table at `at`; `decrypted` tells whether Lockgate terminates
    /// the clients' TLS.
    pub(super) fn relayed(&mut self, pool: usize, decrypted: bool, at: &SourceSpan) {
        let Some(pool) = self.pools.all.get(pool) else {
            return;
        };
        if decrypted && pool.balance == Some(EndpointChoice::Session) {
            let message = "a pool that is sticky by the endpoints' TLS sessions, where Lockgate terminates TLS";
            let why = "the sessions are Lockgate's and belong to no endpoint";
            let cure = "remove tls, or write balance = { hash = \"client\" }";
            self.report.push_pair(
                Code::WrongProtocol,
                at,
                (message, why, cure),
                (&pool.at, "this pool"),
            );
        }
        if let Some(
            EndpointChoice::Hash(HashKey::Header(name) | HashKey::Cookie(name))
            | EndpointChoice::Sticky(name),
        ) = &pool.balance
        {
            let message = format!("a pool that chooses by `{name}` of requests, in a [tcp] table");
            let why = "bytes are relayed unread, so there are no requests";
            let cure = "write balance = { hash = \"client\" } or \"sni\", or name another pool";
            self.report.push_pair(
                Code::WrongProtocol,
                at,
                (&message, why, cure),
                (&pool.at, "this pool"),
            );
        }
        if pool.protocol == Protocol::Http1 {
            return;
        }
        let message = format!(
            "a pool with `protocol = \"{}\"` in a [tcp] table",
            pool.protocol.name()
        );
        let why = "a [tcp] table relays bytes and speaks no protocol";
        let cure = "name a pool without protocol, or proxy to this one from a [site]";
        let texts = (message, why, cure);
        self.report
            .push_pair(Code::WrongProtocol, at, texts, (&pool.at, "this pool"));
    }

    /// Checks the pool of a site. An endpoint must not choose HTTP/2 by ALPN while the pool speaks
    /// HTTP/1.1.
    pub(super) fn check_site_pool(&mut self, pool: usize) {
        let Some(pool) = self.pools.all.get(pool) else {
            return;
        };
        if pool.balance == Some(EndpointChoice::Session)
            && !self.was_reported(Code::WrongProtocol, &pool.at)
        {
            let message = "a pool that is sticky by the endpoints' TLS sessions, in a [site]";
            let why = "a site terminates TLS, so that the sessions are Lockgate's and belong to no endpoint";
            let cure = "write balance = { sticky = \"cookie:lg\" } or { hash = \"client\" }";
            self.report
                .push_at(Code::WrongProtocol, &pool.at, message, why, cure);
        }
        let Some(tls) = pool
            .tls
            .as_ref()
            .filter(|_| pool.protocol == Protocol::Http1)
        else {
            return;
        };
        if tls.alpn.iter().any(|name| name == "h2") {
            let message = "h2 is offered in `alpn`, but HTTP/1.1 is spoken";
            let why = "Lockgate would not understand an endpoint that chooses h2";
            let cure = "write protocol = \"h2\" beside tls, and remove alpn";
            self.push_once(Code::WrongProtocol, &tls.at.clone(), message, why, cure);
        }
    }
}
