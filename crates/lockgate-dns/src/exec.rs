//! A command that writes the records: `COMMAND present NAME VALUE`, `COMMAND cleanup NAME VALUE`,
//! `COMMAND address NAME ADDRESS…`.
//!
//! It gets no more of our environment than `PATH` and what begins with `LOCKGATE_`.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::error::{DnsError, LONGEST_TEXT, bounded};

/// The time that a command has.
const TIME: Duration = Duration::from_secs(60);
/// The time that a command's output may take after its end: what it has started may hold it open.
const OUTPUT_TIME: Duration = Duration::from_secs(1);

/// A command with its arguments.
#[derive(Debug)]
pub(crate) struct RecordCommand {
    program: String,
    arguments: Vec<String>,
    pub(crate) time: Duration,
}

/// A running command; it ends, with all that it has started, when this is dropped.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl RecordCommand {
    /// A command: its program, then its arguments. `None` without a program.
    pub(crate) fn new(command: &[String]) -> Option<Self> {
        let (program, arguments) = command.split_first()?;
        Some(Self {
            program: program.clone(),
            arguments: arguments.to_vec(),
            time: TIME,
        })
    }

    /// Runs the command for `action`, which is `present`, `cleanup` or `address`.
    ///
    /// # Errors
    /// When it cannot be started, fails or does not end in time.
    pub(crate) async fn run(
        &self,
        action: &str,
        name: &str,
        values: &[String],
    ) -> Result<(), DnsError> {
        let failed = |why: String| DnsError::Command {
            command: format!("{} {action}", self.program),
            why,
        };
        let passed = env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            name == "PATH" || name.starts_with("LOCKGATE_")
        });
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .args([action, name])
            .args(values)
            .env_clear()
            .envs(passed)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let stderr = child.stderr.take();
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let mut running = Running {
            child,
            group: id.and_then(Pid::from_raw),
        };
        let mut output = Vec::new();
        let ended = timeout(self.time, async {
            let reading = read_start(stderr, &mut output);
            tokio::pin!(reading);
            let status = tokio::select! {
                () = &mut reading => return running.child.wait().await,
                status = running.child.wait() => status,
            };
            let _ = timeout(OUTPUT_TIME, reading).await;
            status
        })
        .await;
        let said = bounded(&String::from_utf8_lossy(&output));
        let said = match said.is_empty() {
            true => said,
            false => format!(": {said}"),
        };
        match ended {
            Err(_) => Err(failed(format!(
                "it has not ended after {} s{said}",
                self.time.as_secs()
            ))),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(failed(format!("{status}{said}"))),
        }
    }
}

/// Reads an output to its end, and keeps its start.
async fn read_start(source: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut source) = source else {
        return;
    };
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = source.read(&mut buffer).await {
        let room = LONGEST_TEXT.saturating_sub(kept.len());
        kept.extend(buffer.iter().take(length.min(room)));
    }
}
