//! Names of features that Lockgate does not have, or not yet, with an alternative for each.

use super::{ForeignName, absent, later};

pub(super) const ROWS: &[ForeignName] = &[
    later(
        "fleet peers cluster_mode gossip replicas",
        "limits and sessions hold for one process; balance = { hash = \"client\" } leads to the same endpoint in every Lockgate",
    ),
    later(
        "hints early_hints http103",
        "let the application send Link fields: browsers read them in its answer",
    ),
    later(
        "push http2_push server_push",
        "remove it: browsers have dropped HTTP/2 push",
    ),
    later(
        "early_data ssl_early_data allow_0rtt zero_rtt tls_early_data",
        "remove it: clients resume without early data",
    ),
    later(
        "http3 quic h3 http3_enabled enable_http3 alt_svc",
        "remove it: clients get HTTP/2 over TLS",
    ),
    later(
        "also",
        "write a site of its own: redirect = \"https://example.com{path}\"",
    )
    .beside(&["alias"]),
    later(
        "allow deny clients",
        "remove it, and filter in front: nftables, or the application",
    )
    .beside(&["sni"]),
    later(
        "docker consul kubernetes kubernetes_ingress etcd swarm nomad docker_compose eureka \
         consul_catalog",
        "write the addresses, or \"srv:_app._tcp.service.consul\": SRV records are followed as they change",
    ),
    later(
        "import_nginx plan confirm",
        "write the file by hand: docs/config.md",
    ),
    absent(
        "fastcgi_pass fastcgi php_fastcgi php php_fpm fcgi fcgi_app use_fcgi_app fastcgi_param cgi \
         uwsgi_pass uwsgi scgi_pass scgi wsgi scriptalias",
        "run a server that speaks HTTP before the application (php-fpm: nginx, FrankenPHP or RoadRunner on a Unix socket; Python: gunicorn) and write proxy = \"unix:/run/app.sock\"",
    ),
    absent(
        "proxy_cache proxy_cache_path proxy_cache_valid http_cache cache_store cache_use cachequick \
         cacheenable response_cache fastcgi_cache varnish cache_zone",
        "answers are not kept: put Varnish between, or write cache = { \"/assets/*\" = \"1y immutable\" } so that browsers keep them",
    ),
    absent(
        "udp udp_services dgram dtls listen_udp",
        "UDP is not relayed: use nftables DNAT, or nginx's stream module",
    ),
    absent(
        "lua lua_load script scripts scripting js_content js_import njs perl content_by_lua \
         access_by_lua rewrite_by_lua wasm wasm_plugin plugins plugin modules load_module \
         experimental",
        "there are no scripts: ask a service of your own with auth = { forward = \"127.0.0.1:4181\" }, or change pages with rewrite_body",
    ),
    absent(
        "geoip geo geoip2 geoip_country maxmind country countries geo_block",
        "the country of a client is not known: allow = [\"203.0.113.0/24\"] and deny take networks",
    ),
    absent(
        "waf modsecurity coraza secruleengine owasp crs bot bots captcha ddos crowdsec antibot",
        "Lockgate has no web application firewall: put one behind it, or ask it with auth = { forward = \"127.0.0.1:4181\" }; limit bounds the rate",
    ),
    absent(
        "jwt oauth oidc openid oauth2 saml ldap auth_jwt sso login kerberos",
        "let oauth2-proxy, Authelia or the like decide: auth = { forward = \"127.0.0.1:4181\", copy = [\"remote-user\"] }",
    ),
    absent(
        "mirror mirrors shadow mirroring traffic_mirror",
        "requests are not copied to a second endpoint",
    ),
    absent(
        "ssi templating markdown server_side_includes addoutputfilter",
        "pages are sent as they are: rewrite_body changes them, {value:NAME} fills in a text",
    ),
    absent(
        "webdav dav dav_methods upload",
        "files are read only: let an application take uploads, behind proxy",
    ),
    absent(
        "socks socks5 socks4",
        "clients that can use an HTTP proxy may have [tunnel.\":3128\"]",
    ),
    absent(
        "transparent tproxy usesrc proxy_bind source",
        "connections to endpoints come from this machine: X-Forwarded-For or proxy_protocol tells them the client",
    ),
    absent("mptcp", "connections are plain TCP"),
    absent(
        "crl ssl_crl crl_file revocation ssl_ocsp",
        "client certificates are not looked up in lists: give short-lived ones",
    ),
];
