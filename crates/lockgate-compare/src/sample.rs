//! One measurement: what `lockgate load` said of a stage, as far as comparisons need it.

use serde_json::Value;

use crate::cpus::Cpus;
use lockgate_load::result::Limit;

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
    /// Connections that were opened,
    pub opened: f64,
    /// and of these with a session of TLS from before.
    pub resumed: f64,
    /// Version and suite of TLS, of the first answer.
    pub tls: Option<String>,
    /// Whether requests were made by a schedule: then their rate is not the program's doing.
    pub open: bool,
    /// Why some of these figures are not the program's.
    pub marks: Vec<Mark>,
}

/// Why figures are not the program's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// For people.
    pub why: String,
    /// Which of them.
    pub touches: Touches,
}

/// Which figures are not the program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touches {
    /// All.
    All,
    /// How fast requests were answered: what the program took for each is its own.
    Pace,
    /// CPU time.
    Cpu,
}

/// Where programs and others run.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// CPUs of the program that is measured.
    pub program: &'a Cpus,
    /// CPUs of origins and of the generator.
    pub others: &'a Cpus,
}

/// Others may take so much of the program's CPUs before the pace is theirs too,
const FOREIGN: f64 = 0.05;
/// and so many seconds: less may be how ticks fall.
const FOREIGN_SECONDS: f64 = 0.05;
/// Seconds of CPU time that are told well enough to be compared.
const ENOUGH: f64 = 1.0;
/// A CPU that was busy for this share of the time had none to spare.
const FULL: f64 = 0.95;

impl Sample {
    /// Successes a second.
    pub fn rate(&self) -> Option<f64> {
        (self.elapsed > 0.0).then(|| (self.succeeded - self.late) / self.elapsed)
    }

    /// Microseconds of CPU time for each success.
    pub fn cpu(&self) -> Option<f64> {
        (self.succeeded > 0.0).then(|| (self.user + self.system) * 1e6 / self.succeeded)
    }

    /// Which part of the connections went on with a session from before, over TLS.
    pub fn resumed_share(&self) -> Option<f64> {
        (self.tls.is_some() && self.opened > 0.0).then(|| self.resumed / self.opened)
    }

    #[cfg(test)]
    pub(crate) fn limit(&mut self, limit: &str, why: &str) {
        self.marks = vec![Mark {
            why: why.to_owned(),
            touches: touches(limit),
        }];
    }

    /// The kernel's part of the CPU time.
    pub fn system_share(&self) -> Option<f64> {
        let all = self.user + self.system;
        (all > 0.0).then(|| self.system / all)
    }

    /// Bytes that each connection added; less than nothing where the program shrank.
    pub fn per_connection(&self) -> Option<f64> {
        let (before, peak) = self.memory?;
        (self.connections > 0.0).then(|| (peak - before) / self.connections)
    }
}

/// What a limit of `lockgate load` says nothing about: where only the generator was short of time,
/// a request took of the program what it takes.
fn touches(limit: &str) -> Touches {
    let own = [Limit::Generator, Limit::Lateness]
        .iter()
        .any(|own| own.name() == limit);
    if own { Touches::Pace } else { Touches::All }
}

/// The stages of a run of `lockgate load --json` in which `program` was watched. Without a `layout`
/// it is not looked whether others had the CPUs.
///
/// # Errors
/// It was interrupted, or it has another form.
pub fn read(
    report: &Value,
    program: &str,
    layout: Option<Layout<'_>>,
) -> Result<Vec<Sample>, String> {
    if report["end"]["kind"] == "interrupted" {
        return Err("the load was interrupted".to_owned());
    }
    let stages = report["stages"]
        .as_array()
        .filter(|stages| !stages.is_empty());
    let stages = stages.ok_or("the load has measured nothing")?;
    let several = stages.len() > 1;
    let samples = stages
        .iter()
        .map(|stage| sample(report, stage, program, several, layout));
    samples
        .collect::<Option<_>>()
        .ok_or_else(|| "what the load reported has another form".to_owned())
}

