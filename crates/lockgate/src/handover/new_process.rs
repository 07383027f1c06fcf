//! The old process of a handover: it starts the new program, or is asked by it, makes its offer, and
//! learns whether the new one serves.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockgate_net::threads;
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::message::{END, GIVEN_UP, GO, HandoverOffer, STOP, Said, TakenSockets};
use super::packets::{MOST_BYTES, MOST_DESCRIPTORS, PacketSocket};
use super::{VARIABLE, VERSION};
use crate::privileges;

/// The time from the word to serve to the answer. A process that is to stop waits for that, too.
const SERVE_LIMIT: Duration = Duration::from_secs(30);
/// The lines of the new program that are kept.
const LINES: usize = 20;
/// The time for the last lines of a program that has ended; its own children may keep the pipe.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The new program, started.
pub(crate) struct NewProcess {
    program: NewProgram,
    socket: PacketSocket,
    limit: Duration,
    until: Instant,
    /// The time within which it must serve once it was told to.
    serve_limit: Duration,
    decisions: Arc<Decisions>,
}

/// What is decided about it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Decision {
    #[default]
    Open,
    /// It is to serve.
    Serve,
    /// It is to end: this process stops, or it did not serve.
    End,
    /// It is to serve, and this process stops: it cannot serve in its place.
    ServeAlone,
}

/// The decision of two threads, the one that hands over and the main one: the first has its way.
#[derive(Default)]
struct Decisions(Mutex<Decision>);

impl Decisions {
    /// Decides, where `before` is what holds; returns whether it was.
    fn turn(&self, before: Decision, after: Decision) -> bool {
        let mut decision = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_so = *decision == before;
        if is_so {
            *decision = after;
        }
        is_so
    }
}

/// What the old process knows of it.
enum NewProgram {
    /// A child.
    Own {
        child: Child,
        /// Readable once it has ended.
        pidfd: OwnedFd,
        output: ProgramOutput,
    },
    /// A process of others, if it can be seen: a container hides its processes from another one.
    OfOthers(Option<VisibleProcess>),
}

struct VisibleProcess {
    pid: u32,
    pidfd: OwnedFd,
}

/// The starter of a new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartedBy {
    /// The old process, for an upgrade: a stop, and a place below the service manager, are those of
    /// both.
    Us,
    /// A person or another service manager, for a takeover.
    Others,
}

/// The way to end a new program while its handover goes on in another thread.
pub(crate) struct ProgramKiller {
    pidfd: Option<OwnedFd>,
    /// A duplicate of this end of the pair, if the process is that of others.
    others: Option<PacketSocket>,
    decisions: Arc<Decisions>,
}

impl ProgramKiller {
    /// Ends the program, since this process stops, unless it was told to serve: it may serve
    /// already. Returns whether it was told so.
    pub(crate) fn kill_unless_told(&self) -> bool {
        if !self.decisions.turn(Decision::Open, Decision::End) {
            return self.decisions.turn(Decision::Serve, Decision::ServeAlone);
        }
        match (&self.others, &self.pidfd) {
            // It ends by itself, and can say why.
            (Some(socket), _) => socket.hang_up(),
            // It may have ended.
            (None, Some(pidfd)) => {
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
            }
            (None, None) => {}
        }
        false
    }

    pub(crate) fn started_by(&self) -> StartedBy {
        match self.others {
            None => StartedBy::Us,
            Some(_) => StartedBy::Others,
        }
    }
}

/// This end of the pair, which is closed once the service manager knows the new process.
pub(crate) struct HandoverSocket(PacketSocket);

impl HandoverSocket {
    /// Closes it, and has the new process stop as after TERM.
    pub(crate) fn stop(self) {
        // A process that has ended needs not know.
        let _ = self.0.send(STOP, &[]);
    }
}

/// The new process serves, or nothing would.
pub(crate) struct HandedOver {
    /// `None` for a process that cannot be seen from here.
    pub(crate) pid: Option<u32>,
    pub(crate) taken: TakenSockets,
    pub(crate) socket: HandoverSocket,
    /// Why it is not known whether it serves, where this process stops and leaves it alone.
    pub(crate) doubt: Option<String>,
}

/// Why the new program does not serve.
#[derive(Debug, Clone)]
pub(crate) struct UpgradeFailure {
    pub(crate) why: String,
    /// Its last lines on standard error.
    pub(crate) output: Vec<String>,
}

/// Why a handover has stopped.
enum Stopped {
    /// The new program has ended.
    Ended,
    TooSlow,
    /// It says that it cannot start.
    Failed(String),
    /// It says what no Lockgate of this version says.
    Foreign,
    System(io::Error),
}

