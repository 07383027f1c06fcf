//! HTTP/2 as a layer: whatever a peer sends, an end of it neither panics nor grows, says whole frames
//! only, and is told the same however the bytes arrive. Two ends of it never call each other wrong,
//! also while windows grow. Between turns an end holds no buffers, and counts the heads of its streams.

use std::collections::HashMap;

use lockgate_http::fields::Fields;
use lockgate_http::h1::HeadLimits;
use lockgate_http::h2::frames::GOAWAY;
use lockgate_http::h2::{
    Budget, Connection, ConnectionError, Event, FieldSection, Key, LocalSettings, Role, TurnBuffers,
    code,
};
use lockgate_http::head::{Method, RequestHead, ResponseHead};
use lockgate_http::hpack::Indexing;

const LIMITS: HeadLimits = HeadLimits {
    head: 4096,
    fields: 32,
};
const SETTINGS: LocalSettings = LocalSettings {
    streams: 8,
    window: 40_000,
    connection_window: 100_000,
    head_list: 4096,
    connect_protocol: true,
};
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const NO_SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// The acknowledgement of ours.
const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";

/// Any bytes of a client: the first says whether they come behind the prefaces, the second how they
/// are cut.
pub fn h2_server(data: &[u8]) {
    one_side(Role::Server, data);
}

/// The same of a server, with four requests under way.
pub fn h2_client(data: &[u8]) {
    one_side(Role::Client, data);
}

fn one_side(role: Role, data: &[u8]) {
    let [greeted, step, data @ ..] = data else {
        return;
    };
    let mut bytes = Vec::new();
    if greeted % 2 == 1 {
        if role == Role::Server {
            bytes.extend_from_slice(PREFACE);
        }
        bytes.extend_from_slice(NO_SETTINGS);
        bytes.extend_from_slice(SETTINGS_ACK);
    }
    bytes.extend_from_slice(data);
    let whole = told(role, &bytes, usize::MAX);
    assert_eq!(told(role, &bytes, 1 + usize::from(*step)), whole);
}

/// What an end was told, and what it has sent in frames.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    events: Vec<String>,
    bodies: HashMap<u32, (Vec<u8>, bool)>,
    resets: usize,
    error: Option<ConnectionError>,
}

fn told(role: Role, bytes: &[u8], step: usize) -> Told {
    let budget = Budget {
        resets: 20,
        control: 50,
        updates: 50,
    };
    let mut connection = Connection::<u32>::new(role, SETTINGS, budget);
    let mut section = FieldSection::default();
    let mut told = Told {
        events: Vec::new(),
        bodies: HashMap::new(),
        resets: 0,
        error: None,
    };
    if role == Role::Client {
        for place in 0..4 {
            let method = if place == 2 { Method::Head } else { Method::Get };
            connection.open(method, place, place % 2 == 0, request);
        }
    }
    let (mut unread, mut held, mut buffers) = (Vec::new(), 0, TurnBuffers::default());
    let mut sent = connection.unsent().to_vec();
    connection.note_sent(sent.len());
    'pieces: for piece in bytes.chunks(step) {
        unread.extend_from_slice(piece);
        loop {
            connection.lend(&mut buffers);
            let given = unread.len();
            let received = connection.receive(&unread, &mut section);
            while let Some(event) = connection.next_event() {
                take(&mut connection, event, &unread, &section, &mut held, &mut told);
            }
            let window = connection.local_settings().connection_window as usize;
            assert!(held <= window + connection.kept_bytes());
            assert!(connection.active() <= 2 * SETTINGS.streams as usize);
            let heads: usize = connection.keys().map(|key| connection.head_size(key)).sum();
            assert_eq!(connection.held_heads(), heads);
            // Each has a head and trailers at most.
            assert!(heads <= 2 * SETTINGS.head_list as usize * connection.active());
            let unsent = connection.unsent();
            assert!(unsent.len() <= 3 * given + 64 * 1024, "{} for {given}", unsent.len());
            sent.extend_from_slice(unsent);
            connection.note_sent(unsent.len());
            connection.give_back(&mut buffers);
            match received {
                Ok(0) => break,
                Ok(used) => drop(unread.drain(..used)),
                Err(error) => {
                    told.error = Some(error);
                    assert_eq!(connection.error(), Some(error));
                    assert!(ConnectionError::LABELS.contains(&error.label()));
                    assert_eq!(connection.receive(&unread, &mut section), Err(error));
                    break 'pieces;
                }
            }
        }
        // A frame that is not DATA is kept until it is whole.
        assert!(unread.len() < 9 + 16_384);
    }
    // The end: one GOAWAY, if there was none, and what comes then is of no more use.
    connection.abort(code::NO_ERROR);
    let goodbye = connection.unsent().len();
    assert_eq!(goodbye, if told.error.is_some() { 0 } else { 17 });
    let keys: Vec<_> = connection.keys().collect();
    for key in keys {
        connection.close(key, code::PROTOCOL_ERROR);
    }
    assert_eq!((connection.held_heads(), connection.kept_bytes()), (0, 0));
    if told.error.is_none() {
        assert_eq!(connection.receive(bytes, &mut section), Ok(bytes.len()));
        assert_eq!(connection.next_event(), None);
    }
    assert_eq!(connection.unsent().len(), goodbye);
    let last = frames(&sent, &mut told.resets);
    let is_error = |code: u32| told.error.is_some_and(|error| error.code() == code);
    assert!(told.error.is_none() || last.is_some_and(is_error), "{last:?}");
    told
}

