//! The dashboards of Grafana: what their queries ask for is in `/metrics`, and in the bytes that
//! Graphite gets.
//!
//! Whether the queries mean something is for `.ci/suites/graphs/run`, which asks real servers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::docs::root;
use crate::observe::{everything, families, metric_names};

const PROMETHEUS: &str = "packaging/grafana/prometheus.json";
const GRAPHITE: &str = "packaging/grafana/graphite.json";

/// The label that Prometheus itself gives each series.
const INSTANCE: &str = "instance";

fn dashboard(file: &str) -> Value {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The panels of a dashboard that are no headings.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = dashboard["panels"].as_array().unwrap();
    panels.iter().filter(|panel| panel["type"] != "row")
}

/// The queries of all panels, in `field` of each target.
fn queries<'a>(dashboard: &'a Value, field: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let targets = panels(dashboard).flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(move |target| (target[field].as_str().unwrap(), target))
}

/// The texts in `text` between `open` and the next `close`.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    let after = text.split(open).skip(1);
    after.filter_map(move |rest| Some(rest.split_once(close)?.0))
}

#[test]
fn both_dashboards_have_the_same_panels_with_queries_in_each() {
    let mut titles = Vec::new();
    for (file, field) in [(PROMETHEUS, "expr"), (GRAPHITE, "target")] {
        let dashboard = dashboard(file);
        let mut ids = BTreeSet::new();
        for panel in panels(&dashboard) {
            let title = &panel["title"];
            let id = panel["id"].as_u64().unwrap();
            assert!(ids.insert(id), "{file}: {title} has the id of another");
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty(), "{file}: {title} has no query");
            for target in targets {
                let query = target[field].as_str();
                assert!(
                    query.is_some_and(|query| !query.is_empty()),
                    "{file}: {title}"
                );
                assert_eq!(
                    target["datasource"]["uid"], "${datasource}",
                    "{file}: {title}"
                );
            }
        }
        assert!(ids.len() >= 8, "{file}: {} panels", ids.len());
        titles.push(
            panels(&dashboard)
                .map(|panel| panel["title"].clone())
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(titles[0], titles[1]);
}

/// The labels that a query of Prometheus and its legend name.
fn labels<'a>(query: &'a str, legend: &'a str) -> BTreeSet<&'a str> {
    let matched = between(query, "{", '}').flat_map(|matchers| matchers.split(','));
    let matched = matched.filter_map(|matcher| matcher.split(['=', '!']).next());
    let grouped = between(query, "by (", ')').flat_map(|labels| labels.split(','));
    let shown = between(legend, "{{", '}');
    matched.chain(grouped).chain(shown).map(str::trim).collect()
}

#[test]
fn the_prometheus_dashboard_queries_existing_metrics_and_labels() {
    let (gate, _graphite, _peers) = everything();
    let mut exposed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, labels, _) in families(&gate)
        .into_iter()
        .flat_map(|family| family.samples)
    {
        let known = exposed.entry(name).or_default();
        known.extend(labels.into_iter().map(|(label, _)| label));
    }
    let dashboard = dashboard(PROMETHEUS);
    let mut asked = 0;
    for (query, target) in queries(&dashboard, "expr") {
        let names = metric_names(query);
        assert!(!names.is_empty(), "{query} asks for nothing");
        for name in names {
            let known = exposed.get(name);
            let known = known.unwrap_or_else(|| panic!("{query}: there is no {name}"));
            for label in labels(query, target["legendFormat"].as_str().unwrap()) {
                assert!(
                    label == INSTANCE || known.contains(label),
                    "{query}: {name} has no label {label}"
                );
                asked += 1;
            }
        }
    }
    assert!(asked > 40, "{asked} labels");
}

/// The paths that a query of Graphite asks for, with `lockgate` for the prefix.
fn paths(query: &str) -> Vec<String> {
    let is_end = |c: char| "(),'\"".contains(c);
    let query = query.replace("$prefix", "lockgate");
    let mut paths: Vec<String> = query
        .split(is_end)
        .filter(|word| word.starts_with("lockgate."))
        .map(str::to_owned)
        .collect();
    // `applyByNode(PATH,NODE,'QUERY','%')` asks QUERY with the path up to the node, which may be
    // counted from its end, for each `%`.
    if let Some((_, call)) = query.split_once("applyByNode(") {
        let mut arguments = call.splitn(3, ',');
        let path: Vec<_> = arguments.next().unwrap().split('.').collect();
        let node: isize = arguments.next().unwrap().parse().unwrap();
        let length = if node < 0 {
            path.len() - (-1 - node) as usize
        } else {
            path.len().min(node as usize + 1)
        };
        let (inner, _) = arguments.next().unwrap().split_once(",'%'").unwrap();
        let upto = path[..length].join(".");
        let after = inner.split('%').skip(1);
        paths.extend(after.map(|rest| format!("{upto}{}", rest.split(is_end).next().unwrap())));
    }
    paths
}

/// Whether a path, in which `*` is one part, is that of a series.
fn is_of(path: &str, series: &str) -> bool {
    let parts = |text: &str| text.split('.').count();
    let mut pairs = path.split('.').zip(series.split('.'));
    parts(path) == parts(series) && pairs.all(|(asked, part)| asked == "*" || asked == part)
}

#[test]
fn paths_of_a_query_are_those_of_its_templates_too() {
    for (query, expected) in [
        ("sumSeries($prefix.a.*.b)", &["lockgate.a.*.b"][..]),
        (
            "diffSeries($prefix.a,alias($prefix.b,'x y'))",
            &["lockgate.a", "lockgate.b"],
        ),
        (
            "aliasByNode(applyByNode($prefix.a.le.*.b._Inf,-3,'minSeries(%.b.1,%.b.2)','%'),-3)",
            &[
                "lockgate.a.le.*.b._Inf",
                "lockgate.a.le.*.b.1",
                "lockgate.a.le.*.b.2",
            ],
        ),
        (
            "applyByNode($prefix.a.*,99,'diffSeries(%,timeFunction(\"t\",10))','%')",
            &["lockgate.a.*", "lockgate.a.*"],
        ),
    ] {
        assert_eq!(paths(query), expected, "{query}");
    }
}

#[test]
fn the_graphite_dashboard_asks_for_paths_that_are_pushed() {
    let (gate, graphite, _peers) = everything();
    families(&gate);
    gate.stop();
    let pushed = String::from_utf8(graphite.accept().rest()).unwrap();
    let series: BTreeSet<&str> = pushed
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let dashboard = dashboard(GRAPHITE);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let default = |name: &str| {
        let variable = variables.iter().find(|variable| variable["name"] == name);
        variable.unwrap()["query"].clone()
    };
    assert_eq!(default("prefix"), "lockgate");
    assert_eq!(default("datasource"), "graphite");
    let mut asked = 0;
    for (query, _) in queries(&dashboard, "target") {
        let paths = paths(query);
        assert!(!paths.is_empty(), "{query} asks for nothing");
        for path in paths {
            assert!(
                series.iter().any(|series| is_of(&path, series)),
                "{query}: nothing is pushed as {path}"
            );
            asked += 1;
        }
    }
    assert!(asked > 100, "{asked} paths");
}