fn sample(
    report: &Value,
    stage: &Value,
    program: &str,
    several: bool,
    layout: Option<Layout<'_>>,
) -> Option<Sample> {
    let watched = stage["watched"]
        .as_array()?
        .iter()
        .find(|watched| watched["name"] == program)?;
    let latency = |key: &str| stage["latency_us"][key].as_f64();
    let failures = stage["failures"]
        .as_object()?
        .iter()
        .filter(|(_, count)| count.as_f64() > Some(0.0));
    let failures = failures.map(|(kind, count)| match stage["examples"][kind].as_str() {
        Some(example) => format!("{count} {kind} ({example})"),
        None => format!("{count} {kind}"),
    });
    let name = match (several, stage["name"].as_str(), stage["round"].as_u64()) {
        (false, ..) => String::new(),
        (true, Some(name), Some(round)) if round > 1 => format!("{name}, round {round}"),
        (true, name, _) => name.unwrap_or_default().to_owned(),
    };
    let memory = watched["before_bytes"]
        .as_f64()
        .zip(watched["peak_bytes"].as_f64());
    let invalid = stage["invalid"].as_array()?.iter().map(|one| {
        let (limit, why) = (one["limit"].as_str()?, one["why"].as_str()?);
        Some(Mark {
            why: why.to_owned(),
            touches: touches(limit),
        })
    });
    let mut marks = invalid.collect::<Option<Vec<_>>>()?;
    let (user, system) = (watched["user_s"].as_f64()?, watched["system_s"].as_f64()?);
    if user + system < ENOUGH {
        let why =
            format!("less than {ENOUGH} s of CPU time in a stage, which is told in ticks of 10 ms");
        marks.push(Mark {
            why,
            touches: Touches::Cpu,
        });
    }
    if let Some(layout) = layout {
        marks.extend(crowded(stage, layout, user + system)?);
    }
    Some(Sample {
        stage: name,
        succeeded: stage["succeeded"].as_f64()?,
        late: stage["late"].as_f64()?,
        failed: stage["failed"].as_f64()?,
        failures: failures.collect(),
        elapsed: stage["elapsed_s"].as_f64()?,
        user,
        system,
        p50: latency("p50"),
        p99: latency("p99"),
        p99_9: latency("p99_9"),
        p99_99: latency("p99_99"),
        max: latency("max"),
        memory,
        connections: report["connections"].as_f64()?,
        opened: stage["connections_opened"].as_f64()?,
        resumed: stage["connections_resumed"].as_f64()?,
        tls: report["first"][0]["tls"].as_str().map(str::to_owned),
        open: report["model"] == "open",
        marks,
    })
}

