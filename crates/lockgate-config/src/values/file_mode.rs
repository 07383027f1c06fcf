//! Permissions of a file, in octal.

use crate::codes::Code;
use crate::document::{TomlItem, TomlString, TomlValue};

use super::{InvalidText, TextLanguage};

/// Permissions as `chmod` takes them, at least for the owner to read and write.
pub(crate) struct FileMode;

/// The owner may read and write.
const LEAST: u32 = 0o600;
const MOST: u32 = 0o777;

impl TextLanguage for FileMode {
    type Value = u32;

    const EXPECTED: &str = "permissions in octal";
    const PATTERN: &str = "^0?[67][0-7][0-7]$";

    fn parse(&self, text: &TomlString) -> Result<u32, InvalidText> {
        let digits = &*text.value;
        let is_octal =
            (3..=4).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        let mode = u32::from_str_radix(digits, 8).ok().filter(|_| is_octal);
        let why = match mode {
            Some(mode) if mode > MOST => {
                "only the permissions of user, group and others have a meaning"
            }
            Some(mode) if mode & LEAST == LEAST => return Ok(mode),
            Some(_) => "Lockgate itself could not use the socket",
            None => "three octal digits are needed",
        };
        Err(text.invalid(
            Code::BadText,
            "is not a mode",
            why,
            "write \"0600\" or \"0660\"",
        ))
    }

    fn other_type_cure(&self, item: &TomlItem) -> Option<String> {
        match item.node {
            // TOML has read the octal digits as decimal ones, or `0o660` as its value.
            TomlValue::Integer(_) => Some("write it in quotes: \"0660\"".to_owned()),
            _ => None,
        }
    }
}