/// Counts the frames of streams' ends, and returns the code of a GOAWAY that is the last frame.
fn frames(mut sent: &[u8], resets: &mut usize) -> Option<u32> {
    sent = sent.strip_prefix(PREFACE).unwrap_or(sent);
    let mut last = None;
    while let [high, middle, low, kind, _, _, _, _, _, rest @ ..] = sent {
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        assert!(length <= 16_384);
        let payload = rest.get(..length).expect("a whole frame");
        sent = &rest[length..];
        *resets += usize::from(*kind == 3);
        last = (*kind == GOAWAY)
            .then(|| u32::from_be_bytes(payload[4..8].try_into().expect("four bytes")));
    }
    assert!(sent.is_empty());
    last
}

/// Does what its stream's number says.
fn take(
    connection: &mut Connection<u32>,
    event: Event,
    bytes: &[u8],
    section: &FieldSection,
    held: &mut usize,
    told: &mut Told,
) {
    match event {
        Event::Data { key, at, ended, .. } => {
            let data = &bytes[at];
            let (body, end) = told.bodies.entry(key.stream()).or_default();
            assert!(!*end, "nothing comes behind the end");
            body.extend_from_slice(data);
            *end = ended;
            // Some bodies are never used.
            if key.stream() % 8 == 3 {
                *held += data.len();
                if key.stream() % 16 == 3 {
                    connection.release_connection_window(key, data.len());
                }
            } else {
                connection.used(key, data.len());
            }
            return;
        }
        Event::Head { key, ended, .. } => {
            let text = match connection.get_mut(key) {
                // A request: the client's have their numbers.
                None => {
                    connection.attach(key, key.stream());
                    let mut head = RequestHead::default();
                    let read = section.request(&LIMITS, &mut head);
                    respond(connection, key);
                    format!("{read:?} {:?}", head.method)
                }
                Some(_) => {
                    let mut head = ResponseHead::default();
                    let read = section.response(&LIMITS, &mut head);
                    format!("{read:?} {}", head.status)
                }
            };
            told.events.push(format!("{} {ended} {text}", key.stream()));
        }
        Event::Trailers { key, .. } => {
            let mut fields = Fields::default();
            let read = section.trailers(&LIMITS, &mut fields);
            told.events.push(format!("{} {read:?} {}", key.stream(), fields.len()));
        }
        Event::Reset { key, reset } => {
            told.events.push(format!("{} {reset:?}", key.stream()));
            if key.stream() % 8 != 3 {
                connection.close(key, code::CANCEL);
            }
        }
        Event::WindowOpened { key } => {
            let length = connection.data(key, b"more", false);
            assert!(length <= 4);
        }
        other => told.events.push(format!("{other:?}")),
    }
}

