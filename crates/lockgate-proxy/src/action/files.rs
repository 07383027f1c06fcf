//! Responses from files: in which form, which part, and whether the client has it already (RFC 9110
//! §8, §13, §14).
//!
//! # Layout
//! - `response`: which form and which part of it is sent.
//! - `delivery`: the body.
//! - `listing`, `listing_cache`: a directory as a page; what the thread that makes them keeps.

mod delivery;
mod listing;
mod listing_cache;
mod response;

use std::rc::Rc;
use std::sync::Arc;

use lockgate_http::target;
use lockgate_http_io::message::ClientExchange;
use lockgate_net::files::{DiskWait, Errno, would_wait};
use lockgate_rules::TargetRewrite;

use crate::error_response::HttpFault;
use crate::exchange::{Exchange, ExchangeFailure, RoutedRequest};
use crate::files::cache::CachedFile;
use crate::files::file::ServedFile;
use crate::files::resolve::{FileQuery, absolute};
use crate::files::{CachedState, Files, LoadResult};

/// The result of looking a path up.
enum FileLookup {
    File(Rc<CachedFile>),
    Moved(Vec<u8>),
    Directory(Vec<u8>),
    Missing,
}

impl Files {
    /// Answers a request for a file: GET or HEAD.
    ///
    /// # Errors
    /// When nothing was sent, or the response has broken off.
    pub async fn run<D: ClientExchange>(
        self: &Arc<Self>,
        exchange: &mut Exchange<'_, D>,
    ) -> Result<(), ExchangeFailure> {
        let path = self.path(exchange)?;
        match self.find(exchange, &path).await? {
            FileLookup::File(hit) => self.send(exchange, &hit).await,
            FileLookup::Moved(to) => self.redirect(exchange, &to).await,
            FileLookup::Directory(at) => self.list(exchange, &path, at).await,
            FileLookup::Missing => Err(ExchangeFailure::of(HttpFault::NotFound)),
        }
    }

    /// The path that is looked for, decoded.
    fn path<D>(&self, exchange: &Exchange<'_, D>) -> Result<Vec<u8>, ExchangeFailure> {
        let RoutedRequest {
            values,
            pattern,
            rules,
            ..
        } = &exchange.request;
        decoded(match rules.target {
            TargetRewrite::StripPrefix if pattern.is_prefix() => match pattern.split(values.path).1
            {
                [] => b"/",
                rest => rest,
            },
            _ => values.path,
        })
    }

    async fn find<D: ClientExchange>(
        self: &Arc<Self>,
        exchange: &Exchange<'_, D>,
        path: &[u8],
    ) -> Result<FileLookup, ExchangeFailure> {
        let (worker, now) = (exchange.request.worker, exchange.guard.clock().now());
        let page = takes_pages(exchange, path);
        // What is asked for as a page may be found where the same path, asked for as a script, is
        // not.
        let mut key = path.to_vec();
        if page && self.spa.is_some() {
            key.push(0);
        }
        // The attempts use the whole path, so it is a part of the key.
        if !self.attempts.is_empty() {
            key.push(0);
            key.extend_from_slice(exchange.request.values.path);
        }
        let known = worker.files.get(self.id, &key);
        if let Some(hit) = known
            .as_ref()
            .filter(|hit| hit.is_current(now) && hit.file.is_untouched())
        {
            return Ok(FileLookup::File(Rc::clone(hit)));
        }
        let attempts = self.attempts.iter().map(|attempt| {
            let mut target = Vec::new();
            attempt.render(exchange.request.values, &mut target);
            decoded(&target)
        });
        let wanted = FileQuery {
            path: path.to_vec(),
            asked: decoded(exchange.request.values.path)?,
            attempts: attempts.collect::<Result<_, _>>()?,
            page,
        };
        let before = known.as_ref().map(|hit| CachedState::of(hit));
        let mut loaded = self.fetch(exchange, &wanted, before.as_ref()).await?;
        if matches!(loaded, Err(Errno::MFILE | Errno::NFILE)) {
            // Those that are held are only held because they may be asked for again.
            worker.files.clear();
            loaded = self.fetch(exchange, &wanted, before.as_ref()).await?;
        }
        match (loaded.map_err(unreadable)?, known) {
            (LoadResult::Same, Some(hit)) => {
                hit.confirm(now);
                Ok(FileLookup::File(hit))
            }
            (LoadResult::File(loaded, status), _) => {
                let rules = exchange.request.rules;
                // An error page must not be cached in place of a file that may be created.
                let caching = rules.cache.as_ref().filter(|_| status == 200);
                let caching = caching
                    .and_then(|cache| cache.of(&loaded.path, &loaded.media_type, Some(&loaded.at)))
                    .map(Box::from);
                // A name with a dot is taken for a page only if the client asks for HTML.
                let stands_in = |page: &Vec<u8>| absolute(&loaded.at) == absolute(page);
                let by_accept =
                    self.spa.as_ref().is_some_and(stands_in) && name_of(path).contains(&b'.');
                let file = ServedFile::new(*loaded, rules.compress.as_ref());
                let hit = CachedFile::new(file, status, caching, by_accept, now);
                worker.files.put(self.id, &key, Rc::clone(&hit));
                Ok(FileLookup::File(hit))
            }
            (other, known) => {
                if known.is_some() {
                    worker.files.forget(self.id, &key);
                }
                Ok(match other {
                    LoadResult::Moved(to) => FileLookup::Moved(to),
                    LoadResult::Directory(at) => FileLookup::Directory(at),
                    _ => FileLookup::Missing,
                })
            }
        }
    }

