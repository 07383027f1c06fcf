//! `[export]`: what it means, and its mistakes.

use std::path::Path;
use std::time::Duration;

use lockgate_config::{
    AuthoritySource, Code, EndpointAddr, Environment, Export, ExportForm, ExportSink, InfluxTarget,
    LoadedConfig, OtlpTarget, OtlpUrl, Report, TraceExport, UrlScheme, parse_str_in,
};
use lockgate_rules::{
    Coding, GraphiteNaming, GraphiteProtocol, SecretText, StatsdTags, TraceShare,
};

const LISTENER: &str = "[tcp.\":1\"]\nproxy = \"127.0.0.1:1\"\n";

fn load(export: &str) -> Result<LoadedConfig, Report> {
    let env = Environment::none().with_file("/etc/lockgate/influx.token", "s3cret\n");
    let text = format!("{LISTENER}[export]\n{export}\n");
    parse_str_in(&text, Path::new("/lockgate.toml"), &env)
}

fn export(written: &str) -> Export {
    match load(written) {
        Ok(loaded) if loaded.warnings.is_empty() => loaded.config.export.clone(),
        Ok(loaded) => panic!("{written}\n{}", loaded.warnings),
        Err(report) => panic!("{written}\n{report}"),
    }
}

fn sinks(written: &str) -> Vec<ExportSink> {
    export(written).sinks
}

fn ip(addr: &str) -> EndpointAddr {
    EndpointAddr::Ip(addr.parse().expect("an address"))
}

fn graphite(to: &str, prefix: &str) -> ExportForm {
    ExportForm::Graphite {
        to: ip(to),
        protocol: GraphiteProtocol::Plaintext,
        naming: GraphiteNaming::Path,
        prefix: prefix.to_owned(),
    }
}

#[test]
fn a_sink_is_an_address_a_table_or_a_list_of_them() {
    let ten = Duration::from_secs(10);
    let one = |name: &str, every, form| ExportSink {
        name: name.to_owned(),
        every,
        form,
    };
    let short = one(
        "graphite:10.0.0.9:2003",
        ten,
        graphite("10.0.0.9:2003", "lockgate"),
    );
    for written in [
        "graphite = \"10.0.0.9:2003\"",
        "graphite = [\"10.0.0.9:2003\"]",
        "graphite = { address = \"10.0.0.9:2003\" }",
        "graphite = [{ address = \"10.0.0.9:2003\" }]",
    ] {
        assert_eq!(sinks(written), std::slice::from_ref(&short), "{written}");
    }
    let statsd = ExportForm::Statsd {
        to: EndpointAddr::Name {
            host: "agent".to_owned(),
            port: 8125,
        },
        tags: StatsdTags::DogStatsd,
        prefix: "web1".to_owned(),
    };
    assert_eq!(
        sinks(
            "every = \"1m\"\nprefix = \"web1\"\n\
             statsd = { address = \"agent:8125\", tags = \"dogstatsd\" }\n\
             graphite = [\"10.0.0.9:2003\", { address = \"10.0.0.8:2004\", protocol = \"pickle\", \
             tags = true, prefix = \"\", every = \"2s\" }]"
        ),
        [
            one(
                "graphite:10.0.0.9:2003",
                Duration::from_secs(60),
                graphite("10.0.0.9:2003", "web1")
            ),
            one(
                "graphite:10.0.0.8:2004",
                Duration::from_secs(2),
                ExportForm::Graphite {
                    to: ip("10.0.0.8:2004"),
                    protocol: GraphiteProtocol::Pickle,
                    naming: GraphiteNaming::Tags,
                    prefix: String::new(),
                }
            ),
            one("statsd:agent:8125", Duration::from_secs(60), statsd),
        ]
    );
}

