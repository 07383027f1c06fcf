//! Templates of known programs: each sets a program up for a job, so that all do the same work.
//!
//! One worker each, no logs, connections to the origin kept, limits out of reach, over TLS the
//! suite TLS_AES_128_GCM_SHA256 and the curve X25519 first. Each is a file of `templates/`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::plan::{ServiceSettings, TemplateJob};

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

/// The names of all templates.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    ALL.iter().map(|(name, _)| *name)
}

/// A template file, as it is parsed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramTemplate {
    command: Vec<String>,
    version: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Kinds of upstream sockets that the program can connect to; by default all.
    reaches: Option<Vec<String>>,
    /// Texts that files include as `{part:NAME}`.
    #[serde(default)]
    part: BTreeMap<String, String>,
    /// Kinds of jobs that the program can do.
    kind: BTreeMap<String, KindTemplate>,
}

/// The program's own files for one kind of job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindTemplate {
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Fills a template for `job`: the service, and the command that prints the program's version.
///
/// # Errors
/// The program cannot do the job.
pub(crate) fn fill(
    name: &str,
    job: &TemplateJob,
) -> Result<(ServiceSettings, Vec<String>), String> {
    let named = ALL.iter().find(|(known, _)| *known == name);
    let (_, text) = named.ok_or_else(|| format!("there is no template {name}"))?;
    let mut template: ProgramTemplate = toml::from_str(text).expect("a test fills every template");
    let upstream = job.upstream.as_deref().unwrap_or_default();
    let reaches = |socket: &str| {
        let reaches = template.reaches.as_ref();
        reaches.is_none_or(|reaches| reaches.iter().any(|reach| reach == socket))
    };
    if upstream.starts_with("unix:") && !reaches("unix") {
        return Err(format!("{name} cannot reach a Unix socket"));
    }
    let Some(kind) = template.kind.remove(job.kind.name()) else {
        let kind = job.kind.name();
        return Err(format!("{name} cannot do this job: {kind}"));
    };
    let parts = &template.part;
    let files = kind.files.into_iter().map(|(file, content)| {
        let content = parts.iter().fold(content, |content, (part, text)| {
            content.replace(&format!("{{part:{part}}}"), text)
        });
        (file, content)
    });
    let service = ServiceSettings {
        command: template.command,
        files: files.collect(),
        environment: template.environment.into_iter().collect(),
        ready: "127.0.0.1:{port}".to_owned(),
    };
    Ok((service, template.version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placeholders;
    use crate::plan::{CertificateSource, JobKind};

    fn job(kind: JobKind, upstream: &str) -> TemplateJob {
        TemplateJob {
            kind,
            upstream: Some(upstream.to_owned()),
            root: Some("site".to_owned()),
            certificate: CertificateSource::P256,
        }
    }

    #[test]
    fn every_template_is_whole_for_every_job_that_it_can_do() {
        for name in names() {
            let kinds = JobKind::ALL.into_iter();
            let filled = kinds.filter_map(|kind| fill(name, &job(kind, "127.0.0.1:80")).ok());
            let filled: Vec<_> = filled.collect();
            assert!(!filled.is_empty(), "{name}");
            for (service, version) in filled {
                assert!(!service.command.is_empty() && !version.is_empty(), "{name}");
                for (file, content) in &service.files {
                    assert!(!content.contains("{part:"), "{name}: {file}: {content}");
                }
                let values = service.environment.iter().chain(&service.files);
                let words = service.command.iter().chain(values.map(|(_, value)| value));
                let unknown = words
                    .flat_map(|word| placeholders::names(word))
                    .find(|name| !placeholders::exists(name));
                assert_eq!(unknown, None, "{name}");
            }
        }
    }

    #[test]
    fn a_program_that_cannot_do_a_job_is_named() {
        let refusal = |name, kind, upstream| fill(name, &job(kind, upstream)).unwrap_err();
        assert!(
            refusal("hitch", JobKind::Http, "127.0.0.1:80")
                .contains("hitch cannot do this job: http")
        );
        assert!(
            refusal("http-tunnel", JobKind::Tcp, "unix:/run/a")
                .contains("cannot reach a Unix socket")
        );
        assert!(fill("apache", &job(JobKind::Http, "127.0.0.1:80")).is_err());
    }
}
