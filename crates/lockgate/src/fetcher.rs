//! Values that pages show, from files and URLs: one thread for the process, which looks for each of
//! them again and again.
//!
//! Resolves no names: it uses what the resolver has published. A worker never waits for it; it
//! reads what was had last.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use lockgate_client::{ClientError, ClientRequest, ExchangeLimits, HttpConnection};
use lockgate_proxy::transform::rewrite::FetchedValue;
use lockgate_upstream::{EndpointAddress, Random};
use rustix::fs::OFlags;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

use crate::background::{Background, OwnedTask};
use crate::prober::check::connect;

/// How long the first values are waited for: an origin that is down must not hold up a start or a
/// reload.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// The longest value, in bytes: it may go into every answer.
const LONGEST: usize = 64 * 1024;
/// Limits of one response: of a value that is too long, one byte too many is read.
const LIMITS: ExchangeLimits = ExchangeLimits {
    time: Duration::from_secs(5),
    head_bytes: 512 * 1024,
    body_bytes: LONGEST + 1,
};

/// The value of `User-Agent`.
const AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"));

/// The values that a configuration has, to be fetched by [`Fetching`].
#[derive(Default)]
pub(crate) struct Fetcher {
    kept: Vec<KeptValue>,
    /// The values that are fetched already, whether this configuration has them or not.
    running: Vec<KeptValue>,
}

#[derive(Clone)]
struct KeptValue {
    kept: Arc<Kept>,
    /// The task that fetches it, once there is one.
    task: Option<Arc<OwnedTask>>,
}

/// One value.
struct Kept {
    name: String,
    source: Source,
    every: Duration,
    default: String,
    value: FetchedValue,
}

/// Where a value comes from.
#[derive(PartialEq)]
pub(crate) enum Source {
    /// A file.
    File(PathBuf),
    /// A URL of plain HTTP.
    Url(Url),
}

/// The origin of a value, and the path to ask for.
pub(crate) struct Url {
    /// Where it is.
    pub(crate) address: EndpointAddress,
    /// What Host says.
    pub(crate) host: String,
    /// Path and query.
    pub(crate) path: String,
}

