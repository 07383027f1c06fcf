//! Arguments of `load`, their values, and the errors for wrong ones.

use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct Words {
    #[command(flatten)]
    typed: LoadArgs,
}

/// The options of these arguments and a URL, or the error.
fn parse(words: &[&str]) -> Result<LoadRun, String> {
    let all = ["load"].iter().chain(words).chain(&["http://a"]);
    let words = Words::try_parse_from(all).map_err(|error| error.to_string())?;
    words.typed.resolve()
}

fn options(words: &[&str]) -> LoadOptions {
    parse(words).unwrap().options
}

#[test]
fn what_is_not_said_is_the_usual() {
    let usual = options(&[]);
    assert_eq!(
        (
            usual.connections.number,
            usual.threads.number,
            usual.timing.rounds,
            usual.timing.count
        ),
        (10, 1, 1, None)
    );
    assert_eq!(
        (
            usual.connections.streams,
            options(&["--http2"]).connections.streams
        ),
        (None, Some(1))
    );
    assert_eq!(
        (usual.timing.timeout, usual.timing.warm_up),
        (Duration::from_secs(10), Duration::from_secs(1))
    );
    assert_eq!(
        (
            usual.connections.max_requests,
            usual.timing.duration,
            usual.timing.profile
        ),
        (None, None, None)
    );
    assert_eq!(usual.expect, Expect::default());
    assert_eq!((usual.tls.ca, usual.tls.resume), (CaSource::System, true));
    assert!(usual.requests.body.is_empty() && usual.requests.headers.is_empty());
    // A count is exact, and a warm-up would be more.
    assert_eq!(options(&["-n", "5"]).timing.warm_up, Duration::ZERO);
    assert_eq!(
        options(&["-n", "5", "--warm-up", "2s"]).timing.warm_up,
        Duration::from_secs(2)
    );
}

#[test]
fn echoes_send_something_and_expect_as_much() {
    let words = |url: &str| {
        Words::try_parse_from(["load", url])
            .unwrap()
            .typed
            .resolve()
            .unwrap()
            .options
    };
    for url in ["ws://a", "WSS://a", "tcp://a:1", "tls://a:1"] {
        let options = words(url);
        assert_eq!(
            (options.requests.body.len(), options.expect.length),
            (64, Length::Exactly(64)),
            "{url}"
        );
    }
    assert_eq!(words("HTTPS://a").requests.body.len(), 0);
}

#[test]
fn words_mean_what_they_say() {
    let said = options(&[
        "-c",
        "7",
        "--threads",
        "3",
        "--cpus",
        "2,3",
        "-d",
        "500ms",
        "--timeout",
        "2s",
    ]);
    assert_eq!(
        (
            said.connections.number,
            said.threads.number,
            said.threads.cpus
        ),
        (7, 3, vec![2, 3])
    );
    assert_eq!(
        (said.timing.duration, said.timing.timeout),
        (Some(Duration::from_millis(500)), Duration::from_secs(2))
    );
    assert_eq!(
        options(&["--http2", "--streams", "100"])
            .connections
            .streams,
        Some(100)
    );
    assert!(options(&["--http2", "--grpc"]).requests.grpc && !options(&["--http2"]).requests.grpc);
    let said = options(&[
        "-H",
        "A:b: c ",
        "-H",
        "D:",
        "--header-any",
        "E: f | g|h",
        "-X",
        "PUT",
    ]);
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(said.requests.headers, [field("A", "b: c"), field("D", "")]);
    assert_eq!(
        said.requests.varying,
        [Varying {
            name: "E".into(),
            values: ["f", "g", "h"].map(Into::into).into()
        }]
    );
    assert_eq!(said.requests.method.as_deref(), Some("PUT"));
    let said = options(&[
        "--expect-status",
        "200,300-399",
        "--expect-length",
        "5",
        "--expect-sha256",
        "first",
    ]);
    assert_eq!(
        said.expect,
        Expect {
            status: vec![200..=200, 300..=399],
            length: Length::Exactly(5),
            body: BodyCheck::First
        }
    );
    let hash = "0fF1".repeat(16);
    let said = options(&["--expect-sha256", &hash, "--expect-length", "any"]);
    assert_eq!(
        said.expect.body,
        BodyCheck::Sha256([0x0f, 0xf1].repeat(16).try_into().unwrap())
    );
    assert_eq!(said.expect.length, Length::Any);
    let said = options(&[
        "--insecure",
        "--sni",
        "b",
        "--tls",
        "1.2,1.3",
        "--no-resumption",
        "--cert",
        "c.pem",
    ]);
    assert_eq!(
        (said.tls.ca, said.tls.name.as_deref(), said.tls.resume),
        (CaSource::Anyone, Some("b"), false)
    );
    assert_eq!(said.tls.identity.unwrap().cert, PathBuf::from("c.pem"));
    let said = options(&[
        "--unix",
        "/s",
        "--proxy-protocol",
        "v2",
        "--stop-on",
        "429,503",
        "--watch",
        "n=12",
        "--watch-below",
        "b=13",
    ]);
    let watched = [("n", 12, TopProcess::Counted), ("b", 13, TopProcess::Guard)];
    let watched = watched.map(|(name, pid, top)| WatchedProcess {
        name: name.to_owned(),
        pid,
        top,
    });
    let watched = watched.to_vec();
    assert_eq!(
        (said.connections.unix, said.connections.proxy_protocol),
        (Some("/s".into()), Some(HeaderVersion::V2))
    );
    assert_eq!((said.stop_on, said.watch), (vec![429, 503], watched));
}

