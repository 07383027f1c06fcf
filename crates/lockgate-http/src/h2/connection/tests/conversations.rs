//! Conversations of a client, made up from a seed, beside the h2 crate: mostly by the rules, and now and then
//! against one.
//!
//! `LOCKGATE_CONVERSATIONS` is their number, `LOCKGATE_SEED` the first seed.

mod client;
mod offences;
mod servers;

use std::collections::BTreeMap;

use super::*;
use client::ScriptedClient;
use offences::ClientOffence;
use servers::{CrateServer, Judgement, OurServer};

/// A generator of numbers (splitmix64: Steele, Lea, Flood 2014).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Cuts bytes into pieces: one, of one byte, short ones, or long ones.
    fn cut<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let longest = match self.below(4) {
            0 if bytes.len() < 500 => 1,
            1 if bytes.len() < 5_000 => 40,
            2 => 5_000,
            _ => bytes.len().max(1),
        };
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at((1 + self.below(longest)).min(bytes.len()));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}

/// What a client sends at once.
#[derive(Debug)]
struct ClientStep {
    words: String,
    bytes: Vec<u8>,
}

impl ClientStep {
    fn new(words: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self {
            words: words.into(),
            bytes,
        }
    }

    /// Whether it begins with a field section in several frames.
    fn is_cut(&self) -> bool {
        FrameHeader::read(&self.bytes)
            .is_some_and(|header| header.kind == HEADERS && !header.has(END_HEADERS))
    }

    /// The stream of its first frame.
    fn stream(&self) -> u32 {
        FrameHeader::read(&self.bytes).map_or(0, |header| header.stream)
    }
}

/// A difference that has a reason.
type Reason = &'static str;

/// The conversations so far, and how many of them ended with a difference, by its reason.
type Differences = BTreeMap<(ClientOffence, Reason), usize>;

/// A client, and both servers that get its bytes.
struct Conversation {
    cuts: Dice,
    client: ScriptedClient,
    ours: OurServer,
    theirs: CrateServer,
    words: Vec<String>,
}

impl Conversation {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let local = LocalSettings {
            window: *dice.pick(&[65_535, 0, 700, 20_000, 80_000]),
            connection_window: *dice.pick(&[65_535, 65_535, 100_000]),
            ..SETTINGS_OF_TESTS
        };
        Self {
            cuts: Dice::new(dice.next()),
            client: ScriptedClient::new(dice.next(), local),
            ours: OurServer::new(seed, local),
            theirs: CrateServer::new(seed, local),
            words: vec![format!(
                "windows {} {}",
                local.window, local.connection_window
            )],
        }
    }

    /// Runs to an error, a difference with a reason, or the last step.
    ///
    /// # Panics
    /// At a difference without a reason.
    fn run(&mut self) -> Option<(ClientOffence, Reason)> {
        if self.cuts.chance(2) {
            let (offence, step) = self.client.greet_wrongly();
            return match self.turn(Some(offence), vec![step]) {
                TurnEnd::Different(reason) => Some((offence, reason)),
                _ => None,
            };
        }
        let greeting = self.client.greet();
        self.turn(None, vec![greeting]);
        let turns = 1 + self.cuts.below(14);
        for _ in 0..turns {
            let mut steps = Vec::new();
            let mut offence = None;
            // A violation is the first of its turn: what came before was told by both.
            if self.cuts.chance(20) {
                let kind = *self.cuts.pick(&ClientOffence::ALL);
                if let Some(step) = self.client.offend(kind) {
                    offence = Some(kind);
                    self.client.avoided = step.stream();
                    steps.push(step);
                }
            }
            // The windows of answers become smaller before they grow: what is written meanwhile depends on
            // the pieces.
            self.client.may_shrink_windows = offence.is_none();
            for _ in 0..=self.cuts.below(6) {
                steps.push(self.client.step());
                self.client.may_shrink_windows = false;
            }
            self.client.avoided = 0;
            match self.turn(offence, steps) {
                TurnEnd::Same => {}
                TurnEnd::Over => return None,
                TurnEnd::Different(reason) => return Some((offence?, reason)),
            }
        }
        let (mut offence, mut steps) = (None, Vec::new());
        if self.cuts.chance(30) {
            offence = Some(ClientOffence::Leave);
            steps.push(self.client.leave());
            steps.extend((0..self.cuts.below(4)).map(|_| self.client.step()));
        }
        steps.push(self.client.break_off());
        match self.turn(offence, steps) {
            TurnEnd::Different(reason) => Some((offence?, reason)),
            _ => None,
        }
    }

    fn turn(&mut self, offence: Option<ClientOffence>, steps: Vec<ClientStep>) -> TurnEnd {
        let first = steps.first().map_or(0, ClientStep::stream);
        let is_cut = steps.first().is_some_and(ClientStep::is_cut);
        let faults = self.ours.heard.record.faults();
        let mut bytes = Vec::new();
        for step in steps {
            self.words.push(step.words);
            bytes.extend(step.bytes);
        }
        self.words.push("a pause".to_owned());
        for piece in self.cuts.cut(&bytes) {
            self.ours.receive(piece);
        }
        for piece in self.cuts.cut(&bytes) {
            self.theirs.receive(piece);
        }
        self.ours.act();
        self.theirs.act();
        let has_left = offence == Some(ClientOffence::Leave) && self.theirs.is_over();
        let Self {
            client,
            ours: OurServer { heard: ours, .. },
            theirs: CrateServer { heard: theirs, .. },
            words,
            ..
        } = self;
        let is_refused = ours.record.faults() > faults || ours.record.has_failed(first);
        let is_right = match offence {
            None => ours.record.faults() == faults,
            Some(offence) => is_refused || offence.may_pass(),
        };
        assert!(
            is_right,
            "{offence:?}:\n{}\nours: {ours:#?}\ntheirs: {theirs:#?}",
            words.join("\n")
        );
        // How much of an answer was written before its reset came depends on the pieces.
        for stream in client.streams.iter().filter(|stream| stream.is_cancelled) {
            ours.record.answers.remove(&stream.id);
            theirs.record.answers.remove(&stream.id);
        }
        let is_over = ours.record.error.is_some();
        if is_over && ours.record.error == theirs.record.error {
            return TurnEnd::Over;
        }
        if ours.record != theirs.record {
            let reason = offence.and_then(|offence| {
                if has_left {
                    return Some("§6.8: requests may follow; the crate ends when it has none");
                }
                let fatal = is_over || theirs.record.error.is_some();
                let rest = [&ours.record, &theirs.record].map(|record| record.without(first));
                let alike = fatal || rest[0] == rest[1];
                let (ours, theirs) = (ours.record.verdict(first), theirs.record.verdict(first));
                alike.then(|| explained(offence, is_cut, ours, theirs))?
            });
            let Some(reason) = reason else {
                panic!(
                    "the servers differ, {offence:?}:\n{}\nours: {ours:#?}\ntheirs: {theirs:#?}",
                    words.join("\n")
                );
            };
            return TurnEnd::Different(reason);
        }
        client.hear(0, &std::mem::take(&mut ours.given));
        client.hear(1, &std::mem::take(&mut theirs.given));
        client.note_ends(&ours.record);
        TurnEnd::Same
    }
}

