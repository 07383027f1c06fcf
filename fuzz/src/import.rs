//! Configurations of other servers: whatever is written, the result is TOML in its canonical form,
//! with a verdict for each statement, or an error with a place.

use std::path::{Path, PathBuf};

use lockgate_import::{Format, ImportError, SourceFiles, import};

/// A folder with one file, which may include itself.
struct OneFile<'a>(&'a str);

impl SourceFiles for OneFile<'_> {
    fn read(&self, path: &Path) -> Result<String, String> {
        if path.starts_with("/etc/source") {
            Ok(self.0.to_owned())
        } else {
            Err("no such file".to_owned())
        }
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        if pattern.starts_with("/etc/source") {
            vec![PathBuf::from("/etc/source/main.yml")]
        } else {
            Vec::new()
        }
    }
}

/// The first byte chooses the server, the rest is its configuration.
pub fn import_config(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let Ok(text) = str::from_utf8(rest) else {
        return;
    };
    let format = match first {
        b'n' => Format::Nginx,
        b'h' => Format::Haproxy,
        b'c' => Format::Caddy,
        b't' => Format::Traefik,
        b'i' => Format::Hitch,
        _ => return,
    };
    let paths = [PathBuf::from("/etc/source/main.yml")];
    match import(format, &paths, &OneFile(text)) {
        Ok(imported) => {
            let toml = imported.draft.to_string();
            if let Err(why) = lockgate_config::format(&toml) {
                panic!("{why}:\n{toml}");
            }
            let statements = imported.report.lines().count();
            assert_eq!(imported.report.counts().values().sum::<usize>(), statements);
        }
        Err(ImportError::Unreadable { .. }) => panic!("the file was there"),
        Err(ImportError::Syntax { place, reason }) => {
            assert!(place.line >= 1 && !reason.is_empty(), "{place}: {reason}");
        }
    }
}
