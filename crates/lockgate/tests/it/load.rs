//! `lockgate load` against scripted servers: its counts are those of the servers.
//!
//! Most tests make the run in this process, where the report is at hand as it is; exit codes,
//! signals and output are those of the program.

mod command_line;
mod counts;
mod echo;
mod failures;
mod http2;
mod open_loop;
mod responses;
mod startup;
mod stopping;
mod transports;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_load::Stop;
use lockgate_load::expect::{BodyCheck, Expect, Length};
use lockgate_load::options::{
    ConnectionOptions, LoadOptions, RequestOptions, ThreadOptions, TimingOptions, TlsOptions,
};
use lockgate_load::result::{FailureKind, RunResult, StageCounts};
use lockgate_load::target::RequestBody;
use lockgate_net::tls::CaSource;
use lockgate_testkit::{Http, Origin, Serving};

/// The response of most targets: a page of ten bytes.
const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";

/// `count` requests to `urls`, one after the other on one connection; over TLS any certificate will
/// do.
fn asks(urls: &[&str], count: u64) -> LoadOptions {
    let tls = urls.iter().any(|url| {
        ["https:", "wss:", "tls:"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
    });
    LoadOptions {
        command: Vec::new(),
        requests: RequestOptions {
            urls: urls.iter().map(ToString::to_string).collect(),
            weights: Vec::new(),
            method: None,
            headers: Vec::new(),
            varying: Vec::new(),
            body: text(""),
            grpc: false,
            priorities: false,
        },
        connections: ConnectionOptions {
            number: 1,
            streams: None,
            max_requests: None,
            unix: None,
            resolve: Vec::new(),
            bind: Vec::new(),
            proxy: None,
            proxy_user: None,
            proxy_protocol: None,
            link: None,
        },
        timing: TimingOptions {
            profile: None,
            duration: None,
            count: Some(count),
            rounds: 1,
            warm_up: Duration::ZERO,
            timeout: lockgate_testkit::DEADLINE,
        },
        tls: TlsOptions {
            ca: if tls {
                CaSource::Anyone
            } else {
                CaSource::System
            },
            name: None,
            versions: Vec::new(),
            suites: Vec::new(),
            groups: Vec::new(),
            resume: true,
            identity: None,
        },
        expect: Expect {
            status: vec![200..=299],
            length: Length::First,
            body: BodyCheck::Any,
        },
        stop_on: Vec::new(),
        anyway: false,
        threads: ThreadOptions {
            number: 1,
            cpus: Vec::new(),
        },
        watch: Vec::new(),
    }
}

/// The options after a change.
fn changed(mut options: LoadOptions, change: impl FnOnce(&mut LoadOptions)) -> LoadOptions {
    change(&mut options);
    options
}

/// A body of this text.
fn text(text: &str) -> RequestBody {
    RequestBody::Fixed(text.as_bytes().into())
}

/// Makes the run.
fn run(options: &LoadOptions) -> RunResult {
    let plan = options.plan().unwrap();
    lockgate_load::run(plan, &Arc::new(Stop::default()), |_| ()).unwrap()
}

/// Why the run does not begin.
fn refused(options: &LoadOptions) -> String {
    match options.plan() {
        Err(error) => error.to_string(),
        Ok(plan) => lockgate_load::run(plan, &Arc::new(Stop::default()), |_| ())
            .unwrap_err()
            .to_string(),
    }
}

/// Makes a run of one stage; returns its counts.
fn counts(options: &LoadOptions) -> StageCounts {
    let mut report = run(options);
    assert_eq!(report.stages.len(), 1);
    report.stages.remove(0).counts
}

/// The kinds of failures that there were, and how many of each.
fn failures(counts: &StageCounts) -> Vec<(&'static str, u64)> {
    let counted = FailureKind::ALL
        .into_iter()
        .map(|kind| (kind.name(), counts.failures[kind as usize]));
    counted.filter(|(_, count)| *count > 0).collect()
}

/// The message of the first failure of a kind.
fn example(counts: &StageCounts, kind: FailureKind) -> &str {
    counts.examples[kind as usize].as_deref().unwrap()
}

/// A target at that address.
fn at(scheme: &str, serving: &Serving) -> String {
    format!("{scheme}://{}", serving.address())
}

/// Answers every other request, over all connections, with a page: the first, the third. For those
/// between it calls `bad`, and closes the connection.
fn every_other(bad: impl Fn(&mut Http) + Send + Sync + 'static) -> Serving {
    let place = AtomicUsize::new(0);
    Origin::tcp().serve(move |wire| {
        let mut http = Http::over(wire.another());
        while http.next_request().is_some() {
            if place.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
                return bad(&mut http);
            }
            http.send(PAGE);
        }
    })
}