fn respond(connection: &mut Connection<u32>, key: Key) {
    match key.stream() % 8 {
        1 => {
            answer(connection, key, true);
            connection.close(key, code::NO_ERROR);
        }
        5 => {
            answer(connection, key, false);
            connection.data(key, &[b'x'; 70_000], true);
            let local = *connection.local_settings();
            connection.grow_windows(2 * local.window, 2 * local.connection_window);
        }
        7 => drop(connection.close(key, code::PROTOCOL_ERROR)),
        _ => answer(connection, key, false),
    }
}

fn answer<S>(connection: &mut Connection<S>, key: Key, ended: bool) {
    connection.respond_with(key, ended, |block| {
        block.status(200);
        block.field(b"x-stream", b"any", Indexing::Keep);
    });
}

fn request(block: &mut lockgate_http::h2::FieldBlock<'_>) {
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/"),
    ] {
        block.field(name.as_bytes(), value.as_bytes(), Indexing::Keep);
    }
}

/// The data of each PING of an end.
const PING_DATA: [u8; 8] = *b"the data";

/// One of two ends, with what it has sent and got of each stream's body.
struct End {
    connection: Connection<()>,
    section: FieldSection,
    unread: Vec<u8>,
    keys: Vec<Key>,
    sent: HashMap<u32, (u64, bool)>,
    got: HashMap<u32, (u64, bool)>,
    /// Data of each stream that was not used.
    unused: HashMap<u32, usize>,
}

/// Pairs of bytes: what is done, and how much or to which stream. What two ends say to each other is
/// never wrong, and what was sent on a stream that nobody has reset comes.
pub fn h2_ends(data: &[u8]) {
    let mut ends = [Role::Client, Role::Server].map(|role| End {
        connection: Connection::new(role, SETTINGS, Budget::UNLIMITED),
        section: FieldSection::default(),
        unread: Vec::new(),
        keys: Vec::new(),
        sent: HashMap::new(),
        got: HashMap::new(),
        unused: HashMap::new(),
    });
    for pair in data.chunks_exact(2).take(1_024) {
        let [action, number] = *pair else { continue };
        act(&mut ends, action, usize::from(number));
    }
    // All that was taken is in order, whatever the windows: it arrives.
    while ends.iter().any(|end| !end.connection.unsent().is_empty()) {
        pass(&mut ends, 0, usize::MAX);
        pass(&mut ends, 1, usize::MAX);
    }
    for (from, to) in [(0, 1), (1, 0)] {
        assert!(ends[to].unread.is_empty());
        for key in &ends[from].keys {
            let id = key.stream();
            let of_other = ends[to].keys.iter().any(|other| other.stream() == id);
            let (Some(sent), true) = (ends[from].sent.get(&id), of_other) else {
                continue;
            };
            assert_eq!(ends[to].got.get(&id).unwrap_or(&(0, false)), sent, "{id}");
        }
    }
}

