//! Authorities that are down, slow, hostile, or refuse.

use lockgate_testkit::acme::{AcmeServer, Fault, Resource, WrongChain};

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
fn the_next_directory_is_asked_when_the_first_is_down() {
    let (scene, second) = (Scene::new(), AcmeServer::start());
    let toml = scene.top_of(&[&scene.server, &second], "") + &sites(&["a.example.com"]);
    // The file of the second's authority beside that of the first.
    let both = scene.state.path("both.pem");
    let read = |server: &AcmeServer| std::fs::read_to_string(server.ca_file()).unwrap();
    std::fs::write(&both, read(&scene.server) + &read(&second)).unwrap();
    let toml = toml.replace(
        &scene.server.ca_file().display().to_string(),
        &both.display().to_string(),
    );
    scene.server.fail(Resource::Directory, Fault::Close);
    second.fail(Resource::Directory, Fault::Hold);
    let gate = lockgate().start(&toml);
    second.set_tls_port(https(&gate).port());
    second.set_http_port(http(&gate).port());
    second.clear_faults();
    second.release();
    is("a certificate of the second", || {
        certificate(https(&gate), "a.example.com", &second.root_pem()).is_ok()
    });
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
