//! The databases in which Firefox and Chromium keep authorities (NSS), by the program certutil.
//!
//! They belong to users: those of the user that called sudo, else of the user of this process.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lockgate_certs::authority::CaCert;
use nix::unistd::User;

use super::system_trust::program;
use crate::print::out;

/// Databases in a home folder.
const DATABASES: [&str; 2] = [".pki/nssdb", "snap/chromium/current/.pki/nssdb"];
/// Folders in a home folder with a folder for each profile of Firefox, which has a database.
const PROFILES: [&str; 4] = [
    ".mozilla/firefox",
    ".config/mozilla/firefox",
    "snap/firefox/common/.mozilla/firefox",
    ".var/app/org.mozilla.firefox/.mozilla/firefox",
];

/// The databases of a user.
pub(super) struct BrowserDatabases {
    owner: Owner,
    folders: Vec<PathBuf>,
}

/// The user that the databases belong to.
struct Owner {
    home: PathBuf,
    /// The user and group that certutil runs as, if not as this process: files that root makes would be
    /// of no use to them.
    ids: Option<(u32, u32)>,
}

/// What came of the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrowserResult {
    /// Each is as it should be, or there is none.
    Done,
    /// At least one is not.
    Failed,
}

impl BrowserDatabases {
    /// The databases of the user.
    pub(super) fn find() -> Self {
        let owner = Owner::find();
        let home = &owner.home;
        let mut folders: Vec<PathBuf> = DATABASES.iter().map(|path| home.join(path)).collect();
        for profiles in PROFILES {
            let entries = fs::read_dir(home.join(profiles)).into_iter().flatten();
            folders.extend(entries.flatten().map(|entry| entry.path()));
        }
        folders.retain(|folder| folder.join("cert9.db").is_file());
        folders.sort();
        Self { owner, folders }
    }

    /// Adds the certificate to each.
    pub(super) fn add(&self, root: &CaCert) -> BrowserResult {
        self.each("added to", |certutil, database| {
            let name = nickname(root);
            if self.has(certutil, database, &name)? {
                return Ok(None);
            }
            // C: trusted for certificates of servers.
            let arguments = ["-A", "-d", database, "-t", "C,,", "-n", &name];
            self.run(certutil, &arguments, &root.pem()).map(Some)
        })
    }

    /// Takes the certificate out of each.
    pub(super) fn remove(&self, root: &CaCert) -> BrowserResult {
        self.each("removed from", |certutil, database| {
            let name = nickname(root);
            if !self.has(certutil, database, &name)? {
                return Ok(None);
            }
            let arguments = ["-D", "-d", database, "-n", &name];
            self.run(certutil, &arguments, "").map(Some)
        })
    }

    /// Does something to each database; nothing was to be done where that gives no output.
    fn each(
        &self,
        done: &str,
        act: impl Fn(&Path, &str) -> io::Result<Option<Output>>,
    ) -> BrowserResult {
        if self.folders.is_empty() {
            return BrowserResult::Done;
        }
        let Some(certutil) = program("certutil") else {
            eprintln!(
                "warning: {} databases of browsers in {} are left as they are, since certutil is not installed \
                 (Debian: libnss3-tools, Fedora: nss-tools, Arch: nss)",
                self.folders.len(),
                self.owner.home.display()
            );
            return BrowserResult::Done;
        };
        let mut result = BrowserResult::Done;
        for folder in &self.folders {
            let shown = folder.display();
            let failure = match act(&certutil, &format!("sql:{shown}")) {
                Ok(None) => None,
                Ok(Some(output)) if output.status.success() => {
                    out!("{done} {shown}");
                    None
                }
                Ok(Some(output)) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(failure) = failure {
                eprintln!("{shown}: certutil failed: {failure}");
                result = BrowserResult::Failed;
            }
        }
        result
    }

    fn has(&self, certutil: &Path, database: &str, name: &str) -> io::Result<bool> {
        let output = self.run(certutil, &["-L", "-d", database, "-n", name], "")?;
        Ok(output.status.success())
    }

    /// Runs certutil with `input`, as the owner of the databases.
    fn run(&self, certutil: &Path, arguments: &[&str], input: &str) -> io::Result<Output> {
        let mut command = Command::new(certutil);
        command
            .args(arguments)
            .env("HOME", &self.owner.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some((user, group)) = self.owner.ids {
            command.uid(user).gid(group);
        }
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that reads nothing says why by its end.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output()
    }
}

impl Owner {
    fn find() -> Self {
        let caller = env::var("SUDO_USER").ok();
        let caller = caller.filter(|_| nix::unistd::geteuid().is_root());
        let user = caller.and_then(|name| User::from_name(&name).ok().flatten());
        match user.filter(|user| !user.uid.is_root()) {
            Some(user) => Self {
                home: user.dir,
                ids: Some((user.uid.as_raw(), user.gid.as_raw())),
            },
            None => Self {
                home: env::var_os("HOME").map(PathBuf::from).unwrap_or_default(),
                ids: None,
            },
        }
    }
}

/// The name of the certificate in a database.
fn nickname(root: &CaCert) -> String {
    root.subject().trim_start_matches("CN=").to_owned()
}
