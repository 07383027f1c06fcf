//! Messages of Graphite's pickle protocol: a list of `(path, (timestamp, value))`, pickled by
//! protocol 2 of Python, behind its length as four bytes in the order of the network.
//!
//! <https://graphite.readthedocs.io/en/latest/feeding-carbon.html#the-pickle-protocol>. The opcodes
//! are those of Python's `Lib/pickletools.py`.

use lockgate_metrics::SampleValue;

use crate::points::FrameLimit;

/// The most of a message: carbon takes one of at most 1 MB, and its own relay sends 500 points.
pub(crate) const LIMIT: FrameLimit = FrameLimit {
    bytes: 512 * 1024,
    points: 500,
    between: None,
};

const PROTO: u8 = 0x80;
const EMPTY_LIST: u8 = b']';
const MARK: u8 = b'(';
const APPENDS: u8 = b'e';
const STOP: u8 = b'.';
const BINUNICODE: u8 = b'X';
const BININT: u8 = b'J';
const LONG1: u8 = 0x8a;
const BINFLOAT: u8 = b'G';
const TUPLE2: u8 = 0x86;

/// Appends a message with these points, each of [`put_point`].
pub(crate) fn put_message(out: &mut Vec<u8>, points: &[u8]) {
    let pickled = [PROTO, 2, EMPTY_LIST, MARK].len() + points.len() + [APPENDS, STOP].len();
    let length = u32::try_from(pickled).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[PROTO, 2, EMPTY_LIST, MARK]);
    out.extend_from_slice(points);
    out.extend_from_slice(&[APPENDS, STOP]);
}

/// Appends a point: values are floats, which is what Graphite keeps.
pub(crate) fn put_point(out: &mut Vec<u8>, series: &[u8], time: u64, value: SampleValue) {
    out.push(BINUNICODE);
    let length = u32::try_from(series.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(series);
    match i32::try_from(time) {
        Ok(time) => {
            out.push(BININT);
            out.extend_from_slice(&time.to_le_bytes());
        }
        // From 2038 on.
        Err(_) => {
            out.extend_from_slice(&[LONG1, 8]);
            out.extend_from_slice(&time.to_le_bytes());
        }
    }
    let value = match value {
        SampleValue::Unsigned(n) => n as f64,
        SampleValue::Signed(n) => n as f64,
        SampleValue::Float(n) => n,
    };
    out.push(BINFLOAT);
    out.extend_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&[TUPLE2, TUPLE2]);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Reads a message without its length, by the opcodes that [`put_message`] may use.
    pub(crate) fn unpickle(message: &[u8]) -> Vec<(String, u64, f64)> {
        let mut rest = message.strip_prefix(b"\x80\x02](").unwrap();
        let mut points = Vec::new();
        while rest != b"e." {
            let (head, after) = rest.split_at(5);
            assert_eq!(head[0], b'X');
            let length = u32::from_le_bytes(head[1..].try_into().unwrap());
            let (path, after) = after.split_at(length as usize);
            let (time, after) = match after[0] {
                b'J' => {
                    let time = i32::from_le_bytes(after[1..5].try_into().unwrap());
                    (time as u64, &after[5..])
                }
                0x8a => {
                    assert_eq!(after[1], 8);
                    let time = u64::from_le_bytes(after[2..10].try_into().unwrap());
                    (time, &after[10..])
                }
                other => panic!("{other}"),
            };
            let (number, after) = after.split_at(9);
            assert_eq!(number[0], b'G');
            let value = f64::from_be_bytes(number[1..].try_into().unwrap());
            rest = after.strip_prefix(b"\x86\x86").unwrap();
            points.push((String::from_utf8(path.to_vec()).unwrap(), time, value));
        }
        points
    }

    /// What `pickle.loads` of Python reads as `[('a.b', (1764352800, 1.5))]`.
    #[test]
    fn a_pickled_point_has_the_opcodes_of_python() {
        let mut point = Vec::new();
        put_point(&mut point, b"a.b", 1_764_352_800, 1.5.into());
        let mut message = Vec::new();
        put_message(&mut message, &point);
        let expected = b"\x00\x00\x00\x1e\x80\x02](\
            X\x03\x00\x00\x00a.bJ\x20\xe3\x29\x69G\x3f\xf8\x00\x00\x00\x00\x00\x00\x86\x86e.";
        assert_eq!(message, expected);
    }

    #[test]
    fn times_after_2038_and_large_counts_are_pickled() {
        let mut point = Vec::new();
        put_point(&mut point, b"a", 1 << 31, u64::MAX.into());
        put_point(&mut point, b"", 0, (-1_i64).into());
        let mut message = Vec::new();
        put_message(&mut message, &point);
        let read = unpickle(&message[4..]);
        let expected = [
            ("a".to_owned(), 1 << 31, u64::MAX as f64),
            (String::new(), 0, -1.0),
        ];
        assert_eq!(read, expected);
    }
}
