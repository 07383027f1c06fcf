//! The report as one JSON object.
//!
//! Keys keep their names and their meaning; new ones may come. A figure that cannot be had is
//! `null`.
//!
//! | key | |
//! |---|---|
//! | `command`, `targets` | words of the command line; targets as written |
//! | `model` | `"closed"` or `"open"`: whether latency counts from when a request was sent or was due |
//! | `connections`, `streams`, `threads`, `cpus`, `timeout_s` | how load was made; streams of each connection, `null` but for HTTP/2 |
//! | `began_unix_s` | when the first stage began, seconds since 1970 |
//! | `end` | `kind`: `"complete"`, `"interrupted"` or `"stopped"`; `status` of the answer that stopped it |
//! | `valid` | whether there is a stage and none is invalid |
//! | `uncounted` | requests before the first stage |
//! | `first` | the first answer of each target: `target`, `status`, `length_bytes`, `protocol`, `streams_allowed`, `tls` |
//! | `stages` | in their order, each as below |
//!
//! Of a stage:
//!
//! | key | |
//! |---|---|
//! | `round`, `name` | from 1 on; `"3000/s"` |
//! | `rate` | requests a second that were due, where there was one rate |
//! | `elapsed_s` | seconds |
//! | `succeeded`, `failed` | requests that were answered as expected, and that were not |
//! | `late`, `cut` | successes after the stage's time; requests cut at its end, neither successes nor failures |
//! | `succeeded_per_s`, `failed_share` | successes a second without late ones; failures among what ended, 0 to 1 |
//! | `failures`, `examples` | by kind: how many, all kinds; what was said of the first |
//! | `statuses` | by status: how many answers |
//! | `latency_us`, `service_us` | of successes, from when they were due, from when they were sent |
//! | `failed_us` | of failures, from when they were due |
//! | `lateness_us`, `connect_us` | how late the generator was; opening connections, TLS included |
//! | `connections_opened`, `connections_resumed`, `exchanges_reused` | resumed: with a TLS session |
//! | `bytes_sent`, `bytes_received`, `bytes_sent_per_s`, `bytes_received_per_s` | messages, heads included |
//! | `generator` | `user_s`, `system_s`; `busiest`, a thread's share of a CPU; `cpu_us_per_success` |
//! | `watched` | each `name`, `user_s`, `system_s`, `cpu_us_per_success`, `before_bytes`, `peak_bytes`, `bytes_per_connection` |
//! | `cpus` | each CPU of the machine: `cpu`, its number; `processes_s`, `busy_s` (interrupts too), `whole_s` |
//! | `invalid` | why its figures are not the target's |
//! | `notes` | what its readers must know, such as that the link was the limit |
//! | `seconds` | each second: `succeeded`, `failed`, `bytes_received`, `p50_us`, `p99_us`, `max_us` |
//!
//! The objects whose names end in `_us` hold microseconds and the `count` of values: `min`, `p50`,
//! `p75`, `p90`, `p95`, `p99`, `p99_9`, `p99_99`, `max`, `mean`, `sd`, and the trimmed means
//! `tm95`, `tm99`, `tm99_9`. The whole distributions are in the log that [`crate::hdr`] writes.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::summary::{FIGURES, StageSummary, Summary, is_valid};
use lockgate_load::result::{End, Failure, LoadModel, Nanoseconds, Report, Second, StageResult};
use lockgate_load::ticks::CpuTime;

/// The object on several lines, with a line end.
pub fn render(report: &Report) -> String {
    format!("{:#}\n", value(report))
}

