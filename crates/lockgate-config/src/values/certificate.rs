//! The path of a certificate, and words that other servers have in its place.

use std::path::PathBuf;

use crate::codes::Code;
use crate::document::TomlString;
use crate::foreign_names::certificate_word;
use crate::language::TreeChecker;
use crate::source::SourceSpan;

use super::{FilePath, InvalidText, TextLanguage};

/// The file of a certificate, by its path.
pub(crate) struct CertificateFile;

impl TextLanguage for CertificateFile {
    type Value = PathBuf;

    const EXPECTED: &str = "the path of a certificate";

    fn parse(&self, text: &TomlString) -> Result<PathBuf, InvalidText> {
        match certificate_word(&text.value) {
            Some(cure) => {
                let message = "is not the path of a certificate";
                let why = "this word stands for certificates that come by themselves";
                Err(text.invalid(Code::UnknownWord, message, why, cure))
            }
            None => FilePath.parse(text),
        }
    }

    fn rooted(
        &self,
        path: PathBuf,
        text: &TomlString,
        at: &SourceSpan,
        checker: &mut TreeChecker<'_>,
    ) -> PathBuf {
        FilePath.rooted(path, text, at, checker)
    }
}
