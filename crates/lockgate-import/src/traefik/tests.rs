//! Files of Traefik in, a file of Lockgate out.

mod review;
mod routes;
mod statics;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{Format, ImportError, Imported, SourceFiles, Verdict};

struct TraefikFiles(BTreeMap<PathBuf, String>);

impl SourceFiles for TraefikFiles {
    fn read(&self, path: &Path) -> Result<String, String> {
        let text = self.0.get(path).cloned();
        text.ok_or_else(|| "no such file".to_owned())
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        let (folder, end) = (pattern.parent(), pattern.extension());
        let files = self
            .0
            .keys()
            .filter(|path| path.parent() == folder && path.extension() == end);
        files.cloned().collect()
    }
}

/// Imports the first `named` of these files.
fn read(files: &[(&str, &str)], named: usize) -> Result<Imported, ImportError> {
    let paths: Vec<PathBuf> = files
        .iter()
        .take(named)
        .map(|(path, _)| path.into())
        .collect();
    let all = files
        .iter()
        .map(|(path, text)| (path.into(), (*text).to_owned()));
    crate::import(Format::Traefik, &paths, &TraefikFiles(all.collect()))
}

/// The file of a source, which must be valid, without tests; and the verdicts other than converted.
fn converted(files: &[(&str, &str)]) -> (String, Vec<String>) {
    let mut imported = read(files, files.len()).unwrap();
    imported.draft.top.take_list("test");
    let out = imported.draft.to_string();
    let mut env = lockgate_config::Environment::none();
    for part in out.split("${env:").skip(1) {
        env = env.with_var(part.split('}').next().unwrap(), "eA");
    }
    if out.contains("[site") || out.contains("[tcp") {
        let loaded = lockgate_config::parse_str_in(&out, Path::new("/lockgate.toml"), &env);
        assert!(loaded.is_ok(), "{out}\n{:?}", loaded.err());
    }
    let told = imported.report.lines().filter_map(|line| {
        let (name, why) = match line.verdict {
            Verdict::Converted => return None,
            Verdict::Default => ("default", String::new()),
            Verdict::Differs { because } => ("differs", because),
            Verdict::NotSupported { because, .. } => ("not supported", because),
        };
        Some(format!("{} {name} {why}", line.text).trim().to_owned())
    });
    (out, told.collect())
}

const STATIC: &str = "
entryPoints:
  web:
    address: ':80'
    http: {redirections: {entryPoint: {to: websecure, scheme: https}}}
  websecure: {address: ':443'}
certificatesResolvers:
  le: {acme: {email: a@b.com, storage: /x, tlsChallenge: {}}}
accessLog: {format: json}
";

/// The dynamic file `text` beside [`STATIC`]: the sites of it, and what is said of it.
fn dynamic(text: &str) -> (String, Vec<String>) {
    let (out, told) = converted(&[("s.yml", STATIC), ("d.yml", text)]);
    let sites = out
        .split_once("email = \"a@b.com\"\n\n")
        .map_or(out.as_str(), |(_, sites)| sites);
    let statics = [
        "to:",
        "scheme: https default",
        "storage:",
        "tlsChallenge:",
        "format:",
    ];
    let told = told
        .into_iter()
        .filter(|line| !statics.iter().any(|known| line.starts_with(known)));
    (sites.to_owned(), told.collect())
}

#[track_caller]
fn check(text: &str, toml: &str, told: &[&str]) {
    let (out, verdicts) = dynamic(text);
    assert_eq!(out, toml);
    assert_eq!(verdicts, told);
}

/// A router with middlewares: what follows `a:` in both.
fn with_middleware(rule: &str, middlewares: &str) -> String {
    format!(
        "http:\n  routers:\n    a: {{rule: '{rule}', service: s, middlewares: [m], tls: {{certResolver: le}}}}\n  \
         middlewares:\n    m: {middlewares}\n  services:\n    s: {{loadBalancer: {{servers: [{{url: 'http://10.0.0.1:80'}}]}}}}\n"
    )
}

