//! The file of users and their passwords, as `htpasswd` and `mkpasswd` write them: `user:hash` on
//! each line.
//!
//! Lines that begin with `#` and empty ones are left out; the rest after a second colon is a
//! comment, as in Apache and nginx. A file with a mistake is not taken at all; all its mistakes are
//! reported together, the first of them by line.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::password_hash::{HashError, PasswordHash};

/// Some hundred thousand users; what is longer is not a file of them.
const LONGEST: u64 = 16 << 20;
/// Mistakes that are kept and reported: in a file of another kind every line is one, and there may
/// be millions.
const TOLD: usize = 20;

/// The name of an authenticated user.
pub type UserName = Arc<str>;

/// One line of the file.
#[derive(Debug)]
pub(super) struct PasswordEntry {
    pub(super) name: UserName,
    pub(super) hash: PasswordHash,
}

/// The users of one file.
#[derive(Debug, Default)]
pub struct Htpasswd {
    accounts: Vec<Arc<PasswordEntry>>,
    by_name: HashMap<UserName, Arc<PasswordEntry>, RandomState>,
}

/// The lines that are not taken.
#[derive(Debug, Default)]
pub struct HtpasswdMistakes {
    /// The first 20, by line; at least one.
    pub told: Vec<Mistake>,
    /// The number of further mistakes.
    pub more: usize,
}

impl HtpasswdMistakes {
    fn push(&mut self, line: usize, problem: Problem) {
        if self.told.len() < TOLD {
            self.told.push(Mistake { line, problem });
        } else {
            self.more += 1;
        }
    }
}

/// One line that is not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line's number, from 1.
    pub line: usize,
    /// Why.
    pub problem: Problem,
}

/// A mistake in a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Bytes that are no text.
    #[error("the line is not UTF-8, which RFC 7617 requires for user names")]
    NotUtf8,
    /// Neither a comment nor a user.
    #[error("the line is not `user:hash`; add users with `htpasswd -B FILE USER`")]
    NoColon,
    /// Nothing before the colon, or something that no client can send.
    #[error("the user name is empty or has a control character")]
    Name,
    /// The same name on two lines.
    #[error("user \"{user}\" is on line {first} already; remove one of them")]
    Twice {
        /// The user's name.
        user: String,
        /// The line of the first.
        first: usize,
    },
    /// A password that could not be checked, or too easily guessed.
    #[error("user \"{user}\": {error}")]
    Hash {
        /// The user's name.
        user: String,
        /// Why.
        error: HashError,
    },
}

/// Why a file of users is not taken.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The file is longer than 16 MB.
    #[error("{}: longer than 16 MB, so it is no file of users", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file has mistakes, at least one.
    #[error("{}", MistakeLines { path, mistakes })]
    Mistakes {
        /// The file.
        path: PathBuf,
        /// Which ones.
        mistakes: HtpasswdMistakes,
    },
}

impl Htpasswd {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, is longer than 16 MB, or a line of it is a mistake.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let read = |error| LoadError::Read {
            path: path.to_owned(),
            error,
        };
        let mut text = Vec::new();
        File::open(path)
            .map_err(read)?
            .take(LONGEST + 1)
            .read_to_end(&mut text)
            .map_err(read)?;
        if text.len() as u64 > LONGEST {
            return Err(LoadError::TooLong {
                path: path.to_owned(),
            });
        }
        Self::parse(&text).map_err(|mistakes| LoadError::Mistakes {
            path: path.to_owned(),
            mistakes,
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The lines that are neither empty, nor a comment, nor a user with a hash that can be checked.
    pub fn parse(text: &[u8]) -> Result<Self, HtpasswdMistakes> {
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        let mut users = Self::default();
        let mut lines: HashMap<UserName, usize, RandomState> = HashMap::default();
        let mut mistakes = HtpasswdMistakes::default();
        for (line, bytes) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            match account(bytes) {
                Ok(None) => {}
                Ok(Some(account)) => {
                    if let Some(&first) = lines.get(&account.name) {
                        let user = account.name.as_ref().to_owned();
                        mistakes.push(line, Problem::Twice { user, first });
                        continue;
                    }
                    let account = Arc::new(account);
                    lines.insert(Arc::clone(&account.name), line);
                    users
                        .by_name
                        .insert(Arc::clone(&account.name), Arc::clone(&account));
                    users.accounts.push(account);
                }
                Err(problem) => mistakes.push(line, problem),
            }
        }
        if mistakes.told.is_empty() {
            Ok(users)
        } else {
            Err(mistakes)
        }
    }

    /// The number of users.
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Whether there is no user.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    pub(super) fn find(&self, user: &str) -> Option<&Arc<PasswordEntry>> {
        self.by_name.get(user)
    }

    /// The entry that an unknown name is checked against, so that it takes as long as a known one;
    /// the same for the same number.
    pub(super) fn decoy(&self, number: u64) -> Option<&Arc<PasswordEntry>> {
        let count = u64::try_from(self.accounts.len()).ok()?;
        self.accounts
            .get(usize::try_from(number.checked_rem(count)?).ok()?)
    }
}

fn account(line: &[u8]) -> Result<Option<PasswordEntry>, Problem> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let line = str::from_utf8(line).map_err(|_| Problem::NotUtf8)?;
    let (name, rest) = line.split_once(':').ok_or(Problem::NoColon)?;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Problem::Name);
    }
    let hash = rest.split(':').next().unwrap_or_default();
    let hash = PasswordHash::parse(hash).map_err(|error| Problem::Hash {
        user: name.to_owned(),
        error,
    })?;
    Ok(Some(PasswordEntry {
        name: name.into(),
        hash,
    }))
}

