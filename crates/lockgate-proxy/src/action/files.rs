//! Responses from files: in which form, which part, and whether the client has it already (RFC 9110
//! §8, §13, §14).
//!
//! # Layout
//! - `answer`: which form and which part of it is sent.
//! - `delivery`: the body.
//! - `listing`, `listings`: a directory as a page; what the thread that makes them keeps.

mod answer;
mod delivery;
mod listing;
mod listings;

use std::rc::Rc;
use std::sync::Arc;

use lockgate_http::target;
use lockgate_net::files::{DiskWait, Errno, would_wait};
use lockgate_rules::TargetRewrite;

use crate::answer::Fault;
use crate::exchange::{Dispatch, ExchangeFailure, RoutedRequest};
use crate::files::cache::Hit;
use crate::files::file::File;
use crate::files::resolve::{Wanted, absolute};
use crate::files::{Before, Brought, Files};
use crate::message::ClientExchange;

/// What was found for a request.
enum Found {
    File(Rc<Hit>),
    Moved(Vec<u8>),
    Directory(Vec<u8>),
    Missing,
}

impl Files {
    /// Answers a request for a file: GET or HEAD.
    ///
    /// # Errors
    /// When nothing was answered, or the answer has broken off.
    pub async fn run<D: ClientExchange>(
        self: &Arc<Self>,
        exchange: &mut Dispatch<'_, D>,
    ) -> Result<(), ExchangeFailure> {
        let path = self.path(exchange)?;
        match self.find(exchange, &path).await? {
            Found::File(hit) => self.send(exchange, &hit).await,
            Found::Moved(to) => self.redirect(exchange, &to).await,
            Found::Directory(at) => self.list(exchange, &path, at).await,
            Found::Missing => Err(ExchangeFailure::of(Fault::NotFound)),
        }
    }

    /// The path that is looked for, decoded.
    fn path<D>(&self, exchange: &Dispatch<'_, D>) -> Result<Vec<u8>, ExchangeFailure> {
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
        exchange: &Dispatch<'_, D>,
        path: &[u8],
    ) -> Result<Found, ExchangeFailure> {
        let (worker, now) = (exchange.request.worker, exchange.guard.clock().now());
        let page = takes_pages(exchange, path);
        // What is asked for as a page may be found where the same path, asked for as a script, is
        // not.
        let mut key = path.to_vec();
        if page && self.spa.is_some() {
            key.push(0);
        }
        // What is tried may have more of the path than what is left of it without its prefix.
        if !self.attempts.is_empty() {
            key.push(0);
            key.extend_from_slice(exchange.request.values.path);
        }
        let known = worker.files.get(self.place, &key);
        if let Some(hit) = known
            .as_ref()
            .filter(|hit| hit.is_current(now) && hit.file.is_untouched())
        {
            return Ok(Found::File(Rc::clone(hit)));
        }
        let attempts = self.attempts.iter().map(|attempt| {
            let mut target = Vec::new();
            attempt.render(&exchange.request.values, &mut target);
            decoded(&target)
        });
        let wanted = Wanted {
            path: path.to_vec(),
            asked: decoded(exchange.request.values.path)?,
            attempts: attempts.collect::<Result<_, _>>()?,
            page,
        };
        let before = known.as_ref().map(|hit| Before::of(hit));
        let mut brought = self.fetch(exchange, &wanted, before.as_ref()).await?;
        if matches!(brought, Err(Errno::MFILE | Errno::NFILE)) {
            // Those that are held are only held because they may be asked for again.
            worker.files.clear();
            brought = self.fetch(exchange, &wanted, before.as_ref()).await?;
        }
        match (brought.map_err(unreadable)?, known) {
            (Brought::Same, Some(hit)) => {
                hit.confirm(now);
                Ok(Found::File(hit))
            }
            (Brought::File(loaded, status), _) => {
                let rules = exchange.request.rules;
                // The page of what is not there is not to be kept for what may come.
                let caching = rules.cache.as_ref().filter(|_| status == 200);
                let caching = caching
                    .and_then(|cache| cache.of(&loaded.path, &loaded.media_type, Some(&loaded.at)))
                    .map(Box::from);
                // What is asked for by a name with a dot is a page for who takes pages only.
                let stands_in = |page: &Vec<u8>| absolute(&loaded.at) == absolute(page);
                let by_accept =
                    self.spa.as_ref().is_some_and(stands_in) && name_of(path).contains(&b'.');
                let file = File::new(*loaded, rules.compress.as_ref());
                let hit = Hit::new(file, status, caching, by_accept, now);
                worker.files.put(self.place, &key, Rc::clone(&hit));
                Ok(Found::File(hit))
            }
            (other, known) => {
                if known.is_some() {
                    worker.files.forget(self.place, &key);
                }
                Ok(match other {
                    Brought::Moved(to) => Found::Moved(to),
                    Brought::Directory(at) => Found::Directory(at),
                    _ => Found::Missing,
                })
            }
        }
    }

    /// Asks the file system, on a thread if that has to wait.
    async fn fetch<D: ClientExchange>(
        self: &Arc<Self>,
        exchange: &Dispatch<'_, D>,
        wanted: &Wanted,
        before: Option<&Before>,
    ) -> Result<Result<Brought, Errno>, ExchangeFailure> {
        let rewrite = exchange.request.rules.rewrite.as_ref();
        let brought = self.bring(wanted, before, rewrite, DiskWait::No);
        if !brought.as_ref().is_err_and(|error| would_wait(*error)) {
            return Ok(brought);
        }
        let (files, wanted, before) = (Arc::clone(self), wanted.clone(), before.cloned());
        let rewrite = rewrite.cloned();
        let job = move || files.bring(&wanted, before.as_ref(), rewrite.as_ref(), DiskWait::Yes);
        let brought = self.threads.submit(job).map_err(|_| busy())?;
        let brought = exchange.guard.within(brought).await;
        brought
            .map_err(|cut| ExchangeFailure::cut(cut, Fault::ResponseTimeout))?
            .map_err(|_| busy())
    }
}

fn decoded(target: &[u8]) -> Result<Vec<u8>, ExchangeFailure> {
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    let malformed =
        |error: target::TargetError| ExchangeFailure::because(Fault::Malformed, error.to_string());
    target::decode(&target[..end])
        .map(|path| path.into_owned())
        .map_err(malformed)
}

/// Whether a request may be for a page that an application makes: scripts and images that are not
/// there are missed by their names, and a page in place of them would be an error that is harder to
/// find.
fn takes_pages<D>(exchange: &Dispatch<'_, D>, path: &[u8]) -> bool {
    let name = name_of(path);
    let mut accepts = exchange.request.received().fields.named(b"accept");
    !name.contains(&b'.')
        || accepts.any(|accept| memchr::memmem::find(accept, b"text/html").is_some())
}

/// What stands behind the last slash.
fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn busy() -> ExchangeFailure {
    ExchangeFailure::because(Fault::Exhausted, "too many reads wait for the disk")
}

fn unreadable(error: Errno) -> ExchangeFailure {
    let fault = match error {
        Errno::ACCESS | Errno::PERM => Fault::Forbidden,
        // It is written to all the time.
        Errno::BUSY => Fault::Exhausted,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => Fault::Exhausted,
        Errno::FBIG => {
            return ExchangeFailure::because(
                Fault::FileUnreadable,
                "the file is too long once it is rewritten",
            );
        }
        _ => Fault::FileUnreadable,
    };
    ExchangeFailure::because(fault, error.to_string())
}
