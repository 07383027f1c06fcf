//! Windows of flow control (RFC 9113 §6.9), of a stream or a connection, in one direction each.

/// The largest window (§6.9.1).
pub(super) const MAX_WINDOW: u32 = (1 << 31) - 1;
/// The initial window, before any SETTINGS (§6.9.2).
pub(super) const DEFAULT_WINDOW: u32 = 65_535;

/// What may be sent; negative after the peer has lowered the initial window (§6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SendWindow(i32);

/// A window that exceeds [`MAX_WINDOW`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow;

impl SendWindow {
    pub(super) fn new(size: u32) -> Self {
        Self(size.min(MAX_WINDOW) as i32)
    }

    /// The number of bytes that may be sent.
    pub(super) fn left(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Uses up a part of what is left.
    pub(super) fn take(&mut self, bytes: usize) {
        self.0 -= bytes as i32;
    }

    /// Changes the window: by a WINDOW_UPDATE, or by a new initial window.
    pub(super) fn shift(&mut self, by: i64) -> Result<(), Overflow> {
        let shifted = i64::from(self.0).saturating_add(by);
        if shifted > i64::from(MAX_WINDOW) {
            return Err(Overflow);
        }
        // What was sent was allowed then, so it never goes below −(2³¹ − 1).
        self.0 = i32::try_from(shifted).unwrap_or(i32::MIN);
        Ok(())
    }
}

/// What the peer may send. Used data is told to it in bulk: each WINDOW_UPDATE gives back at least
/// half of the window, and of the connection's at least as much as the peer has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    left: i32,
    /// Used bytes that the peer has not been told of.
    untold: u32,
}

impl ReceiveWindow {
    pub(super) fn new(size: u32) -> Self {
        Self {
            left: size.min(MAX_WINDOW) as i32,
            untold: 0,
        }
    }

    /// The bytes that the peer may send now.
    pub(super) fn left(self) -> usize {
        usize::try_from(self.left).unwrap_or(0)
    }

    /// Counts received bytes; `false`: they are more than allowed. An empty frame never is, also where
    /// the window is negative: the end of a message needs none (§6.9.1).
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let is_allowed = bytes <= self.left();
        if is_allowed {
            self.left -= bytes as i32;
        }
        is_allowed
    }

    /// Counts used bytes of a window of `size`; the increment to tell the peer, if it is time.
    pub(super) fn give(&mut self, bytes: u32, size: u32) -> Option<u32> {
        self.untold = self.untold.saturating_add(bytes);
        if self.untold == 0 || self.untold < size / 2 {
            return None;
        }
        let told = std::mem::take(&mut self.untold);
        self.shift(told.into());
        Some(told)
    }

    /// The same for the connection's window. Some streams may hold most of it unused, for as long as they
    /// like: so the others get what they have used before half of the whole is used.
    pub(super) fn give_shared(&mut self, bytes: u32, size: u32) -> Option<u32> {
        let untold = self.untold.saturating_add(bytes);
        let has_run_low = i64::from(untold) >= i64::from(self.left);
        self.give(bytes, if has_run_low { 0 } else { size })
    }

    /// Makes the window larger; the increment to tell the peer, with what it has not been told of.
    pub(super) fn grow(&mut self, by: u32) -> u32 {
        let told = by + std::mem::take(&mut self.untold);
        self.shift(told.into());
        told
    }

    /// Changes the window by that of the initial window.
    pub(super) fn shift(&mut self, by: i64) {
        let shifted = i64::from(self.left).saturating_add(by);
        // What is left, unused and untold is the size of the window together, at most 2³¹ − 1.
        self.left = i32::try_from(shifted).unwrap_or(i32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §6.9.1, §6.9.2.
    #[test]
    fn a_send_window_may_be_negative_and_never_too_large() {
        let mut window = SendWindow::new(100);
        window.take(80);
        assert_eq!(window.shift(-100), Ok(()));
        assert_eq!((window, window.left()), (SendWindow(-80), 0));
        assert_eq!(window.shift(81), Ok(()));
        assert_eq!(window.left(), 1);
        assert_eq!(window.shift(i64::from(MAX_WINDOW)), Err(Overflow));
        assert_eq!(window.shift(i64::from(MAX_WINDOW) - 1), Ok(()));
        assert_eq!(window.left(), MAX_WINDOW as usize);
    }

    #[test]
    fn a_receive_window_is_given_back_in_halves() {
        let mut window = ReceiveWindow::new(10);
        assert!(window.take(10) && !window.take(1));
        assert_eq!(window.give(4, 10), None);
        assert!(!window.take(1), "used, and not told");
        assert_eq!(window.give(1, 10), Some(5));
        assert!(window.take(5) && !window.take(1));
        let mut one = ReceiveWindow::new(1);
        assert!(one.take(1));
        assert_eq!((one.give(0, 1), one.give(1, 1)), (None, Some(1)));
        // §6.9.1: an empty frame needs none.
        one.shift(-10);
        assert!(one.take(0) && !one.take(1));
    }

    /// RFC 9113 §5.2.2: one stream must not stop the others by data that is not used.
    #[test]
    fn a_shared_window_is_given_back_when_little_is_left() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.take(75), "unused by one stream, for ever");
        assert!(window.take(15), "used by another one");
        assert_eq!(window.give(4, 100), None);
        assert_eq!(window.give_shared(5, 100), None);
        assert_eq!(window.give_shared(6, 100), Some(15));
        assert!(window.take(25) && !window.take(1));
        assert_eq!(window.give_shared(0, 100), None);
        assert_eq!(window.give_shared(1, 100), Some(1));
    }

    /// RFC 9113 §6.9.1: the largest window, and one that grows to it.
    #[test]
    fn a_receive_window_grows_with_what_was_not_told() {
        let mut window = ReceiveWindow::new(10);
        assert!(window.take(8));
        assert_eq!(window.give(3, 10), None);
        assert_eq!(window.grow(10), 13);
        assert!(window.take(15) && !window.take(1));
        let mut largest = ReceiveWindow::new(DEFAULT_WINDOW);
        assert_eq!(
            largest.grow(MAX_WINDOW - DEFAULT_WINDOW),
            MAX_WINDOW - DEFAULT_WINDOW
        );
        assert!(largest.take(MAX_WINDOW as usize) && !largest.take(1));
    }
}
