//! Names that are kept at this machine's address: what configurations of them mean, and mistakes in
//! them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockgate_config::{Environment, LoadedConfig, Report, parse_str_in};
use lockgate_rules::DynamicDns;

const SITES: &str = "[site.\"www.example.org:8080\"]\nalias = [\"*.apps.example.org\"]\nroot = \"/srv\"\n\
                     [site.\"box.lan:8080\"]\nroot = \"/srv\"\n\
                     [site.\"192.168.1.2:8080\"]\nroot = \"/srv\"\n\
                     [site.\":8081\"]\nroot = \"/srv\"\n";
const DNS: &str = "dns = { provider = \"desec\", token = \"${file:/etc/lockgate/dns.token}\" }\n";

fn read(text: &str) -> Result<LoadedConfig, Report> {
    let env = Environment::none().with_file("/etc/lockgate/dns.token", "s3cret-token\n");
    parse_str_in(text, Path::new("/lockgate.toml"), &env)
}

/// What a valid text without warnings means.
fn ddns(text: &str) -> Arc<DynamicDns> {
    let loaded = read(text).unwrap_or_else(|report| panic!("{text}\n{report}"));
    assert!(loaded.warnings.is_empty(), "{text}\n{}", loaded.warnings);
    loaded.config.ddns.clone().expect("there is [ddns]")
}

/// `code message; cure` of each mistake, and of each warning.
fn told(text: &str) -> Vec<String> {
    let report = match read(text) {
        Ok(loaded) => loaded.warnings.clone(),
        Err(report) => report,
    };
    let shown = report.to_string();
    assert!(!shown.contains("s3cret-token"), "{shown}");
    let one = |one: &lockgate_config::Diagnostic| {
        format!("{} {}; {}", one.code().id(), one.message(), one.cure())
    };
    report.iter().map(one).collect()
}

fn sources(ddns: &DynamicDns) -> String {
    let list = |sources: &[lockgate_rules::AddressSource]| {
        let texts: Vec<_> = sources.iter().map(ToString::to_string).collect();
        texts.join(" ")
    };
    format!("{} | {}", list(&ddns.ipv4), list(&ddns.ipv6))
}

#[test]
fn names_without_a_list_are_the_public_hosts_of_sites() {
    let ddns = ddns(&format!("[ddns]\n{DNS}{SITES}"));
    assert_eq!(ddns.names, ["*.apps.example.org", "www.example.org"]);
    assert_eq!(ddns.dns.provider.name, "desec");
    assert_eq!(sources(&ddns), "interface router | interface");
    assert_eq!(ddns.every, Duration::from_secs(30));
    assert!(!ddns.private);
}

#[test]
fn written_names_and_sources_are_taken_as_they_are() {
    let ddns = ddns(&format!(
        "[ddns]\n{DNS}names = [\"Home.Example.org\", \"*.home.example.org\", \"nas.lan\"]\n\
         ipv4 = [\"interface:eth0\", \"https://ip.example.com/v4\"]\nipv6 = false\n\
         every = \"5m\"\nprivate = true\n{SITES}"
    ));
    assert_eq!(
        ddns.names,
        ["home.example.org", "*.home.example.org", "nas.lan"]
    );
    assert_eq!(
        sources(&ddns),
        "interface:eth0 https://ip.example.com/v4 | "
    );
    assert_eq!(ddns.every, Duration::from_secs(300));
    assert!(ddns.private);
}

#[test]
fn the_provider_of_ddns_is_that_of_acme_unless_it_has_its_own() {
    let of_acme = ddns(&format!("[acme]\n{DNS}[ddns]\n{SITES}"));
    assert_eq!(of_acme.dns.provider.name, "desec");
    let own = ddns(
        "[acme]\ndns = { provider = \"acme-dns\", url = \"https://a.example\", user = \"u\", \
         password = \"p\", subdomain = \"s\" }\n\
         [ddns]\ndns = { provider = \"exec\", command = [\"/bin/true\"] }\n\
         [site.\"www.example.org\"]\nroot = \"/srv\"\n",
    );
    assert_eq!(own.dns.command, ["/bin/true"]);
}

#[test]
fn mistakes_in_ddns_are_told_with_their_cure() {
    let names = "names = [\"a.example.org\"]\n";
    for (text, expected) in [
        (
            format!("[ddns]\n{SITES}"),
            "E0020 nothing says how [ddns] sets records; add dns = { provider = \"desec\", token = \"…\" }, \
             with your own provider",
        ),
        (
            format!("[ddns]\n{DNS}[site.\"box.lan:8080\"]\nroot = \"/srv\"\n"),
            "E0020 [ddns] keeps no name; add names = [\"home.example.org\"]",
        ),
        (
            format!("[ddns]\n{names}dns = {{ provider = \"acme-dns\" }}\n{SITES}"),
            "E0015 `acme-dns` sets no addresses of names; write another provider, or `exec` with a command",
        ),
        (
            format!(
                "[acme]\ndns = {{ provider = \"freemyip\", token = \"t\" }}\n[ddns]\n{names}{SITES}"
            ),
            "E0020 nothing says how [ddns] sets records; add `dns` to [ddns], with another provider, or \
             `exec` with a command",
        ),
        (
            format!("[ddns]\n{DNS}names = [\"a.example.org\", \"192.0.2.1\"]\n{SITES}"),
            "E0033 this is no name of DNS; write \"home.example.org\" or \"*.home.example.org\"",
        ),
        (
            format!("[ddns]\n{DNS}{names}ipv4 = false\nipv6 = false\n{SITES}"),
            "E0019 `ipv4 = false` with `ipv6 = false`; remove one",
        ),
        (
            format!("[ddns]\n{DNS}{names}ipv4 = \"eth0\"\n{SITES}"),
            "E0015 \"eth0\" is not a source of an address; write \"interface:eth0\"",
        ),
        (
            format!("[ddns]\n{DNS}{names}ipv6 = \"router\"\n{SITES}"),
            "E0015 \"router\" is not a source of an address; write \"interface\"",
        ),
        (
            format!("[ddns]\n{DNS}{names}ipv4 = \"https://u:p@a/\"\n{SITES}"),
            "E0016 \"https://u:p@a/\" is not a source of an address; write \"https://ip.example.com/\"",
        ),
        (
            format!("[ddns]\n{DNS}{names}every = \"100ms\"\n{SITES}"),
            "E0014 \"100ms\" is too short; write at least \"1s\"",
        ),
        (
            format!("[ddns]\n{DNS}names = [\"a.example.org\", \"A.example.org\"]\n{SITES}"),
            "W0003 `names` has no effect; remove it",
        ),
    ] {
        assert_eq!(told(&text), [expected], "{text}");
    }
}