#[test]
fn influx_is_a_url_of_http_udp_or_tcp() {
    let target = |written: &str| match sinks(written).remove(0).form {
        ExportForm::Influx(target) => target,
        other => panic!("{other:?}"),
    };
    for (written, scheme, addr, host, path) in [
        (
            "http://10.0.0.9:8086/write?db=a",
            UrlScheme::Http,
            ip("10.0.0.9:8086"),
            "10.0.0.9:8086",
            "/write?db=a",
        ),
        (
            "http://[fd00::9]/write",
            UrlScheme::Http,
            ip("[fd00::9]:80"),
            "[fd00::9]",
            "/write",
        ),
        (
            "https://influx.test:443/api/v2/write?org=a&bucket=b",
            UrlScheme::Https,
            EndpointAddr::Name {
                host: "influx.test".to_owned(),
                port: 443,
            },
            "influx.test",
            "/api/v2/write?org=a&bucket=b",
        ),
    ] {
        let InfluxTarget::Http(url) = target(&format!("influx = \"{written}\"")) else {
            panic!("{written}");
        };
        let read = (url.scheme, url.addr, &*url.host, &*url.path.0, url.token);
        assert_eq!(read, (scheme, addr, host, path, None), "{written}");
    }
    let udp = target("influx = \"udp://127.0.0.1:8094\"");
    assert_eq!(udp, InfluxTarget::Udp(ip("127.0.0.1:8094")));
    let tcp = target("influx = { url = \"tcp://127.0.0.1:8094\" }");
    assert_eq!(tcp, InfluxTarget::Tcp(ip("127.0.0.1:8094")));
    let written = "influx = { url = \"http://10.0.0.9:8086/write?u=me&p=hidden\", \
                   token = \"${file:/etc/lockgate/influx.token}\" }";
    let InfluxTarget::Http(url) = target(written) else {
        panic!("{written}");
    };
    assert_eq!(url.token, Some(SecretText("s3cret".to_owned())));
    let shown = format!("{url:?}");
    assert!(
        !shown.contains("hidden") && !shown.contains("s3cret"),
        "{shown}"
    );
}

#[test]
fn sinks_with_one_address_have_names_of_their_own() {
    let names: Vec<_> = sinks(
        "influx = [\"http://10.0.0.9:8086/write?db=a\", \"http://10.0.0.9:8086/write?db=b\"]",
    )
    .into_iter()
    .map(|sink| sink.name)
    .collect();
    assert_eq!(names, ["influx:10.0.0.9:8086", "influx:10.0.0.9:8086#2"]);
}

#[test]
fn metrics_are_chosen_by_the_beginnings_of_their_names() {
    let filter = export(
        "graphite = \"10.0.0.9:2003\"\nonly = [\"lockgate_re\"]\nexcept = [\"lockgate_relay\"]",
    )
    .filter;
    assert!(filter.takes("lockgate_requests_total"));
    assert!(!filter.takes("lockgate_relays") && !filter.takes("lockgate_clients"));
}

#[test]
fn mistakes_of_export_have_their_cures() {
    for (written, code, cure) in [
        (
            "graphite = \"10.0.0.9\"",
            Code::BadAddress,
            "write host and port, \"10.0.0.9:2003\" or \"graphite.internal:2003\"",
        ),
        (
            "statsd = \"unix:/run/statsd.sock\"",
            Code::BadAddress,
            "write host and port, \"10.0.0.9:2003\" or \"graphite.internal:2003\"",
        ),
        (
            "graphite = {}",
            Code::MissingKey,
            "add address = \"graphite.internal:2003\"",
        ),
        (
            "graphite = \"10.0.0.9:2003\"\nevery = \"500ms\"",
            Code::OutOfRange,
            "write \"10s\", or another time from \"1s\" to \"1h\"",
        ),
        (
            "graphite = \"10.0.0.9:2003\"\nevery = \"61m\"",
            Code::OutOfRange,
            "write \"10s\", or another time from \"1s\" to \"1h\"",
        ),
        (
            "graphite = \"10.0.0.9:2003\"\nevery = \"1500ms\"",
            Code::OutOfRange,
            "write \"10s\", or another time from \"1s\" to \"1h\"",
        ),
        (
            "graphite = \"10.0.0.9:2003\"\nprefix = \"a..b\"",
            Code::BadText,
            "write for example \"lockgate\" or \"servers.web1.lockgate\"",
        ),
        (
            "graphite = \"10.0.0.9:2003\"\nonly = [\"requests\"]",
            Code::BadText,
            "write for example \"lockgate_request_\"; docs/observe.md lists the names",
        ),
        (
            "datadog = \"127.0.0.1:8125\"",
            Code::UnknownKey,
            "write statsd = { address = \"127.0.0.1:8125\", tags = \"dogstatsd\" }",
        ),
        (
            "influx = { url = \"https://a.test/write\", token = \"a b\" }",
            Code::BadText,
            "write \"${file:/etc/lockgate/influx.token}\"",
        ),
    ] {
        let report = load(written).expect_err(written);
        let found: Vec<_> = report.iter().map(|one| (one.code(), one.cure())).collect();
        assert_eq!(found, [(code, cure)], "{written}");
    }
    for url in [
        "10.0.0.9:8086",
        "ftp://10.0.0.9/write",
        "http://10.0.0.9:8086",
        "http://10.0.0.9:8086/",
        "http://me:secret@10.0.0.9:8086/write",
        "http://10.0.0.9:8086/write?db=a&precision=s",
        "http://10.0.0.9:8086/write?db=a b",
        "udp://10.0.0.9",
        "http:///write",
    ] {
        let report = load(&format!("influx = \"{url}\"")).expect_err(url);
        let codes: Vec<_> = report.iter().map(|one| one.code()).collect();
        assert_eq!(codes, [Code::BadAddress], "{url}");
    }
}

