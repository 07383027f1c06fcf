//! Connections routed by their ClientHello: passed through, decrypted, or served by sites.

mod client_hello;

use lockgate_testkit::{Issued, Origin, Tls, Wire, server_config};
use rustls::AlertDescription;
use rustls::version::{TLS12, TLS13};

use crate::scene::{NAME, Site, lockgate};

/// An endpoint that speaks TLS itself and sends its name.
pub(crate) fn secure(issued: &Issued, name: &'static str) -> lockgate_testkit::Serving {
    let config = server_config(issued, None);
    Origin::tcp().serve(move |wire| {
        let Ok(mut tls) = Tls::accept(&config, wire.another()) else {
            return;
        };
        tls.send(name);
        tls.finish();
        tls.wait_closed();
    })
}

/// A listener with these keys.
fn tcp(lines: &str) -> String {
    format!("[tcp.\"127.0.0.1:0\"]\n{lines}\n")
}

#[test]
fn sni_routes_each_name_with_its_tls_untouched() {
    let site = Site::new();
    let issued = site.authority.issue(&[
        "mail.test",
        "a.shop.test",
        "www.shop.test",
        "b.a.shop.test",
        "else.test",
    ]);
    let (mail, shop, www, rest) = (
        secure(&issued, "mail"),
        secure(&issued, "shop"),
        secure(&issued, "www"),
        secure(&issued, "rest"),
    );
    let toml = tcp(&format!(
        "sni.\"Mail.test\" = \"{}\"\nsni.\"*.shop.test\" = [\"{}\"]\nsni.\"www.shop.test\" = {{ proxy = \"{}\" }}\n\
         default = \"pool:rest\"\n[pool.rest]\nendpoints = [\"{}\"]",
        mail.address(),
        shop.address(),
        www.address(),
        rest.address()
    ));
    let mut gate = lockgate().workers(2).start(&toml);
    for version in [&TLS12, &TLS13] {
        for (name, expected) in [
            ("mail.test", "mail"),
            ("a.shop.test", "shop"),
            ("b.a.shop.test", "shop"),
            ("www.shop.test", "www"),
            ("else.test", "rest"),
        ] {
            let mut client = site
                .client()
                .version(version)
                .connect(gate.address(), name)
                .unwrap();
            assert_eq!(client.rest(), expected.as_bytes(), "{name}");
            // The certificate is the endpoint's: the bytes were not decrypted.
            assert_eq!(
                client.agreed().peer_certificates().unwrap()[0],
                issued.der()
            );
            client.finish();
            let line = gate.next_line();
            assert_eq!(
                (&line["sni"], &line["tls_version"]),
                (&name.into(), &serde_json::Value::Null),
                "{line}"
            );
        }
    }
    let mut nameless = site.client();
    nameless.names_server = false;
    assert_eq!(
        nameless
            .connect(gate.address(), "else.test")
            .unwrap()
            .rest(),
        b"rest"
    );
}

#[test]
fn without_default_an_unknown_sni_is_refused_and_logged() {
    let site = Site::new();
    let mail = secure(&site.issued, "mail");
    let mut gate = lockgate().start(&tcp(&format!("sni.\"mail.test\" = \"{}\"", mail.address())));
    let mut nameless = site.client();
    nameless.names_server = false;
    for (client, name) in [(site.client(), Some("other.test")), (nameless, None)] {
        let refused = client.connect(gate.address(), "other.test").unwrap_err();
        assert_eq!(
            Tls::alert(&refused),
            Some(AlertDescription::UnrecognisedName),
            "{refused}"
        );
        let line = gate.next_line();
        assert_eq!(
            (&line["cause"], &line["side"]),
            (&"handshake_failed".into(), &"downstream".into())
        );
        assert_eq!(line["sni"].as_str(), name, "{line}");
    }
    gate.wait_for_sample(
        "lockgate_tls_handshake_failures_total",
        &["reason=\"unknown_name\""],
        2.0,
    );
    assert_eq!(mail.accepted(), 0);
}

