//! The arguments of `lockgate fmt`: files to bring into their canonical form.

use std::path::PathBuf;

use clap::Args;

// No doc comment: clap would print it instead of the command's.
#[derive(Args)]
pub(super) struct FmtArgs {
    /// The files; `-` is standard input, the result of which goes to standard output
    /// [default: $LOCKGATE_CONFIG, else /etc/lockgate/lockgate.toml]
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Change nothing, list the files that would change, and exit with 1 if there are some
    #[arg(long)]
    pub(super) check: bool,
}

/// Files to bring into their canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FmtOptions {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) mode: FmtMode,
}

/// What is done with a file that has another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FmtMode {
    /// It is written anew.
    Write,
    /// It is listed.
    List,
}

impl FmtArgs {
    pub(super) fn resolve(self, files: Vec<PathBuf>) -> FmtOptions {
        FmtOptions {
            files,
            mode: match self.check {
                true => FmtMode::List,
                false => FmtMode::Write,
            },
        }
    }
}
