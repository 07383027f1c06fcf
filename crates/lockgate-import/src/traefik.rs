//! Configurations of Traefik: files in YAML or TOML, and labels of Compose files.

mod access;
mod acme;
mod compose;
mod cors;
mod entry_points;
mod fields;
mod headers;
mod middlewares;
mod node;
mod pages;
mod paths;
mod redirects;
mod relays;
mod route_parts;
mod router_rows;
mod routers;
mod routes;
mod rows;
mod rule;
mod service_options;
mod services;
mod site_tls;
mod sites;
mod source;
mod static_keys;
mod static_logs;
mod statics;
mod tls_options;
mod toml_tree;
mod upstream;
mod values;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use self::node::{TraefikMap, TraefikNode, TraefikValue};
use self::source::TraefikSource;
use crate::{
    ConversionReport, Draft, DraftTable, DraftValue, ImportError, Imported, Place, SourceFiles,
    Verdict,
};

/// The most files that `providers.file` may add.
const MAX_FILES: usize = 200;

/// As [`crate::import`]. All files together are one configuration.
pub(crate) fn import(paths: &[PathBuf], files: &dyn SourceFiles) -> Result<Imported, ImportError> {
    let mut reader = TraefikReader {
        files,
        report: ConversionReport::default(),
        source: TraefikSource::default(),
        statics: None,
        containers: Vec::new(),
        names: HashMap::new(),
        flags: Vec::new(),
        seen: BTreeSet::new(),
        dynamic: 0,
        unnamed: Vec::new(),
    };
    for path in paths {
        let text = files.read(path).map_err(|reason| ImportError::Unreadable {
            file: path.clone(),
            reason,
        })?;
        reader.file(path, &text)?;
    }
    for flags in std::mem::take(&mut reader.flags) {
        reader.add_statics(flags);
    }
    reader.provided()?;
    Ok(reader.finish())
}

struct TraefikReader<'a> {
    files: &'a dyn SourceFiles,
    report: ConversionReport,
    source: TraefikSource,
    statics: Option<TraefikNode>,
    containers: Vec<compose::TraefikContainer>,
    /// Where the container of a name is.
    names: HashMap<String, usize>,
    /// Flags and variables, which count after the static file.
    flags: Vec<TraefikNode>,
    seen: BTreeSet<PathBuf>,
    /// How many dynamic files were read.
    dynamic: usize,
    /// Trees with keys at the top that are those of no file.
    unnamed: Vec<TraefikNode>,
}

