//! Ctrl-C and TERM while a run goes on: the first ends it early, a second one the program.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use lockgate_load::Stop;
use lockgate_net::threads;
use tokio::signal::unix::{SignalKind, signal};

/// The exit code of a program that a signal ended, less the number of the signal (shells'
/// convention).
const BY_SIGNAL: u8 = 128;

/// The signals' handler, for as long as the program runs.
pub(super) struct Interrupts {
    /// The exit code by the first signal; 0 before it.
    code: Arc<AtomicU8>,
}

impl Interrupts {
    /// Lets signals end the run from now on.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn ending(stop: &Arc<Stop>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let (mut interrupt, mut terminate) = {
            let _within = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            )
        };
        let code = Arc::new(AtomicU8::new(0));
        let (stop, first) = (Arc::clone(stop), Arc::clone(&code));
        let listen = async move {
            loop {
                let kind = tokio::select! {
                    _ = interrupt.recv() => SignalKind::interrupt(),
                    _ = terminate.recv() => SignalKind::terminate(),
                };
                let code = BY_SIGNAL + kind.as_raw_value() as u8;
                if first.swap(code, Ordering::Relaxed) > 0 {
                    std::process::exit(code.into());
                }
                stop.now();
            }
        };
        threads::start("signals", move || runtime.block_on(listen))?;
        Ok(Self { code })
    }

    /// The exit code where a signal has ended the run.
    pub(super) fn exit_code(&self) -> ExitCode {
        self.code.load(Ordering::Relaxed).into()
    }
}
