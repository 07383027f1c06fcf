//! Tasks of the repository. `measure` prints figures about the sources of a checkout.

mod measure;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use measure::Workspace;

const USAGE: &str =
    "usage: cargo run -p xtask -- measure [ROOT] [--cycles] [--floors] [--names] [--words]";

fn main() -> ExitCode {
    let printed = run(std::env::args().skip(1))
        .and_then(|text| Ok(std::io::stdout().write_all(text.as_bytes())?));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The text that the command prints.
fn run(mut args: impl Iterator<Item = String>) -> Result<String, Box<dyn Error>> {
    if args.next().as_deref() != Some("measure") {
        return Err(USAGE.into());
    }
    let mut root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut lists: Vec<fn(&Workspace) -> String> = Vec::new();
    for arg in args {
        match arg.as_str() {
            "--cycles" => lists.push(Workspace::list_cycles),
            "--floors" => lists.push(Workspace::list_floors),
            "--names" => lists.push(Workspace::list_names),
            "--words" => lists.push(Workspace::list_words),
            path if !path.starts_with('-') => root = PathBuf::from(path),
            _ => return Err(USAGE.into()),
        }
    }
    let workspace = Workspace::read(&root)?;
    let mut text = workspace.table();
    for list in lists {
        text.push('\n');
        text.push_str(&list(&workspace));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    /// This workspace, read once for all tests.
    static WORKSPACE: LazyLock<Workspace> = LazyLock::new(|| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        Workspace::read(root.as_ref()).unwrap()
    });

    /// A file that imports what imports it cannot be read, tested or moved without the other.
    #[test]
    fn no_crate_has_an_import_cycle() {
        let cycles = WORKSPACE.list_cycles();
        assert_eq!(cycles, "import cycles\n");
    }

    /// A crate or module is understood with those of lower floors alone. `measure/floors.rs` has
    /// the table.
    #[test]
    fn crates_and_modules_import_only_from_lower_floors() {
        let floors = WORKSPACE.list_floors();
        assert_eq!(floors.lines().count(), 1, "{floors}");
    }

    /// Two types of one name make a reader look for the difference in the imports. `State`, `Error`
    /// and `Kind` may be local to a file.
    #[test]
    fn no_crate_has_a_type_name_twice() {
        let names = WORKSPACE.list_names();
        for line in names.lines().skip(1) {
            let (name, paths) = line.split_once(": ").unwrap();
            let mut crates: Vec<_> = paths
                .split(' ')
                .map(|path| path.split('/').nth(1).unwrap())
                .collect();
            let all = crates.len();
            crates.dedup();
            assert_eq!(crates.len(), all, "{name}: {paths}");
        }
    }

    /// A comment calls a thing by its noun.
    #[test]
    fn comments_have_no_word_that_names_no_thing() {
        let words = WORKSPACE.list_words();
        assert_eq!(words.lines().count(), 1, "{words}");
    }
}
