//! Folders that routes serve, as they run, and the threads for them.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lockgate_config as config;
use lockgate_config::Code;
use lockgate_net::thread_pool::ThreadPool;
use lockgate_proxy::files::{Files, Symlinks};
use lockgate_proxy::rules::RouteRules;
use lockgate_proxy::transform::Rewrite;
use lockgate_rules::{Caching, Compression};

use super::MistakeLog;
use super::shared_states::SettingUser;

/// Threads of each kind: enough for a disk to have a queue of its own, few enough to leave the
/// workers their CPU.
const DISK_THREADS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The folders that routes serve.
pub(super) struct AssembledFiles<'a> {
    previous: &'a ReusableFiles,
    made: ReusableFiles,
}

/// The settings of served folders, and their threads, which the next assembly may take over.
#[derive(Default)]
pub(super) struct ReusableFiles {
    threads: Option<FileThreads>,
    by_route: HashMap<SettingUser, ServedFolder>,
}

/// Threads for work on files that would hold up a worker.
#[derive(Clone)]
struct FileThreads {
    /// They wait for the disk.
    disk: Arc<ThreadPool>,
    /// It lists folders.
    lister: Arc<ThreadPool>,
    /// They compress responses.
    compressors: Arc<ThreadPool>,
}

/// One route's folder, with all settings that decide what a worker caches of its files.
struct ServedFolder {
    written: Arc<config::StaticFiles>,
    cache: Option<Box<Caching>>,
    compress: Option<Compression>,
    rewrite: Option<Arc<Rewrite>>,
    files: Arc<Files>,
}

impl ServedFolder {
    fn is(&self, written: &config::StaticFiles, rules: &RouteRules) -> bool {
        let rewrite = |rewrite: &Option<Arc<Rewrite>>| rewrite.as_ref().map(Arc::as_ptr);
        *self.written == *written
            && self.cache == rules.cache
            && self.compress == rules.compress
            && rewrite(&self.rewrite) == rewrite(&rules.rewrite)
    }
}

impl<'a> AssembledFiles<'a> {
    /// Folders that may be those of `previous`.
    pub(super) fn after(previous: &'a ReusableFiles) -> Self {
        let made = ReusableFiles {
            threads: previous.threads.clone(),
            by_route: HashMap::new(),
        };
        Self { previous, made }
    }

    /// The settings of a route that serves files by `rules`: those that run, if they are the same.
    pub(super) fn files(
        &mut self,
        route: SettingUser,
        written: &Arc<config::StaticFiles>,
        rules: &RouteRules,
    ) -> Arc<Files> {
        let known = [&self.made.by_route, &self.previous.by_route];
        let known = known.into_iter().find_map(|routes| {
            let folder = routes.get(&route)?;
            folder.is(written, rules).then(|| Arc::clone(&folder.files))
        });
        let files = known.unwrap_or_else(|| Arc::new(self.make(written)));
        let folder = ServedFolder {
            written: Arc::clone(written),
            cache: rules.cache.clone(),
            compress: rules.compress.clone(),
            rewrite: rules.rewrite.clone(),
            files: Arc::clone(&files),
        };
        self.made.by_route.insert(route, folder);
        files
    }

    pub(super) fn into_reusable(self) -> ReusableFiles {
        self.made
    }

    fn make(&mut self, files: &config::StaticFiles) -> Files {
        let threads = self.made.threads.get_or_insert_with(|| FileThreads {
            disk: ThreadPool::new("disk", DISK_THREADS),
            lister: ThreadPool::new("listings", NonZeroUsize::MIN),
            compressors: ThreadPool::new("compress", DISK_THREADS),
        });
        let threads = threads.clone();
        Files {
            id: Files::next_id(),
            root: files.root.clone(),
            symlinks: match files.symlinks {
                config::SymlinkRule::Inside => Symlinks::Inside,
                config::SymlinkRule::Follow => Symlinks::Follow,
            },
            index: files.index.clone(),
            clean_urls: files.clean_urls,
            attempts: files.attempts.clone(),
            spa: files.fallback.clone().map(String::into_bytes),
            not_found: files.not_found.clone().map(String::into_bytes),
            listing: files.listing,
            hidden: files.hidden,
            types: files.types.clone(),
            charset: files.charset.clone(),
            precompressed: files.precompressed,
            threads: threads.disk,
            lister: threads.lister,
            compressors: threads.compressors,
        }
    }
}

/// Whether a folder can be served; a missing one may be made later, which is a warning.
pub(super) fn folder(mistakes: &mut MistakeLog<'_>, files: &config::StaticFiles) -> bool {
    match std::fs::metadata(&files.root) {
        Ok(metadata) if metadata.is_dir() => true,
        Ok(_) => {
            let cure = "name the folder; for one file write try = [\"/name\"] beside it";
            mistakes.error(Code::RootUnusable, &files.at, "this is no folder", cure);
            false
        }
        Err(error) => {
            let cure = "make the folder, or correct the path";
            let message = "this folder cannot be served now";
            mistakes.warn(
                Code::RootMissing,
                &files.at,
                message,
                &error.to_string(),
                cure,
            );
            true
        }
    }
}
