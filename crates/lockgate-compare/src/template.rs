//! Programs that are known here: how each is set up for a job, so that all do the same work.
//!
//! One worker each, no logs, connections to the origin kept, limits that nobody reaches, over TLS
//! the suite TLS_AES_128_GCM_SHA256 and the curve X25519 first. Each is a file of `templates/`.

use crate::plan::{JobKind, ServiceSettings, TemplateJob};
use crate::reader::{Placed, TomlMistakes, TomlTable};
use toml::de::DeTable;

const ALL: &[(&str, &str)] = &[
    ("lockgate", include_str!("templates/lockgate.toml")),
    ("nginx", include_str!("templates/nginx.toml")),
    ("haproxy", include_str!("templates/haproxy.toml")),
    ("hitch", include_str!("templates/hitch.toml")),
    ("caddy", include_str!("templates/caddy.toml")),
    ("http-tunnel", include_str!("templates/http-tunnel.toml")),
    (
        "static-web-server",
        include_str!("templates/static-web-server.toml"),
    ),
];

/// Names of templates.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    ALL.iter().map(|(name, _)| *name)
}

/// A program that a template describes.
#[derive(Debug)]
pub(crate) struct FilledTemplate {
    pub(crate) service: ServiceSettings,
    pub(crate) version: Vec<String>,
}

/// The program `template` set up for `job`, or why it cannot do that.
///
/// `None`: no template has this name.
pub(crate) fn describe(
    template: &str,
    job: &TemplateJob,
) -> Option<Result<FilledTemplate, String>> {
    let (name, text) = ALL.iter().find(|(name, _)| *name == template)?;
    let mut mistakes = TomlMistakes::of(text);
    let described = read(name, text, job, &mut mistakes);
    debug_assert!(mistakes.is_empty(), "{}", mistakes.render(name));
    Some(described)
}

fn read(
    name: &str,
    text: &str,
    job: &TemplateJob,
    mistakes: &mut TomlMistakes<'_>,
) -> Result<FilledTemplate, String> {
    let table = DeTable::parse(text).expect("a test reads every template");
    let mut table = TomlTable::of(table.get_ref(), 0..0);
    let plain = |words: Option<Vec<Placed<String>>>| -> Vec<String> {
        words
            .unwrap_or_default()
            .into_iter()
            .map(|word| word.value)
            .collect()
    };
    let command = plain(table.texts("command", mistakes));
    let version = plain(table.texts("version", mistakes));
    let environment = plainly(table.pairs("environment", mistakes));
    let reaches = table.texts("reaches", mistakes);
    let parts = table.pairs("part", mistakes);
    let kinds = table.tables("kind", mistakes);
    table.end(mistakes);
    let unix = job
        .upstream
        .as_ref()
        .is_some_and(|upstream| upstream.starts_with("unix:"));
    if unix && reaches.is_some_and(|reaches| reaches.iter().all(|way| way.value != "unix")) {
        return Err(format!("{name} cannot reach a Unix socket"));
    }
    let mut found = Err(format!("{name} cannot do this job: {}", job.kind.name()));
    for (kind, mut set_up) in kinds {
        let mut files = plainly(set_up.pairs("files", mistakes));
        set_up.end(mistakes);
        for (part, text) in &parts {
            for (_, content) in &mut files {
                *content = content.replace(&format!("{{part:{}}}", part.value), &text.value);
            }
        }
        if JobKind::of(&kind.value) == Some(job.kind) {
            let ready = "127.0.0.1:{port}".to_owned();
            let (command, environment) = (command.clone(), environment.clone());
            found = Ok(ServiceSettings {
                command,
                files,
                environment,
                ready,
            });
        }
    }
    Ok(FilledTemplate {
        service: found?,
        version,
    })
}

fn plainly(pairs: Vec<(Placed<String>, Placed<String>)>) -> Vec<(String, String)> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.value, value.value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placeholders;
    use crate::plan::CertificateSource;

    fn job(kind: JobKind, upstream: &str) -> TemplateJob {
        let (upstream, root) = (Some(upstream.to_owned()), Some("site".to_owned()));
        TemplateJob {
            kind,
            upstream,
            root,
            certificate: CertificateSource::P256,
        }
    }

    #[test]
    fn every_template_is_whole_for_every_job_that_it_can_do() {
        for name in names() {
            let can: Vec<_> = JobKind::ALL
                .into_iter()
                .filter_map(|kind| describe(name, &job(kind, "127.0.0.1:80")).unwrap().ok())
                .collect();
            assert!(!can.is_empty(), "{name}");
            for described in can {
                assert!(
                    !described.service.command.is_empty() && !described.version.is_empty(),
                    "{name}"
                );
                for (file, content) in &described.service.files {
                    assert!(!content.contains("{part:"), "{name}: {file}: {content}");
                    let unknown =
                        placeholders::names(content).find(|name| !placeholders::exists(name));
                    assert_eq!(unknown, None, "{name}: {file}");
                }
                let words = described
                    .service
                    .command
                    .iter()
                    .chain(described.service.environment.iter().map(|(_, v)| v));
                let unknown = words
                    .flat_map(|word| placeholders::names(word))
                    .find(|name| !placeholders::exists(name));
                assert_eq!(unknown, None, "{name}");
            }
        }
    }

    #[test]
    fn who_cannot_do_a_job_says_so() {
        let says =
            |name, kind, upstream| describe(name, &job(kind, upstream)).unwrap().unwrap_err();
        assert!(
            says("hitch", JobKind::Http, "127.0.0.1:80").contains("hitch cannot do this job: http")
        );
        assert!(
            says("http-tunnel", JobKind::Tcp, "unix:/run/a").contains("cannot reach a Unix socket")
        );
        assert!(describe("apache", &job(JobKind::Http, "127.0.0.1:80")).is_none());
    }
}
