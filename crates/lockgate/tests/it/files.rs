//! Sites that serve files: real files in a directory that is gone after the test, over real
//! sockets.

mod connections;
mod exchanges;
mod hostile;
mod limits;
mod listing;
mod lookup;
mod modified;
mod representations;

use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use http::Method;
use lockgate_testkit::h2::Client;
use lockgate_testkit::{ClientSettings, Http, Lockgate, Message};
use tempfile::TempDir;

use crate::scene::{NAME, Site, lockgate};

/// When most files of tests were changed last, in seconds since 1970: long ago, so that none is
/// taken for new.
pub(crate) const CHANGED: u64 = 784_111_777;
/// The same as HTTP writes it.
pub(crate) const CHANGED_TEXT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// A root, with a secret beside it.
pub(crate) struct Www {
    folder: TempDir,
    pub(crate) root: PathBuf,
}

impl Www {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(folder.path().join("secret.txt"), SECRET).unwrap();
        Self { folder, root }
    }

    /// One with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let www = Self::new();
        for (name, content) in files {
            www.write(name, content);
        }
        www
    }

    pub(crate) fn path(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.root.join(std::ffi::OsStr::from_bytes(name.as_ref()))
    }

    /// Writes a file where it is, and its directories; changed last at [`CHANGED`].
    pub(crate) fn write(&self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        touch(&path, CHANGED);
        path
    }

    /// Replaces a file as careful tools do: written beside it, then renamed.
    pub(crate) fn replace(&self, name: &str, content: impl AsRef<[u8]>) {
        let beside = self.folder.path().join("beside");
        fs::write(&beside, content).unwrap();
        touch(&beside, CHANGED);
        fs::rename(beside, self.path(name)).unwrap();
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, name: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A site for any host at `127.0.0.1:0` by plain HTTP; keys of the site may follow.
    pub(crate) fn site(&self, keys: impl Display) -> String {
        format!(
            "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nroot = \"{}\"\n{keys}\n",
            self.root.display()
        )
    }

    pub(crate) fn start(&self, keys: impl Display) -> Lockgate {
        lockgate().start(&self.site(keys))
    }
}

/// Texts that no response may contain.
const SECRET: &str = "nobody outside may read this";

/// Sets when a file was changed last.
pub(crate) fn touch(path: &Path, seconds: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .unwrap();
}

/// The three transports of a request.
pub(crate) const WAYS: [Way; 3] = [Way::Plain, Way::Secure, Way::Http2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// HTTP/1 without TLS.
    Plain,
    /// HTTP/1 over TLS.
    Secure,
    /// HTTP/2 over TLS.
    Http2,
}

/// A server that is reached over all three transports.
pub(crate) struct Served {
    pub(crate) gate: Lockgate,
    site: Site,
}

impl Served {
    pub(crate) fn start(www: &Www, keys: &str) -> Self {
        Self::by(&format!("root = \"{}\"\n{keys}", www.root.display()))
    }

    /// A server with these keys for its site.
    pub(crate) fn by(keys: &str) -> Self {
        let site = Site::new();
        let toml = format!(
            "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\n{keys}\n\
             [site.\"{NAME}:0\"]\nlisten = [\"127.0.0.2\"]\ntls = {{ cert = \"{}\" }}\n{keys}\n",
            site.cert,
        );
        Self {
            gate: lockgate().start(&toml),
            site,
        }
    }

    /// A client that trusts it.
    pub(crate) fn client(&self) -> ClientSettings {
        self.site.client()
    }

    pub(crate) fn connect(&self, way: Way) -> Asking {
        let secure = || self.gate.at("127.0.0.2:0");
        match way {
            Way::Plain => Asking::Plain(Http::connect(self.gate.at("127.0.0.1:0"))),
            Way::Secure => Asking::Secure(Box::new(Http::over(
                self.client().connect(secure(), NAME).unwrap(),
            ))),
            Way::Http2 => Asking::Http2(Box::new(Client::connect_tls(
                &self.client(),
                secure(),
                NAME,
            ))),
        }
    }
}

/// A connection for request after request.
pub(crate) enum Asking {
    Plain(Http),
    Secure(Box<Http<lockgate_testkit::Tls>>),
    Http2(Box<Client>),
}

/// A field that a request has.
pub(crate) type Line<'a> = (&'a str, &'a str);

impl Asking {
    pub(crate) fn ask(&mut self, method: &str, path: &str, fields: &[Line<'_>]) -> Answer {
        match self {
            Self::Plain(http) => ask_over(http, method, path, fields),
            Self::Secure(http) => ask_over(http, method, path, fields),
            Self::Http2(client) => {
                let mut request =
                    Client::request(Method::from_bytes(method.as_bytes()).unwrap(), path);
                *request.uri_mut() = format!("https://{NAME}{path}").parse().unwrap();
                for (name, value) in fields {
                    let name =
                        http::HeaderName::from_bytes(name.to_lowercase().as_bytes()).unwrap();
                    request.headers_mut().append(name, value.parse().unwrap());
                }
                let answer = client.begin(request, true).answer();
                assert_eq!(answer.reset, None, "{path}: {answer:?}");
                Answer {
                    status: answer.status,
                    fields: answer.fields,
                    body: answer.body,
                }
            }
        }
    }

    pub(crate) fn get(&mut self, path: &str, fields: &[Line<'_>]) -> Answer {
        self.ask("GET", path, fields)
    }
}

/// A response over any of the transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in small letters.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a field that is there at most once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut all = self
            .fields
            .iter()
            .filter(|(found, _)| found == name)
            .map(|(_, value)| value.as_str());
        let first = all.next();
        assert!(
            all.next().is_none(),
            "{name} is there twice: {:?}",
            self.fields
        );
        first
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The fields without those that differ each time, and without those of the connection.
    pub(crate) fn lasting(&self) -> Vec<(&str, &str)> {
        const PASSING: [&str; 3] = ["date", "x-request-id", "connection"];
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let mut fields: Vec<_> = fields.filter(|(name, _)| !PASSING.contains(name)).collect();
        fields.sort_unstable();
        fields
    }
}

impl From<Message> for Answer {
    fn from(message: Message) -> Self {
        let lines = message
            .head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        let fields = lines
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        Self {
            status: message.status(),
            fields,
            body: message.body,
        }
    }
}

pub(crate) fn head(method: &str, path: &str, fields: &[Line<'_>]) -> String {
    let lines: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("{method} {path} HTTP/1.1\r\nHost: {NAME}\r\n{lines}\r\n")
}

pub(crate) fn ask_over<S: std::io::Read + std::io::Write>(
    http: &mut Http<S>,
    method: &str,
    path: &str,
    fields: &[Line<'_>],
) -> Answer {
    http.send(head(method, path, fields));
    match method {
        "HEAD" => Message {
            head: http.head(),
            ..Message::default()
        }
        .into(),
        _ => http.answer().into(),
    }
}

/// GET on a connection of its own.
pub(crate) fn get(gate: &Lockgate, path: &str, fields: &[Line<'_>]) -> Answer {
    ask_over(&mut Http::connect(gate.address()), "GET", path, fields)
}

/// Requests each path, and compares status and body, or Location of a redirect.
#[track_caller]
fn check(gate: &Lockgate, cases: &[(&str, u16, &str)]) {
    for (path, status, content) in cases {
        let answer = get(gate, path, &[]);
        let found = match answer.status {
            300..400 => answer.field("location").unwrap(),
            _ if *status >= 400 && content.is_empty() => "",
            _ => answer.text(),
        };
        assert_eq!((answer.status, found), (*status, *content), "{path}");
    }
}
