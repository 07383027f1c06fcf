//! Media types of files.

use lockgate_http::media_type;

use crate::pattern::Pattern;

/// The media types that a route configures for its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileTypes {
    /// Media types by request path, the more specific pattern first; the first match applies.
    pub paths: Vec<(Pattern, String)>,
    /// Media types by extension, in lower case.
    pub extensions: Vec<(String, String)>,
}

impl FileTypes {
    /// The media type of the file `at` that was found for the request path `path`.
    pub fn of(&self, path: &[u8], at: &[u8]) -> &str {
        if let Some((_, media_type)) = self.paths.iter().find(|(pattern, _)| pattern.matches(path))
        {
            return media_type;
        }
        let extension = media_type::extension(at).unwrap_or_default();
        let is_its =
            |(known, _): &&(String, String)| known.as_bytes().eq_ignore_ascii_case(extension);
        self.extensions
            .iter()
            .find(is_its)
            .map_or_else(|| media_type::of(at), |(_, media_type)| media_type)
    }
}