#[test]
fn bytes_behind_the_client_hello_are_forwarded() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate().start(&tcp(&format!("default = \"{}\"", origin.address())));
    let hello = lockgate_testkit::client_hello(&site.client().build(), NAME);
    let mut client = Wire::connect(gate.address());
    client.send([&hello[..], b"and more"].concat());
    let mut upstream = origin.accept();
    upstream.expect(&hello);
    upstream.expect("and more");
    upstream.send("back");
    client.expect("back");
}

#[test]
fn proxy_protocol_of_an_sni_entry_overrides_the_table() {
    let site = Site::new();
    let (one, other) = (Origin::tcp(), Origin::tcp());
    let gate = lockgate().start(&tcp(&format!(
        "proxy_protocol = \"v1\"\nsni.\"one.test\" = \"{}\"\nsni.\"other.test\" = {{ proxy = \"{}\", proxy_protocol = \"v2\" }}",
        one.address(),
        other.address()
    )));
    let hello = |name: &str| lockgate_testkit::client_hello(&site.client().build(), name);
    let mut client = Wire::connect(gate.address());
    let (from, to) = (client.local_address(), client.peer_address());
    let said = hello("one.test");
    client.send(&said);
    let mut upstream = one.accept();
    upstream.expect(format!(
        "PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n",
        from.port(),
        to.port()
    ));
    upstream.expect(&said);
    let mut client = Wire::connect(gate.address());
    let said = hello("other.test");
    client.send(&said);
    let mut upstream = other.accept();
    upstream.expect(b"\r\n\r\n\0\r\nQUIT\n\x21\x11");
    let len = upstream.exactly(2);
    let block = upstream.exactly(usize::from(u16::from_be_bytes([len[0], len[1]])));
    // PP2_TYPE_AUTHORITY (§2.2.2): the name is known without the keys.
    assert!(block.ends_with(b"\x02\x00\x0aother.test"), "{block:?}");
    upstream.expect(&said);
}

/// Site "site.test" and names of `[tcp]` on one address: the SNI name chooses.
fn shared(site: &Site, lines: &str) -> String {
    let all = site
        .authority
        .issue(&["site.test", "deep.shop.test", "off.test", "*.off.test"]);
    let cert = site.folder.certificate("all.pem", &all);
    format!(
        "trusted = [\"127.0.0.0/8\"]\nports = {{ http = 0, https = 0 }}\n[tls]\ncerts = [\"{cert}\"]\n\
         [site.\"site.test\"]\nalias = [\"deep.shop.test\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"site\"\n\
         [tcp.\"127.0.0.1:0\"]\n{lines}\n"
    )
}

#[test]
fn one_port_passes_through_terminates_and_serves_by_sni() {
    let site = Site::new();
    let issued = site
        .authority
        .issue(&["mail.test", "a.shop.test", "site.test"]);
    let (mail, shop, acme) = (
        secure(&issued, "mail"),
        secure(&issued, "shop"),
        secure(&issued, "acme"),
    );
    let app = Origin::tcp().echo();
    let lines = format!(
        "sni.\"mail.test\" = \"{}\"\nsni.\"*.shop.test\" = \"{}\"\n\
         sni.\"*.off.test\" = {{ proxy = \"{}\", tls = {{ alpn = [\"echo\"] }} }}\nalpn.\"acme-tls/1\" = \"{}\"",
        mail.address(),
        shop.address(),
        app.address(),
        acme.address()
    );
    let gate = lockgate().workers(2).start(&shared(&site, &lines));
    let address = gate.at("127.0.0.1:0");
    for (name, expected) in [("mail.test", "mail"), ("a.shop.test", "shop")] {
        assert_eq!(
            site.client().connect(address, name).unwrap().rest(),
            expected.as_bytes(),
            "{name}"
        );
    }
    let mut off = site
        .client()
        .alpn(&["echo"])
        .connect(address, "a.off.test")
        .unwrap();
    assert_eq!(off.agreed().alpn_protocol(), Some(&b"echo"[..]));
    off.send("ping");
    off.expect("ping");
    // An exact host of a site is more specific than the wildcard beside it.
    for name in ["site.test", "deep.shop.test"] {
        let mut client = site
            .client()
            .alpn(&["http/1.1"])
            .connect(address, name)
            .unwrap();
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
        ));
        let said = String::from_utf8(client.rest()).unwrap();
        assert!(
            said.starts_with("HTTP/1.1 200 ") && said.ends_with("site"),
            "{said}"
        );
    }
    let mut h2 =
        lockgate_testkit::h2::Peer::connect_tls(&site.client().alpn(&["h2"]), address, "site.test");
    let get = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "site.test"),
        (":path", "/"),
    ];
    h2.headers(1, &get, true);
    let answer = h2.answer(1);
    assert_eq!((answer.status, answer.text()), (200, "site"));
    // A name that is routed elsewhere is no site (RFC 9110 §7.4).
    let mut client = site
        .client()
        .alpn(&["http/1.1"])
        .connect(address, "site.test")
        .unwrap();
    client.send("GET / HTTP/1.1\r\nHost: mail.test\r\nConnection: close\r\n\r\n");
    assert!(client.rest().starts_with(b"HTTP/1.1 421 "));
    // A route by ALPN precedes routes by name.
    for name in ["mail.test", "site.test"] {
        let asked = site.client().alpn(&["acme-tls/1"]).build();
        let Ok(mut client) = Tls::connect(&asked, Wire::connect(address), name) else {
            panic!("{name}")
        };
        assert_eq!(client.rest(), b"acme", "{name}");
    }
    let refused = site.client().connect(address, "nobody.test").unwrap_err();
    assert_eq!(
        Tls::alert(&refused),
        Some(AlertDescription::UnrecognisedName)
    );
}

