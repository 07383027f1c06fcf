//! `lockgate compare`: from the file to the printed result, with a clean end at every point.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::comparison_run::{ComparisonRun, Findings};
use crate::document::ComparisonDocument;
use crate::guard::{adopt_orphans, end_descendants, raise_descriptor_limit};
use crate::machine;
use crate::plan::ComparisonPlan;
use crate::reader::unknown;
use lockgate_load::cpu_times::CpuTimes;

/// Options of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompareOptions {
    /// The comparison file, in TOML.
    pub file: PathBuf,
    /// Whether the file is only checked.
    pub check: bool,
    /// Number of rounds, instead of the file's `rounds`.
    pub rounds: Option<usize>,
    /// Only these loads; empty means all.
    pub loads: Vec<String>,
    /// Only these programs; empty means all.
    pub programs: Vec<String>,
    /// Files for the result besides standard output, with their formats.
    pub outputs: Vec<(OutputFormat, PathBuf)>,
}

/// Format of a result file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// JSON: every figure of every round, ratios and verdicts.
    Json,
    /// CSV: a line for each measurement.
    Csv,
    /// Markdown: tables for a document.
    Markdown,
    /// HTML: a page without other files.
    Html,
}

/// A CPU that others use for more than this share of the time is not idle.
const BUSY: f64 = 0.05;

/// End of a comparison run.
enum ComparisonEnd {
    Complete,
    Failed(String),
    /// By the signal with this number.
    Interrupted(u8),
}

/// Runs the comparison. Exit codes: 0; 1 for a file with mistakes, an origin or a program that
/// failed, no program at all; 130 and 143 after INT and TERM, when the measurements so far have
/// been printed.
///
/// `check_load` checks the arguments of a load as `lockgate load` would.
pub fn run(
    options: &CompareOptions,
    check_load: impl Fn(&[String]) -> Result<(), String>,
) -> ExitCode {
    match attempt(options, check_load) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("lockgate: {why}");
            ExitCode::FAILURE
        }
    }
}

fn attempt(
    options: &CompareOptions,
    check_load: impl Fn(&[String]) -> Result<(), String>,
) -> Result<ExitCode, String> {
    let name = options.file.display();
    let text =
        std::fs::read_to_string(&options.file).map_err(|error| format!("{name}: {error}"))?;
    let mut plan = ComparisonPlan::parse(&options.file, &text)
        .map_err(|mistakes| format!("{name} cannot be used\n{mistakes}"))?;
    let wrong = plan.loads.iter().filter_map(|load| {
        let why = check_load(&load.provisional()).err()?;
        Some(format!("load {}: {}", load.name, why.trim_end()))
    });
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        return Err(format!("{name} cannot be used\n{}", wrong.join("\n")));
    }
    select(&mut plan, options)?;
    let missing: Vec<_> = [&plan.programs_on, &plan.others_on]
        .into_iter()
        .flat_map(|cpus| cpus.missing())
        .collect();
    if !missing.is_empty() {
        return Err(format!(
            "{name}: [layout] names CPUs that do not exist or may not be used: {missing:?}"
        ));
    }
    if options.check {
        let _ = writeln!(std::io::stdout(), "{name} is valid: {}", summary(&plan));
        return Ok(ExitCode::SUCCESS);
    }
    let outputs = open(&options.outputs)?;
    adopt_orphans().map_err(|error| format!("this process cannot adopt orphans: {error}"))?;
    raise_descriptor_limit().map_err(|error| format!("the descriptor limit: {error}"))?;
    let session = ComparisonRun::prepare(&plan, &options.file)?;
    let facts = machine::facts(&options.file);
    let mut findings = Findings::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut progress = ProgressLine::new();
    let (warnings, end) = runtime.block_on(async {
        let mut warnings = Vec::new();
        let measuring = async {
            warnings = machine_warnings(&plan).await;
            for warning in &warnings {
                progress.tell(&format!("warning: {warning}"));
            }
            progress.tell(&summary(&plan));
            session
                .run(&mut findings, &mut |step| progress.tell(step))
                .await
        };
        let end = tokio::select! {
            number = interrupted() => ComparisonEnd::Interrupted(number),
            done = measuring => done.map_or_else(ComparisonEnd::Failed, |()| ComparisonEnd::Complete),
        };
        (warnings, end)
    });
    progress.end();
    // Ends the processes that are left after an error or a signal, also after a guard was killed.
    drop(runtime);
    end_descendants(|_, _| ());
    let failed = findings
        .measured
        .iter()
        .any(|measured| measured.outcome.is_err());
    let document = ComparisonDocument::of(
        &plan,
        &findings,
        facts,
        warnings,
        matches!(end, ComparisonEnd::Complete),
    );
    if !matches!(end, ComparisonEnd::Failed(_)) || !findings.measured.is_empty() {
        publish(&document, outputs)?;
    }
    Ok(match end {
        ComparisonEnd::Failed(why) => return Err(why),
        ComparisonEnd::Interrupted(number) => ExitCode::from(128 + number),
        ComparisonEnd::Complete if findings.measured.is_empty() => {
            return Err("no program could be measured".to_owned());
        }
        ComparisonEnd::Complete if failed => ExitCode::FAILURE,
        ComparisonEnd::Complete => ExitCode::SUCCESS,
    })
}