#[test]
fn resolve_takes_curls_form_with_several_addresses() {
    for (written, host, addresses) in [
        ("a.test:443:192.0.2.7", "a.test", &["192.0.2.7"][..]),
        ("a:443:[::1],192.0.2.7", "a", &["::1", "192.0.2.7"]),
        ("a:443:::1", "a", &["::1"]),
        ("[::1]:443:127.0.0.1", "[::1]", &["127.0.0.1"]),
    ] {
        let read = options(&["--resolve", written]).connections.resolve;
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        let expected = HostAddresses {
            host: host.to_owned(),
            port: 443,
            addresses: addresses.collect(),
        };
        assert_eq!(read, [expected], "{written}");
    }
    for wrong in [
        "a",
        "a:443",
        "a:443:",
        "a:443:b",
        ":443:::1",
        "[::1:443:::1",
        "a:x:::1",
    ] {
        let told = parse(&["--resolve", wrong]).unwrap_err();
        assert!(told.contains("write HOST:PORT:ADDRESS"), "{wrong}: {told}");
    }
    let read = options(&["--bind", "127.0.0.2,::1"]).connections.bind;
    assert_eq!(
        read,
        ["127.0.0.2", "::1"].map(|each| each.parse::<IpAddr>().unwrap())
    );
    assert!(parse(&["--bind", "lo"]).is_err());
}

#[test]
fn sizes_have_units() {
    for (written, bytes) in [
        ("0", 0),
        ("100B", 100),
        ("10KB", 10_000),
        ("2k", 2_000),
        ("64KiB", 65_536),
        ("1MiB", 1 << 20),
    ] {
        assert_eq!(
            options(&["--body-size", written]).requests.body.len(),
            bytes
        );
        assert_eq!(
            options(&["--body-random", written]).requests.body,
            RequestBody::Random(bytes)
        );
    }
    assert_eq!(
        options(&["--body", "é"]).requests.body,
        RequestBody::Fixed("é".as_bytes().into())
    );
}

