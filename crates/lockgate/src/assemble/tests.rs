//! A second assembly beside a running one: what the two share after each change.

use std::fs;

use lockgate_config::parse_str;
use lockgate_proxy::action::forward_proxy::Connect;
use lockgate_proxy::files::Files;
use lockgate_proxy::shaping::Shape;
use lockgate_proxy::site::{Auth, RequestLimit};
use lockgate_testkit::{Authority, Folder};

use super::*;

/// A configuration with something of everything that a second assembly may share.
const RUNNING: &str = r#"
[site."a.test:8080"]
proxy = "pool:app"
limit = "20/s"
auth = { basic = "users" }
shape = { total = "1MB/s" }

[site."a.test:8080".path."/inherits/*"]

[site."a.test:8080".path."/own/*"]
limit = "5/s"

[site."b.test:8080"]
root = "www"

[pool.app]
endpoints = [{ addr = "10.0.0.1:80", weight = 3 }, "10.0.0.2:80", "app.internal:80"]
health = "/health"

[pool.tls]
endpoints = ["10.0.1.1:443"]
tls = { ca = "ca.pem", name = "app.internal" }

[tcp.":9000"]
proxy = "pool:tls"
shape = { total = "2MB/s" }

[tunnel.":3128"]
clients = ["10.0.0.0/8"]
auth = { basic = "users" }
limit = "7/s"
max_per_client = 10
max_per_user = 20
shape = { total = "3MB/s" }
"#;

/// What of the running assembly a second one shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SharedParts {
    /// The pool `app`, its first endpoint, and the same of `tls`.
    app: [bool; 2],
    tls: [bool; 2],
    connector: bool,
    /// The limits of the route of `a.test` itself, of the one that inherits it, of the one with its
    /// own.
    limits: [bool; 3],
    /// The shapes of a site, a relay, a tunnel.
    shapes: [bool; 3],
    users: bool,
    files: bool,
    /// The names of tunnels, their count of each client, and of each user.
    tunnels: [bool; 3],
}

const ALL: SharedParts = SharedParts {
    app: [true; 2],
    tls: [true; 2],
    connector: true,
    limits: [true; 3],
    shapes: [true; 3],
    users: true,
    files: true,
    tunnels: [true; 3],
};

/// A folder with the files that the configurations name.
struct Setting(Folder);

impl Setting {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("ca.pem", Authority::new("ca").pem());
        folder.write("users", USERS);
        for served in ["www", "other"] {
            fs::create_dir(folder.path(served)).unwrap();
        }
        Self(folder)
    }

    fn assemble(&self, text: &str, previous: Option<&Assembly>) -> Result<Assembly, Report> {
        let loaded = parse_str(text, &self.0.path("lockgate.toml"))?;
        let mut report = Report::new();
        let previous = Previous {
            assembly: previous,
            ..Previous::default()
        };
        let assembly = assemble(&loaded.config, ReadAccess::AsStart, previous, &mut report);
        assembly.ok_or(report)
    }
}

const USERS: &str = "alice:$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m\n";

impl Assembly {
    fn route(&self, site: &str, route: &str) -> Option<&Route> {
        let sites = self.listeners.iter().filter_map(|one| one.listener.sites());
        let mut found = sites.filter_map(|table| {
            let at = table.sites.iter().position(|known| known.name == site)?;
            let site = lockgate_proxy::route::ListenerSiteIndex::new(at);
            let path = if route.is_empty() { "/" } else { route };
            let matched = table.router.route(site, b"GET", path.as_bytes());
            Some(table.route(matched.ok()?.route))
        });
        found.next()
    }

