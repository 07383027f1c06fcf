//! Frames that carry no messages: what they change, and what is answered.

use super::super::frame_header::{self, FrameHeader, stream_id};
use super::super::frames::{ACK, PING, SETTINGS};
use super::super::streams::{MessageState, Stream};
use super::super::windows::DEFAULT_WINDOW;
use super::super::{ConnectionError, Event, Role, StreamFault, StreamReset, code};
use super::{Connection, DrainState};
use crate::priority;

/// The data of the PING that ends the first step of a drain, when it is acknowledged.
pub(super) const DRAIN_PING: [u8; 8] = *b"lockgate";

impl<S> Connection<S> {
    /// §6.5.
    pub(super) fn recv_settings(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        of_the_connection(header)?;
        if header.has(ACK) {
            return self.recv_settings_ack(payload);
        }
        // The first are part of the preface.
        if std::mem::replace(&mut self.has_settings, true) {
            self.budget.control()?;
        }
        let before = self.peer.window;
        if let Some(table) = self.peer.take(payload, self.role)? {
            self.encoder.resize(table.least as usize);
            self.encoder.resize(table.last as usize);
        }
        let by = i64::from(self.peer.window) - i64::from(before);
        if by != 0 {
            self.shift_send_windows(by)?;
        }
        frame_header::begin(&mut self.out, 0, SETTINGS, ACK, 0);
        Ok(())
    }

    /// §6.9.2: a new initial window changes those of all streams on which data may still be sent.
    fn shift_send_windows(&mut self, by: i64) -> Result<(), ConnectionError> {
        let Self {
            streams, events, ..
        } = self;
        let active = |stream: &Stream<S>| stream.sent != MessageState::Ended;
        for (key, stream) in streams.iter_mut().filter(|(_, stream)| active(stream)) {
            let shifted = stream.send_window.shift(by);
            shifted.map_err(|_| ConnectionError::WindowOverflow)?;
            if stream.wants_window && stream.send_window.left() > 0 {
                stream.wants_window = false;
                events.push_back(Event::WindowOpened { key });
            }
        }
        Ok(())
    }

    /// §6.5.3: from now on the peer keeps to our initial window. A window that has grown since holds
    /// already.
    fn recv_settings_ack(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        if !payload.is_empty() {
            return Err(ConnectionError::FrameLength);
        }
        if std::mem::replace(&mut self.is_settled, true) {
            return Err(ConnectionError::SettingsAck);
        }
        if std::mem::replace(&mut self.has_acknowledged, true) {
            return Ok(());
        }
        let less = i64::from(DEFAULT_WINDOW) - i64::from(self.local.window);
        if less > 0 {
            for (_, stream) in self.streams.iter_mut() {
                stream.receive_window.shift(-less);
            }
        }
        Ok(())
    }

    /// §6.7.
    pub(super) fn recv_ping(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        of_the_connection(header)?;
        let data: &[u8; 8] = payload
            .try_into()
            .map_err(|_| ConnectionError::FrameLength)?;
        if !header.has(ACK) {
            self.budget.ping()?;
            frame_header::begin(&mut self.out, data.len(), PING, ACK, 0);
            self.out.extend_from_slice(data);
            return Ok(());
        }
        if self.ping == Some(*data) {
            self.ping = None;
            self.events.push_back(Event::Pong { data: *data });
            return Ok(());
        }
        if self.drain == DrainState::Announced && *data == DRAIN_PING {
            self.drain = DrainState::Last(self.last_id);
            self.write_goaway(self.last_id, code::NO_ERROR);
            return Ok(());
        }
        self.budget.control()
    }

    /// §6.8.
    pub(super) fn recv_goaway(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        of_the_connection(header)?;
        let (Some(last), Some(code)) = (
            payload.first_chunk(),
            payload.get(4..).and_then(<[u8]>::first_chunk),
        ) else {
            return Err(ConnectionError::FrameLength);
        };
        let (last, code) = (stream_id(*last), u32::from_be_bytes(*code));
        if std::mem::replace(&mut self.is_leaving, true) {
            self.budget.control()?;
        }
        // What was promised not to be processed may have been sent elsewhere since.
        if self.role == Role::Client && last > self.goaway_last {
            return Err(ConnectionError::LaterGoaway);
        }
        self.goaway_last = last;
        let Self {
            streams, events, ..
        } = self;
        events.push_back(Event::Goaway { code });
        if self.role == Role::Server {
            return Ok(());
        }
        for (key, stream) in streams.iter_mut() {
            if stream.id > last && !stream.is_over() {
                // A response that has begun shows that the server did process the request.
                let unprocessed = stream.received == MessageState::Head;
                (stream.received, stream.sent) = (MessageState::Ended, MessageState::Ended);
                stream.is_reset = true;
                let reset = StreamReset {
                    code,
                    fault: None,
                    unprocessed,
                };
                events.push_back(Event::Reset { key, reset });
            }
        }
        Ok(())
    }

