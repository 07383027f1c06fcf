//! The sections of configuration files, and the lines in them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::words::haproxy_words;
use crate::{ConversionReport, ImportError, Place, SourceFiles, StatementId, Verdict};

/// A line that is a statement.
#[derive(Debug, Clone)]
pub(super) struct HaproxyLine {
    pub(super) id: StatementId,
    pub(super) place: Place,
    pub(super) words: Vec<String>,
    /// Whether it stands between `.if` and `.endif`.
    pub(super) uncertain: bool,
}

impl HaproxyLine {
    /// The word at a place, or an empty text.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// The words from a place on.
    pub(super) fn from(&self, at: usize) -> &[String] {
        self.words.get(at..).unwrap_or_default()
    }

    /// Whether it begins with these words.
    pub(super) fn is(&self, words: &str) -> bool {
        words
            .split(' ')
            .enumerate()
            .all(|(at, word)| self.word(at) == word)
    }
}

/// What a section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HaproxyKind {
    Global,
    Defaults,
    Frontend,
    Backend,
    Listen,
    Userlist,
    Resolvers,
    /// A section of which nothing is converted, and why.
    Absent(&'static str, &'static str),
}

fn kind(word: &str) -> Option<HaproxyKind> {
    use HaproxyKind as K;
    Some(match word {
        "global" => K::Global,
        "defaults" => K::Defaults,
        "frontend" => K::Frontend,
        "backend" => K::Backend,
        "listen" => K::Listen,
        "userlist" => K::Userlist,
        "resolvers" => K::Resolvers,
        "peers" => K::Absent(
            "Lockgate has no tables that several machines share",
            "with [fleet] machines share what they count",
        ),
        "cache" => K::Absent(
            "Lockgate does not keep responses of applications",
            "let the application or a CDN cache; `cache` in a site sets Cache-Control",
        ),
        "ring" => K::Absent(
            "Lockgate writes its logs to stdout, stderr or files",
            "use access_log and a collector of logs",
        ),
        "http-errors" => K::Absent(
            "Lockgate's error pages are files of HTML without a head",
            "write error_pages in the sites",
        ),
        "program" => K::Absent("Lockgate starts no other programs", "let systemd start it"),
        "mailers" => K::Absent(
            "Lockgate sends no mail",
            "alert on lockgate_endpoint metrics",
        ),
        "fcgi-app" => K::Absent(
            "Lockgate does not speak FastCGI",
            "put the application behind a server that speaks HTTP",
        ),
        "log-forward" | "log-profile" => {
            K::Absent("Lockgate forwards no logs", "use a collector of logs")
        }
        "crt-store" => K::Absent(
            "certificates are named in the sites",
            "write tls in the sites, or certs in [tls]",
        ),
        "acme" => K::Absent(
            "its accounts and challenges are other than Lockgate's",
            "write an [acme] table: sites without a certificate then get one",
        ),
        "traces" => K::Absent("Lockgate has no such traces", "use log = \"debug\""),
        _ => return None,
    })
}

/// A section.
#[derive(Debug, Clone)]
pub(super) struct HaproxySection {
    pub(super) kind: HaproxyKind,
    pub(super) name: String,
    /// The line that opens it.
    pub(super) opening: HaproxyLine,
    /// The lines in it, without comments.
    pub(super) lines: Vec<HaproxyLine>,
    /// The `defaults` section that it starts from.
    pub(super) defaults: Option<usize>,
}

/// All sections of all files.
#[derive(Debug, Default)]
pub(super) struct HaproxySource {
    pub(super) sections: Vec<HaproxySection>,
    /// Sections that answer or have servers, by `backend` or `listen`.
    backends: HashMap<String, usize>,
    userlists: HashMap<String, usize>,
}

/// How deep `.if` may be nested.
const DEEPEST: usize = 64;

/// How many lines all sections together may take over from `defaults`.
const MOST_TAKEN_OVER: usize = 4_000_000;

impl HaproxySource {
    /// Reads files, of which each continues the one before.
    pub(super) fn read(
        paths: &[PathBuf],
        files: &dyn SourceFiles,
        report: &mut ConversionReport,
    ) -> Result<Self, ImportError> {
        let mut source = Self::default();
        for path in paths {
            let text = files.read(path).map_err(|reason| ImportError::Unreadable {
                file: path.clone(),
                reason,
            })?;
            source.read_text(path, &text, report)?;
        }
        source.link()?;
        Ok(source)
    }

    fn read_text(
        &mut self,
        path: &Path,
        text: &str,
        report: &mut ConversionReport,
    ) -> Result<(), ImportError> {
        let file: Rc<Path> = path.into();
        let mut depth = 0_usize;
        for (number, text) in text.lines().enumerate() {
            let place = Place {
                file: Rc::clone(&file),
                line: number + 1,
            };
            let syntax = |reason: String| ImportError::Syntax {
                place: place.clone(),
                reason,
            };
            let words = haproxy_words(text.trim_start_matches('\u{feff}')).map_err(syntax)?;
            let Some(first) = words.first() else {
                continue;
            };
            if first.starts_with('.') {
                let id = report.add(place.clone(), text);
                match first.as_str() {
                    ".if" => depth += 1,
                    ".endif" => {
                        depth = depth
                            .checked_sub(1)
                            .ok_or_else(|| syntax("this .endif has no .if".to_owned()))?;
                    }
                    _ => {}
                }
                if depth > DEEPEST {
                    return Err(syntax(format!("`.if` is nested more than {DEEPEST} deep")));
                }
                report.set(
                    id,
                    Verdict::not_supported(
                        "Lockgate's file has no conditions",
                        Some("write one file for each case, with include for what they share"),
                    ),
                );
                continue;
            }
            let words = match first.as_str() {
                "contimeout" => renamed("connect", &words),
                "clitimeout" => renamed("client", &words),
                "srvtimeout" => renamed("server", &words),
                _ => words,
            };
            let Some(first) = words.first() else {
                continue;
            };
            let line = HaproxyLine {
                id: report.add(place.clone(), &shown(text, first)),
                place: place.clone(),
                words,
                uncertain: depth > 0,
            };
            if let Some(kind) = kind(line.word(0)) {
                self.sections.push(HaproxySection {
                    kind,
                    name: line.word(1).to_owned(),
                    opening: line,
                    lines: Vec::new(),
                    defaults: None,
                });
            } else {
                match self.sections.last_mut() {
                    Some(section) => section.lines.push(line),
                    None => {
                        return Err(syntax(format!(
                            "`{}` stands before the first section, such as global, defaults or frontend",
                            line.word(0).chars().take(40).collect::<String>()
                        )));
                    }
                }
            }
        }
        if depth > 0 {
            return Err(ImportError::Syntax {
                place: Place {
                    file,
                    line: text.lines().count(),
                },
                reason: "an .if has no .endif".to_owned(),
            });
        }
        Ok(())
    }

