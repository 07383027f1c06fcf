//! Names for where requests go: addresses, pools, checks, balancing, retries.

use super::{ForeignName, write};

const PROXY: &str = "write proxy = \"127.0.0.1:3000\", a list of addresses, or \"pool:NAME\"";

pub(super) const ROWS: &[ForeignName] = &[
    write(
        "proxy_pass proxy_pass_match reverse_proxy proxy_to upstream upstreams backend backends \
         default_backend servers server target targets forward to dial origin origins dest \
         destination service services url uri load_balancer proxy_url forward_to cluster clusters",
        "write proxy = \"127.0.0.1:3000\", a list of addresses, or \"pool:NAME\", in the [site] or [tcp] table",
    ),
    write(
        "proxy_pass reverse_proxy proxy_to upstream upstreams backend backends default_backend \
         servers server target targets forward to dial origin origins dest destination service \
         services url forward_to endpoint endpoints addresses pool",
        PROXY,
    ).beside(&["strip_prefix"]),
    write(
        "proxy_pass upstream upstreams backend backends default_backend servers server target targets \
         forward to dial destination service endpoint endpoints addresses pool",
        PROXY,
    ).beside(&["proxy", "proxy_protocol"]),
    write(
        "upstream upstreams backend backends cluster clusters load_balancer balancer servers \
         endpoints",
        "write [pool.app] with endpoints = [\"10.0.0.1:8080\"], and proxy = \"pool:app\" in the [site] table",
    ).beside(&["workers"]),
    write(
        "server servers targets target backend backends upstream upstreams members nodes hosts \
         addresses address addrs addr to proxy url urls default_server server_template balancermember \
         origins dial",
        "write endpoints = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"]",
    ).beside(&["endpoints"]),
    write(
        "url address host server target dial ip endpoint to",
        "write addr = \"10.0.0.1:8080\"",
    ).beside(&["backup"]),
    write(
        "maxconn max_conns max_connections max_requests limit",
        "write max = 200").beside(&["backup"]),
    write(
        "down disabled drain enabled",
        "remove the endpoint from the list, and restart").beside(&["backup"]),
    write(
        "check health inter",
        "write health = \"/health\" in [pool.NAME]: all its endpoints are checked").beside(&["backup"]),
    write(
        "url target server addr address endpoint endpoints servers upstream backend pool",
        "write to = \"10.0.0.1:443\"").beside(&["to", "tls"]),
    write(
        "health_check health_checks check checks option_httpchk httpchk health_uri health_path \
         active_health_check monitor probe",
        "write health = \"/health\" in [pool.NAME]",
    ),
    write(
        "interval inter health_interval period frequency check_interval",
        "write every = \"2s\"",
    ).beside(&["fall"]),
    write(
        "fails failures max_fails health_fails unhealthy_threshold failure_threshold retries",
        "write fall = 3",
    ).beside(&["fall"]),
    write(
        "passes successes health_passes healthy_threshold success_threshold",
        "write rise = 2",
    ).beside(&["fall"]),
    write(
        "uri url http httpchk endpoint health_uri http_path request",
        "write path = \"/health\"",
    ).beside(&["fall"]),
    write(
        "status statuses code codes health_status expected_status expect_status match",
        "write expect = \"200-299\"",
    ).beside(&["fall"]),
    write(
        "expect_body health_body contains text",
        "write body = \"ready\"").beside(&["fall"]),
    write(
        "host hostname headers",
        "remove it: the checks ask for the host or address of each endpoint").beside(&["fall"]),
    write(
        "scheme https ssl",
        "write tls = {}").beside(&["fall"]),
    write(
        "health_interval health_timeout health_fails health_passes interval inter fall rise",
        "write health = { path = \"/health\", every = \"2s\", fall = 3, rise = 2 } in [pool.NAME]"),
    write(
        "tcp_check tcp_check_send tcp_check_expect send_string option_tcp_check option_redis_check",
        "write health = { tcp = true, send = \"PING\\r\\n\", expect = \"PONG\" } in [pool.NAME]",
    ),
    write(
        "max_fails fail_timeout outlier_detection observe on_error error_limit fail_duration \
         passive_health_check circuit_breaker unhealthy_status unhealthy_latency",
        "write eject = { errors = 5, for = \"10s\" } in [pool.NAME]",
    ),
    write(
        "slowstart slow_start_config slow_start_duration",
        "write slow_start = \"30s\" in [pool.NAME]"),
    write(
        "sticky_cookie stickiness session_affinity persistence cookie sticky sticky_sessions \
         appsession",
        "write balance = { sticky = \"cookie:lg\" } in [pool.NAME]",
    ),
    write(
        "ip_hash hash_policy hash_type hash consistent_hash balance_source stick_table stick",
        "write balance = { hash = \"client\" } in [pool.NAME]",
    ),
    write(
        "least_conn least_requests random round_robin",
        "write balance = \"least\" in [pool.NAME]; \"p2c\" is the default of sites, and there is \"round-robin\"",
    ),
    write(
        "lb_policy lb policy_lb algorithm strategy lb_method load_balancing balancing",
        "write balance = \"least\" in [pool.NAME]"),
    write(
        "policy method type lb",
        "write balance = \"least\"").beside(&["endpoints"]),
    write(
        "retries proxy_next_upstream proxy_next_upstream_tries redispatch option_redispatch \
         lb_try_duration attempts retry_on",
        "write retry = { times = 1, budget = \"20%\" } in [pool.NAME]"),
    write(
        "attempts count max retries tries",
        "write times = 2").beside(&["budget"]),
    write(
        "maxqueue timeout_queue queue_timeout",
        "write queue = { max = 1000, wait = \"2s\" } in [pool.NAME]"),
    write(
        "keepalive_connections pool_max_conns max_idle_conns max_idle_conns_per_host \
         keepalive_requests proxy_http_version http_reuse keepalive idle_timeout keepalive_timeout",
        "write idle = { max = 256, for = \"60s\" }; connections are kept for the next request by default",
    ).beside(&["endpoints"]),
    write(
        "keepalive_time max_connection_duration max_connection_age max_lifetime lifetime",
        "write idle = { lifetime = \"1h\" } in [pool.NAME]",
    ).beside(&["endpoints"]),
    write(
        "keepalive_time max_connection_duration max_connection_age max_lifetime",
        "write lifetime = \"1h\"").beside(&["for", "requests"]),
    write(
        "timeout ttl keepalive max_age",
        "write for = \"60s\"").beside(&["for", "requests"]),
    write(
        "send_proxy send_proxy_v2 write_proxy_v2 write_proxy_v1 write_proxy send_proxy_protocol",
        "write proxy_protocol = \"v2\"",
    ),
    write(
        "grpc_pass grpc_proxy grpc",
        "write proxy = { to = \"127.0.0.1:50051\", protocol = \"h2c\" } in the [site] table, or protocol = \"h2\" with tls = {}",
    ),
    write(
        "weight weights",
        "write endpoints = [{ addr = \"10.0.0.1:8080\", weight = 2 }, \"10.0.0.2:8080\"] in [pool.NAME]"),
    write(
        "backup failover fallback_server",
        "write endpoints = [\"10.0.0.1:8080\", { addr = \"10.0.0.2:8080\", backup = true }] in [pool.NAME]"),
    write(
        "maintenance maintenance_mode maintenance_page offline down",
        "write respond = { status = 503, body = \"back soon\\n\" } instead of proxy, and restart; the page for when no endpoint is up is maintenance in [pool.NAME]",
    ).beside(&["strip_prefix"]),
    write(
        "canary split_clients traffic_split ab_test weighted split",
        "write endpoints = [{ addr = \"10.0.0.1:8080\", weight = 9 }, \"10.0.0.2:8080\"] in [pool.NAME]: shares go by weight",
    ),
];
