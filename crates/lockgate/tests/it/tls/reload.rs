//! Certificates that change on disk while connections are open.

use std::os::unix::fs::symlink;

use lockgate_testkit::{Issued, Lockgate, Origin, Serving, Signal, Tls, eventually};

use crate::scene::{NAME, Site, lockgate, text};

/// Waits until new clients are shown `issued`, which costs one handshake each.
fn wait_until_shown(site: &Site, gate: &Lockgate, issued: &Issued) {
    eventually("the new certificate", || {
        let tls = site.connect(gate);
        (tls.agreed().peer_certificates().unwrap()[0] == issued.der()).then_some(())
    });
}

/// The program with a connection that is to live through everything.
fn started(site: &Site) -> (Serving, Lockgate, Tls) {
    let origin = Origin::tcp().echo();
    let gate = lockgate().workers(2).start(&site.tls(origin.address(), ""));
    let mut open = site.connect(&gate);
    assert_alive(&mut open);
    (origin, gate, open)
}

fn assert_alive(open: &mut Tls) {
    open.send("still there?");
    open.expect("still there?");
}

#[test]
fn a_renamed_certificate_file_is_reloaded() {
    let site = Site::new();
    let (_origin, gate, mut open) = started(&site);
    for _ in 0..2 {
        let renewed = site.authority.issue(&[NAME]);
        site.folder.certificate("app.pem", &renewed);
        wait_until_shown(&site, &gate, &renewed);
        assert_alive(&mut open);
    }
    let said = gate.says("certificate replaced");
    assert_eq!(
        (&said["listener"], &said["path"]),
        (&"127.0.0.1:0".into(), &site.cert.as_str().into())
    );
}

#[test]
fn certificate_and_key_files_are_reloaded_together() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let write = |issued: &Issued| {
        let cert = site.folder.write("two.crt", issued.pem());
        site.folder.write("two.key", issued.key_pem());
        text(&cert)
    };
    let cert = write(&site.issued);
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = \"{cert}\"\nproxy = \"{}\"\n",
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let mut open = site.connect(&gate);
    let renewed = site.authority.issue(&[NAME]);
    write(&renewed);
    wait_until_shown(&site, &gate, &renewed);
    assert_alive(&mut open);
}

#[test]
fn a_certificate_behind_swapped_symlinks_is_reloaded() {
    let site = Site::new();
    // As Kubernetes mounts secrets: app.pem -> ..data/app.pem, ..data -> ..2026_01.
    let put = |version: &str, issued: &Issued| {
        let dir = site.folder.path(version);
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("tls.crt"), issued.pem()).unwrap();
        std::fs::write(dir.join("tls.key"), issued.key_pem()).unwrap();
        symlink(version, site.folder.path("..data_tmp")).unwrap();
        std::fs::rename(site.folder.path("..data_tmp"), site.folder.path("..data")).unwrap();
    };
    put("..2026_01", &site.issued);
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), site.folder.path(name)).unwrap();
    }
    let origin = Origin::tcp().echo();
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = {{ cert = \"{}\", key = \"{}\" }}\nproxy = \"{}\"\n",
        text(&site.folder.path("tls.crt")),
        text(&site.folder.path("tls.key")),
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let mut open = site.connect(&gate);
    for version in ["..2026_02", "..2026_03"] {
        let renewed = site.authority.issue(&[NAME]);
        put(version, &renewed);
        wait_until_shown(&site, &gate, &renewed);
        assert_alive(&mut open);
    }
}

#[test]
fn hup_reloads_certificates() {
    let site = Site::new();
    let (_origin, gate, mut open) = started(&site);
    let renewed = site.authority.issue(&[NAME]);
    site.folder.certificate("app.pem", &renewed);
    gate.signal(Signal::HUP);
    gate.says("the configuration was reloaded");
    wait_until_shown(&site, &gate, &renewed);
    assert_alive(&mut open);
}

#[test]
fn a_bad_certificate_file_keeps_the_old_one_and_logs() {
    let site = Site::new();
    let (_origin, gate, mut open) = started(&site);
    let stranger = site.authority.issue(&[NAME]);
    for (bad, expected) in [
        ("".to_owned(), "empty"),
        ("-----BEGIN CERTIFICATE-----\nMIIB".to_owned(), "PEM"),
        (site.issued.pem() + &stranger.key_pem(), "key"),
    ] {
        site.folder.write("app.pem", bad);
        let said = gate.stderr().find_json(expected, |line| {
            line["message"] == "the old certificate stays in use"
                && line["error"]
                    .as_str()
                    .is_some_and(|error| error.contains(expected))
        });
        assert_eq!(
            (&said["level"], &said["listener"]),
            (&"ERROR".into(), &"127.0.0.1:0".into())
        );
        let tls = site.connect(&gate);
        assert_eq!(
            tls.agreed().peer_certificates().unwrap()[0],
            site.issued.der()
        );
        assert_alive(&mut open);
    }
    // And a file that is gone.
    std::fs::remove_file(&site.cert).unwrap();
    gate.stderr().find_json("no such file", |line| {
        line["error"]
            .as_str()
            .is_some_and(|error| error.contains("no such file"))
    });
    site.connect(&gate);
    // Then the file is mended.
    let renewed = site.authority.issue(&[NAME]);
    site.folder.certificate("app.pem", &renewed);
    wait_until_shown(&site, &gate, &renewed);
    assert_alive(&mut open);
}

#[test]
fn a_bad_client_ca_file_is_logged_and_ignored() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let authorities = text(&site.folder.write("clients.pem", site.authority.pem()));
    let client_auth = format!(", client_auth = {{ mode = \"request\", ca = \"{authorities}\" }}");
    let gate = lockgate().start(&site.tls(origin.address(), &client_auth));
    site.folder.write("clients.pem", "no certificate");
    let said = gate.says("the old authorities of clients stay in use");
    assert!(
        said["error"].as_str().unwrap().contains("clients.pem"),
        "{said}"
    );
    assert!(!gate.stderr().text().contains("the old certificate"));
    assert_alive(&mut site.connect(&gate));
}

#[test]
fn no_handshake_fails_during_certificate_reloads() {
    let site = Site::new();
    let (_origin, gate, mut open) = started(&site);
    let config = site.client().build();
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            for _ in 0..3 {
                let renewed = site.authority.issue(&[NAME]);
                site.folder.certificate("app.pem", &renewed);
                gate.signal(Signal::HUP);
                wait_until_shown(&site, &gate, &renewed);
            }
        });
        while !swapping.is_finished() {
            let wire = lockgate_testkit::Wire::connect(gate.address());
            let mut tls = Tls::connect(&config, wire, NAME).unwrap();
            assert_alive(&mut tls);
        }
    });
    assert_alive(&mut open);
}
