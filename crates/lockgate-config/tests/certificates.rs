//! Certificates that come by themselves: what configurations of them mean, and mistakes in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockgate_config::{Config, DownstreamTls, Environment, LoadedConfig, Report, parse_str_in};
use lockgate_rules::{AcmeSettings, CertFallback, CertIssuer, CertKeyKind};

/// A key in base64url that tests look for in what is shown.
const SECRET: &str = "c2VjcmV0LW1hYy1rZXk";

/// The secret of a TSIG key that tests look for in what is shown.
const TSIG: &str = "c2VjcmV0LXRzaWcta2V5";

fn env() -> Environment {
    Environment::none()
        .with_var("EAB", SECRET)
        .with_file("/etc/lockgate/eab.key", format!("{SECRET}\n"))
        .with_var("TSIG", TSIG)
        .with_file("/etc/lockgate/dns.key", format!("{TSIG}\n"))
}

fn read(text: &str) -> Result<LoadedConfig, Report> {
    parse_str_in(text, Path::new("/lockgate.toml"), &env())
}

fn loaded(text: &str) -> LoadedConfig {
    read(text).unwrap_or_else(|report| panic!("{text}\n{report}"))
}

/// What a valid text without warnings means.
fn config(text: &str) -> Config {
    let loaded = loaded(text);
    assert!(loaded.warnings.is_empty(), "{text}\n{}", loaded.warnings);
    Config::clone(&loaded.config)
}

/// TLS of the site with this key.
fn tls<'a>(config: &'a Config, name: &str) -> &'a DownstreamTls {
    let mut sites = config.sites.iter();
    let site = sites
        .find(|site| site.name == name)
        .expect("there is this site");
    site.tls.as_ref().expect("the site has TLS")
}

/// Whose certificates the site with this key gets: `acme`, `internal`, `files`.
fn issuer(config: &Config, name: &str) -> &'static str {
    shown(tls(config, name))
}

fn shown(tls: &DownstreamTls) -> &'static str {
    match tls.managed.as_ref().map(|managed| &managed.issuer) {
        Some(CertIssuer::Acme(_)) => "acme",
        Some(CertIssuer::Internal) => "internal",
        None => "files",
    }
}

fn acme(config: &Config, name: &str) -> Arc<AcmeSettings> {
    match tls(config, name)
        .managed
        .as_ref()
        .map(|managed| &managed.issuer)
    {
        Some(CertIssuer::Acme(settings)) => Arc::clone(settings),
        other => panic!("{name}: {other:?}"),
    }
}

/// The names of the directories of a site.
fn directories(settings: &AcmeSettings) -> Vec<&str> {
    let names = settings.directories.iter();
    names.map(|directory| &*directory.name).collect()
}