#[test]
fn keys_of_export_that_do_nothing_are_told() {
    for (written, message) in [
        ("", "`export` has no effect"),
        (
            "prefix = \"a\"\ninflux = \"udp://127.0.0.1:8094\"",
            "`prefix` has no effect",
        ),
        (
            "influx = { url = \"udp://127.0.0.1:8094\", token = \"t\" }",
            "`token` has no effect",
        ),
        (
            "influx = { url = \"http://10.0.0.9:8086/write\", ca = \"/ca.pem\" }",
            "`ca` has no effect",
        ),
        (
            "otlp = { url = \"http://10.0.0.9:4318\", ca = \"/ca.pem\" }",
            "`ca` has no effect",
        ),
    ] {
        let warnings = load(written).unwrap().warnings;
        let messages: Vec<_> = warnings.iter().map(|one| one.message()).collect();
        assert_eq!(messages, [message], "{written}");
    }
}

#[test]
fn authorities_of_sinks_over_tls_have_their_places() {
    let found = export(
        "influx = [\"http://10.0.0.9/write\", \"https://10.0.0.9/write\",\n\
         { url = \"https://10.0.0.8/write\", ca = \"/a.pem\" }]\n\
         otlp = { url = \"https://10.0.0.9\", ca = \"/b.pem\" }",
    );
    let found: Vec<_> = found
        .authorities
        .iter()
        .map(|(authorities, at)| (authorities.clone(), at.line()))
        .collect();
    let file = |path: &str| AuthoritySource::File(path.into());
    let expected = [
        (AuthoritySource::System, 4),
        (file("/a.pem"), 5),
        (file("/b.pem"), 6),
    ];
    assert_eq!(found, expected);
}

fn otlp(written: &str) -> Export {
    export(&format!("otlp = {written}"))
}

