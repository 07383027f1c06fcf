//! The command line in the forms of other programs: completion scripts of shells, and manual pages.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;

/// Prints the completion script of a shell.
///
/// # Errors
/// When standard output does not take it; a closed pipe is no error.
pub(crate) fn print_completion(shell: Shell) -> io::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockgate", &mut script);
    print(&script)
}

/// Prints the manual page of a command, or of the program.
///
/// # Errors
/// When standard output does not take it; a closed pipe is no error.
pub(crate) fn print_manual(command: Option<&str>) -> io::Result<ExitCode> {
    let mut program = Cli::command();
    // Names of commands get the name of the program in front.
    program.build();
    let found = command.and_then(|name| program.find_subcommand(name));
    let mut page = Vec::new();
    Man::new(found.unwrap_or(&program).clone()).render(&mut page)?;
    print(&page)
}

/// The name of a command, also by an alias.
pub(super) fn command_name(written: &str) -> Result<String, String> {
    match Cli::command().find_subcommand(written) {
        Some(command) => Ok(command.get_name().to_owned()),
        None => Err("there is no such command: `lockgate --help` lists all".to_owned()),
    }
}

fn print(text: &[u8]) -> io::Result<ExitCode> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}
