//! OCSP responses (RFC 6960 §4.2.1), as far as stapling needs them: the certificates and the
//! expiry.
//!
//! Does not check signatures: the client does.

use x509_parser::prelude::{ASN1Time, FromDer};

/// The status of one certificate in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SingleResponse {
    /// The content bytes of the serial number's INTEGER.
    pub(super) serial: Vec<u8>,
    /// The seconds since 1970 of its expiry; `None` means that newer information is always
    /// available.
    pub(super) next_update: Option<i64>,
}

/// Parses a successful response in DER.
///
/// # Errors
/// A message for the operator.
pub(super) fn parse(der: &[u8]) -> Result<Vec<SingleResponse>, &'static str> {
    let mut outer = DerReader(der);
    let mut response = outer
        .take(SEQUENCE)
        .ok_or(match der.starts_with(b"-----BEGIN") {
            true => "it is PEM; DER is expected",
            false => "it is not DER",
        })?;
    if !outer.0.is_empty() {
        return Err("bytes follow the response");
    }
    match response.take(ENUMERATED).ok_or("it has no status")?.0 {
        [0] => {}
        _ => return Err("the responder answered with an error"),
    }
    basic_response(response).ok_or("it is not a basic OCSP response")
}

fn basic_response(mut response: DerReader<'_>) -> Option<Vec<SingleResponse>> {
    let mut bytes = response.take(context(0))?.take(SEQUENCE)?;
    bytes.take(OID)?;
    let mut data = bytes.take(OCTET_STRING)?.take(SEQUENCE)?.take(SEQUENCE)?;
    data.skip_if(context(0)); // version
    data.any()?; // responderID
    data.any()?; // producedAt
    let mut list = data.take(SEQUENCE)?;
    let mut answers = Vec::new();
    while let Some(single) = list.take(SEQUENCE) {
        answers.push(answer(single)?);
    }
    Some(answers)
}

fn answer(mut single: DerReader<'_>) -> Option<SingleResponse> {
    let mut id = single.take(SEQUENCE)?;
    id.any()?; // hashAlgorithm
    id.any()?; // issuerNameHash
    id.any()?; // issuerKeyHash
    let serial = id.take(INTEGER)?.0.to_vec();
    single.any()?; // certStatus
    single.any()?; // thisUpdate
    let next_update = match single.take(context(0)) {
        Some(time) => Some(ASN1Time::from_der(time.0).ok()?.1.timestamp()),
        None => None,
    };
    Some(SingleResponse {
        serial,
        next_update,
    })
}

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const SEQUENCE: u8 = 0x30;

const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// A reader of DER elements; lengths above 4 GB and tags above 30 do not occur here.
#[derive(Clone, Copy)]
struct DerReader<'a>(&'a [u8]);

impl<'a> DerReader<'a> {
    fn any(&mut self) -> Option<(u8, DerReader<'a>)> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (
                    bytes
                        .iter()
                        .fold(0, |length, byte| length << 8 | usize::from(*byte)),
                    rest,
                )
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, DerReader(content)))
    }

    fn take(&mut self, tag: u8) -> Option<DerReader<'a>> {
        let mut ahead = *self;
        let (found, content) = ahead.any()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    fn skip_if(&mut self, tag: u8) {
        let _absent_is_fine = self.take(tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::fixtures;

    #[test]
    fn ocsp_serial_and_next_update_are_found() {
        let der = fixtures::ocsp_response(&[0x01, 0x02], "20300101000000Z");
        let answers = parse(&der).unwrap();
        assert_eq!(
            answers,
            [SingleResponse {
                serial: vec![1, 2],
                next_update: Some(1_893_456_000)
            }]
        );
    }

    #[test]
    fn an_ocsp_response_cut_anywhere_is_refused() {
        let der = fixtures::ocsp_response(&[0x07], "20300101000000Z");
        for length in 0..der.len() {
            assert!(parse(&der[..length]).is_err(), "{length} bytes were taken");
        }
    }

    #[test]
    fn an_unsuccessful_ocsp_response_is_refused_with_its_reason() {
        assert_eq!(
            parse(b"-----BEGIN OCSP RESPONSE-----"),
            Err("it is PEM; DER is expected")
        );
        assert_eq!(parse(b"hello"), Err("it is not DER"));
        // RFC 6960 §4.2.1: tryLater (3) has no responseBytes.
        assert_eq!(
            parse(&[0x30, 3, 0x0a, 1, 3]),
            Err("the responder answered with an error")
        );
        assert_eq!(
            parse(&[0x30, 3, 0x0a, 1, 0]),
            Err("it is not a basic OCSP response")
        );
    }
}