    /// Asks the file system, on a thread if that has to wait.
    async fn fetch<D: ClientExchange>(
        self: &Arc<Self>,
        exchange: &Exchange<'_, D>,
        wanted: &FileQuery,
        before: Option<&CachedState>,
    ) -> Result<Result<LoadResult, Errno>, ExchangeFailure> {
        let rewrite = exchange.request.rules.rewrite.as_ref();
        let loaded = self.load(wanted, before, rewrite, DiskWait::No);
        if !loaded.as_ref().is_err_and(|error| would_wait(*error)) {
            return Ok(loaded);
        }
        let (files, wanted, before) = (Arc::clone(self), wanted.clone(), before.cloned());
        let rewrite = rewrite.cloned();
        let job = move || files.load(&wanted, before.as_ref(), rewrite.as_ref(), DiskWait::Yes);
        let loaded = self.threads.submit(job).map_err(|_| busy())?;
        let loaded = exchange.guard.within(loaded).await;
        loaded
            .map_err(|cut| ExchangeFailure::cut(cut, HttpFault::ResponseTimeout))?
            .map_err(|_| busy())
    }
}

fn decoded(target: &[u8]) -> Result<Vec<u8>, ExchangeFailure> {
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    let malformed = |error: target::TargetError| {
        ExchangeFailure::because(HttpFault::Malformed, error.to_string())
    };
    target::decode(&target[..end])
        .map(|path| path.into_owned())
        .map_err(malformed)
}

/// Whether a request may be for a page that an application makes: scripts and images that are not
/// there are missed by their names, and a page in place of them would be an error that is harder to
/// find.
fn takes_pages<D>(exchange: &Exchange<'_, D>, path: &[u8]) -> bool {
    let name = name_of(path);
    let mut accepts = exchange.request.received().fields.named(b"accept");
    !name.contains(&b'.')
        || accepts.any(|accept| memchr::memmem::find(accept, b"text/html").is_some())
}

/// The last segment of a path.
fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn busy() -> ExchangeFailure {
    ExchangeFailure::because(HttpFault::Exhausted, "too many reads wait for the disk")
}

fn unreadable(error: Errno) -> ExchangeFailure {
    let fault = match error {
        Errno::ACCESS | Errno::PERM => HttpFault::Forbidden,
        // It is written to all the time.
        Errno::BUSY => HttpFault::Exhausted,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => HttpFault::Exhausted,
        Errno::FBIG => {
            return ExchangeFailure::because(
                HttpFault::FileUnreadable,
                "the file is too long once it is rewritten",
            );
        }
        _ => HttpFault::FileUnreadable,
    };
    ExchangeFailure::because(fault, error.to_string())
}
