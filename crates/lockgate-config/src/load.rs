//! From a file or a text to a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codes::Code;
use crate::document::Branch;
use crate::environment::Environment;
use crate::keys::ROOT;
use crate::language::TreeChecker;
use crate::limit_places::LimitPlaces;
use crate::model::Config;
use crate::report::Report;
use crate::source::{ConfigFile, SourceSpan};
use crate::{include, merged, resolve};

/// A valid configuration, its warnings and its merged file.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConfig {
    /// The configuration that will run.
    pub config: Arc<Config>,
    /// The warnings.
    pub warnings: Report,
    merged: String,
    limits: LimitPlaces,
    places: BTreeMap<&'static str, SourceSpan>,
}

impl LoadedConfig {
    /// The configuration as one file: includes are merged, relative paths made absolute. `${…}` is
    /// kept as written, so that no secret gets in.
    pub fn merged_toml(&self) -> String {
        self.merged.clone()
    }

    /// The place of a top-level key, for mistakes that are found later: `user`, `state`, `metrics`,
    /// `access_log`.
    pub fn at(&self, key: &str) -> Option<&SourceSpan> {
        self.places.get(key)
    }

    /// The place of a limit or a deadline, by its key as the reference names it
    /// (`timeouts.response`), in the table with this header: `["site", "a.test"]`, or none for the
    /// keys at the top. None where it is not written there.
    pub fn limit_at(&self, header: &[&str], key: &str) -> Option<&SourceSpan> {
        self.limits.get(header, key)
    }
}

/// A configuration that was read, with or without mistakes.
#[derive(Debug)]
pub struct ConfigDraft {
    loaded: LoadedConfig,
    report: Report,
    texts: Vec<Arc<ConfigFile>>,
    files: BTreeSet<PathBuf>,
}

impl ConfigDraft {
    /// All its mistakes and warnings.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The configuration as far as it could be read: values with mistakes are missing. It is for
    /// display only.
    pub fn understood(&self) -> &LoadedConfig {
        &self.loaded
    }

    /// The texts of all its files, in the order in which they were read.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|source| source.text.as_str())
    }

    /// The absolute paths of all files that decide what the configuration is: the file itself, those
    /// that it includes, redirects, error pages, and the files of `${file:…}`; the folders of
    /// patterns too, since a new file there may match.
    ///
    /// Files that could not be read are among them. Files that are read again while Lockgate runs
    /// (certificates, keys, users, values) are not.
    pub fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    /// The configuration, if it has no mistakes.
    ///
    /// # Errors
    /// All mistakes and warnings.
    pub fn finish(self) -> Result<LoadedConfig, Report> {
        if self.report.has_errors() {
            Err(self.report)
        } else {
            Ok(self.loaded)
        }
    }
}

/// Reads a configuration file and its includes.
///
/// # Errors
/// All mistakes and warnings.
pub fn load(path: &Path) -> Result<LoadedConfig, Report> {
    load_in(path, &Environment::process())
}

/// [`load`] with files and variables from `env`.
///
/// # Errors
/// As [`load`].
pub fn load_in(path: &Path, env: &Environment) -> Result<LoadedConfig, Report> {
    read_in(path, env, None)?.finish()
}

/// Reads a configuration file and its includes, also with mistakes.
///
/// # Errors
/// When the file itself cannot be read.
pub fn read(path: &Path) -> Result<ConfigDraft, Report> {
    read_in(path, &Environment::process(), None)
}

/// [`read`] for these keys at the top alone, which with thousands of sites takes a fraction of the
/// time: of all others the mistakes are not found, and the files that they name not listed.
///
/// # Errors
/// As [`read`].
pub fn read_keys(path: &Path, keys: &[&str]) -> Result<ConfigDraft, Report> {
    read_in(path, &Environment::process(), Some(keys))
}

fn read_in(path: &Path, env: &Environment, keys: Option<&[&str]>) -> Result<ConfigDraft, Report> {
    let env = env.unread();
    match env.read(&env.absolute(path)) {
        Ok(text) => Ok(draft(&text, path, env, keys)),
        Err(error) => {
            let mut report = Report::new();
            let message = format!("{} cannot be read", path.display());
            let cure = match error.kind() {
                std::io::ErrorKind::InvalidData => "save the file as UTF-8",
                _ => "name another file with -c, or try `lockgate demo`, which needs none",
            };
            report.push(Code::FileUnreadable, message, error.to_string(), cure);
            Err(report)
        }
    }
}

/// Reads a configuration from a text, also with mistakes. Messages show `name`, and relative paths
/// start from its folder.
pub fn read_text(text: &str, name: &Path) -> ConfigDraft {
    draft(text, name, Environment::process(), None)
}

