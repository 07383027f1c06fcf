//! Comparison files of `lockgate compare`: from TOML to a [`ComparisonPlan`].
//!
//! Starts nothing. Every mistake is reported at once, with line and column.

use std::path::{Component, Path};

use toml::Spanned;
use toml::de::DeTable;

use crate::cpus::Cpus;
use crate::plan::{
    CertificateSource, ComparisonPlan, JobKind, LoadCommand, Paper, Program, ServiceSettings,
    TemplateJob,
};
use crate::reader::{TomlMistakes, TomlTable, unknown};
use crate::{placeholders, template};

impl ComparisonPlan {
    /// Parses `text`, the content of the file `name`.
    ///
    /// # Errors
    /// Every mistake as a line `name:line:column: mistake`.
    pub fn parse(name: &Path, text: &str) -> Result<Self, String> {
        let mistakes = TomlMistakes::of(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            mistakes.add(error.span().unwrap_or(0..0), error.message());
        }
        // Other mistakes of a broken text are mostly about the break.
        let plan = if errors.is_empty() {
            read(TomlTable::of(table.get_ref(), 0..0, &mistakes))
        } else {
            None
        };
        plan.filter(|_| mistakes.is_empty())
            .ok_or_else(|| mistakes.render(&name.display().to_string()))
    }
}

fn read(mut table: TomlTable<'_>) -> Option<ComparisonPlan> {
    let title = table.text("title").map(Spanned::into_inner);
    let rounds = table.number("rounds");
    let layout = table.table("layout");
    let (programs_on, others_on) = layout.map_or((None, None), read_layout);
    let job = table.table("job").and_then(read_job);
    let origins = table.tables("origin").into_iter();
    let origins = origins.filter_map(|(name, origin)| {
        check_name(&name, &origin);
        let (service, _) = read_service(origin, None, UNSET_IN_ORIGINS)?;
        Some((name.into_inner(), service))
    });
    let origins: Vec<_> = origins.collect();
    let programs = table.tables("program");
    if programs.is_empty() {
        table.wrong("no program: write [program.NAME]");
    }
    let programs = programs.into_iter();
    let programs = programs.filter_map(|(name, program)| read_program(name, program, job.as_ref()));
    let programs: Vec<_> = programs.collect();
    if programs.iter().filter(|program| program.baseline).count() > 1 {
        table.wrong("several programs have `baseline`: only one may have it");
    }
    let loads = table.tables("load");
    if loads.is_empty() {
        table.wrong("no load: write [load.NAME]");
    }
    let loads = loads.into_iter();
    let loads: Vec<_> = loads
        .filter_map(|(name, load)| read_load(name, load))
        .collect();
    let papers = table.tables("paper").into_iter();
    let papers: Vec<_> = papers.filter_map(|(_, paper)| read_paper(paper)).collect();
    table.end();
    let one = |cpu: &str| cpu.parse::<Cpus>().expect("a number is a list");
    Some(ComparisonPlan {
        title: title.unwrap_or_else(|| "Programs side by side".to_owned()),
        rounds: rounds.unwrap_or(7),
        programs_on: programs_on.unwrap_or_else(|| one("0")),
        others_on: others_on.unwrap_or_else(|| one("1")),
        job,
        origins,
        programs,
        loads,
        papers,
    })
}

fn read_layout(mut table: TomlTable<'_>) -> (Option<Cpus>, Option<Cpus>) {
    let mut cpus = |name| {
        let written = table.text(name)?;
        let cpus = written.get_ref().parse::<Cpus>();
        cpus.map_err(|wrong| table.mistakes.add(written.span(), wrong))
            .ok()
    };
    let found = (cpus("programs"), cpus("others"));
    table.end();
    found
}

