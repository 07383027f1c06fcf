//! The reports of a run and their files. Files are opened before the run, so that one that cannot
//! be written costs no measurements.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use lockgate_load::result::RunResult;
use lockgate_report::{csv, hdr, html, json, text};

use crate::cli::load::ReportFiles;

/// A function that renders a report in one form.
pub(super) type ReportForm = fn(&RunResult) -> String;

/// The reports that the options name.
pub(super) struct Outputs {
    stdout: ReportForm,
    files: Vec<(ReportForm, ReportFile)>,
}

impl Outputs {
    /// Opens the files.
    ///
    /// # Errors
    /// When one cannot be written.
    pub(super) fn open(files: &ReportFiles) -> anyhow::Result<Self> {
        let forms: [(&Option<_>, ReportForm); 5] = [
            (&files.json, json::render),
            (&files.csv, csv::stages),
            (&files.timeline, csv::seconds),
            (&files.hdr, hdr::log),
            (&files.html, |report| html::page(&[("", report)])),
        ];
        let mut outputs = Self {
            stdout: text::render,
            files: Vec::new(),
        };
        for (path, form) in forms {
            match path {
                Some(path) if is_stdout(path) => outputs.stdout = form,
                Some(path) => outputs.files.push((form, ReportFile::open(path)?)),
                None => {}
            }
        }
        Ok(outputs)
    }

    /// Writes every file.
    ///
    /// # Errors
    /// When one cannot be written: the first of them. The others are written all the same.
    pub(super) fn write(self, report: &RunResult) -> anyhow::Result<()> {
        let mut written = Ok(());
        for (form, output) in self.files {
            written = written.and(output.write(&form(report)));
        }
        written
    }

    pub(super) fn stdout(&self) -> ReportForm {
        self.stdout
    }
}

/// A file that a report goes to.
pub(super) struct ReportFile {
    path: PathBuf,
    file: File,
}

impl ReportFile {
    /// Opens the file. Its content stays until there is a report: the run may not begin.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        Ok(Self {
            file: file.with_context(|| cannot_be_written(path))?,
            path: path.to_owned(),
        })
    }

    /// Replaces the content by `text`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(mut self, text: &str) -> anyhow::Result<()> {
        let mut write = || {
            // Terminals and pipes have no length.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(text.as_bytes())
        };
        write().with_context(|| cannot_be_written(&self.path))
    }
}

fn cannot_be_written(path: &Path) -> String {
    format!("{} cannot be written", path.display())
}

/// Whether a file is written as `-`.
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Prints a report.
///
/// # Errors
/// When it cannot be written; a closed pipe is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("stdout cannot be written")
        }
        _ => Ok(()),
    }
}