/// The program of this process, as it was started: a link stays the link. To be called early, while
/// the file is in its place.
pub(crate) fn own_program() -> PathBuf {
    let Ok(running) = std::env::current_exe() else {
        return PathBuf::from("lockgate");
    };
    let name = std::env::args_os().next().map(PathBuf::from);
    let is_it = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == running);
    let started = name.and_then(|name| {
        if name.components().count() > 1 {
            return std::path::absolute(name).ok().filter(is_it);
        }
        let folders = std::env::var_os("PATH")?;
        let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(&name));
        paths.find(is_it)
    });
    started.unwrap_or(running)
}

impl NewProcess {
    /// Starts `program` with the arguments of this process. To be called on the main thread, which
    /// has the right to bind ports below 1024.
    ///
    /// # Errors
    /// When the system cannot start it, or has no descriptor left to watch it by.
    pub(crate) fn start(
        program: &Path,
        limit: Duration,
    ) -> Result<(Self, ProgramKiller), UpgradeFailure> {
        let started = Self::try_start(program, limit);
        started.map_err(|error| UpgradeFailure {
            why: format!("cannot start {}: {error}", program.display()),
            output: Vec::new(),
        })
    }

    fn try_start(program: &Path, limit: Duration) -> io::Result<(Self, ProgramKiller)> {
        let (socket, other) = PacketSocket::pair()?;
        let mut command = Command::new(program);
        command
            .args(std::env::args_os().skip(1))
            .env(VARIABLE, VERSION)
            // These name the process that they are for.
            .env_remove("WATCHDOG_PID")
            .env_remove("LISTEN_PID")
            .env_remove("LISTEN_FDS")
            .stdin(Stdio::from(other))
            .stderr(Stdio::piped());
        let mut child = privileges::with_bind_passed_on(|| command.spawn())?;
        // The command holds the other end, too.
        drop(command);
        match watch(&mut child) {
            Ok((pidfd, output, killer)) => {
                let program = NewProgram::Own {
                    child,
                    pidfd,
                    output,
                };
                Ok((Self::of(program, socket, limit, &killer), killer))
            }
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// The process `pid`, which asks to take over, and the end of the socket pair for it.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn that_asks(
        pid: Option<Pid>,
        limit: Duration,
    ) -> io::Result<(Self, OwnedFd, ProgramKiller)> {
        let (socket, other) = PacketSocket::pair()?;
        let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let killer = ProgramKiller {
            pidfd: pidfd.as_ref().map(OwnedFd::try_clone).transpose()?,
            others: Some(socket.duplicate()?),
            decisions: Arc::default(),
        };
        let visible = pid.zip(pidfd).map(|(pid, pidfd)| VisibleProcess {
            pid: pid.as_raw_nonzero().get().unsigned_abs(),
            pidfd,
        });
        let program = NewProgram::OfOthers(visible);
        Ok((Self::of(program, socket, limit, &killer), other, killer))
    }

    fn of(
        program: NewProgram,
        socket: PacketSocket,
        limit: Duration,
        killer: &ProgramKiller,
    ) -> Self {
        Self {
            program,
            socket,
            limit,
            until: Instant::now() + limit,
            serve_limit: SERVE_LIMIT,
            decisions: Arc::clone(&killer.decisions),
        }
    }

    /// Hands everything over, and waits until the new process serves. Takes its time: not for a
    /// thread that others wait for.
    ///
    /// # Errors
    /// When it does not serve; it has ended then.
    pub(crate) fn hand_over(mut self, offer: &HandoverOffer) -> Result<HandedOver, UpgradeFailure> {
        let taken = match self.make_ready(offer) {
            Ok(taken) => taken,
            Err(stopped) => return Err(self.give_up(stopped, false)),
        };
        let doubt = match self.wait_for_serving() {
            Ok(()) => None,
            Err(stopped) if self.is_left_alone(&stopped) => Some(stopped),
            Err(stopped) => return Err(self.give_up(stopped, true)),
        };
        let pid = match &self.program {
            NewProgram::Own { child, .. } => Some(child.id()),
            NewProgram::OfOthers(process) => process.as_ref().map(|process| process.pid),
        };
        let doubt = doubt.map(|stopped| stopped.reason(true, self.limit));
        Ok(HandedOver {
            pid,
            taken,
            socket: HandoverSocket(self.socket),
            doubt,
        })
    }

    /// Makes the offer, and waits until the new process is ready and may be told to serve.
    fn make_ready(&mut self, offer: &HandoverOffer) -> Result<TakenSockets, Stopped> {
        let text = offer.text();
        for part in text.as_bytes().chunks(MOST_BYTES) {
            self.send(part, &[])?;
        }
        // Each of these packets adds nothing to the text.
        for part in offer.descriptors().chunks(MOST_DESCRIPTORS) {
            self.send(b"\n", part)?;
        }
        self.send(END, &[])?;
        let Said::Ready(taken) = self.receive()? else {
            return Err(Stopped::Foreign);
        };
        let mut listeners = taken.listeners.iter();
        if listeners.any(|place| *place >= offer.listeners.len()) {
            return Err(Stopped::Foreign);
        }
        if self.decisions.turn(Decision::Open, Decision::Serve) {
            return Ok(taken);
        }
        // This process stops, and has ended it.
        Err(Stopped::Ended)
    }

    /// Tells the new process to serve, and waits until it does.
    fn wait_for_serving(&mut self) -> Result<(), Stopped> {
        // One that was ready late may accept soon, and must not be killed for the time before.
        self.limit = self.serve_limit;
        self.until = Instant::now() + self.limit;
        self.send(GO, &[])?;
        match self.receive()? {
            Said::Serving => Ok(()),
            _ => Err(Stopped::Foreign),
        }
    }

    /// Whether nothing would serve if this process ended the new one: that is not asked to stop,
    /// since others have started it. If it is not left alone, a stop of this process comes too late
    /// to change that.
    fn is_left_alone(&self, stopped: &Stopped) -> bool {
        let is_of_others = matches!(self.program, NewProgram::OfOthers(_));
        let may_serve = is_of_others && !matches!(stopped, Stopped::Ended);
        !self.decisions.turn(Decision::Serve, Decision::End) && may_serve
    }

    fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Stopped> {
        self.once_possible(PollFlags::OUT, || self.socket.send(bytes, descriptors))
    }

    fn receive(&self) -> Result<Said, Stopped> {
        let packet = self.once_possible(PollFlags::IN, || self.socket.receive())?;
        match Said::read(&packet.ok_or(Stopped::Ended)?.bytes) {
            Some(Said::Failed(why)) => Err(Stopped::Failed(why)),
            Some(said) => Ok(said),
            None => Err(Stopped::Foreign),
        }
    }

    /// Does what must not wait, once it need not. What the new process has said before its end
    /// still counts.
    fn once_possible<T>(
        &self,
        flags: PollFlags,
        attempt: impl Fn() -> io::Result<T>,
    ) -> Result<T, Stopped> {
        let ended = match &self.program {
            NewProgram::Own { pidfd, .. } => Some(pidfd),
            // Where it cannot be seen, its end is that of the pair.
            NewProgram::OfOthers(process) => process.as_ref().map(|process| &process.pidfd),
        };
        let ended = ended.map(|pidfd| pidfd.as_fd());
        let mut has_ended = false;
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if has_ended {
                        return Err(Stopped::Ended);
                    }
                    has_ended = self.socket.wait(flags, ended, self.until)?;
                }
                done => return done.map_err(Stopped::from),
            }
        }
    }

    /// Ends the new process. One of others ends by itself; if it was told to serve, it is killed too
    /// where that is possible.
    fn give_up(self, stopped: Stopped, is_told: bool) -> UpgradeFailure {
        let (status, mut output) = match self.program {
            NewProgram::Own {
                mut child, output, ..
            } => {
                // It may be about to end by itself.
                let grace = match stopped {
                    Stopped::Ended | Stopped::Failed(_) => LAST_LINES,
                    _ => Duration::ZERO,
                };
                let ended = output.wait_for_end(grace);
                let _ = child.kill();
                let status = child.wait().ok();
                if !ended {
                    output.wait_for_end(LAST_LINES);
                }
                (status, output.lines())
            }
            NewProgram::OfOthers(process) => {
                if is_told {
                    // It may serve, and perhaps cannot be killed from here.
                    let _ = self.socket.send(GIVEN_UP, &[]);
                }
                self.socket.hang_up();
                if let Some(process) = process.filter(|_| is_told) {
                    let _ = pidfd_send_signal(&process.pidfd, Signal::KILL);
                }
                (None, Vec::new())
            }
        };
        if let Stopped::Failed(text) = &stopped {
            output.extend(text.lines().map(ToOwned::to_owned));
        }
        let mut why = stopped.reason(is_told, self.limit);
        if let Some(status) = status.filter(|_| matches!(stopped, Stopped::Ended)) {
            why.push_str(&format!(" ({status})"));
        }
        UpgradeFailure { why, output }
    }
}

