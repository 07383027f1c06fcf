//! PROXY headers: how bytes arrive does not matter, and what was read can be written and read
//! again.

use lockgate_net::proxy_protocol::{
    HEADER_MAX, ParsedHeader, PrefixMatch, ProxiedAddresses, ProxyError, ProxyHeader, Tlvs,
    VALUE_MAX, encode_v1, encode_v2, may_begin, parse,
};

/// Any bytes as the beginning of a connection.
pub fn proxy_protocol(data: &[u8]) {
    let result = parse(data);
    match (&result, may_begin(data)) {
        (Ok(Some(_)), begins) => {
            assert_eq!(begins, PrefixMatch::Yes, "a header that was not detected")
        }
        (_, PrefixMatch::No) => assert_eq!(result, Err(ProxyError::NotProxy)),
        (Ok(None), begins) => assert!(
            begins == PrefixMatch::Undecided || data.len() < HEADER_MAX,
            "waits for ever"
        ),
        _ => {}
    }
    for cut in cuts_before(data, &result) {
        let early = parse(&data[..cut]);
        assert!(
            early == Ok(None) || (result.is_err() && early == result),
            "{early:?} at {cut}, then {result:?}"
        );
    }
    if let Ok(Some(parsed)) = result {
        assert!(parsed.len <= data.len() && parsed.len <= HEADER_MAX);
        assert_eq!(
            parse(&data[..parsed.len]).as_ref(),
            Ok(&Some(parsed.clone())),
            "what follows matters"
        );
        comes_back(&parsed.header);
    }
}

/// A complete header ends where it says; an error may show anywhere.
fn cuts_before(
    data: &[u8],
    result: &Result<Option<ParsedHeader>, ProxyError>,
) -> impl Iterator<Item = usize> {
    crate::cuts(
        result
            .as_ref()
            .ok()
            .and_then(Option::as_ref)
            .map_or(data.len(), |parsed| parsed.len),
    )
}

fn comes_back(header: &ProxyHeader) {
    let mut binary = Vec::new();
    encode_v2(&mut binary, &header.addresses, &header.tlvs);
    let again = parse(&binary)
        .expect("we write what we accept")
        .expect("we write all of it");
    assert_eq!(
        (&again.header.addresses, again.len),
        (&header.addresses, binary.len())
    );
    if all_short(&header.tlvs) {
        assert_eq!(again.header.tlvs, header.tlvs);
    }
    let mut line = Vec::new();
    encode_v1(&mut line, &header.addresses);
    let again = parse(&line)
        .expect("we write what we accept")
        .expect("we write all of it");
    let told = match &header.addresses {
        inet @ ProxiedAddresses::Inet { .. } => inet.clone(),
        _ => ProxiedAddresses::Unknown,
    };
    assert_eq!((again.header.addresses, again.len), (told, line.len()));
}

/// Longer values are read, but not sent.
fn all_short(tlvs: &Tlvs<'_>) -> bool {
    let ssl = tlvs
        .ssl
        .iter()
        .flat_map(|ssl| [&ssl.version, &ssl.common_name, &ssl.cipher]);
    ssl.flatten().all(|text| text.len() <= VALUE_MAX)
}
