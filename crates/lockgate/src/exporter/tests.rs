//! Tasks against real sinks. What goes over the wire says what was read.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use lockgate_config::{
    AuthoritySource, EndpointAddr, ExportForm, ExportSink, InfluxTarget, InfluxUrl, UrlScheme,
};
use lockgate_metrics::{MetricFamilies, MetricSink};
use lockgate_net::tls::{CaSource, ClientSettings, Connector};
use lockgate_rules::{GraphiteNaming, GraphiteProtocol, MetricFilter, SecretText, StatsdTags};
use lockgate_testkit::{
    Authority, DEADLINE, Folder, Http, Origin, Tls, Wire, eventually, server_config,
};

use super::*;

/// An interval in which there are many readings, and one of centuries, in which only the last is.
const OFTEN: Duration = Duration::from_millis(20);
const NEVER: Duration = Duration::from_secs(1 << 34);

/// Runs `test` with an exporter, in a runtime.
fn with_exporter<T>(test: impl FnOnce(&mut Exporter) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    test(&mut Exporter::default())
}

/// Waits for the last push of all tasks.
fn finish(exporter: &mut Exporter) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let finished = exporter.finish();
    runtime.block_on(async { timeout(DEADLINE, finished).await.unwrap() });
}

fn settings(form: ExportForm, every: Duration) -> SinkSettings {
    SinkSettings {
        sink: ExportSink {
            name: "sink".to_owned(),
            every,
            form,
        },
        transport: SinkTransport::Plain,
        filter: MetricFilter::default(),
        host: "web1".to_owned(),
        started: Duration::from_secs(1_764_000_000),
        limit: DEADLINE,
    }
}

fn graphite(to: &Origin, every: Duration) -> SinkSettings {
    let form = ExportForm::Graphite {
        to: EndpointAddr::Ip(to.socket_address()),
        protocol: GraphiteProtocol::Plaintext,
        naming: GraphiteNaming::Path,
        prefix: "x".to_owned(),
    };
    settings(form, every)
}

fn statsd(to: &UdpSocket, every: Duration) -> SinkSettings {
    let form = ExportForm::Statsd {
        to: EndpointAddr::Ip(to.local_addr().unwrap()),
        tags: StatsdTags::None,
        prefix: "x".to_owned(),
    };
    settings(form, every)
}

fn influx(to: &Origin, every: Duration) -> SinkSettings {
    let target = InfluxTarget::Http(InfluxUrl {
        scheme: UrlScheme::Http,
        addr: EndpointAddr::Ip(to.socket_address()),
        host: "influx.test:8086".to_owned(),
        path: SecretText("/write?db=a&p=hidden".to_owned()),
        token: Some(SecretText("s3cret".to_owned())),
        ca: AuthoritySource::System,
    });
    settings(ExportForm::Influx(target), every)
}

/// One counter, `lockgate_n_total`, which has this value.
fn counter(value: &Arc<AtomicU64>) -> FigureSource {
    let value = Arc::clone(value);
    Arc::new(move |sink: &mut dyn MetricSink| {
        let mut families = MetricFamilies::new(sink);
        families
            .counter("lockgate_n_total", "Numbers.")
            .sample(&[], value.load(Ordering::Relaxed));
    })
}

fn seven() -> FigureSource {
    counter(&Arc::new(AtomicU64::new(7)))
}

fn only(exporter: &Exporter) -> Arc<SinkStatus> {
    Arc::clone(&exporter.statuses().now()[0])
}

fn line(wire: &mut Wire) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.extend(wire.exactly(1));
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn readings_come_at_their_times_and_once_more_at_the_end() {
    let origin = Origin::tcp();
    with_exporter(|exporter| {
        let sinks = vec![graphite(&origin, OFTEN)];
        exporter.keep(sinks, &seven(), CountedBefore::Nothing);
        let mut wire = origin.accept();
        for _ in 0..3 {
            assert!(line(&mut wire).starts_with("x.n_total 7 "));
        }
        let status = only(exporter);
        eventually("it is up", || status.is_up().then_some(()));
        finish(exporter);
        let rest = String::from_utf8(wire.rest()).unwrap();
        assert!(rest.ends_with('\n') && rest.lines().count() >= 1, "{rest}");
        assert_eq!(status.lost(LossReason::QueueFull), 0);
    });
}