fn act(ends: &mut [End; 2], action: u8, number: usize) {
    let side = usize::from(action & 1);
    let end = &mut ends[side];
    let key = (!end.keys.is_empty()).then(|| end.keys[number % end.keys.len()]);
    match (action >> 1 & 7, key) {
        (0, _) if side == 0 && end.connection.active() < 32 => {
            let ended = number % 4 == 0;
            if let Some(key) = end.connection.open(Method::Get, (), ended, request) {
                end.keys.push(key);
                if ended {
                    end.sent.insert(key.stream(), (0, true));
                }
            }
        }
        (1, Some(key)) if side == 1 => {
            let ended = number % 5 == 0 && !end.sent.contains_key(&key.stream());
            answer(&mut end.connection, key, ended);
            end.sent.entry(key.stream()).or_insert((0, ended));
        }
        (2, Some(key)) => {
            let length = [1, 10, 1_000, 20_000][number % 4];
            let last = number & 0x40 != 0;
            let (before, ended) = end.sent.get(&key.stream()).copied().unwrap_or_default();
            let data: Vec<_> = (before..before + length).map(|at| at as u8).collect();
            let taken = end.connection.data(key, &data, last) as u64;
            let ended = ended || last && taken == length;
            end.sent.insert(key.stream(), (before + taken, ended));
        }
        (3, Some(key)) => {
            let unused = end.unused.entry(key.stream()).or_default();
            let used = (*unused).min(number * 100);
            *unused -= used;
            end.connection.used(key, used);
        }
        (4, Some(key)) if number & 0x30 == 0 => {
            end.connection.close(key, [code::CANCEL, code::NO_ERROR][number % 2]);
            end.keys.retain(|other| *other != key);
        }
        (5, Some(key)) => {
            let (bytes, ended) = end.sent.get(&key.stream()).copied().unwrap_or_default();
            if bytes > 0 && !ended {
                end.connection.trailers(key, &Fields::default());
                end.sent.insert(key.stream(), (bytes, true));
            }
        }
        (6, _) if side == 1 && number == 0xff => end.connection.drain(),
        (7, _) if number < 0x40 => {
            let local = *end.connection.local_settings();
            let (window, all) = (local.window + 1_000, local.connection_window + 1_000);
            let connection = &mut end.connection;
            match number % 4 {
                0 => connection.grow_windows(window, all),
                1 => connection.grow_windows(0, all),
                2 => connection.probe_settings(),
                _ => connection.ping(PING_DATA),
            };
        }
        _ => pass(ends, side, 1 + number * number),
    }
}

/// Moves up to so many bytes from one end to the other.
fn pass(ends: &mut [End; 2], from: usize, most: usize) {
    let unsent = ends[from].connection.unsent();
    let bytes = unsent[..unsent.len().min(most)].to_vec();
    ends[from].connection.note_sent(bytes.len());
    // Both ends have the same buffers, one after the other.
    let mut buffers = TurnBuffers::default();
    ends[from].connection.give_back(&mut buffers);
    ends[1 - from].connection.lend(&mut buffers);
    ends[1 - from].receive(&bytes);
    ends[1 - from].connection.give_back(&mut buffers);
    ends[from].connection.lend(&mut buffers);
}

impl End {
    fn receive(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        loop {
            let received = self.connection.receive(&self.unread, &mut self.section);
            let used = received.expect("the other end keeps the rules");
            while let Some(event) = self.connection.next_event() {
                self.take(event);
            }
            self.unread.drain(..used);
            if used == 0 {
                return;
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Head { key, ended, .. } => {
                if !self.keys.contains(&key) {
                    self.keys.push(key);
                    self.connection.attach(key, ());
                }
                self.got.insert(key.stream(), (0, ended));
            }
            Event::Data { key, at, ended, .. } => {
                let data = &self.unread[at];
                let (bytes, end) = self.got.entry(key.stream()).or_default();
                assert!(!*end, "nothing comes behind the end");
                for byte in data {
                    assert_eq!(*byte, *bytes as u8, "in order");
                    *bytes += 1;
                }
                *end = ended;
                *self.unused.entry(key.stream()).or_default() += data.len();
            }
            Event::Trailers { key, .. } => self.got.entry(key.stream()).or_default().1 = true,
            Event::Reset { key, reset } => {
                assert_eq!(reset.fault, None, "the other end keeps the rules");
                self.connection.close(key, code::CANCEL);
                self.keys.retain(|other| *other != key);
            }
            Event::Interim { .. } | Event::WindowOpened { .. } | Event::Goaway { .. } => {}
            Event::Pong { data } => assert_eq!(data, PING_DATA),
            Event::Priority { .. } => unreachable!("none was sent"),
        }
    }
}
