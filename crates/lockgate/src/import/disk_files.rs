//! The files of a source, read from the disk.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use lockgate_config::Environment;
use lockgate_import::SourceFiles;

/// The longest file that is read: a configuration is shorter.
const LONGEST: u64 = 32 * 1024 * 1024;

/// Reads the disk.
pub(super) struct DiskFiles;

impl SourceFiles for DiskFiles {
    fn read(&self, path: &Path) -> Result<String, String> {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text));
        match read {
            Err(error) => Err(error.to_string()),
            Ok(length) if length as u64 > LONGEST => Err("it is longer than 32 MB".to_owned()),
            // Old files have Latin-1 in their comments.
            Ok(_) => Ok(String::from_utf8_lossy(&text).into_owned()),
        }
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        Environment::process().glob(pattern)
    }
}
