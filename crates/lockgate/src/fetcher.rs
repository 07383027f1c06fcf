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
use tokio::task::{LocalSet, spawn_blocking};
use tokio::time::{Instant, sleep_until, timeout};

use crate::background::Background;
use crate::prober::check::connect;

/// How long the first values are waited for: an origin that is down must not hold up the start.
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

/// The values to look for; [`Fetcher::start`] begins with it.
#[derive(Default)]
pub(crate) struct Fetcher {
    kept: Vec<Kept>,
}

/// One value.
struct Kept {
    name: String,
    source: Source,
    every: Duration,
    value: FetchedValue,
}

/// Where a value comes from.
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

/// Values that are looked for. Dropping it ends that; the last ones stay.
pub(crate) struct Fetching {
    _thread: Background,
    values: u32,
    /// One permit for each value that was looked for once, well or badly.
    tried: Arc<Semaphore>,
}

impl Fetcher {
    /// Looks for the value of this name every so often, plus or minus a tenth; until it was had
    /// once it is `default`.
    pub(crate) fn keep(&mut self, name: &str, source: Source, every: Duration, default: &str) {
        let value = Arc::new(ArcSwap::from_pointee(default.as_bytes().into()));
        self.kept.push(Kept {
            name: name.to_owned(),
            source,
            every,
            value,
        });
    }

    /// The value of this name, now and later.
    pub(crate) fn fetched(&self, name: &str) -> Option<FetchedValue> {
        self.kept
            .iter()
            .find(|kept| kept.name == name)
            .map(|kept| Arc::clone(&kept.value))
    }

    /// Starts the thread that looks, for each of them at once; `None` when there is nothing to look
    /// for.
    ///
    /// # Errors
    /// When there can be no thread or no runtime.
    pub(crate) fn start(self) -> io::Result<Option<Fetching>> {
        if self.kept.is_empty() {
            return Ok(None);
        }
        let values = u32::try_from(self.kept.len()).unwrap_or(u32::MAX);
        let tried = Arc::new(Semaphore::new(0));
        let first = Arc::clone(&tried);
        let thread = Background::start("fetcher", move |tasks: &LocalSet| {
            for kept in self.kept {
                tasks.spawn_local(kept.keep_fresh(Arc::clone(&first)));
            }
        })?;
        Ok(Some(Fetching {
            _thread: thread,
            values,
            tried,
        }))
    }
}

impl Fetching {
    /// Waits until every value was looked for once, but no longer than `patience`.
    pub(crate) async fn first_tries(&self, patience: Duration) {
        if timeout(patience, self.tried.acquire_many(self.values))
            .await
            .is_err()
        {
            tracing::warn!("starting although some values could not be fetched yet");
        }
    }
}

impl Kept {
    async fn keep_fresh(self, tried: Arc<Semaphore>) {
        let random = Random::new();
        let mut tried = Some(tried);
        let mut failing = false;
        loop {
            let began = Instant::now();
            let found = self.source.fetch().await;
            let failed = found.is_err();
            match found {
                Ok(text) => {
                    if ***self.value.load() != *text {
                        self.value.store(Arc::new(text.into()));
                    }
                    if failing {
                        tracing::info!(value = self.name, "the value can be fetched again");
                    }
                }
                Err(why) if !failing => {
                    tracing::warn!(value = self.name, %why, "the value cannot be fetched: the last one stays in use");
                }
                Err(_) => {}
            }
            failing = failed;
            if let Some(tried) = tried.take() {
                tried.add_permits(1);
            }
            // One that took longer than that is followed by the next at once.
            sleep_until(began + random.about(self.every)).await;
        }
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