#[test]
fn points_wait_for_a_receiver_that_comes_later() {
    let origin = Origin::tcp();
    let address = origin.socket_address();
    let sink = graphite(&origin, OFTEN);
    drop(origin);
    with_exporter(|exporter| {
        exporter.keep(vec![sink], &seven(), CountedBefore::Nothing);
        let status = only(exporter);
        eventually("it is tried", || status.is_down().then_some(()));
        let origin = Origin::tcp_at(address);
        let mut wire = origin.accept();
        line(&mut wire);
        eventually("it is up", || status.is_up().then_some(()));
        assert_eq!(status.lost(LossReason::QueueFull), 0);
    });
}

#[test]
fn a_connection_that_the_receiver_closes_is_made_again() {
    let origin = Origin::tcp();
    with_exporter(|exporter| {
        let sinks = vec![graphite(&origin, OFTEN)];
        exporter.keep(sinks, &seven(), CountedBefore::Nothing);
        for _ in 0..3 {
            let mut wire = origin.accept();
            line(&mut wire);
        }
    });
}

#[test]
fn a_receiver_that_never_reads_costs_a_bounded_queue() {
    let origin = Origin::tcp();
    let read = Arc::new(AtomicU64::new(0));
    let (counted, many) = (Arc::clone(&read), many());
    let large: FigureSource = Arc::new(move |sink: &mut dyn MetricSink| {
        counted.fetch_add(1, Ordering::Relaxed);
        many(sink);
    });
    with_exporter(|exporter| {
        let sink = SinkSettings {
            limit: OFTEN,
            ..graphite(&origin, OFTEN)
        };
        exporter.keep(vec![sink], &large, CountedBefore::Nothing);
        let _silent = origin.accept();
        let status = only(exporter);
        eventually("points are lost", || {
            (status.lost(LossReason::QueueFull) > 0).then_some(())
        });
        // The kernel takes the first readings for it.
        eventually("it is down", || (!status.is_up()).then_some(()));
        // Readings go on meanwhile.
        let so_far = read.load(Ordering::Relaxed);
        eventually("a reading", || {
            (read.load(Ordering::Relaxed) > so_far).then_some(())
        });
        finish(exporter);
    });
}

#[test]
fn a_reload_disturbs_no_receiver_that_both_have() {
    let (stays, goes, comes) = (Origin::tcp(), Origin::tcp(), Origin::tcp());
    let value = Arc::new(AtomicU64::new(7));
    with_exporter(|exporter| {
        let sinks = vec![graphite(&stays, OFTEN), graphite(&goes, NEVER)];
        exporter.keep(sinks, &counter(&value), CountedBefore::Nothing);
        let mut kept = stays.accept();
        line(&mut kept);
        value.store(8, Ordering::Relaxed);
        let sinks = vec![graphite(&comes, OFTEN), graphite(&stays, OFTEN)];
        exporter.keep(sinks, &counter(&value), CountedBefore::Something);
        // The one that is gone gets its last figures.
        let mut gone = goes.accept();
        let last = String::from_utf8(gone.rest()).unwrap();
        assert!(
            last.starts_with("x.n_total 8 ") && last.lines().count() == 1,
            "{last}"
        );
        line(&mut comes.accept());
        for _ in 0..3 {
            line(&mut kept);
        }
        assert!(!stays.has_one(Duration::ZERO));
        assert_eq!(exporter.statuses().now().len(), 2);
        exporter.keep(Vec::new(), &counter(&value), CountedBefore::Something);
        kept.wait_closed();
        assert!(exporter.statuses().now().is_empty() && exporter.thread.is_none());
    });
}

#[test]
fn the_counts_of_a_receiver_go_on_when_its_settings_change() {
    let origin = Origin::tcp();
    with_exporter(|exporter| {
        let sinks = vec![graphite(&origin, OFTEN)];
        exporter.keep(sinks, &seven(), CountedBefore::Nothing);
        line(&mut origin.accept());
        let status = only(exporter);
        let sinks = vec![graphite(&origin, NEVER)];
        exporter.keep(sinks, &seven(), CountedBefore::Something);
        assert!(Arc::ptr_eq(&status, &only(exporter)));
    });
}

fn datagram(socket: &UdpSocket) -> String {
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut received = [0; 2_000];
    let length = socket.recv(&mut received).unwrap();
    String::from_utf8(received[..length].to_vec()).unwrap()
}