/// The ways to watch a child and to end it.
fn watch(child: &mut Child) -> io::Result<(OwnedFd, ProgramOutput, ProgramKiller)> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let killer = ProgramKiller {
        pidfd: Some(pidfd.try_clone()?),
        others: None,
        decisions: Arc::default(),
    };
    let stderr = child.stderr.take();
    let output = ProgramOutput::of(stderr.ok_or(io::ErrorKind::BrokenPipe)?)?;
    Ok((pidfd, output, killer))
}

impl Stopped {
    /// The reason for people; `limit` is the time that it had.
    fn reason(&self, is_told: bool, limit: Duration) -> String {
        let seconds = limit.as_secs_f64();
        match self {
            Self::Ended if is_told => "the new program has ended before it served".to_owned(),
            Self::Ended => "the new program has ended before it was ready".to_owned(),
            Self::TooSlow if is_told => {
                format!("the new program did not serve within {seconds} s after it was told to")
            }
            Self::TooSlow => format!("the new program was not ready within {seconds} s"),
            Self::Failed(_) => "the new program cannot start".to_owned(),
            Self::Foreign => "the new program does not know this handover".to_owned(),
            Self::System(error) => format!("the handover failed: {error}"),
        }
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Self::TooSlow,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Ended,
            _ => Self::System(error),
        }
    }
}

