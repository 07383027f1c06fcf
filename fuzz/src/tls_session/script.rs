//! The bytes of an input as steps of a client.
//!
//! terms (1) · number of cuts (1, of 8) · their lengths (1 each) · steps: a byte that says which,
//! then its arguments. A step that is cut short takes what there is.

use std::borrow::Cow;

use lockgate_net::tls::record::{ContentType, MAX_PLAINTEXT};

/// Steps beyond these tell nothing new.
const MAX_STEPS: usize = 64;

pub(super) struct Script<'a> {
    /// Which version and suite.
    pub(super) terms: u8,
    /// Lengths of the pieces, over and over; 0 is all that is left.
    pub(super) cuts: &'a [u8],
    pub(super) steps: Vec<Step<'a>>,
}

pub(super) enum Step<'a> {
    /// Seals data.
    Data(Cow<'a, [u8]>),
    /// Seals a record of any type.
    Record(ContentType, &'a [u8]),
    /// Seals a key update and takes the next key.
    KeyUpdate(u8),
    /// Changes a byte of the last record.
    Spoil { place: usize, change: u8 },
    /// Sends the last record again.
    Repeat,
    /// Takes the last record back.
    Lose,
    /// Sends bytes as they are.
    Raw(&'a [u8]),
}

impl<'a> Script<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(data);
        let terms = reader.byte()?;
        let cuts = usize::from(reader.byte()? % 8);
        let cuts = reader.bytes(cuts);
        let steps = std::iter::from_fn(|| reader.step())
            .take(MAX_STEPS)
            .collect();
        Some(Self { terms, cuts, steps })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        Some(self.bytes(usize::from(length)))
    }

    fn step(&mut self) -> Option<Step<'a>> {
        Some(match self.byte()? % 10 {
            0 => Step::Data(self.block()?.into()),
            // As long as a record may be, give or take 255.
            1 => {
                let shorter = usize::from(self.byte()?);
                Step::Data(vec![self.byte()?; MAX_PLAINTEXT - shorter].into())
            }
            2 => Step::Record(ContentType::Handshake, self.block()?),
            3 => Step::Record(ContentType::Alert, self.block()?),
            4 => Step::Record(ContentType::ChangeCipherSpec, self.block()?),
            5 => Step::KeyUpdate(self.byte()? % 3),
            6 => {
                let place = usize::from(u16::from_be_bytes([self.byte()?, self.byte()?]));
                Step::Spoil {
                    place,
                    change: self.byte()?,
                }
            }
            7 => Step::Repeat,
            8 => Step::Lose,
            _ => Step::Raw(self.block()?),
        })
    }
}
