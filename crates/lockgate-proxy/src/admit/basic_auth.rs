//! Basic authentication (RFC 7617): from the value of `Authorization` to a user of the file.
//!
//! A worker asks [`PasswordFile::cached`] first, which takes a microsecond and no allocation; only
//! unknown credentials are checked, on another thread. Does not send the 401: [`challenge`] is a
//! part of it.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64ct::{Base64, Encoding};
use lockgate_net::millis::Millis;
use tokio::sync::oneshot;

use super::credential_cache::Seal;
use super::htpasswd::{Htpasswd, LoadError, PasswordEntry, UserName};
use super::password_pool::{PasswordOutcome, PasswordPool, PasswordQuery};

/// Bytes that user, colon and password may have together.
pub const LONGEST: usize = 512;
/// The same in base64.
const LONGEST_CODED: usize = LONGEST.div_ceil(3) * 4;

/// A user's name and a password as a client sent them. Neither is shown.
pub struct Credentials {
    bytes: [u8; LONGEST],
    colon: usize,
    len: usize,
}

/// Why a value of `Authorization` holds no user and password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Another scheme than Basic.
    #[error("not of the Basic scheme")]
    Scheme,
    /// More than [`LONGEST`] bytes.
    #[error("longer than 512 bytes")]
    TooLong,
    /// Other characters than those of base64, wrong padding, or bits that stand for nothing.
    #[error("not base64")]
    Base64,
    /// No colon ends the name.
    #[error("no colon")]
    NoColon,
    /// Not UTF-8, which our challenge asks for (RFC 7617 §2.1), or with control characters (§2).
    #[error("not UTF-8, or with control characters")]
    Text,
}