enum TurnEnd {
    Same,
    /// Both servers have ended the connection, for the same reason.
    Over,
    Different(Reason),
}

/// The reason why the servers differ after a violation; `is_cut` is whether its field section is in several
/// frames.
fn explained(
    offence: ClientOffence,
    is_cut: bool,
    ours: Judgement,
    theirs: Judgement,
) -> Option<Reason> {
    use ClientOffence::*;
    use Judgement::{Accepted, Connection, Nothing, Stream, Streams};
    const PROTOCOL: u32 = code::PROTOCOL_ERROR;
    const LENGTH: u32 = code::FRAME_SIZE_ERROR;
    const CLOSED: u32 = code::STREAM_CLOSED;
    const HPACK: u32 = code::COMPRESSION_ERROR;
    const REFUSED: u32 = code::REFUSED_STREAM;
    Some(match (offence, ours, theirs) {
        (AckFirst | NoSettings | OtherPreface, Connection(PROTOCOL), Nothing) => {
            "§3.4: PROTOCOL_ERROR; the crate closes without GOAWAY, which may be left out"
        }
        (
            AckLength | GoawayLength | PingLength | PriorityLength | ResetLength | SettingsLength
            | UpdateLength,
            Connection(LENGTH),
            Connection(PROTOCOL),
        ) => "RFC 9113 §4.2: FRAME_SIZE_ERROR; the crate says PROTOCOL_ERROR",
        (PriorityLength, Stream(LENGTH), Connection(PROTOCOL)) => {
            "§6.3: an error of the stream; the crate ends the connection"
        }
        (LargeWindow, Connection(code::FLOW_CONTROL_ERROR), Connection(PROTOCOL)) => {
            "§6.5.2: FLOW_CONTROL_ERROR; the crate says PROTOCOL_ERROR"
        }
        (
            CutString | LargeTable | LateTableSize | WrongIndex,
            Connection(HPACK),
            Connection(PROTOCOL),
        ) => "§4.3: COMPRESSION_ERROR; the crate says PROTOCOL_ERROR",
        (LateTableSize, Connection(HPACK), Accepted | Stream(_)) if is_cut => {
            "RFC 7541 §4.2: at the front of a block; the crate takes each CONTINUATION for one"
        }
        (DataBehindEnd | HeadersBehindEnd, Stream(CLOSED), Connection(PROTOCOL)) => {
            "§5.1: STREAM_CLOSED for the stream; the crate ends the connection"
        }
        (HeadersOnOver, Connection(CLOSED), Connection(PROTOCOL)) => {
            "§5.1: STREAM_CLOSED; the crate says PROTOCOL_ERROR"
        }
        (
            CapitalName | ControlInValue | EmptyName | PseudoUnknown,
            Stream(PROTOCOL),
            Connection(PROTOCOL),
        )
        | (CapitalInTrailers, Stream(PROTOCOL) | Accepted, Connection(PROTOCOL)) => {
            "§8.1.1: an error of the stream; the crate ends the connection"
        }
        (
            ConnectionField | ConnectionInTrailers | PseudoBehind | PseudoTwice | TeOther,
            Stream(PROTOCOL) | Accepted,
            Connection(PROTOCOL),
        ) if is_cut => {
            "§8.1.1: an error of the stream; the crate ends the connection where there is CONTINUATION"
        }
        (EmptyName, Stream(PROTOCOL), Accepted | Stream(_)) if is_cut => {
            "§8.2.1: a name is a token; the crate passes over it in CONTINUATION"
        }
        (
            ConnectionInTrailers | TooLittleData | TooLittleDataByTrailers,
            Accepted,
            Stream(PROTOCOL),
        ) => "§5.1: both sides had ended the stream; the crate resets it",
        (EmptyLength, Stream(PROTOCOL), Accepted | Stream(_)) => {
            "RFC 9110 §8.6: one digit at the least; the crate takes it for 0"
        }
        (SpaceAroundValue, Stream(PROTOCOL), Accepted | Stream(_)) => {
            "§8.2.1: no whitespace around a value; the crate does not check"
        }
        (NoAuthority | OtherHost | Userinfo, Stream(PROTOCOL), Accepted | Stream(_)) => {
            "§8.3.1: the authority; the crate leaves it to its user"
        }
        (PseudoInTrailers, Stream(PROTOCOL) | Accepted, Accepted) => {
            "§8.1: no pseudo-fields in trailers; the crate passes over them"
        }
        (LargeHead, Stream(PROTOCOL), Nothing) => {
            "RFC 6585 §5: 431 is for the user to say; the crate says it itself"
        }
        (TooLittleData, Stream(PROTOCOL), Stream(PROTOCOL)) => {
            "§8.1.1: data is lent before its frame is whole; the crate drops the last frame"
        }
        (PriorityUpdateOnStream, Connection(PROTOCOL), Accepted | Nothing | Stream(_)) => {
            "RFC 9218 §7.1: on stream 0; the crate does not know the frame"
        }
        (SelfDependency, Connection(PROTOCOL), Accepted | Stream(_) | Streams(..)) => {
            "RFC 7540 §5.3.1, §5.4.1: a stream without a slot is not reset; the crate does, or passes over it"
        }
        (
            BeyondStreamWindow,
            Stream(code::FLOW_CONTROL_ERROR),
            Stream(code::FLOW_CONTROL_ERROR),
        ) => "§6.9.1: how much is taken before depends on what was given back meanwhile",
        (SelfDependencyOfHeaders, Connection(HPACK), Stream(PROTOCOL)) => {
            "§4.3: the block is not decoded; the crate goes on, and has lost the table"
        }
        (Push, Connection(PROTOCOL), Accepted) => {
            "§8.4: no client pushes; the crate passes over it where the stream has failed before"
        }
        (UpdateZeroOfStream, Stream(PROTOCOL), Connection(PROTOCOL)) => {
            "§6.9: an error of the stream; the crate ends the connection"
        }
        (TooManyPieces, Accepted | Stream(_), Connection(code::ENHANCE_YOUR_CALM)) => {
            "a limit of the crate: five CONTINUATION frames; ours is of their bytes and of short ones"
        }
        (LateOnRefused, Stream(REFUSED), Streams(CLOSED, REFUSED)) => {
            "§5.1: it may have been on its way; the crate does not remember streams that it refused"
        }
        (LateTrailersOnRefused, Stream(REFUSED), Connection(PROTOCOL)) => {
            "§5.1: it may have been on its way; the crate ends the connection"
        }
        _ => return None,
    })
}

fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn conversations_mean_the_same_to_the_h2_crate() {
    let number = number_of("LOCKGATE_CONVERSATIONS").unwrap_or(2_000);
    let first = number_of("LOCKGATE_SEED").unwrap_or(1);
    let mut differences = Differences::new();
    for seed in first..first.saturating_add(number) {
        let run = || Conversation::new(seed).run();
        let end = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            eprintln!("LOCKGATE_SEED={seed} LOCKGATE_CONVERSATIONS=1");
            std::panic::resume_unwind(panic)
        });
        if let Some(difference) = end {
            *differences.entry(difference).or_default() += 1;
        }
    }
    for ((offence, reason), count) in &differences {
        println!("{count:8} {offence:?}: {reason}");
    }
}
