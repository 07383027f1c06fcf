//! Command lines, and the commands that they mean.

use std::net::SocketAddr;

use super::check::{AddressCheck, CheckOptions, Detail, WarningPolicy};
use super::*;

fn parse(line: &str) -> Result<Command, clap::Error> {
    parse_with(line, None)
}

fn parse_with(line: &str, variable: Option<&str>) -> Result<Command, clap::Error> {
    let words = std::iter::once("lockgate").chain(line.split_whitespace());
    Command::parse(words.map(OsString::from), variable.map(OsString::from))
}

fn check(config: &str) -> CheckOptions {
    CheckOptions {
        config: config.into(),
        detail: Detail::Mistakes,
        output: PrintFormat::Text,
        warnings: WarningPolicy::Printed,
        addresses: AddressCheck::OfMachine,
    }
}

#[test]
fn the_definition_holds_together() {
    Cli::command().debug_assert();
}

#[test]
fn the_file_comes_from_the_option_then_the_variable_then_the_default() {
    let run = |config: &str| Command::Run {
        config: config.into(),
        kind: StartKind::Plain,
    };
    assert_eq!(
        parse_with("run -c a.toml", Some("b.toml")).unwrap(),
        run("a.toml")
    );
    assert_eq!(
        parse_with("run --config a.toml", None).unwrap(),
        run("a.toml")
    );
    assert_eq!(parse_with("run", Some("b.toml")).unwrap(), run("b.toml"));
    assert_eq!(parse_with("run", Some("")).unwrap(), run(DEFAULT_CONFIG));
    assert_eq!(parse_with("run", None).unwrap(), run(DEFAULT_CONFIG));
}

#[test]
fn the_spellings_of_nginx_and_haproxy_are_understood() {
    assert_eq!(parse("-t").unwrap(), Command::Check(check(DEFAULT_CONFIG)));
    assert_eq!(
        parse("-t -c a.toml").unwrap(),
        Command::Check(check("a.toml"))
    );
    assert_eq!(
        parse_with("-t", Some("b.toml")).unwrap(),
        Command::Check(check("b.toml"))
    );
    assert_eq!(
        parse("-c a.toml").unwrap(),
        Command::Run {
            config: "a.toml".into(),
            kind: StartKind::Plain,
        }
    );
    assert_eq!(
        parse("-c a.toml run").unwrap(),
        Command::Run {
            config: "a.toml".into(),
            kind: StartKind::Plain,
        }
    );
    assert_eq!(
        parse("-c a.toml check").unwrap(),
        Command::Check(check("a.toml"))
    );
    let in_detail = CheckOptions {
        detail: Detail::Everything,
        ..check("a.toml")
    };
    assert_eq!(parse("-T -c a.toml").unwrap(), Command::Check(in_detail));
}