#[test]
fn damaged_and_huge_files_do_no_harm() {
    let syntax = |name: &str, text: &str| match read(&[(name, text)], 1) {
        Ok(_) => "read".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(syntax("a.yml", "a: [b\nc: d").starts_with("a.yml:"));
    assert!(syntax("a.yml", "http:\n\t- x").starts_with("a.yml:2: this is not YAML"));
    assert!(syntax("a.toml", "a = \n").starts_with("a.toml:1: this is not TOML"));
    assert!(syntax("a.yml", "{{ if env \"X\" }}\na: b\n{{ end }}").contains("template"));
    assert!(syntax("a.yml", &"[".repeat(1_000_000)).starts_with("a.yml:"));
    assert!(syntax("a.yml", &"a: {".repeat(100)).contains("too deep"));
    assert!(syntax("a.toml", &format!("x = {}", "[".repeat(100_000))).starts_with("a.toml:"));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..9 {
        let list = vec![format!("*a{}", n - 1); 10].join(", ");
        bomb.push_str(&format!("a{n}: &a{n} [{list}]\n"));
    }
    assert!(syntax("a.yml", &bomb).contains("aliases"));
    let mut long = "http:\n  routers:\n".to_owned();
    for n in 0..20_000 {
        long.push_str(&format!(
            "    r{n}: {{rule: 'Host(`h.test`) && Path(`/{n}`)', service: s, tls: {{}}}}\n"
        ));
    }
    assert_eq!(syntax("a.yml", &long), "read");
    let mut labels = "services:\n  a:\n    labels:\n".to_owned();
    for n in 0..30_000 {
        labels.push_str(&format!(
            "      - traefik.http.routers.r{n}.rule=Host(`h{n}.test`)\n"
        ));
    }
    assert_eq!(syntax("compose.yml", &labels), "read");
    assert_eq!(
        syntax(
            "a.yml",
            "services:\n  a:\n    labels: ['traefik.a[999999999].b=1', 'traefik.=', 'traefik']\n"
        ),
        "read"
    );
}

#[test]
fn services_and_chains_that_lead_to_themselves_end() {
    let (out, told) = dynamic(
        "http:\n  routers:\n    a: {rule: Host(`a.com`), service: s, middlewares: [m], tls: {certResolver: le}}\n  middlewares:\n    m: {chain: {middlewares: [m, m]}}\n  \
         services:\n    s: {weighted: {services: [{name: s}]}}\n",
    );
    assert!(out.contains("respond = 403"), "{out}");
    assert!(
        told.iter().any(|line| line.contains("has no end")),
        "{told:?}"
    );
}

#[test]
fn values_of_a_source_are_never_read_by_lockgate() {
    let (out, _) = dynamic(&with_middleware(
        "Host(`a.com`)",
        "{headers: {customResponseHeaders: {X-A: '${file:/etc/shadow}', X-B: '{client}', X-C: 'c\"\\d'}}}",
    ));
    assert!(
        !out.contains("shadow") && !out.contains("{client}"),
        "{out}"
    );
    assert!(out.contains("x-c = \"c\\\"\\\\d\""), "{out}");
}

#[test]
fn files_of_the_provider_are_read_and_missing_ones_are_said() {
    let files = [
        (
            "s.toml",
            "[entryPoints.w]\naddress = \":80\"\n[providers.file]\ndirectory = \"/d\"\n",
        ),
        (
            "/d/a.toml",
            "[http.routers.a]\nrule = \"Host(`a.com`)\"\nservice = \"noop@internal\"\n",
        ),
    ];
    let imported = read(&files, 1).unwrap();
    assert!(
        imported
            .draft
            .to_string()
            .contains("[site.\"a.com:80\"]\nrespond = 418")
    );
    let imported = read(&files[..1], 1).unwrap();
    let missing = |line: crate::ReportLine| {
        matches!(line.verdict, Verdict::NotSupported { .. }) && line.text.starts_with("directory")
    };
    assert!(imported.report.lines().any(missing));
    assert!(read(&[], 0).unwrap().draft.to_string().is_empty());
}

#[test]
fn a_server_that_stands_twice_has_twice_the_weight() {
    let text = "http:\n  routers:\n    r: {rule: \"Host(`a.test`)\", service: s}\n  services:\n    s:\n      loadBalancer:\n        servers: [{url: \"http://10.0.0.1:80\"}, {url: \"http://10.0.0.2:80\"}, {url: \"http://10.0.0.1:80\"}]\n";
    let (out, _) = converted(&[("dynamic.yml", text)]);
    assert!(
        out.contains("{ addr = \"10.0.0.1:80\", weight = 2 }"),
        "{out}"
    );
    assert!(out.contains("\"10.0.0.2:80\""), "{out}");
}
