//! Directives that mean the same wherever they stand: what Lockgate does by itself, and what it
//! has not.

use super::scope::NginxVerdicts;
use super::syntax::NginxDirective;
use crate::Verdict;

/// What Lockgate does by itself, or needs no word about.
const DEFAULTS: &str = " worker_processes worker_connections worker_rlimit_nofile worker_cpu_affinity \
 worker_priority worker_shutdown_timeout worker_aio_requests multi_accept use accept_mutex \
 accept_mutex_delay events pid daemon master_process lock_file pcre_jit timer_resolution thread_pool \
 env working_directory worker_rlimit_core debug_connection sendfile sendfile_max_chunk tcp_nopush \
 tcp_nodelay aio aio_write directio directio_alignment output_buffers postpone_output read_ahead \
 types_hash_max_size types_hash_bucket_size server_names_hash_max_size \
 server_names_hash_bucket_size variables_hash_max_size variables_hash_bucket_size \
 map_hash_max_size map_hash_bucket_size proxy_headers_hash_max_size \
 proxy_headers_hash_bucket_size keepalive_timeout keepalive_requests keepalive_disable \
 keepalive_time client_header_timeout client_body_timeout send_timeout reset_timedout_connection \
 lingering_close lingering_time lingering_timeout client_header_buffer_size \
 large_client_header_buffers client_body_buffer_size client_body_temp_path \
 client_body_in_file_only client_body_in_single_buffer connection_pool_size request_pool_size \
 proxy_buffering proxy_request_buffering proxy_buffers proxy_buffer_size proxy_busy_buffers_size \
 proxy_max_temp_file_size proxy_temp_path proxy_temp_file_write_size proxy_http_version \
 proxy_send_timeout proxy_socket_keepalive proxy_ignore_client_abort \
 proxy_pass_header proxy_force_ranges proxy_send_lowat proxy_next_upstream_timeout \
 proxy_next_upstream_tries proxy_ssl_server_name proxy_ssl_session_reuse proxy_ssl_protocols \
 proxy_ssl_ciphers proxy_ssl_verify_depth proxy_connection \
 grpc_send_timeout grpc_buffer_size grpc_socket_keepalive \
 resolver resolver_timeout server_tokens server_name_in_redirect port_in_redirect \
 absolute_redirect merge_slashes msie_padding msie_refresh underscores_in_headers \
 ignore_invalid_headers chunked_transfer_encoding etag if_modified_since max_ranges log_not_found \
 log_subrequest open_log_file_cache open_file_cache open_file_cache_valid open_file_cache_min_uses \
 open_file_cache_errors error_log rewrite_log uninitialized_variable_warn recursive_error_pages \
 gzip_types gzip_vary gzip_proxied gzip_comp_level gzip_min_length gzip_buffers gzip_http_version \
 gzip_disable gzip_static gzip_window gzip_hash gunzip gunzip_buffers gzip_no_buffer brotli_types \
 brotli_comp_level brotli_static brotli_min_length brotli_buffers brotli_window zstd_types zstd_comp_level \
 zstd_static zstd_min_length ssl_session_cache ssl_session_timeout ssl_prefer_server_ciphers \
 ssl_ciphers ssl_ecdh_curve ssl_dhparam ssl_buffer_size ssl_stapling_verify ssl_trusted_certificate \
 ssl_handshake_timeout http2 http2_max_concurrent_streams http2_max_field_size \
 http2_max_header_size http2_recv_timeout http2_idle_timeout http2_max_requests \
 http2_chunk_size http2_body_preread_size http2_push_preload charset_types override_charset \
 status_zone real_ip_recursive limit_req_log_level limit_conn_log_level auth_delay subrequest_output_buffer_size \
 ssl_certificate_cache preread_buffer_size preread_timeout variables_hash acme_shared_zone \
 server_rewrite_log break default_type ";

