//! Comparison files of `lockgate compare`: from TOML to a [`Plan`].
//!
//! Starts nothing. Every mistake is reported at once, with line and column.

use std::path::Path;

use toml::de::DeTable;

use crate::cpus::Cpus;
use crate::plan::{Certificate, Job, Kind, Load, Paper, Plan, Program, Service};
use crate::reader::{Mistakes, Placed, Table, unknown};
use crate::template::Described;
use crate::{placeholders, template};

impl Plan {
    /// Reads `text`, which stands in the file `name`.
    ///
    /// # Errors
    /// Every mistake as a line `name:line:column: what is wrong`.
    pub fn parse(name: &Path, text: &str) -> Result<Self, String> {
        let mut mistakes = Mistakes::of(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            mistakes.add(&error.span().unwrap_or(0..0), error.message());
        }
        // What a broken text says otherwise is mostly about the break.
        let plan = if errors.is_empty() {
            read(Table::of(table.get_ref(), 0..0), &mut mistakes)
        } else {
            None
        };
        match plan {
            Some(plan) if mistakes.is_empty() => Ok(plan),
            _ => Err(mistakes.render(&name.display().to_string())),
        }
    }
}

fn read(mut table: Table<'_>, mistakes: &mut Mistakes<'_>) -> Option<Plan> {
    let title = table.text("title", mistakes);
    let rounds = table
        .number("rounds", mistakes)
        .map_or(7, |rounds| rounds.value);
    let layout = table.table("layout", mistakes);
    let (programs_on, others_on) =
        layout.map_or((None, None), |layout| read_layout(layout, mistakes));
    let job = table
        .table("job", mistakes)
        .and_then(|job| read_job(job, mistakes));
    let origins = table.tables("origin", mistakes);
    let origins = origins.into_iter().filter_map(|(name, table)| {
        checked_name(&name, mistakes);
        Some((
            name.value,
            read_service(table, None, UNSET_IN_ORIGINS, mistakes)?.0,
        ))
    });
    let origins: Vec<_> = origins.collect();
    let programs: Vec<_> = table.tables("program", mistakes);
    let none = programs.is_empty();
    let programs: Vec<_> = programs
        .into_iter()
        .filter_map(|(name, table)| read_program(name, table, job.as_ref(), mistakes))
        .collect();
    if programs.iter().filter(|program| program.baseline).count() > 1 {
        mistakes.add(
            &(0..0),
            "several programs have `baseline`: only one may have it",
        );
    }
    let loads = table.tables("load", mistakes);
    if none {
        mistakes.add(&(0..0), "no program: write [program.NAME]");
    }
    if loads.is_empty() {
        mistakes.add(&(0..0), "no load: write [load.NAME]");
    }
    let loads: Vec<_> = loads
        .into_iter()
        .filter_map(|(name, table)| read_load(name, table, mistakes))
        .collect();
    let papers = table.tables("paper", mistakes);
    let papers: Vec<_> = papers
        .into_iter()
        .filter_map(|(_, table)| read_paper(table, mistakes))
        .collect();
    table.end(mistakes);
    let one = |cpu: &str| cpu.parse::<Cpus>().expect("a number is a list");
    Some(Plan {
        title: title.map_or_else(|| "Programs side by side".to_owned(), |title| title.value),
        rounds,
        programs_on: programs_on.unwrap_or_else(|| one("0")),
        others_on: others_on.unwrap_or_else(|| one("1")),
        job,
        origins,
        programs,
        loads,
        papers,
    })
}

fn read_layout(mut table: Table<'_>, mistakes: &mut Mistakes<'_>) -> (Option<Cpus>, Option<Cpus>) {
    let mut cpus = |name| {
        let written = table.text(name, mistakes)?;
        written
            .value
            .parse::<Cpus>()
            .map_err(|wrong| mistakes.add(&written.at, wrong))
            .ok()
    };
    let found = (cpus("programs"), cpus("others"));
    table.end(mistakes);
    found
}

