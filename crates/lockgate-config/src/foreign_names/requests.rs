//! Names for the rules of requests: authentication, limits, header fields, paths, bodies.

use super::{ForeignName, write};

pub(super) const ROWS: &[ForeignName] = &[
    write(
        "from path source match src",
        "the path is the key of a table: [site.\"example.com\".path.\"/old\"]; or write redirects = \"/etc/lockgate/redirects\", a file of them",
    )
    .beside(&["to", "status"]),
    write(
        "return redir redirect_to redirectpermanent moved redirect_url http_redirect redirect_regex",
        "write redirect = \"https://example.org{path}\", or respond = 404",
    ),
    write(
        "redirect_code redirect_status redirect_type redirect_permanent permanent",
        "write redirect = { to = \"https://example.org{path}\", status = 301 }",
    )
    .beside(&["strip_prefix"]),
    write("code permanent type status_code", "write status = 301").beside(&["to", "status"]),
    write(
        "force_https https_redirect redirect_https redirect_http https_only redirect_scheme \
         redirections ssl_redirect redirect_http_to_https force_ssl http_to_https",
        "remove it: a host without a port is served over TLS, and plain HTTP is redirected to it",
    ),
    write(
        "proxy_set_header header_up set_request_header custom_request_headers requestheader reqadd \
         set_header add_request_header remove_request_headers",
        "write request_headers = { x-name = \"value\" }; false as the value removes one",
    ),
    write(
        "add_header header header_down response_headers custom_response_headers rspadd http_response \
         proxy_hide_header more_set_headers more_clear_headers set_response_header hide_headers \
         remove_headers",
        "write headers = { x-name = \"value\" }; false as the value removes one",
    ),
    write(
        "forwardfor option_forwardfor xff x_forwarded_for x_forwarded_proto x_real_ip forwarded \
         pass_host_header preserve_host proxypreservehost forwarded_headers forward_headers",
        "remove it: the endpoint gets Host as it came, X-Forwarded-For, -Proto, -Host and Forwarded; request_headers changes them",
    ),
    write(
        "request_id unique_id unique_id_header x_request_id",
        "remove it: every request gets X-Request-Id, which the access log has as well",
    ),
    write(
        "forwarded_for real_ip_recursive",
        "write trusted = [\"10.0.0.0/8\"] at the top: the proxies with an X-Forwarded-For that Lockgate trusts",
    ),
    write(
        "auth_basic auth_basic_user_file basic_auth htpasswd userlist users users_file authuserfile \
         password_file authtype authentication digest_auth",
        "write auth = { basic = \"/etc/lockgate/htpasswd\" }; `htpasswd -B` writes such a file",
    ),
    write(
        "users file user_file users_file htpasswd username password user hash",
        "write basic = \"/etc/lockgate/htpasswd\", a file as `htpasswd -B` writes it",
    )
    .beside(&["realm"]),
    write(
        "forward_auth auth_request ext_authz external_auth auth_url",
        "write auth = { forward = \"127.0.0.1:4181\", path = \"/verify\", copy = [\"remote-user\"] }",
    ),
    write("address url uri upstream", "write forward = \"127.0.0.1:4181\", and path = \"/verify\" beside it")
        .beside(&["copy"]),
    write(
        "copy_headers auth_response_headers auth_request_set",
        "write copy = [\"remote-user\"] beside forward",
    ),
    write(
        "allow_from allowlist whitelist ip_allow_list ip_white_list source_range allowed_ips \
         remote_ip allow_ips require_ip firewall",
        "write allow = [\"10.0.0.0/8\"] in the [site] or path table",
    ),
    write(
        "deny_from denylist blacklist blocklist block deny_ips blocked_ips ban",
        "write deny = [\"203.0.113.0/24\"] in the [site] or path table",
    ),
    write(
        "allowed_targets allowed_hosts allowlist whitelist http_access acl allowed targets to",
        "write allow = [\"*.example.org:443\", \"10.1.0.0/16:22\"]",
    )
    .beside(&["max_per_user"]),
    write("blocklist blacklist blocked denylist block", "write deny = [\"*.example.org:*\"]")
        .beside(&["max_per_user"]),
    write(
        "http_access acl satisfy order",
        "write allow = [\"10.0.0.0/8\"] or deny = [\"203.0.113.0/24\"]; conditions on the path are tables: [site.\"example.com\".path.\"/x/*\"]",
    ),
    write(
        "limit_req limit_req_zone rate_limit rate_limits limits throttle_requests requests_per_second",
        "write limit = \"20/s per client burst 40\" in the [site] or path table",
    ),
    write("average requests events window count", "write rate = \"20/s\"").beside(&["burst"]),
    write("nodelay key zone by", "write per = \"client\"; more than burst are refused at once")
        .beside(&["burst"]),
    write(
        "proxy_download_rate proxy_upload_rate bwlim_in bwlim_out bandwidth bandwidth_limit throttle \
         speed_limit",
        "write shape = { per_connection = { in = \"1MB/s\", out = \"10MB/s\" } }",
    ),
    write(
        "limit_rate limit_rate_after proxy_limit_rate bwlim",
        "write shape = { per_connection = { out = \"10MB/s\" } }",
    ),
    write(
        "client_max_body_size max_body max_body_size request_body body_max body_limit max_size \
         limitrequestbody max_upload_size upload_limit max_request_body_bytes",
        "write body = { max = \"10MB\" } in the [site] or path table",
    ),
    write("limit max_size size max_bytes", "write max = \"10MB\"").beside(&["min_rate"]),
    write(
        "proxy_buffering proxy_request_buffering buffering flush_interval client_body_buffer_size \
         proxy_buffers proxy_buffer_size response_buffering option_http_buffer_request \
         proxy_max_temp_file_size",
        "remove it: bodies are streamed both ways and never kept",
    ),
    write(
        "stripprefix uri_strip_prefix strip_path strip remove_prefix strip_prefixes",
        "write strip_prefix = true in the path table",
    ),
    write("handle_path", "write [site.\"example.com\".path.\"/x/*\"] with strip_prefix = true"),
    write(
        "add_prefix replace_path replace_path_regex rewrite_path set_path rewriterule rewriteengine \
         rewritecond path_rewrite prefix_rewrite",
        "write rewrite = \"/v1/{*}\" in the path table",
    ),
    write(
        "proxy_redirect proxypassreverse proxypassreversecookiedomain proxy_cookie_path \
         proxy_cookie_domain",
        "remove it: Location and the paths of cookies are put back; rewrite_location = false leaves them",
    ),
    write(
        "rewrite_rules map redirect_map rewritemap redirectmatch url_map",
        "write redirects = \"/etc/lockgate/redirects\", a file with lines such as: /old/* /new/{*} 301",
    ),
    write(
        "tracing otel otel_trace opentelemetry opentracing traceparent otel_trace_context",
        "write trace = true, or trace = \"10%\", in the [site] or path table",
    ),
    write(
        "websocket websockets ws wss upgrade proxy_upgrade allow_upgrade proxy_websocket \
         enable_websocket websocket_support connection_upgrade",
        "remove it: WebSockets need no key; timeouts.tunnel_idle says how long one may be silent",
    ),
    write(
        "sse server_sent_events eventsource long_polling",
        "remove it: streams and long polls need no key; timeouts.response is only for the first byte",
    ),
    write(
        "merge_slashes allowencodedslashes encoded_characters normalize_path",
        "write paths = \"as-is\" to send on paths with %2f and the like; \"strict\" refuses them",
    ),
    write(
        "methods method limit_except allowed_methods",
        "write the method into the key: [site.\"example.com\".path.\"POST /x\"]",
    )
    .beside(&["strip_prefix"]),
    write("status_code code", "write status = 404").beside(&["type"]),
    write("content text html message", "write body = \"hello\\n\"").beside(&["type"]),
    write("content_type mime", "write type = \"text/html; charset=utf-8\"").beside(&["type"]),
];