/// What Lockgate has not: the beginning of the name, the reason, and what to do instead.
const ABSENT: &[(&str, &str, &str)] = &[
    (
        "proxy_cache",
        "responses are not kept",
        "put Varnish between, or write `cache` so that browsers keep them",
    ),
    (
        "proxy_no_cache",
        "responses are not kept",
        "put Varnish between",
    ),
    (
        "proxy_store",
        "responses are not kept",
        "put Varnish between",
    ),
    ("slice", "responses are not kept", "put Varnish between"),
    (
        "fastcgi_",
        "FastCGI is not spoken",
        "run a server that speaks HTTP before the application and write proxy = \"unix:/run/app.sock\"",
    ),
    (
        "uwsgi_",
        "the protocol uwsgi is not spoken",
        "let uWSGI or gunicorn speak HTTP and write proxy = \"unix:/run/app.sock\"",
    ),
    (
        "scgi_",
        "SCGI is not spoken",
        "run a server that speaks HTTP before the application",
    ),
    (
        "passenger_",
        "Lockgate runs no application",
        "run Passenger alone and write proxy = \"127.0.0.1:3000\"",
    ),
    (
        "lua_",
        "there are no scripts",
        "ask a service with auth = { forward = \"127.0.0.1:4181\" }",
    ),
    (
        "js_",
        "there are no scripts",
        "ask a service with auth = { forward = \"127.0.0.1:4181\" }",
    ),
    (
        "perl_",
        "there are no scripts",
        "let an application answer, behind proxy",
    ),
    (
        "geo",
        "the country of a client is not known",
        "allow and deny take networks",
    ),
    (
        "split_clients",
        "requests are not divided by chance",
        "give the endpoints of a pool a `weight`",
    ),
    ("mirror", "requests are not copied", ""),
    (
        "sub_filter",
        "a body is changed by rules",
        "write rewrite_body = [{ text = \"a\", with = \"b\" }]",
    ),
    ("ssi", "pages are sent as they are", "write rewrite_body"),
    (
        "dav_",
        "files are read only",
        "let an application take uploads, behind proxy",
    ),
    (
        "limit_rate",
        "rates hold for a connection, a client or all",
        "write shape = { per_connection = { out = \"10MB/s\" } }",
    ),
    (
        "limit_conn",
        "connections are limited for the process",
        "write limits = { per_client = 100 } at the top",
    ),
    ("ssl_early_data", "clients resume without early data", ""),
    (
        "ssl_crl",
        "client certificates are not looked up in lists",
        "give short-lived ones",
    ),
    (
        "ssl_password_file",
        "keys are read without a password",
        "store the key without one",
    ),
    (
        "http3",
        "HTTP/3 is not spoken yet",
        "clients get HTTP/2 over TLS",
    ),
    (
        "quic",
        "HTTP/3 is not spoken yet",
        "clients get HTTP/2 over TLS",
    ),
    ("image_filter", "images are sent as they are", ""),
    (
        "disable_symlinks",
        "`symlinks` says which are followed",
        "write symlinks = \"inside\", which is the default",
    ),
    (
        "proxy_cookie_",
        "cookies keep their domain; paths are put back after strip_prefix",
        "",
    ),
    (
        "proxy_bind",
        "connections to endpoints come from this machine",
        "",
    ),
    ("userid", "Lockgate sets no cookie for visitors", ""),
    (
        "log_format",
        "the access log has the formats json, combined and logfmt",
        "",
    ),
    (
        "secure_link",
        "links are not verified",
        "let the application verify them",
    ),
    (
        "rtmp",
        "RTMP is not understood",
        "relay it with a [tcp] table",
    ),
    (
        "mail",
        "mail is not understood",
        "relay it with a [tcp] table",
    ),
    (
        "modsecurity",
        "there is no web application firewall",
        "ask one with auth = { forward = \"127.0.0.1:4181\" }",
    ),
    ("pagespeed", "pages are sent as they are", ""),
    ("more_set_input_headers", "", "write request_headers"),
    (
        "proxy_ignore_headers",
        "responses are not kept, and X-Accel fields are forwarded",
        "",
    ),
    ("proxy_method", "a request keeps its method", ""),
    ("proxy_set_body", "a request keeps its body", ""),
    ("proxy_pass_request_body", "a request keeps its body", ""),
    (
        "match",
        "checks belong to a pool",
        "write health = { path = \"/health\" } in the [pool] table",
    ),
    (
        "health_check",
        "checks belong to a pool",
        "write health = { path = \"/health\" } in the [pool] table",
    ),
];

/// Rules about access that have no counterpart: a route with one of them is closed.
pub(super) const CLOSING: &[&str] = &[
    "auth_jwt",
    "auth_jwt_require",
    "auth_pam",
    "auth_ldap",
    "auth_ldap_servers",
    "auth_digest",
    "auth_gss",
    "access_by_lua",
    "access_by_lua_block",
    "access_by_lua_file",
    "js_access",
    "secure_link",
    "secure_link_secret",
    "valid_referers",
    "limit_except",
    "modsecurity",
    "session_log",
    "auth_delay",
    "auth_oidc",
    "SecRulesEnabled",
    "naxsi",
];

/// What the other modules convert or refuse by name.
const HANDLED: &str = " user http server location stream upstream map types listen server_name root alias index \
 try_files rewrite return if set include error_page proxy_pass grpc_pass proxy_set_header \
 grpc_set_header proxy_hide_header add_header expires charset gzip brotli zstd client_max_body_size \
 proxy_connect_timeout proxy_read_timeout grpc_read_timeout proxy_ssl_name proxy_ssl_verify \
 proxy_ssl_trusted_certificate proxy_intercept_errors ssl ssl_certificate ssl_certificate_key \
 ssl_protocols ssl_session_tickets ssl_stapling ssl_verify_client ssl_verify_depth \
 ssl_client_certificate ssl_reject_handshake proxy_redirect proxy_next_upstream allow deny satisfy auth_basic \
 auth_basic_user_file auth_request auth_request_set limit_req limit_req_zone limit_req_status \
 access_log set_real_ip_from real_ip_header internal autoindex autoindex_exact_size \
 autoindex_localtime autoindex_format more_set_headers more_clear_headers load_module \
 acme_issuer acme_certificate add_before_body add_trailer limit_conn_status allow_methods \
 ssl_conf_command ssl_stapling_file ssl_stapling_responder image xslt_stylesheet \
 proxy_pass_request_headers ";

