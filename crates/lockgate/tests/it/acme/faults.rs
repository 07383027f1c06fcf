//! Authorities that are down, slow, hostile, or refuse.

use lockgate_testkit::acme::{AcmeServer, Fault, Resource, WrongChain};

use serde_json::Value;

use super::*;

/// The kind that is logged when the resource fails so; another site has its certificate meanwhile.
fn failure_of(resource: Resource, fault: Fault) -> String {
    let scene = Scene::new();
    let toml = scene.sites(&["a.example.com", "b.example.com"]);
    scene.server.fail(Resource::Directory, Fault::Hold);
    let gate = lockgate().start(&toml);
    scene.server.set_tls_port(https(&gate).port());
    scene.server.set_http_port(http(&gate).port());
    scene.server.clear_faults();
    scene.server.fail_name(resource, "a.example.com", fault);
    scene.server.release();
    scene.served(&gate, "b.example.com");
    let told = gate.says("no certificate obtained");
    assert_eq!(told["name"], "a.example.com");
    assert!(!scene.file("a.example.com.pem").exists());
    told["kind"].as_str().unwrap().to_owned()
}

/// Starts Lockgate and waits until it serves a certificate of the second authority, which answers
/// once it knows the ports.
fn served_by(second: &AcmeServer, toml: &str) -> Lockgate {
    second.fail(Resource::Directory, Fault::Hold);
    let gate = lockgate().start(toml);
    second.set_tls_port(https(&gate).port());
    second.set_http_port(http(&gate).port());
    second.clear_faults();
    second.release();
    is("a certificate of the second", || {
        certificate(https(&gate), "a.example.com", &second.root_pem()).is_ok()
    });
    gate
}

#[test]
fn refusals_of_the_authority_are_told_by_kind() {
    for (fault, kind) in [
        (Fault::rate_limited(3600), "rate_limited"),
        (Fault::problem(403, "rejectedIdentifier"), "rejected"),
        (Fault::problem(403, "caa"), "caa"),
        (Fault::problem(500, "serverInternal"), "authority"),
    ] {
        assert_eq!(
            failure_of(Resource::NewOrder, fault.clone()),
            kind,
            "{fault:?}"
        );
    }
    assert_eq!(
        failure_of(Resource::Challenge, Fault::invalid("caa")),
        "caa"
    );
    assert_eq!(
        failure_of(Resource::Finalize, Fault::invalid("badCSR")),
        "authority"
    );
}

#[test]
fn garbage_endless_and_missing_responses_of_the_authority_are_failures() {
    for (fault, kind) in [
        (Fault::Garbage, "authority"),
        (Fault::Endless, "authority"),
        (Fault::Close, "unreachable"),
    ] {
        for resource in [
            Resource::NewOrder,
            Resource::Challenge,
            Resource::Certificate,
        ] {
            let told = failure_of(resource, fault.clone());
            let is_chain = resource == Resource::Certificate && told == "chain";
            // A request that is sent again after a close has a nonce that is used up.
            let is_nonce = kind == "unreachable" && told == "authority";
            assert!(
                told == kind || is_chain || is_nonce,
                "{resource:?} {fault:?}: {told}"
            );
        }
    }
}

#[test]
fn a_wrong_chain_is_never_installed() {
    for chain in [
        WrongChain::OtherKey,
        WrongChain::OtherName,
        WrongChain::Expired,
        WrongChain::Empty,
    ] {
        let told = failure_of(Resource::Certificate, Fault::WrongChain(chain));
        assert_eq!(told, "chain", "{chain:?}");
    }
}

#[test]
fn retry_after_of_a_rate_limit_holds_across_a_restart() {
    let scene = Scene::new();
    let toml = scene.sites(&["a.example.com"]);
    scene
        .server
        .fail(Resource::NewOrder, Fault::rate_limited(3600));
    let gate = lockgate().start(&toml);
    let told = gate.says("no certificate obtained");
    assert!(told["again_in_seconds"].as_u64().unwrap() > 3000, "{told}");
    gate.stop();
    let asked = scene.server.log().len();
    let gate = lockgate().start(&toml);
    gate.wait_for_sample(
        "lockgate_managed_cert_failures",
        &["kind=\"rate_limited\""],
        1.0,
    );
    assert_eq!(scene.server.log().len(), asked);
}

#[test]
fn retry_after_holds_for_the_name_that_got_it() {
    let scene = Scene::new();
    let names = ["a.example.com", "b.example.com", "c.example.com"];
    scene.server.fail(Resource::Directory, Fault::Hold);
    let gate = scene.start_without_clearing(&scene.sites(&names));
    scene.server.clear_faults();
    let limited = Fault::rate_limited(3600);
    scene
        .server
        .fail_name(Resource::NewOrder, names[0], limited.clone());
    scene
        .server
        .fail_name(Resource::NewOrder, names[1], Fault::problem(403, "caa"));
    scene.server.release();
    scene.served(&gate, names[2]);
    let again = |name: &str| {
        let told = gate.stderr().find_json("the failure", |line| {
            line["message"] == "no certificate obtained" && line["name"] == name
        });
        told["again_in_seconds"].as_u64().unwrap()
    };
    assert!(again(names[0]) > 3000);
    assert!(again(names[1]) < 100);
}