    /// Finds the `defaults` of each section, and sections by name.
    fn link(&mut self) -> Result<(), ImportError> {
        let mut named = HashMap::new();
        let mut last = None;
        let mut taken_over = 0_usize;
        for at in 0..self.sections.len() {
            let Some(section) = self.sections.get(at) else {
                break;
            };
            let opening = &section.opening;
            let from = opening
                .words
                .iter()
                .position(|word| word == "from")
                .map(|at| opening.word(at + 1).to_owned());
            let found = match &from {
                Some(name) => match named.get(name) {
                    Some(at) => Some(*at),
                    None => {
                        return Err(ImportError::Syntax {
                            place: opening.place.clone(),
                            reason: format!("there is no defaults section `{name}` before it"),
                        });
                    }
                },
                // A defaults section starts afresh unless it says otherwise.
                None if section.kind == HaproxyKind::Defaults => None,
                None => last,
            };
            match section.kind {
                HaproxyKind::Defaults => {
                    last = Some(at);
                    named.insert(section.name.clone(), at);
                }
                HaproxyKind::Backend | HaproxyKind::Listen => {
                    self.backends.entry(section.name.clone()).or_insert(at);
                }
                HaproxyKind::Userlist => {
                    self.userlists.entry(section.name.clone()).or_insert(at);
                }
                _ => {}
            }
            let place = opening.place.clone();
            if let Some(section) = self.sections.get_mut(at) {
                section.defaults = found;
            }
            taken_over += self.chain(at).skip(1).map(|s| s.lines.len()).sum::<usize>();
            if taken_over > MOST_TAKEN_OVER {
                return Err(ImportError::Syntax {
                    place,
                    reason: "its sections take over too many lines from defaults".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// A section, the `defaults` that it starts from, those that these start from, and so on.
    pub(super) fn chain(&self, at: usize) -> impl Iterator<Item = &HaproxySection> {
        std::iter::successors(self.sections.get(at), |section| {
            // `defaults` only refer to sections before them, so that this ends.
            self.sections.get(section.defaults?)
        })
        .take(16)
    }

    /// The lines that hold for a section, those of `defaults` first.
    pub(super) fn lines(&self, at: usize) -> Vec<&HaproxyLine> {
        let mut chain: Vec<_> = self.chain(at).collect();
        chain.reverse();
        chain.iter().flat_map(|section| &section.lines).collect()
    }

    /// The last line that begins with these words.
    pub(super) fn setting(&self, at: usize, words: &str) -> Option<&HaproxyLine> {
        self.chain(at)
            .find_map(|section| section.lines.iter().rev().find(|line| line.is(words)))
    }

    /// The line that turns an option on, unless a later one turns it off.
    pub(super) fn option(&self, at: usize, name: &str) -> Option<&HaproxyLine> {
        let on = format!("option {name}");
        let off = format!("no option {name}");
        self.chain(at)
            .find_map(|section| {
                section
                    .lines
                    .iter()
                    .rev()
                    .find(|line| line.is(&on) || line.is(&off))
            })
            .filter(|line| line.is(&on))
    }

    /// Whether a section relays bytes rather than HTTP.
    pub(super) fn is_tcp(&self, at: usize) -> bool {
        self.setting(at, "mode")
            .is_none_or(|line| line.word(1) != "http")
    }

    /// The section of a backend.
    pub(super) fn backend(&self, name: &str) -> Option<usize> {
        self.backends.get(name).copied()
    }

    /// The section of a list of users.
    pub(super) fn userlist(&self, name: &str) -> Option<&HaproxySection> {
        self.sections.get(*self.userlists.get(name)?)
    }
}

/// A time by the name that HAProxy 1.4 gave it.
fn renamed(name: &str, words: &[String]) -> Vec<String> {
    let mut renamed = vec!["timeout".to_owned(), name.to_owned()];
    renamed.extend(words.iter().skip(1).cloned());
    renamed
}

/// The text of a statement for the report: a password is not repeated.
fn shown(text: &str, first: &str) -> String {
    let secret = |word: &str| matches!(word, "password" | "insecure-password");
    match (first, text.split_whitespace().position(secret)) {
        ("user", Some(at)) => {
            let words: Vec<_> = text.split_whitespace().take(at + 1).collect();
            format!("{} …", words.join(" "))
        }
        _ => match text.find(" #") {
            Some(at) if !text.contains(['"', '\'']) => text.get(..at).unwrap_or(text).to_owned(),
            _ => text.to_owned(),
        },
    }
}