/// The certificate of the only site is not for every name where other names lead elsewhere.
#[test]
fn an_unknown_sni_is_refused_beside_a_single_site() {
    let site = Site::new();
    let mail = secure(&site.issued, "mail");
    let gate = lockgate().start(&format!(
        "ports = {{ http = 0, https = 0 }}\n[site.\"{NAME}\"]\nlisten = [\"127.0.0.1\"]\ntls = {{ cert = \"{}\" }}\nrespond = \"site\"\n\
         [tcp.\"127.0.0.1:0\"]\nsni.\"mail.test\" = \"{}\"\n",
        site.cert,
        mail.address()
    ));
    let address = gate.at("127.0.0.1:0");
    let mut nameless = site.client();
    nameless.names_server = false;
    for (client, name) in [(site.client(), "nobody.test"), (nameless, NAME)] {
        let refused = client.connect(address, name).unwrap_err();
        assert_eq!(
            Tls::alert(&refused),
            Some(AlertDescription::UnrecognisedName),
            "{name}: {refused}"
        );
    }
    assert!(site.client().connect(address, NAME).is_ok());
}

#[test]
fn a_default_beside_sites_takes_every_other_sni() {
    let site = Site::new();
    let issued = site.authority.issue(&["nobody.test"]);
    let rest = secure(&issued, "rest");
    let gate = lockgate().start(&shared(&site, &format!("default = \"{}\"", rest.address())));
    assert_eq!(
        site.client()
            .connect(gate.at("127.0.0.1:0"), "nobody.test")
            .unwrap()
            .rest(),
        b"rest"
    );
    let mut nameless = site.client();
    nameless.names_server = false;
    assert_eq!(
        nameless
            .connect(gate.at("127.0.0.1:0"), "nobody.test")
            .unwrap()
            .rest(),
        b"rest"
    );
    let mut client = site
        .client()
        .connect(gate.at("127.0.0.1:0"), "site.test")
        .unwrap();
    client.send("GET / HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n");
    assert!(client.rest().starts_with(b"HTTP/1.1 200 "));
}

