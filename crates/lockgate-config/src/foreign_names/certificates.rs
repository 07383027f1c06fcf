//! Names of certificates that come by themselves: of ACME clients, and of servers that have one.

use super::{ForeignName, write};

const ACME: &str = "write acme = { email = \"me@example.com\" } at the top, or [acme]: sites on TLS then get their certificates";
const DNS: &str = "write dns = { provider = \"desec\", token = \"${file:/etc/lockgate/dns.token}\" } in [acme], with your own provider";

pub(super) const ROWS: &[ForeignName] = &[
    write(
        "acme letsencrypt lego certbot autocert auto_tls cert_resolver certificates_resolvers \
         certresolvers certificate_resolver auto_https acme_ca acme_email acme_issuer \
         acme_certificate email managed_certs automatic_https md_domain crt_store acme_eab \
         acme_certificates md_domains md_ca_file md_certificate_authority",
        ACME,
    ),
    write(
        "on_demand on_demand_tls",
        "write acme = { on_demand = { ask = \"http://127.0.0.1:3000/allowed\" } } at the top",
    ),
    write(
        "on_demand_tls ask permission",
        "write on_demand = { ask = \"http://127.0.0.1:3000/allowed\" }",
    )
    .beside(&["eab"]),
    write(
        "issuer issuers",
        "write tls = \"internal\", or tls = { issuer = \"acme\" }",
    )
    .beside(&["alias"]),
    write(
        "local_certs self_signed skip_install_trust internal_certs internal_ca",
        "write tls = \"internal\" in the site, for certificates of Lockgate's own authority",
    ),
    write(
        "dns_challenge dns_01 dns_provider provider acme_dns",
        DNS,
    )
    .beside(&["eab"]),
    write(
        "api_token auth_token access_token api_key auth_key dns_api_token",
        "write token = \"${file:/etc/lockgate/dns.token}\"",
    )
    .beside(&["provider"]),
    write(
        "key_name tsig_key tsig_key_name access_key access_key_id",
        "write key = \"lockgate\"",
    )
    .beside(&["provider"]),
    write(
        "tsig_secret key_secret api_secret secret_key secret_access_key tsig_secret_key",
        "write secret = \"${file:/etc/lockgate/dns.key}\"",
    )
    .beside(&["provider"]),
    write(
        "nameserver dns_server host primary",
        "write server = \"10.0.0.1:53\"",
    )
    .beside(&["provider"]),
    write(
        "tsig_algorithm key_algorithm key_alg alg",
        "write algorithm = \"hmac-sha256\"",
    )
    .beside(&["provider"]),
    write(
        "propagation_timeout propagation_delay timeout delay_before_check wait",
        "write propagation = \"2m\": the servers are asked until all show the record",
    )
    .beside(&["provider"]),
    write(
        "username login email",
        "write user = \"me\"",
    )
    .beside(&["provider"]),
    write(
        "program script path hook",
        "write command = [\"/usr/local/bin/dns-record\"]",
    )
    .beside(&["provider"]),
    write(
        "server ca_url ca_server ca_dir acme_server url uri endpoint authority issuer directory_url \
         acme_ca certificate_authority",
        "write directory = \"letsencrypt\", or the URL of another one",
    )
    .beside(&["eab"]),
    write(
        "staging test test_mode testing",
        "write directory = \"letsencrypt-staging\"",
    )
    .beside(&["eab"]),
    write(
        "contact contacts mail emails account_email mailto acme_email",
        "write email = \"me@example.com\"",
    )
    .beside(&["eab"]),
    write(
        "key_type key_types key_algorithm algorithm curve ecdsa rsa",
        "write key = \"p256\", or [\"p256\", \"rsa2048\"]",
    )
    .beside(&["eab"]),
    write(
        "eab_kid kid eab_key_id eab_hmac_key hmac_key hmac eab_mac_key mac_key key_id \
         external_account external_account_binding",
        "write eab = { key_id = \"kid-1\", mac_key = \"${file:/etc/lockgate/eab.key}\" }",
    )
    .beside(&["eab"]),
    write(
        "kid eab_kid keyid id key",
        "write key_id = \"kid-1\"",
    )
    .beside(&["mac_key"]),
    write(
        "hmac hmac_key mac hmac_encoded eab_hmac_key secret",
        "write mac_key = \"${file:/etc/lockgate/eab.key}\"",
    )
    .beside(&["mac_key"]),
    write(
        "ca_file ca_cert ca_certs trusted_roots ca_certificates root ca_root ca_bundle roots",
        "write ca = \"/etc/lockgate/step-ca.pem\"",
    )
    .beside(&["eab"]),
    write(
        "preferred_profile acme_profile cert_profile",
        "write profile = \"shortlived\"",
    )
    .beside(&["eab"]),
    write(
        "storage store cache cache_dir dir state path certs",
        "certificates are kept in the folder of state: write state = \"/var/lib/lockgate\" at the top",
    )
    .beside(&["eab"]),
    write(
        "agree agree_tos accept_tos accept_terms tos terms_of_service agree_terms \
         terms_of_service_agreed",
        "remove it: having [acme] accepts the terms of service",
    )
    .beside(&["eab"]),
    write(
        "challenge challenges http_challenge tls_challenge http01 tls_alpn01 preferred_challenges \
         preferred_challenge challenge_type disable_http_challenge disable_tlsalpn_challenge",
        "remove it: Lockgate takes the challenge that can work",
    )
    .beside(&["eab"]),
    write(
        "domain domains host hosts names san sans common_name subject subjects",
        "remove it: each host of a [site] on TLS gets a certificate",
    )
    .beside(&["eab"]),
    write(
        "renew renew_before renewal renew_days days renew_before_expiry renewal_window_ratio \
         certificates_duration duration validity must_staple",
        "remove it: certificates are renewed in time by themselves",
    )
    .beside(&["eab"]),
    write(
        "enabled enable on",
        "remove it: [acme] is on; acme = false in a site is off",
    )
    .beside(&["eab"]),
    write(
        "self_signed internal local ca_internal",
        "write fallback = \"internal\", or tls = \"internal\" in a site",
    )
    .beside(&["eab"]),
];