/// The same address: of a name, the same cell.
impl PartialEq for Url {
    fn eq(&self, other: &Self) -> bool {
        let is_same_address = match (&self.address, &other.address) {
            (EndpointAddress::Ip(one), EndpointAddress::Ip(other)) => one == other,
            (EndpointAddress::Unix(one), EndpointAddress::Unix(other)) => one == other,
            (EndpointAddress::Name(one), EndpointAddress::Name(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_same_address && (&self.host, &self.path) == (&other.host, &other.path)
    }
}

/// Why there is no new value.
#[derive(Debug, thiserror::Error)]
enum Missing {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Url(#[from] ClientError),
    #[error("status {0}")]
    Status(u16),
    #[error("it is longer than 64 KB")]
    TooLong,
}

/// The tasks that fetch the values of the running configuration. Dropping this ends them; the last
/// values stay.
#[derive(Default)]
pub(crate) struct Fetching {
    thread: Option<Arc<Background>>,
    running: Vec<KeptValue>,
}

/// The values of a configuration that does not run yet, with tasks for those that are new. Dropping
/// this ends these tasks, and nothing else has changed.
pub(crate) struct PreparedValues {
    thread: Option<Arc<Background>>,
    kept: Vec<KeptValue>,
    /// The number of new values.
    new: u32,
    /// One permit for each of them that was looked for once, well or badly.
    tried: Arc<Semaphore>,
}

impl Fetcher {
    /// Values for a configuration that may take the place of the running one: those in common stay
    /// what they are.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the supervisor reloads nothing yet")
    )]
    pub(crate) fn continuing(running: &Fetching) -> Self {
        Self {
            kept: Vec::new(),
            running: running.running.clone(),
        }
    }

    /// Looks for the value of this name every so often, plus or minus a tenth; until it was had
    /// once it is `default`.
    pub(crate) fn keep(&mut self, name: &str, source: Source, every: Duration, default: &str) {
        let is_same = |running: &&KeptValue| {
            let kept = &running.kept;
            let same = (&*kept.name, &kept.source, kept.every, &*kept.default);
            same == (name, &source, every, default)
        };
        if let Some(running) = self.running.iter().find(is_same) {
            return self.kept.push(running.clone());
        }
        let kept = Arc::new(Kept {
            name: name.to_owned(),
            source,
            every,
            default: default.to_owned(),
            value: Arc::new(ArcSwap::from_pointee(default.as_bytes().into())),
        });
        self.kept.push(KeptValue { kept, task: None });
    }

    /// The value of this name, now and later.
    pub(crate) fn fetched(&self, name: &str) -> Option<FetchedValue> {
        let mut values = self.kept.iter().map(|value| &value.kept);
        values
            .find(|kept| kept.name == name)
            .map(|kept| Arc::clone(&kept.value))
    }
}

impl Fetching {
    /// Starts to look for every value that is new, for each at once, in a thread that starts with
    /// the first one. Changes nothing that runs.
    ///
    /// # Errors
    /// When there can be no thread or no runtime.
    pub(crate) fn prepare(&self, fetcher: Fetcher) -> io::Result<PreparedValues> {
        let mut kept = fetcher.kept;
        let thread = Background::continued(self.thread.as_ref(), kept.len(), "fetcher")?;
        let tried = Arc::new(Semaphore::new(0));
        let mut new = 0;
        for one in kept.iter_mut().filter(|one| one.task.is_none()) {
            let Some(thread) = &thread else { break };
            let (kept, tried) = (Arc::clone(&one.kept), Arc::clone(&tried));
            let task = thread.spawn(move || keep_fresh(kept, tried));
            one.task = Some(Arc::new(task));
            new += 1;
        }
        Ok(PreparedValues {
            thread,
            kept,
            new,
            tried,
        })
    }

    /// Lets the prepared values take the place of the running ones: the tasks of values that are
    /// gone end, and the thread with the last of them.
    pub(crate) fn commit(&mut self, prepared: PreparedValues) {
        let PreparedValues { thread, kept, .. } = prepared;
        (self.thread, self.running) = (thread, kept);
    }
}

impl PreparedValues {
    /// Waits until every new value was looked for once, but no longer than `patience`.
    pub(crate) async fn first_tries(&self, patience: Duration) {
        if timeout(patience, self.tried.acquire_many(self.new))
            .await
            .is_err()
        {
            tracing::warn!("some values could not be fetched yet: their defaults are used");
        }
    }
}

async fn keep_fresh(kept: Arc<Kept>, tried: Arc<Semaphore>) {
    let random = Random::new();
    let mut tried = Some(tried);
    let mut failing = false;
    loop {
        let began = Instant::now();
        let found = kept.source.fetch().await;
        let failed = found.is_err();
        match found {
            Ok(text) => {
                if ***kept.value.load() != *text {
                    kept.value.store(Arc::new(text.into()));
                }
                if failing {
                    tracing::info!(value = kept.name, "the value can be fetched again");
                }
            }
            Err(why) if !failing => {
                tracing::warn!(value = kept.name, %why, "the value cannot be fetched: the last one stays in use");
            }
            Err(_) => {}
        }
        failing = failed;
        if let Some(tried) = tried.take() {
            tried.add_permits(1);
        }
        // One that took longer than that is followed by the next at once.
        sleep_until(began + random.about(kept.every)).await;
    }
}

impl Source {
    /// The value as it is now, without its last line break.
    async fn fetch(&self) -> Result<Vec<u8>, Missing> {
        let mut text = match self {
            Self::File(path) => {
                let path = path.clone();
                // A disk may take its time: the others are not to wait for it.
                spawn_blocking(move || read(&path))
                    .await
                    .map_err(io::Error::other)??
            }
            Self::Url(url) => LIMITS.bound(url.fetch()).await?,
        };
        if text.len() > LONGEST {
            return Err(Missing::TooLong);
        }
        if text.ends_with(b"\n") {
            text.pop();
            if text.ends_with(b"\r") {
                text.pop();
            }
        }
        Ok(text)
    }
}

/// All of a file, or more than is wanted of it.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe without a writer would never open.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = Vec::new();
    file.take(LONGEST as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

impl Url {
    /// The body of the response, or more of it than is wanted.
    async fn fetch(&self) -> Result<Vec<u8>, Missing> {
        let stream = connect(&self.address, None, None, &[], LIMITS).await?;
        let request = ClientRequest {
            method: "GET",
            host: &self.host,
            path: &self.path,
            fields: &[
                ("user-agent", AGENT),
                ("accept", "*/*"),
                ("connection", "close"),
            ],
            body: Bytes::new(),
        };
        let mut connection = HttpConnection::http1(stream).await?;
        let mut response = connection.exchange(&request).await?;
        if response.status != 200 {
            return Err(Missing::Status(response.status));
        }
        Ok(response.read(|_, _| false).await?)
    }
}

#[cfg(test)]
mod tests;