/// Mistakes as lines of `file:line: why`.
struct MistakeLines<'a> {
    path: &'a Path,
    mistakes: &'a HtpasswdMistakes,
}

impl fmt::Display for MistakeLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Mistake { line, problem }) in self.mistakes.told.iter().enumerate() {
            let end = if number == 0 { "" } else { "\n" };
            write!(f, "{end}{}:{line}: {problem}", self.path.display())?;
        }
        match self.mistakes.more {
            0 => Ok(()),
            more => write!(
                f,
                "\n{}: {more} more mistakes like these",
                self.path.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m";

    fn names(users: &Htpasswd) -> Vec<&str> {
        users
            .accounts
            .iter()
            .map(|account| &*account.name)
            .collect()
    }

    #[test]
    fn htpasswd_comments_empty_lines_and_crlf_are_skipped() {
        let text = format!(
            "\u{feff}# people\r\n\r\nalice:{BCRYPT}\r\n  \n   # more\nbob:{BCRYPT}:the builder\n\njürgen:{BCRYPT} "
        );
        let users = Htpasswd::parse(text.as_bytes()).unwrap();
        assert_eq!(names(&users), ["alice", "bob", "jürgen"]);
        assert!(users.find("bob").unwrap().hash.verify("open sesame"));
        assert!(users.find("Bob").is_none() && users.find("# people").is_none());
    }

    #[test]
    fn an_htpasswd_file_without_users_has_no_decoy() {
        for text in ["", "\n", "# nobody\n"] {
            let users = Htpasswd::parse(text.as_bytes()).unwrap();
            assert!(users.is_empty() && users.decoy(7).is_none());
        }
    }

    #[test]
    fn htpasswd_mistakes_are_reported_by_line_without_the_hash() {
        let text = format!(
            "alice:{BCRYPT}\nbob\n:{BCRYPT}\ncarol:$apr1$XYPK3jw2$MNUJ6i3i6ZrOCA/TPkBr11\r\nalice:{BCRYPT}\ndave:hunter2\n"
        );
        let mut text = text.into_bytes();
        text.extend_from_slice(b"\xFF:x\n");
        let mistakes = Htpasswd::parse(&text).unwrap_err();
        let told = LoadError::Mistakes {
            path: "users".into(),
            mistakes,
        }
        .to_string();
        let lines: Vec<_> = told.lines().collect();
        let expected = [
            "users:2: a line is `user:hash`",
            "users:3: a user's name",
            "users:4: user \"carol\": the password is hashed with MD5",
            "users:5: user \"alice\" is on line 1 already",
            "users:6: user \"dave\": the password is not hashed",
            "users:7: this is not UTF-8",
        ];
        assert_eq!(lines.len(), expected.len(), "{told}");
        assert!(
            lines
                .iter()
                .zip(expected)
                .all(|(line, expected)| line.starts_with(expected)),
            "{told}"
        );
        assert!(lines[2].contains("htpasswd -B FILE USER"));
        assert!(!told.contains("hunter2") && !told.contains("XYPK3jw2"));
    }

    #[test]
    fn the_first_20_htpasswd_mistakes_are_listed_and_others_counted() {
        let mistakes = Htpasswd::parse("x\n".repeat(50).as_bytes()).unwrap_err();
        assert_eq!((mistakes.told.len(), mistakes.more), (20, 30));
        let told = LoadError::Mistakes {
            path: "users".into(),
            mistakes,
        }
        .to_string();
        assert_eq!(told.lines().count(), 21);
        assert!(told.ends_with("users: 30 more mistakes like these"));
    }

    #[test]
    fn an_unknown_user_is_always_checked_against_the_same_decoy() {
        let text = format!("alice:{BCRYPT}\nbob:{BCRYPT}\n");
        let users = Htpasswd::parse(text.as_bytes()).unwrap();
        let decoy = |number| users.decoy(number).unwrap().name.clone();
        assert_eq!(
            (decoy(0), decoy(7), decoy(u64::MAX)),
            ("alice".into(), "bob".into(), "bob".into())
        );
    }

    #[test]
    fn a_missing_htpasswd_file_is_named() {
        let told = Htpasswd::load(Path::new("no/such/file"))
            .unwrap_err()
            .to_string();
        assert!(told.starts_with("no/such/file: "), "{told}");
    }

    #[test]
    fn debug_output_of_users_hides_their_hashes() {
        let users = Htpasswd::parse(format!("alice:{BCRYPT}\n").as_bytes()).unwrap();
        assert!(!format!("{users:?}").contains("2lIsLL4WkHlL1AdE"));
    }
}
