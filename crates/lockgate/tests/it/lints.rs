//! Lints of `check`: each beside a configuration that it must leave alone.

use lockgate_testkit::Folder;
use serde_json::Value;

use crate::scene::{lockgate, text};

/// The codes and messages of a check without errors.
fn warnings(toml: &str) -> Vec<(String, String)> {
    let folder = Folder::new();
    folder.write(
        "users",
        "me:$2y$04$abcdefghijklmnopqrstuuW1EBwDgxLCcVJ1fEhCcJtoV3iyEz8nm\n",
    );
    let file = text(&folder.write("lockgate.toml", toml));
    let ended = lockgate().run(&["check", "--json", "-c", &file]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    let all = said["report"]["diagnostics"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    all.map(|one| (word(&one["code"]), word(&one["message"])))
        .collect()
}

#[track_caller]
fn lint(code: &str, message: &str, found: &[&str], left_alone: &[&str]) {
    for toml in found {
        let warnings = warnings(toml);
        assert_eq!(warnings.len(), 1, "{toml}: {warnings:?}");
        let (found, said) = &warnings[0];
        assert_eq!((&**found, &**said), (code, message), "{toml}");
    }
    for toml in left_alone {
        assert_eq!(warnings(toml), [], "{toml}");
    }
}

#[test]
fn passwords_over_plain_http_are_a_lint() {
    let site = |key: &str, more: &str| {
        format!("{more}[site.\"{key}\"]\nrespond = \"x\"\nauth = {{ basic = \"users\" }}\n")
    };
    lint(
        "W0113",
        "passwords are sent unencrypted",
        &[
            &site(":8080", ""),
            &site("a.test:8080", ""),
            &format!(
                "{}listen = [\"0.0.0.0\", \"127.0.0.1\"]\n",
                site(":8080", "")
            ),
            "[site.\":8080\"]\nrespond = \"x\"\n[site.\":8080\".path.\"/in/*\"]\nrespond = \"y\"\n\
             auth = { basic = \"users\" }\n",
        ],
        &[
            &format!(
                "{}tls = \"internal\"\n",
                site("a.test:8443", "state = \"state\"\n")
            ),
            &format!("{}listen = [\"127.0.0.1\"]\n", site(":8080", "")),
            &site("unix:/tmp/lockgate-lint.sock", ""),
            &site(":8080", "trusted = [\"10.0.0.0/8\"]\n"),
            "[site.\":8080\"]\nrespond = \"x\"\n",
        ],
    );
}

#[test]
fn a_path_that_is_guarded_without_its_slash_is_a_lint() {
    let site = |path: &str, guard: &str, more: &str| {
        format!(
            "[site.\":8080\"]\nproxy = \"127.0.0.1:9\"\n{more}\
             [site.\":8080\".path.\"{path}\"]\nproxy = \"127.0.0.1:9\"\n{guard}\n"
        )
    };
    let allow = "allow = [\"10.0.0.0/8\"]";
    lint(
        "W0114",
        "/admin is guarded, and /admin/ is not",
        &[
            &site("/admin", allow, ""),
            &site("/admin", "deny = [\"10.0.0.0/8\"]", ""),
            &site("POST /admin", allow, ""),
            &site(
                "/admin",
                allow,
                "[site.\":8080\".path.\"/admin/*\"]\nroot = \"/\"\n",
            ),
        ],
        &[
            &site("/admin/*", allow, ""),
            &site("/admin", "strip_prefix = false", ""),
            &site("/admin", allow, &format!("{allow}\n")),
            &site(
                "/admin",
                allow,
                "[site.\":8080\".path.\"/admin/\"]\nrespond = 404\n",
            ),
            &format!("[site.\":8080\".path.\"/admin\"]\nproxy = \"127.0.0.1:9\"\n{allow}\n"),
        ],
    );
    lint(
        "W0114",
        "/u/{id}/edit/ is guarded, and /u/x/edit is not",
        &[&site("/u/{id}/edit/", allow, "")],
        &[],
    );
}

#[test]
fn a_redirect_without_an_end_is_a_lint() {
    lint(
        "W0115",
        "this redirect has no end",
        &[
            "[site.\"a.test:8080\"]\nredirect = \"http://a.test:8080{path}\"\n",
            "[site.\":8080\"]\nrespond = \"x\"\n[site.\":8080\".path.\"/old/*\"]\nredirect = \"/old/new/{*}\"\n",
            "[site.\":8080\"]\nrespond = \"x\"\n[site.\":8080\".path.\"/u/{id}\"]\nredirect = \"/u/{id}\"\n",
        ],
        &[
            "[site.\"a.test:8080\"]\nredirect = \"http://b.test:8080{path}\"\n",
            "[site.\"a.test:8080\"]\nredirect = \"http://b.test:8080{path}\"\n\
             [site.\"b.test:8080\"]\nrespond = \"x\"\n",
            "[site.\":8080\"]\nrespond = \"x\"\n[site.\":8080\".path.\"/old/*\"]\nredirect = \"/new/{*}\"\n",
            "[site.\":8080\"]\nrespond = \"x\"\n[site.\":8080\".path.\"/old/*\"]\nredirect = \"/old/new/{*}\"\n\
             [site.\":8080\".path.\"/old/new/*\"]\nrespond = \"y\"\n",
        ],
    );
    // Both of a pair lead back.
    let pair = "[site.\"a.test:8080\"]\nredirect = \"http://b.test:8080{path}\"\n\
                [site.\"b.test:8080\"]\nredirect = \"http://a.test:8080{path}\"\n";
    let codes: Vec<_> = warnings(pair).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["W0115", "W0115"]);
}

#[test]
fn a_file_of_redirects_without_an_end_is_a_lint() {
    let folder = Folder::new();
    let site = |redirects: &str| {
        let map = text(&folder.write("map", redirects));
        format!(
            "[site.\":8080\"]\nrespond = \"x\"\nredirects = \"{map}\"\n[site.\":8080\".path.\"/a/*\"]\nrespond = \"y\"\n"
        )
    };
    for endless in ["/z /y\n/b /c\n/c /b\n", "/old/* /old/new/{*}\n"] {
        let found = warnings(&site(endless));
        let codes: Vec<_> = found.iter().map(|(code, _)| &**code).collect();
        assert_eq!(codes, ["W0115"], "{endless}");
        assert!(
            found
                .iter()
                .all(|(_, text)| text.contains("map has no end")),
            "{found:?}"
        );
    }
    assert_eq!(warnings(&site("/b /c\n/c /d\n/old/* /new/{*}\n")), []);
}

#[test]
fn a_check_that_no_endpoint_can_pass_is_a_lint() {
    let pool = |health: &str| {
        format!(
            "[site.\":8080\"]\nproxy = \"pool:app\"\n\
             [pool.app]\nendpoints = [\"127.0.0.1:9\"]\nhealth = {{ path = \"/\", {health} }}\n"
        )
    };
    lint(
        "W0116",
        "no endpoint can pass this pool's check",
        &[
            &pool("expect = \"100-199\""),
            &pool("method = \"HEAD\", body = \"ok\""),
            &pool("expect = [\"204\", \"304\"], body = \"ok\""),
        ],
        &[
            &pool("expect = \"100-299\""),
            &pool("method = \"HEAD\""),
            &pool("expect = [\"204\", \"200\"], body = \"ok\""),
            &pool("expect = \"204\""),
        ],
    );
}

#[test]
fn a_share_of_each_client_beyond_the_limit_of_all_is_a_lint() {
    let limits =
        |limits: &str| format!("limits = {{ {limits} }}\n[site.\":8080\"]\nrespond = \"x\"\n");
    lint(
        "W0003",
        "`per_client` has no effect",
        &[
            &limits("connections = 100, per_client = 100"),
            &limits("connections = 100, per_client = 101"),
        ],
        &[
            &limits("connections = 100, per_client = 99"),
            &limits("per_client = 100"),
        ],
    );
}

#[test]
fn a_filter_of_metrics_that_takes_none_is_a_lint() {
    let export = |filter: &str| {
        format!(
            "[export]\nstatsd = \"127.0.0.1:8125\"\n{filter}\n[site.\":8080\"]\nrespond = \"x\"\n"
        )
    };
    lint(
        "W0117",
        "no metric has a name that begins with \"lockgate_request_seconds\"",
        &[
            &export("only = [\"lockgate_request_seconds\", \"lockgate_requests\"]"),
            &export("except = [\"lockgate_request_seconds\"]"),
        ],
        &[&export(
            "only = [\"lockgate_request_\", \"lockgate_clients\"]\nexcept = [\"lockgate_request_bytes_total\"]",
        )],
    );
    lint(
        "W0117",
        "no metric has a name that begins with \"lockgate_request_duration_seconds_sum\"",
        &[&export(
            "only = [\"lockgate_request_duration_seconds_sum\"]",
        )],
        &[&export("only = [\"lockgate_request_duration_seconds\"]")],
    );
}