/// The object.
pub fn value(report: &Report) -> Value {
    let run = &report.run;
    let first = report.first.iter().map(|first| {
        json!({
            "target": first.target,
            "status": first.status,
            "length_bytes": first.length,
            "protocol": first.protocol,
            "streams_allowed": first.streams,
            "tls": first.tls,
        })
    });
    json!({
        "command": run.command,
        "targets": run.targets,
        "model": match run.model { LoadModel::Closed => "closed", LoadModel::Open => "open" },
        "connections": run.connections,
        "streams": run.streams,
        "threads": run.threads,
        "cpus": run.cpus,
        "timeout_s": run.timeout.as_secs_f64(),
        "began_unix_s": report.began.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
        "end": match report.end {
            End::Complete => json!({ "kind": "complete" }),
            End::Interrupted => json!({ "kind": "interrupted" }),
            End::Stopped(status) => json!({ "kind": "stopped", "status": status }),
        },
        "valid": is_valid(report),
        "uncounted": report.uncounted,
        "first": first.collect::<Vec<_>>(),
        "stages": report.stages.iter().map(|each| stage(each, run.connections)).collect::<Vec<_>>(),
    })
}

fn stage(stage: &StageResult, connections: usize) -> Value {
    let counts = &stage.counts;
    let summary = StageSummary::of(stage, connections);
    let kinds = || Failure::ALL.into_iter().enumerate();
    let failures: Map<_, _> = kinds()
        .map(|(at, kind)| (kind.name().to_owned(), counts.failures[at].into()))
        .collect();
    let examples: Map<_, _> = kinds()
        .filter_map(|(at, kind)| Some((kind.name().to_owned(), counts.examples[at].clone()?.into())))
        .collect();
    let statuses: Map<_, _> = counts
        .statuses
        .iter()
        .map(|(status, number)| (status.to_string(), (*number).into()))
        .collect();
    let invalid = stage
        .invalid
        .iter()
        .map(|one| json!({ "limit": one.limit.name(), "why": one.text }));
    json!({
        "round": stage.round,
        "name": stage.name,
        "rate": stage.rate,
        "elapsed_s": stage.elapsed.as_secs_f64(),
        "succeeded": counts.succeeded(),
        "succeeded_per_s": summary.rate,
        "failed": counts.failed(),
        "failed_share": summary.failed_share,
        "failures": failures,
        "examples": examples,
        "statuses": statuses,
        "late": counts.late,
        "cut": counts.cut,
        "latency_us": microseconds(&counts.latency),
        "service_us": microseconds(&counts.service),
        "failed_us": microseconds(&counts.failed),
        "lateness_us": microseconds(&counts.lateness),
        "connect_us": microseconds(&counts.connect),
        "connections_opened": counts.opened,
        "connections_resumed": counts.resumed,
        "exchanges_reused": counts.reused,
        "bytes_sent": counts.sent,
        "bytes_received": counts.received,
        "bytes_sent_per_s": summary.sent_rate,
        "bytes_received_per_s": summary.received_rate,
        "generator": {
            "user_s": stage.generator.user.as_secs_f64(),
            "system_s": stage.generator.system.as_secs_f64(),
            "busiest": stage.generator.busiest,
            "waited": stage.generator.waited,
            "cpu_us_per_success": summary.generator_cpu,
        },
        "watched": watched(stage, &summary),
        "cpus": stage.cpus.iter().map(cpu).collect::<Vec<_>>(),
        "invalid": invalid.collect::<Vec<_>>(),
        "notes": stage.notes,
        "seconds": stage.seconds.iter().map(second).collect::<Vec<_>>(),
    })
}

fn watched(stage: &StageResult, summary: &StageSummary) -> Vec<Value> {
    let programs = stage
        .watched
        .iter()
        .zip(&summary.watched)
        .map(|(program, figures)| {
            json!({
                "name": program.name,
                "user_s": program.user.as_secs_f64(),
                "system_s": program.system.as_secs_f64(),
                "cpu_us_per_success": figures.cpu,
                "before_bytes": program.before,
                "peak_bytes": program.peak,
                "bytes_per_connection": figures.memory,
            })
        });
    programs.collect()
}

fn cpu(time: &CpuTime) -> Value {
    json!({
        "cpu": time.cpu,
        "processes_s": time.processes.as_secs_f64(),
        "busy_s": time.busy.as_secs_f64(),
        "whole_s": time.whole.as_secs_f64(),
    })
}