impl fmt::Display for UpgradeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The standard error of the new program until it has that of this process.
struct ProgramOutput {
    last: Arc<Mutex<VecDeque<String>>>,
    end: Receiver<()>,
}

impl ProgramOutput {
    fn of(stderr: ChildStderr) -> io::Result<Self> {
        let last = Arc::new(Mutex::new(VecDeque::new()));
        let (tell, end) = channel();
        let kept = Arc::clone(&last);
        threads::start("upgrade-output", move || {
            let mut lines = BufReader::new(stderr.take(MOST_OUTPUT));
            let mut line = Vec::new();
            while lines
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == LINES {
                    kept.pop_front();
                }
                kept.push_back(text);
                line.clear();
            }
            let _ = tell.send(());
        })?;
        Ok(Self { last, end })
    }

    /// Waits for its last line; returns whether it has come.
    fn wait_for_end(&self, patience: Duration) -> bool {
        self.end.recv_timeout(patience).is_ok()
    }

    fn lines(&self) -> Vec<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().cloned().collect()
    }
}

/// The most bytes that are read of it: a program that is no Lockgate may write for ever.
const MOST_OUTPUT: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::fs::File;

    fn offer() -> HandoverOffer {
        HandoverOffer {
            listeners: Vec::new(),
            metrics: None,
            admin: None,
            tickets: Vec::new(),
            changes: Value::Null,
            stderr: File::open("/dev/null").unwrap().into(),
        }
    }

    /// A process of others that is ready; and its end of the pair.
    fn that_is_ready() -> (NewProcess, PacketSocket, ProgramKiller) {
        let (new, other, killer) = NewProcess::that_asks(None, Duration::from_secs(60)).unwrap();
        let other = PacketSocket::of(other);
        let ready = Said::Ready(TakenSockets::default());
        other.send(ready.text().as_bytes(), &[]).unwrap();
        (new, other, killer)
    }

    /// What it is told after the offer.
    fn words(other: &PacketSocket) -> Vec<Vec<u8>> {
        let mut packets = std::iter::from_fn(|| other.receive().unwrap());
        packets.find(|packet| packet.bytes == END).unwrap();
        packets.map(|packet| packet.bytes).collect()
    }

    #[test]
    fn a_process_of_others_is_told_that_it_is_given_up() {
        for (said, why) in [
            (None, "did not serve within 0 s"),
            (Some("garbage"), "does not know this handover"),
        ] {
            let (mut new, other, _killer) = that_is_ready();
            new.serve_limit = Duration::ZERO;
            if let Some(said) = said {
                other.send(said.as_bytes(), &[]).unwrap();
            }
            let failure = new.hand_over(&offer()).err().unwrap();
            assert!(failure.why.contains(why), "{failure}");
            assert_eq!(words(&other), [GO, GIVEN_UP]);
        }
    }

    #[test]
    fn a_process_that_stops_leaves_one_of_others_alone() {
        let (new, other, killer) = that_is_ready();
        let handed = std::thread::scope(|scope| {
            let handed = scope.spawn(|| new.hand_over(&offer()));
            while other.receive().unwrap().unwrap().bytes != GO {}
            assert!(killer.kill_unless_told());
            other.send(b"garbage", &[]).unwrap();
            handed.join().unwrap()
        });
        let handed = handed.ok().unwrap();
        assert_eq!(handed.taken, TakenSockets::default());
        assert!(handed.doubt.unwrap().contains("does not know"));
    }

    #[test]
    fn a_stop_before_the_word_to_serve_ends_the_process_of_others() {
        let (new, other, killer) = that_is_ready();
        assert!(!killer.kill_unless_told());
        let failure = new.hand_over(&offer()).err().unwrap();
        assert!(
            failure.why.contains("ended before it was ready"),
            "{failure}"
        );
        assert!(other.receive().unwrap().is_none());
    }
}
