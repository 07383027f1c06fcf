//! DATA frames (RFC 9113 §6.1): their data is lent as it comes, in any pieces.

use std::ops::Range;

use super::super::frame_header::{FrameHeader, HEADER_LEN};
use super::super::frames::END_STREAM;
use super::super::streams::MessageState;
use super::super::{ConnectionError, Event, Key, StreamFault, code};
use super::Connection;

/// Frames with less data than this and with more padding than data are counted as useless (§10.7).
const SHORT_DATA: usize = 64;

/// A DATA frame that has come in part.
#[derive(Debug)]
pub(super) struct PartialData {
    /// `None`: its data is of no use.
    key: Option<Key>,
    /// Bytes of data and of padding that are to come.
    data: usize,
    padding: usize,
    ended: bool,
    /// Bytes of the frame that no event has told of, beside its data.
    wire: usize,
}

impl<S> Connection<S> {
    /// Checks and counts a DATA frame before its data (§6.1).
    pub(super) fn begin_data(
        &mut self,
        header: FrameHeader,
        padding: Option<u8>,
    ) -> Result<PartialData, ConnectionError> {
        if self.is_idle(header.stream) {
            return Err(ConnectionError::WrongStream);
        }
        // The field that has its length is padding as well.
        let padding_field = usize::from(padding.is_some());
        let padding = usize::from(padding.unwrap_or(0));
        let data = header.length.checked_sub(padding_field + padding);
        let data = data.ok_or(ConnectionError::Padding)?;
        // §6.9.1: padding counts, and so does data of streams that are gone.
        if !self.receive_window.take(header.length) {
            return Err(ConnectionError::FlowControl);
        }
        let ended = header.has(END_STREAM);
        let key = self.accept_data(header, data, ended)?;
        match (key, padding_field + padding) {
            (Some(_), 0) => {}
            (Some(key), padding) => {
                self.give_stream(key, padding as u32);
                self.give(padding as u32);
            }
            (None, _) => self.give(header.length as u32),
        }
        Ok(PartialData {
            key,
            data,
            padding,
            ended,
            wire: HEADER_LEN + padding_field + padding,
        })
    }

    /// The stream that takes the data of a frame; `None` if it is of no use.
    fn accept_data(
        &mut self,
        header: FrameHeader,
        data: usize,
        ended: bool,
    ) -> Result<Option<Key>, ConnectionError> {
        let id = header.stream;
        let Some(key) = self.streams.find(id) else {
            if !self.is_late(id) {
                // §5.1: it has ended, or was reset long ago.
                self.write_reset(id, code::STREAM_CLOSED);
                self.budget.reset()?;
            } else if is_useless(data, header.length) {
                self.budget.control()?;
            } else {
                self.budget.late_data(HEADER_LEN + header.length)?;
            }
            return Ok(None);
        };
        let Some(stream) = self.streams.get_mut(key) else {
            return Ok(None);
        };
        let fault = match stream.received {
            _ if stream.is_reset => {
                self.budget.control()?;
                return Ok(None);
            }
            MessageState::Ended => Some(StreamFault::Closed),
            MessageState::Head => Some(StreamFault::DataBeforeHead),
            MessageState::Body => {
                if !stream.receive_window.take(header.length) {
                    Some(StreamFault::FlowControl)
                } else if stream.due.is_some_and(|due| due < data as u64) {
                    Some(StreamFault::TooMuchData)
                } else {
                    None
                }
            }
        };
        if let Some(fault) = fault {
            self.fault(key, fault)?;
            return Ok(None);
        }
        if let Some(due) = &mut stream.due {
            *due -= data as u64;
        }
        stream.unused += data as u32;
        if data == 0 && !ended {
            self.empty_frames = self.empty_frames.saturating_add(1);
        }
        if !ended && is_useless(data, header.length) {
            self.budget.control()?;
        }
        Ok(Some(key))
    }

    /// Handles a piece of a DATA frame; `come` bytes of it may be there.
    pub(super) fn take_data(
        &mut self,
        mut frame: PartialData,
        come: usize,
        at: &mut usize,
    ) -> Result<bool, ConnectionError> {
        let start = *at;
        let taken = frame.data.min(come);
        frame.data -= taken;
        let ended = frame.ended && frame.data == 0;
        // The end is told once, before the padding.
        frame.ended &= !ended;
        let skipped = if frame.data == 0 {
            frame.padding.min(come - taken)
        } else {
            0
        };
        frame.padding -= skipped;
        *at += taken + skipped;
        if let Some(key) = frame.key
            && (taken > 0 || ended)
        {
            let wire = std::mem::take(&mut frame.wire) + taken;
            self.tell_data(key, start..start + taken, ended, wire)?;
        }
        let is_whole = frame.data == 0 && frame.padding == 0;
        if !is_whole {
            self.data = Some(frame);
        }
        Ok(is_whole || taken + skipped > 0)
    }

    fn tell_data(
        &mut self,
        key: Key,
        at: Range<usize>,
        ended: bool,
        wire: usize,
    ) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(key).filter(|stream| !stream.is_reset) else {
            return Ok(());
        };
        let is_short = ended && stream.due.is_some_and(|due| due > 0);
        if ended {
            stream.received = MessageState::Ended;
        }
        let ended = ended && !is_short;
        self.events.push_back(Event::Data {
            key,
            at,
            ended,
            wire,
        });
        if is_short {
            self.fault(key, StreamFault::TooLittleData)?;
        }
        Ok(())
    }
}

/// Whether a frame of this length carries hardly anything but padding.
fn is_useless(data: usize, length: usize) -> bool {
    data == 0 || data < SHORT_DATA && data < length - data
}
