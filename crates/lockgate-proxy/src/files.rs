//! Files below a root: what a path leads to, and what a worker keeps of it.
//!
//! # Layout
//! - `resolve`: from a path to a file, a redirect, a directory or nothing.
//! - `representation`, `file`: what is read of a file and held.
//! - `cache`: what a worker keeps of it.

pub(crate) mod cache;
pub(crate) mod file;
pub(crate) mod representation;
pub(crate) mod resolve;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockgate_http::coding::ContentCoding;
use lockgate_http::media_type;
use lockgate_net::files::{DiskWait, Errno, FileVersion, Root};
use lockgate_net::thread_pool::ThreadPool;

pub use cache::{DESCRIPTORS, FileCache};
pub use lockgate_net::files::Symlinks;
use lockgate_rules::{FileTypes, Template};

use crate::transform::Rewrite;

use cache::CachedFile;
use file::LoadedFile;
use resolve::{FileQuery, ResolvedPath, absolute, is_absence};

/// The codings of siblings, and what is behind their names; what is wanted alike goes in this
/// order.
pub(crate) const CODINGS: [(ContentCoding, &str); 3] = [
    (ContentCoding::Zstd, ".zst"),
    (ContentCoding::Br, ".br"),
    (ContentCoding::Gzip, ".gz"),
];

/// The settings of a route that serves files.
#[derive(Debug)]
pub struct Files {
    /// Their identity in the caches of the workers; see [`Files::next_id`].
    pub id: usize,
    /// The directory.
    pub root: PathBuf,
    /// The rule for symbolic links.
    pub symlinks: Symlinks,
    /// The names of index files: the first that exists is served for a directory.
    pub index: Vec<String>,
    /// Whether pages are found without their `.html`, and only so.
    pub clean_urls: bool,
    /// The paths that are tried instead of the request's.
    pub attempts: Vec<Template>,
    /// The page that stands for every path that an application has made up.
    pub spa: Option<Vec<u8>>,
    /// The page that is sent with 404.
    pub not_found: Option<Vec<u8>>,
    /// Whether directories are listed.
    pub listing: bool,
    /// Whether names that begin with a dot are served.
    pub hidden: bool,
    /// Media types that go over those that are known.
    pub types: FileTypes,
    /// The charset of text.
    pub charset: Option<String>,
    /// Whether siblings with `.zst`, `.br` and `.gz` are sent to clients that accept them.
    pub precompressed: bool,
    /// The threads for blocking reads.
    pub threads: Arc<ThreadPool>,
    /// The one thread that lists directories: no file waits for it.
    pub lister: Arc<ThreadPool>,
    /// The threads that compress: only compressed files wait for them.
    pub compressors: Arc<ThreadPool>,
}

/// The result of a look into the file system.
pub(crate) enum LoadResult {
    /// The file is unchanged.
    Same,
    File(Box<LoadedFile>, u16),
    Moved(Vec<u8>),
    Directory(Vec<u8>),
    Missing,
}

/// The identity of the next settings.
static NEXT_ID: AtomicUsize = AtomicUsize::new(0);

impl Files {
    /// An identity that no settings of this process have had: those of an earlier configuration may
    /// still be served, and what a worker has cached for them must not be taken for others.
    pub fn next_id() -> usize {
        NEXT_ID.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks the file system, and reads what is found there unless it is what was `before`.
    pub(crate) fn load(
        &self,
        wanted: &FileQuery,
        before: Option<&CachedState>,
        rewrite: Option<&Arc<Rewrite>>,
        wait: DiskWait,
    ) -> Result<LoadResult, Errno> {
        let root = match Root::open(&self.root, self.symlinks, wait) {
            // One that is not there yet has nothing in it.
            Err(error) if is_absence(error) => return Ok(LoadResult::Missing),
            opened => opened?,
        };
        Ok(match self.resolve(&root, wanted)? {
            ResolvedPath::File {
                at,
                stamp,
                status,
                instead,
            } => {
                if before.is_some_and(|before| before.is(self, &root, &at, stamp, status)) {
                    return Ok(LoadResult::Same);
                }
                let own = absolute(&at);
                let stands_for_it = instead || !wanted.attempts.is_empty();
                let path = if stands_for_it { &own } else { &wanted.asked };
                let mut loaded = LoadedFile::load(self, &root, path, &at, wait)?;
                if let Some(rewrite) = rewrite.filter(|rewrite| rewrite.takes(&loaded.media_type)) {
                    loaded.change(rewrite, wait)?;
                }
                LoadResult::File(Box::new(loaded), status)
            }
            ResolvedPath::Moved(to) => LoadResult::Moved(to),
            ResolvedPath::Directory(at) => LoadResult::Directory(at),
            ResolvedPath::Missing => LoadResult::Missing,
        })
    }

    /// The media type of the file at `at`, with its charset.
    fn media_type(&self, path: &[u8], at: &[u8]) -> Vec<u8> {
        let mut said = self.types.of(path, at).as_bytes().to_vec();
        if let Some(charset) = &self.charset
            && media_type::wants_charset(&said)
        {
            said.extend_from_slice(b"; charset=");
            said.extend_from_slice(charset.as_bytes());
        }
        said
    }
}

/// The state of a file when it was read.
#[derive(Clone)]
pub(crate) struct CachedState {
    at: Vec<u8>,
    own: FileVersion,
    /// Nothing where they do not matter, as the file was changed.
    siblings: Option<[Option<FileVersion>; CODINGS.len()]>,
    status: u16,
    /// Whether no change since could have gone unnoticed.
    settled: bool,
}

impl CachedState {
    pub(crate) fn of(hit: &CachedFile) -> Self {
        let loaded = &hit.file.loaded;
        Self {
            at: loaded.at.clone(),
            own: loaded.own.stamp,
            siblings: (!loaded.changed).then(|| {
                loaded
                    .siblings
                    .each_ref()
                    .map(|form| form.as_ref().map(|form| form.stamp))
            }),
            status: hit.status,
            settled: hit.file.is_settled(),
        }
    }

    /// Whether what is found now is the same.
    fn is(&self, files: &Files, root: &Root, at: &[u8], stamp: FileVersion, status: u16) -> bool {
        let same = self.settled && self.status == status && self.own == stamp && self.at == at;
        let is = |(extension, before): (&str, &Option<FileVersion>)| {
            let now = root
                .look(&[at, extension.as_bytes()].concat())
                .ok()
                .map(|(_, stamp)| stamp);
            // A sibling that was too old before is still ignored.
            before.is_none() && now.is_none_or(|now| representation::is_stale(&now, &stamp))
                || *before == now
        };
        let Some(siblings) = self.siblings.as_ref().filter(|_| files.precompressed) else {
            return same;
        };
        same && CODINGS
            .iter()
            .map(|(_, extension)| *extension)
            .zip(siblings)
            .all(is)
    }
}
