//! From a path to what is served for it, by asking the file system.
//!
//! The path is decoded and without dot segments; that it stays below the root is the kernel's to
//! see to.

use std::borrow::Cow;

use lockgate_net::files::{Errno, FileKind, FileVersion, Root};

use super::Files;

/// The result of resolving a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResolvedPath {
    /// A file, by its path below the root.
    File {
        at: Vec<u8>,
        stamp: FileVersion,
        status: u16,
        /// Whether it is a page in place of what is not there.
        instead: bool,
    },
    /// The same is found under this path.
    Moved(Vec<u8>),
    /// A directory that may be listed, by its path below the root.
    Directory(Vec<u8>),
    Missing,
}

/// Whether an error means that there is nothing: impossible names, and links that lead outside.
pub(crate) fn is_absence(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::NAMETOOLONG
            | Errno::LOOP
            | Errno::XDEV
            | Errno::INVAL
            | Errno::ILSEQ
            | Errno::NXIO
            | Errno::NODEV
    )
}

/// The kind and the stamp of a path, if it exists.
fn look(root: &Root, at: &[u8]) -> Result<Option<(FileKind, FileVersion)>, Errno> {
    match root.look(at) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absence(error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn file(root: &Root, at: Vec<u8>) -> Result<Option<ResolvedPath>, Errno> {
    Ok(match look(root, &at)? {
        Some((FileKind::File, stamp)) => Some(ResolvedPath::File {
            at,
            stamp,
            status: 200,
            instead: false,
        }),
        _ => None,
    })
}

/// A question: what is asked for.
#[derive(Debug, Clone)]
pub(crate) struct FileQuery {
    /// The decoded path, without what is stripped.
    pub(crate) path: Vec<u8>,
    /// The same as it was asked for, which rules by path go by.
    pub(crate) asked: Vec<u8>,
    /// The paths that are tried in its place, in this order; empty for the path alone.
    pub(crate) attempts: Vec<Vec<u8>>,
    /// Whether the application's page may stand for it.
    pub(crate) page: bool,
}

impl Files {
    /// Resolves a query.
    pub(crate) fn resolve(&self, root: &Root, wanted: &FileQuery) -> Result<ResolvedPath, Errno> {
        let path = [wanted.path.clone()];
        let attempts = if wanted.attempts.is_empty() {
            &path[..]
        } else {
            &wanted.attempts
        };
        for attempt in attempts {
            match self.lead(root, attempt)? {
                ResolvedPath::Missing => {}
                // A path that is tried in its place is no path of a request: there is no redirect
                // to it.
                ResolvedPath::Moved(_) if *attempt != wanted.path => {}
                found => return Ok(found),
            }
        }
        for (instead, status) in [
            (self.spa.as_ref().filter(|_| wanted.page), 200),
            (self.not_found.as_ref(), 404),
        ] {
            if let Some(at) = instead
                && let Some((FileKind::File, stamp)) = look(root, relative(at))?
            {
                return Ok(ResolvedPath::File {
                    at: relative(at).to_vec(),
                    stamp,
                    status,
                    instead: true,
                });
            }
        }
        Ok(ResolvedPath::Missing)
    }

    fn lead(&self, root: &Root, path: &[u8]) -> Result<ResolvedPath, Errno> {
        let at = relative(path);
        if !self.hidden && is_hidden(at) {
            return Ok(ResolvedPath::Missing);
        }
        if self.clean_urls
            && let Some(clean) = self.cleaned(root, path)?
        {
            return Ok(ResolvedPath::Moved(clean));
        }
        let directory = at.is_empty() || at.ends_with(b"/");
        let bare = at.strip_suffix(b"/").unwrap_or(at);
        match look(root, if directory { bare } else { at })? {
            Some((FileKind::Directory, _)) if directory => self.directory(root, at),
            Some((FileKind::File, stamp)) if !directory => Ok(ResolvedPath::File {
                at: at.to_vec(),
                stamp,
                status: 200,
                instead: false,
            }),
            Some((FileKind::Directory, _)) => {
                if let Some(page) = self.page(root, at)? {
                    return Ok(page);
                }
                let at = [at, b"/"].concat();
                // A redirect to nothing would only reveal that the directory exists.
                Ok(match self.directory(root, &at)? {
                    ResolvedPath::Missing => ResolvedPath::Missing,
                    _ => ResolvedPath::Moved(absolute(&at)),
                })
            }
            None if !directory => Ok(self.page(root, at)?.unwrap_or(ResolvedPath::Missing)),
            // Clean URLs have no last slash but those of directories.
            None if self.page(root, bare)?.is_some() => Ok(ResolvedPath::Moved(absolute(bare))),
            _ => Ok(ResolvedPath::Missing),
        }
    }

    /// The page that a path without an extension stands for.
    fn page(&self, root: &Root, at: &[u8]) -> Result<Option<ResolvedPath>, Errno> {
        if !self.clean_urls || at.is_empty() || at.ends_with(b"/") {
            return Ok(None);
        }
        file(root, [at, b".html"].concat())
    }

    /// The clean URL of a page, if the path spells out its extension.
    fn cleaned(&self, root: &Root, path: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let Some(stem) = path.strip_suffix(b".html") else {
            return Ok(None);
        };
        let (folder, name) = match memchr::memrchr(b'/', path) {
            Some(slash) => path.split_at(slash + 1),
            None => (&b"/"[..], path),
        };
        if stem.ends_with(b"/") || file(root, relative(path).to_vec())?.is_none() {
            return Ok(None);
        }
        let is_index = self.index.iter().any(|index| index.as_bytes() == name);
        Ok(Some(absolute(if is_index { folder } else { stem })))
    }

    fn directory(&self, root: &Root, at: &[u8]) -> Result<ResolvedPath, Errno> {
        for index in &self.index {
            if let Some(found) = file(root, [at, index.as_bytes()].concat())? {
                return Ok(found);
            }
        }
        Ok(if self.listing {
            ResolvedPath::Directory(at.to_vec())
        } else {
            ResolvedPath::Missing
        })
    }
}

/// A path as it is looked for below the root.
pub(crate) fn relative(path: &[u8]) -> &[u8] {
    let start = path
        .iter()
        .position(|byte| *byte != b'/')
        .unwrap_or(path.len());
    &path[start..]
}

/// A path as a redirect has it: two slashes at its front would name another host (RFC 3986 §4.2).
pub(crate) fn absolute(path: &[u8]) -> Vec<u8> {
    [b"/", relative(path)].concat()
}

/// Whether a name in it begins with a dot; but for `.well-known` (RFC 8615).
pub(crate) fn is_hidden(path: &[u8]) -> bool {
    memchr::memmem::find(path, b".").is_some()
        && path
            .split(|byte| *byte == b'/')
            .any(|name| name.starts_with(b".") && name != b".well-known")
}

/// A path as a URL has it (RFC 3986 §3.3).
pub(crate) fn escaped(path: &[u8]) -> Cow<'_, [u8]> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(byte);
    if path.iter().all(plain) {
        return Cow::Borrowed(path);
    }
    let mut escaped = Vec::with_capacity(path.len() + 32);
    for byte in path {
        if plain(byte) {
            escaped.push(*byte);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            escaped.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
    Cow::Owned(escaped)
}
