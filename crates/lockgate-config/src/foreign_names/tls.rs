//! Names of TLS: certificates, versions, verification of clients and of endpoints.

use super::{ForeignName, write};

const VERIFIED: &str = "remove it: endpoints are always verified, and this cannot be turned off; write ca = \"/etc/tls/internal-ca.pem\" for an authority of your own";
const VERIFIED_IN_TLS: &str = "remove it: endpoints are always verified, and this cannot be turned off; write tls = { ca = \"/etc/tls/internal-ca.pem\" } for an authority of your own";
const CERTIFICATE: &str = "write tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" } in the [site] or [tcp] table";

pub(super) const ROWS: &[ForeignName] = &[
    write(
        "ssl_certificate pem_file crt certificate cert_file ssl_cert tls_cert ssl_crt \
         ssl_certificate_file cert certificate_file fullchain sslcertificatechainfile",
        CERTIFICATE,
    ),
    write(
        "ssl_certificate_key key_file private_key ssl_key tls_key privkey ssl_certificate_key_file key",
        "write tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" } in the [site] or [tcp] table",
    ),
    write(
        "ssl_certificate_key key_file private_key ssl_key tls_key privkey",
        "write key = \"/etc/tls/app.key\" beside cert",
    )
    .beside(&["ocsp"]),
    write(
        "ssl_certificate certificate cert_file crt pem pem_file file fullchain chain",
        "write cert = \"/etc/tls/app.pem\", which holds the chain too",
    )
    .beside(&["ocsp"]),
    write(
        "certificates crt_list stores cert_dir certs_dir load_files load_folders",
        "write certs = [\"/etc/tls/*.pem\"] in [tls]",
    ),
    write(
        "cert certificate crt key ssl_certificate",
        "write certs = [{ cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }]",
    )
    .beside(&["policy"]),
    write("ssl https tls_enabled", "write tls = { cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }"),
    write("https ssl secure", "write tls = {}, which verifies the endpoint").beside(&["endpoints"]),
    write("enabled enable", "remove it: tls = {} is on, tls = false is off").beside(&["client_auth"]),
    write("enabled enable", "remove it: tls = {} is on").beside(&["name", "ca"]),
    write(
        "ssl_protocols min_version tls_protos ssl_min_ver max_version versions version protocols",
        "write policy = { versions = [\"1.2\", \"1.3\"] } in [tls]",
    )
    .beside(&["policy"]),
    write(
        "ssl_protocols min_version tls_protos ssl_min_ver tls_version tls_versions ssl_protocol \
         tls_min_version",
        "write policy = { versions = [\"1.2\", \"1.3\"] } in [tls]",
    ),
    write("min min_version minimum version", "write versions = [\"1.2\", \"1.3\"]").beside(&["suites"]),
    write("ciphers cipher_suites", "write suites = [\"TLS13_AES_128_GCM_SHA256\"], or leave the default")
        .beside(&["suites"]),
    write("curves ecdh_curve", "write groups = [\"X25519\"], or leave the default").beside(&["suites"]),
    write(
        "ssl_ciphers ciphers cipher_suites ssl_ciphersuites ssl_cipher_suite ssl_conf_command",
        "write policy = { suites = [\"TLS13_AES_128_GCM_SHA256\"] } in [tls], or leave the default",
    ),
    write(
        "ssl_prefer_server_ciphers ssl_honor_cipher_order prefer_server_cipher_suites",
        "remove it: the order of policy.suites holds",
    ),
    write(
        "ssl_ecdh_curve curves ecdh_curve curve_preferences",
        "write policy = { groups = [\"X25519\"] } in [tls], or leave the default",
    ),
    write(
        "dhparam ssl_dhparam dh_params tune_ssl_default_dh_param ssl_default_dh_param_file",
        "remove it: only elliptic curves are used",
    ),
    write(
        "ssl_client_certificate ca_file client_ca client_verify_ca clientauth ssl_verify_client \
         verify client_verify mtls ssl_ca_certificate_file",
        "write client_auth = { mode = \"require\", ca = \"/etc/tls/clients.pem\" } in tls",
    ),
    write("verify type required optional", "write mode = \"require\", or \"request\"").beside(&["mode"]),
    write("ca_file ca_files ca_cert certs trusted_ca file", "write ca = \"/etc/tls/clients.pem\"")
        .beside(&["mode"]),
    write(
        "verify insecure insecure_skip_verify skip_verify tls_insecure_skip_verify verify_peer ssl_verify \
         no_verify tls_verify",
        VERIFIED_IN_TLS,
    )
    .beside(&["endpoints"]),
    write(
        "verify insecure insecure_skip_verify skip_verify tls_insecure_skip_verify verify_peer ssl_verify \
         no_verify tls_verify",
        VERIFIED_IN_TLS,
    )
    .beside(&["to", "tls"]),
    write("ca ca_file trusted_ca root_cas", "write tls = { ca = \"/etc/tls/internal-ca.pem\" }")
        .beside(&["endpoints"]),
    write("ca ca_file trusted_ca root_cas", "write tls = { ca = \"/etc/tls/internal-ca.pem\" }")
        .beside(&["to", "tls"]),
    write(
        "verify insecure insecure_skip_verify skip_verify tls_insecure_skip_verify verify_peer \
         check_cert verify_certificate no_verify reject_unauthorized proxy_ssl_verify ssl_verify \
         validate allow_insecure",
        VERIFIED,
    )
    .beside(&["name", "ca"]),
    write(
        "ca_file trusted_ca trusted_ca_certs root_cas roots trust_pool authority",
        "write ca = \"/etc/tls/internal-ca.pem\"",
    )
    .beside(&["name", "ca"]),
    write("sni server_name host hostname verify_host", "write name = \"app.internal\"")
        .beside(&["name", "ca"]),
    write(
        "cert key client_cert client_key client_auth",
        "remove it: Lockgate shows endpoints no certificate of its own",
    )
    .beside(&["name", "ca"]),
    write(
        "proxy_ssl_verify insecure_skip_verify tls_insecure_skip_verify ssl_verify sslproxyverify \
         sslproxycheckpeername",
        "remove it: TLS to endpoints, proxy = { to = \"10.0.0.1:443\", tls = {} }, is always verified; ca in that tls names an authority of your own",
    ),
    write(
        "proxy_ssl_trusted_certificate root_cas servers_transport servers_transports \
         proxy_ssl_certificate",
        "write proxy = { to = \"10.0.0.1:443\", tls = { ca = \"/etc/tls/internal-ca.pem\" } }",
    ),
    write(
        "proxy_ssl_name proxy_ssl_server_name verifyhost tls_server_name",
        "write proxy = { to = \"10.0.0.1:443\", tls = { name = \"app.internal\" } }",
    ),
    write("proxy_ssl ssl_proxy_engine", "write proxy = { to = \"10.0.0.1:443\", tls = {} }"),
    write(
        "ssl_session_ticket_key ticket_keys tls_ticket_keys",
        "write tickets = { keys = \"/etc/lockgate/tickets\" } in tls",
    ),
    write("ssl_session_tickets session_tickets", "write tickets = false in tls, or leave the default"),
    write(
        "ssl_session_cache ssl_session_timeout session_cache",
        "remove it: clients resume by session tickets",
    ),
    write(
        "ssl_stapling ssl_stapling_file stapling ssl_use_stapling",
        "write ocsp = \"/etc/tls/app.ocsp\" beside cert",
    ),
    write(
        "sni_strict strict_sni ssl_reject_handshake",
        "remove it: without default in [tls] clients without a known name are refused",
    ),
];