impl TraefikReader<'_> {
    fn file(&mut self, path: &Path, text: &str) -> Result<(), ImportError> {
        if !self.seen.insert(path.to_owned()) {
            return Ok(());
        }
        // `{{ env "NAME" }}` stands for a value that is not known here.
        let text = without_variables(text);
        let is_toml = path
            .extension()
            .is_some_and(|kind| kind.eq_ignore_ascii_case("toml"));
        let mut tree = match is_toml {
            true => toml_tree::read(&text, path)?,
            false => yaml::read(&text, path, &mut self.report)?,
        };
        if compose::is_compose(&tree) {
            let env = path.with_file_name(".env");
            let variables = self.files.read(&env).map(|text| compose::variables(&text));
            let read = compose::read(&tree, &variables.unwrap_or_default(), &mut self.report);
            self.flags.extend(read.statics);
            for container in read.containers {
                self.container(container);
            }
            return Ok(());
        }
        tree.register("", "", &mut self.report);
        let mut statics = TraefikMap::default();
        let mut dynamic = TraefikMap::default();
        let TraefikValue::Map(map) = tree.value else {
            return Ok(());
        };
        for (name, node) in map.iter() {
            let is_dynamic = ["http", "tcp", "udp", "tls"]
                .iter()
                .any(|key| name.eq_ignore_ascii_case(key));
            let target = if is_dynamic {
                &mut dynamic
            } else {
                &mut statics
            };
            target.insert(name.to_owned(), node.clone());
        }
        if dynamic.iter().next().is_some() {
            self.dynamic += 1;
            let root = TraefikNode::new(&tree.place, TraefikValue::Map(dynamic));
            self.source.add(&root, "file", None, &mut self.report);
            self.unnamed.push(root);
        }
        if statics.iter().next().is_some() {
            self.add_statics(TraefikNode::new(&tree.place, TraefikValue::Map(statics)));
        }
        Ok(())
    }

    /// A service that several Compose files have is one container with all their labels.
    fn container(&mut self, container: compose::TraefikContainer) {
        let at = self.names.get(&container.name).copied();
        let known = at.and_then(|at| self.containers.get_mut(at));
        match known {
            Some(known) => {
                known.labels.merge(container.labels, &mut self.report);
                known.enabled = known.enabled.or(container.enabled);
                known.ports.extend(container.ports);
                known.ports.sort_unstable();
                known.ports.dedup();
            }
            None => {
                self.names
                    .insert(container.name.clone(), self.containers.len());
                self.containers.push(container);
            }
        }
    }

    fn add_statics(&mut self, tree: TraefikNode) {
        match &mut self.statics {
            Some(known) => known.merge(tree, &mut self.report),
            None => self.statics = Some(tree),
        }
    }

    /// The files that `providers.file` names.
    fn provided(&mut self) -> Result<(), ImportError> {
        let Some(provider) = self
            .statics
            .as_ref()
            .and_then(|root| root.at(&["providers", "file"]))
            .cloned()
        else {
            return Ok(());
        };
        for key in ["filename", "directory"] {
            let Some(node) = provider.field(key) else {
                continue;
            };
            let Some(text) = node.text().filter(|text| !text.is_empty()) else {
                node.set(&mut self.report, values::unreadable());
                continue;
            };
            let path = Path::new(text);
            let found: Vec<PathBuf> = match key {
                "filename" => vec![path.to_owned()],
                _ => ["*.yml", "*.yaml", "*.toml"]
                    .iter()
                    .flat_map(|kind| self.files.matching(&path.join(kind)))
                    .take(MAX_FILES)
                    .collect(),
            };
            let mut any = false;
            for path in found {
                if let Ok(text) = self.files.read(&path) {
                    any = true;
                    self.file(&path, &text)?;
                }
            }
            let verdict = match any || self.dynamic > 0 {
                true => Verdict::Converted,
                false => Verdict::not_supported(
                    "it is not there to be read",
                    Some("name it beside the other files of this import"),
                ),
            };
            node.set(&mut self.report, verdict);
        }
        Ok(())
    }

    fn finish(mut self) -> Imported {
        let mut draft = Draft::default();
        let root = self.statics.take().unwrap_or_else(|| {
            let place = Place {
                file: Path::new("").into(),
                line: 1,
            };
            TraefikNode::new(&place, TraefikValue::Empty)
        });
        let containers: Vec<Rc<_>> = std::mem::take(&mut self.containers)
            .into_iter()
            .map(Rc::new)
            .collect();
        for container in &containers {
            self.source.add(
                &container.labels,
                "docker",
                Some(container),
                &mut self.report,
            );
        }
        let mut statics = static_keys::read(&root, &mut draft.top, &mut self.report);
        ports(&mut statics, &mut draft, &mut self.report);
        for container in &containers {
            container_labels(container, &statics, &mut self.report);
        }
        self.own_metrics(&mut statics);
        let resolvers = acme::read(&root, &mut self.report);
        let mut services = services::TraefikServices::default();
        let routes = routers::read(
            &self.source,
            &mut statics,
            &mut services,
            &mut draft,
            &mut self.report,
        );
        if let Some(at) = &statics.metrics {
            let value = match routes.page_hosts.is_empty() {
                true => at.as_str().into(),
                false => DraftValue::Inline(vec![
                    ("at".to_owned(), at.as_str().into()),
                    ("hosts".to_owned(), routes.page_hosts.clone().into()),
                ]),
            };
            draft.top.set("metrics", value);
        }
        let tls = site_tls::tls(
            &self.source,
            &resolvers,
            &routes,
            &mut draft,
            &mut self.report,
        );
        sites::write(
            &self.source,
            &statics,
            &routes,
            &tls,
            &mut draft,
            &mut self.report,
        );
        relays::write(&self.source, &statics, &mut draft, &mut self.report);
        // Without a router nothing of Traefik's page is served.
        let insecure = root.at(&["api", "insecure"]).and_then(TraefikNode::flag) == Some(true);
        let page = match routes.page_hosts.is_empty() && !insecure {
            true => Verdict::Default,
            false => Verdict::differs("Lockgate's own live page is at the address of `metrics`"),
        };
        if let Some(api) = root.field("api") {
            api.set_own(&mut self.report, page.clone());
            if let Some(dashboard) = api.field("dashboard") {
                dashboard.set(&mut self.report, page);
            }
        }
        self.leftovers(&statics, &mut draft);
        for name in ["acme", "tls", "pool", "site", "tcp"] {
            if let Some(table) = draft.top.remove_table(name) {
                *draft.top.table(name) = table;
            }
        }
        preface(&containers, &root, &mut draft);
        Imported {
            draft,
            report: self.report,
        }
    }

    /// Metrics have an address of their own: not one of an entry point with routers.
    fn own_metrics(&self, statics: &mut statics::TraefikStatics) {
        let port = statics
            .metrics
            .as_deref()
            .and_then(|at| at.rsplit_once(':')?.1.parse::<u16>().ok());
        let entry = statics
            .entry_points
            .iter()
            .find(|entry| Some(entry.port) == port);
        let Some(name) = entry.map(|entry| entry.name.clone()) else {
            return;
        };
        let mut routers = self
            .source
            .routers
            .items
            .iter()
            .chain(&self.source.tcp_routers.items);
        let used = routers.any(|item| match item.node.field("entryPoints") {
            Some(names) => names
                .items()
                .iter()
                .any(|one| one.eq_ignore_ascii_case(&name)),
            None => name != "traefik",
        });
        if used {
            statics.metrics = Some(statics::PAGE.to_owned());
        }
    }

    /// What nothing has used.
    fn leftovers(&mut self, statics: &statics::TraefikStatics, draft: &mut Draft) {
        let left_out = Verdict::not_supported("its site is left out", None);
        for item in self
            .source
            .routers
            .items
            .iter()
            .chain(&self.source.tcp_routers.items)
        {
            item.node.mark_known(&["tls"], &mut self.report, &left_out);
        }
        for entry in &statics.entry_points {
            if let Some(tls) = &entry.tls {
                tls.mark_rest(&mut self.report, &Verdict::Converted);
            }
        }
        // Labels and dynamic files of which no router is in these files.
        // Without routers these files are a part of a configuration; with them, what none uses has no
        // effect in Traefik either.
        let routers = self.source.routers.items.len() + self.source.tcp_routers.items.len();
        let unused = match routers {
            0 => Verdict::not_supported(
                "no router in these files uses it",
                Some("import it together with the files of the routers"),
            ),
            _ => Verdict::Default,
        };
        for table in [
            &self.source.middlewares,
            &self.source.services,
            &self.source.transports,
            &self.source.tcp_services,
        ] {
            for item in &table.items {
                if !item
                    .node
                    .statement
                    .is_some_and(|statement| self.report.has_verdict(statement))
                {
                    let leaf = item.node.fields().next().is_none();
                    if leaf || item.node.statement.is_some() || item.container.is_some() {
                        item.node.mark_rest(&mut self.report, &unused);
                    }
                }
            }
        }
        for root in &self.unnamed {
            for wrong in root.field("http").and_then(|http| http.field("tls")).iter() {
                wrong.mark(
                    &mut self.report,
                    &Verdict::not_supported(
                        "Traefik has `tls` at the top, not in `http`",
                        Some("correct the source and import it again"),
                    ),
                );
            }
        }
        // A site with TLS is redirected to from plain HTTP, whether Traefik did so or not.
        let sites = draft.top.find_table("site");
        let implied =
            sites.is_some_and(|sites| sites.tables().any(|(name, _)| !name.contains(':')));
        let redirects = statics
            .entry_points
            .iter()
            .any(|entry| entry.port == statics.http_port);
        if implied && !redirects {
            for entry in statics
                .entry_points
                .iter()
                .filter(|entry| entry.port == statics.https_port)
            {
                if let Some(address) = entry.node.as_ref().and_then(|node| node.field("address")) {
                    address.set(
                        &mut self.report,
                        Verdict::differs(format!(
                            "Lockgate also listens on port {}, and redirects to this one",
                            statics.http_port
                        )),
                    );
                }
            }
        }
    }
}

