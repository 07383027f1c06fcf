//! Names for connections: deadlines, limits, sockets, PROXY headers, protocols.

use super::{ForeignName, write};

const TIMEOUTS: &str = "write timeouts = { idle = \"75s\", response = \"60s\" }; there are handshake, head, connect and tunnel_idle too";

pub(super) const ROWS: &[ForeignName] = &[
    write("timeout default_timeout responding_timeouts request_timeout", TIMEOUTS).beside(&["workers"]),
    write(
        "timeout request_timeout timeout_server read_timeout response_timeout proxy_read_timeout \
         proxy_timeout send_timeout",
        "write timeouts = { response = \"60s\" }: how long the endpoint may take to begin its answer",
    )
    .beside(&["strip_prefix"]),
    write(
        "timeout idle_timeout timeout_client timeout_server timeout_tunnel proxy_timeout read_timeout",
        "write timeouts = { tunnel_idle = \"1h\" }: how long a relayed connection may be silent",
    )
    .beside(&["proxy", "proxy_protocol"]),
    write(
        "timeout timeouts",
        "write timeouts = { connect = \"5s\", response = \"60s\" } in the [site] table",
    )
    .beside(&["endpoints"]),
    write(
        "proxy_read_timeout timeout_server read_timeout response_timeout response_header_timeout \
         timeout_response",
        "write timeouts = { response = \"60s\" }",
    ),
    write(
        "timeout_http_request client_header_timeout read_header_timeout header_timeout",
        "write timeouts = { head = \"10s\" } at the top",
    ),
    write(
        "keepalive_timeout timeout_http_keep_alive idle_timeout timeout_client idle",
        "write timeouts = { idle = \"75s\" } at the top",
    ),
    write("client keepalive http_keep_alive", "write idle = \"75s\"").beside(&["head", "idle"]),
    write("read server request header backend", "write response = \"60s\"").beside(&["response"]),
    write("tunnel websocket upgrade stream", "write tunnel_idle = \"1h\"").beside(&["tunnel_idle"]),
    write("dial connection", "write connect = \"5s\"").beside(&["connect"]),
    write("tls ssl", "write handshake = \"10s\"").beside(&["handshake"]),
    write("http_request headers header", "write head = \"10s\"").beside(&["head", "idle"]),
    write(
        "timeout_tunnel tunnel_timeout websocket_timeout proxy_timeout stream_timeout",
        "write timeouts = { tunnel_idle = \"1h\" }",
    ),
    write(
        "timeout_connect proxy_connect_timeout connect_timeout dial_timeout",
        "write timeouts = { connect = \"5s\" }",
    ),
    write(
        "ssl_handshake_timeout handshake_timeout tls_handshake_timeout",
        "write timeouts = { handshake = \"10s\" }",
    ),
    write(
        "client_body_timeout send_timeout proxy_send_timeout write_timeout timeout_client_fin \
         requestreadtimeout",
        "write rates = { min_in = \"1KB/s\", min_out = \"1KB/s\" } at the top: slow clients are caught by their rate, not by a total time",
    ),
    write(
        "worker_connections maxconn max_connections connections max_clients maxrequestworkers \
         max_conns",
        "write limits = { connections = 20000 } at the top, or { addr = \"…\", max = 200 } for one endpoint",
    ),
    write(
        "max_connections maxconn max_conns max limit",
        "write max with the endpoint: endpoints = [{ addr = \"10.0.0.1:8080\", max = 200 }]",
    )
    .beside(&["endpoints"]),
    write(
        "limit_conn maxconn_per_ip per_ip limit_conn_zone connections_per_ip max_per_ip in_flight_req",
        "write limits = { per_client = 100 } at the top",
    ),
    write(
        "large_client_header_buffers client_header_buffer_size max_header_size tune_bufsize \
         limitrequestfieldsize max_header_bytes",
        "write limits = { head = \"64KB\" } at the top",
    ),
    write(
        "backlog tcp_fastopen keepalive fastopen tcp_keepalive so_keepalive clitcpka",
        "write it in socket = { backlog = 4096, fast_open = false, keepalive = \"60s\" } at the top",
    ),
    write("reuseport so_reuseport", "remove it: every worker accepts on every address"),
    write(
        "accept_proxy_protocol proxy_proxy proxy_protocol_in accept_proxy",
        "write accept_proxy = \"require\" in the table of the listener",
    ),
    write(
        "real_ip_header real_ip client_ip_headers remoteipheader",
        "write trusted = [\"10.0.0.0/8\"] at the top: the proxies with an X-Forwarded-For that Lockgate trusts",
    ),
    write(
        "set_real_ip_from trusted_proxies trusted_ips trusted_proxy trust_proxy trust_forwarded \
         remoteiptrustedproxy",
        "write trusted = [\"10.0.0.0/8\"] at the top",
    ),
    write(
        "proxy_protocol",
        "write proxy_protocol = \"v2\" in [pool.NAME], or proxy = { to = \"127.0.0.1:3000\", proxy_protocol = \"v2\" }; what clients send is accept_proxy",
    ),
    write(
        "protocols",
        "write protocols = [\"h2\", \"http1\"] in the [site] table, protocol = \"h2\" in [pool.NAME]; versions of TLS are policy = { versions = [\"1.2\", \"1.3\"] } in [tls]",
    ),
    write(
        "protocol proto scheme",
        "towards endpoints write protocol = \"h2c\" in [pool.NAME], or \"h2\" beside tls; towards clients protocols = [\"h2\", \"http1\"] in the [site] table; a [tcp] table relays bytes unread, so it has none",
    ),
    write(
        "protocol proto scheme protocols",
        "a [tcp] table relays bytes unread, so there is no protocol: write a [site] table for HTTP",
    )
    .beside(&["sni"]),
    write(
        "alpn",
        "write protocols = [\"h2\", \"http1\"] in the [site] table; what is relayed has it in `tls` of [tcp.\"ADDR\"]",
    ),
    write(
        "http2 h2 h2c enable_http2 http2_enabled spdy",
        "over TLS HTTP/2 is on, unless protocols = [\"http1\"] in the [site] table; without TLS write protocols = [\"http1\", \"h2c\"]",
    ),
    write(
        "http2_max_concurrent_streams max_concurrent_streams",
        "write http2 = { streams = 128 } at the top",
    ),
    write(
        "http2_recv_buffer_size http2_body_preread_size initial_stream_window_size \
         initial_window_size",
        "write http2 = { window = \"1MB\" } at the top",
    ),
];