fn read_job(mut table: Table<'_>, mistakes: &mut Mistakes<'_>) -> Option<Job> {
    let at = table.at.clone();
    let kind = table.text("kind", mistakes);
    let upstream = table
        .text("upstream", mistakes)
        .inspect(|text| placeholders_exist(text, UNSET_IN_JOB, mistakes));
    let root = table
        .text("root", mistakes)
        .inspect(|text| placeholders_exist(text, UNSET_IN_JOB, mistakes));
    let certificate = table.text("certificate", mistakes);
    let cert = table
        .text("cert", mistakes)
        .inspect(|text| placeholders_exist(text, UNSET_IN_JOB, mistakes));
    let key = table
        .text("key", mistakes)
        .inspect(|text| placeholders_exist(text, UNSET_IN_JOB, mistakes));
    table.end(mistakes);
    let certificate = match (certificate, cert, key) {
        (None, Some(cert), Some(key)) => Certificate::Files {
            cert: cert.value,
            key: key.value,
        },
        (None, None, None) => Certificate::P256,
        (Some(kind), None, None) if kind.value == "p256" => Certificate::P256,
        (Some(kind), None, None) if kind.value == "rsa2048" => Certificate::Rsa2048,
        (Some(kind), None, None) => {
            mistakes.add(
                &kind.at,
                unknown(
                    "there is no certificate",
                    &kind.value,
                    ["p256", "rsa2048"].into_iter(),
                ),
            );
            return None;
        }
        _ => {
            mistakes.add(&at, "write either `certificate`, or both `cert` and `key`");
            return None;
        }
    };
    let Some(kind) = kind else {
        mistakes.add(&at, "a job needs a `kind`");
        return None;
    };
    let Some(found) = Kind::of(&kind.value) else {
        let names = Kind::ALL.iter().map(|kind| kind.name());
        mistakes.add(&kind.at, unknown("there is no kind", &kind.value, names));
        return None;
    };
    match (found, &upstream, &root) {
        (Kind::Static, None, Some(_)) => {}
        (Kind::Static, ..) => mistakes.add(
            &at,
            "a job of the kind static needs a `root` and cannot have an `upstream`",
        ),
        (_, Some(_), None) => {}
        _ => mistakes.add(
            &at,
            format!(
                "a job of the kind {} needs an `upstream` and cannot have a `root`",
                found.name()
            ),
        ),
    }
    let plain = |text: Option<Placed<String>>| text.map(|text| text.value);
    Some(Job {
        kind: found,
        upstream: plain(upstream),
        root: plain(root),
        certificate,
    })
}

/// The service and its `version`. Without `ready` it is `otherwise`.
fn read_service(
    mut table: Table<'_>,
    otherwise: Option<&str>,
    unset: &[&str],
    mistakes: &mut Mistakes<'_>,
) -> Option<(Service, Vec<String>)> {
    let at = table.at.clone();
    let command = table.texts("command", mistakes);
    let files = table.pairs("files", mistakes);
    let environment = table.pairs("environment", mistakes);
    let ready = table.text("ready", mistakes);
    let version = if otherwise.is_some() {
        table.texts("version", mistakes)
    } else {
        None
    }
    .unwrap_or_default();
    table.end(mistakes);
    let command = command.unwrap_or_default();
    if command.is_empty() {
        mistakes.add(&at, "a program needs a `command` or a `template`");
        return None;
    }
    let texts = command
        .iter()
        .chain(&version)
        .chain(&ready)
        .chain(environment.iter().map(|(_, value)| value));
    for text in texts {
        placeholders_exist(text, unset, mistakes);
    }
    for (name, _) in &files {
        let inside = Path::new(&name.value)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if !inside || name.value.is_empty() {
            mistakes.add(
                &name.at,
                "the name of a file must be below the program's directory",
            );
        }
    }
    let Some(ready) = ready
        .map(|ready| ready.value)
        .or_else(|| otherwise.map(str::to_owned))
    else {
        mistakes.add(
            &at,
            "an origin needs the address where it is `ready`: \"127.0.0.1:{port:NAME}\" or \"unix:{dir}/NAME\"",
        );
        return None;
    };
    let words =
        |words: Vec<Placed<String>>| words.into_iter().map(|word| word.value).collect::<Vec<_>>();
    let pairs = |pairs: Vec<(Placed<String>, Placed<String>)>| {
        pairs
            .into_iter()
            .map(|(name, value)| (name.value, value.value))
            .collect()
    };
    let service = Service {
        command: words(command),
        files: pairs(files),
        environment: pairs(environment),
        ready,
    };
    Some((service, words(version)))
}

fn read_program(
    name: Placed<String>,
    mut table: Table<'_>,
    job: Option<&Job>,
    mistakes: &mut Mistakes<'_>,
) -> Option<Program> {
    checked_name(&name, mistakes);
    let baseline = table.flag("baseline", mistakes);
    let needs = table.texts("needs", mistakes).unwrap_or_default();
    let needs = needs
        .into_iter()
        .inspect(|text| placeholders_exist(text, &[], mistakes));
    let needs: Vec<_> = needs.map(|text| text.value).collect();
    let Some(template) = table.text("template", mistakes) else {
        let unset = if job.is_some() {
            &[]
        } else {
            UNSET_WITHOUT_JOB
        };
        let (service, version) = read_service(table, Some("127.0.0.1:{port}"), unset, mistakes)?;
        return Some(Program {
            name: name.value,
            service: Ok(service),
            version,
            needs,
            baseline,
        });
    };
    table.end(mistakes);
    if !template::names().any(|known| known == template.value) {
        mistakes.add(
            &template.at,
            unknown("there is no template", &template.value, template::names()),
        );
        return None;
    }
    let Some(job) = job else {
        mistakes.add(
            &template.at,
            "a template needs [job], which is missing or has a mistake",
        );
        return None;
    };
    Some(match template::describe(&template.value, job)? {
        Ok(described) => {
            let Described { service, version } = described;
            Program {
                name: name.value,
                service: Ok(service),
                version,
                needs,
                baseline,
            }
        }
        Err(why) => Program {
            name: name.value,
            service: Err(why),
            version: Vec::new(),
            needs,
            baseline,
        },
    })
}