fn read_job(mut table: TomlTable<'_>) -> Option<TemplateJob> {
    const CERTIFICATES: [(&str, CertificateSource); 2] = [
        ("p256", CertificateSource::P256),
        ("rsa2048", CertificateSource::Rsa2048),
    ];
    let kind = table.text("kind");
    let upstream = checked_text(&mut table, "upstream", UNSET_IN_JOB);
    let root = checked_text(&mut table, "root", UNSET_IN_JOB);
    let certificate = table.text("certificate");
    let cert = checked_text(&mut table, "cert", UNSET_IN_JOB);
    let key = checked_text(&mut table, "key", UNSET_IN_JOB);
    table.end();
    let certificate = match (certificate, cert, key) {
        (None, Some(cert), Some(key)) => CertificateSource::Files { cert, key },
        (None, None, None) => CertificateSource::P256,
        (Some(name), None, None) => {
            table.choice(&name, "there is no certificate", CERTIFICATES.into_iter())?
        }
        _ => {
            table.wrong("write either `certificate`, or both `cert` and `key`");
            return None;
        }
    };
    let Some(kind) = kind else {
        table.wrong("a job needs a `kind`");
        return None;
    };
    let kinds = JobKind::ALL.into_iter().map(|kind| (kind.name(), kind));
    let kind = table.choice(&kind, "there is no kind", kinds)?;
    match (kind, &upstream, &root) {
        (JobKind::Static, None, Some(_)) => {}
        (JobKind::Static, ..) => {
            table.wrong("a job of the kind static needs a `root` and cannot have an `upstream`");
        }
        (_, Some(_), None) => {}
        _ => table.wrong(format!(
            "a job of the kind {} needs an `upstream` and cannot have a `root`",
            kind.name()
        )),
    }
    Some(TemplateJob {
        kind,
        upstream,
        root,
        certificate,
    })
}

/// The service and its `version`. Without `ready` it is `otherwise`.
fn read_service(
    mut table: TomlTable<'_>,
    otherwise: Option<&str>,
    unset: &[&str],
) -> Option<(ServiceSettings, Vec<String>)> {
    let command = checked_texts(&mut table, "command", unset);
    let files = table.pairs("files");
    let environment = table.pairs("environment");
    let ready = checked_text(&mut table, "ready", unset);
    let version = if otherwise.is_some() {
        checked_texts(&mut table, "version", unset)
    } else {
        Vec::new()
    };
    table.end();
    if command.is_empty() {
        table.wrong("a program needs a `command` or a `template`");
        return None;
    }
    for (_, value) in &environment {
        check_placeholders(value, unset, &table);
    }
    for (name, _) in &files {
        let path = Path::new(name.get_ref());
        let is_inside = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || name.get_ref().is_empty() {
            let mistake = "the name of a file must be below the program's directory";
            table.mistakes.add(name.span(), mistake);
        }
    }
    let Some(ready) = ready.or_else(|| otherwise.map(str::to_owned)) else {
        table.wrong(
            "an origin needs the address where it is `ready`: \"127.0.0.1:{port:NAME}\" or \"unix:{dir}/NAME\"",
        );
        return None;
    };
    let plain = |pairs: Vec<(Spanned<String>, Spanned<String>)>| {
        let pairs = pairs.into_iter();
        pairs
            .map(|(name, value)| (name.into_inner(), value.into_inner()))
            .collect()
    };
    let service = ServiceSettings {
        command,
        files: plain(files),
        environment: plain(environment),
        ready,
    };
    Some((service, version))
}

fn read_program(
    name: Spanned<String>,
    mut table: TomlTable<'_>,
    job: Option<&TemplateJob>,
) -> Option<Program> {
    check_name(&name, &table);
    let baseline = table.flag("baseline");
    let needs = checked_texts(&mut table, "needs", &[]);
    let (service, version) = match table.text("template") {
        Some(template) => {
            table.end();
            let templates = template::names().map(|name| (name, name));
            let template_name = table.choice(&template, "there is no template", templates)?;
            let Some(job) = job else {
                let mistake = "a template needs [job], which is missing or has a mistake";
                table.mistakes.add(template.span(), mistake);
                return None;
            };
            match template::fill(template_name, job) {
                Ok((service, version)) => (Ok(service), version),
                Err(why) => (Err(why), Vec::new()),
            }
        }
        None => {
            let unset = if job.is_some() {
                &[]
            } else {
                UNSET_WITHOUT_JOB
            };
            let (service, version) = read_service(table, Some("127.0.0.1:{port}"), unset)?;
            (Ok(service), version)
        }
    };
    Some(Program {
        name: name.into_inner(),
        service,
        version,
        needs,
        baseline,
    })
}

