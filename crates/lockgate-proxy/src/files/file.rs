//! One file as a worker serves it: its content, its compressed representations, and its fields.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lockgate_content::change::{ChangePlan, DocumentKind};
use lockgate_content::coding;
use lockgate_http::coding::{Accepted, ContentCoding};
use lockgate_http::date;
use lockgate_http::fields::Fields;
use lockgate_net::files::{DiskWait, Errno, Root};
use lockgate_net::millis::Millis;
use lockgate_net::thread_pool::ThreadPool;
use lockgate_rules::Compression;
use lockgate_rules::compression::{made, named};
use tokio::sync::OnceCell as AsyncOnce;

use super::representation::{self, CopyBudget, FileContent, Representation};
use super::{CODINGS, Files};
use crate::transform::Rewrite;

/// The size up to which copies and compressed representations of a file are kept.
const KEPT: u64 = 1 << 20;

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    /// The file's path below the root.
    pub(crate) at: Vec<u8>,
    /// The path that rules by path go by: what was asked for, or its own where it stands for what
    /// is not there.
    pub(crate) path: Vec<u8>,
    pub(crate) own: Representation,
    /// In the order of [`CODINGS`].
    pub(crate) siblings: [Option<Representation>; CODINGS.len()],
    /// With its charset.
    pub(crate) media_type: Vec<u8>,
    /// The plan of a rewrite that depends on the request.
    pub(crate) plan: Option<Arc<ChangePlan>>,
    /// Whether its content is no longer what is on the disk.
    pub(crate) changed: bool,
}

impl LoadedFile {
    /// Reads what is at `at`, for `path`.
    pub(crate) fn load(
        files: &Files,
        root: &Root,
        path: &[u8],
        at: &[u8],
        wait: DiskWait,
    ) -> Result<Self, Errno> {
        let own = Representation::load(root, at, wait)?;
        let mut siblings = [const { None }; CODINGS.len()];
        if files.precompressed {
            for ((_, extension), sibling) in CODINGS.iter().zip(&mut siblings) {
                *sibling = Representation::sibling(
                    root,
                    &[at, extension.as_bytes()].concat(),
                    &own.stamp,
                    wait,
                )?;
            }
        }
        Ok(Self {
            at: at.to_vec(),
            path: path.to_vec(),
            own,
            siblings,
            media_type: files.media_type(path, at),
            plan: None,
            changed: false,
        })
    }
}

impl LoadedFile {
    /// Rewrites it once, as far as the result is the same for all requests.
    pub(crate) fn change(&mut self, rewrite: &Rewrite, wait: DiskWait) -> Result<(), Errno> {
        // To look through a document takes longer than to send it.
        if wait == DiskWait::No {
            return Err(Errno::AGAIN);
        }
        let bytes = match &self.own.content {
            FileContent::Held(bytes) => bytes.clone(),
            FileContent::Open(_) if self.own.stamp.size > rewrite.max => return Err(Errno::FBIG),
            FileContent::Open(file) => representation::read(file, self.own.stamp.size, wait)?,
        };
        let max = usize::try_from(rewrite.max).unwrap_or(usize::MAX);
        let plan = ChangePlan::new(
            &rewrite.changes,
            DocumentKind::of(&self.media_type),
            &bytes,
            max,
        );
        let plan = plan.map_err(|_| Errno::FBIG)?;
        if !plan.is_changed() {
            return Ok(());
        }
        self.changed = true;
        self.siblings = [const { None }; CODINGS.len()];
        if plan.is_fixed() {
            self.own = self
                .own
                .changed(Bytes::copy_from_slice(plan.text()), &rewrite.tag);
        } else {
            self.plan = Some(Arc::new(plan));
        }
        Ok(())
    }
}

/// A file that is served.
#[derive(Debug)]
pub(crate) struct ServedFile {
    pub(crate) loaded: LoadedFile,
    pub(crate) last_modified: [u8; date::LENGTH],
    /// Seconds since 1970; nothing where rules have a part in what it is.
    pub(crate) modified: Option<u64>,
    /// Whether it is compressed for clients that accept that.
    pub(crate) compressible: bool,
    /// Forms that were made of it; nothing where that saves nothing.
    made: [AsyncOnce<Option<Representation>>; CODINGS.len()],
    /// Copies of larger representations, where these are copied through us.
    read: [OnceCell<Bytes>; CODINGS.len() + 1],
    /// Until when the kernel is taken to have all of it in memory.
    pub(crate) resident: Cell<Millis>,
}

impl ServedFile {
    pub(crate) fn new(loaded: LoadedFile, compress: Option<&Compression>) -> Rc<Self> {
        // RFC 9110 §8.8.2.1: never later than Date.
        let modified = u64::try_from(loaded.own.stamp.modified)
            .unwrap_or(0)
            .min(now());
        let takes =
            |compress: &Compression| compress.takes(&loaded.media_type, Some(loaded.own.len()));
        Rc::new(Self {
            last_modified: date::imf_fixdate(modified),
            modified: (!loaded.changed).then_some(modified),
            compressible: compress.is_some_and(takes),
            loaded,
            made: Default::default(),
            read: Default::default(),
            resident: Cell::default(),
        })
    }

    fn sibling(&self, coding: ContentCoding) -> Option<&Representation> {
        self.loaded.siblings.get(coding as usize)?.as_ref()
    }

