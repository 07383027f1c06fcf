//! One end of an HTTP/1 connection, scripted: sends exactly the given bytes, and reads one message
//! at a time.
//!
//! Reads strictly: a violation of RFC 9112 is a panic. Writes anything.

use std::io::{Read, Write};
use std::net::SocketAddr;

use crate::origin::{Origin, Serving};
use crate::wire::{Wire, shown, until_end};

/// A connection, and bytes that were read ahead of it.
#[derive(Debug)]
pub struct Http<S = Wire> {
    /// Its stream; reading it directly skips bytes that were read ahead.
    pub stream: S,
    unread: Vec<u8>,
}

/// A request or a response, as it came.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// First line and fields with all line ends, the empty line too.
    pub head: String,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Trailers with their line ends, without the empty line.
    pub trailers: String,
}

impl Message {
    /// The first line, without its end.
    pub fn first_line(&self) -> &str {
        self.head.split("\r\n").next().unwrap_or_default()
    }

    /// The status of a response.
    ///
    /// # Panics
    /// When it has none.
    pub fn status(&self) -> u16 {
        let status = self
            .first_line()
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("no status: {}", self.head))
    }

    /// The values of a field, spelled in any case, one after the other.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let fields = self
            .head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        fields
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    /// The value of a field that occurs at most once.
    ///
    /// # Panics
    /// When it occurs twice.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut all = self.all(name);
        let first = all.next();
        assert!(all.next().is_none(), "{name} is there twice: {}", self.head);
        first
    }

    /// The body as text.
    ///
    /// # Panics
    /// When it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }
}

impl Http<Wire> {
    /// Connects as a client.
    ///
    /// # Panics
    /// When there is no listener.
    pub fn connect(to: SocketAddr) -> Self {
        Self::over(Wire::connect(to))
    }

    /// Connects, sends everything, and reads until the peer closes; returns the bytes.
    ///
    /// # Panics
    /// When the connection ends in another way.
    pub fn ask(to: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
        let mut client = Self::connect(to);
        client.send(bytes);
        String::from_utf8(client.rest()).expect("an answer of text")
    }
}

