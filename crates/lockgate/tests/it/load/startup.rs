//! Failures to begin a run: reported before anything is measured, with advice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockgate_load::expect::{Expect, Length};
use lockgate_load::options::LoadOptions;
use lockgate_load::plan::WatchedProcess;
use lockgate_load::process_tree::TopProcess;
use lockgate_load::profile::{Profile, RequestRates};
use lockgate_load::result::RunEnd;
use lockgate_load::schedule::RequestRate;
use lockgate_net::tls::{CaSource, CertFiles};
use lockgate_testkit::{Authority, Folder, Http, Origin, Tls, server_config};

use super::{PAGE, asks, at, changed, refused, run, text};
use crate::scene::{deserted, lockgate};

#[test]
fn an_unexpected_first_response_stops_the_run() {
    for (answer, says) in [
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc",
            "status 404 with 3 bytes",
        ),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc",
            "--expect-status 404",
        ),
        (
            "HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n",
            "--anyway",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "3 bytes instead of 4; use --anyway",
        ),
        ("SSH-2.0-OpenSSH\r\n", ""),
        ("", "closed before a response"),
    ] {
        let server = Origin::tcp().serve(move |wire| {
            let mut http = Http::over(wire.another());
            http.request();
            http.send(answer);
        });
        let url = at("http", &server);
        let mut options = asks(&[&url], 3);
        if answer.contains("200") {
            options.expect.length = Length::Exactly(4);
        }
        let told = refused(&options);
        assert!(
            told.starts_with(&format!("{url}: ")) && told.contains(says),
            "{answer}: {told}"
        );
        assert_eq!(server.accepted(), 1, "nothing more was asked");
        options.anyway = true;
        assert_eq!(run(&options).stages[0].counts.failed(), 3, "{answer}");
    }
}

#[test]
fn an_unreachable_or_silent_target_stops_the_run() {
    let address = deserted();
    let told = refused(&asks(&[&format!("http://{address}/")], 1));
    assert!(
        told.contains(&address.to_string()) && told.contains("cannot connect"),
        "{told}"
    );
    let told = refused(&asks(&["http://no-such-host.invalid/"], 1));
    assert!(told.contains("no-such-host.invalid"), "{told}");
    let told = refused(&changed(asks(&["http://a"], 1), |options| {
        options.connections.unix = Some("/nonexistent/socket".into());
    }));
    assert!(told.contains("/nonexistent/socket"), "{told}");
    let server = Origin::tcp().serve(|wire| wire.wait_closed());
    let options = changed(asks(&[&at("http", &server)], 1), |options| {
        options.timing.timeout = Duration::from_millis(50);
    });
    let told = refused(&options);
    assert!(told.contains("no complete response within 50ms"), "{told}");
}

#[test]
fn an_untrusted_or_mismatched_certificate_stops_the_run() {
    let folder = Folder::new();
    let (authority, stranger) = (Authority::new("Test Authority"), Authority::new("Stranger"));
    let trusted = folder.write("ca.pem", authority.pem());
    for (issued, name, says) in [
        (authority.issue(&["127.0.0.1"]), None, None),
        (authority.issue(&["app.test"]), Some("app.test"), None),
        (authority.issue(&["app.test"]), None, Some("--insecure")),
        (stranger.issue(&["127.0.0.1"]), None, Some("--ca FILE")),
        (
            authority.issue_expired(&["127.0.0.1"]),
            None,
            Some("--insecure"),
        ),
    ] {
        let served = server_config(&issued, None);
        let server = Origin::tcp().serve(move |wire| {
            // A client that does not trust us breaks off.
            let Ok(stream) = Tls::accept(&served, wire.another()) else {
                return;
            };
            let mut http = Http::over(stream);
            while http.next_request().is_some() {
                http.send(PAGE);
            }
        });
        let mut options = asks(&[&at("https", &server)], 2);
        options.tls.ca = CaSource::File(trusted.clone());
        options.tls.name = name.map(str::to_owned);
        match says {
            None => assert_eq!(run(&options).stages[0].counts.succeeded(), 2),
            Some(says) => {
                let told = refused(&options);
                assert!(told.contains(says), "{told}");
                options.tls.ca = CaSource::Anyone;
                assert_eq!(
                    run(&options).stages[0].counts.succeeded(),
                    2,
                    "any certificate will do"
                );
            }
        }
    }
}

/// As of `openssl req -x509`.
#[test]
fn an_authoritys_own_certificate_is_refused_with_a_cure() {
    let folder = Folder::new();
    let authority = Authority::new("Test Authority");
    let issued = authority.issue_as_authority(&["127.0.0.1"]);
    let trusted = folder.write("ca.pem", authority.pem());
    let served = server_config(&issued, None);
    let server = Origin::tcp().serve(move |wire| drop(Tls::accept(&served, wire.another())));
    let mut options = asks(&[&at("https", &server)], 1);
    options.tls.ca = CaSource::File(trusted);
    let told = refused(&options);
    assert!(told.contains("basicConstraints=CA:FALSE"), "{told}");
    assert!(
        told.contains("--insecure") && !told.contains("--ca FILE"),
        "{told}"
    );
}