    /// §6.4.
    pub(super) fn recv_reset(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        let code: &[u8; 4] = payload
            .try_into()
            .map_err(|_| ConnectionError::FrameLength)?;
        if self.is_idle(header.stream) {
            return Err(ConnectionError::WrongStream);
        }
        let code = u32::from_be_bytes(*code);
        let key = self.streams.find(header.stream);
        let stream = key.and_then(|key| Some((key, self.streams.get_mut(key)?)));
        let Some((key, stream)) = stream.filter(|(_, stream)| !stream.is_over()) else {
            // It cancels nothing.
            return self.budget.control();
        };
        // §8.1: behind a whole response it spares the rest of the request, and no work was in vain: gRPC
        // clients reset each call that the server ends first.
        if stream.sent == MessageState::Ended {
            self.budget.control()?;
        } else {
            self.budget.reset()?;
        }
        // §8.7; a server that has begun to answer has processed the request.
        let unprocessed = code == code::REFUSED_STREAM && stream.received == MessageState::Head;
        (stream.received, stream.sent) = (MessageState::Ended, MessageState::Ended);
        stream.is_reset = true;
        let reset = StreamReset {
            code,
            fault: None,
            unprocessed,
        };
        self.events.push_back(Event::Reset { key, reset });
        Ok(())
    }

    /// §6.9.
    pub(super) fn recv_window_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        let by: &[u8; 4] = payload
            .try_into()
            .map_err(|_| ConnectionError::FrameLength)?;
        let by = stream_id(*by);
        self.budget.update()?;
        if header.stream == 0 {
            if by == 0 {
                return Err(ConnectionError::ZeroUpdate);
            }
            let shifted = self.send_window.shift(by.into());
            return shifted.map_err(|_| ConnectionError::WindowOverflow);
        }
        if self.is_idle(header.stream) {
            return Err(ConnectionError::WrongStream);
        }
        // §5.1: it may come for a stream that has ended.
        let Some(key) = self.streams.find(header.stream) else {
            return Ok(());
        };
        let Some(stream) = self.streams.get_mut(key).filter(|stream| !stream.is_reset) else {
            return Ok(());
        };
        if by == 0 {
            return self.fault(key, StreamFault::ZeroUpdate);
        }
        // §5.1: behind our end, what comes for a short time is ignored; the window changes no more.
        if stream.sent == MessageState::Ended {
            return Ok(());
        }
        if stream.send_window.shift(by.into()).is_err() {
            return self.fault(key, StreamFault::WindowOverflow);
        }
        if stream.wants_window && stream.send_window.left() > 0 {
            stream.wants_window = false;
            self.events.push_back(Event::WindowOpened { key });
        }
        Ok(())
    }

    /// §6.3: it has no meaning but for its errors.
    pub(super) fn recv_priority(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        self.budget.control()?;
        if header.stream == 0 {
            return Err(ConnectionError::WrongStream);
        }
        let fault = match <&[u8; 5]>::try_from(payload) {
            Err(_) => StreamFault::PriorityLength,
            Ok(priority) if header.depends_on_itself(priority) => StreamFault::SelfDependency,
            Ok(_) => return Ok(()),
        };
        match (self.streams.find(header.stream), fault) {
            (Some(key), _) => self.fault(key, fault),
            // §5.4.1: a stream that cannot be reset.
            (None, StreamFault::PriorityLength) => Err(ConnectionError::FrameLength),
            (None, _) => Err(ConnectionError::Priority),
        }
    }

    /// RFC 9218 §7.1.
    pub(super) fn recv_priority_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        of_the_connection(header)?;
        self.budget.control()?;
        let Some(id) = payload.first_chunk() else {
            return Err(ConnectionError::FrameLength);
        };
        let id = stream_id(*id);
        if self.role == Role::Client || id.is_multiple_of(2) {
            return Err(ConnectionError::WrongStream);
        }
        let is_open = id > self.last_id || self.streams.find(id).is_some();
        if let Some((stream, priority)) = priority::priority_update(payload).filter(|_| is_open) {
            self.events.push_back(Event::Priority { stream, priority });
        }
        Ok(())
    }
}

/// Checks that a frame is on stream 0.
fn of_the_connection(header: FrameHeader) -> Result<(), ConnectionError> {
    if header.stream == 0 {
        Ok(())
    } else {
        Err(ConnectionError::WrongStream)
    }
}
