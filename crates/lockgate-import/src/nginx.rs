//! Configurations of nginx.
//!
//! `syntax` reads directives and includes, `scope` knows what a level inherits, `shared` what
//! routes have in common, `servers` and `sites` choose hosts and routes, and the other modules
//! convert one matter each.

mod access;
mod answer;
mod fields;
mod finish;
mod hosts;
mod itself;
mod known;
mod listen;
mod locations;
mod pattern;
mod proxy;
mod regexes;
mod route;
mod scope;
mod servers;
mod shared;
mod sites;
mod stream;
mod syntax;
#[cfg(test)]
mod tests;
mod upstream;
mod users;
mod values;
mod verify;
mod winner;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::scope::{NginxScope, NginxVerdicts, nginx_level};
use self::shared::NginxShared;
use self::syntax::{NginxDirective, NginxReader};
use self::upstream::NginxUpstream;
use self::users::NginxUsers;
use self::values::NginxNetwork;
use crate::{ConversionReport, Draft, ImportError, Imported, SourceFiles, Verdict};

/// As [`crate::import`].
pub(crate) fn import(paths: &[PathBuf], files: &dyn SourceFiles) -> Result<Imported, ImportError> {
    let mut report = ConversionReport::default();
    let mut tree: Vec<NginxDirective> = Vec::new();
    let mut missing = Vec::new();
    for path in paths {
        let mut reader = NginxReader::new(files, path);
        tree.extend(reader.read(path, &mut report)?);
        missing.append(&mut reader.missing);
    }
    let mut draft = Draft::default();
    let verdicts = NginxVerdicts {
        report: RefCell::new(report),
        notes: RefCell::new(Vec::new()),
    };
    let folder = paths.first().and_then(|path| path.parent());
    let users = NginxUsers::new(files, folder.unwrap_or(Path::new("")));
    let report = convert(&tree, &users, verdicts, &mut draft, &missing);
    Ok(Imported { draft, report })
}

fn convert(
    tree: &[NginxDirective],
    users: &NginxUsers<'_>,
    verdicts: NginxVerdicts,
    draft: &mut Draft,
    missing: &[String],
) -> ConversionReport {
    known::settle_known(&verdicts, tree);
    if let Some(user) = tree.iter().rfind(|directive| directive.name == "user") {
        let name = user.arg(0);
        if user.args.get(1).is_some_and(|group| group != name) {
            verdicts.differs(user, "the group is that of the user");
        } else {
            verdicts.converted(user);
        }
        if !matches!(name, "" | "root") {
            draft.top.set("user", name);
        }
    }
    // A file of conf.d has the directives of http without their block.
    let mut http: Vec<&NginxDirective> = Vec::new();
    for directive in tree {
        match directive.name.as_str() {
            "http" if directive.block.is_some() => {
                verdicts.converted(directive);
                http.extend(directive.children());
            }
            _ => http.push(directive),
        }
    }
    let scope = NginxScope {
        levels: vec![nginx_level(http.iter().copied())],
    };
    let mut upstreams = BTreeMap::new();
    let mut zones = BTreeMap::new();
    for directive in &http {
        match directive.name.as_str() {
            "upstream" => {
                verdicts.converted(directive);
                upstreams.insert(
                    directive.arg(0),
                    NginxUpstream::read(&verdicts, directive, 80),
                );
            }
            "limit_req_zone" => {
                let zone = directive
                    .args
                    .iter()
                    .find_map(|arg| arg.strip_prefix("zone="));
                let name = zone.map_or("", |zone| {
                    zone.split_once(':').map_or(zone, |(name, _)| name)
                });
                zones.insert(name.to_owned(), (*directive, Cell::new(0)));
            }
            _ => {}
        }
    }
    let mut shared = NginxShared {
        real_ip: false,
        verdicts,
        upstreams,
        zones,
        formats: RefCell::new(Vec::new()),
        users,
    };
    shared.real_ip = real_ip(&shared.verdicts, &scope, draft);
    acme(&shared.verdicts, &scope, draft);
    if let Some(value) = servers::log_value(&shared, scope.own("access_log")) {
        draft.top.set("access_log", value);
    }
    let blocks: Vec<&NginxDirective> = http
        .iter()
        .copied()
        .filter(|d| d.name == "server" && d.block.is_some())
        .collect();
    servers::servers(&shared, &scope, &blocks, draft);
    for upstream in shared.upstreams.values() {
        upstream.write(&shared.verdicts, draft);
    }
    for directive in tree.iter().filter(|d| d.name == "stream") {
        stream::stream(&shared.verdicts, directive, draft);
    }
    let served = draft.top.find_table("site").is_some();
    leftovers(&shared, &http, &blocks, served);
    let NginxShared { verdicts, .. } = shared;
    let NginxVerdicts { report, notes } = verdicts;
    draft.preface.push("Converted from nginx.".to_owned());
    if !missing.is_empty() {
        draft.preface.push("These files are not here, and nothing of them is in this file, rules about access included:".to_owned());
        for file in missing.iter().take(20) {
            draft.preface.push(format!("  {file}"));
        }
    }
    draft.preface.extend(notes.into_inner());
    report.into_inner()
}