/// What somebody else did to the pace of a program that took `own` seconds of CPU time.
fn crowded(stage: &Value, layout: Layout<'_>, own: f64) -> Option<Vec<Mark>> {
    let cpus = stage["cpus"].as_array()?;
    let of = |wanted: &Cpus| {
        let is_wanted = |cpu: &&Value| {
            let number = cpu["cpu"]
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            number.is_some_and(|number| wanted.numbers().contains(&number))
        };
        cpus.iter().filter(is_wanted).collect::<Vec<_>>()
    };
    let (program, others) = (of(layout.program), of(layout.others));
    let sum = |key: &str| {
        program
            .iter()
            .filter_map(|cpu| cpu[key].as_f64())
            .sum::<f64>()
    };
    let fullest = |cpus: &[&Value]| {
        let shares = cpus
            .iter()
            .filter_map(|cpu| Some(cpu["busy_s"].as_f64()? / cpu["whole_s"].as_f64()?));
        shares.fold(0.0, f64::max)
    };
    let mut marks = Vec::new();
    let foreign = sum("processes_s") - own;
    let share = foreign / sum("whole_s");
    if foreign > FOREIGN_SECONDS && share > FOREIGN {
        let why = format!(
            "others took {:.0} % of the program's CPU time",
            share * 100.0
        );
        marks.push(Mark {
            why,
            touches: Touches::Pace,
        });
    }
    let (busy, limit) = (fullest(&program), fullest(&others));
    if limit >= FULL && busy < FULL {
        let why = format!(
            "the origin or the generator was the limit: a CPU of theirs was {:.0} % busy, and the program's {:.0} %",
            limit * 100.0,
            busy * 100.0
        );
        marks.push(Mark {
            why,
            touches: Touches::Pace,
        });
    }
    Some(marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Value {
        json!({ "connections": 100, "first": [{ "tls": "TLSv1.3 X" }], "end": { "kind": "complete" }, "stages": [{
            "round": 1, "name": "closed loop", "rate": null, "elapsed_s": 2.0, "succeeded": 1000, "late": 0, "failed": 3,
            "failures": { "connect": 0, "status": 3 }, "examples": { "status": "404" },
            "latency_us": { "p50": 1.0, "p99": 2.0, "p99_9": 3.0, "max": 4.0 },
            "connections_opened": 20, "connections_resumed": 15,
            "watched": [{ "name": "a", "user_s": 0.01, "system_s": 0.03, "before_bytes": 1000, "peak_bytes": 6000 }],
            "invalid": [{ "limit": "generator", "why": "the generator was the limit" }],
        }] })
    }

    #[test]
    fn a_stage_is_read_and_its_figures_follow() {
        let samples = read(&report(), "a", None).unwrap();
        let sample = &samples[0];
        assert_eq!(
            (sample.rate(), sample.cpu(), sample.system_share()),
            (Some(500.0), Some(40.0), Some(0.75))
        );
        assert_eq!(
            (sample.per_connection(), sample.p99_9),
            (Some(50.0), Some(3.0))
        );
        assert_eq!(sample.failures, ["3 status (404)"]);
        assert_eq!(
            (sample.resumed_share(), sample.tls.as_deref()),
            (Some(0.75), Some("TLSv1.3 X"))
        );
        let marks: Vec<_> = sample
            .marks
            .iter()
            .map(|mark| (mark.why.as_str(), mark.touches))
            .collect();
        let few = (
            "less than 1 s of CPU time in a stage, which is told in ticks of 10 ms",
            Touches::Cpu,
        );
        assert_eq!(marks, [("the generator was the limit", Touches::Pace), few]);
        assert!(sample.stage.is_empty());
    }

    #[test]
    fn who_else_was_busy_is_told_of_the_pace() {
        let (program, others) = ("0".parse().unwrap(), "1-2".parse().unwrap());
        let told = |processes: f64, busy: f64, other: f64| {
            let mut report = report();
            report["stages"][0]["invalid"] = json!([]);
            report["stages"][0]["watched"][0]["user_s"] = 1.0.into();
            report["stages"][0]["cpus"] = json!([
                { "cpu": 0, "processes_s": processes, "busy_s": busy, "whole_s": 2.0 },
                { "cpu": 1, "processes_s": 0.0, "busy_s": 0.0, "whole_s": 2.0 },
                { "cpu": 2, "processes_s": 0.0, "busy_s": other, "whole_s": 2.0 },
                { "cpu": 3, "processes_s": 2.0, "busy_s": 2.0, "whole_s": 2.0 },
            ]);
            let layout = Layout {
                program: &program,
                others: &others,
            };
            let marks = read(&report, "a", Some(layout)).unwrap().remove(0).marks;
            assert!(marks.iter().all(|mark| mark.touches == Touches::Pace));
            marks
                .into_iter()
                .map(|mark| mark.why)
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(told(1.1, 1.5, 1.8), "");
        assert_eq!(
            told(1.23, 1.5, 1.8),
            "others took 10 % of the program's CPU time"
        );
        assert_eq!(
            told(1.1, 1.5, 1.96),
            "the origin or the generator was the limit: a CPU of theirs was 98 % busy, and the program's 75 %"
        );
        assert_eq!(told(1.1, 1.96, 1.96), "");
    }

    #[test]
    fn a_program_that_shrank_is_not_said_to_have_stayed_as_it_was() {
        let mut shrank = report();
        shrank["stages"][0]["watched"][0]["peak_bytes"] = 500.into();
        assert_eq!(
            read(&shrank, "a", None).unwrap()[0].per_connection(),
            Some(-5.0)
        );
    }

    #[test]
    fn without_successes_there_are_no_figures() {
        let mut none = report();
        none["stages"][0]["succeeded"] = 0.into();
        none["stages"][0]["latency_us"] = json!({ "p50": null });
        none["stages"][0]["watched"][0]["before_bytes"] = Value::Null;
        let sample = &read(&none, "a", None).unwrap()[0];
        assert_eq!(
            (sample.cpu(), sample.p50, sample.per_connection()),
            (None, None, None)
        );
    }

    #[test]
    fn a_report_of_another_form_is_refused() {
        assert!(read(&report(), "b", None).is_err());
        assert!(read(&json!({}), "a", None).is_err());
        let mut interrupted = report();
        interrupted["end"]["kind"] = "interrupted".into();
        assert!(
            read(&interrupted, "a", None)
                .unwrap_err()
                .contains("interrupted")
        );
    }
}
