//! Names for files that are served and for what answers are made of: compression, caching, security
//! fields, pages.

use super::{ForeignName, write};

pub(super) const ROWS: &[ForeignName] = &[
    write(
        "file_server document_root static webroot public root_dir files serve static_files static_dir \
         htdocs www dir folder path_to_files",
        "write root = \"/srv/www\" in the [site] or path table",
    ),
    write(
        "try_files try_file fallbackresource",
        "write try = [\"{path}\", \"{path}/\", \"/app.html\"], or spa = true, beside root",
    ),
    write(
        "fallback fallback_page page_fallback single_page single_page_app history_api_fallback",
        "write spa = \"/app.html\" beside root",
    ),
    write(
        "autoindex browse directory_listing directory_index_listing dir_listing listing_enabled",
        "write listing = true beside root",
    ),
    write(
        "directory_index index_names index_files index_file default_file",
        "write index = [\"index.html\"] beside root",
    ),
    write(
        "page404 errordocument error_404 notfound custom_404 page_not_found 404",
        "write not_found = \"/404.html\" beside root",
    ),
    write(
        "default_type mime_types mime addtype content_types media_types",
        "write types = { \".log\" = \"text/plain\" } beside root",
    ),
    write(
        "gzip_static brotli_static zstd_static compression_static use_precompressed",
        "precompressed files are sent unless precompressed = false",
    ),
    write(
        "disable_symlinks follow_symlinks symlink",
        "write symlinks = \"inside\" or \"follow\" beside root",
    ),
    write(
        "hide ignore_hidden_files dotfiles hide_dotfiles",
        "names with a leading dot are not served unless hidden = true",
    ),
    write(
        "open_file_cache sendfile tcp_nopush tcp_nodelay aio directio output_buffers",
        "remove it: files are cached and sent so by default",
    ),
    write(
        "gzip encode brotli zstd compression gzip_types gzip_min_length deflate brotli_types \
         gzip_vary gzip_comp_level gzip_proxied mod_deflate",
        "write compress = true, or compress = { codings = [\"gzip\"], types = [\"text/*\"], min = \"1KB\" }",
    ),
    write(
        "algo algorithms algorithm encodings formats",
        "write codings = [\"zstd\", \"gzip\"]",
    )
    .beside(&["codings"]),
    write(
        "expires cache_control cache_policy expires_by_type expires_default browser_cache max_age \
         cache_headers",
        "write cache = { \"*\" = \"no-cache\", \"/assets/*\" = \"1y immutable\", \"text/css\" = \"1d\" }",
    ),
    write(
        "hsts strict_transport_security security_headers sts_seconds frame_deny security hsts_max_age \
         content_type_nosniff",
        "write headers = { secure = true }",
    ),
    write(
        "csp content_security_policy x_frame_options referrer_policy permissions_policy",
        "write headers = { content-security-policy = \"default-src 'self'\" }",
    ),
    write(
        "access_control_allow_origin allow_origin access_control_allow_origin_list cors_headers \
         cors_origins allow_origins",
        "write cors = \"https://app.example.com\", a list of origins, or true",
    ),
    write(
        "origin allow_origin allow_origins allowed_origins",
        "write origins = [\"https://app.example.com\"]",
    )
    .beside(&["origins"]),
    write(
        "sub_filter subs_filter replace replace_filter body_filter substitute js_body_filter \
         rewrite_response",
        "write rewrite_body = [{ text = \"a\", with = \"b\" }]",
    ),
    write(
        "find search from pattern",
        "write text = \"a\", or regex = \"a+\"",
    )
    .beside(&["regex"]),
    write("replacement to by", "write with = \"b\"").beside(&["regex"]),
    write(
        "server_tokens serversignature",
        "remove it, or write headers = { server = false }",
    ),
    write(
        "charset_types override_charset adddefaultcharset default_charset",
        "write charset = \"utf-8\" beside root",
    ),
    write(
        "error_page errorfile handle_errors errors http_errors",
        "write error_pages = { 502 = \"/path/502.html\" }",
    ),
    write(
        "alias_path alias_dir",
        "write root = \"/srv/files\" and strip_prefix = true in the path table",
    ),
    write(
        "etag if_modified_since accept_ranges ranges range",
        "remove it: files have ETag, Last-Modified and ranges",
    ),
];