/// Whether the import knows what a directive is about. Another one may restrict the clients.
pub(super) fn is_known(name: &str) -> bool {
    let word = format!(" {name} ");
    DEFAULTS.contains(&word)
        || HANDLED.contains(&word)
        || absent(name).is_some()
        || super::answer::is_handler(name)
        || CLOSING.contains(&name)
}

/// The entry of what Lockgate has not.
fn absent(name: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    ABSENT.iter().find(|(start, ..)| {
        name.strip_prefix(start).is_some_and(|rest| {
            rest.is_empty()
                || start.ends_with('_')
                || rest.starts_with('_')
                || *start == "geo" && rest.starts_with("ip")
        })
    })
}

/// Gives the directives of a tree the verdicts that do not depend on their place.
pub(super) fn settle_known(verdicts: &NginxVerdicts, tree: &[NginxDirective]) {
    let mut all: Vec<&NginxDirective> = tree.iter().collect();
    while let Some(directive) = all.pop() {
        let inner_default = one(verdicts, directive);
        if inner_default {
            verdicts.rest(directive, &Verdict::Default);
        } else {
            // The entries of these are no directives.
            if !matches!(
                directive.name.as_str(),
                "map" | "types" | "geo" | "acme_issuer"
            ) {
                all.extend(directive.children());
            }
        }
    }
}

/// Whether all in the directive's block is the default too.
fn one(verdicts: &NginxVerdicts, directive: &NginxDirective) -> bool {
    let name = directive.name.as_str();
    let first = directive.arg(0);
    match name {
        "events" => {
            verdicts.default(directive);
            return true;
        }
        "load_module" => {
            if ["brotli", "stream", "zstd", "headers_more", "http_acme"]
                .iter()
                .any(|m| first.contains(m) && !first.contains("geoip") && !first.contains("js"))
            {
                verdicts.default(directive);
            } else {
                verdicts.refuse(directive, "there are no modules", None);
            }
        }
        "proxy_pass_request_headers" if first == "off" => verdicts.refuse(
            directive,
            "the fields of a request are forwarded",
            Some("write request_headers = { cookie = false } for each that the application must not see"),
        ),
        "proxy_pass_request_headers" => verdicts.default(directive),
        "ssl_protocols" => protocols(verdicts, directive),
        "ssl_session_tickets" | "ssl_stapling" | "proxy_redirect" | "proxy_next_upstream" => {
            let verdict = match (name, first) {
                // The tables of the sites have it.
                (_, "off") if name == "ssl_session_tickets" => Verdict::Converted,
                ("ssl_stapling", "on") => Verdict::differs(
                    "no OCSP response is fetched: `tls.ocsp` names a file with one",
                ),
                ("proxy_redirect", "off" | "default") => Verdict::Default,
                ("proxy_redirect", _) => Verdict::differs(
                    "a Location that names the endpoint is put back to what the client sees, no other",
                ),
                ("proxy_next_upstream", "off") => Verdict::differs(
                    "a request that nothing answered is sent again: retry = false in a pool turns that off",
                ),
                ("proxy_next_upstream", _)
                    if directive
                        .args
                        .iter()
                        .any(|a| a.starts_with("http_") || a == "non_idempotent") =>
                {
                    Verdict::differs(
                        "a request is sent again only if nothing answered it, whatever status an endpoint sends",
                    )
                }
                _ => Verdict::Default,
            };
            verdicts.set(directive, verdict);
        }
        _ if DEFAULTS.contains(&format!(" {name} ")) => verdicts.default(directive),
        _ => {
            let absent = absent(name);
            if let Some((_, because, instead)) = absent
                && name != "log_format"
            {
                let instead = (!instead.is_empty()).then_some(*instead);
                if matches!(first, "off") {
                    verdicts.default(directive);
                } else {
                    verdicts.refuse(directive, *because, instead);
                }
                let inner = Verdict::not_supported(*because, instead);
                verdicts.rest(directive, &inner);
            }
        }
    }
    false
}

fn protocols(verdicts: &NginxVerdicts, directive: &NginxDirective) {
    let old = |v: &&String| matches!(v.as_str(), "SSLv2" | "SSLv3" | "TLSv1" | "TLSv1.1");
    if directive.args.iter().any(|v| old(&v)) {
        verdicts.differs(directive, "TLS before 1.2 is not offered");
    } else {
        verdicts.converted(directive);
    }
}
