//! The media type of a file by its name, and properties of media types.
//!
//! Knows the usual ones, as registered with IANA where they are; a site adds its own in its
//! configuration.

/// The type of unknown files (RFC 9110 §8.3): browsers offer to save them.
pub const DEFAULT: &str = "application/octet-stream";

/// By extension, in lower case and in order.
#[rustfmt::skip] // a line each
const BY_EXTENSION: [(&str, &str); 178] = [
    ("3g2", "video/3gpp2"),
    ("3gp", "video/3gpp"),
    ("3mf", "model/3mf"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("adoc", "text/asciidoc"),
    ("ai", "application/postscript"),
    ("aif", "audio/aiff"),
    ("aiff", "audio/aiff"),
    ("apk", "application/vnd.android.package-archive"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("c", "text/x-c"),
    ("cab", "application/vnd.ms-cab-compressed"),
    ("cbor", "application/cbor"),
    ("cc", "text/x-c"),
    ("cer", "application/pkix-cert"),
    ("cjs", "text/javascript"),
    ("conf", "text/plain"),
    ("cpp", "text/x-c"),
    ("crl", "application/pkix-crl"),
    ("crt", "application/x-x509-ca-cert"),
    ("crx", "application/x-chrome-extension"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("cur", "image/x-icon"),
    ("deb", "application/vnd.debian.binary-package"),
    ("der", "application/x-x509-ca-cert"),
    ("diff", "text/x-diff"),
    ("djvu", "image/vnd.djvu"),
    ("dmg", "application/x-apple-diskimage"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("dtd", "application/xml-dtd"),
    ("eml", "message/rfc822"),
    ("eot", "application/vnd.ms-fontobject"),
    ("eps", "application/postscript"),
    ("epub", "application/epub+zip"),
    ("exe", "application/vnd.microsoft.portable-executable"),
    ("flac", "audio/flac"),
    ("flv", "video/x-flv"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("gpx", "application/gpx+xml"),
    ("graphql", "application/graphql"),
    ("gz", "application/gzip"),
    ("h", "text/x-c"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("hpp", "text/x-c"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar"),
    ("ini", "text/plain"),
    ("ipynb", "application/x-ipynb+json"),
    ("iso", "application/x-iso9660-image"),
    ("jar", "application/java-archive"),
    ("java", "text/x-java-source"),
    ("jfif", "image/jpeg"),
    ("jp2", "image/jp2"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("kmz", "application/vnd.google-earth.kmz"),
    ("ktx2", "image/ktx2"),
    ("log", "text/plain"),
    ("lz4", "application/x-lz4"),
    ("m3u", "audio/x-mpegurl"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript"),
    ("mkv", "video/x-matroska"),
    ("mml", "application/mathml+xml"),
    ("mobileconfig", "application/x-apple-aspen-config"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("msi", "application/x-msi"),
    ("mtl", "model/mtl"),
    ("ndjson", "application/x-ndjson"),
    ("obj", "model/obj"),
    ("odg", "application/vnd.oasis.opendocument.graphics"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("p12", "application/x-pkcs12"),
    ("parquet", "application/vnd.apache.parquet"),
    ("patch", "text/x-diff"),
    ("pdf", "application/pdf"),
    ("pkpass", "application/vnd.apple.pkpass"),
    ("pmtiles", "application/vnd.pmtiles"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("ps", "application/postscript"),
    ("psd", "image/vnd.adobe.photoshop"),
    ("py", "text/x-python"),
    ("qt", "video/quicktime"),
    ("rar", "application/vnd.rar"),
    ("rdf", "application/rdf+xml"),
    ("rpm", "application/x-rpm"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("sqlite", "application/vnd.sqlite3"),
    ("srt", "application/x-subrip"),
    ("stl", "model/stl"),
    ("svg", "image/svg+xml"),
    ("swf", "application/x-shockwave-flash"),
    ("tar", "application/x-tar"),
    ("tex", "application/x-tex"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("torrent", "application/x-bittorrent"),
    ("ts", "video/mp2t"),
    ("tsv", "text/tab-separated-values"),
    ("ttc", "font/collection"),
    ("ttf", "font/ttf"),
    ("ttl", "text/turtle"),
    ("txt", "text/plain"),
    ("usdz", "model/vnd.usdz+zip"),
    ("vcf", "text/vcard"),
    ("vtt", "text/vtt"),
    ("war", "application/java-archive"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("whl", "application/zip"),
    ("wmv", "video/x-ms-wmv"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("wsdl", "application/wsdl+xml"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xpi", "application/x-xpinstall"),
    ("xps", "application/vnd.ms-xpsdocument"),
    ("xsd", "application/xml"),
    ("xsl", "application/xslt+xml"),
    ("xslt", "application/xslt+xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The length of the longest extension.
const LONGEST: usize = 12;

/// The media type of a file with this name or path, by its last extension in any case; [`DEFAULT`]
/// if it is unknown. A name that only begins with a dot has no extension.
pub fn of(path: &[u8]) -> &'static str {
    extension(path).and_then(by_extension).unwrap_or(DEFAULT)
}

/// The text behind the last dot of the last segment, if there is any before it.
pub fn extension(path: &[u8]) -> Option<&[u8]> {
    let name = memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..]);
    memchr::memrchr(b'.', name)
        .filter(|dot| *dot > 0)
        .map(|dot| &name[dot + 1..])
}

fn by_extension(extension: &[u8]) -> Option<&'static str> {
    let mut small = [0; LONGEST];
    let small = small.get_mut(..extension.len())?;
    small.copy_from_slice(extension);
    small.make_ascii_lowercase();
    let found = BY_EXTENSION
        .binary_search_by(|(known, _)| known.as_bytes().cmp(small))
        .ok()?;
    Some(BY_EXTENSION[found].1)
}

/// Whether a Content-Type needs a charset: it is text and has none.
///
/// Not for XML, which declares its own that would be overruled (RFC 7303 §3), nor for JSON, which
/// has only one (RFC 8259 §8.1).
pub fn wants_charset(content_type: &[u8]) -> bool {
    let (essence, parameters) = split(content_type);
    begins(essence, b"text/")
        && !essence.eq_ignore_ascii_case(b"text/xml")
        && !parameters
            .split(|&byte| byte == b';')
            .any(|parameter| begins(parameter.trim_ascii_start(), b"charset="))
}

/// Whether content of this type usually compresses well: text of any kind, and the few binary
/// formats that are not compressed themselves. Parameters are ignored.
pub fn is_compressible(content_type: &[u8]) -> bool {
    /// Beside text/* and the suffixes +json, +xml, +text and +yaml (RFC 6839, RFC 9512).
    const OTHERS: [&str; 43] = [
        "application/cbor",
        "application/ecmascript",
        "application/font-sfnt",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/msword",
        "application/ndjson",
        "application/postscript",
        "application/rtf",
        "application/sql",
        "application/toml",
        "application/vnd.apple.mpegurl",
        "application/vnd.ms-excel",
        "application/vnd.ms-fontobject",
        "application/vnd.ms-powerpoint",
        "application/wasm",
        "application/x-font-otf",
        "application/x-font-ttf",
        "application/x-javascript",
        "application/x-mpegurl",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-subrip",
        "application/x-tex",
        "application/xml",
        "application/xml-dtd",
        "application/yaml",
        "audio/midi",
        "audio/mpegurl",
        "audio/x-mpegurl",
        "font/collection",
        "font/otf",
        "font/sfnt",
        "font/ttf",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/x-icon",
        "image/x-ms-bmp",
        "message/rfc822",
        "model/mtl",
        "model/obj",
        "model/stl",
    ];
    let (essence, _) = split(content_type);
    let ends = |end: &[u8]| {
        essence
            .len()
            .checked_sub(end.len())
            .is_some_and(|at| essence[at..].eq_ignore_ascii_case(end))
    };
    begins(essence, b"text/")
        || [&b"+json"[..], b"+xml", b"+text", b"+yaml"]
            .into_iter()
            .any(ends)
        || OTHERS
            .iter()
            .any(|other| other.as_bytes().eq_ignore_ascii_case(essence))
}

/// Type and subtype, and the parameters.
fn split(content_type: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b';', content_type).unwrap_or(content_type.len());
    let (essence, parameters) = content_type.split_at(end);
    (essence.trim_ascii(), parameters)
}

/// Whether a text begins with `start`, in any case.
fn begins(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len())
        .is_some_and(|found| found.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::parse::TOKEN;

    #[test]
    fn the_media_type_table_is_sorted_and_valid() {
        assert!(BY_EXTENSION.is_sorted_by(|(before, _), (behind, _)| before < behind));
        assert_eq!(
            BY_EXTENSION
                .iter()
                .map(|(extension, _)| extension.len())
                .max(),
            Some(LONGEST)
        );
        for (extension, media_type) in BY_EXTENSION {
            assert!(
                extension
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9')),
                "{extension}"
            );
            let (kind, subtype) = media_type.split_once('/').expect(media_type);
            let token =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| TOKEN[usize::from(byte)]);
            assert!(token(kind) && token(subtype), "{media_type}");
            assert_eq!(media_type, media_type.to_ascii_lowercase());
        }
    }

    #[test]
    fn the_last_file_extension_decides_the_media_type() {
        for (path, media_type) in [
            ("index.html", "text/html"),
            ("/a/b/INDEX.HTM", "text/html"),
            ("app.min.js", "text/javascript"),
            // RFC 9239 §6: text/javascript for both.
            ("app.mjs", "text/javascript"),
            ("app.js.map", "application/json"),
            ("site.webmanifest", "application/manifest+json"),
            ("a.wasm", "application/wasm"),
            ("a.woff2", "font/woff2"),
            ("a.svg", "image/svg+xml"),
            ("a.avif", "image/avif"),
            ("a.m3u8", "application/vnd.apple.mpegurl"),
            ("a.ts", "video/mp2t"),
            ("a.tar.gz", "application/gzip"),
            ("a.css/b", DEFAULT),
            ("a.css/b.png", "image/png"),
            ("README", DEFAULT),
            ("a.", DEFAULT),
            (".html", DEFAULT),
            ("/a/.html", DEFAULT),
            (".a.html", "text/html"),
            ("..html", "text/html"),
            ("", DEFAULT),
            ("/", DEFAULT),
            (".", DEFAULT),
            ("html", DEFAULT),
            ("a.html ", DEFAULT),
            ("a.\u{e4}", DEFAULT),
            ("a.htm\0", DEFAULT),
            ("a.mobileconfigs", DEFAULT),
        ] {
            assert_eq!(of(path.as_bytes()), media_type, "{path:?}");
        }
        assert_eq!(of(&[&b"a."[..], &b"x".repeat(1 << 20)].concat()), DEFAULT);
        for (extension, media_type) in BY_EXTENSION {
            assert_eq!(of(format!("a.{extension}").as_bytes()), media_type);
            assert_eq!(
                of(format!("a.{}", extension.to_uppercase()).as_bytes()),
                media_type
            );
        }
    }

    #[test]
    fn text_media_types_without_charset_get_one() {
        for (content_type, wants) in [
            ("text/html", true),
            ("Text/Plain", true),
            ("text/javascript", true),
            ("text/html; version=1", true),
            ("text/html;", true),
            ("text/html;charset=utf-8", false),
            ("text/html; version=1 ;\tCharset=\"utf-8\"", false),
            ("text/xml", false),
            ("TEXT/XML; a=b", false),
            ("application/json", false),
            ("application/xhtml+xml", false),
            ("image/svg+xml", false),
            ("text", false),
            ("", false),
        ] {
            assert_eq!(
                wants_charset(content_type.as_bytes()),
                wants,
                "{content_type}"
            );
        }
    }

    #[test]
    fn compressed_media_types_are_not_compressible() {
        for extension in [
            "html",
            "css",
            "js",
            "json",
            "map",
            "xml",
            "rss",
            "atom",
            "svg",
            "txt",
            "md",
            "csv",
            "wasm",
            "webmanifest",
            "ttf",
            "otf",
            "eot",
            "ico",
            "bmp",
            "m3u8",
            "mpd",
            "yaml",
            "toml",
            "geojson",
            "gltf",
            "rtf",
            "xhtml",
            "vtt",
        ] {
            assert!(
                is_compressible(of(format!("a.{extension}").as_bytes()).as_bytes()),
                "{extension}"
            );
        }
        for extension in [
            "png", "jpg", "gif", "webp", "avif", "jxl", "woff", "woff2", "mp3", "mp4", "webm",
            "zip", "gz", "zst", "pdf", "docx", "epub", "jar", "bin", "ts", "unknown",
        ] {
            assert!(
                !is_compressible(of(format!("a.{extension}").as_bytes()).as_bytes()),
                "{extension}"
            );
        }
        for (content_type, compressible) in [
            ("TEXT/HTML; charset=utf-8", true),
            ("application/problem+JSON ; a=b", true),
            ("application/javascript", true),
            ("application/json;a=\"/x+zip\"", true),
            ("application/x;a=+json", false),
            ("json", false),
            ("", false),
        ] {
            assert_eq!(
                is_compressible(content_type.as_bytes()),
                compressible,
                "{content_type}"
            );
        }
    }
}
