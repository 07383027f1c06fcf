//! Changes of endpoints that wait for others: for a name server that is silent, or for their turn.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use lockgate_testkit::{Wire, eventually};
use serde_json::{Value, json};

use super::pool_endpoints::{IN_TURN, PoolScene};

/// More adds than may wait.
const MANY: usize = 20;

/// A name server that answers nothing, until it is told to: then it knows no name.
struct SilentServer {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    answers: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SilentServer {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (asked, answers) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (by_thread, speaks) = (Arc::clone(&asked), Arc::clone(&answers));
        let thread = std::thread::spawn(move || {
            let mut query = [0; 512];
            loop {
                let (length, from) = socket.recv_from(&mut query).unwrap();
                if length == 0 {
                    break;
                }
                by_thread.fetch_add(1, Ordering::SeqCst);
                if speaks.load(Ordering::SeqCst) {
                    // A response, with the code 3: there is no such name (RFC 1035 §4.1.1).
                    query[2..4].copy_from_slice(&[0x81, 0x83]);
                    let _ = socket.send_to(&query[..length], from);
                }
            }
        });
        Self {
            address,
            asked,
            answers,
            thread: Some(thread),
        }
    }

    /// A scene with pools that ask it.
    fn scene(&self) -> PoolScene {
        PoolScene::new(&format!(
            "{IN_TURN}[dns]\nservers = [\"{}\"]\n",
            self.address
        ))
    }

    fn wait_until_asked(&self) {
        eventually("the name server is asked", || {
            (self.asked.load(Ordering::SeqCst) > 0).then_some(())
        });
    }

    fn answer(&self) {
        self.answers.store(true, Ordering::SeqCst);
    }
}

impl Drop for SilentServer {
    fn drop(&mut self) {
        let end = UdpSocket::bind("127.0.0.1:0").unwrap();
        end.send_to(b"", self.address).unwrap();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Sends a change of which the response is not read.
fn send(scene: &PoolScene, verb: &str, endpoint: &str, keep: bool) -> Wire {
    let body = json!({ "pool": "app", "endpoint": endpoint, "keep": keep }).to_string();
    let mut wire = Wire::connect_unix(&scene.socket());
    wire.send(format!(
        "POST /v1/endpoints/{verb} HTTP/1.1\r\nhost: lockgate\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    wire
}

fn service(number: usize) -> String {
    format!("srv:_app._tcp.slow-{number}.test")
}

#[test]
fn a_change_is_made_and_kept_though_its_client_leaves() {
    let server = SilentServer::start();
    let scene = server.scene();
    let client = send(&scene, "add", &service(1), true);
    server.wait_until_asked();
    // One that waits for its turn, too.
    let other = send(&scene, "remove", scene.endpoint(0), true);
    // Requests are read in the order of their connections.
    assert_eq!(scene.status()["phase"], "ready");
    drop((client, other));
    eventually("both are kept", || {
        (scene.kept() == [vec![service(1)], scene.names(&[0])]).then_some(())
    });
    assert_eq!(scene.shown()[1..], [vec![service(1)], scene.names(&[0])]);
}

#[test]
fn a_drain_is_judged_after_a_remove_of_a_client_that_has_left() {
    let scene = PoolScene::new(IN_TURN);
    for _ in 0..10 {
        drop(send(&scene, "remove", scene.endpoint(0), false));
        let (drained, value) = scene.post("drain", scene.endpoint(1), json!({}));
        assert!([200, 409].contains(&drained), "{value}");
        // It comes after the remove.
        scene.change("add", 2, json!({}));
        let is_ready = |one: &&Value| one["admin"].is_null();
        let pool = scene.pool();
        let usable = pool["endpoints"].as_array().unwrap().iter();
        let usable = usable.filter(is_ready).count();
        assert!(usable > 1, "{pool}");
        scene.change("remove", 2, json!({}));
        scene.change("ready", 1, json!({}));
        if !scene.shown()[2].is_empty() {
            scene.change("add", 0, json!({}));
        }
    }
}

#[test]
fn adds_that_wait_for_a_name_server_hold_up_no_drain() {
    let server = SilentServer::start();
    let scene = server.scene();
    let adds = [1, 2, 3, 4, 5, 6, 7, 8].map(|number| send(&scene, "add", &service(number), false));
    server.wait_until_asked();
    scene.change("drain", 0, json!({}));
    scene.change("weight", 1, json!({ "weight": 7 }));
    let added = || scene.status()["endpoints_added"].as_u64().unwrap();
    let ended = added();
    assert!(ended < adds.len() as u64, "{ended}");
    server.answer();
    eventually("all are added", || {
        (added() == adds.len() as u64).then_some(())
    });
    // What was set meanwhile holds in the pool of now.
    let endpoints = &scene.pool()["endpoints"];
    assert_eq!(
        (&endpoints[0]["admin"], &endpoints[1]["weight"]),
        (&json!("drain"), &json!(7))
    );
    assert_eq!(scene.bodies(2), "bb");
}

#[test]
fn only_some_adds_wait_for_others() {
    let server = SilentServer::start();
    let scene = server.scene();
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..MANY {
            let (scene, refused) = (&scene, &refused);
            scope.spawn(move || {
                let (status, value) = scene.post("add", &service(number), json!({}));
                if status != 200 {
                    assert_eq!(value["error"]["code"], "too_many_changes", "{value}");
                    refused.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        eventually("as many wait as may", || {
            (refused.load(Ordering::SeqCst) > 0).then_some(())
        });
        server.answer();
    });
    let added = scene.shown()[1].len();
    assert_eq!(added, MANY - refused.load(Ordering::SeqCst));
}

#[test]
fn a_rollback_follows_an_add() {
    let server = SilentServer::start();
    let scene = server.scene();
    let other = scene.configured(
        &[0],
        &format!("[dns]\nservers = [\"{}\"]\n", server.address),
    );
    scene.take_over("/v1/reload", &json!({ "text": other }));
    std::thread::scope(|scope| {
        let added = scope.spawn(|| scene.post("add", &service(1), json!({})));
        server.wait_until_asked();
        scene.take_over("/v1/rollback", &json!({}));
        let (status, value) = added.join().unwrap();
        assert_eq!(status, 200, "{value}");
    });
    let [endpoints, added, _] = scene.shown();
    assert_eq!(added, [service(1)]);
    assert_eq!(endpoints[..2], scene.names(&[0, 1]));
}