#[test]
fn what_cannot_be_is_told_with_what_can() {
    for (words, says) in [
        (&["-c", "0"][..], "from 1 to 1000000"),
        (&["-c", "1000001"], "from 1 to 1000000"),
        (&["-c", "-1"], "-1"),
        (&["--threads", "many"], "from 1 to 1000000"),
        (&["-n", "0"], "0 is not in 1.."),
        (&["-n", "5", "-d", "1s"], "cannot be used with"),
        (&["--per-connection", "0"], "0 is not in 1.."),
        (&["-d", "10"], "10"),
        (&["-d", "0s"], "0s"),
        (&["--timeout", "0s"], "0s"),
        (&["--warm-up", "soon"], "soon"),
        (&["--rate", "0"], "0"),
        (&["--rate", "2e9"], "2e9"),
        (&["--rate", "fast"], "fast"),
        (&["--rate", "1k.."], "1k.."),
        (&["--step", "1k"], "--rate"),
        (&["--rate", "1k..2k", "--every", "1s"], "--step"),
        (&["--spike", "1k@1s+1s"], "--rate"),
        (&["--rate", "1k", "--spike", "1k@1s"], "1k@1s"),
        (&["-H", "novalue"], "write NAME: VALUE"),
        (&["--header-any", "novalue"], "write NAME: VALUE"),
        (&["--body", "a", "--body-size", "1"], "cannot be used with"),
        (&["--body-size", "2GB"], "up to 1 GB"),
        (&["--body-size", "1kb"], "10KB"),
        (&["--body-size", "99999999999999999999"], "up to 1 GB"),
        (&["--body-file", "/nonexistent"], "/nonexistent"),
        (&["--expect-status", "99"], "200-299"),
        (&["--expect-status", "300-200"], "200-299"),
        (&["--expect-status", "2xx"], "200-299"),
        (&["--expect-length", "-5"], "-5"),
        (&["--expect-length", "some"], "or any"),
        (&["--expect-sha256", "abc"], "64 hexadecimal digits"),
        (
            &["--expect-sha256", &"é".repeat(32)],
            "64 hexadecimal digits",
        ),
        (&["--stop-on", "99"], "100"),
        (&["--proxy-protocol", "v3"], "v1 or v2"),
        (&["--insecure", "--ca", "a.pem"], "cannot be used with"),
        (&["--key", "a.pem"], "--cert"),
        (&["--watch", "12"], "nginx=1234"),
        (&["--watch", "=12"], "nginx=1234"),
        (&["--watch", "a=b"], "nginx=1234"),
        (&["--fail-if", "p99 >"], "p99"),
    ] {
        let told = parse(words).expect_err(&format!("{words:?}"));
        assert!(told.contains(says), "{words:?}: {told}");
    }
}

const DOCUMENT: &str = include_str!("../../../../../docs/load.md");

#[test]
fn every_example_of_the_document_means_something() {
    let mut tried = 0;
    for line in DOCUMENT
        .lines()
        .filter(|line| line.starts_with("lockgate load "))
    {
        // As far as a shell is needed: quotes that do not nest.
        let mut words = Vec::new();
        for (place, part) in line.split('\'').enumerate() {
            match place % 2 {
                0 => words.extend(part.split_whitespace()),
                _ => words.push(part),
            }
        }
        // Files are not there.
        let resolved = Words::try_parse_from(&words[1..]).map_err(|error| error.to_string());
        let resolved = resolved.and_then(|words| words.typed.resolve());
        assert!(
            resolved
                .as_ref()
                .err()
                .is_none_or(|text| text.contains("page.html")),
            "{line}: {resolved:?}"
        );
        tried += 1;
    }
    assert!(tried > 10);
}

#[test]
fn every_option_is_in_the_document_and_every_option_in_the_document_is_one() {
    let command = <Words as clap::CommandFactory>::command();
    let options: Vec<_> = command
        .get_arguments()
        .filter_map(|argument| argument.get_long())
        .collect();
    for option in &options {
        let named = DOCUMENT
            .match_indices(&format!("--{option}"))
            .any(|(at, word)| {
                !DOCUMENT[at + word.len()..]
                    .starts_with(|c: char| c == '-' || c.is_ascii_lowercase())
            });
        assert!(named, "--{option} is not in docs/load.md");
    }
    for (at, _) in DOCUMENT.match_indices("--") {
        let letter = |c: &char| *c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit();
        let word: String = DOCUMENT[at + 2..].chars().take_while(letter).collect();
        // A line of a table has nothing but dashes.
        assert!(
            word.trim_matches('-').is_empty() || word == "help" || options.contains(&word.as_str()),
            "--{word}"
        );
    }
}

#[test]
fn every_load_of_the_comparisons_means_something() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/compare");
    let mut tried = 0;
    for path in std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let text = std::fs::read_to_string(&path).unwrap();
        let plan = lockgate_compare::plan::ComparisonPlan::parse(&path, &text);
        for load in plan
            .unwrap_or_else(|mistakes| panic!("{}: {mistakes}", path.display()))
            .loads
        {
            let words = load.arguments.iter().map(|word| with_port(word));
            let words = Words::try_parse_from(std::iter::once("load".to_owned()).chain(words));
            let plan = words
                .map_err(|error| error.to_string())
                .and_then(|words| words.typed.resolve());
            let plan = plan.and_then(|load| load.options.plan().map_err(|error| error.to_string()));
            assert!(plan.is_ok(), "{}: {}: {plan:?}", path.display(), load.name);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried} loads are not those of bench/compare");
}

/// A word with the ports, of whichever program, that it gets in a run.
fn with_port(word: &str) -> String {
    let mut parts = word.split("{port");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "80" + part.split_once('}').unwrap().1
    })
}