/// `code line:column text: message; cure` of each diagnostic, a line each.
fn told(text: &str) -> String {
    let report = match read(text) {
        Ok(loaded) => loaded.warnings,
        Err(report) => report,
    };
    let lines = report.iter().map(|one| {
        let at = one.at().map(ToString::to_string).unwrap_or_default();
        let place = at.trim_start_matches("/lockgate.toml:");
        format!(
            "{} {place}: {}; {}",
            one.code().id(),
            one.message(),
            one.cure()
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Texts, the code and place of the only diagnostic of each, and parts of its message and cure.
fn check(table: &[(&str, &str, &str, &str)]) {
    for (text, code, message, cure) in table {
        let told = told(text);
        let as_expected = told.lines().count() == 1
            && told.starts_with(&format!("{code}: "))
            && told.contains(message)
            && told.contains(cure);
        assert!(
            as_expected,
            "{text}\nexpected {code}, {message:?}, {cure:?}\n{told}"
        );
    }
}

#[test]
fn acme_in_one_line_gives_every_tls_site_a_certificate() {
    let config = config(
        "[acme]\n\
         [site.\"a.example.com\"]\nrespond = 404\n\
         [site.\"b.example.com:8443\"]\ntls = {}\nrespond = 404\n\
         [site.\"c.example.com\"]\ntls = false\nrespond = 404\n\
         [site.\"d.example.com\"]\ntls = \"/d.pem\"\nrespond = 404\n",
    );
    let settings = acme(&config, "a.example.com");
    assert_eq!(directories(&settings), ["letsencrypt"]);
    assert_eq!(settings.keys, [CertKeyKind::EcdsaP256]);
    assert_eq!(
        (
            &settings.email,
            &settings.ca,
            &settings.profile,
            &settings.eab
        ),
        (&None, &None, &None, &None)
    );
    // Tables with equal settings share them.
    assert!(Arc::ptr_eq(&settings, &acme(&config, "b.example.com:8443")));
    let plain = config
        .sites
        .iter()
        .find(|site| site.name == "c.example.com");
    assert_eq!(plain.map(|site| &site.tls), Some(&None));
    // Hosts that the file does not cover get one too, which only the start can know.
    assert_eq!(issuer(&config, "d.example.com"), "acme");
    assert_eq!(tls(&config, "d.example.com").certs.iter().count(), 1);
}

#[test]
fn the_keys_of_acme_say_whom_to_ask_and_for_what() {
    let config = config(
        "[acme]\nemail = \"me@example.com\"\n\
         directory = [\"zerossl\", \"https://CA.lan:9000/acme/acme/directory\"]\n\
         ca = \"ca.pem\"\nprofile = \"shortlived\"\nkey = [\"rsa2048\", \"p256\"]\n\
         fallback = \"internal\"\n\
         eab = { key_id = \"kid\", mac_key = \"${env:EAB}\" }\n\
         [site.\"a.example.com\"]\nrespond = 404\n",
    );
    let settings = acme(&config, "a.example.com");
    assert_eq!(directories(&settings), ["zerossl", "ca.lan:9000"]);
    assert_eq!(
        settings.directories[0].url,
        "https://acme.zerossl.com/v2/DV90"
    );
    assert_eq!(
        settings.directories[1].url,
        "https://CA.lan:9000/acme/acme/directory"
    );
    assert_eq!(settings.ca.as_deref(), Some(Path::new("/ca.pem")));
    assert_eq!(settings.email.as_deref(), Some("me@example.com"));
    assert_eq!(settings.profile.as_deref(), Some("shortlived"));
    assert_eq!(
        settings.keys,
        [CertKeyKind::Rsa2048, CertKeyKind::EcdsaP256]
    );
    let eab = settings.eab.as_ref().expect("there is one");
    assert_eq!(
        (&*eab.key_id, &*eab.mac_key.0),
        ("kid", &b"secret-mac-key"[..])
    );
    let managed = tls(&config, "a.example.com").managed.as_ref();
    assert_eq!(
        managed.map(|managed| managed.fallback),
        Some(CertFallback::Internal)
    );
}

#[test]
fn acme_of_a_site_is_merged_over_the_global_one() {
    let config = config(
        "[acme]\nemail = \"me@example.com\"\ndirectory = \"letsencrypt-staging\"\nca = \"/ca.pem\"\n\
         [site.\"a.example.com\"]\nrespond = 404\n\
         acme = { profile = \"shortlived\", ca = \"system\" }\n\
         [site.\"b.example.com\"]\nrespond = 404\nacme = { directory = \"letsencrypt\" }\n\
         [site.\"c.example.com\"]\nrespond = 404\ntls = \"/c.pem\"\nacme = false\n",
    );
    let (a, b) = (
        acme(&config, "a.example.com"),
        acme(&config, "b.example.com"),
    );
    assert_eq!(directories(&a), ["letsencrypt-staging"]);
    assert_eq!((a.profile.as_deref(), &a.ca), (Some("shortlived"), &None));
    assert_eq!(directories(&b), ["letsencrypt"]);
    assert_eq!(
        (&b.profile, b.ca.as_deref()),
        (&None, Some(Path::new("/ca.pem")))
    );
    assert_eq!(b.email.as_deref(), Some("me@example.com"));
    assert_eq!(issuer(&config, "c.example.com"), "files");
}

#[test]
fn acme_of_a_site_is_enough_without_a_global_table() {
    let config = config(
        "[site.\"a.example.com\"]\nrespond = 404\nacme = {}\n\
         [site.\"b.example.com\"]\nrespond = 404\ntls = \"/b.pem\"\n",
    );
    assert_eq!(issuer(&config, "a.example.com"), "acme");
    assert_eq!(issuer(&config, "b.example.com"), "files");
}

#[test]
fn internal_certificates_are_for_every_name_and_address() {
    let config = config(
        "[acme]\n\
         [site.\"box.lan\"]\nrespond = 404\ntls = \"internal\"\nalias = [\"*.box.lan\", \"192.0.2.7\"]\n\
         [site.\"localhost:8443\"]\nrespond = 404\ntls = { issuer = \"internal\", policy = \"modern\" }\n\
         [site.\":9443\"]\nrespond = 404\ntls = \"internal\"\n\
         [site.\"a.example.com\"]\nrespond = 404\n",
    );
    for (name, expected) in [
        ("box.lan", "internal"),
        ("localhost:8443", "internal"),
        (":9443", "internal"),
        ("a.example.com", "acme"),
    ] {
        assert_eq!(issuer(&config, name), expected, "{name}");
    }
    let own = tls(&config, "box.lan");
    assert!(own.certs.is_empty() && own.default.is_none());
}

#[test]
fn the_global_issuer_holds_for_sites_that_name_none() {
    let config = config(
        "[acme]\n[tls]\nissuer = \"internal\"\n\
         [site.\"box.lan\"]\nrespond = 404\n\
         [site.\"a.example.com\"]\nrespond = 404\ntls = { issuer = \"acme\" }\n\
         [tunnel.\":3128\"]\ntls = \"/proxy.pem\"\n",
    );
    assert_eq!(issuer(&config, "box.lan"), "internal");
    assert_eq!(issuer(&config, "a.example.com"), "acme");
    let tunnel = config.tunnels[0].tls.as_ref().map(shown);
    assert_eq!(tunnel, Some("files"));
}

#[test]
fn entries_of_sni_get_certificates_for_their_names() {
    let config = config(
        "[acme]\n[tcp.\":443\"]\n\
         sni.\"mail.example.com\" = { proxy = \"10.0.0.5:25\", tls = {} }\n\
         sni.\"box.lan\" = { proxy = \"10.0.0.5:25\", tls = \"internal\" }\n\
         sni.\"db.lan\" = { proxy = \"10.0.0.5:25\", tls = { issuer = \"internal\", alpn = [\"x\"] } }\n\
         sni.\"through.example.com\" = \"10.0.0.6:443\"\n",
    );
    let relays = config.tcp[0].relays().into_iter();
    let issuers: Vec<_> = relays.map(|relay| relay.tls.as_ref().map(shown)).collect();
    assert_eq!(issuers.len(), 4);
    for (expected, count) in [(Some("acme"), 1), (Some("internal"), 2), (None, 1)] {
        let found = issuers.iter().filter(|issuer| **issuer == expected);
        assert_eq!(found.count(), count, "{expected:?}");
    }
}

#[test]
fn a_private_directory_may_certify_names_that_are_not_public() {
    let config = config(
        "[acme]\ndirectory = \"https://ca.lan/acme/directory\"\n\
         [site.\"box.lan\"]\nrespond = 404\nalias = [\"box\", \"10.0.0.7\", \"my_app.lan\"]\n",
    );
    assert_eq!(issuer(&config, "box.lan"), "acme");
}

#[test]
fn names_that_a_file_may_cover_are_left_to_the_start() {
    let text = |tls: &str, site: &str| {
        format!(
            "[acme]\n[tls]\n{tls}\n[site.\"box.lan\"]\nrespond = 404\nalias = [\"*.box.lan\"]\n{site}"
        )
    };
    for text in [
        text("certs = [\"/box.pem\"]", ""),
        text("default = \"/box.pem\"", ""),
        text("", "tls = \"/box.pem\"\n"),
    ] {
        let loaded = loaded(&text);
        assert_eq!(issuer(&loaded.config, "box.lan"), "acme", "{text}");
    }
}

#[test]
fn state_has_a_folder_where_certificates_come_by_themselves() {
    let state = |top: &str, env: Environment| {
        let text = format!("{top}\n[site.\"a.example.com\"]\nrespond = 404\ntls = \"/a.pem\"\n");
        let loaded = parse_str_in(&text, Path::new("/lockgate.toml"), &env);
        loaded
            .unwrap_or_else(|report| panic!("{text}\n{report}"))
            .config
            .state
            .clone()
    };
    let given = |folders: &str| Environment::none().with_var("STATE_DIRECTORY", folders);
    for (top, env, expected) in [
        ("", given("/srv/a"), None),
        ("state = false", given("/srv/a"), None),
        ("state = \"kept\"", given("/srv/a"), Some("/kept")),
        ("[acme]", Environment::none(), Some("/var/lib/lockgate")),
        ("[acme]", given("/srv/a:/srv/b"), Some("/srv/a")),
        ("[acme]", given(""), Some("/var/lib/lockgate")),
        ("state = \"/kept\"\n[acme]", given("/srv/a"), Some("/kept")),
        (
            "[tls]\nissuer = \"internal\"",
            Environment::none(),
            Some("/var/lib/lockgate"),
        ),
    ] {
        assert_eq!(state(top, env), expected.map(PathBuf::from), "{top}");
    }
}

#[test]
fn the_mac_key_is_neither_shown_nor_stored() {
    for source in ["${env:EAB}", "${file:/etc/lockgate/eab.key}"] {
        let loaded = loaded(&format!(
            "[acme]\neab = {{ key_id = \"kid\", mac_key = \"{source}\" }}\n\
             [site.\"a.example.com\"]\nrespond = 404\n"
        ));
        let debug = format!("{:?}", loaded.config);
        assert!(debug.contains("key_id: \"kid\""), "{debug}");
        for secret in [
            SECRET,
            "secret-mac-key",
            &format!("{:?}", b"secret-mac-key"),
        ] {
            assert!(!debug.contains(secret), "{secret}");
        }
        assert!(loaded.merged_toml().contains(source) && !loaded.merged_toml().contains(SECRET));
    }
    // A mistake in it shows no more than the file does.
    let broken = env().with_var("EAB", "not+base64url/==");
    let text = "[acme]\neab = { key_id = \"kid\", mac_key = \"${env:EAB}\" }\n\
                [site.\"a.example.com\"]\nrespond = 404\n";
    let report = parse_str_in(text, Path::new("/lockgate.toml"), &broken).unwrap_err();
    let report = report.to_string();
    assert!(
        report.contains("write `-` for `+`") && !report.contains("not+"),
        "{report}"
    );
}

#[test]
fn a_site_without_a_certificate_is_told_the_line_that_is_missing() {
    check(&[
        (
            "[site.\"a.example.com\"]\nrespond = 404\n",
            "E0024 1:7",
            "has no certificate",
            "add [acme], and it gets one by itself; or write tls = { cert",
        ),
        (
            "[site.\"box.lan\"]\nrespond = 404\n",
            "E0024 1:7",
            "has no certificate",
            "write tls = \"internal\" for one of Lockgate's own authority; or tls = { cert",
        ),
        (
            "[site.\"a.example.com:8443\"]\nrespond = 404\ntls = {}\n",
            "E0024 3:7",
            "has no certificate",
            "add [acme]",
        ),
        (
            "[site.\":443\"]\nrespond = 404\ntls = {}\n",
            "E0024 3:7",
            "has no certificate",
            "write tls = \"internal\"",
        ),
        (
            "[acme]\n[site.\":443\"]\nrespond = 404\ntls = {}\n",
            "E0024 4:7",
            "has no certificate",
            "write tls = \"internal\"",
        ),
        (
            "[acme]\n[site.\"a.example.com\"]\nrespond = 404\nacme = false\n",
            "E0024 2:7",
            "has no certificate",
            "or remove acme = false",
        ),
        (
            "[acme]\n[tcp.\":8443\"]\nproxy = \"a.b:1\"\ntls = {}\n",
            "E0024 4:7",
            "has no certificate",
            "write tls = { cert",
        ),
        (
            "[tls]\nissuer = \"internal\"\n[tunnel.\":3128\"]\ntls = {}\n",
            "E0024 4:7",
            "has no certificate",
            "write tls = { cert",
        ),
        (
            "[tcp.\":443\"]\nsni.\"a.example.com\" = { proxy = \"a.b:1\", tls = {} }\n",
            "E0024 2:48",
            "has no certificate",
            "add [acme]",
        ),
    ]);
}

#[test]
fn a_host_that_no_public_authority_certifies_is_refused_with_its_cure() {
    check(&[
        (
            "[acme]\n[site.\"box.lan\"]\nrespond = 404\n",
            "E0047 2:7",
            "no public authority certifies box.lan",
            "write tls = \"internal\" in its table",
        ),
        (
            "[acme]\ndirectory = [\"zerossl\", \"letsencrypt\"]\n[site.\"localhost\"]\nrespond = 404\n",
            "E0047 3:7",
            "no public authority certifies localhost",
            "tls = \"internal\"",
        ),
        (
            "[acme]\n[site.\"203.0.113.7\"]\nrespond = 404\n",
            "E0047 2:7",
            "certifies 203.0.113.7",
            "tls = \"internal\"",
        ),
        (
            "[acme]\n[site.\"[2001:db8::1]\"]\nrespond = 404\n",
            "E0047 2:7",
            "certifies [2001:db8::1]",
            "tls = \"internal\"",
        ),
        (
            "[acme]\n[site.\"my_app.example.com\"]\nrespond = 404\n",
            "E0047 2:7",
            "certifies my_app.example.com",
            "tls = \"internal\"",
        ),
        // One alias of many.
        (
            "[acme]\n[site.\"a.example.com\"]\nrespond = 404\nalias = [\"b.example.com\", \"box\"]\n",
            "E0047 4:27",
            "certifies box",
            "move it to a site of its own with tls = \"internal\"",
        ),
        (
            "[acme]\n[site.\"*.example.com\"]\nrespond = 404\n",
            "E0047 2:7",
            "no certificate for *.example.com can be had by ACME",
            "add dns = { provider = \"desec\"",
        ),
        (
            "[acme]\ndirectory = \"https://ca.lan/dir\"\n[site.\"*.box.lan\"]\nrespond = 404\n",
            "E0047 3:7",
            "*.box.lan",
            "add dns = {",
        ),
        (
            "[acme]\n[tcp.\":443\"]\nsni.\"box.lan\" = { proxy = \"a.b:1\", tls = {} }\n",
            "E0047 3:5",
            "certifies box.lan",
            "tls = \"internal\"",
        ),
    ]);
    // Each name is told at once.
    let all = told("[acme]\n[site.\"box.lan\"]\nrespond = 404\nalias = [\"box\", \"10.0.0.7\"]\n");
    assert_eq!(all.lines().count(), 3, "{all}");
    // A name of other letters must be written as clients send it.
    check(&[(
        "[acme]\n[site.\"bücher.example.com\"]\nrespond = 404\n",
        "E0033 2:7",
        "is not the key of a site",
        "xn--",
    )]);
}

#[test]
fn dns_names_the_provider_that_writes_records_of_wildcards() {
    let config = config(
        "[acme]\ndns = { provider = \"rfc2136\", server = \"10.0.0.1:53\", key = \"lockgate\", \
         secret = \"${file:/etc/lockgate/dns.key}\", algorithm = \"hmac-sha512\", \
         propagation = \"10m\", resolvers = [\"10.0.0.53:53\"] }\n\
         [site.\"*.example.com\"]\nrespond = 404\n\
         [site.\"a.example.org\"]\nrespond = 404\n\
         acme = { dns = { provider = \"exec\", command = [\"/bin/dns\", \"-v\"] } }\n",
    );
    let updates = acme(&config, "*.example.com").dns.clone().unwrap();
    assert_eq!(updates.provider.name, "rfc2136");
    assert_eq!(updates.parameter("server"), Some("10.0.0.1:53"));
    assert_eq!(updates.parameter("key"), Some("lockgate"));
    assert_eq!(updates.parameter("secret"), Some(TSIG));
    assert_eq!(updates.parameter("algorithm"), Some("hmac-sha512"));
    assert_eq!(updates.propagation, Duration::from_secs(600));
    assert_eq!(updates.resolvers, ["10.0.0.53:53".parse().unwrap()]);
    // The nearest `dns` counts as a whole.
    let own = acme(&config, "a.example.org").dns.clone().unwrap();
    assert_eq!((own.provider.name, own.parameters.len()), ("exec", 0));
    assert_eq!(own.command, ["/bin/dns", "-v"]);
    assert_eq!(own.propagation, Duration::from_secs(120));
    assert!(!format!("{config:?}").contains(TSIG));
}

#[test]
fn mistakes_in_dns_of_acme_are_told_with_their_cures() {
    let site = "[site.\"*.example.com\"]\nrespond = 404\n";
    let dns = |text: &str| format!("[acme]\ndns = {{ {text} }}\n{site}");
    let table = [
        (
            dns("provider = \"cloudflair\", token = \"x\""),
            "E0015 2:20",
            "is not a provider of DNS",
            "write \"cloudflare\"",
        ),
        (
            dns("provider = \"bind9\", server = \"a\""),
            "E0015 2:20",
            "is not a provider",
            "write \"rfc2136\"",
        ),
        (
            dns("provider = \"cloudflare\""),
            "E0020 2:20",
            "`cloudflare` needs `token`",
            "add token = ",
        ),
        (
            dns("provider = \"rfc2136\", key = \"k\""),
            "E0020 2:20",
            "`rfc2136` needs `server`, `secret`",
            "add server = ",
        ),
        (
            dns("provider = \"exec\""),
            "E0020 2:20",
            "`exec` needs `command`",
            "add command = [",
        ),
        (
            dns("provider = \"desec\", token = \"x\", user = \"me\""),
            "E0019 2:42",
            "`desec` takes no `user`",
            "remove it",
        ),
        (
            dns("provider = \"desec\", tokn = \"x\""),
            "E0010 2:29",
            "tokn",
            "token",
        ),
        (
            dns("provider = \"desec\", api_token = \"x\""),
            "E0010 2:29",
            "api_token",
            "write token = ",
        ),
        (
            dns(
                "provider = \"rfc2136\", server = \"10.0.0.1\", key = \"k\", secret = \"{secret}\"",
            ),
            "E0018 2:72",
            "this is not the secret of a TSIG key",
            "dns.key",
        ),
        (
            dns("provider = \"rfc2136\", server = \"a b\", key = \"k\", secret = \"aGk=\""),
            "E0016 2:40",
            "this is not the address of a name server",
            "10.0.0.1:53",
        ),
        (
            dns("provider = \"powerdns\", url = \"ns.example.com\", token = \"x\""),
            "E0016 2:38",
            "this is not the URL of a server",
            "https://",
        ),
        (
            dns("provider = \"desec\", token = \"x\", resolvers = [\"ns.example:53\"]"),
            "E0016 2:55",
            "a name server needs an IP address",
            "10.0.0.53:53",
        ),
        (
            dns("provider = \"desec\", token = \"x\", propagation = \"10ms\""),
            "E0014 2:56",
            "is too short",
            "1s",
        ),
    ];
    let table: Vec<_> = table
        .iter()
        .map(|(text, code, message, cure)| (&**text, *code, *message, *cure))
        .collect();
    check(&table);
}

#[test]
fn a_mistake_in_dns_of_acme_is_told_once_for_several_sites() {
    let text = "[acme]\ndns = { provider = \"desec\", user = \"me\" }\n\
                [site.\"*.example.com\"]\nrespond = 404\n\
                [site.\"b.example.com\"]\nrespond = 404\nacme = { profile = \"x\" }\n";
    let told = told(text);
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.contains("`desec` takes no `user`"), "{told}");
    assert!(told.contains("`desec` needs `token`"), "{told}");
}

#[test]
fn mistakes_in_the_keys_of_acme_are_told_with_their_cures() {
    let rest = "\n[site.\"a.example.com\"]\nrespond = 404\n";
    let keys = |lines: &str| format!("[acme]\n{lines}{rest}");
    for (lines, code, message, cure) in [
        (
            "email = \"me\"",
            "E0018 2:9",
            "is not an address",
            "me@example.com",
        ),
        (
            "email = \"a@b.c, d@e.f\"",
            "E0018 2:9",
            "is not an address",
            "me@example.com",
        ),
        (
            "email = \"mailto:a@b.c\"",
            "E0018 2:9",
            "is not an address",
            "me@example.com",
        ),
        (
            "email = [\"a@b.c\"]",
            "E0012 2:9",
            "a list",
            "me@example.com",
        ),
        (
            "directory = \"http://ca.lan/dir\"",
            "E0016 2:13",
            "is not the directory",
            "https://",
        ),
        (
            "directory = \"https://u@ca.lan/dir\"",
            "E0016 2:13",
            "is not the directory",
            "https://",
        ),
        (
            "directory = \"staging\"",
            "E0015 2:13",
            "is not the directory",
            "write \"letsencrypt-staging\"",
        ),
        (
            "directory = \"zerosl\"",
            "E0015 2:13",
            "is not the directory",
            "write \"zerossl\"",
        ),
        (
            "directory = \"buypass\"",
            "E0015 2:13",
            "is not the directory",
            "\"letsencrypt\" or",
        ),
        (
            "directory = []",
            "E0014 2:13",
            "the list is empty",
            "at least one",
        ),
        (
            "directory = [\"zerossl\", \"https://acme.zerossl.com/v2/DV90\"]",
            "W0003 2:25",
            "`directory` has no effect",
            "remove it",
        ),
        (
            "key = [\"p256\", \"p256\"]",
            "W0003 2:16",
            "`key` has no effect",
            "remove it",
        ),
        (
            "key = \"ec256\"",
            "E0015 2:7",
            "\"ec256\"",
            "did you mean \"p256\"?",
        ),
        (
            "key = \"rsa4096\"",
            "E0015 2:7",
            "\"rsa4096\"",
            "did you mean \"rsa2048\"?",
        ),
        (
            "fallback = \"self\"",
            "E0015 2:12",
            "\"self\"",
            "\"internal\"",
        ),
        ("fallback = true", "E0012 2:12", "true", "\"internal\""),
        (
            "eab = { key_id = \"kid\" }",
            "E0020 2:7",
            "`mac_key` is missing",
            "add mac_key",
        ),
        (
            "eab = { mac_key = \"YQ\" }",
            "E0020 2:7",
            "`key_id` is missing",
            "add key_id",
        ),
        (
            "eab = { key_id = \"kid\", mac_key = \"YQ==\" }",
            "E0018 2:35",
            "not a MAC key",
            "leave out the `=`",
        ),
        (
            "eab = { kid = \"kid\", mac_key = \"YQ\" }",
            "E0010 2:9",
            "`kid`",
            "write key_id = ",
        ),
        ("profile = \"\"", "E0018 2:11", "is not a name", ""),
    ] {
        check(&[(&keys(lines), code, message, cure)]);
    }
    check(&[
        (
            "acme = false\n[site.\"a.example.com\"]\nrespond = 404\n",
            "E0012 1:8",
            "false",
            "",
        ),
        (
            "[site.\"a.example.com\"]\nrespond = 404\nacme = true\n",
            "E0012 3:8",
            "true",
            "write acme = {}",
        ),
        (
            "acme = \"letsencrypt\"\n[site.\"a.example.com\"]\nrespond = 404\n",
            "E0012 1:8",
            "a string",
            "write acme = { directory = \"letsencrypt\" }",
        ),
    ]);
}

#[test]
fn keys_that_contradict_each_other_about_certificates_are_told() {
    check(&[
        (
            "state = false\n[acme]\n[site.\"a.example.com\"]\nrespond = 404\n",
            "E0048 1:9",
            "leaves certificates no place",
            "write state = \"/var/lib/lockgate\"",
        ),
        (
            "state = false\n[site.\"box.lan\"]\nrespond = 404\ntls = \"internal\"\n",
            "E0048 1:9",
            "leaves certificates no place",
            "or remove it",
        ),
        (
            "[site.\"a.example.com\"]\nrespond = 404\ntls = { issuer = \"acme\", cert = \"/a.pem\" }\n",
            "E0020 3:18",
            "`issuer = \"acme\"` without [acme]",
            "add [acme]",
        ),
        (
            "[site.\"a.example.com\"]\nrespond = 404\nacme = false\ntls = { issuer = \"acme\", cert = \"/a.pem\" }\n",
            "E0019 4:18",
            "with `acme = false`",
            "remove one",
        ),
        (
            "[tcp.\":1\"]\nproxy = \"a.b:1\"\ntls = \"internal\"\n",
            "E0015 3:7",
            "is not the path of a certificate",
            "sni.\"mail.example.com\" = { proxy = \"10.0.0.5:25\", tls = \"internal\" }",
        ),
        (
            "[tunnel.\":1\"]\ntls = \"internal\"\n",
            "E0015 2:7",
            "is not the path of a certificate",
            "only those have names",
        ),
        (
            "[tcp.\":1\"]\ndefault = { proxy = \"a.b:1\", tls = { issuer = \"internal\", cert = \"/a.pem\" } }\n",
            "E0010 2:38",
            "no key is called `issuer`",
            "it belongs in `tls` of [tcp.\"ADDR\".sni.\"NAME\"]",
        ),
        (
            "[site.\"a.example.com\"]\nrespond = 404\ntls = { issuer = \"letsencrypt\", cert = \"/a.pem\" }\n",
            "E0015 3:18",
            "\"letsencrypt\"",
            "did you mean \"acme\"?",
        ),
    ]);
}

#[test]
fn keys_of_acme_that_nothing_uses_are_warnings() {
    check(&[
        (
            "[acme]\n[tcp.\":1\"]\nproxy = \"a.b:1\"\n",
            "W0003 1:2",
            "`acme` has no effect",
            "or remove it",
        ),
        (
            "[acme]\n[site.\"box.lan\"]\nrespond = 404\ntls = \"internal\"\n",
            "W0003 1:2",
            "`acme` has no effect",
            "or remove it",
        ),
        (
            "[site.\"a.example.com:8080\"]\nrespond = 404\nacme = {}\n",
            "W0003 3:1",
            "`acme` has no effect",
            "add tls = {}",
        ),
        (
            "[site.\":8443\"]\nrespond = 404\ntls = \"/a.pem\"\nacme = {}\n",
            "W0003 4:1",
            "`acme` has no effect",
            "write the host into the header",
        ),
        (
            "[site.\"box.lan\"]\nrespond = 404\ntls = \"internal\"\nacme = {}\n",
            "W0003 4:1",
            "`acme` has no effect",
            "remove it",
        ),
        (
            "[acme]\n[site.\":8443\"]\nrespond = 404\ntls = { issuer = \"acme\", cert = \"/a.pem\" }\n\
             [site.\"a.example.com\"]\nrespond = 404\n",
            "W0003 4:18",
            "`issuer` has no effect",
            "write the hosts",
        ),
    ]);
}

#[test]
fn names_of_caddy_traefik_nginx_and_haproxy_lead_to_acme() {
    let site = "[site.\"a.example.com\"]\nrespond = 404\n";
    let table = |lines: &str| format!("[acme]\n{lines}\n{site}");
    for (text, code, cure) in [
        (
            format!("email = \"me@b.c\"\n{site}"),
            "E0010 1:1",
            "write acme = { email = \"me@example.com\" } at the top",
        ),
        (
            format!("letsencrypt = true\n{site}"),
            "E0010 1:1",
            "write acme = ",
        ),
        (
            format!("{site}certresolver = \"le\"\n"),
            "E0010 3:1",
            "write acme = ",
        ),
        (
            format!("{site}tls = {{ certresolver = \"le\" }}\n"),
            "E0010 3:9",
            "write acme = ",
        ),
        (
            format!("[certificatesResolvers.le.acme]\nemail = \"me@b.c\"\n{site}"),
            "E0010 1:2",
            "write acme = ",
        ),
        (
            format!("{site}on_demand = true\n"),
            "E0010 3:1",
            "write acme = { on_demand = { ask = ",
        ),
        (
            format!("[acme]\n{site}local_certs = true\n"),
            "E0010 4:1",
            "write tls = \"internal\"",
        ),
        (
            table("dns_challenge = { provider = \"cloudflare\" }"),
            "E0010 2:1",
            "write dns = { provider = \"desec\"",
        ),
        (
            table("ask = \"http://127.0.0.1/\""),
            "E0010 2:1",
            "write on_demand = { ask = ",
        ),
        (
            format!("{site}issuer = \"internal\"\n"),
            "E0010 3:1",
            "write tls = \"internal\", or tls = { issuer",
        ),
        (
            format!("{site}tls = {{ issuer = \"acme\" }}\n"),
            "E0024 3:7",
            "add [acme]",
        ),
        (
            format!("[acem]\n{site}tls = {{ issuer = \"acme\", cert = \"/a.pem\" }}\n"),
            "E0010 1:2",
            "did you mean `acme`?",
        ),
        (
            format!("[acem]\n{site}"),
            "E0010 1:2",
            "did you mean `acme`?",
        ),
        (
            table("caServer = \"https://ca.lan/dir\""),
            "E0010 2:1",
            "write directory = ",
        ),
        (table("contact = \"me@b.c\""), "E0010 2:1", "write email = "),
        (table("keyType = \"EC256\""), "E0010 2:1", "write key = "),
        (
            table("storage = \"acme.json\""),
            "E0010 2:1",
            "write state = ",
        ),
        (
            table("agree_tos = true"),
            "E0010 2:1",
            "having [acme] accepts",
        ),
        (
            table("httpChallenge = {}"),
            "E0010 2:1",
            "takes the challenge that can work",
        ),
        (
            table("domains = [\"a.b\"]"),
            "E0010 2:1",
            "each host of a [site]",
        ),
        (
            table("renew_before = \"30d\""),
            "E0010 2:1",
            "in time by themselves",
        ),
        (table("staging = true"), "E0010 2:1", "letsencrypt-staging"),
        (
            table("enabled = true"),
            "E0010 2:1",
            "acme = false in a site is off",
        ),
        (table("kid = \"k\""), "E0010 2:1", "write eab = "),
        (
            format!("{site}tls = \"self-signed\"\n"),
            "E0015 3:7",
            "write tls = \"internal\"",
        ),
        (
            format!("{site}tls = \"letsencrypt\"\n"),
            "E0015 3:7",
            "add [acme], and remove it",
        ),
    ] {
        check(&[(&text, code, "", cure)]);
    }
}

#[test]
fn on_demand_lets_sites_for_every_host_and_wildcards_use_acme() {
    let rules = |on_demand: &str, site: &str| {
        let text = format!(
            "[acme]\non_demand = {on_demand}\n[site.\"{site}\"]\ntls = {{}}\nrespond = 404\n"
        );
        let config = config(&text);
        let managed = tls(&config, site).managed.clone();
        managed.and_then(|managed| managed.on_demand).unwrap()
    };
    let asked = rules(
        "{ ask = \"http://127.0.0.1:3000/ok?a=b\", per_hour = 3 }",
        ":8443",
    );
    assert_eq!(asked.ask.as_deref(), Some("http://127.0.0.1:3000/ok?a=b"));
    assert_eq!((asked.per_hour, asked.per_client), (3, 5));
    let listed = rules("[\"*.customers.example.com\"]", "*.example.com");
    assert!(listed.lists("a.customers.example.com") && !listed.lists("a.example.com"));
    assert_eq!((listed.ask.as_deref(), listed.per_hour), (None, 20));
}

#[test]
fn on_demand_without_a_permission_is_a_mistake() {
    let told =
        told("[acme]\non_demand = { per_hour = 3 }\n[site.\"*.example.com\"]\nrespond = 404\n");
    assert!(told.contains("E0020 2:13"), "{told}");
}