fn read_load(
    name: Placed<String>,
    mut table: Table<'_>,
    mistakes: &mut Mistakes<'_>,
) -> Option<Load> {
    checked_name(&name, mistakes);
    let at = table.at.clone();
    let url = table
        .text("url", mistakes)
        .inspect(|text| placeholders_exist(text, UNSET_IN_LOADS, mistakes));
    let written = table
        .text("args", mistakes)
        .inspect(|text| placeholders_exist(text, UNSET_IN_LOADS, mistakes));
    table.end(mistakes);
    let Some(url) = url else {
        mistakes.add(&at, "a load needs a `url`");
        return None;
    };
    let mut arguments = vec![url.value];
    if let Some(written) = written {
        match words(&written.value) {
            Some(words) => arguments.extend(words),
            None => mistakes.add(&written.at, "a quote is not closed"),
        }
        let has = |option: &str| {
            arguments
                .iter()
                .any(|word| word == option || word.starts_with(&format!("{option}=")))
        };
        for taken in ["--json", "--watch", "--cpus"]
            .into_iter()
            .filter(|option| has(option))
        {
            mistakes.add(&written.at, format!("`compare` sets {taken} itself"));
        }
        // What ends a load early, or makes rounds of its own, breaks the rounds of the comparison.
        for other in ["--fail-if", "--stop-on", "--rounds"]
            .into_iter()
            .filter(|option| has(option))
        {
            mistakes.add(
                &written.at,
                format!("{other} cannot be used in a comparison"),
            );
        }
    }
    Some(Load {
        name: name.value,
        arguments,
    })
}

fn read_paper(mut table: Table<'_>, mistakes: &mut Mistakes<'_>) -> Option<Paper> {
    let at = table.at.clone();
    let source = table.text("source", mistakes);
    let columns = table.texts("columns", mistakes);
    let rows = table.rows("rows", mistakes);
    table.end(mistakes);
    let (Some(source), Some(columns), Some(rows)) = (source, columns, rows) else {
        mistakes.add(&at, "a paper needs a `source`, `columns` and `rows`");
        return None;
    };
    if let Some(row) = rows.iter().find(|row| row.len() != columns.len()) {
        mistakes.add(
            &at,
            format!(
                "a row has {} cells, but there are {} columns",
                row.len(),
                columns.len()
            ),
        );
    }
    let columns = columns.into_iter().map(|column| column.value).collect();
    Some(Paper {
        source: source.value,
        columns,
        rows,
    })
}

/// Names become names of directories and of options.
fn checked_name(name: &Placed<String>, mistakes: &mut Mistakes<'_>) {
    let may = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    if name.value.is_empty() || !name.value.chars().all(may) || name.value.starts_with(['.', '-']) {
        mistakes.add(
            &name.at,
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

fn placeholders_exist(text: &Placed<String>, unset: &[&str], mistakes: &mut Mistakes<'_>) {
    for name in placeholders::names(&text.value) {
        // {port:NAME} is known everywhere, {upstream:haproxy} where {upstream} is.
        let whole = if name.starts_with("upstream:") {
            "upstream"
        } else {
            name
        };
        if unset.contains(&whole) {
            mistakes.add(&text.at, format!("{{{name}}} has no value here"));
        }
    }
    for name in placeholders::names(&text.value).filter(|name| !placeholders::exists(name)) {
        let known = placeholders::MEANINGS.iter().map(|(known, _)| *known);
        mistakes.add(&text.at, unknown("there is no placeholder", name, known));
    }
}

/// Words as a shell splits them: blanks between them, quotes of both kinds around what has blanks.
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

    fn parse(text: &str) -> Result<Plan, String> {
        Plan::parse(Path::new("f.toml"), text)
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
            Plan::parse(
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
            let mistakes = Plan::parse(Path::new("f"), &text).unwrap_err();
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
        for name in template::names().chain(Kind::ALL.iter().map(|kind| kind.name())) {
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
            "f.toml:1:1: no key here is called `rouns`: did you mean `rounds`?",
            "f.toml:3:12: `x` is no list of CPUs",
            "f.toml:5:8: no kind is called `htp`: did you mean `http`?",
            "f.toml:6:12: no placeholder is called `prot`: did you mean `port`?",
            "f.toml:10:12: no template is called `ngnix`: did you mean `nginx`?",
            "f.toml:11:10: a name has letters",
            "f.toml:12:1: no key here is called `comand`: did you mean `command`?",
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
    fn what_must_be_installed_is_command_version_and_needs_but_not_what_is_brought_along() {
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
                .contains("`baseline` is true or false, and this is a number")
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
    fn what_compare_gives_itself_is_not_taken_from_a_load() {
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
            Load {
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