/// The ports of sites without a port.
fn ports(statics: &mut statics::TraefikStatics, draft: &mut Draft, report: &mut ConversionReport) {
    statics.http_port = 80;
    statics.https_port = 443;
    if statics.entry_points.iter().any(|entry| entry.port == 443) {
        return;
    }
    let redirect = statics
        .entry_points
        .iter()
        .find(|entry| entry.redirect.is_some_and(|port| port > 0));
    let Some((from, to)) = redirect.and_then(|entry| Some((entry.port, entry.redirect?))) else {
        return;
    };
    // `:443` from inside a container, if its ports are published under other numbers.
    let secure: Vec<u16> = statics
        .entry_points
        .iter()
        .map(|entry| entry.port)
        .filter(|port| *port != from)
        .collect();
    let target = match (secure.contains(&to), secure.as_slice()) {
        (true, _) => to,
        (false, [one]) => {
            let entry = statics.entry_points.iter().find(|entry| entry.port == from);
            let node = entry.and_then(|entry| entry.node.as_ref());
            if let Some(node) =
                node.and_then(|node| node.at(&["http", "redirections", "entryPoint", "to"]))
            {
                node.set(
                    report,
                    Verdict::differs(format!(
                        "the redirect names port {one}, on which TLS is served here"
                    )),
                );
            }
            *one
        }
        _ => return,
    };
    statics.http_port = from;
    statics.https_port = target;
    let table = draft.top.table("ports");
    if from != 80 {
        table.set("http", i64::from(from));
    }
    if target != 443 {
        table.set("https", i64::from(target));
    }
    if table.is_empty() {
        draft.top.remove_table("ports");
    }
}

