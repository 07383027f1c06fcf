//! Answers of name servers: whatever they are, what is read of them can be a host.

use lockgate_net::dns::{DnsError, SrvResponse, encode_query, parse_response};

/// Any bytes as the answer to a question.
pub fn dns_answer(data: &[u8]) {
    let asked = encode_query(0x1234, "_app._tcp.test").expect("a name");
    match parse_response(data, &asked) {
        Ok(SrvResponse::Records(records, ttl)) => {
            assert!(records.len() <= 256 && ttl >> 31 == 0);
            for record in records {
                let target = record.target.as_bytes();
                assert!(
                    record.port != 0 && (1..=253).contains(&target.len()),
                    "{record:?}"
                );
                let plain = |byte: &u8| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(byte)
                };
                assert!(
                    target.iter().all(plain) && !record.target.split('.').any(str::is_empty),
                    "{record:?}"
                );
            }
        }
        Ok(SrvResponse::Truncated) => {}
        Err(DnsError::NotOurs) => {}
        // Only what bears the number is more than noise.
        Err(_) => assert_eq!(data.get(..2), asked.get(..2)),
    }
}