impl Credentials {
    /// Reads the value of `Authorization`, without whitespace around it.
    pub fn parse(value: &[u8]) -> Result<Self, CredentialsError> {
        let (scheme, rest) = value.split_at_checked(6).ok_or(CredentialsError::Scheme)?;
        // RFC 9110 §11.4: the scheme in any case, then spaces.
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return Err(CredentialsError::Scheme);
        }
        let spaces = rest.iter().take_while(|&&byte| byte == b' ').count();
        let coded = rest.get(spaces..).unwrap_or_default();
        if coded.len() > LONGEST_CODED {
            return Err(CredentialsError::TooLong);
        }
        // A little longer than is taken: base64 comes in threes.
        let mut decoded = [0; LONGEST.div_ceil(3) * 3];
        let decoded = Base64::decode(coded, &mut decoded).map_err(|_| CredentialsError::Base64)?;
        let len = decoded.len();
        let mut bytes = [0; LONGEST];
        bytes
            .get_mut(..len)
            .ok_or(CredentialsError::TooLong)?
            .copy_from_slice(decoded);
        let text = str::from_utf8(decoded).map_err(|_| CredentialsError::Text)?;
        if text.chars().any(char::is_control) {
            return Err(CredentialsError::Text);
        }
        // RFC 7617 §2: a password may have colons, a name cannot.
        let colon = text.find(':').ok_or(CredentialsError::NoColon)?;
        Ok(Self { bytes, colon, len })
    }

    /// The name, which may be empty.
    pub fn user(&self) -> &str {
        self.text(0, self.colon)
    }

    /// The password, which may be empty.
    pub fn password(&self) -> &str {
        self.text(self.colon + 1, self.len)
    }

    fn text(&self, from: usize, to: usize) -> &str {
        self.bytes
            .get(from..to)
            .and_then(|bytes| str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// The value of `WWW-Authenticate` (RFC 7617 §2.1): with `charset`, browsers send UTF-8.
pub fn challenge(realm: &str) -> String {
    let mut value = String::from("Basic realm=\"");
    for c in realm.chars().filter(|c| !c.is_control()) {
        // RFC 9110 §5.6.4
        if matches!(c, '"' | '\\') {
            value.push('\\');
        }
        value.push(c);
    }
    value.push_str("\", charset=\"UTF-8\"");
    value
}

/// One file of users, and what it takes to check against it.
#[derive(Debug)]
pub struct PasswordFile {
    path: PathBuf,
    users: ArcSwap<Htpasswd>,
    verifier: Arc<PasswordPool>,
}

impl PasswordFile {
    /// Reads the file at `path`. The pool is the process's, for any number of files.
    ///
    /// # Errors
    /// As [`Htpasswd::load`].
    pub fn load(path: &Path, verifier: Arc<PasswordPool>) -> Result<Self, LoadError> {
        let users = ArcSwap::from_pointee(Htpasswd::load(path)?);
        Ok(Self {
            path: path.to_owned(),
            users,
            verifier,
        })
    }

    /// The file's path, for the file watcher.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again, for requests from now on; with a mistake in it, the users stay as they
    /// are. Cached passwords of a user are no longer valid once the user's line has changed or
    /// gone.
    ///
    /// # Errors
    /// As [`Htpasswd::load`].
    pub fn reload(&self) -> Result<(), LoadError> {
        self.users.store(Arc::new(Htpasswd::load(&self.path)?));
        Ok(())
    }

    /// The user of a value of `Authorization` that was right not long before `now`, on one clock
    /// for all workers. `None` means only that it must be checked.
    pub fn cached(&self, authorization: &[u8], now: Millis) -> Option<UserName> {
        let credentials = Credentials::parse(authorization).ok()?;
        let users = self.users.load();
        let (account, decoy) = self.find_entry(&users, &credentials)?;
        let known = self
            .verifier
            .remembered()
            .has(&self.seal(&credentials, account), now);
        (known && !decoy).then(|| Arc::clone(&account.name))
    }

    /// Checks a value of `Authorization` on another thread. A value that cannot be right is refused
    /// at once; an unknown name takes as long as a known one. The check is queued now, not when the
    /// future is first polled; dropping the future withdraws it.
    pub fn check(
        &self,
        authorization: &[u8],
        client: IpAddr,
        now: Millis,
    ) -> impl Future<Output = PasswordOutcome> + Send + use<> {
        let asked = self.ask(authorization, client, now);
        async move {
            match asked {
                Some(outcome) => outcome.await.unwrap_or(PasswordOutcome::Busy),
                None => PasswordOutcome::Refused,
            }
        }
    }

    fn ask(
        &self,
        authorization: &[u8],
        client: IpAddr,
        now: Millis,
    ) -> Option<oneshot::Receiver<PasswordOutcome>> {
        let credentials = Credentials::parse(authorization).ok()?;
        let users = self.users.load();
        let (account, decoy) = self.find_entry(&users, &credentials)?;
        let (reply, outcome) = oneshot::channel();
        self.verifier.submit(PasswordQuery {
            account: Arc::clone(account),
            decoy,
            password: credentials.password().into(),
            seal: self.seal(&credentials, account),
            client,
            now,
            reply,
        });
        Some(outcome)
    }

    /// The entry of the name that was sent. For an unknown name a decoy: another user's entry,
    /// always the same one, so that asking twice tells no more than asking once. `None` if there is
    /// no user at all.
    fn find_entry<'a>(
        &self,
        users: &'a Htpasswd,
        credentials: &Credentials,
    ) -> Option<(&'a Arc<PasswordEntry>, bool)> {
        let user = credentials.user();
        match users.find(user) {
            Some(account) => Some((account, false)),
            None => Some((users.decoy(self.verifier.remembered().number(user))?, true)),
        }
    }

    fn seal(&self, credentials: &Credentials, account: &PasswordEntry) -> Seal {
        self.verifier
            .remembered()
            .seal(credentials.user(), credentials.password(), &account.hash)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::NonZeroUsize;

    use super::*;
    use lockgate_net::reactor::Reactor;

    const ALICE: &str = "alice:$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m\n";
    const BOB: &str = "bob:$2y$04$5z14e5hwzWpK4HJdbrw8Ruq6OVBoZplVvrfW5JFEZBDQ2Khs0Ha3O\n";
    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn basic(user_and_password: &str) -> Vec<u8> {
        let mut coded = [0; 2048];
        let coded = Base64::encode(user_and_password.as_bytes(), &mut coded).unwrap();
        format!("Basic {coded}").into_bytes()
    }

    fn checker(users: &str) -> (tempfile::TempDir, PasswordFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        fs::write(&path, users).unwrap();
        let checker = PasswordFile::load(&path, PasswordPool::new(NonZeroUsize::MIN)).unwrap();
        (folder, checker)
    }

    fn wait(outcome: impl Future<Output = PasswordOutcome>) -> PasswordOutcome {
        Reactor::new().unwrap().block_on(outcome).unwrap()
    }

    #[test]
    fn the_basic_auth_examples_of_rfc_7617_are_read() {
        // §2 and §2.1
        for (value, user, password) in [
            (
                "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
                "Aladdin",
                "open sesame",
            ),
            ("basic   dGVzdDoxMjPCow==", "test", "123£"),
            ("BASIC Og==", "", ""),
            ("Basic YTo6Yjo=", "a", ":b:"),
        ] {
            let credentials = Credentials::parse(value.as_bytes()).unwrap();
            assert_eq!(
                (credentials.user(), credentials.password()),
                (user, password),
                "{value}"
            );
        }
    }

    #[test]
    fn malformed_basic_auth_credentials_are_refused() {
        let cases: [(&[u8], CredentialsError); 18] = [
            (b"", CredentialsError::Scheme),
            (b"Basic", CredentialsError::Scheme),
            (b"Basic\tQTpi", CredentialsError::Scheme),
            (b"Bearer QTpi", CredentialsError::Scheme),
            (b"Basically QTpi", CredentialsError::Scheme),
            (b"Basic ", CredentialsError::NoColon),
            (b"Basic QQ==", CredentialsError::NoColon),
            // RFC 4648 §3: padding, the alphabet, and bits that must be zero.
            (b"Basic YTo", CredentialsError::Base64),
            (b"Basic YTo==", CredentialsError::Base64),
            (b"Basic YTp=", CredentialsError::Base64),
            (b"Basic \tYTo=", CredentialsError::Base64),
            (b"Basic YT o=", CredentialsError::Base64),
            (b"Basic YTo=, x", CredentialsError::Base64),
            (b"Basic Pz8_Pz8-", CredentialsError::Base64),
            (b"Basic \xC3\xA4\xC3\xA4", CredentialsError::Base64),
            // "a:\xE4" in Latin-1; "a:b\0"; "a\n:b"
            (b"Basic YTrk", CredentialsError::Text),
            (b"Basic YTpiAA==", CredentialsError::Text),
            (b"Basic YQo6Yg==", CredentialsError::Text),
        ];
        for (value, error) in cases {
            let result = Credentials::parse(value);
            assert_eq!(
                result.unwrap_err(),
                error,
                "{}",
                String::from_utf8_lossy(value)
            );
        }
    }

    #[test]
    fn credentials_have_a_maximum_length() {
        let long = |len: usize| basic(&format!("u:{}", "p".repeat(len - 2)));
        assert_eq!(
            Credentials::parse(&long(LONGEST)).unwrap().password().len(),
            LONGEST - 2
        );
        for len in [LONGEST + 1, LONGEST + 2, LONGEST + 3, 1500] {
            assert_eq!(
                Credentials::parse(&long(len)).unwrap_err(),
                CredentialsError::TooLong
            );
        }
    }

    #[test]
    fn debug_output_hides_credentials() {
        let shown = format!("{:?}", Credentials::parse(&basic("alice:hunter2")).unwrap());
        assert_eq!(shown, "Credentials { .. }");
    }

    #[test]
    fn a_basic_auth_realm_is_quoted() {
        assert_eq!(challenge("api"), r#"Basic realm="api", charset="UTF-8""#);
        assert_eq!(
            challenge("a\"b\\c\r\n"),
            r#"Basic realm="a\"b\\c", charset="UTF-8""#
        );
    }

    #[test]
    fn a_correct_password_is_checked_once_and_then_cached() {
        let (_folder, checker) = checker(ALICE);
        let right = basic("alice:open sesame");
        assert_eq!(checker.cached(&right, Millis::ZERO), None);
        assert_eq!(
            wait(checker.check(&right, CLIENT, Millis::ZERO)),
            PasswordOutcome::Accepted("alice".into())
        );
        assert_eq!(
            checker.cached(&right, Millis::new(1)).as_deref(),
            Some("alice")
        );
        assert_eq!(
            checker.cached(&basic("alice:open sesamE"), Millis::new(1)),
            None
        );
        assert_eq!(
            checker.cached(&basic("bob:open sesame"), Millis::new(1)),
            None
        );
        assert_eq!(
            checker.cached(&right, Millis::new(3_600_000)),
            None,
            "not for ever"
        );
    }

    #[test]
    fn a_wrong_password_and_an_unknown_user_are_refused() {
        let (_folder, checker) = checker(ALICE);
        // An unknown user is checked against alice's hash, and is refused with her password all the
        // same.
        for wrong in [
            "alice:",
            "alice:wrong",
            "bob:open sesame",
            ":",
            ":open sesame",
        ] {
            let value = basic(wrong);
            assert_eq!(
                wait(checker.check(&value, CLIENT, Millis::ZERO)),
                PasswordOutcome::Refused,
                "{wrong}"
            );
            assert_eq!(checker.cached(&value, Millis::ZERO), None);
        }
        assert_eq!(
            wait(checker.check(b"Bearer x", CLIENT, Millis::ZERO)),
            PasswordOutcome::Refused
        );
    }

    #[test]
    fn an_htpasswd_file_without_users_refuses_everyone() {
        let (_folder, checker) = checker("# nobody yet\n");
        assert_eq!(
            wait(checker.check(&basic("alice:open sesame"), CLIENT, Millis::ZERO)),
            PasswordOutcome::Refused
        );
    }

    #[test]
    fn a_changed_htpasswd_file_evicts_removed_users_from_the_cache() {
        let (_folder, checker) = checker(&format!("{ALICE}{BOB}"));
        let (alice, bob) = (basic("alice:open sesame"), basic("bob:pässwörd"));
        for value in [&alice, &bob] {
            assert!(matches!(
                wait(checker.check(value, CLIENT, Millis::ZERO)),
                PasswordOutcome::Accepted(_)
            ));
        }
        fs::write(checker.path(), BOB).unwrap();
        checker.reload().unwrap();
        assert_eq!(
            (
                checker.cached(&alice, Millis::new(1)),
                checker.cached(&bob, Millis::new(1)).as_deref()
            ),
            (None, Some("bob"))
        );
        assert_eq!(
            wait(checker.check(&alice, CLIENT, Millis::new(1))),
            PasswordOutcome::Refused
        );
        // A new password for the same name.
        fs::write(checker.path(), ALICE.replace("alice:", "bob:")).unwrap();
        checker.reload().unwrap();
        assert_eq!(checker.cached(&bob, Millis::new(2)), None);
        assert_eq!(
            wait(checker.check(&basic("bob:open sesame"), CLIENT, Millis::new(2))),
            PasswordOutcome::Accepted("bob".into())
        );
    }

    #[test]
    fn a_removed_user_is_refused_though_another_shares_the_hash() {
        let copied = ALICE.replace("alice:", "carol:");
        let (_folder, checker) = checker(&format!("{ALICE}{copied}"));
        let carol = basic("carol:open sesame");
        assert_eq!(
            wait(checker.check(&carol, CLIENT, Millis::ZERO)),
            PasswordOutcome::Accepted("carol".into())
        );
        fs::write(checker.path(), ALICE).unwrap();
        checker.reload().unwrap();
        assert_eq!(checker.cached(&carol, Millis::new(1)), None);
        assert_eq!(
            wait(checker.check(&carol, CLIENT, Millis::new(1))),
            PasswordOutcome::Refused
        );
    }

    #[test]
    fn an_htpasswd_file_with_a_mistake_keeps_the_old_users() {
        let (_folder, checker) = checker(ALICE);
        fs::write(checker.path(), "alice:hunter2\n").unwrap();
        assert!(
            checker
                .reload()
                .unwrap_err()
                .to_string()
                .ends_with("`openssl passwd -6`")
        );
        let right = basic("alice:open sesame");
        assert_eq!(
            wait(checker.check(&right, CLIENT, Millis::ZERO)),
            PasswordOutcome::Accepted("alice".into())
        );
    }
}