#[test]
fn otlp_gets_figures_and_spans_below_one_url() {
    let receiver = |host: &str, path: &str| OtlpTarget {
        url: OtlpUrl {
            scheme: UrlScheme::Http,
            addr: ip("10.0.0.9:4318"),
            host: host.to_owned(),
            path: path.to_owned(),
        },
        fields: Vec::new(),
        ca: AuthoritySource::System,
        compression: Some(Coding::Gzip),
        service: "lockgate".to_owned(),
    };
    for (written, path) in [
        ("\"http://10.0.0.9:4318\"", ""),
        ("\"http://10.0.0.9:4318/\"", ""),
        ("\"http://10.0.0.9:4318/otlp/\"", "/otlp"),
        ("{ url = \"http://10.0.0.9:4318\" }", ""),
    ] {
        let Export { sinks, traces, .. } = otlp(written);
        let to = receiver("10.0.0.9:4318", path);
        let sink = ExportSink {
            name: "otlp:10.0.0.9:4318".to_owned(),
            every: Duration::from_secs(10),
            form: ExportForm::Otlp(to.clone()),
        };
        assert_eq!(sinks, [sink], "{written}");
        let expected = TraceExport {
            name: "otlp:10.0.0.9:4318".to_owned(),
            to,
            share: TraceShare::new(0.01),
        };
        assert_eq!(traces, Some(expected), "{written}");
    }
    let Export { sinks, traces, .. } = otlp(
        "{ url = \"https://otlp.test\", headers = { Authorization = \"Bearer ${file:/etc/lockgate/influx.token}\" }, \
         ca = \"/etc/ca.pem\", compression = \"none\", metrics = false, service = \"edge\" }",
    );
    assert_eq!(sinks, []);
    let to = traces.unwrap().to;
    assert_eq!(
        (to.url.scheme, &*to.url.host, to.compression, &*to.service),
        (UrlScheme::Https, "otlp.test", None, "edge")
    );
    assert_eq!(to.ca, AuthoritySource::File("/etc/ca.pem".into()));
    let value = SecretText("Bearer s3cret".to_owned());
    assert!(!format!("{to:?}").contains("s3cret"));
    assert_eq!(to.fields, [("authorization".to_owned(), value)]);
}

#[test]
fn the_share_of_traces_is_a_percentage_a_ratio_a_word_or_a_flag() {
    for (written, share) in [
        ("\"1%\"", Some(0.01)),
        ("\"0.5%\"", Some(0.005)),
        ("\"100%\"", Some(1.0)),
        ("0.01", Some(0.01)),
        ("1.0", Some(1.0)),
        ("\"parent\"", Some(0.0)),
        ("true", Some(1.0)),
        ("false", None),
    ] {
        let found = otlp(&format!(
            "{{ url = \"http://10.0.0.9:4318\", traces = {written} }}"
        ));
        let found = found.traces.map(|traces| traces.share);
        assert_eq!(found, share.map(TraceShare::new), "{written}");
    }
}

#[test]
fn mistakes_of_otlp_have_their_cures() {
    let mistake = |written: &str| {
        let report = load(&format!("otlp = {written}")).expect_err(written);
        let found: Vec<_> = report.iter().map(|one| one.code()).collect();
        (found, report.to_string())
    };
    for url in [
        "10.0.0.9:4318",
        "grpc://10.0.0.9:4317",
        "http://10.0.0.9:4318/v1/traces",
        "http://me:secret@10.0.0.9:4318",
        "http://10.0.0.9:4318/?a=b",
        "http://",
    ] {
        let (codes, _) = mistake(&format!("\"{url}\""));
        assert_eq!(codes, [Code::BadAddress], "{url}");
    }
    for (written, code, cure) in [
        (
            "traces = 1",
            Code::Unit,
            "write \"1%\", or \"100%\" for all",
        ),
        ("traces = 5", Code::Unit, "write \"5%\""),
        (
            "traces = \"101%\"",
            Code::OutOfRange,
            "write a share up to \"100%\"",
        ),
        (
            "traces = 1.5",
            Code::OutOfRange,
            "write a number from 0.0 to 1.0",
        ),
        (
            "traces = \"some\"",
            Code::BadText,
            "write \"1%\", or \"parent\"",
        ),
        ("headers = { host = \"a\" }", Code::BadField, "name another"),
        ("headers = { te = \"a\" }", Code::BadField, "name another"),
        (
            "headers = { \"a b\" = \"a\" }",
            Code::BadField,
            "name another",
        ),
        (
            "headers = { a = \"\" }",
            Code::BadText,
            "${file:/etc/lockgate/otlp.token}",
        ),
    ] {
        let written = format!("{{ url = \"http://10.0.0.9:4318\", {written} }}");
        let (codes, text) = mistake(&written);
        assert_eq!(codes, [code], "{written}");
        assert!(text.contains(cure), "{written}\n{text}");
    }
    let warnings =
        load("otlp = { url = \"http://10.0.0.9:4318\", metrics = false, traces = false }")
            .unwrap()
            .warnings;
    let messages: Vec<_> = warnings.iter().map(|one| one.message()).collect();
    assert_eq!(messages, ["`otlp` has no effect"]);
}
