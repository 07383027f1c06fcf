//! The four fields of a section that a client of a load generator keeps.

use lockgate_http::h2::FieldSink;

/// Fields of a response's head or trailers that matter here.
#[derive(Default)]
pub(super) struct ResponseFields {
    pub(super) status: Option<u16>,
    pub(super) length: Option<u64>,
    pub(super) grpc: Option<u64>,
    pub(super) coding: Option<Vec<u8>>,
    pub(super) is_too_long: bool,
}

impl FieldSink for ResponseFields {
    fn begin(&mut self) {
        *self = Self::default();
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            // The layer has checked it.
            b":status" => self.status = number(value).map(|status| status as u16),
            b"content-length" => self.length = number(value),
            b"grpc-status" => self.grpc = number(value),
            b"content-encoding" => self.coding = Some(value.to_vec()),
            _ => {}
        }
    }

    fn overflow(&mut self) {
        self.is_too_long = true;
    }
}

/// A number without a sign.
fn number(value: &[u8]) -> Option<u64> {
    // A number of 19 digits is below 2⁶⁴.
    if value.is_empty() || value.len() > 19 {
        return None;
    }
    value.iter().try_fold(0, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + u64::from(digit))
    })
}