    /// One of its forms: that of a sibling, one that was made, or its own.
    pub(crate) fn form(&self, coding: ContentCoding) -> &Representation {
        let made = || self.made.get(coding as usize)?.get()?.as_ref();
        self.sibling(coding)
            .or_else(made)
            .unwrap_or(&self.loaded.own)
    }

    /// Whether the response depends on Accept-Encoding.
    pub(crate) fn varies(&self) -> bool {
        self.compressible || self.loaded.siblings.iter().any(Option::is_some)
    }

    /// The coding that a client wants most; `compress` is what may be made.
    pub(crate) fn wanted(&self, fields: &Fields, compress: Option<&Compression>) -> ContentCoding {
        let mut offered = [ContentCoding::Identity; 2 * CODINGS.len() + 1];
        // What lies there was compressed at leisure, and costs nothing.
        let there = CODINGS
            .iter()
            .map(|(coding, _)| *coding)
            .filter(|coding| self.sibling(*coding).is_some());
        let made = compress
            .iter()
            .flat_map(|compress| &compress.codings)
            .map(|(coding, _)| named(*coding));
        for (offer, coding) in offered.iter_mut().zip(there.chain(made)) {
            *offer = coding;
        }
        Accepted::of(fields)
            .best(&offered)
            .unwrap_or(ContentCoding::Identity)
    }

    /// Whether there is nothing to be made for this coding.
    pub(crate) fn has(&self, coding: ContentCoding) -> bool {
        coding == ContentCoding::Identity || self.sibling(coding).is_some()
    }

    /// Whether it has this form, or is small enough to make it and keep it.
    pub(crate) fn is_kept(&self, coding: ContentCoding) -> bool {
        self.has(coding) || self.loaded.own.len() <= KEPT
    }

    /// Makes a chosen representation; tells whether there is one, and how many more bytes are held
    /// now.
    pub(crate) async fn make(
        &self,
        coding: ContentCoding,
        compress: &Compression,
        threads: &ThreadPool,
    ) -> Result<(bool, u64), Errno> {
        let (None, Some(made), Some(cell)) = (
            self.sibling(coding),
            made(coding),
            self.made.get(coding as usize),
        ) else {
            return Ok((true, 0));
        };
        if let Some(form) = cell.get() {
            return Ok((form.is_some(), 0));
        }
        // Requests that come meanwhile wait for the same.
        let form = cell
            .get_or_try_init(|| async {
                let own = &self.loaded.own;
                let level = compress.kept_level(made);
                let (content, size) = (own.content.clone(), own.len());
                let job = move || -> Result<Vec<u8>, Errno> {
                    let bytes = match &content {
                        FileContent::Held(bytes) => bytes.clone(),
                        FileContent::Open(file) => representation::read(file, size, DiskWait::Yes)?,
                    };
                    Ok(coding::encode_all(made, level, &bytes))
                };
                let encoded = threads
                    .submit(job)
                    .map_err(|_| Errno::BUSY)?
                    .await
                    .map_err(|_| Errno::BUSY)??;
                if !own.is_unchanged() {
                    return Err(Errno::STALE);
                }
                Ok((encoded.len() < own.len() as usize)
                    .then(|| own.encoded(coding, encoded.into())))
            })
            .await?;
        Ok((form.is_some(), form.as_ref().map_or(0, Representation::len)))
    }

    fn forms(&self) -> impl Iterator<Item = &Representation> {
        std::iter::once(&self.loaded.own).chain(self.loaded.siblings.iter().flatten())
    }

    /// Whether all that it was made of has not been changed since.
    pub(crate) fn is_settled(&self) -> bool {
        self.forms().all(|form| !form.fresh)
    }

    /// Whether nothing at all was done to what it has open: else a part of what is there now could
    /// be taken for one of what was.
    pub(crate) fn is_untouched(&self) -> bool {
        self.forms().all(Representation::is_untouched)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn bytes(&self) -> u64 {
        let made = self.made.iter().filter_map(|made| made.get()?.as_ref());
        let held = self
            .forms()
            .chain(made)
            .filter(|form| matches!(form.content, FileContent::Held(_)));
        let read = self
            .read
            .iter()
            .filter_map(OnceCell::get)
            .map(|bytes| bytes.len() as u64);
        let plan = self.loaded.plan.iter().map(|plan| plan.size() as u64);
        held.map(Representation::len).chain(read).chain(plan).sum()
    }

    /// Descriptors that it holds.
    pub(crate) fn descriptors(&self) -> u64 {
        self.forms()
            .filter(|form| matches!(form.content, FileContent::Open(_)))
            .count() as u64
    }

    /// The bytes of a representation, if these are in memory or can be read without waiting; tells
    /// how many more are held now.
    pub(crate) fn bytes_at_once(
        &self,
        coding: ContentCoding,
        copies: &CopyBudget,
    ) -> (Option<Bytes>, u64) {
        let form = self.form(coding);
        let size = form.len();
        let file = match &form.content {
            FileContent::Held(bytes) => return (Some(bytes.clone()), 0),
            FileContent::Open(_) if size > KEPT => return (None, 0),
            FileContent::Open(file) => file,
        };
        let read = &self.read[coding as usize];
        if let Some(bytes) = read.get() {
            return (Some(bytes.clone()), 0);
        }
        match copies.read(file, size).filter(|_| form.is_unchanged()) {
            Some(bytes) => (Some(read.get_or_init(|| bytes).clone()), size),
            None => (None, 0),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