#[test]
fn statsd_gets_what_was_added_since_a_sink_came() {
    for (counted, sent) in [
        (CountedBefore::Nothing, "x.n_total:7|c"),
        (CountedBefore::Something, "x.n_total:2|c"),
    ] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let value = Arc::new(AtomicU64::new(5));
        let read = Arc::new(AtomicU64::new(0));
        let (figures, seen) = (counter(&value), Arc::clone(&read));
        let figures: FigureSource = Arc::new(move |sink: &mut dyn MetricSink| {
            figures(sink);
            seen.fetch_add(1, Ordering::Relaxed);
        });
        with_exporter(|exporter| {
            exporter.keep(vec![statsd(&socket, NEVER)], &figures, counted);
            if counted == CountedBefore::Something {
                eventually("the first reading", || {
                    (read.load(Ordering::Relaxed) > 0).then_some(())
                });
            }
            value.store(7, Ordering::Relaxed);
            finish(exporter);
            assert_eq!(datagram(&socket), sent);
        });
    }
}

#[test]
fn a_closed_port_refuses_datagrams_until_it_is_open_again() {
    // No other test listens at this address.
    let socket = UdpSocket::bind("127.9.9.9:0").unwrap();
    let address = socket.local_addr().unwrap();
    let sink = statsd(&socket, OFTEN);
    drop(socket);
    let value = Arc::new(AtomicU64::new(0));
    let (figures, added) = (counter(&value), Arc::clone(&value));
    // A count that is not added to is not sent.
    let figures: FigureSource = Arc::new(move |sink: &mut dyn MetricSink| {
        added.fetch_add(1, Ordering::Relaxed);
        figures(sink);
    });
    with_exporter(|exporter| {
        exporter.keep(vec![sink], &figures, CountedBefore::Nothing);
        let status = only(exporter);
        eventually("a datagram is refused", || {
            (status.lost(LossReason::Refused) > 0 && !status.is_up()).then_some(())
        });
        let socket = UdpSocket::bind(address).unwrap();
        assert_eq!(datagram(&socket), "x.n_total:1|c");
        eventually("it is up", || status.is_up().then_some(()));
    });
}