impl<S: Read + Write> Http<S> {
    /// Speaks over `stream`, a [`Wire`] or a [`crate::Tls`].
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Sends everything, at once.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .and_then(|()| self.stream.flush())
            .expect("the peer takes it");
    }

    /// Sends everything, in writes of `len` bytes.
    ///
    /// # Panics
    /// When the peer does not accept it.
    pub fn send_in(&mut self, len: usize, bytes: impl AsRef<[u8]>) {
        for part in bytes.as_ref().chunks(len) {
            self.send(part);
        }
    }

    /// Reads exactly `len` bytes.
    ///
    /// # Panics
    /// When they do not arrive.
    pub fn exactly(&mut self, len: usize) -> Vec<u8> {
        while self.unread.len() < len {
            assert!(
                self.read_more(),
                "wanted {len} bytes, got {}",
                shown(&self.unread)
            );
        }
        let left = self.unread.split_off(len);
        std::mem::replace(&mut self.unread, left)
    }

    /// Bytes that were read ahead.
    pub fn unread(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unread)
    }

    /// Reads as many bytes as `bytes` has, and checks that they are equal.
    ///
    /// # Panics
    /// When they are not.
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let read = self.exactly(bytes.len());
        assert!(
            read == bytes,
            "expected {}, got {}",
            shown(bytes),
            shown(&read)
        );
    }

    /// Reads until the peer ends.
    ///
    /// # Panics
    /// When it does not end by a close (of TLS: a close_notify).
    pub fn rest(&mut self) -> Vec<u8> {
        let (read, end) = self.end();
        end.expect("the peer ends in an orderly way");
        read
    }

    /// Reads until the peer ends, and returns the end: `Err` is a reset, or of TLS the lack of a
    /// close_notify.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(&mut self) -> (Vec<u8>, std::io::Result<()>) {
        let read = std::mem::take(&mut self.unread);
        until_end(&mut self.stream, read)
    }

    /// Waits until the peer has ended in any way; bytes before it are dropped.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_closed(&mut self) {
        let _ = self.end();
    }

    /// Checks that the peer closes without sending more.
    ///
    /// # Panics
    /// When it does not.
    pub fn expect_end(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "expected the end, got {}", shown(&rest));
    }

    /// One line with its end.
    ///
    /// # Panics
    /// When none comes, or the peer ends it by a bare LF.
    pub fn line(&mut self) -> String {
        let end = loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                break end + 1;
            }
            assert!(
                self.read_more(),
                "the peer ended in the middle of a line: {}",
                shown(&self.unread)
            );
        };
        let line = String::from_utf8(self.exactly(end)).expect("a line of text");
        assert!(line.ends_with("\r\n"), "a bare LF: {line:?}");
        line
    }

    /// A head: everything up to the empty line, which is included.
    ///
    /// # Panics
    /// When the peer ends earlier.
    pub fn head(&mut self) -> String {
        let mut head = self.line();
        while !head.ends_with("\r\n\r\n") {
            head.push_str(&self.line());
        }
        head
    }

    /// The next chunk's data; `None` is the last, with its trailers still to be read.
    ///
    /// # Panics
    /// When it is no chunk.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line();
        let size = usize::from_str_radix(line.trim_end(), 16)
            .unwrap_or_else(|_| panic!("a size: {line:?}"));
        if size == 0 {
            return None;
        }
        let data = self.exactly(size);
        self.expect("\r\n");
        Some(data)
    }

    /// A request with its body, as an origin reads it.
    ///
    /// # Panics
    /// When it is malformed.
    pub fn request(&mut self) -> Message {
        let mut request = Message {
            head: self.head(),
            ..Message::default()
        };
        self.body(&mut request);
        request
    }

    /// Waits for more data; `false` when the peer has closed or aborted instead.
    pub fn has_more(&mut self) -> bool {
        if self.unread.is_empty() {
            let mut read = [0; 16 * 1024];
            let len = self.stream.read(&mut read).unwrap_or(0);
            self.unread.extend_from_slice(&read[..len]);
        }
        !self.unread.is_empty()
    }

    /// The next request with its body; `None` when the peer has closed or aborted instead.
    ///
    /// # Panics
    /// When it is malformed.
    pub fn next_request(&mut self) -> Option<Message> {
        if self.has_more() {
            Some(self.request())
        } else {
            None
        }
    }

    /// A response with its body to a request of any method but HEAD, as a client reads it; interim
    /// responses (1xx) are responses of their own.
    ///
    /// # Panics
    /// When it is malformed.
    pub fn answer(&mut self) -> Message {
        let mut answer = Message {
            head: self.head(),
            ..Message::default()
        };
        let status = answer.status();
        if status < 200 || status == 204 || status == 304 {
            return answer;
        }
        let framed = answer
            .field("content-length")
            .or(answer.field("transfer-encoding"))
            .is_some();
        if framed {
            self.body(&mut answer);
        } else {
            answer.body = self.rest();
        }
        answer
    }

    /// The body of a message after its head.
    ///
    /// # Panics
    /// When it is truncated.
    pub fn body(&mut self, message: &mut Message) {
        let length = message
            .field("content-length")
            .map(|length| length.parse().expect("a length"));
        match (message.field("transfer-encoding"), length) {
            (None, Some(length)) => message.body = self.exactly(length),
            (None, None) => {}
            (Some(coding), None) => {
                assert_eq!(coding, "chunked");
                while let Some(data) = self.chunk() {
                    message.body.extend_from_slice(&data);
                }
                loop {
                    let line = self.line();
                    if line == "\r\n" {
                        break;
                    }
                    message.trailers.push_str(&line);
                }
            }
            (Some(_), Some(_)) => panic!("a body with two lengths: {}", message.head),
        }
    }

    /// Reads available bytes, or waits for them; `false` is the peer's end.
    fn read_more(&mut self) -> bool {
        let mut read = [0; 16 * 1024];
        let len = self.stream.read(&mut read).expect("the peer sends on");
        self.unread.extend_from_slice(&read[..len]);
        len > 0
    }
}

impl Origin {
    /// The next connection, for HTTP.
    ///
    /// # Panics
    /// When none comes.
    pub fn http(&self) -> Http {
        Http::over(self.accept())
    }

    /// Answers every request with the bytes of `answer`, on connections that stay open until the
    /// client closes them.
    pub fn answering(
        self,
        answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static,
    ) -> Serving {
        self.serve(move |wire| {
            let mut http = Http::over(wire.another());
            while let Some(request) = http.next_request() {
                http.send(answer(&request));
            }
        })
    }
}
