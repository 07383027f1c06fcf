//! Relays of TCP, by server name.

use super::{draft, verdict};

#[test]
fn relays_by_server_name() {
    let text = "defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\nfrontend f\n bind :443\n \
        tcp-request inspect-delay 5s\n tcp-request content accept if { req.ssl_hello_type 1 }\n \
        use_backend m if { req.ssl_sni -i m.test }\n use_backend v if { req.ssl_sni -m end .v.test }\n default_backend o\n\
        backend m\n server s 10.0.0.1:443 send-proxy-v2\nbackend v\n server s 10.0.0.2:443 send-proxy-v2\n\
        backend o\n server s 10.0.0.3:443 send-proxy-v2\n";
    assert_eq!(
        draft(text),
        "[tcp.\":443\"]\ndefault = \"10.0.0.3:443\"\nproxy_protocol = \"v2\"\n\n\
         [tcp.\":443\".sni]\n\"m.test\" = \"10.0.0.1:443\"\n\"*.v.test\" = \"10.0.0.2:443\""
    );
    let closed = text.replace(
        "default_backend o",
        "tcp-request content reject if { src 10.0.0.9 }\n default_backend o",
    );
    assert!(!draft(&closed).contains("[tcp"));
    assert_eq!(verdict(&closed, "frontend f").0, 'n');
}

#[test]
fn entries_of_a_relay_have_their_own_proxy_headers() {
    let text = "defaults\n mode tcp\n timeout connect 5s\nfrontend f\n bind :443\n \
        use_backend m if { req.ssl_sni m.test }\n default_backend o\n\
        backend m\n server s 10.0.0.1:443 send-proxy\nbackend o\n server s 10.0.0.3:443\n";
    assert_eq!(
        draft(text),
        "[tcp.\":443\"]\ndefault = \"10.0.0.3:443\"\n\n[tcp.\":443\".sni]\n\
         \"m.test\" = { proxy = \"10.0.0.1:443\", proxy_protocol = \"v1\" }"
    );
}
