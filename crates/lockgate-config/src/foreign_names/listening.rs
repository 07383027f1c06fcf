//! Names for addresses, hosts, paths, relays and tunnels.

use super::{ForeignName, write};

const PATH: &str = "write a table for the path: [site.\"example.com\".path.\"/x/*\"]";

pub(super) const ROWS: &[ForeignName] = &[
    write(
        "listen bind address frontend frontends listener listeners entrypoints entrypoint port addr \
         listen_on listen_port listen_addr bind_address virtualhost vhost vhosts server_addr",
        "the address is the key of the table: [site.\"example.com:8443\"], [site.\":8080\"], [tcp.\":8443\"]",
    ),
    write(
        "listen_ssl listen_https http_port https_port default_http_port",
        "write ports = { http = 8080, https = 8443 } at the top",
    ).beside(&["workers"]),
    write(
        "server_name host hosts hostname hostnames sni_hosts server_names domain domains fqdn",
        "the host is the key of the table: [site.\"example.com\"]; more hosts are its alias",
    ),
    write(
        "serveralias aliases",
        "write alias = [\"example.org\"] in the [site] table"),
    write(
        "server service services app router routers website http_service",
        "write a table for each host: [site.\"example.com\"], with proxy = \"127.0.0.1:3000\" or root = \"/srv/www\"",
    ).beside(&["workers"]),
    write(
        "location locations location_match route routes paths path handle handlers matcher matchers \
         match path_prefix path_beg rule rules redirect_rules use_backend http_request router routers \
         directory file_match",
        "a path is a table of its own: [site.\"example.com\".path.\"/x/*\"]",
    ),
    write(
        "location locations route routes path paths handle rule rules router routers use_backend",
        "a [tcp] table relays bytes unread, so it has no paths: write a [site] table",
    ).beside(&["proxy", "proxy_protocol"]),
    write(
        "location locations route routes router routers handle rule rules use_backend matcher match",
        PATH).beside(&["strip_prefix"]),
    write(
        "paths location route routes path",
        "write rules as allow = [\"*.example.org:443\"]: a tunnel leads to hosts, not to paths").beside(&["max_per_user"]),
    write(
        "tunnel_pass forward_proxy http_tunnel connect_proxy squid proxy_connect allowconnect",
        "write [tunnel.\":3128\"], with allow = [\"*.example.org:443\"]",
    ),
    write(
        "connectport connect_ports safe_ports ssl_ports allowed_ports",
        "write the ports into the rules of a [tunnel] table: allow = [\"*:443\"]",
    ),
    write(
        "proxy_auth auth_param basic_proxy_auth",
        "write auth = { basic = \"/etc/lockgate/htpasswd\" } in the [tunnel] table",
    ),
    write(
        "dns_cache dns_cache_ttl positive_dns_ttl resolver_ttl dns_ttl",
        "write dns = { ttl = \"60s\" } in the [tunnel] table; names of endpoints are looked up every 30s",
    ),
    write(
        "ssl_preread ssl_preread_server_name req_ssl_sni req_ssl_hello_type ssl_fc_sni hostsni \
         hostsniregexp passthrough tls_passthrough ssl_passthrough layer4 sni_routing",
        "write sni.\"mail.example.com\" = \"10.0.0.5:443\" in [tcp.\":443\"], and default = \"…\" for all other names",
    ),
    write(
        "req_ssl_alpn ssl_preread_alpn_protocols acme_tls_1 tls_alpn_01",
        "write alpn.\"acme-tls/1\" = \"127.0.0.1:10443\" in [tcp.\":443\"]",
    ),
    write(
        "stream streams tcp_services relay relays mode",
        "write [tcp.\":5432\"] with proxy = \"10.0.0.9:5432\": such a table relays bytes unread").beside(&["workers"]),
    write(
        "mode",
        "remove it: a [site] table speaks HTTP, a [tcp] table relays bytes",
    ),
    write("mail imap smtp pop3", "mail is relayed as bytes: [tcp.\":993\"] with proxy = \"10.0.0.9:993\""),
    write(
        "memcached_pass redis_pass",
        "write a [tcp] table for them: [tcp.\":6379\"] with proxy = \"10.0.0.9:6379\"",
    ),
];
