//! The program under test: started with a configuration, observed through its logs and its metrics
//! address.
//!
//! Killed on drop.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::eventually;
use crate::http::Http;
use crate::lines::Lines;

pub use rustix::process::Signal;

/// The settings of a start.
#[derive(Clone, Debug)]
pub struct Launch {
    program: String,
    wrapper: Vec<String>,
    workers: usize,
    environment: Vec<(String, String)>,
}

/// The program, running.
#[derive(Debug)]
pub struct Lockgate {
    child: Child,
    stdout: Lines,
    stderr: Lines,
    listeners: HashMap<String, String>,
    first: Option<String>,
    metrics: Option<SocketAddr>,
    next: usize,
    folder: Option<TempDir>,
    /// The number of workers that its configuration gets.
    workers: usize,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// The exit code; `None` when a signal killed it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Launch {
    /// Settings for `program` with one worker.
    pub fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            wrapper: Vec::new(),
            workers: 1,
            environment: Vec::new(),
        }
    }

    /// With this many workers.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Started by a command, such as `prlimit --nofile=300`.
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(ToString::to_string).collect();
        self
    }

    /// With this variable in its environment.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs the configuration `toml`, to which workers, a JSON operator log and a metrics address
    /// on a free port are added, and waits until it is ready.
    ///
    /// # Panics
    /// When it does not get ready.
    pub fn start(&self, toml: &str) -> Lockgate {
        let mut gate = self.begin(toml);
        gate.wait_until_ready();
        gate
    }

    /// Runs the configuration `toml`, amended as for [`Launch::start`], which must fail.
    ///
    /// # Panics
    /// When it does not end.
    pub fn fail(&self, toml: &str) -> RunResult {
        self.begin(toml).ended()
    }

    fn begin(&self, toml: &str) -> Lockgate {
        let folder = tempfile::tempdir().expect("a directory can be made");
        let path = folder.path().join("lockgate.toml");
        std::fs::write(&path, amended(toml, self.workers)).expect("the disk has room");
        let mut gate = self.command(&["run", "-c", &path.display().to_string()]);
        gate.folder = Some(folder);
        gate.workers = self.workers;
        gate
    }

    /// Starts the program with these arguments and does not wait.
    ///
    /// # Panics
    /// When there is no such program.
    pub fn command(&self, arguments: &[&str]) -> Lockgate {
        let mut words = self.wrapper.iter().chain([&self.program]);
        let first = words.next().expect("there is a program at least");
        let mut child = Command::new(first)
            .args(words)
            .args(arguments)
            // No folder for an admin socket: many run at once, and only one can have the default.
            .env("RUNTIME_DIRECTORY", "/nonexistent/lockgate")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let stdout = Lines::of(child.stdout.take().expect("it is piped"));
        let stderr = Lines::of(child.stderr.take().expect("it is piped"));
        Lockgate {
            child,
            stdout,
            stderr,
            listeners: HashMap::new(),
            first: None,
            metrics: None,
            next: 0,
            folder: None,
            workers: 1,
        }
    }

    /// Runs the program with these arguments to its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn run(&self, arguments: &[&str]) -> RunResult {
        self.command(arguments).ended()
    }
}