/// The other version would have no suite.
#[test]
fn suites_of_one_tls_version_imply_the_version() {
    let issued = Authority::new("Test Authority").issue(&["127.0.0.1"]);
    let served = server_config(&issued, None);
    let server = Origin::tcp().serve(move |wire| {
        let Ok(stream) = Tls::accept(&served, wire.another()) else {
            return;
        };
        let mut http = Http::over(stream);
        while http.next_request().is_some() {
            http.send(PAGE);
        }
    });
    for (suite, version) in [
        ("TLS13_AES_128_GCM_SHA256", "TLSv1.3"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2"),
    ] {
        let mut options = asks(&[&at("https", &server)], 1);
        options.tls.suites = vec![suite.to_owned()];
        let tls = run(&options).first[0].tls.clone().unwrap();
        assert!(tls.contains(version), "{tls}");
    }
}

#[test]
fn the_first_response_reports_the_tls_version() {
    let authority = Authority::new("Test Authority");
    let served = server_config(&authority.issue(&["127.0.0.1"]), None);
    let server = Origin::tcp().serve(move |wire| {
        let Ok(stream) = Tls::accept(&served, wire.another()) else {
            return;
        };
        let mut http = Http::over(stream);
        while http.next_request().is_some() {
            http.send(PAGE);
        }
    });
    let mut options = asks(&[&at("https", &server)], 2);
    for version in ["1.2", "1.3"] {
        options.tls.versions = vec![version.to_owned()];
        let first = run(&options).first.remove(0);
        assert!(
            first
                .tls
                .as_deref()
                .is_some_and(|tls| tls.contains(version)),
            "{:?}",
            first.tls
        );
        assert_eq!((first.status, first.length), (Some(200), 10));
    }
    options.tls.versions = vec!["1.1".to_owned()];
    let told = refused(&options);
    assert!(told.contains("1.1"), "{told}");
}

#[test]
fn the_failing_target_of_several_is_named() {
    let place = AtomicUsize::new(0);
    let server = Origin::tcp().answering(move |_| match place.fetch_add(1, Ordering::SeqCst) {
        0 => PAGE.into(),
        _ => PAGE.replace("200", "503").into(),
    });
    let [good, bad] = ["/good", "/bad"].map(|path| at("http", &server) + path);
    let told = refused(&asks(&[&good, &bad], 5));
    assert!(told.starts_with(&bad) && told.contains("503"), "{told}");
}

#[test]
fn missing_descriptors_are_reported_before_the_first_request() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let url = at("http", &server);
    let launch = lockgate().through(&["prlimit", "--nofile=100:100"]);
    let ended = launch.run(&["load", "-n", "10", "-c", "200", &url]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    for word in ["200 connections", "100 are allowed", "ulimit -Hn"] {
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    }
    assert_eq!(server.accepted(), 0);
    // A soft limit is raised.
    let launch = lockgate().through(&["prlimit", "--nofile=100:1000"]);
    let ended = launch.run(&["load", "-n", "400", "-c", "200", &url]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn too_few_local_ports_are_reported() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    let told = refused(&changed(asks(&[&at("http", &server)], 1), |options| {
        options.connections.number = 70_000;
    }));
    assert!(
        told.contains("ip_local_port_range") || told.contains("descriptors"),
        "{told}"
    );
    assert_eq!(server.accepted(), 0);
}

#[test]
fn pinning_to_a_missing_cpu_ends_the_run() {
    let server = Origin::tcp().answering(|_| PAGE.into());
    for cpu in [1023, 5000] {
        let options = changed(asks(&[&at("http", &server)], 1), |options| {
            options.threads.cpus = vec![0, cpu];
            options.threads.number = 2;
            options.connections.number = 2;
            options.timing.count = None;
            // Nobody waits for that: the other thread is told.
            options.timing.duration = Some(Duration::from_secs(3600));
        });
        let told = refused(&options);
        assert!(told.contains(&format!("CPU {cpu}")), "{told}");
    }
}

#[test]
fn a_watched_process_must_exist() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let server = Origin::tcp().answering(|_| PAGE.into());
    let watch = vec![WatchedProcess {
        name: "gone".to_owned(),
        pid: child.id(),
        top: TopProcess::Counted,
    }];
    let told = refused(&changed(asks(&[&at("http", &server)], 1), |options| {
        options.watch = watch;
    }));
    assert!(
        told.contains(&format!("process {} (gone)", child.id())),
        "{told}"
    );
}

/// From 1 to 2 requests a second.
fn ramp() -> Profile {
    let rate = |per_second| RequestRate::new(per_second).unwrap();
    let rates = RequestRates::Range(rate(1.0), rate(2.0));
    Profile {
        rates,
        step: None,
        every: None,
        hold: None,
        spike: None,
        duration: None,
    }
}

#[test]
fn contradictory_load_options_make_no_plan() {
    let plain = || asks(&["http://127.0.0.1:1"], 1);
    let bytes = || {
        changed(asks(&["tcp://127.0.0.1:1"], 1), |options| {
            options.requests.body = text("x");
        })
    };
    let under = |say: fn(&mut lockgate_load::options::TlsOptions)| {
        let mut options = asks(&["http://127.0.0.1:1", "ws://127.0.0.1:1"], 1);
        say(&mut options.tls);
        options
    };
    let hashed = |mut options: LoadOptions| {
        options.expect.body = lockgate_load::expect::BodyCheck::First;
        options
    };
    let varying = vec![lockgate_load::target::Varying {
        name: "A".into(),
        values: vec!["1".into()],
    }];
    for (options, says) in [
        (
            changed(plain(), |options| {
                options.requests.weights = vec![1, 2];
            }),
            "one number for each URL",
        ),
        (
            changed(plain(), |options| {
                options.requests.weights = vec![0];
            }),
            "from 1 on",
        ),
        (
            changed(asks(&["http://a", "http://b"], 1), |options| {
                options.requests.weights = vec![u32::MAX, 1];
            }),
            "2^32",
        ),
        (
            changed(plain(), |options| {
                options.connections.unix = Some("a".into());
                options.connections.proxy = Some("http://a".into());
            }),
            "--unix and --proxy",
        ),
        (
            changed(plain(), |options| {
                options.connections.proxy_user = Some("a:b".into());
            }),
            "needs --proxy",
        ),
        (
            changed(plain(), |options| {
                options.connections.proxy = Some("https://127.0.0.1:1".into());
            }),
            "http://HOST:PORT",
        ),
        (
            changed(plain(), |options| {
                options.requests.method = Some("G T".into());
            }),
            "method",
        ),
        (
            changed(plain(), |options| {
                options.requests.headers = vec![("A b".into(), "c".into())];
            }),
            "field name",
        ),
        (
            changed(plain(), |options| {
                options.requests.headers = vec![("A".into(), "c\r\nD: e".into())];
            }),
            "control characters",
        ),
        // Options that would be parsed and ignored.
        (
            changed(bytes(), |options| {
                options.requests.method = Some("PUT".into());
            }),
            "--method",
        ),
        (
            changed(bytes(), |options| {
                options.requests.headers = vec![("A".into(), "b".into())];
            }),
            "--header",
        ),
        (
            changed(bytes(), |options| {
                options.requests.varying = varying.clone();
            }),
            "--header-any",
        ),
        (
            changed(asks(&["ws://127.0.0.1:1"], 1), |options| {
                options.requests.varying = varying;
            }),
            "--header-any",
        ),
        (hashed(bytes()), "--expect-sha256"),
        (hashed(asks(&["ws://127.0.0.1:1"], 1)), "--expect-sha256"),
        (
            changed(bytes(), |options| {
                options.stop_on = vec![503];
            }),
            "--stop-on",
        ),
        (
            changed(bytes(), |options| {
                options.expect = Expect {
                    status: vec![404..=404],
                    ..Expect::default()
                };
            }),
            "--expect-status",
        ),
        (under(|tls| tls.ca = CaSource::Anyone), "--insecure"),
        (under(|tls| tls.ca = CaSource::File("a".into())), "--ca"),
        (under(|tls| tls.name = Some("a".into())), "--sni"),
        (under(|tls| tls.versions = vec!["1.3".into()]), "--tls"),
        (under(|tls| tls.suites = vec!["a".into()]), "--suites"),
        (under(|tls| tls.groups = vec!["a".into()]), "--groups"),
        (under(|tls| tls.resume = false), "--no-resumption"),
        (
            under(|tls| {
                tls.identity = Some(CertFiles {
                    cert: "a".into(),
                    key: None,
                    ocsp: None,
                })
            }),
            "--cert",
        ),
        (
            changed(plain(), |options| {
                options.timing.profile = Some(ramp());
            }),
            "--count cannot end a ramp",
        ),
        // Nothing sent and nothing awaited would be a success in no time.
        (asks(&["tcp://127.0.0.1:1"], 1), "send"),
        (
            asks(&["http://127.0.0.1:1", "tls://127.0.0.1:1"], 1),
            "send",
        ),
    ] {
        let told = options.plan().map(drop).unwrap_err().to_string();
        assert!(told.contains(says), "{says}: {told}");
    }
}

#[test]
fn a_run_stopped_before_it_began_sends_nothing() {
    let server = Origin::tcp().serve(|wire| wire.wait_closed());
    let plan = asks(&[&at("http", &server)], 1).plan().unwrap();
    let stop = std::sync::Arc::new(lockgate_load::Stop::default());
    stop.now();
    let report = lockgate_load::run(plan, &stop, |_| ()).unwrap();
    assert_eq!(
        (report.end, report.stages.len(), report.first.len()),
        (RunEnd::Interrupted, 0, 0)
    );
}