#[test]
fn check_shows_the_target_of_each_sni_name() {
    let site = Site::new();
    let file = site.folder.write(
        "lockgate.toml",
        format!(
            "trusted = [\"10.0.0.0/8\"]\n[tls]\ncerts = [\"{cert}\"]\n[pool.mail]\nendpoints = [\"10.0.0.5:443\"]\n\
             [site.\"app.test\"]\naccept_proxy = \"require\"\nrespond = \"x\"\n\
             [tcp.\":443\"]\naccept_proxy = \"require\"\nproxy_protocol = \"pass\"\nsni.\"mail.test\" = \"pool:mail\"\n\
             sni.\"*.off.test\" = {{ proxy = \"10.0.0.6:80\", tls = {{ alpn = [\"x\"] }}, proxy_protocol = \"v2\" }}\n\
             alpn.\"acme-tls/1\" = \"127.0.0.1:10443\"\ndefault = \"10.0.0.7:443\"\n\
             [tcp.\":8443\"]\nsni.\"a.test\" = \"10.0.0.8:443\"\n",
            cert = site.cert
        ),
    );
    let file = crate::scene::text(&file);
    let ended = lockgate().run(&["check", "-v", "-c", &file]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    for line in [
        "  protocol     acme-tls/1: TLS passed through, to 127.0.0.1:10443, PROXY pass",
        "  name         mail.test: TLS passed through, to 10.0.0.5:443 (pool mail), PROXY pass",
        "  name         *.off.test: TLS terminated, to 10.0.0.6:80, PROXY v2",
        "  ALPN         x",
        "  other names  TLS passed through, to 10.0.0.7:443, PROXY pass",
        "  for sites:",
        "  PROXY        require from clients",
        "  host         app.test",
        "  name         a.test: TLS passed through, to 10.0.0.8:443",
        "  other names  refused",
    ] {
        assert!(
            ended.stdout.lines().any(|said| said == line),
            "{line:?} in {}",
            ended.stdout
        );
    }
    let said = lockgate()
        .run(&["check", "-v", "--json", "-c", &file])
        .stdout;
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let shared = &said["listeners"][0];
    assert_eq!(
        (&shared["listener"], &shared["sites"][0]["site"]),
        (&":443".into(), &"app.test".into())
    );
    assert_eq!(shared["by_hello"][0]["alpn"], "acme-tls/1");
    assert_eq!(
        (
            &shared["by_hello"][1]["name"],
            &shared["by_hello"][1]["pool"]
        ),
        (&"*.off.test".into(), &serde_json::Value::Null)
    );
    assert_eq!(shared["timeouts"]["head"], 10.0);
    // :443 is bound once.
    let named = said["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["listener"] == ":443");
    assert_eq!(named.count(), 1);
}

#[test]
fn a_renewed_certificate_of_an_sni_entry_is_loaded() {
    let site = Site::new();
    let app = Origin::tcp().echo();
    let toml = tcp(&format!(
        "sni.\"{NAME}\" = {{ proxy = \"{}\", tls = \"{}\" }}",
        app.address(),
        site.cert
    ));
    let gate = lockgate().start(&toml);
    let renewed = site.authority.issue(&[NAME]);
    site.folder.certificate("app.pem", &renewed);
    lockgate_testkit::eventually("the new certificate", || {
        let shown = site.connect(&gate);
        (shown.agreed().peer_certificates().unwrap()[0] == renewed.der()).then_some(())
    });
}

#[test]
fn accept_proxy_applies_to_sni_entries_and_sites() {
    let site = Site::new();
    let mail = Origin::tcp();
    let lines = format!(
        "accept_proxy = \"require\"\nproxy_protocol = \"v1\"\nsni.\"mail.test\" = \"{}\"",
        mail.address()
    );
    let toml = shared(&site, &lines).replace(
        "respond = \"site\"",
        "respond = \"{client}\"\naccept_proxy = \"require\"",
    );
    let gate = lockgate().start(&toml);
    let header = "PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n";
    let introduced = || {
        let mut wire = Wire::connect(gate.at("127.0.0.1:0"));
        wire.send(header);
        wire
    };
    let mut client = introduced();
    let hello = lockgate_testkit::client_hello(&site.client().build(), "mail.test");
    client.send(&hello);
    let mut upstream = mail.accept();
    upstream.expect(header);
    upstream.expect(&hello);
    let mut client = Tls::connect(&site.client().build(), introduced(), "site.test").unwrap();
    client.send("GET / HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n");
    let said = String::from_utf8(client.rest()).unwrap();
    assert!(said.ends_with("203.0.113.7"), "{said}");
}
