//! Listings of directories: made by one thread for the process, once a second for each directory.
//!
//! Reading a large directory takes tens of milliseconds. What the thread has made it keeps for a
//! second, while the directory is the same, so that requests at once cost one reading; and no file
//! waits behind them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_net::files::{DirectoryEntry, DiskWait, Errno, FileVersion, Root, Symlinks};

use super::listing::{DirectoryListing, ListingOrder, MOST};
use crate::error_response::BodyFormat;
use crate::files::Files;
use crate::files::resolve::is_hidden;

/// The age up to which a listing is served from the cache: sizes and times of files change without
/// the directory.
const KEPT: Duration = Duration::from_secs(1);
/// Bytes that are kept: of names, and of what was made of them.
const BYTES: usize = 16 << 20;
/// The overhead of one name or one page beside its own bytes.
const AROUND: usize = 64;

/// A request for a listing.
#[derive(Debug)]
pub(super) struct ListingRequest {
    /// The directory, by its path below the root.
    pub(super) at: Vec<u8>,
    pub(super) page: ListingView,
}

/// A way to show a directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ListingView {
    /// The path as it was asked for, decoded.
    pub(super) path: Vec<u8>,
    pub(super) order: ListingOrder,
    pub(super) form: BodyFormat,
}

/// Makes a listing, or takes the one that this thread has made. For a thread that makes listings
/// only.
pub(super) fn list(files: &Files, wanted: &ListingRequest) -> Result<Bytes, Errno> {
    thread_local! {
        static MADE: RefCell<ListingCache> = RefCell::default();
    }
    let folder = ListingSource {
        id: files.id,
        root: &files.root,
        symlinks: files.symlinks,
        hidden: files.hidden,
    };
    MADE.with_borrow_mut(|made| made.get(&folder, wanted, Instant::now()))
}

/// The settings of a route that a listing depends on.
#[derive(Debug)]
struct ListingSource<'a> {
    id: usize,
    root: &'a Path,
    symlinks: Symlinks,
    hidden: bool,
}

/// The listings of the last second.
#[derive(Debug, Default)]
struct ListingCache {
    /// By the number of the files and the path below their root.
    directories: HashMap<(usize, Vec<u8>), CachedDirectory>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedDirectory {
    stamp: FileVersion,
    read: Instant,
    entries: Vec<DirectoryEntry>,
    more: usize,
    pages: HashMap<ListingView, Bytes>,
}

impl ListingCache {
    fn get(
        &mut self,
        folder: &ListingSource<'_>,
        wanted: &ListingRequest,
        now: Instant,
    ) -> Result<Bytes, Errno> {
        let root = Root::open(folder.root, folder.symlinks, DiskWait::Yes)?;
        // Looked at before it is read: a change in between is seen by the next.
        let (_, stamp) = root.look(&wanted.at)?;
        let key = (folder.id, wanted.at.clone());
        let is_current = |known: &CachedDirectory| known.stamp == stamp && now < known.read + KEPT;
        if !self.directories.get(&key).is_some_and(is_current) {
            let (entries, more) =
                root.list(&wanted.at, MOST, |name| folder.hidden || !is_hidden(name))?;
            self.forget(now);
            self.make_room(entries.iter().map(|entry| entry.name.len() + AROUND).sum());
            let read = CachedDirectory {
                stamp,
                read: now,
                entries,
                more,
                pages: HashMap::new(),
            };
            self.directories.insert(key.clone(), read);
        }
        let Some(directory) = self.directories.get_mut(&key) else {
            return Err(Errno::NOENT);
        };
        if let Some(page) = directory.pages.get(&wanted.page) {
            return Ok(page.clone());
        }
        let page = directory.show(&wanted.page);
        let bytes = page.len() + wanted.page.path.len() + AROUND;
        if self.bytes + bytes > BYTES {
            self.clear();
        } else {
            self.bytes += bytes;
            directory.pages.insert(wanted.page.clone(), page.clone());
        }
        Ok(page)
    }

    /// Lets go of all that is too old.
    fn forget(&mut self, now: Instant) {
        self.directories
            .retain(|_, directory| now < directory.read + KEPT);
        self.bytes = self.directories.values().map(CachedDirectory::bytes).sum();
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes > BYTES {
            self.clear();
        }
        self.bytes += bytes;
    }

    fn clear(&mut self) {
        self.directories.clear();
        self.bytes = 0;
    }
}

impl CachedDirectory {
    fn show(&mut self, page: &ListingView) -> Bytes {
        page.order.sort(&mut self.entries);
        let listing = DirectoryListing {
            path: &page.path,
            entries: &self.entries,
            more: self.more,
            order: page.order,
        };
        let mut body = Vec::new();
        listing.write(page.form, &mut body);
        Bytes::from(body)
    }

    fn bytes(&self) -> usize {
        let names = self.entries.iter().map(|entry| entry.name.len() + AROUND);
        let pages = self
            .pages
            .iter()
            .map(|(page, body)| page.path.len() + body.len() + AROUND);
        names.chain(pages).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(root: &Path) -> ListingSource<'_> {
        ListingSource {
            id: 0,
            root,
            symlinks: Symlinks::Inside,
            hidden: false,
        }
    }

    fn wanted(query: &[u8]) -> ListingRequest {
        let page = ListingView {
            path: b"/".to_vec(),
            order: ListingOrder::of(query),
            form: BodyFormat::Text,
        };
        ListingRequest {
            at: Vec::new(),
            page,
        }
    }

    #[test]
    fn a_directory_listing_is_cached_for_at_most_a_second() {
        let www = tempfile::tempdir().unwrap();
        fs::write(www.path().join("a"), "1").unwrap();
        fs::write(www.path().join("b"), "22").unwrap();
        let files = folder(www.path());
        let (mut made, start) = (ListingCache::default(), Instant::now());
        let by_size = wanted(b"sort=size");
        assert_eq!(made.get(&files, &by_size, start).unwrap(), "a\nb\n");
        // Nothing of the directory itself has changed.
        fs::write(www.path().join("a"), "333").unwrap();
        let soon = start + KEPT / 2;
        assert_eq!(made.get(&files, &by_size, soon).unwrap(), "a\nb\n");
        assert_eq!(
            made.get(&files, &wanted(b"order=desc"), soon).unwrap(),
            "b\na\n",
            "made of what was read"
        );
        assert_eq!(made.get(&files, &by_size, start + KEPT).unwrap(), "b\na\n");
        fs::write(www.path().join("c"), "").unwrap();
        fs::File::open(www.path())
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        assert_eq!(
            made.get(&files, &by_size, start + KEPT).unwrap(),
            "c\nb\na\n"
        );
        assert_eq!(made.directories.len(), 1);
    }

    #[test]
    fn the_listing_cache_is_bounded_in_bytes() {
        let www = tempfile::tempdir().unwrap();
        for number in 0..100 {
            fs::write(www.path().join(format!("{number:0200}")), "").unwrap();
        }
        let files = folder(www.path());
        let (mut made, now) = (ListingCache::default(), Instant::now());
        for number in 0..2_000 {
            let mut wanted = wanted(b"");
            wanted.page.path = format!("/{number}").into_bytes();
            wanted.page.form = BodyFormat::Html;
            made.get(&files, &wanted, now).unwrap();
            let counted: usize = made.directories.values().map(CachedDirectory::bytes).sum();
            assert_eq!(made.bytes, counted);
            assert!(counted <= BYTES);
        }
        made.forget(now + KEPT);
        assert_eq!((made.directories.len(), made.bytes), (0, 0));
    }
}
