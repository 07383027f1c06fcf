//! `[export]`: what it means, and its mistakes.

use std::path::Path;
use std::time::Duration;

use lockgate_config::{
    Code, EndpointAddr, Environment, Export, ExportForm, ExportSink, InfluxTarget, LoadedConfig,
    Report, UrlScheme, parse_str_in,
};
use lockgate_rules::{GraphiteNaming, GraphiteProtocol, SecretText, StatsdTags};

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
    EndpointAddr::Ip(addr.parse().unwrap())
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
    let short = one("graphite:10.0.0.9:2003", ten, graphite("10.0.0.9:2003", "lockgate"));
    for written in [
        "graphite = \"10.0.0.9:2003\"",
        "graphite = [\"10.0.0.9:2003\"]",
        "graphite = { address = \"10.0.0.9:2003\" }",
        "graphite = [{ address = \"10.0.0.9:2003\" }]",
    ] {
        assert_eq!(sinks(written), [short.clone()], "{written}");
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
        sinks("every = \"1m\"\nprefix = \"web1\"\n\
             statsd = { address = \"agent:8125\", tags = \"dogstatsd\" }\n\
             graphite = [\"10.0.0.9:2003\", { address = \"10.0.0.8:2004\", protocol = \"pickle\", \
             tags = true, prefix = \"\", every = \"2s\" }]"),
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
    assert!(!shown.contains("hidden") && !shown.contains("s3cret"), "{shown}");
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
        ("graphite = {}", Code::MissingKey, "add address = \"graphite.internal:2003\""),
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
    ] {
        let warnings = load(written).unwrap().warnings;
        let messages: Vec<_> = warnings.iter().map(|one| one.message()).collect();
        assert_eq!(messages, [message], "{written}");
    }
}
