//! Replays the kept corpus on an ordinary build, without a fuzzer.

use std::fs;
use std::path::Path;

#[test]
fn every_kept_input_holds() {
    replay("address_answer", lockgate_fuzz::address_answer);
    replay("authorization", lockgate_fuzz::authorization);
    replay("change_body", lockgate_fuzz::change_body);
    replay("client_hello", lockgate_fuzz::client_hello);
    replay("coding", lockgate_fuzz::coding);
    replay("conditional", lockgate_fuzz::conditional);
    replay("config", lockgate_fuzz::config);
    replay("cookie", lockgate_fuzz::cookie);
    replay("decode", lockgate_fuzz::decode);
    replay("dns_answer", lockgate_fuzz::dns_answer);
    replay("fields", lockgate_fuzz::fields);
    replay("forwarded_for", lockgate_fuzz::forwarded_for);
    replay("h1_chunked", lockgate_fuzz::h1_chunked);
    replay("h1_exchange", lockgate_fuzz::h1_exchange);
    replay("h1_request", lockgate_fuzz::h1_request);
    replay("h1_response", lockgate_fuzz::h1_response);
    replay("h2_client", lockgate_fuzz::h2_client);
    replay("h2_ends", lockgate_fuzz::h2_ends);
    replay("h2_head", lockgate_fuzz::h2_head);
    replay("h2_server", lockgate_fuzz::h2_server);
    replay("hpack", lockgate_fuzz::hpack);
    replay("htpasswd", lockgate_fuzz::htpasswd);
    replay("interface_addresses", lockgate_fuzz::interface_addresses);
    replay("otlp_response", lockgate_fuzz::otlp_response);
    replay("page_html", lockgate_fuzz::page_html);
    replay("priority", lockgate_fuzz::priority);
    replay("proxy_protocol", lockgate_fuzz::proxy_protocol);
    replay("range", lockgate_fuzz::range);
    replay("h1_target", lockgate_fuzz::h1_target);
    replay("import_config", lockgate_fuzz::import_config);
    replay("redirect_map", lockgate_fuzz::redirect_map);
    replay("router_datagram", lockgate_fuzz::router_datagram);
    replay("router_xml", lockgate_fuzz::router_xml);
    replay("server_hello", lockgate_fuzz::server_hello);
    replay("ssdp_answer", lockgate_fuzz::ssdp_answer);
    replay("tls_session", lockgate_fuzz::tls_session);
    replay("traceparent", lockgate_fuzz::traceparent);
    replay("ws_frame", lockgate_fuzz::ws_frame);
}

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let files: Vec<_> = fs::read_dir(folder).expect("the corpus is kept").collect();
    assert!(!files.is_empty(), "{name}");
    for file in files {
        let path = file.expect("a file").path();
        println!("{}", path.display());
        target(&fs::read(path).expect("readable"));
    }
}
