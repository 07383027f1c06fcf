//! The admin socket: its resources, the commands that ask it, its file, and clients that mean harm.

mod changes_in_turn;
mod clients;
mod commands;
mod connections;
mod endpoints;
mod hostile_clients;
mod limits;
mod pool_endpoints;
mod resources;
mod sites;
mod socket_file;
mod tail;
mod top;

use std::path::{Path, PathBuf};

use lockgate_testkit::{Folder, Http, Lockgate, Message, Origin, RunResult, Serving, Wire};
use serde_json::Value;

use crate::http::plain_site;
use crate::scene::{lockgate, text};

/// A Lockgate with an admin socket, in front of an origin that answers every request.
struct AdminScene {
    folder: Folder,
    gate: Lockgate,
    socket: PathBuf,
    origin: Serving,
}

impl AdminScene {
    fn new(more: &str) -> Self {
        let folder = Folder::new();
        let socket = folder.path("admin.sock");
        let origin =
            Origin::tcp().answering(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec());
        let toml = format!(
            "admin = \"unix:{}\"\n{more}{}[pool.app]\nendpoints = [\"{}\"]\n",
            text(&socket),
            plain_site("pool:app"),
            origin.address()
        );
        let gate = lockgate().start(&toml);
        Self {
            folder,
            gate,
            socket,
            origin,
        }
    }

    /// One exchange with the site.
    fn exchange(&self) {
        let mut client = Http::connect(self.gate.at("127.0.0.1:0"));
        client.send("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
        assert_eq!(client.answer().status(), 200);
    }

    fn get(&self, path: &str) -> Value {
        let (status, value) = ask(&self.socket, "GET", path, "");
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    fn post(&self, path: &str, body: &str) -> (u16, Value) {
        ask(&self.socket, "POST", path, body)
    }

    /// A command that finds the socket by the configuration.
    fn command(&self, words: &[&str]) -> RunResult {
        let file = text(&self.gate.configuration());
        let with_file = words.iter().copied().chain(["-c", &file]);
        lockgate().run(&with_file.collect::<Vec<_>>())
    }
}

/// The status and the JSON of an exchange with the socket.
pub(crate) fn ask(socket: &Path, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = exchange(Wire::connect_unix(socket), method, path, body);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    let value = serde_json::from_str(answer.text()).expect("JSON");
    (answer.status(), value)
}

fn exchange(wire: Wire, method: &str, path: &str, body: &str) -> Message {
    let mut client = Http::over(wire);
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nhost: lockgate\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.answer()
}