    fn pool(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| pool.settings.name == name)
    }

    fn limit(&self, site: &str, route: &str) -> Option<&RequestLimit> {
        self.route(site, route)?.admission.limit.as_deref()
    }

    fn served_files(&self, site: &str) -> Option<&Arc<Files>> {
        match &self.route(site, "")?.action {
            Action::Files(files) => Some(files),
            _ => None,
        }
    }

    fn connect(&self) -> Option<&Connect> {
        match &self.route(":3128", "")?.action {
            Action::Connect(connect) => Some(connect),
            _ => None,
        }
    }

    fn shape(&self, site: &str) -> Option<&Arc<Shape>> {
        self.route(site, "")?.rules.shape.as_ref()
    }

    fn relay_shape(&self) -> Option<&Arc<Shape>> {
        self.listeners
            .iter()
            .find_map(|planned| match &planned.listener.service {
                ListenerService::Relay(relay) => relay.shape.as_ref(),
                _ => None,
            })
    }

    fn users(&self) -> Option<&Arc<PasswordFile>> {
        match self.route("a.test:8080", "")?.admission.auth.as_ref()? {
            Auth::Basic(basic) => Some(&basic.checker),
            Auth::Forward(_) => None,
        }
    }
}

/// Whether both have it, and it is the same.
fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    one.zip(other)
        .is_some_and(|(one, other)| Arc::ptr_eq(one, other))
}

fn is_same_limit(one: Option<&RequestLimit>, other: Option<&RequestLimit>) -> bool {
    one.zip(other)
        .is_some_and(|(one, other)| one.limit.shares_buckets(&other.limit))
}

fn shared(one: &Assembly, other: &Assembly) -> SharedParts {
    let pool = |name| {
        let endpoint = |assembly: &'_ Assembly| {
            let pool = assembly.pool(name)?;
            Some(Arc::clone(pool.members().first()?.endpoint()))
        };
        [
            is_same(one.pool(name), other.pool(name)),
            is_same(endpoint(one).as_ref(), endpoint(other).as_ref()),
        ]
    };
    let connector = |assembly: &'_ Assembly| assembly.pool("tls")?.tls.clone();
    let limit = |route| {
        let site = "a.test:8080";
        is_same_limit(one.limit(site, route), other.limit(site, route))
    };
    let shape = |site| is_same(one.shape(site), other.shape(site));
    let tunnels = one.connect().zip(other.connect());
    let tunnels = tunnels.map(|(one, other)| {
        [
            Arc::ptr_eq(&one.names, &other.names) && Arc::ptr_eq(&one.look_ups, &other.look_ups),
            is_same(one.per_client.as_ref(), other.per_client.as_ref()),
            is_same(one.per_user.as_ref(), other.per_user.as_ref()),
        ]
    });
    let files = is_same(
        one.served_files("b.test:8080"),
        other.served_files("b.test:8080"),
    );
    SharedParts {
        app: pool("app"),
        tls: pool("tls"),
        connector: is_same(connector(one).as_ref(), connector(other).as_ref()),
        limits: ["", "/inherits/x", "/own/x"].map(limit),
        shapes: [
            shape("a.test:8080"),
            is_same(one.relay_shape(), other.relay_shape()),
            shape(":3128"),
        ],
        users: is_same(one.users(), other.users()),
        files,
        tunnels: tunnels.unwrap_or_default(),
    }
}

/// The sites in the other order.
fn reordered(text: &str) -> String {
    let (a, b) = (
        text.find("[site.\"a.test").unwrap(),
        text.find("[site.\"b.test").unwrap(),
    );
    let end = text.find("[pool.app]").unwrap();
    format!(
        "{}{}{}{}",
        &text[..a],
        &text[b..end],
        &text[a..b],
        &text[end..]
    )
}

