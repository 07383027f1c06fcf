//! Messages of Protocol Buffers as a receiver reads them, without their `.proto` files: fields by
//! their numbers. <https://protobuf.dev/programming-guides/encoding/>

/// The fields of one message, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtoMessage(Vec<(u64, ProtoValue)>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum ProtoValue {
    /// A varint, or a number of four or eight bytes.
    Number(u64),
    /// Bytes, a string, a message, or a packed list.
    Bytes(Vec<u8>),
}

impl ProtoMessage {
    /// Reads a message.
    ///
    /// # Panics
    /// When it is none.
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag % 8 {
                0 => ProtoValue::Number(varint(&mut bytes)),
                1 => ProtoValue::Number(little_endian(take(&mut bytes, 8))),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    ProtoValue::Bytes(take(&mut bytes, length).to_vec())
                }
                5 => ProtoValue::Number(little_endian(take(&mut bytes, 4))),
                kind => panic!("a field of kind {kind}"),
            };
            fields.push((tag / 8, value));
        }
        Self(fields)
    }

    fn values(&self, field: u64) -> impl DoubleEndedIterator<Item = &ProtoValue> {
        self.0
            .iter()
            .filter(move |(number, _)| *number == field)
            .map(|(_, value)| value)
    }

    /// Whether it has the field.
    pub fn has(&self, field: u64) -> bool {
        self.values(field).next().is_some()
    }

    /// A number: of a field that comes more than once, the last one counts.
    ///
    /// # Panics
    /// When the field is no number.
    pub fn number(&self, field: u64) -> Option<u64> {
        match self.values(field).next_back()? {
            ProtoValue::Number(number) => Some(*number),
            ProtoValue::Bytes(_) => panic!("field {field} is no number"),
        }
    }

    /// The bytes of a field; none where it is missing.
    ///
    /// # Panics
    /// When the field is a number.
    pub fn bytes(&self, field: u64) -> &[u8] {
        match self.values(field).next_back() {
            Some(ProtoValue::Bytes(bytes)) => bytes,
            Some(ProtoValue::Number(_)) => panic!("field {field} is a number"),
            None => b"",
        }
    }

    /// The same as text.
    ///
    /// # Panics
    /// When it is none.
    pub fn text(&self, field: u64) -> &str {
        str::from_utf8(self.bytes(field)).expect("strings are UTF-8")
    }

    /// The message in a field, empty where it is missing.
    ///
    /// # Panics
    /// When it is none.
    pub fn message(&self, field: u64) -> Self {
        Self::parse(self.bytes(field))
    }

    /// All messages of a repeated field.
    ///
    /// # Panics
    /// When one is none.
    pub fn messages(&self, field: u64) -> impl Iterator<Item = Self> + use<> {
        let message = |value: &ProtoValue| match value {
            ProtoValue::Bytes(bytes) => Self::parse(bytes),
            ProtoValue::Number(_) => panic!("field {field} is a number"),
        };
        let messages: Vec<_> = self.values(field).map(message).collect();
        messages.into_iter()
    }

    /// The numbers of a packed list of `fixed64` or `double`, as bits.
    ///
    /// # Panics
    /// When it is none.
    pub fn packed64(&self, field: u64) -> Vec<u64> {
        let (numbers, rest) = self.bytes(field).as_chunks::<8>();
        assert!(rest.is_empty(), "a number is cut");
        numbers.iter().copied().map(u64::from_le_bytes).collect()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte % 128) << shift;
        if byte < 128 {
            return number;
        }
    }
    panic!("a number does not end");
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at_checked(length).expect("a message is whole");
    *bytes = rest;
    taken
}

fn little_endian(bytes: &[u8]) -> u64 {
    let next = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    bytes.iter().rev().fold(0, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of "Message Structure", "Submessages" and "Repeated Elements".
    #[test]
    fn a_message_is_read_by_the_numbers_of_its_fields() {
        let message = ProtoMessage::parse(b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01");
        assert_eq!(message.number(1), Some(150));
        assert_eq!(message.text(2), "testing");
        assert_eq!(message.message(3).number(1), Some(150));
        assert_eq!((message.has(4), message.number(4)), (false, None));
        let message = ProtoMessage::parse(b"\x0d\x02\x01\x00\x00\x09\x03\0\0\0\0\0\0\x01");
        assert_eq!(message.number(1), Some(0x0100_0000_0000_0003));
        let packed = ProtoMessage::parse(b"\x0a\x08\x07\0\0\0\0\0\0\0");
        assert_eq!(packed.packed64(1), [7]);
    }
}
