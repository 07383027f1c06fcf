//! What is kept in the state folder: across restarts, kills, and beside another process.

use lockgate_testkit::Signal;
use lockgate_testkit::acme::{Fault, Resource};

use super::*;

#[test]
fn a_restart_serves_kept_certificates_and_orders_nothing() {
    let scene = Scene::new();
    let toml = scene.sites(&["a.example.com"]);
    let gate = scene.start(&toml);
    let before = scene.served(&gate, "a.example.com");
    // The window of renewal has been asked for.
    scene.server.wait_for("renewal information", |log| {
        log.iter()
            .any(|one| one.resource == Resource::RenewalInfo && one.status.is_some())
    });
    gate.stop();
    scene.server.fail(Resource::Directory, Fault::Close);
    let gate = lockgate().start(&toml);
    assert_eq!(scene.certificate(&gate, "a.example.com").unwrap(), before);
    gate.wait_for_sample(
        "lockgate_managed_cert_valid",
        &["name=\"a.example.com\""],
        1.0,
    );
    assert_eq!(scene.server.count(Resource::NewOrder), 1);
}

#[test]
fn a_kill_at_any_step_leaves_one_account_and_one_certificate() {
    for step in [
        Resource::NewAccount,
        Resource::NewOrder,
        Resource::Authorization,
        Resource::Challenge,
        Resource::Finalize,
        Resource::Certificate,
    ] {
        let scene = Scene::new();
        scene.server.set_authorization_reuse(true);
        let toml = scene.sites(&["a.example.com"]);
        scene.server.fail(Resource::Directory, Fault::Hold);
        let gate = lockgate().start(&toml);
        scene.server.set_tls_port(https(&gate).port());
        scene.server.set_http_port(http(&gate).port());
        scene.server.clear_faults();
        scene.server.fail_times(step, 1, Fault::Hold);
        scene.server.release();
        scene
            .server
            .wait_for("the step", |log| log.iter().any(|one| one.resource == step));
        gate.signal(Signal::KILL);
        gate.ended();
        let gate = scene.start(&toml);
        scene.served(&gate, "a.example.com");
        let accounts = scene.server.accounts();
        assert_eq!(accounts.len(), 1, "{step:?}: {accounts:#?}");
        let keys = std::fs::read_dir(scene.file("accounts")).unwrap().count();
        assert_eq!(keys, 1, "{step:?}");
        is("the key of the order is removed", || {
            !scene.file("a.example.com.key").exists()
        });
        // The authority may have issued one for which the process had no answer yet.
        assert!(scene.server.issued().len() <= 2, "{step:?}");
    }
}

/// Obtains a certificate, and lets it be renewed because ARI says now. The authority refuses what it is
/// told to in between.
fn renew_by_ari(scene: &Scene, refuse: impl Fn(&AcmeServer)) {
    let toml = scene.sites(&["a.example.com"]);
    let gate = scene.start(&toml);
    let before = scene.served(&gate, "a.example.com");
    scene.server.wait_for("renewal information", |log| {
        log.iter()
            .any(|one| one.resource == Resource::RenewalInfo && one.status.is_some())
    });
    let path = scene.file("a.example.com.json");
    let record = || std::fs::read_to_string(&path).unwrap();
    is("the window is kept", || record().contains("\"next_check\""));
    gate.stop();
    let now = std::time::SystemTime::now();
    let past = std::time::Duration::from_secs(3600);
    scene
        .server
        .set_renewal_window("a.example.com", now - past * 2..now - past);
    // As if the time had come at which the authority wants to be asked again.
    let mut kept: serde_json::Value = serde_json::from_str(&record()).unwrap();
    kept["renewal"]["next_check"] = "2026-01-01T00:00:00Z".into();
    kept["obtained"] = "2026-01-01T00:00:00Z".into();
    std::fs::write(&path, kept.to_string()).unwrap();
    scene.server.fail(Resource::Directory, Fault::Hold);
    let gate = scene.start_without_clearing(&toml);
    scene.server.clear_faults();
    refuse(&scene.server);
    scene.server.release();
    is("another certificate is served", || {
        scene
            .certificate(&gate, "a.example.com")
            .is_ok_and(|der| der != before)
    });
}

#[test]
fn a_renewal_that_the_authority_lets_replace_nothing_replaces_nothing() {
    for (status, kind) in [(403, "unauthorized"), (500, "serverInternal")] {
        let scene = Scene::new();
        renew_by_ari(&scene, |server| {
            server.fail_times(Resource::NewOrder, 1, Fault::problem(status, kind));
        });
        let orders = scene.server.orders();
        assert_eq!(orders.last().unwrap().replaces, None);
        assert_eq!(scene.server.accounts().len(), 1);
        assert_eq!(scene.server.issued().len(), 2);
    }
}

#[test]
fn a_certificate_is_renewed_when_ari_says_now_and_replaces_the_old_one() {
    let scene = Scene::new();
    renew_by_ari(&scene, |_| {});
    let orders = scene.server.orders();
    assert_eq!(
        orders[1].replaces.as_deref(),
        Some(&*scene.server.issued()[0].id)
    );
}

#[test]
fn two_processes_on_one_state_folder_order_once() {
    let scene = Scene::new();
    let toml = scene.sites(&["a.example.com"]);
    scene.server.fail_times(Resource::Finalize, 1, Fault::Hold);
    let first = lockgate().start(&toml);
    scene.server.set_tls_port(https(&first).port());
    scene.server.set_http_port(http(&first).port());
    scene.server.wait_for("the order", |log| {
        log.iter().any(|one| one.resource == Resource::Finalize)
    });
    let second = lockgate().start(&toml);
    scene.server.release();
    scene.served(&first, "a.example.com");
    scene.served(&second, "a.example.com");
    assert_eq!(scene.server.count(Resource::NewOrder), 1);
    assert_eq!(scene.server.accounts().len(), 1);
}

#[test]
fn certificates_and_keys_are_readable_by_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    let gate = scene.start(&scene.sites(&["a.example.com"]));
    scene.served(&gate, "a.example.com");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scene.file("")), 0o700);
    assert_eq!(mode(&scene.file("a.example.com.pem")), 0o600);
    for account in std::fs::read_dir(scene.file("accounts")).unwrap() {
        assert_eq!(mode(&account.unwrap().path()), 0o600);
    }
}