/// Parses a configuration from a text. Messages show `name`, and relative paths start from its
/// folder.
///
/// # Errors
/// As [`load`].
pub fn parse_str(text: &str, name: &Path) -> Result<LoadedConfig, Report> {
    parse_str_in(text, name, &Environment::process())
}

/// [`parse_str`] with files and variables from `env`; with `Environment::none()` it reads nothing
/// else.
///
/// # Errors
/// As [`load`].
pub fn parse_str_in(text: &str, name: &Path, env: &Environment) -> Result<LoadedConfig, Report> {
    draft(text, name, env.unread(), None).finish()
}

/// `env` must be [unread](Environment::unread), except for the file itself.
fn draft(text: &str, name: &Path, env: Environment, keys: Option<&[&str]>) -> ConfigDraft {
    let mut report = Report::new();
    let mut written = include::read(text, name, &env, &mut report);
    if let Some(keys) = keys {
        let tables = &mut written.root.entries;
        tables.retain(|name, _| keys.contains(&name.as_str()));
    }
    let mut checker = TreeChecker::new(&mut report, written.syntax, ROOT);
    let root = checker.table(ROOT, &written.root, "", None);
    let absolute = checker.into_absolute();
    let merged = merged::toml(&written.root, &absolute);
    let limits = LimitPlaces::of(&written.root);
    // Of a large configuration the tree is large too: its memory is used again for what follows.
    written.root = Branch::default();
    let config = resolve::resolve(&root, &written, &env, &mut report);
    let mut files = env.into_sources();
    files.extend(config.error_pages().map(Path::to_owned));
    let loaded = LoadedConfig {
        config: Arc::new(config),
        warnings: report.clone(),
        merged,
        limits,
        places: root.into_places(),
    };
    ConfigDraft {
        loaded,
        report,
        texts: written.sources,
        files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Color;

    #[test]
    fn a_draft_lists_every_file_that_decides_what_it_is() {
        let main = r#"
include = ["sites/*.toml", "gone.toml"]
trusted = "${file:trusted}"
tls = { certs = ["/certs/*.pem"] }

[site."a.test"]
redirects = "/etc/gate/moved"
error_pages = { 502 = "502.html" }
respond = "hello"

[site."a.test".path."/docs/"]
error_pages = { 404 = "/pages/404.html" }
respond = "docs"
"#;
        let env = Environment::none()
            .with_file("/etc/gate/lockgate.toml", main)
            .with_file("/etc/gate/sites/b.toml", "workers = 1\n")
            .with_file("/etc/gate/trusted", "10.0.0.0/8")
            .with_file("/etc/gate/moved", "/a /b\n")
            .with_file("/certs/a.pem", "")
            .with_file("/etc/gate/other", "");
        // What one reading asked for is none of the next one's.
        read_in(Path::new("/etc/gate/other"), &env, None).unwrap();
        let draft = read_in(Path::new("/etc/gate/lockgate.toml"), &env, None).unwrap();
        let files: Vec<_> = draft.files().iter().map(|file| file.to_str()).collect();
        let expected = [
            "/certs",
            "/etc/gate/502.html",
            "/etc/gate/gone.toml",
            "/etc/gate/lockgate.toml",
            "/etc/gate/moved",
            "/etc/gate/sites",
            "/etc/gate/sites/b.toml",
            "/etc/gate/trusted",
            "/pages/404.html",
        ];
        assert_eq!(
            files,
            expected.map(Some),
            "{}",
            draft.report().render(Color::Never)
        );
    }

    #[test]
    fn a_file_is_read_for_a_few_of_its_keys() {
        let env = Environment::none()
            .with_file(
                "/gate.toml",
                "include = [\"b.toml\"]\nworkers = 0.5\n[site.x]\n",
            )
            .with_file("/b.toml", "admin = \"unix:/b.socket\"\n");
        let (file, keys) = (Path::new("/gate.toml"), &["admin"][..]);
        let whole = read_in(file, &env, None).unwrap();
        let draft = read_in(file, &env, Some(keys)).unwrap();
        let admin = |draft: &ConfigDraft| draft.understood().config.admin.clone();
        assert!(admin(&draft).unwrap().at.is_some() && admin(&draft) == admin(&whole));
        assert!(draft.texts().eq(whole.texts()) && draft.understood().config.sites.is_empty());
    }

    #[test]
    fn descriptors_are_no_files_of_a_configuration() {
        let text = "include = [\"/dev/fd/3\"]\n";
        let env = Environment::none().with_file("/dev/stdin", text);
        let draft = read_in(Path::new("/dev/stdin"), &env, None).unwrap();
        assert!(draft.files().is_empty(), "{:?}", draft.files());
    }
}