/// `acme_issuer` of nginx's own module.
fn acme(verdicts: &NginxVerdicts, scope: &NginxScope<'_>, draft: &mut Draft) {
    for (index, issuer) in scope.own("acme_issuer").iter().enumerate() {
        if index > 0 {
            let because = "all sites have the authority of [acme]";
            verdicts.rest(
                issuer,
                &Verdict::not_supported(because, Some("write `acme` in a site")),
            );
            continue;
        }
        verdicts.converted(issuer);
        let table = draft.top.table("acme");
        for entry in issuer.children() {
            match entry.name.as_str() {
                "uri" if entry.arg(0) == "https://acme-v02.api.letsencrypt.org/directory" => {
                    verdicts.default(entry);
                }
                "uri" if entry.arg(0).starts_with("https://") => {
                    verdicts.converted(entry);
                    table.set("directory", entry.arg(0));
                }
                "contact" => {
                    let address = entry.arg(0);
                    verdicts.converted(entry);
                    table.set("email", address.strip_prefix("mailto:").unwrap_or(address));
                }
                "accept_terms_of_service" | "state_path" | "challenge" | "profile" => {
                    verdicts.default(entry);
                }
                _ => {}
            }
        }
    }
}

/// `set_real_ip_from` and `real_ip_header`. Says whether they hold here.
fn real_ip(verdicts: &NginxVerdicts, scope: &NginxScope<'_>, draft: &mut Draft) -> bool {
    let mut networks: Vec<String> = Vec::new();
    for directive in scope.own("set_real_ip_from") {
        match NginxNetwork::parse(directive.arg(0)) {
            Some(network) => {
                verdicts.converted(directive);
                if !networks.contains(&network.text()) {
                    networks.push(network.text());
                }
            }
            None => verdicts.refuse(directive, "`trusted` takes networks", None),
        }
    }
    for directive in scope.own("real_ip_header") {
        match directive.arg(0).to_ascii_lowercase().as_str() {
            "x-forwarded-for" | "proxy_protocol" => verdicts.converted(directive),
            _ => {
                verdicts.refuse(
                    directive,
                    "the client's address is taken from X-Forwarded-For or a PROXY header: no address is trusted here",
                    Some("write trusted = [\"10.0.0.0/8\"] if these proxies send X-Forwarded-For"),
                );
                networks.clear();
            }
        }
    }
    if scope.own("real_ip_header").is_empty() {
        for directive in scope.own("set_real_ip_from") {
            verdicts.refuse(
                directive,
                "nginx takes the client's address from X-Real-IP here, Lockgate from X-Forwarded-For: no address is trusted",
                Some("write trusted = [\"10.0.0.0/8\"] if these proxies send X-Forwarded-For"),
            );
        }
        networks.clear();
    }
    let holds = !networks.is_empty();
    if holds {
        draft.top.set("trusted", networks);
    }
    holds
}

/// The variables that any directive refers to.
fn used_variables<'a>(http: &[&'a NginxDirective]) -> BTreeSet<&'a str> {
    let mut used = BTreeSet::new();
    let mut all: Vec<&NginxDirective> = http.to_vec();
    while let Some(directive) = all.pop() {
        let own = usize::from(directive.name == "map");
        for arg in directive
            .args
            .iter()
            .take(directive.args.len() - own.min(directive.args.len()))
        {
            for part in scope::parts_of(arg) {
                if let scope::NginxPart::Variable(name) = part {
                    used.insert(name);
                }
            }
        }
        all.extend(directive.children());
    }
    used
}

/// Directives that are inherited or referred to, and that no route of the new file needs.
const UNUSED: &[&str] = &[
    "root",
    "index",
    "proxy_set_header",
    "proxy_hide_header",
    "add_header",
    "gzip",
    "brotli",
    "zstd",
    "client_max_body_size",
    "proxy_connect_timeout",
    "proxy_read_timeout",
    "expires",
    "charset",
    "limit_req_zone",
    "limit_req_status",
    "proxy_ssl_name",
    "proxy_ssl_verify",
    "proxy_ssl_trusted_certificate",
    "ssl_certificate",
    "ssl_certificate_key",
    "autoindex",
    "try_files",
    "set",
    "grpc_read_timeout",
    "proxy_intercept_errors",
    "ssl_client_certificate",
    "ssl_verify_depth",
    "types",
    "alias",
    "grpc_set_header",
    "error_page",
    "more_set_headers",
    "more_clear_headers",
];

fn leftovers(
    shared: &NginxShared<'_>,
    http: &[&NginxDirective],
    servers: &[&NginxDirective],
    served: bool,
) {
    let verdicts = &shared.verdicts;
    let variables = used_variables(http);
    for directive in http {
        match directive.name.as_str() {
            "map" if directive.arg(0) == "$http_upgrade" => {
                verdicts.rest(directive, &Verdict::Default);
            }
            "map"
                if !variables.contains(
                    directive
                        .arg(1)
                        .trim_start_matches(['$', '{'])
                        .trim_end_matches('}'),
                ) =>
            {
                verdicts.rest(directive, &Verdict::Default); // nothing uses it
            }
            "map" => verdicts.rest(
                directive,
                &Verdict::not_supported(
                    "there are no variables: what uses this one says what happens instead",
                    None,
                ),
            ),
            "types" => verdicts.rest(directive, &Verdict::Default),
            "log_format" => {
                let used = shared
                    .formats
                    .borrow()
                    .iter()
                    .any(|name| name == directive.arg(0));
                if used {
                    verdicts.differs(directive, "lines have the combined format");
                } else {
                    verdicts.default(directive);
                }
            }
            _ => {}
        }
    }
    let known = |directive: &NginxDirective| verdicts.report.borrow().has_verdict(directive.id);
    let mut all: Vec<&NginxDirective> = http.to_vec();
    for server in servers {
        all.extend(server.children());
        let mut inner: Vec<&NginxDirective> = server.children().iter().collect();
        while let Some(directive) = inner.pop() {
            if directive.name == "location" && known(directive) {
                all.extend(directive.children());
                inner.extend(directive.children());
            }
        }
    }
    for directive in all {
        if UNUSED.contains(&directive.name.as_str()) && !known(directive) {
            if served {
                verdicts.default(directive);
            } else {
                verdicts.refuse(directive, "there is no site that it belongs to", None);
            }
        }
    }
}
