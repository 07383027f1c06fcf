//! One file as a worker serves it: its content, its compressed forms, and what is said of it.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use bytes::Bytes;
use lockgate_http::coding::{Accepted, Coding};
use lockgate_http::date;
use lockgate_http::fields::Fields;
use lockgate_net::files::{Errno, Root, Wait};

use super::load::{self, Content, Form};
use super::{CODINGS, Files};

/// Of files up to this size what was read is kept, where it must pass through us.
const KEPT: u64 = 1 << 20;

/// What was read of a file, wherever that was.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Its path below the root.
    pub(super) at: Vec<u8>,
    pub(super) own: Form,
    /// In the order of [`CODINGS`].
    pub(super) siblings: [Option<Form>; CODINGS.len()],
    /// With its charset.
    pub(super) media_type: Vec<u8>,
}

impl Loaded {
    /// Reads what is at `at`, for `path`.
    pub(super) fn load(
        files: &Files,
        root: &Root,
        path: &[u8],
        at: &[u8],
        wait: Wait,
    ) -> Result<Self, Errno> {
        let own = Form::load(root, at, wait)?;
        let mut siblings = [const { None }; CODINGS.len()];
        if files.precompressed {
            for ((_, extension), sibling) in CODINGS.iter().zip(&mut siblings) {
                *sibling = Form::sibling(root, &[at, extension.as_bytes()].concat(), &own.stamp, wait)?;
            }
        }
        Ok(Self { at: at.to_vec(), own, siblings, media_type: files.media_type(path, at) })
    }
}

/// A file that is served.
#[derive(Debug)]
pub(super) struct File {
    pub(super) loaded: Loaded,
    pub(super) last_modified: [u8; date::LENGTH],
    /// Seconds since 1970.
    pub(super) modified: u64,
    /// Of larger forms, what was read of them where it had to pass through us.
    read: [OnceCell<Bytes>; CODINGS.len() + 1],
    /// Until when, in milliseconds, the kernel is taken to have all of it in memory.
    pub(super) resident: Cell<u64>,
}

impl File {
    pub(super) fn new(loaded: Loaded) -> Rc<Self> {
        let modified = u64::try_from(loaded.own.stamp.modified).unwrap_or(0);
        Rc::new(Self {
            last_modified: date::imf_fixdate(modified),
            modified,
            loaded,
            read: Default::default(),
            resident: Cell::new(0),
        })
    }

    /// One of its forms: that of a sibling, or its own.
    pub(super) fn form(&self, coding: Coding) -> &Form {
        let sibling = self.loaded.siblings.get(coding as usize).and_then(Option::as_ref);
        sibling.unwrap_or(&self.loaded.own)
    }

    /// Whether it has other forms than its own.
    pub(super) fn has_siblings(&self) -> bool {
        self.loaded.siblings.iter().any(Option::is_some)
    }

    /// The form that a client wants most.
    pub(super) fn wanted(&self, fields: &Fields) -> Coding {
        let accepted = Accepted::of(fields);
        let mut offered = [Coding::Identity; CODINGS.len() + 1];
        let there = CODINGS.iter().zip(&self.loaded.siblings).filter(|(_, sibling)| sibling.is_some());
        for (place, ((coding, _), _)) in offered.iter_mut().zip(there) {
            *place = *coding;
        }
        accepted.best(&offered).unwrap_or(Coding::Identity)
    }

    fn forms(&self) -> impl Iterator<Item = &Form> {
        std::iter::once(&self.loaded.own).chain(self.loaded.siblings.iter().flatten())
    }

    /// Whether all that it was made of has not been changed since.
    pub(super) fn is_settled(&self) -> bool {
        self.forms().all(|form| !form.fresh)
    }

    /// Bytes of memory that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.forms().filter(|form| matches!(form.content, Content::Held(_))).map(Form::len).sum()
    }

    /// Descriptors that it holds.
    pub(super) fn descriptors(&self) -> u64 {
        self.forms().filter(|form| matches!(form.content, Content::Open(_))).count() as u64
    }

    /// The bytes of a form, if these are in memory or can be had without waiting; says how many more are held now.
    pub(super) fn bytes_at_once(&self, coding: Coding) -> (Option<Bytes>, u64) {
        let form = self.form(coding);
        let size = form.len();
        let file = match &form.content {
            Content::Held(bytes) => return (Some(bytes.clone()), 0),
            Content::Open(_) if size > KEPT => return (None, 0),
            Content::Open(file) => file,
        };
        let read = &self.read[coding as usize];
        if let Some(bytes) = read.get() {
            return (Some(bytes.clone()), 0);
        }
        match load::read(file, size, Wait::No) {
            Ok(bytes) if bytes.len() as u64 == size && form.is_unchanged() => {
                (Some(read.get_or_init(|| bytes).clone()), size)
            }
            _ => (None, 0),
        }
    }
}