#[test]
fn a_reload_keeps_the_state_of_all_that_did_not_change() {
    let replaced = |old: &str, new: &str| {
        assert!(RUNNING.contains(old), "{old}");
        RUNNING.replace(old, new)
    };
    let cases = [
        ("nothing", RUNNING.to_owned(), ALL),
        ("a line above all", format!("# one more\n{RUNNING}"), ALL),
        ("the order of sites", reordered(RUNNING), ALL),
        (
            "a route more",
            replaced(
                "[site.\"b.test:8080\"]",
                "[site.\"a.test:8080\".path.\"/new\"]\n[site.\"b.test:8080\"]",
            ),
            ALL,
        ),
        (
            "a weight",
            replaced("weight = 3", "weight = 4"),
            SharedParts {
                app: [false, true],
                ..ALL
            },
        ),
        (
            "the largest number of connections of an endpoint",
            replaced("weight = 3", "weight = 3, max = 5"),
            SharedParts {
                app: [false, true],
                ..ALL
            },
        ),
        (
            "an endpoint more",
            replaced(
                "\"app.internal:80\"]",
                "\"app.internal:80\", \"10.0.0.3:80\"]",
            ),
            SharedParts {
                app: [false, true],
                ..ALL
            },
        ),
        (
            "an endpoint less",
            replaced("{ addr = \"10.0.0.1:80\", weight = 3 }, ", ""),
            SharedParts {
                app: [false; 2],
                ..ALL
            },
        ),
        (
            "the name of TLS to endpoints",
            replaced("name = \"app.internal\"", "name = \"tls.internal\""),
            SharedParts {
                tls: [false, true],
                connector: false,
                ..ALL
            },
        ),
        (
            "the name of a pool",
            RUNNING
                .replace("pool:app", "pool:web")
                .replace("[pool.app]", "[pool.web]"),
            SharedParts {
                app: [false; 2],
                ..ALL
            },
        ),
        (
            "the limit of a site",
            replaced("limit = \"20/s\"", "limit = \"21/s\""),
            SharedParts {
                limits: [false, false, true],
                ..ALL
            },
        ),
        (
            "the limit of a route gone, so that it inherits",
            replaced("limit = \"5/s\"\n", ""),
            SharedParts {
                limits: [true, true, false],
                ..ALL
            },
        ),
        (
            "the rate of a relay",
            replaced("2MB/s", "4MB/s"),
            SharedParts {
                shapes: [true, false, true],
                ..ALL
            },
        ),
        (
            "the rate of a tunnel and its number for each client",
            RUNNING
                .replace("3MB/s", "4MB/s")
                .replace("max_per_client = 10", "max_per_client = 11"),
            SharedParts {
                shapes: [true, true, false],
                ..ALL
            },
        ),
        (
            "the root of a site",
            replaced("root = \"www\"", "root = \"other\""),
            SharedParts {
                files: false,
                ..ALL
            },
        ),
        (
            "the caching of its files",
            replaced("root = \"www\"", "root = \"www\"\ncache = \"1h\""),
            SharedParts {
                files: false,
                ..ALL
            },
        ),
    ];
    let setting = Setting::new();
    let running = setting.assemble(RUNNING, None).unwrap();
    for (change, text, expected) in cases {
        let next = setting.assemble(&text, Some(&running)).expect(change);
        assert_eq!(shared(&running, &next), expected, "{change}");
    }
}

#[test]
fn a_reload_with_a_mistake_leaves_the_running_state_alone() {
    let setting = Setting::new();
    let running = setting.assemble(RUNNING, None).unwrap();
    let app = Arc::clone(running.pool("app").unwrap());
    let before = Arc::strong_count(&app);
    for (file, text) in [("users", "alice:secret\n"), ("ca.pem", "no certificate\n")] {
        let whole = fs::read(setting.0.path(file)).unwrap();
        setting.0.write(file, text);
        let report = setting.assemble(RUNNING, Some(&running)).err().unwrap();
        assert!(
            report.has_errors() && report.to_string().contains(file),
            "{report}"
        );
        setting.0.write(file, whole);
    }
    assert_eq!(Arc::strong_count(&app), before, "nothing is left of them");
    let next = setting.assemble(RUNNING, Some(&running)).unwrap();
    assert_eq!(shared(&running, &next), ALL);
}