#[test]
fn retry_after_of_a_busy_authority_holds_for_all_names() {
    let scene = Scene::new();
    let mut busy = lockgate_testkit::acme::Problem::new(503, "serverInternal", "maintenance");
    busy.retry_after = Some(3600);
    scene.server.fail(Resource::NewNonce, Fault::Problem(busy));
    let gate = lockgate().start(&scene.sites(&["a.example.com"]));
    let told = gate.says("no certificate obtained");
    assert!(told["again_in_seconds"].as_u64().unwrap() > 3000, "{told}");
    assert!(told["error"].as_str().unwrap().contains("503"), "{told}");
    let asked = scene.server.log().len();
    gate.rewrite(&scene.sites(&["a.example.com", "b.example.com"]));
    gate.signal(lockgate_testkit::Signal::HUP);
    gate.wait_for_sample(
        "lockgate_managed_cert_failures",
        &["name=\"b.example.com\"", "kind=\"rate_limited\""],
        1.0,
    );
    assert_eq!(scene.server.log().len(), asked);
}

/// Makes the last failure of a name old, as if its pause were over.
fn age_failure(scene: &Scene, name: &str) {
    let record = scene.file(&format!("{name}.json"));
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    kept["failures"]["last"] = "2026-01-01T00:00:00Z".into();
    std::fs::write(&record, kept.to_string()).unwrap();
}

#[test]
fn retry_after_of_one_directory_holds_across_a_restart_beside_another() {
    let (scene, second) = (Scene::new(), AcmeServer::start());
    let toml = scene.top_of_both(&second) + &sites(&["a.example.com"]);
    scene
        .server
        .fail(Resource::NewOrder, Fault::rate_limited(3600));
    second.fail(Resource::NewOrder, Fault::problem(500, "serverInternal"));
    let gate = lockgate().start(&toml);
    let told = gate.says("no certificate obtained");
    assert!(told["again_in_seconds"].as_u64().unwrap() < 100, "{told}");
    gate.stop();
    // But for the time that the authority has told.
    age_failure(&scene, "a.example.com");
    let asked = scene.server.log().len();
    second.clear_faults();
    let _gate = served_by(&second, &toml);
    assert_eq!(scene.server.log().len(), asked);
}

#[test]
fn the_next_directory_is_asked_when_the_first_is_down() {
    let (scene, second) = (Scene::new(), AcmeServer::start());
    let toml = scene.top_of_both(&second) + &sites(&["a.example.com"]);
    scene.server.fail(Resource::Directory, Fault::Close);
    let _gate = served_by(&second, &toml);
    assert!(scene.server.issued().is_empty());
}

#[test]
fn an_account_that_the_authority_has_forgotten_is_made_again() {
    let scene = Scene::new();
    let gate = scene.start(&scene.sites(&["a.example.com"]));
    scene.served(&gate, "a.example.com");
    scene.server.forget_accounts();
    gate.rewrite(&scene.sites(&["a.example.com", "b.example.com"]));
    gate.signal(lockgate_testkit::Signal::HUP);
    scene.served(&gate, "b.example.com");
    let accounts = scene.server.accounts();
    assert_eq!(accounts.len(), 2);
    assert_eq!(
        accounts[0].thumbprint, accounts[1].thumbprint,
        "the same key"
    );
}

#[test]
fn an_account_with_eab_is_made_again_after_the_authority_has_forgotten_it() {
    let scene = Scene::new();
    let top = scene.top(scene.requires_eab());
    let gate = scene.start(&(top.clone() + &sites(&["a.example.com"])));
    scene.served(&gate, "a.example.com");
    scene.server.forget_accounts();
    gate.rewrite(&(top + &sites(&["a.example.com", "b.example.com"])));
    gate.signal(lockgate_testkit::Signal::HUP);
    scene.served(&gate, "b.example.com");
    let accounts = scene.server.accounts();
    let bound = accounts.iter().map(|account| account.external.as_deref());
    assert_eq!(bound.collect::<Vec<_>>(), [Some("kid-1"); 2]);
}

#[test]
fn eab_that_is_added_after_a_refused_account_binds_the_account() {
    let scene = Scene::new();
    let eab = scene.requires_eab();
    let gate = lockgate().start(&scene.sites(&["a.example.com"]));
    gate.says("no certificate obtained");
    gate.stop();
    age_failure(&scene, "a.example.com");
    let gate = scene.start(&(scene.top(eab) + &sites(&["a.example.com"])));
    scene.served(&gate, "a.example.com");
}

#[test]
fn an_order_that_stays_in_processing_goes_on_later() {
    let scene = Scene::new();
    let toml = scene.sites(&["a.example.com"]);
    scene.server.fail_times(Resource::Finalize, 1, Fault::Stay);
    let gate = scene.start_without_clearing(&toml);
    scene.server.wait_for("polls of the order", |log| {
        let polls = log.iter().filter(|one| one.resource == Resource::Order);
        polls.count() >= 3
    });
    // A restart takes the same order up.
    gate.stop();
    let gate = lockgate().start(&toml);
    scene.server.release();
    scene.served(&gate, "a.example.com");
    assert_eq!(scene.server.count(Resource::NewOrder), 1);
}