fn read_load(name: Spanned<String>, mut table: TomlTable<'_>) -> Option<LoadCommand> {
    check_name(&name, &table);
    let url = checked_text(&mut table, "url", UNSET_IN_LOADS);
    let written = table.text("args");
    table.end();
    let Some(url) = url else {
        table.wrong("a load needs a `url`");
        return None;
    };
    let mut arguments = vec![url];
    if let Some(written) = written {
        check_placeholders(&written, UNSET_IN_LOADS, &table);
        let wrong = |mistake: String| table.mistakes.add(written.span(), mistake);
        match words(written.get_ref()) {
            Some(words) => arguments.extend(words),
            None => wrong("a quote is not closed".to_owned()),
        }
        let has = |option: &str| {
            let long = format!("{option}=");
            let mut words = arguments.iter();
            words.any(|word| word == option || word.starts_with(&long))
        };
        for option in ["--json", "--watch", "--watch-below", "--cpus"] {
            if has(option) {
                wrong(format!("`compare` sets {option} itself"));
            }
        }
        // A load that ends early, or has its own rounds, breaks the rounds of the comparison.
        for option in ["--fail-if", "--stop-on", "--rounds"] {
            if has(option) {
                wrong(format!("{option} cannot be used in a comparison"));
            }
        }
    }
    Some(LoadCommand {
        name: name.into_inner(),
        arguments,
    })
}

fn read_paper(mut table: TomlTable<'_>) -> Option<Paper> {
    let source = table.text("source");
    let columns = table.texts("columns");
    let rows = table.rows("rows");
    table.end();
    let (Some(source), Some(columns), Some(rows)) = (source, columns, rows) else {
        table.wrong("a paper needs a `source`, `columns` and `rows`");
        return None;
    };
    let columns: Vec<_> = columns.into_iter().map(Spanned::into_inner).collect();
    if let Some(row) = rows.iter().find(|row| row.len() != columns.len()) {
        let (cells, columns) = (row.len(), columns.len());
        table.wrong(format!(
            "a row has {cells} cells, but there are {columns} columns"
        ));
    }
    Some(Paper {
        source: source.into_inner(),
        columns,
        rows,
    })
}

/// Checks a name, which becomes a name of directories and of options.
fn check_name(name: &Spanned<String>, table: &TomlTable<'_>) {
    let may = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    let text = name.get_ref();
    if text.is_empty() || !text.chars().all(may) || text.starts_with(['.', '-']) {
        table.mistakes.add(
            name.span(),
            "a name may have only letters, digits and -_.+, and must begin with a letter or digit",
        );
    }
}

/// Placeholders that have no value in `[job]`, in an origin, in a load, and in a program without
/// `[job]`.
const UNSET_IN_JOB: &[&str] = &["port", "own", "upstream", "root"];
const UNSET_IN_ORIGINS: &[&str] = &["port", "upstream", "root"];
const UNSET_IN_LOADS: &[&str] = &["own"];
const UNSET_WITHOUT_JOB: &[&str] = &["upstream", "root"];

/// The text `name` with its placeholders checked.
fn checked_text(table: &mut TomlTable<'_>, name: &'static str, unset: &[&str]) -> Option<String> {
    let text = table.text(name)?;
    check_placeholders(&text, unset, table);
    Some(text.into_inner())
}

/// The list `name` with the placeholders of all its texts checked; empty where it is absent.
fn checked_texts(table: &mut TomlTable<'_>, name: &'static str, unset: &[&str]) -> Vec<String> {
    let texts = table.texts(name).unwrap_or_default();
    for text in &texts {
        check_placeholders(text, unset, table);
    }
    texts.into_iter().map(Spanned::into_inner).collect()
}

fn check_placeholders(text: &Spanned<String>, unset: &[&str], table: &TomlTable<'_>) {
    for name in placeholders::names(text.get_ref()) {
        // {port:NAME} is known everywhere, {upstream:haproxy} where {upstream} is.
        let whole = if name.starts_with("upstream:") {
            "upstream"
        } else {
            name
        };
        if unset.contains(&whole) {
            let mistake = format!("{{{name}}} has no value here");
            table.mistakes.add(text.span(), mistake);
        }
        if !placeholders::exists(name) {
            let known = placeholders::MEANINGS.iter().map(|(known, _)| *known);
            let mistake = unknown("there is no placeholder", name, known);
            table.mistakes.add(text.span(), mistake);
        }
    }
}