#[test]
fn a_changed_pool_takes_over_health_with_the_commit() {
    let setting = Setting::new();
    let running = setting.assemble(RUNNING, None).unwrap();
    let members = |assembly: &Assembly| -> Vec<bool> {
        let members = assembly.pool("app").unwrap().members().iter();
        members.map(lockgate_upstream::Member::is_up).collect()
    };
    let text = RUNNING
        .replace("weight = 3", "weight = 4")
        .replace("\"10.0.0.2:80\", ", "\"10.0.0.9:80\", \"10.0.0.2:80\", ");
    let mut next = setting.assemble(&text, Some(&running)).unwrap();
    // Found after the assembly.
    running.pool("app").unwrap().members()[1].mark_down();
    assert_eq!(members(&next), [true; 4]);
    next.commit();
    assert_eq!(members(&next), [true, true, false, true]);
    let without_checks = text.replace("health = \"/health\"", "");
    let mut next = setting.assemble(&without_checks, Some(&running)).unwrap();
    next.commit();
    assert_eq!(members(&next), [true; 4]);
    let pool = Arc::downgrade(running.pool("app").unwrap());
    drop(running);
    assert!(pool.upgrade().is_none(), "nothing keeps the earlier pool");
}

#[test]
fn a_reload_shares_rate_limits_as_a_start_does() {
    let (site, inherits) = ("a.test:8080", "/inherits/x");
    let setting = Setting::new();
    let running = setting.assemble(RUNNING, None).unwrap();
    let shares = |one: &Assembly, route, other: &Assembly, beside| {
        is_same_limit(one.limit(site, route), other.limit(site, beside))
    };
    assert!(shares(&running, "", &running, inherits));
    // The same number, written again: it is a limit of its own.
    let own = RUNNING.replace("/inherits/*\"]", "/inherits/*\"]\nlimit = \"20/s\"");
    let apart = setting.assemble(&own, Some(&running)).unwrap();
    assert!(!shares(&apart, "", &apart, inherits));
    let kept = ["", inherits].map(|route| shares(&apart, route, &running, route));
    assert_eq!(kept.into_iter().filter(|kept| *kept).count(), 1);
    // Shared again, with the buckets of one of them.
    let together = setting.assemble(RUNNING, Some(&apart)).unwrap();
    assert!(shares(&together, "", &together, inherits));
    let kept = ["", inherits].map(|route| shares(&together, route, &apart, route));
    assert_eq!(kept.into_iter().filter(|kept| *kept).count(), 1);
    // A route that comes before the others does not take their buckets away.
    let before = RUNNING.replace(
        "[site.\"a.test:8080\".path.\"/inherits/*\"]",
        "[site.\"a.test:8080\".path.\"/a/*\"]\n[site.\"a.test:8080\".path.\"/inherits/*\"]",
    );
    let more = setting.assemble(&before, Some(&running)).unwrap();
    assert!(shares(&more, "/a/x", &running, ""));
}

#[test]
fn pools_with_equal_tls_settings_share_a_connector() {
    let setting = Setting::new();
    let text = RUNNING.replace(
        "[tcp.",
        "[pool.more]\nendpoints = [\"10.0.2.1:443\"]\ntls = { ca = \"ca.pem\", name = \"app.internal\" }\n\
         [tcp.\":9001\"]\nproxy = \"pool:more\"\n[tcp.",
    );
    let running = setting.assemble(&text, None).unwrap();
    let tls = |assembly: &Assembly, pool: &str| assembly.pool(pool).unwrap().tls.clone();
    assert!(is_same(
        tls(&running, "tls").as_ref(),
        tls(&running, "more").as_ref()
    ));
    assert_eq!(running.connectors.len(), 1);
    let other = text.replacen("name = \"app.internal\"", "name = \"other.internal\"", 1);
    let next = setting.assemble(&other, Some(&running)).unwrap();
    assert!(!is_same(
        tls(&next, "tls").as_ref(),
        tls(&next, "more").as_ref()
    ));
    assert_eq!(next.connectors.len(), 2);
}

