//! `[[test]]`: requests with what is expected of the configuration, run by `check`.

use lockgate_testkit::{Folder, RunResult};

use crate::scene::{lockgate, text};

const SITES: &str = "[site.\":8080\"]\nproxy = \"10.0.0.1:80\"\n\
     [site.\":8080\".path.\"/api/*\"]\nproxy = \"pool:api\"\nstrip_prefix = true\n\
     request_headers = { x-new = \"{path}\", accept = false }\n\
     [site.\":8080\".path.\"POST /api/{id}\"]\nredirect = \"/new/{id}\"\n\
     [site.\":8080\".path.\"/inner/*\"]\nroot = \"/\"\nallow = [\"10.0.0.0/8\"]\n\
     [pool.api]\nendpoints = [\"10.0.0.2:80\", { addr = \"10.0.0.3:80\", backup = true }]\n";

fn check(toml: &str) -> RunResult {
    let folder = Folder::new();
    let file = text(&folder.write("lockgate.toml", toml));
    lockgate().run(&["check", "-c", &file])
}

/// The messages of a check of one test, without what is around them.
fn failures(test: &str) -> Vec<String> {
    let ended = check(&format!("{SITES}[[test]]\n{test}\n"));
    let failed = |line: &str| Some(line.split_once("]: this test fails: ")?.1.to_owned());
    let failed: Vec<_> = ended.stderr.lines().filter_map(failed).collect();
    assert_eq!(
        ended.code,
        Some(i32::from(!failed.is_empty())),
        "{}",
        ended.stderr
    );
    failed
}

#[test]
fn a_test_of_a_configuration_passes_where_all_is_as_expected() {
    for test in [
        "request = \"http://a.test:8080\"\nexpect = { site = \":8080\", route = \"/*\", \
         outcome = \"proxied\", endpoint = \"10.0.0.1:80\" }",
        "request = \"GET http://a.test:8080/api/7?x\"\nheaders = { accept = \"*/*\", Cookie = \"a=b\" }\n\
         expect = { route = \"/api/*\", pool = \"api\", endpoint = \"10.0.0.3:80\", target = \"/7?x\", \
         sent = { host = \"a.test:8080\", X-New = \"/api/7\", accept = false, cookie = \"a=b\" } }",
        "request = \"POST http://a.test:8080/api/7\"\nexpect = { route = \"POST /api/{id}\", \
         outcome = \"responded\", status = 308, location = \"/new/7\" }",
        "request = \"http://a.test:8080/inner/\"\nexpect = { outcome = \"refused\", status = 403 }",
        "request = \"http://a.test:8080/inner/\"\nfrom = \"10.0.0.1\"\nexpect = { outcome = \"files\" }",
        "request = \"http://a.test:8080/\"\nheaders = { Host = \"b.test\" }\n\
         expect = { sent = { host = \"b.test\" } }",
    ] {
        assert_eq!(failures(test), [""; 0], "{test}");
    }
}

#[test]
fn a_test_that_fails_says_what_is_there_instead() {
    let request = "request = \"POST http://a.test:8080/api/7\"";
    for (expected, message) in [
        ("status = 200", "the status is 308"),
        ("route = \"/api/*\"", "the route is POST /api/{id}"),
        ("site = \"a.test\"", "the site is :8080"),
        ("outcome = \"proxied\"", "the outcome is responded"),
        ("location = \"/new/8\"", "the Location is /new/7"),
        ("pool = \"api\"", "there is no pool"),
        ("target = \"/\"", "there is no target"),
        (
            "endpoint = \"10.0.0.2:80\"",
            "it is responded, and has no endpoint",
        ),
        (
            "sent = { accept = false }",
            "it is responded, and no endpoint gets fields",
        ),
    ] {
        let test = format!("{request}\nexpect = {{ {expected} }}");
        assert_eq!(failures(&test), [message], "{test}");
    }
    let request = "request = \"http://a.test:8080/api/7\"\nheaders = { x-a = \"1\" }";
    for (expected, message) in [
        ("pool = \"web\"", "the pool is api"),
        (
            "endpoint = \"10.0.0.1:80\"",
            "its endpoints are 10.0.0.2:80, 10.0.0.3:80",
        ),
        ("sent = { x-a = false }", "the field x-a is 1"),
        ("sent = { x-b = \"1\" }", "no field x-b is sent"),
        ("status = 200", "there is no status"),
    ] {
        let test = format!("{request}\nexpect = {{ {expected} }}");
        assert_eq!(failures(&test), [message], "{test}");
    }
    assert_eq!(
        failures("request = \"https://a.test/\"\nexpect = { status = 200 }"),
        ["nothing becomes of its request"]
    );
}

#[test]
fn tests_of_included_files_run_and_are_counted() {
    let folder = Folder::new();
    let one = "[[test]]\nrequest = \"http://a.test:8080/\"\nexpect = { route = \"/*\" }\n";
    folder.write("tests.toml", format!("{one}{one}"));
    let toml = format!("include = [\"tests.toml\"]\n{SITES}{one}");
    let file = text(&folder.write("lockgate.toml", &toml));
    let ended = lockgate().run(&["check", "-c", &file]);
    assert!(
        ended.stdout.ends_with("ok, 1 listener, 3 passed tests"),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
    folder.write("tests.toml", one.replace("/*", "/api/*"));
    let ended = lockgate().run(&["check", "-c", &file]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("tests.toml:3:"), "{}", ended.stderr);
}

#[test]
fn a_test_needs_a_request_and_an_expectation() {
    for (test, message) in [
        ("expect = { status = 200 }", "`request`"),
        ("request = \"http://a.test:8080/\"", "`expect`"),
        (
            "request = \"http://a.test:8080/\"\nexpect = {}",
            "this test expects nothing",
        ),
        (
            "request = \"/api\"\nexpect = { status = 200 }",
            "is not a request",
        ),
        (
            "request = \"http://a.test/\"\nheaders = { \"a b\" = \"c\" }\nexpect = { status = 200 }",
            "is not the name of a field",
        ),
    ] {
        let ended = check(&format!("{SITES}[[test]]\n{test}\n"));
        assert_eq!(ended.code, Some(1), "{test}");
        assert!(ended.stderr.contains(message), "{test}: {}", ended.stderr);
    }
}

#[test]
fn a_start_does_not_run_tests() {
    let gate = lockgate().start(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"here\"\n\
         [[test]]\nrequest = \"http://a.test:9/\"\nexpect = { status = 404 }\n",
    );
    assert_eq!(gate.stop().code, Some(0));
}
