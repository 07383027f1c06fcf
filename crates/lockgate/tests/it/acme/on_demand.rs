//! Certificates on demand: the handshake that waits, permission, limits.

use std::io::Read;

use lockgate_testkit::Origin;
use lockgate_testkit::acme::{Fault, Resource};

use super::*;

fn toml(scene: &Scene, on_demand: &str) -> String {
    scene.top(&format!("on_demand = {on_demand}\n")) + &sites(&["*.customers.example.com"])
}

#[test]
fn the_first_client_of_an_on_demand_name_waits_for_its_certificate() {
    let scene = Scene::new();
    let toml = toml(&scene, "[\"*.customers.example.com\"]");
    let gate = scene.start(&toml);
    let der = scene
        .certificate(&gate, "one.customers.example.com")
        .unwrap();
    assert_eq!(scene.server.issued()[0].der, der);
    let again = scene
        .certificate(&gate, "ONE.customers.example.com")
        .unwrap();
    assert_eq!(again, der);
    gate.stop();
    let gate = lockgate().start(&toml);
    assert_eq!(
        scene
            .certificate(&gate, "one.customers.example.com")
            .unwrap(),
        der
    );
    assert_eq!(scene.server.orders().len(), 1);
}

#[test]
fn many_first_clients_of_an_on_demand_name_share_one_order() {
    let scene = Scene::new();
    let gate = scene.start(&toml(&scene, "[\"*.customers.example.com\"]"));
    scene.server.fail_times(Resource::NewOrder, 1, Fault::Hold);
    let (at, root) = (https(&gate), scene.server.root_pem());
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| certificate(at, "one.customers.example.com", &root)))
            .collect();
        scene.server.wait_for("the order", |log| {
            log.iter().any(|one| one.resource == Resource::NewOrder)
        });
        scene.server.release();
        for client in clients {
            client.join().unwrap().unwrap();
        }
    });
    assert_eq!(scene.server.orders().len(), 1);
}

#[test]
fn on_demand_names_without_permission_are_refused() {
    let scene = Scene::new();
    let service = Origin::tcp().serve(|wire| {
        let mut request = [0; 1024];
        let length = wire.read(&mut request).unwrap();
        let is_good = request[..length].starts_with(b"GET /ok?domain=good.customers.example.com ");
        let status = if is_good { "200 OK" } else { "404 Not Found" };
        wire.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
    });
    let ask = format!("{{ ask = \"http://{}/ok\" }}", service.address());
    let gate = scene.start(&toml(&scene, &ask));
    scene
        .certificate(&gate, "good.customers.example.com")
        .unwrap();
    for name in ["bad.customers.example.com", "good.example.com"] {
        let error = scene.certificate(&gate, name).unwrap_err();
        assert_eq!(
            Tls::alert(&error),
            Some(AlertDescription::UnrecognisedName),
            "{name}"
        );
    }
    assert_eq!(scene.server.orders().len(), 1);
}

#[test]
fn on_demand_limits_and_failures_refuse_further_names() {
    let scene = Scene::new();
    let rules = "{ names = [\"*.customers.example.com\"], per_hour = 2 }";
    let gate = scene.start(&toml(&scene, rules));
    let failing = "one.customers.example.com";
    scene
        .server
        .fail_name(Resource::NewOrder, failing, Fault::problem(403, "caa"));
    assert!(scene.certificate(&gate, failing).is_err());
    // It rests for a while, and nothing of it is kept.
    assert!(scene.certificate(&gate, failing).is_err());
    assert_eq!(scene.server.count(Resource::NewOrder), 1);
    is("the failed order is forgotten", || {
        !scene
            .file("on-demand/one.customers.example.com.json")
            .exists()
    });
    scene
        .certificate(&gate, "two.customers.example.com")
        .unwrap();
    assert!(
        scene
            .certificate(&gate, "three.customers.example.com")
            .is_err()
    );
}
