//! Programs that would win without being better: the result says why they are not compared.

use serde_json::Value;

use lockgate_compare::cpus::Cpus;

use super::measurements::{compare, file, output_text};

/// Lockgate that answers; programs with another answer, with CPUs of others, with connections that
/// it closes.
const UNFAIR: &str = r#"
title = "An answer of 1000 bytes"
rounds = 2
[layout]
programs = "CPU"
others = "CPU"
[program.fair]
command = ["{lockgate}", "run", "-c", "{own}/program.toml"]
files."program.toml" = """ANSWER"""
[program.short]
command = ["{lockgate}", "run", "-c", "{own}/program.toml"]
files."program.toml" = """SHORT"""
[program.strays]
command = ["sh", "-c", "taskset -p -c 0-1023 $$ && exec \"$0\" run -c program.toml", "{lockgate}"]
files."program.toml" = """ANSWER"""
[load.some]
url = "http://127.0.0.1:{port}/"
args = "-c 2 -n 100"
"#;

/// The configuration of a program that answers with so many bytes.
fn answering(bytes: usize) -> String {
    let answer = "a".repeat(bytes);
    format!(
        "workers = 1\naccess_log = false\n[site.\":{{port}}\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"{answer}\"\n"
    )
}

fn unfair() -> String {
    UNFAIR
        .replace("ANSWER", &answering(1000))
        .replace("SHORT", &answering(10))
}

#[test]
fn compare_tells_other_work_and_programs_that_leave_their_cpus() {
    let folder = file(&unfair());
    let output = compare(folder.path(), &["--json", "c.json"]);
    let (stdout, stderr) = output_text(&output);
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let why = "fair and short did other work, and are not compared: \
               fair answered HTTP/1.1 200 of 1000 bytes, short answered HTTP/1.1 200 of 10 bytes";
    assert!(stdout.contains(why), "{stdout}");
    assert!(!stdout.contains("÷ short"), "{stdout}");
    let report = std::fs::read(folder.path().join("c.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let case = &report["cases"][0];
    let pairs = case["pairs"].as_array().unwrap();
    let unequal = pairs
        .iter()
        .find(|pair| pair["program"] == "fair" && pair["other"] == "short")
        .unwrap();
    assert_eq!(unequal["p50_us"]["median"], Value::Null);
    let round = &case["programs"][0]["rounds"][0];
    assert_eq!(round["answers"][0], "HTTP/1.1 200 of 1000 bytes");
    // 100 requests have a p99, and no p99.9 that differs from the maximum.
    assert!(round["p99_us"].is_number(), "{round:#}");
    assert_eq!(round["p99_9_us"], Value::Null);
    assert!(!stdout.contains("p99.9"), "{stdout}");
    let has_others = (0..1024)
        .filter(|cpu| {
            cpu.to_string()
                .parse::<Cpus>()
                .unwrap()
                .missing()
                .is_empty()
        })
        .count()
        > 1;
    let told = stdout.contains("* strays: it has left its CPUs");
    assert_eq!(told, has_others, "{stdout}");
    assert!(!stdout.contains("* fair: it has left its CPUs"), "{stdout}");
}