fn second(second: &Second) -> Value {
    // Without a success there is no latency; nothing takes no time.
    let latency = |nanoseconds: u64| (second.succeeded > 0).then_some(nanoseconds as f64 / 1e3);
    json!({
        "succeeded": second.succeeded,
        "failed": second.failed,
        "bytes_received": second.received,
        "p50_us": latency(second.p50),
        "p99_us": latency(second.p99),
        "max_us": latency(second.max),
    })
}

fn microseconds(histogram: &Nanoseconds) -> Value {
    let figures = Summary::of(histogram).map(|summary| summary.figures());
    let mut object = Map::new();
    object.insert("count".to_owned(), histogram.len().into());
    for (at, (_, key)) in FIGURES.iter().enumerate() {
        let microseconds = figures.map(|figures| figures[at] / 1e3);
        object.insert((*key).to_owned(), microseconds.into());
    }
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_stage_has_the_keys_that_comparisons_read() {
        let mut report = sample::ladder(2);
        sample::fail(
            &mut report.stages[1],
            Failure::Closed,
            4,
            "after 17 of 170 bytes",
        );
        report.stages[1].invalid.push(sample::late("late"));
        let whole: Value = serde_json::from_str(&render(&report)).unwrap();
        assert_eq!(
            (&whole["model"], &whole["valid"], &whole["end"]["kind"]),
            (&json!("open"), &json!(false), &json!("complete"))
        );
        assert_eq!(whole["began_unix_s"], 1_700_000_000.0);
        assert_eq!(whole["first"][0]["length_bytes"], 170);
        let stage = &whole["stages"][1];
        assert_eq!(
            (&stage["round"], &stage["rate"], &stage["elapsed_s"]),
            (&json!(1), &json!(2000.0), &json!(10.0))
        );
        assert_eq!(
            (&stage["succeeded"], &stage["failed"]),
            (&json!(2000), &json!(4))
        );
        assert_eq!(
            (&stage["failures"]["closed"], &stage["failures"]["tls"]),
            (&json!(4), &json!(0))
        );
        assert_eq!(
            stage["examples"],
            json!({ "closed": "after 17 of 170 bytes" })
        );
        assert_eq!(stage["statuses"], json!({ "200": 2000 }));
        assert_eq!(
            stage["invalid"],
            json!([{ "limit": "lateness", "why": "late" }])
        );
        assert_eq!(stage["watched"][0]["peak_bytes"], 9_280_000);
        assert_eq!(stage["generator"]["busiest"], 0.45);
        let cpus = json!([{ "cpu": 3, "processes_s": 6.0, "busy_s": 7.0, "whole_s": 10.0 }]);
        assert_eq!(stage["cpus"], cpus);
        assert_eq!(stage["seconds"].as_array().unwrap().len(), 10);
        for part in [
            "latency_us",
            "service_us",
            "failed_us",
            "lateness_us",
            "connect_us",
        ] {
            for key in [
                "min", "max", "mean", "sd", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99",
                "tm95", "tm99", "tm99_9",
            ] {
                assert!(
                    stage[part][key].is_f64(),
                    "{part} {key}: {}",
                    stage[part][key]
                );
            }
        }
        let p50 = stage["latency_us"]["p50"].as_f64().unwrap();
        assert!(
            (250.0..350.0).contains(&p50),
            "{p50} is not in microseconds"
        );
    }

    #[test]
    fn what_was_not_measured_is_null_and_never_zero() {
        let mut report = sample::report(&[]);
        let mut stage = sample::stage("closed loop", 0, 1e6);
        stage.elapsed = std::time::Duration::ZERO;
        stage.seconds[0].succeeded = 0;
        report.stages.push(stage);
        report.end = End::Stopped(503);
        let whole = value(&report);
        assert_eq!(whole["end"], json!({ "kind": "stopped", "status": 503 }));
        let stage = &whole["stages"][0];
        assert_eq!(
            (&stage["latency_us"]["count"], &stage["latency_us"]["p99"]),
            (&json!(0), &Value::Null)
        );
        assert_eq!(
            (&stage["rate"], &stage["failed_share"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(stage["seconds"][0]["p99_us"], Value::Null);
    }
}