/// The configuration with the keys that every test needs.
fn amended(toml: &str, workers: usize) -> String {
    let mut amended = String::new();
    for (key, value) in [
        ("workers", workers.to_string()),
        ("log", r#"{ format = "json" }"#.to_owned()),
        ("metrics", r#""127.0.0.1:0""#.to_owned()),
    ] {
        let written = toml
            .lines()
            .any(|line| line.starts_with(&format!("{key} =")));
        if !written {
            amended.push_str(&format!("{key} = {value}\n"));
        }
    }
    amended + toml
}

impl Lockgate {
    fn wait_until_ready(&mut self) {
        let is = |value: &Value, message: &str| value["message"] == message;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.stderr.find_json("ready", |line| is(line, "ready"));
        for line in self.stderr.json() {
            if is(&line, "listening") {
                let name = text(&line["listener"]);
                self.first.get_or_insert_with(|| name.clone());
                self.listeners.insert(name, text(&line["address"]));
            } else if is(&line, "metrics") {
                self.metrics = text(&line["address"]).parse().ok();
            }
        }
    }

    /// The address of the configuration's first listener.
    ///
    /// # Panics
    /// When it is a Unix socket.
    pub fn address(&self) -> SocketAddr {
        self.at(self.first.as_deref().expect("there is a listener"))
    }

    /// The address of the listener with this name in the configuration. With port 0 everywhere,
    /// listeners differ by their addresses: `127.0.0.1:0`, `127.0.0.2:0`.
    ///
    /// # Panics
    /// When there is none, or it is a Unix socket.
    pub fn at(&self, listener: &str) -> SocketAddr {
        let address = self
            .listeners
            .get(listener)
            .expect("a listener of the configuration");
        match address.strip_prefix(':') {
            Some(port) => format!("127.0.0.1:{port}").parse().expect("a port"),
            None => address.parse().expect("an address"),
        }
    }

    /// The metrics address.
    ///
    /// # Panics
    /// When it is no TCP address.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics.expect("a metrics address")
    }

    /// The status and the body of the metrics address for `path`.
    ///
    /// # Panics
    /// When it does not respond.
    pub fn get(&self, path: &str) -> (u16, String) {
        let mut client = Http::connect(self.metrics_address());
        client.send(format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        ));
        let answer = client.answer();
        (answer.status(), answer.text().to_owned())
    }

    /// The Prometheus text.
    ///
    /// # Panics
    /// When the metrics address does not respond.
    pub fn metrics(&self) -> String {
        self.get("/metrics").1
    }

    /// The sum of the samples of metric `name` with all of `labels` among their labels, each as
    /// `key="value"`.
    ///
    /// # Panics
    /// When the metrics address does not respond.
    pub fn sample(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.metrics();
        let samples = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let (series, value) = line.rsplit_once(' ')?;
                let (found, set) = series.split_once('{').unwrap_or((series, ""));
                let is_it = found == name && labels.iter().all(|label| set.contains(label));
                is_it.then(|| value.parse::<f64>().ok()).flatten()
            });
        samples.sum()
    }

    /// Waits until [`Lockgate::sample`] is `value`.
    ///
    /// # Panics
    /// When it does not become so, or there is no such metric: the sum of its samples would be 0.
    pub fn wait_for_sample(&self, name: &str, labels: &[&str], value: f64) {
        let family = name.strip_suffix("_count").unwrap_or(name);
        assert!(
            self.metrics().contains(&format!("# TYPE {family} ")),
            "there is no metric {name}"
        );
        let mut last = f64::NAN;
        eventually(&format!("{name} {labels:?} = {value}"), || {
            last = self.sample(name, labels);
            ((last - value).abs() < 0.5).then_some(())
        });
    }

    /// The traffic of clients.
    ///
    /// # Panics
    /// When the metrics address does not respond with JSON.
    pub fn top(&self) -> Value {
        serde_json::from_str(&self.get("/top").1).expect("JSON")
    }

    /// The next line of the access log, which must go to standard output.
    ///
    /// # Panics
    /// When none comes.
    pub fn next_line(&mut self) -> Value {
        let mut left = self.next;
        self.next += 1;
        self.stdout.find_json("a line of the access log", |_| {
            let found = left == 0;
            left = left.saturating_sub(1);
            found
        })
    }

    /// An access log line that is there already, or comes.
    ///
    /// # Panics
    /// When none comes.
    pub fn line(&self, what: &str, is_it: impl FnMut(&Value) -> bool) -> Value {
        self.stdout.find_json(what, is_it)
    }

    /// All lines of the access log so far.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout.json()
    }

    /// An operator log line with this message that is there already, or comes.
    ///
    /// # Panics
    /// When none comes.
    pub fn says(&self, message: &str) -> Value {
        self.stderr.find_json(message, |line| {
            line["message"]
                .as_str()
                .is_some_and(|said| said.contains(message))
        })
    }

    /// Its standard error: the operator log, and reports of configurations.
    pub fn stderr(&self) -> &Lines {
        &self.stderr
    }

    /// Leaves the standard error unread and full, until [`Lines::read_on`].
    ///
    /// # Panics
    /// When the program has ended.
    pub fn fill_stderr(&self) {
        self.stderr.stop_reading();
        let path = format!("/proc/{}/fd/2", self.pid());
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        let pipe = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).expect("it is a pipe");
        eventually("standard error is full", || {
            // Lines, since the reader stops behind one.
            while rustix::io::write(&pipe, b"\n").is_ok() {}
            let stopped = self.stderr.has_stopped_reading();
            (stopped && rustix::io::write(&pipe, b"\n").is_err()).then_some(())
        });
    }

    /// Its standard output.
    pub fn stdout(&self) -> &Lines {
        &self.stdout
    }

    /// The file of the configuration of [`Launch::start`].
    ///
    /// # Panics
    /// When the program was started with other arguments.
    pub fn configuration(&self) -> PathBuf {
        self.folder
            .as_ref()
            .expect("it was started with a configuration")
            .path()
            .join("lockgate.toml")
    }

    /// Replaces the file of its configuration at once, as editors do.
    ///
    /// # Panics
    /// When the disk has no room.
    pub fn rewrite(&self, toml: &str) {
        let file = self.configuration();
        let beside = file.with_extension("beside");
        std::fs::write(&beside, amended(toml, self.workers)).expect("the disk has room");
        std::fs::rename(&beside, file).expect("the folder is there");
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A file of the program's directory in /proc.
    ///
    /// # Panics
    /// When the program has ended.
    pub fn proc(&self, file: &str) -> String {
        let path: PathBuf = ["/proc", &self.pid().to_string(), file].iter().collect();
        std::fs::read_to_string(path).expect("the process is there")
    }

    /// The resident memory, in bytes, without pages of files: how many of the program's own come with
    /// one that is read is up to the kernel.
    ///
    /// # Panics
    /// When the program has ended.
    pub fn resident(&self) -> usize {
        self.memory_without_files("VmRSS:")
    }

    /// Its peak, in bytes.
    ///
    /// # Panics
    /// When the program has ended.
    pub fn most_resident(&self) -> usize {
        self.memory_without_files("VmHWM:")
    }

    fn memory_without_files(&self, field: &str) -> usize {
        let status = self.proc("status");
        let bytes = |field: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(field));
            let value = value.expect("Linux has this field").trim();
            let kilobytes: usize = value.trim_end_matches(" kB").parse().expect("a number");
            kilobytes * 1024
        };
        // Pages of files stay once they are there, so that the peak has no more of them.
        bytes(field).saturating_sub(bytes("RssFile:"))
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the program has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the process is there");
    }

    /// Calls `done` while all threads of the program are stopped.
    ///
    /// # Panics
    /// When the program has ended, or a thread does not stop.
    pub fn paused<T>(&self, done: impl FnOnce() -> T) -> T {
        self.signal(Signal::STOP);
        let threads =
            std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("the process is there");
        for thread in threads {
            let path = thread.expect("Linux lists them").path().join("status");
            eventually("a thread that is stopped", || {
                // A process that has ended is stopped, too.
                let status =
                    std::fs::read_to_string(&path).unwrap_or_else(|_| "State:\tT".to_owned());
                status.contains("State:\tT").then_some(())
            });
        }
        let result = done();
        self.signal(Signal::CONT);
        result
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn ended(mut self) -> RunResult {
        // Its outputs close with it; no other process has them.
        let ended = self.stdout.ended() && self.stderr.ended();
        assert!(
            ended,
            "the program does not end; it said\n{}",
            self.stderr.text()
        );
        let status = self.child.wait().expect("it is our child");
        RunResult {
            code: status.code(),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }

    /// Sends TERM and waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(self) -> RunResult {
        self.signal(Signal::TERM);
        self.ended()
    }
}

impl Drop for Lockgate {
    fn drop(&mut self) {
        // A program that has ended already needs nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "what the program said:\n{}\n{}",
                self.stderr.text(),
                self.stdout.text()
            );
        }
    }
}