#[test]
fn influx_gets_requests_with_a_token_and_is_asked_again_after_errors() {
    let origin = Origin::tcp();
    let answer = |response: &str| {
        let mut http = Http::over(origin.accept());
        let request = http.request();
        assert_eq!(request.first_line(), "POST /write?db=a&p=hidden HTTP/1.1");
        assert_eq!(request.field("host"), Some("influx.test:8086"));
        assert_eq!(request.field("authorization"), Some("Token s3cret"));
        let body = request.text().to_owned();
        assert!(
            body.starts_with("lockgate_n_total,host=web1 counter=7i "),
            "{body}"
        );
        http.send(response);
        body
    };
    with_exporter(|exporter| {
        let sinks = vec![influx(&origin, OFTEN)];
        exporter.keep(sinks, &seven(), CountedBefore::Nothing);
        let status = only(exporter);
        let first = answer("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        eventually("it is down", || status.is_down().then_some(()));
        assert_eq!(answer("HTTP/1.1 204 No Content\r\n\r\n"), first);
        eventually("it is up", || status.is_up().then_some(()));
        answer("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno");
        eventually("it is refused", || {
            (status.lost(LossReason::Refused) == 1).then_some(())
        });
    });
}

#[test]
fn influx_says_when_it_wants_to_be_asked_again() {
    let origin = Origin::tcp();
    let sink = influx(&origin, NEVER);
    let served = thread::spawn(move || {
        for status in ["429 Busy\r\nRetry-After: 7", "503 Busy"] {
            let mut http = Http::over(origin.accept());
            http.request();
            http.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut points = sink.encoder().encode(Duration::ZERO, &*seven());
    let (mut connection, status) = (sink.connection(), SinkStatus::new("sink"));
    for pause in [Some(Duration::from_secs(7)), None] {
        let sent = runtime.block_on(connection.send(&mut points, &status, DEADLINE));
        assert_eq!(sent.unwrap_err().pause(), pause);
    }
    served.join().unwrap();
}

/// A URL of a server that is certified as `localhost`.
fn secure(to: &Origin, connector: &Arc<Connector>) -> SinkSettings {
    let port = to.socket_address().port();
    let target = InfluxTarget::Http(InfluxUrl {
        scheme: UrlScheme::Https,
        addr: EndpointAddr::Name {
            host: "localhost".to_owned(),
            port,
        },
        host: format!("localhost:{port}"),
        path: SecretText("/api/v2/write".to_owned()),
        token: None,
        ca: AuthoritySource::System,
    });
    SinkSettings {
        transport: SinkTransport::Tls(Arc::clone(connector)),
        ..settings(ExportForm::Influx(target), OFTEN)
    }
}

#[test]
fn influx_over_tls_is_verified_by_the_authorities_of_a_file() {
    let (authority, folder, origin) = (Authority::new("ours"), Folder::new(), Origin::tcp());
    let server = server_config(&authority.issue(&["localhost"]), None);
    let file = folder.write("ca.pem", Authority::new("another").pem());
    let connector = Connector::new(ClientSettings::new(CaSource::File(file))).unwrap();
    let connector = Arc::new(connector);
    with_exporter(|exporter| {
        let sinks = vec![secure(&origin, &connector)];
        exporter.keep(sinks, &seven(), CountedBefore::Nothing);
        let status = only(exporter);
        assert!(Tls::accept(&server, origin.accept()).is_err());
        eventually("it is down", || status.is_down().then_some(()));
        // The task goes on when the file was read again.
        folder.write("ca.pem", authority.pem());
        assert_eq!(connector.reload(), Ok(true));
        let mut http = loop {
            if let Ok(tls) = Tls::accept(&server, origin.accept()) {
                break Http::over(tls);
            }
        };
        let request = http.request();
        assert_eq!(request.first_line(), "POST /api/v2/write HTTP/1.1");
        assert_eq!(request.field("authorization"), None);
        http.send("HTTP/1.1 204 No Content\r\n\r\n");
        eventually("it is up", || status.is_up().then_some(()));
    });
}

#[test]
fn a_last_push_to_a_receiver_that_is_away_is_given_up() {
    let origin = Origin::tcp();
    let sink = graphite(&origin, NEVER);
    drop(origin);
    with_exporter(|exporter| {
        exporter.keep(vec![sink], &seven(), CountedBefore::Nothing);
        let status = only(exporter);
        finish(exporter);
        assert_eq!((status.points(), status.is_down()), (0, true));
        assert_eq!(status.lost(LossReason::Unreachable), 1);
    });
}

/// 10,000 gauges: several frames of each kind.
fn many() -> FigureSource {
    Arc::new(|sink: &mut dyn MetricSink| {
        let mut families = MetricFamilies::new(sink);
        let mut family = families.gauge("lockgate_large", "Many.");
        for n in 0..10_000_u64 {
            family.sample(&[("n", &n.to_string())], n);
        }
    })
}

#[test]
fn each_point_of_a_last_push_that_is_cut_is_sent_or_lost() {
    let origin = Origin::tcp();
    let sink = influx(&origin, NEVER);
    // It takes a part, and then nothing.
    let served = thread::spawn(move || {
        let mut http = Http::over(origin.accept());
        http.request();
        http.send("HTTP/1.1 204 No Content\r\n\r\n");
        let mut silent = Http::over(origin.accept());
        silent.request();
        silent
    });
    with_exporter(|exporter| {
        exporter.keep(vec![sink], &many(), CountedBefore::Nothing);
        let status = only(exporter);
        finish(exporter);
        let (sent, lost) = (status.points(), status.lost(LossReason::Unreachable));
        assert!(sent > 0 && lost > 0, "{sent} {lost}");
        assert_eq!(sent + lost, 10_000);
    });
    drop(served.join().unwrap());
}

#[test]
fn a_thread_that_hangs_holds_up_the_end_once_for_all_sinks() {
    let origin = Origin::tcp();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let hangs: FigureSource = Arc::new(move |_: &mut dyn MetricSink| {
        // An error, once the test is over.
        let _ = released.lock().unwrap().recv();
    });
    with_exporter(|exporter| {
        let sinks = (0..100).map(|n| {
            let mut sink = graphite(&origin, NEVER);
            sink.sink.name = format!("sink {n}");
            sink
        });
        exporter.keep(sinks.collect(), &hangs, CountedBefore::Nothing);
        finish(exporter);
    });
    drop(release);
}