/// Labels of a container that are not about routers.
fn container_labels(
    container: &compose::TraefikContainer,
    statics: &statics::TraefikStatics,
    report: &mut ConversionReport,
) {
    let labels = &container.labels;
    let routers =
        labels.at(&["http", "routers"]).is_some() || labels.at(&["tcp", "routers"]).is_some();
    if let Some(enable) = labels.field("enable") {
        let enabled = container.enabled.unwrap_or(statics.exposed_by_default);
        let defines = labels.field("http").is_some()
            || labels.field("tcp").is_some()
            || labels.field("udp").is_some();
        let verdict = match (enabled, routers) {
            (true, false) if !defines || labels.at(&["http", "services"]).is_some() => {
                Verdict::not_supported(
                    "it has no router: Traefik makes one by its default rule",
                    Some("write a site with its host"),
                )
            }
            _ => Verdict::Converted,
        };
        enable.set(report, verdict);
    }
    for name in ["docker", "swarm"] {
        if let Some(node) = labels.field(name) {
            node.mark(report, &Verdict::Default);
        }
    }
    for name in ["frontend", "backend", "port", "protocol", "basic"] {
        if let Some(node) = labels.field(name) {
            node.mark(
                report,
                &Verdict::not_supported(
                    "it is a label of Traefik 1",
                    Some("bring the labels to version 2 first"),
                ),
            );
        }
    }
    if let Some(udp) = labels.field("udp") {
        udp.mark(
            report,
            &Verdict::not_supported("Lockgate does not relay UDP", None),
        );
    }
}

/// What holds for the whole file.
fn preface(containers: &[Rc<compose::TraefikContainer>], root: &TraefikNode, draft: &mut Draft) {
    if draft.top.find_table("site").is_none() && draft.top.find_table("tcp").is_none() {
        return;
    }
    if !containers.is_empty() {
        draft.preface.push(
            "Names of Compose services resolve only in containers on their networks.".to_owned(),
        );
    }
    if draft.top.find_table("site").is_some_and(proxies) {
        draft.preface.push(
            "An application has 60 s to begin its response; timeouts.response = \"off\" waits as long as Traefik."
                .to_owned(),
        );
    }
    let balanced = |pool: &DraftTable| {
        matches!(pool.get("endpoints"), Some(DraftValue::List(list)) if list.len() > 1)
            && pool.get("balance").is_none()
    };
    let pools = draft.top.find_table("pool");
    if pools.is_some_and(|pools| pools.tables().any(|(_, pool)| balanced(pool))) {
        draft.preface.push(
            "The less busy of two endpoints gets a request; balance = \"round-robin\" in a pool takes them in turn, as Traefik does."
                .to_owned(),
        );
    }
    if root.field("entryPoints").is_some() && root.field("accessLog").is_none() {
        draft.preface.push(
            "Traefik wrote no access log; Lockgate writes one: access_log = false".to_owned(),
        );
    }
}

/// Whether requests go to applications.
fn proxies(table: &DraftTable) -> bool {
    table.get("proxy").is_some() || table.tables().any(|(_, table)| proxies(table))
}

/// A text in which each `{{ env "NAME" }}` is an unknown value.
fn without_variables(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let inner = after
            .split_once("}}")
            .filter(|(inner, _)| inner.len() < 200);
        let name = inner.and_then(|(inner, _)| {
            let inner = inner
                .trim()
                .trim_matches('-')
                .trim()
                .strip_prefix("env")?
                .trim();
            let name = inner.trim_matches(['"', '`', '\'']);
            (!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
                .then_some(name)
        });
        match (name, inner) {
            (Some(name), Some((_, after))) => {
                // The marks themselves would be taken for text of the file.
                out.push_str("${env:");
                out.push_str(name);
                out.push('}');
                rest = after;
            }
            _ => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