/// Restricts the plan to the loads and programs of the command line.
fn select(plan: &mut ComparisonPlan, options: &CompareOptions) -> Result<(), String> {
    let known: Vec<_> = plan.loads.iter().map(|load| load.name.clone()).collect();
    let names = known.iter().map(String::as_str);
    if let Some(wrong) = options.loads.iter().find(|name| !known.contains(name)) {
        return Err(unknown("there is no load", wrong, names));
    }
    let known: Vec<_> = plan
        .programs
        .iter()
        .map(|program| program.name.clone())
        .collect();
    let names = known.iter().map(String::as_str);
    if let Some(wrong) = options.programs.iter().find(|name| !known.contains(name)) {
        return Err(unknown("there is no program", wrong, names));
    }
    plan.loads
        .retain(|load| options.loads.is_empty() || options.loads.contains(&load.name));
    plan.programs
        .retain(|program| options.programs.is_empty() || options.programs.contains(&program.name));
    plan.rounds = options.rounds.unwrap_or(plan.rounds);
    Ok(())
}

fn summary(plan: &ComparisonPlan) -> String {
    let count = |number: usize, what: &str| {
        format!("{number} {what}{}", if number == 1 { "" } else { "s" })
    };
    let (loads, programs) = (
        count(plan.loads.len(), "load"),
        count(plan.programs.len(), "program"),
    );
    format!("{loads}, {programs}, {}", count(plan.rounds, "round"))
}

/// Reasons why figures may be wrong, before any measurement.
async fn machine_warnings(plan: &ComparisonPlan) -> Vec<String> {
    let mut warnings = Vec::new();
    let before = CpuTimes::now();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let now = CpuTimes::now();
    let used = |cpu: usize| {
        [&plan.programs_on, &plan.others_on]
            .iter()
            .any(|cpus| cpus.numbers().contains(&cpu))
    };
    for time in now
        .since(&before)
        .iter()
        .filter(|time| used(time.cpu) && time.share() > BUSY)
    {
        let (cpu, load, percent) = (time.cpu, machine::load_average(), time.share() * 100.0);
        warnings.push(format!(
            "CPU {cpu} was {percent:.0} % busy before the first measurement (load average {load})"
        ));
    }
    let shared: Vec<_> = plan
        .programs_on
        .numbers()
        .iter()
        .filter(|cpu| plan.others_on.numbers().contains(cpu))
        .collect();
    if !shared.is_empty() {
        warnings.push(format!(
            "[layout] has programs and others on the same CPU: {shared:?}"
        ));
    }
    let most = plan
        .loads
        .iter()
        .filter_map(|load| load.connections())
        .max()
        .unwrap_or(0);
    // A proxy has two for each connection.
    let needed = 2 * most + 200;
    let limit = getrlimit(Resource::Nofile).maximum;
    if limit.is_some_and(|limit| limit < needed) {
        let limit = limit.unwrap_or_default();
        warnings.push(format!(
            "{most} connections need some {needed} descriptors, and the hard limit is {limit}"
        ));
    }
    if plan.rounds < 6 {
        let rounds = plan.rounds;
        warnings.push(format!(
            "no verdicts: they need 6 rounds, and there are {rounds}"
        ));
    }
    warnings
}

/// Waits for INT, TERM or HUP and gives its number.
async fn interrupted() -> u8 {
    let kinds = [
        (SignalKind::interrupt(), 2),
        (SignalKind::terminate(), 15),
        (SignalKind::hangup(), 1),
    ];
    let mut signals = kinds.map(|(kind, number)| (signal(kind), number));
    std::future::poll_fn(|context| {
        for (signal, number) in &mut signals {
            if let Ok(signal) = signal
                && signal.poll_recv(context).is_ready()
            {
                return std::task::Poll::Ready(*number);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// An open result file, with its format.
struct OutputFile<'a> {
    format: OutputFormat,
    path: &'a Path,
    file: File,
}

/// Opens all files before any measurement, so that a file that cannot be written is known early.
/// They keep their content until there is a result.
fn open(outputs: &[(OutputFormat, PathBuf)]) -> Result<Vec<OutputFile<'_>>, String> {
    let opened = outputs.iter().map(|(format, path)| {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(OutputFile {
            format: *format,
            path,
            file,
        })
    });
    opened.collect()
}

/// Writes the result to standard output and to all files, also after an error.
fn publish(document: &ComparisonDocument, outputs: Vec<OutputFile<'_>>) -> Result<(), String> {
    // Standard output may be closed; files are written nevertheless.
    let _ = std::io::stdout().write_all(document.text().as_bytes());
    let mut failed = Vec::new();
    for OutputFile { format, path, file } in outputs {
        let content = match format {
            OutputFormat::Json => document.json(),
            OutputFormat::Csv => document.csv(),
            OutputFormat::Markdown => document.markdown(),
            OutputFormat::Html => document.html(),
        };
        if let Err(error) = write(file, &content) {
            failed.push(format!("{}: {error}", path.display()));
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("\n"))
    }
}

fn write(mut file: File, content: &str) -> std::io::Result<()> {
    // A pipe or a terminal has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(content.as_bytes())
}

/// Progress on standard error: a line that is written over on a terminal, a line for each step
/// elsewhere.
struct ProgressLine {
    terminal: bool,
}

impl ProgressLine {
    fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
        }
    }

    fn tell(&mut self, step: &str) {
        let mut stderr = std::io::stderr();
        // Several lines, and warnings, stay on the terminal.
        let kept = !self.terminal || step.contains('\n') || step.contains(": ");
        let _ = match (self.terminal, kept) {
            (false, _) => writeln!(stderr, "{step}"),
            (true, true) => writeln!(stderr, "\r\x1b[K{step}"),
            (true, false) => write!(stderr, "\r\x1b[K{step}"),
        };
        let _ = stderr.flush();
    }

    fn end(&mut self) {
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