/// Splits words as a shell does: at blanks, with quotes of both kinds around words with blanks.
fn words(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => found.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    quote.is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
title = "T"
rounds = 3
[layout]
programs = "0"
others = "1-2"
[job]
kind = "http"
upstream = "127.0.0.1:{port:origin}"
[paper.one]
source = "elsewhere"
columns = ["program", "req/s"]
rows = [["nginx", 1.5], ["other", 2]]
[origin.echo]
command = ["echo-server", "{port:origin}"]
ready = "127.0.0.1:{port:origin}"
[program.zebra]
template = "nginx"
[program.ape]
command = ["ape", "{own}/ape.conf"]
files."ape.conf" = "listen {port} { prot }"
[program.hitch]
template = "hitch"
[load.one]
url = "http://127.0.0.1:{port}/"
args = "-c 100 -H 'a: b c' --data \"\""
"#;

    fn parse(text: &str) -> Result<ComparisonPlan, String> {
        ComparisonPlan::parse(Path::new("f.toml"), text)
    }

    #[test]
    fn a_placeholder_without_a_value_is_a_mistake() {
        let file = |origin: &str, program: &str, args: &str| {
            format!(
                "title = \"t\"\n[origin.o]\ncommand = [\"o\", \"{origin}\"]\nready = \"unix:{{dir}}/o\"\n\
                 [program.p]\ncommand = [\"p\", \"{program}\"]\n[load.l]\nurl = \"http://h/\"\nargs = \"{args}\"\n"
            )
        };
        assert!(
            ComparisonPlan::parse(
                Path::new("f"),
                &file("{port:o}", "{port}", "-H 'A: {port}'")
            )
            .is_ok()
        );
        for (text, says) in [
            (file("{port}", "", ""), "{port} has no value here"),
            (
                file("", "{upstream:haproxy}", ""),
                "{upstream:haproxy} has no value here",
            ),
            (file("", "{root}", ""), "{root} has no value here"),
            (
                file("", "", "--body-file {own}/x"),
                "{own} has no value here",
            ),
        ] {
            let mistakes = ComparisonPlan::parse(Path::new("f"), &text).unwrap_err();
            assert!(mistakes.contains(says), "{mistakes}");
        }
    }

    #[test]
    fn a_whole_file_is_read_in_its_own_order() {
        let plan = parse(WHOLE).unwrap();
        assert_eq!(
            (plan.title.as_str(), plan.rounds, plan.others_on.numbers()),
            ("T", 3, &[1, 2][..])
        );
        let names: Vec<_> = plan
            .programs
            .iter()
            .map(|program| program.name.as_str())
            .collect();
        assert_eq!(names, ["zebra", "ape", "hitch"]);
        assert_eq!(
            plan.programs[1].service.as_ref().unwrap().ready,
            "127.0.0.1:{port}"
        );
        assert!(
            plan.programs[2]
                .service
                .as_ref()
                .unwrap_err()
                .contains("cannot do this job")
        );
        let load = &plan.loads[0];
        assert_eq!(
            load.arguments[1..],
            ["-c", "100", "-H", "a: b c", "--data", ""]
        );
        assert_eq!(load.connections(), Some(100));
        assert_eq!(plan.papers[0].rows[0], ["nginx", "1.5"]);
    }

    #[test]
    fn the_document_has_an_example_that_is_right_and_every_word() {
        let document = include_str!("../../../docs/compare.md");
        let example = document
            .split("```text\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next())
            .unwrap();
        assert_eq!(parse(example).unwrap().programs.len(), 3);
        for (name, _) in placeholders::MEANINGS {
            let written = format!(
                "`{{{name}{}}}`",
                if name.ends_with(':') { "NAME" } else { "" }
            );
            assert!(document.contains(&written), "{written}");
        }
        for name in template::names().chain(JobKind::ALL.iter().map(|kind| kind.name())) {
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let text = r#"rouns = 3
[layout]
programs = "x"
[job]
kind = "htp"
upstream = "127.0.0.1:{prot}"
[origin.echo]
command = ["a"]
[program.a]
template = "ngnix"
[program."b/c"]
comand = ["b"]
[load.one]
args = "--json -"
"#;
        let told = parse(text).unwrap_err();
        for line in [
            "f.toml:1:1: there is no key `rouns`: did you mean `rounds`?",
            "f.toml:3:12: `x` is no list of CPUs",
            "f.toml:5:8: there is no kind `htp`: did you mean `http`?",
            "f.toml:6:12: there is no placeholder `prot`: did you mean `port`?",
            "f.toml:10:12: there is no template `ngnix`: did you mean `nginx`?",
            "f.toml:11:10: a name may have only letters",
            "f.toml:12:1: there is no key `comand`: did you mean `command`?",
        ] {
            assert!(told.contains(line), "{line}\n{told}");
        }
        assert!(
            told.contains("an origin needs the address where it is `ready`")
                && told.contains("a load needs a `url`"),
            "{told}"
        );
    }

    #[test]
    fn executables_are_command_version_and_needs() {
        let of = |ape: &str| {
            let text = WHOLE.replace("[program.ape]", &format!("[program.ape]\n{ape}"));
            let plan = parse(&text).unwrap();
            plan.programs[1]
                .executables()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of("version = [\"ape-version\"]\nneeds = [\"hitch\"]"),
            ["ape", "ape-version", "hitch"]
        );
        assert_eq!(of("needs = [\"{own}/tool\"]"), ["ape"]);
    }

    #[test]
    fn one_program_may_be_the_baseline() {
        let one = WHOLE.replace("[program.ape]", "[program.ape]\nbaseline = true");
        let found: Vec<_> = parse(&one)
            .unwrap()
            .programs
            .iter()
            .map(|program| program.baseline)
            .collect();
        assert_eq!(found, [false, true, false]);
        let two = one.replace("[program.hitch]", "[program.hitch]\nbaseline = true");
        assert!(
            parse(&two)
                .unwrap_err()
                .contains("several programs have `baseline`")
        );
        let wrong = one.replace("baseline = true", "baseline = 1");
        assert!(
            parse(&wrong)
                .unwrap_err()
                .contains("`baseline` must be true or false, not a number")
        );
    }

    #[test]
    fn syntax_errors_are_told_with_their_place() {
        assert!(
            parse("title = \nrounds = =\n")
                .unwrap_err()
                .contains("f.toml:1:")
        );
        assert!(parse("").unwrap_err().contains("no program"));
    }

    #[test]
    fn options_that_compare_sets_are_refused_in_a_load() {
        let told = parse(&WHOLE.replace("-c 100", "-c 100 --json=x --watch a=1")).unwrap_err();
        let other = parse(&WHOLE.replace(
            "-c 100",
            "-c 100 --rounds 2 --stop-on=503 --fail-if 'p99>1s'",
        ))
        .unwrap_err();
        for option in ["--rounds", "--stop-on", "--fail-if"] {
            assert!(
                other.contains(&format!("{option} cannot be used in a comparison")),
                "{other}"
            );
        }
        assert!(
            told.contains("`compare` sets --json") && told.contains("`compare` sets --watch"),
            "{told}"
        );
    }

    #[test]
    fn connections_are_found_however_they_are_written() {
        let of = |words: &[&str]| {
            let arguments = words.iter().map(ToString::to_string).collect();
            LoadCommand {
                name: String::new(),
                arguments,
            }
            .connections()
        };
        assert_eq!(of(&["u", "-c5"]), Some(5));
        assert_eq!(of(&["u", "--connections=6"]), Some(6));
        assert_eq!(of(&["u", "--connections", "7"]), Some(7));
        assert_eq!(of(&["u", "--count", "7"]), None);
    }

    #[test]
    fn words_are_split_like_a_shell_does() {
        assert_eq!(words(r#" a 'b c'd "" "#).unwrap(), ["a", "b cd", ""]);
        assert_eq!(words("'a"), None);
    }
}
