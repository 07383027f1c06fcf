//! The next frame among received bytes.

use super::super::frame_header::{FrameHeader, HEADER_LEN, MAX_PAYLOAD, PREFACE};
use super::super::frames::{
    ACK, CONTINUATION, DATA, GOAWAY, HEADERS, PADDED, PING, PRIORITY, PRIORITY_UPDATE,
    PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use super::super::{ConnectionError, FieldSink};
use super::Connection;

impl<S> Connection<S> {
    /// Handles the frames at the front of `bytes`, and returns their length: what is behind them is
    /// to be given again, with more bytes. Stops at the first frame with [events](Self::next_event),
    /// which must be taken before the next call; `0` means that there is no whole frame. Data
    /// need not be whole. The fields of a head or trailers go to `sink`. After
    /// [`abort`](Self::abort), all bytes are dropped.
    ///
    /// # Errors
    /// The peer has violated the protocol or used up its budget: a GOAWAY waits to be sent, the last
    /// bytes of this connection.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FieldSink,
    ) -> Result<usize, ConnectionError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.is_over {
            return Ok(bytes.len());
        }
        let mut at = 0;
        while self.events.is_empty() {
            match self.take(bytes, &mut at, sink) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.fail(error);
                    return Err(error);
                }
            }
        }
        Ok(at)
    }

    /// Handles the next element of `bytes`, from `at` on; `false`: it is not whole.
    fn take(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        sink: &mut impl FieldSink,
    ) -> Result<bool, ConnectionError> {
        let rest = &bytes[*at..];
        if let Some(data) = self.data.take() {
            return self.take_data(data, rest.len(), at);
        }
        if self.preface < PREFACE.len() {
            return self.take_preface(rest, at);
        }
        let Some(header) = FrameHeader::read(rest) else {
            return Ok(false);
        };
        if !self.has_settings && (header.kind != SETTINGS || header.has(ACK)) {
            return Err(ConnectionError::FirstFrame);
        }
        if header.length > MAX_PAYLOAD {
            return Err(ConnectionError::FrameTooLong);
        }
        // §6.10: no other frame may come within a field section.
        if self
            .section
            .as_ref()
            .is_some_and(|section| header.kind != CONTINUATION || header.stream != section.stream())
        {
            return Err(ConnectionError::Interrupted);
        }
        if header.kind == DATA {
            let padding = match (header.has(PADDED), rest.get(HEADER_LEN)) {
                (false, _) => None,
                (true, _) if header.length == 0 => return Err(ConnectionError::Padding),
                (true, None) => return Ok(false),
                (true, Some(padding)) => Some(*padding),
            };
            *at += HEADER_LEN + usize::from(padding.is_some());
            let data = self.begin_data(header, padding)?;
            return self.take_data(data, bytes.len() - *at, at);
        }
        let Some(payload) = rest.get(HEADER_LEN..HEADER_LEN + header.length) else {
            return Ok(false);
        };
        *at += HEADER_LEN + header.length;
        match header.kind {
            HEADERS => self.recv_headers(header, payload, sink)?,
            CONTINUATION => self.recv_continuation(header, payload, sink)?,
            PRIORITY => self.recv_priority(header, payload)?,
            RST_STREAM => self.recv_reset(header, payload)?,
            SETTINGS => self.recv_settings(header, payload)?,
            PUSH_PROMISE => return Err(ConnectionError::Push),
            PING => self.recv_ping(header, payload)?,
            GOAWAY => self.recv_goaway(header, payload)?,
            WINDOW_UPDATE => self.recv_window_update(header, payload)?,
            PRIORITY_UPDATE => self.recv_priority_update(header, payload)?,
            // §5.5: ignored.
            _ => self.budget.control()?,
        }
        Ok(true)
    }

    fn take_preface(&mut self, rest: &[u8], at: &mut usize) -> Result<bool, ConnectionError> {
        let due = &PREFACE[self.preface..];
        let come = rest.len().min(due.len());
        if rest[..come] != due[..come] {
            return Err(ConnectionError::Preface);
        }
        self.preface += come;
        *at += come;
        Ok(come > 0)
    }
}