#[test]
fn a_takeover_goes_with_run_only() {
    let kind = StartKind::Takeover;
    let config: PathBuf = "a.toml".into();
    assert_eq!(
        parse("run a.toml --takeover").unwrap(),
        Command::Run {
            config: config.clone(),
            kind
        }
    );
    assert_eq!(
        parse("run a.toml --takeover --last-good").unwrap(),
        Command::RunLastGood { config, kind }
    );
    for line in [
        "check a.toml --takeover",
        "reload --takeover",
        "upgrade --takeover",
        "run a.toml --takeover --stdin",
        "serve . --takeover",
        "-t run --takeover",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn run_and_check_take_the_file_as_a_word() {
    assert_eq!(
        parse("run a.toml").unwrap(),
        Command::Run {
            config: "a.toml".into(),
            kind: StartKind::Plain,
        }
    );
    assert_eq!(
        parse("run -f a.toml").unwrap(),
        Command::Run {
            config: "a.toml".into(),
            kind: StartKind::Plain,
        }
    );
    assert_eq!(
        parse("-f a.toml").unwrap(),
        Command::Run {
            config: "a.toml".into(),
            kind: StartKind::Plain,
        }
    );
    for line in [
        "check a.toml",
        "validate a.toml",
        "validate --config a.toml",
        "configtest -f a.toml",
    ] {
        assert_eq!(
            parse(line).unwrap(),
            Command::Check(check("a.toml")),
            "{line}"
        );
    }
}

#[test]
fn commands_of_other_servers_say_what_to_do_instead() {
    for (line, says) in [
        ("graceful", "`lockgate reload`"),
        ("hup --config a.toml", "nothing"),
        ("restart", "`lockgate reload`"),
        ("-s reload", "`-s reload`"),
        ("-s stop", "systemctl stop lockgate"),
        ("-s quit", "drain.deadline"),
        ("-s reopen", "USR1"),
        ("-s fly", "TERM stops"),
        ("shutdown", "`lockgate stop`"),
        ("start", "lockgate run -c FILE"),
        ("stats", "`lockgate status`"),
        ("rotate", "`lockgate reopen`"),
        ("format", "`lockgate fmt FILE`"),
        ("adapt --config a", "docs/config.md"),
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        let text = error.to_string();
        assert!(text.contains(says), "{line}: {text}");
        assert!(
            !text.contains("similar") && text.lines().count() <= 2,
            "{line}: {text}"
        );
    }
}

#[test]
fn admin_commands_find_their_socket_by_file_or_path() {
    use admin::{AdminOptions, AdminVerb, LevelName, SocketChoice};
    let asks = |verb, socket| {
        Command::Admin(AdminOptions {
            socket,
            output: PrintFormat::Text,
            verb,
        })
    };
    let default = SocketChoice::Default(DEFAULT_CONFIG.into());
    for (line, verb, socket) in [
        ("status", AdminVerb::Status, default.clone()),
        (
            "pools -c a.toml",
            AdminVerb::Pools,
            SocketChoice::Configured("a.toml".into()),
        ),
        (
            "-c a.toml endpoints",
            AdminVerb::Endpoints,
            SocketChoice::Configured("a.toml".into()),
        ),
        (
            "certs --admin unix:/a.sock",
            AdminVerb::Certs,
            SocketChoice::At("/a.sock".into()),
        ),
        (
            "stop --admin ./a.sock",
            AdminVerb::Stop,
            SocketChoice::At("./a.sock".into()),
        ),
        (
            "log-level debug",
            AdminVerb::LogLevel(Some(LevelName::Debug)),
            default.clone(),
        ),
        ("log-level", AdminVerb::LogLevel(None), default.clone()),
        ("drain", AdminVerb::Drain, default.clone()),
        (
            "reload",
            AdminVerb::Reload {
                stdin: false,
                confirm: None,
            },
            default.clone(),
        ),
        (
            "reload --stdin --confirm 5m",
            AdminVerb::Reload {
                stdin: true,
                confirm: Some(300),
            },
            default.clone(),
        ),
        ("confirm", AdminVerb::Confirm, default.clone()),
        ("rollback", AdminVerb::Rollback, default.clone()),
        ("reopen", AdminVerb::Reopen, default),
    ] {
        assert_eq!(parse(line).unwrap(), asks(verb, socket), "{line}");
    }
    let named = parse_with("status", Some("b.toml")).unwrap();
    assert_eq!(
        named,
        asks(AdminVerb::Status, SocketChoice::Default("b.toml".into()))
    );
    for line in [
        "status --admin a.sock",
        "status --admin /a.sock -c a.toml",
        "-c a.toml status --admin /a.sock",
        "-c a.toml status -c b.toml",
        "log-level loud",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn check_takes_its_switches() {
    let all = CheckOptions {
        config: "a.toml".into(),
        detail: Detail::Everything,
        output: PrintFormat::Json,
        warnings: WarningPolicy::Fatal,
        addresses: AddressCheck::Bind,
    };
    assert_eq!(
        parse("check -v --json --strict --bind -c a.toml").unwrap(),
        Command::Check(all)
    );
}

#[test]
fn doctor_asks_the_lockgate_of_its_file_or_socket() {
    let options = |config: &str, socket| {
        Command::Doctor(doctor::DoctorOptions {
            config: config.into(),
            socket,
            output: PrintFormat::Text,
            warnings: WarningPolicy::Printed,
        })
    };
    let of_file = |config: &str| options(config, admin::SocketChoice::Default(config.into()));
    assert_eq!(parse("doctor").unwrap(), of_file(DEFAULT_CONFIG));
    assert_eq!(parse("doctor a.toml").unwrap(), of_file("a.toml"));
    assert_eq!(parse("-c a.toml doctor").unwrap(), of_file("a.toml"));
    let strict = Command::Doctor(doctor::DoctorOptions {
        config: "a.toml".into(),
        socket: admin::SocketChoice::At("/run/a.sock".into()),
        output: PrintFormat::Json,
        warnings: WarningPolicy::Fatal,
    });
    let line = "doctor -c a.toml --admin unix:/run/a.sock --json --strict";
    assert_eq!(parse(line).unwrap(), strict);
    assert!(parse("doctor -c a.toml b.toml").is_err());
}

#[test]
fn demo_listens_on_loopback_unless_told() {
    let demo = |listen: &str, relay: &str, metrics: &str| {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        (address(listen), address(relay), address(metrics))
    };
    let parse = |typed: &str| match parse(typed).unwrap() {
        Command::Demo(options) => (options.listen, options.relay(), options.metrics),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        parse("demo"),
        demo("127.0.0.1:8443", "127.0.0.1:8444", "127.0.0.1:9090")
    );
    let typed = "demo --listen [::1]:1 --metrics 0.0.0.0:2";
    assert_eq!(parse(typed), demo("[::1]:1", "[::1]:2", "0.0.0.0:2"));
    let typed = "demo --listen 127.0.0.1:0 --relay 127.0.0.2:3";
    assert_eq!(
        parse(typed),
        demo("127.0.0.1:0", "127.0.0.2:3", "127.0.0.1:9090")
    );
}

#[test]
fn proxy_is_plain_unless_told() {
    let proxy = |tls| Command::Proxy {
        listen: ":8443".into(),
        upstream: "unix:/a.sock".into(),
        tls,
    };
    assert_eq!(parse("proxy :8443 unix:/a.sock").unwrap(), proxy(None));
    assert_eq!(
        parse("proxy :8443 unix:/a.sock --tls self").unwrap(),
        proxy(Some(ListenerTls::SelfSigned))
    );
    let files = ListenerTls::Files {
        cert: "a.pem".into(),
        key: "a.key".into(),
    };
    assert_eq!(
        parse("proxy --tls a.pem,a.key :8443 unix:/a.sock").unwrap(),
        proxy(Some(files))
    );
}

#[test]
fn serve_listens_on_loopback_and_lists_nothing_unless_told() {
    let bare = serve::ServeOptions {
        root: "public".into(),
        listen: serve::Listen::Address("127.0.0.1:8000".parse().unwrap()),
        tls: None,
        spa: false,
        listing: false,
    };
    assert_eq!(parse("serve public").unwrap(), Command::Serve(bare.clone()));
    for (written, listen) in [
        (":80", serve::Listen::Port(80)),
        (
            "[::1]:80",
            serve::Listen::Address("[::1]:80".parse().unwrap()),
        ),
        (
            "unix:/run/a.sock",
            serve::Listen::Unix("unix:/run/a.sock".into()),
        ),
    ] {
        let found = parse(&format!("serve public --listen {written}")).unwrap();
        assert_eq!(
            found,
            Command::Serve(serve::ServeOptions {
                listen,
                ..bare.clone()
            })
        );
    }
    let all = serve::ServeOptions {
        tls: Some(ListenerTls::SelfSigned),
        spa: true,
        listing: true,
        ..bare
    };
    assert_eq!(
        parse("serve --tls self --spa --listing public").unwrap(),
        Command::Serve(all)
    );
}

#[test]
fn tunnel_is_for_neighbours_and_leads_to_https_unless_told() {
    let bare = tunnel::TunnelOptions {
        listen: ":3128".into(),
        allow: Vec::new(),
        deny: Vec::new(),
        clients: Vec::new(),
        private: false,
        auth: None,
        tls: None,
    };
    assert_eq!(
        parse("tunnel :3128").unwrap(),
        Command::Tunnel(bare.clone())
    );
    let all = tunnel::TunnelOptions {
        allow: vec!["*.a.test:443".into(), "10.0.0.0/8:22,80".into()],
        deny: vec!["b.a.test".into()],
        clients: vec!["192.0.2.0/24".into()],
        private: true,
        auth: Some("users".into()),
        tls: Some(ListenerTls::SelfSigned),
        ..bare
    };
    let typed = "tunnel :3128 --allow *.a.test:443 --allow 10.0.0.0/8:22,80 --deny b.a.test --clients 192.0.2.0/24 \
                 --private --auth users --tls self";
    assert_eq!(parse(typed).unwrap(), Command::Tunnel(all));
}

fn ca(line: &str) -> ca::CaOptions {
    match parse_with(line, Some("v.toml")).unwrap() {
        Command::Ca(options) => options,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn ca_finds_its_folder_by_the_option_or_a_configuration() {
    let at = ca::StateChoice::At("s".into());
    let configured = |file: &str| ca::StateChoice::Configured(file.into());
    for (line, expected) in [
        ("ca show --state s", at),
        ("ca show -c a.toml", configured("a.toml")),
        ("-c a.toml ca show", configured("a.toml")),
        ("ca trust", configured("v.toml")),
    ] {
        assert_eq!(ca(line).state, expected, "{line}");
    }
}

#[test]
fn ca_exports_to_standard_output_or_a_file() {
    use ca::{CaVerb, CertFormat, ExportOptions, Overwrite};
    let export = |file: Option<&str>, format, overwrite| {
        CaVerb::Export(ExportOptions {
            file: file.map(PathBuf::from),
            format,
            overwrite,
        })
    };
    let plain = export(None, CertFormat::Pem, Overwrite::Refuse);
    assert_eq!(ca("ca export").verb, plain);
    assert_eq!(ca("ca export -").verb, plain);
    let all = export(Some("r.cer"), CertFormat::Der, Overwrite::Replace);
    assert_eq!(ca("ca export --der r.cer --force").verb, all);
    assert_eq!(ca("ca show --json").verb, CaVerb::Show(PrintFormat::Json));
    assert_eq!(ca("ca trust").verb, CaVerb::Trust);
    assert_eq!(ca("ca trust --uninstall").verb, CaVerb::Distrust);
}

#[test]
fn ca_issues_for_names_and_addresses_or_for_one_client() {
    use ca::{CaVerb, IssueOptions, IssuedFiles, Overwrite};
    use lockgate_certs::authority::LeafUsage;
    use lockgate_rules::CertKeyKind;
    use std::time::Duration;
    let day = Duration::from_secs(86_400);
    let server = IssueOptions {
        names: vec!["box.lan".to_owned(), "*.example.lan".to_owned()],
        addresses: vec!["192.0.2.1".parse().unwrap(), "::1".parse().unwrap()],
        usage: LeafUsage::Server,
        key: CertKeyKind::EcdsaP256,
        life: day * 90,
        files: IssuedFiles::Named {
            folder: ".".into(),
            name: "Box.lan.".to_owned(),
        },
        overwrite: Overwrite::Refuse,
    };
    let line = "ca issue Box.lan. 192.0.2.1 *.example.lan [::1]";
    assert_eq!(ca(line).verb, CaVerb::Issue(server));
    let client = IssueOptions {
        names: Vec::new(),
        addresses: Vec::new(),
        usage: LeafUsage::Client {
            common_name: "192.0.2.1".to_owned(),
        },
        key: CertKeyKind::Rsa2048,
        life: day * 365,
        files: IssuedFiles::These {
            cert: "a.crt".into(),
            key: "a.key".into(),
        },
        overwrite: Overwrite::Replace,
    };
    let line = "ca issue 192.0.2.1 --client --rsa --days 365 --cert a.crt --key a.key --force";
    assert_eq!(ca(line).verb, CaVerb::Issue(client));
}

#[test]
fn version_speaks_json_too() {
    assert_eq!(
        parse("version").unwrap(),
        Command::Version {
            output: PrintFormat::Text
        }
    );
    assert_eq!(
        parse("version --json").unwrap(),
        Command::Version {
            output: PrintFormat::Json
        }
    );
}

#[test]
fn usage_errors_exit_with_2_and_say_the_cure() {
    for (line, says) in [
        ("", "Usage"),
        ("chekc", "'check'"),
        ("run --confg a", "--config"),
        ("run a.toml b.toml", "unexpected"),
        ("-c a.toml run -c b.toml", "twice"),
        ("-c a.toml run b.toml", "twice"),
        ("run -c a.toml b.toml", "cannot be used with"),
        ("-c a.toml demo", "leave out -c"),
        ("-t run", "cannot be combined"),
        ("demo --listen 8443", "write an IP address and a port"),
        ("proxy :8443", "UPSTREAM"),
        (
            "proxy :8443 a:1 --tls a.pem",
            "write `self`, `internal`, or two files",
        ),
        (
            "proxy :8443 a:1 --tls a.pem,",
            "write `self`, `internal`, or two files",
        ),
        (
            "proxy :8443 a:1 --tls a,b,c",
            "write `self`, `internal`, or two files",
        ),
        ("tunnel", "LISTEN"),
        ("tunnel :1 --allow", "TARGET"),
        ("-c a.toml tunnel :1", "leave out -c"),
        ("serve", "DIR"),
        ("serve a b", "unexpected"),
        ("-c a.toml serve a", "leave out -c"),
        ("serve a --listen 8000", "write 127.0.0.1:8000"),
        ("serve a --listen :65536", "write 127.0.0.1:8000"),
        (
            "serve a --tls yes",
            "write `self`, `internal`, or two files",
        ),
        ("ca", "Usage"),
        ("ca issue", "NAME"),
        ("ca issue a_b.lan a..b", "1 to 63 bytes"),
        ("ca issue https://box.lan", "the name \"https://box.lan\""),
        ("ca issue *.lan", "two parts"),
        ("ca issue alice bob --client", "one name"),
        ("ca issue a.lan --days 366", "1..=365"),
        ("ca issue a.lan --days 0", "1..=365"),
        ("ca issue a.lan --cert a.crt", "--key"),
        (
            "ca issue a.lan --out o --cert a.crt --key a.key",
            "cannot be used",
        ),
        ("ca show --state s -c a.toml", "cannot be used"),
        ("-c a.toml ca show --state s", "one folder"),
        ("-c a.toml ca show -c b.toml", "one configuration file"),
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(says), "{line}: {error}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for verb in [
        "run",
        "check",
        "demo",
        "proxy",
        "serve",
        "tunnel",
        "version",
        "ca show",
        "ca export",
        "ca issue",
        "ca trust",
    ] {
        let help = parse(&format!("{verb} --help")).expect_err(verb);
        assert_eq!(help.exit_code(), 0);
        assert!(
            help.to_string().contains(&format!("lockgate {verb}")),
            "{help}"
        );
    }
    assert_eq!(parse("--version").expect_err("text").exit_code(), 0);
}

#[test]
fn cert_commands_have_names_reasons_and_their_socket() {
    use admin::SocketChoice;
    use cert::{CertOptions, CertVerb};
    use lockgate_certs::RevocationWord;
    let asks = |verb| {
        Command::Cert(CertOptions::Ask {
            socket: SocketChoice::Default(DEFAULT_CONFIG.into()),
            output: PrintFormat::Text,
            verb,
        })
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (line, verb) in [
        ("cert list", CertVerb::List),
        ("cert show A.test", CertVerb::Show("a.test".to_owned())),
        (
            "cert renew a.test B.test --wait",
            CertVerb::Renew {
                names: names(&["a.test", "b.test"]),
                wait: true,
            },
        ),
        (
            "cert obtain a.test",
            CertVerb::Renew {
                names: names(&["a.test"]),
                wait: false,
            },
        ),
        (
            "cert obtain a.test --dry-run",
            CertVerb::TryOut(names(&["a.test"])),
        ),
        (
            "cert revoke a.test",
            CertVerb::Revoke {
                name: "a.test".to_owned(),
                reason: RevocationWord::Unspecified,
            },
        ),
        (
            "cert revoke a.test --reason keyCompromise",
            CertVerb::Revoke {
                name: "a.test".to_owned(),
                reason: RevocationWord::KeyCompromise,
            },
        ),
    ] {
        assert_eq!(parse(line).unwrap(), asks(verb), "{line}");
    }
    for wrong in [
        "cert",
        "cert show",
        "cert renew",
        "cert obtain --dry-run",
        "cert obtain a.test --dry-run --wait",
        "cert revoke a.test --reason boredom",
        "cert list -c a.toml --admin /a.sock",
        "-c a.toml cert list -c b.toml",
    ] {
        assert_eq!(parse(wrong).expect_err(wrong).exit_code(), 2, "{wrong}");
    }
}

#[test]
fn cert_import_finds_its_source_and_writes_into_one_folder() {
    use cert::{CertOptions, ImportInto, ImportOptions};
    use lockgate_certs::import::ImportSource;
    let imports = |source, target, force| {
        Command::Cert(CertOptions::Import(ImportOptions {
            source,
            path: "/etc/letsencrypt".into(),
            target,
            force,
            output: PrintFormat::Text,
        }))
    };
    let config = |file: &str| ImportInto::Config(file.into());
    for (line, expected) in [
        ("", imports(None, config(DEFAULT_CONFIG), false)),
        (
            " --from auto -c a.toml",
            imports(None, config("a.toml"), false),
        ),
        (
            " --from certbot --state /s --force",
            imports(
                Some(ImportSource::Certbot),
                ImportInto::State("/s".into()),
                true,
            ),
        ),
    ] {
        let line = format!("cert import /etc/letsencrypt{line}");
        assert_eq!(parse(&line).unwrap(), expected, "{line}");
    }
    for wrong in [
        "cert import",
        "cert import /a --from nginx",
        "cert import /a --state /s -c a.toml",
        "-c a.toml cert import /a --state /s",
    ] {
        assert_eq!(parse(wrong).expect_err(wrong).exit_code(), 2, "{wrong}");
    }
}
