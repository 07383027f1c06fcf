//! One measurement: what `lockgate load` said of a stage, as far as comparisons need it.

use serde_json::Value;

use crate::result::Limit;

/// What a program did under one stage of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What the stage is called.
    pub stage: String,
    /// Requests that were answered as expected.
    pub succeeded: f64,
    /// Of these, how many came after the stage's time.
    pub late: f64,
    /// And those that were not.
    pub failed: f64,
    /// Kinds of failures, and what was said of the first.
    pub failures: Vec<String>,
    /// Seconds.
    pub elapsed: f64,
    /// Seconds of CPU time of the whole tree, in user mode,
    pub user: f64,
    /// and in the kernel.
    pub system: f64,
    /// Microseconds from when requests were due, where there were successes: the median,
    pub p50: Option<f64>,
    /// what one of a hundred exceeded,
    pub p99: Option<f64>,
    /// one of a thousand,
    pub p99_9: Option<f64>,
    /// one of ten thousand,
    pub p99_99: Option<f64>,
    /// and the longest.
    pub max: Option<f64>,
    /// Bytes of memory before the first connection, and the most that was seen.
    pub memory: Option<(f64, f64)>,
    /// Connections at once.
    pub connections: f64,
    /// Why these figures are not the program's.
    pub invalid: Vec<String>,
    /// What was the limit in its place, by the names of [`Limit`].
    pub limits: Vec<String>,
}

impl Sample {
    /// Successes a second.
    pub fn rate(&self) -> Option<f64> {
        (self.elapsed > 0.0).then(|| (self.succeeded - self.late) / self.elapsed)
    }

    /// Microseconds of CPU time for each success.
    pub fn cpu(&self) -> Option<f64> {
        (self.succeeded > 0.0).then(|| (self.user + self.system) * 1e6 / self.succeeded)
    }

    #[cfg(test)]
    pub(crate) fn limit(&mut self, limit: &str, why: &str) {
        self.limits = vec![limit.to_owned()];
        self.invalid = vec![why.to_owned()];
    }

    /// The kernel's part of the CPU time.
    pub fn system_share(&self) -> Option<f64> {
        let all = self.user + self.system;
        (all > 0.0).then(|| self.system / all)
    }

    /// Bytes that each connection added.
    pub fn per_connection(&self) -> Option<f64> {
        let (before, peak) = self.memory?;
        (self.connections > 0.0).then(|| (peak - before).max(0.0) / self.connections)
    }

    /// Whether only the generator was the limit: what the program took for a request is its own nevertheless.
    pub fn only_the_generator(&self) -> bool {
        self.limits
            .iter()
            .all(|limit| [Limit::Generator, Limit::Lateness].iter().any(|own| own.name() == limit))
    }
}

/// The stages of a run of `lockgate load --json` in which `program` was watched.
///
/// # Errors
/// It was interrupted, or it has another form.
pub fn read(report: &Value, program: &str) -> Result<Vec<Sample>, String> {
    if report["end"]["kind"] == "interrupted" {
        return Err("the load was interrupted".to_owned());
    }
    let stages = report["stages"].as_array().filter(|stages| !stages.is_empty());
    let stages = stages.ok_or("the load has measured nothing")?;
    let several = stages.len() > 1;
    let samples = stages.iter().map(|stage| sample(report, stage, program, several));
    samples.collect::<Option<_>>().ok_or_else(|| "what the load reported has another form".to_owned())
}

fn sample(report: &Value, stage: &Value, program: &str, several: bool) -> Option<Sample> {
    let watched = stage["watched"].as_array()?.iter().find(|watched| watched["name"] == program)?;
    let latency = |key: &str| stage["latency_us"][key].as_f64();
    let failures = stage["failures"].as_object()?.iter().filter(|(_, count)| count.as_f64() > Some(0.0));
    let failures = failures.map(|(kind, count)| match stage["examples"][kind].as_str() {
        Some(example) => format!("{count} {kind} ({example})"),
        None => format!("{count} {kind}"),
    });
    let name = match (several, stage["name"].as_str(), stage["round"].as_u64()) {
        (false, ..) => String::new(),
        (true, Some(name), Some(round)) if round > 1 => format!("{name}, round {round}"),
        (true, name, _) => name.unwrap_or_default().to_owned(),
    };
    let memory = watched["before_bytes"].as_f64().zip(watched["peak_bytes"].as_f64());
    let invalid = stage["invalid"].as_array()?;
    let each = |key: &str| invalid.iter().filter_map(|one| one[key].as_str().map(str::to_owned)).collect();
    Some(Sample {
        stage: name,
        succeeded: stage["succeeded"].as_f64()?,
        late: stage["late"].as_f64()?,
        failed: stage["failed"].as_f64()?,
        failures: failures.collect(),
        elapsed: stage["elapsed_s"].as_f64()?,
        user: watched["user_s"].as_f64()?,
        system: watched["system_s"].as_f64()?,
        p50: latency("p50"),
        p99: latency("p99"),
        p99_9: latency("p99_9"),
        p99_99: latency("p99_99"),
        max: latency("max"),
        memory,
        connections: report["connections"].as_f64()?,
        invalid: each("why"),
        limits: each("limit"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Value {
        json!({ "connections": 100, "end": { "kind": "complete" }, "stages": [{
            "round": 1, "name": "closed loop", "rate": null, "elapsed_s": 2.0, "succeeded": 1000, "late": 0, "failed": 3,
            "failures": { "connect": 0, "status": 3 }, "examples": { "status": "404" },
            "latency_us": { "p50": 1.0, "p99": 2.0, "p99_9": 3.0, "max": 4.0 },
            "watched": [{ "name": "a", "user_s": 0.01, "system_s": 0.03, "before_bytes": 1000, "peak_bytes": 6000 }],
            "invalid": [{ "limit": "generator", "why": "the generator was the limit" }],
        }] })
    }

    #[test]
    fn a_stage_is_read_and_its_figures_follow() {
        let samples = read(&report(), "a").unwrap();
        let sample = &samples[0];
        assert_eq!(
            (sample.rate(), sample.cpu(), sample.system_share()),
            (Some(500.0), Some(40.0), Some(0.75))
        );
        assert_eq!((sample.per_connection(), sample.p99_9), (Some(50.0), Some(3.0)));
        assert_eq!(sample.failures, ["3 status (404)"]);
        assert!(sample.only_the_generator() && sample.stage.is_empty());
    }

    #[test]
    fn without_successes_there_are_no_figures() {
        let mut none = report();
        none["stages"][0]["succeeded"] = 0.into();
        none["stages"][0]["latency_us"] = json!({ "p50": null });
        none["stages"][0]["watched"][0]["before_bytes"] = Value::Null;
        let sample = &read(&none, "a").unwrap()[0];
        assert_eq!((sample.cpu(), sample.p50, sample.per_connection()), (None, None, None));
    }

    #[test]
    fn a_report_of_another_form_is_refused() {
        assert!(read(&report(), "b").is_err());
        assert!(read(&json!({}), "a").is_err());
        let mut interrupted = report();
        interrupted["end"]["kind"] = "interrupted".into();
        assert!(read(&interrupted, "a").unwrap_err().contains("interrupted"));
    }
}
