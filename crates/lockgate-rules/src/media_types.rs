//! Which media type a file has.

use lockgate_http::media_type;

use crate::pattern::Pattern;

/// Media types of a route's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileTypes {
    /// By the path of the request, the more specific before the less: the first that matches holds.
    pub paths: Vec<(Pattern, String)>,
    /// By what follows the last dot of the name, in small letters.
    pub extensions: Vec<(String, String)>,
}

impl FileTypes {
    /// That of a file at `at`, which was found for `path`.
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
