//! `lockgate fmt`: configuration files in their canonical form.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::cli::fmt::{FmtMode, FmtOptions};
use crate::print::out;

/// Brings files into their canonical form, or lists those that have another one.
///
/// # Errors
/// When standard output cannot be written. A file that cannot be read or written, or is no TOML, is
/// reported, and the next one has its turn.
pub(crate) fn run(options: &FmtOptions) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for file in &options.files {
        match one(file, options.mode) {
            Ok(FormResult::Same) => {}
            Ok(FormResult::Written) => out!("{}", file.display()),
            Ok(FormResult::Other) => {
                code = ExitCode::FAILURE;
                out!("{}", file.display());
            }
            Err(error) => {
                code = ExitCode::FAILURE;
                eprintln!("lockgate: {error:#}");
            }
        }
    }
    Ok(code)
}

/// What became of a file.
enum FormResult {
    /// It is in the canonical form.
    Same,
    /// It was written anew.
    Written,
    /// It has another form.
    Other,
}

fn one(file: &Path, mode: FmtMode) -> anyhow::Result<FormResult> {
    let shown = file.display();
    let is_input = file == Path::new("-");
    let text = if is_input {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    let text = text.with_context(|| format!("{shown} cannot be read"))?;
    let formatted = match lockgate_config::format(&text) {
        Ok(formatted) => formatted,
        Err(why) => bail!("{shown}: {why}"),
    };
    match mode {
        FmtMode::Write if is_input => {
            io::stdout().write_all(formatted.as_bytes())?;
            Ok(FormResult::Same)
        }
        _ if formatted == text => Ok(FormResult::Same),
        FmtMode::Write => {
            replace(file, &formatted).with_context(|| format!("{shown} cannot be written"))?;
            Ok(FormResult::Written)
        }
        FmtMode::List => Ok(FormResult::Other),
    }
}

/// Replaces a file as a whole: a reader finds the old text or the new one. Its owner and its
/// permissions stay.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    // A link stays a link.
    let file = fs::canonicalize(file)?;
    let before = fs::metadata(&file)?;
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    // It may hold secrets.
    let options = options.write(true).create_new(true).mode(0o600);
    let opened = options.open(&new)?;
    let written = write_new(opened, text, &before).and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn write_new(mut file: File, text: &str, like: &fs::Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
        std::os::unix::fs::fchown(&file, Some(like.uid()), Some(like.gid()))?;
    }
    file.set_permissions(like.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
