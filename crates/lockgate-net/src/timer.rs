//! An alarm with a precision of microseconds (timerfd_create(2)). A worker's reactor has no timers:
//! each wait would have to ask when the next one is due.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::reactor::{Interest, Registration};

/// One alarm, set or not.
#[derive(Debug)]
pub struct Timer(Registration);

impl Timer {
    /// An unset alarm.
    ///
    /// # Errors
    /// When there is no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let fd = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        Ok(Self(Registration::new(fd, Interest::Read)?))
    }

    /// Sets the alarm to go off once, after this time; at once for zero. Replaces an earlier
    /// setting.
    ///
    /// # Errors
    /// When the kernel refuses the time.
    pub fn set(&self, after: Duration) -> io::Result<()> {
        // Zero would unset it.
        let after = timespec(after.max(Duration::from_nanos(1)));
        let times = Itimerspec {
            it_value: after,
            it_interval: timespec(Duration::ZERO),
        };
        Ok(timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &times).map(|_| ())?)
    }

    /// Completes when the alarm has gone off since the last completion.
    ///
    /// # Errors
    /// When tokio's runtime is shutting down.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_readable(cx))?;
        // Events are edge-triggered, and an alarm that goes off is an edge: its count needs no
        // reading.
        self.0.clear_readable();
        Poll::Ready(Ok(()))
    }
}

fn timespec(duration: Duration) -> Timespec {
    // A century stands for ever.
    let secs = duration.as_secs().min(100 * 366 * 86_400);
    Timespec {
        tv_sec: secs as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Instant;

    use crate::reactor::testing::{noop_context, run};

    #[test]
    fn a_timer_fires_once_and_not_early() {
        run(async {
            let timer = Timer::new().unwrap();
            let set = Instant::now();
            timer.set(Duration::from_millis(2)).unwrap();
            poll_fn(|cx| timer.poll(cx)).await.unwrap();
            assert!(set.elapsed() >= Duration::from_millis(2));
            assert!(timer.poll(&mut noop_context()).is_pending());
            timer.set(Duration::ZERO).unwrap();
            poll_fn(|cx| timer.poll(cx)).await.unwrap();
        });
    }
}