#[test]
fn sinks_with_the_same_authorities_share_a_connector_over_reloads() {
    let setting = Setting::new();
    let text = "[export]\n\
        influx = [{ url = \"https://10.0.0.9/write\", ca = \"ca.pem\" }, \"http://10.0.0.9/write\"]\n\
        otlp = { url = \"https://10.0.0.9\", ca = \"ca.pem\" }\n\
        [tcp.\":9000\"]\nproxy = \"10.0.0.1:80\"\n";
    let running = setting.assemble(text, None).unwrap();
    assert_eq!(running.sink_connectors.len(), 1);
    let files = running.files();
    assert!(
        files.len() == 1 && files[0].ends_with("ca.pem"),
        "{files:?}"
    );
    let next = setting.assemble(text, Some(&running)).unwrap();
    let connector = |assembly: &Assembly| assembly.sink_connectors.values().next().cloned();
    assert!(is_same(
        connector(&running).as_ref(),
        connector(&next).as_ref()
    ));
}

#[test]
fn sockets_stay_with_listeners_of_the_same_address() {
    let setting = Setting::new();
    let listeners = |tables: &[(&str, &str)]| {
        let table = |(name, listen): &(&str, &str)| {
            format!("[tcp.\"{name}\"]\nproxy = \"10.0.0.1:{listen}\"\n")
        };
        let text: String = tables.iter().map(table).collect();
        setting.assemble(&text, None).unwrap()
    };
    let running = listeners(&[(":80", "1"), ("127.0.0.1:80", "1"), ("unix:/a", "1")]);
    let next = listeners(&[
        ("unix:/a", "2"),
        (":81", "1"),
        (":80", "2"),
        ("unix:/b", "1"),
    ]);
    let same = |next: &Assembly, running: &Assembly| -> Vec<_> {
        let same = next.same_addresses(running).into_iter();
        same.map(|index| index.map(ListenerIndex::get)).collect()
    };
    let names = |assembly: &Assembly| -> Vec<String> {
        let listeners = assembly.listeners.iter();
        listeners
            .map(|planned| planned.listener.name.clone())
            .collect()
    };
    let expected: Vec<_> = names(&next)
        .iter()
        .map(|name| names(&running).iter().position(|known| known == name))
        .collect();
    assert_eq!(same(&next, &running), expected);
    assert_eq!(expected.iter().flatten().count(), 2);
}

#[test]
fn listeners_with_port_0_keep_their_sockets_by_name() {
    let setting = Setting::new();
    let assembled = |tables: &[&str]| {
        let table = |table: &&str| format!("[{table}]\nproxy = \"10.0.0.1:1\"\n");
        let text: String = tables.iter().map(table).collect();
        setting.assemble(&text, None).unwrap()
    };
    let both = assembled(&["tcp.\"127.0.0.1:0\"", "site.\"a.test:0\""]);
    let mut listen = both.listeners;
    let names: Vec<_> = listen
        .iter()
        .map(|planned| planned.listener.name.clone())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    // As if all were on one address.
    let address = listen[0].address.clone();
    listen[1].address = address.clone();
    let both = Assembly {
        listeners: listen,
        ..assembled(&["tcp.\":1\""])
    };
    let mut one = assembled(&["site.\"a.test:0\""]);
    one.listeners[0].address = address;
    assert_eq!(one.same_addresses(&both), [Some(ListenerIndex::new(1))]);
    let mut other = assembled(&["tcp.\":1\""]);
    other.listeners[0].address = one.listeners[0].address.clone();
    assert_eq!(
        other.same_addresses(&both),
        [Some(ListenerIndex::new(0))],
        "the first in order"
    );
}
