//! `lockgate demo`, `proxy`, `serve` and `tunnel`, which need no configuration file.
//!
//! Each writes the configuration of its command and runs it as `run` would.

mod demo;

use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, bail};
use lockgate_certs::authority::{Authority, LONGEST_LEAF, LeafRequest, LeafUsage};
use lockgate_config::parse_str;
use lockgate_net::listen::ListenAddress;
use lockgate_rules::CertKeyKind;

use crate::cli::ListenerTls;
use crate::cli::serve::{Listen, ServeOptions};
use crate::cli::tunnel::TunnelOptions;
use crate::handover::StartKind;
use crate::print::out;
use crate::supervisor;
use crate::supervisor::RunningServer;
use crate::{print, self_signed};

pub(crate) use demo::demo;

/// A private temporary folder, removed at the end of the command.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> io::Result<Self> {
        // A process that was killed leaves its folder, and process numbers come again.
        let mut left = 100;
        loop {
            let name = format!("lockgate-{}-{left}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && left > 0 => left -= 1,
                made => return made.map(|()| Self(path)),
            }
        }
    }

    /// Writes a self-signed certificate for this machine; returns the paths of it and its key.
    fn certificate(&self) -> anyhow::Result<(PathBuf, PathBuf)> {
        let made = self_signed::make(&self_signed::local_names())?;
        let (cert, key) = (
            self.0.join("self-signed.crt"),
            self.0.join("self-signed.key"),
        );
        write_private(&cert, &made.cert)?;
        write_private(&key, &made.key)?;
        Ok((cert, key))
    }

    /// Writes a certificate of our own authority for this machine; returns the paths of it and its key.
    fn internal_certificate(&self) -> anyhow::Result<(PathBuf, PathBuf)> {
        let (state, now) = (own_state()?, SystemTime::now());
        std::fs::create_dir_all(&state).with_context(|| state.display().to_string())?;
        let authority = Authority::open_or_create(&state.join("ca"), now)?;
        let (mut names, mut addresses) = (Vec::new(), Vec::new());
        for name in self_signed::local_names() {
            match name.parse() {
                Ok(address) => addresses.push(address),
                Err(_) => names.push(name),
            }
        }
        let request = LeafRequest {
            names,
            addresses,
            usage: LeafUsage::Server,
            key: CertKeyKind::EcdsaP256,
            // Nothing renews it while the command runs.
            life: LONGEST_LEAF,
        };
        let made = authority.issue(&request, now)?;
        let (cert, key) = (self.0.join("internal.crt"), self.0.join("internal.key"));
        write_private(&cert, &made.chain_pem)?;
        write_private(&key, made.key_pem.as_str())?;
        eprintln!(
            "lockgate: clients must trust {}: `lockgate ca export --state {}`",
            authority.root().subject(),
            state.display()
        );
        Ok((cert, key))
    }
}

/// The state folder of a command without a configuration: that of the service for root, else one of
/// the user (XDG Base Directory Specification).
fn own_state() -> anyhow::Result<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/lockgate"));
    }
    let absolute = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .context("no folder for the authority: set HOME")?;
    Ok(base.join("lockgate"))
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // Files that stay in the temporary directory do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// Relays `listen` to `upstream`, with TLS towards clients if set.
///
/// # Errors
/// When a self-signed certificate is needed and cannot be made.
pub(crate) fn proxy(
    listen: &str,
    upstream: &str,
    tls: Option<&ListenerTls>,
) -> anyhow::Result<ExitCode> {
    let mut folder = None;
    let tls = tls_line(tls, &mut folder)?;
    let config = format!(
        "[tcp.{}]\nproxy = {}\n{tls}",
        quote(listen),
        quote(upstream)
    );
    Ok(run(&config, "proxy", |_| ()))
}

/// Serves the files of a folder.
///
/// # Errors
/// When there is no such folder, or a self-signed certificate is needed and cannot be made.
pub(crate) fn serve(serve: &ServeOptions) -> anyhow::Result<ExitCode> {
    let root = std::path::absolute(&serve.root).context("the folder to serve")?;
    let shown = root.display();
    // A configuration may name a folder that does not exist yet; a command line may not.
    if !std::fs::metadata(&root)
        .with_context(|| shown.to_string())?
        .is_dir()
    {
        bail!("{shown} is a file: name the folder that it is in");
    }
    let Some(root) = root.to_str().filter(|root| !root.contains("${")) else {
        bail!("{shown} has a name that no configuration can have: not UTF-8, or with `${{`");
    };
    let mut folder = None;
    let tls = tls_line(serve.tls.as_ref(), &mut folder)?;
    let (key, listen) = match &serve.listen {
        Listen::Port(port) => (format!(":{port}"), String::new()),
        Listen::Address(address) => {
            let listen = format!("listen = [{}]\n", quote(&address.ip().to_string()));
            (format!(":{}", address.port()), listen)
        }
        Listen::Unix(written) => (written.clone(), String::new()),
    };
    let config = format!(
        "[site.{key}]\n{listen}{tls}root = {root}\nspa = {spa}\nlisting = {listing}\n",
        key = quote(&key),
        root = quote(root),
        spa = serve.spa,
        listing = serve.listing,
    );
    let scheme = if serve.tls.is_none() { "http" } else { "https" };
    Ok(run(&config, "serve", |running| {
        if let [address, ..] = running.bound().as_slice() {
            out!("{}", announcement(root, scheme, address));
        }
    }))
}

/// The announcement of the folder and its URL on this machine.
fn announcement(root: &str, scheme: &str, address: &ListenAddress) -> String {
    match address {
        ListenAddress::Ip(address) if !address.ip().is_unspecified() => {
            let clients = if address.ip().is_loopback() {
                ", to this machine only"
            } else {
                ""
            };
            format!("{root} is served at {scheme}://{address}/{clients}. Ctrl-C ends this.")
        }
        ListenAddress::Ip(address) => {
            format!(
                "{root} is served at {scheme}://localhost:{}/. Ctrl-C ends this.",
                address.port()
            )
        }
        ListenAddress::All(port) => {
            format!("{root} is served at {scheme}://localhost:{port}/. Ctrl-C ends this.")
        }
        ListenAddress::Unix(path) => {
            format!(
                "{root} is served over {scheme} at unix:{}. Ctrl-C ends this.",
                path.display()
            )
        }
    }
}

/// Serves tunnels.
///
/// # Errors
/// When the file of users is missing, or a self-signed certificate is needed and cannot be made.
pub(crate) fn tunnel(tunnel: &TunnelOptions) -> anyhow::Result<ExitCode> {
    let mut folder = None;
    let mut config = format!("[tunnel.{}]\n", quote(&tunnel.listen));
    config += &tls_line(tunnel.tls.as_ref(), &mut folder)?;
    for (key, list) in [
        ("allow", &tunnel.allow),
        ("deny", &tunnel.deny),
        ("clients", &tunnel.clients),
    ] {
        if !list.is_empty() {
            let list: Vec<_> = list.iter().map(|one| quote(one)).collect();
            config += &format!("{key} = [{}]\n", list.join(", "));
        }
    }
    if tunnel.private {
        config += "private = true\n";
    }
    if let Some(file) = &tunnel.auth {
        let file = std::path::absolute(file).context("the file of users")?;
        config += &format!("auth = {{ basic = {} }}\n", quote(&file.to_string_lossy()));
    }
    let scheme = if tunnel.tls.is_none() {
        "http"
    } else {
        "https"
    };
    let clients = match (tunnel.auth.is_some(), tunnel.clients.as_slice()) {
        (true, []) => "for clients with a password".to_owned(),
        (true, some) => format!("for clients with a password in {}", some.join(", ")),
        (false, []) => "for this machine and private networks".to_owned(),
        (false, some) => format!("for {}", some.join(", ")),
    };
    Ok(run(&config, "tunnel", |running| {
        if let [address, ..] = running.bound().as_slice() {
            let address = match address {
                ListenAddress::Ip(address) if address.ip().is_unspecified() => {
                    format!("localhost:{}", address.port())
                }
                ListenAddress::Ip(address) => address.to_string(),
                ListenAddress::All(port) => format!("localhost:{port}"),
                ListenAddress::Unix(path) => {
                    return out!(
                        "Tunnels at unix:{}, {clients}. Ctrl-C ends this.",
                        path.display()
                    );
                }
            };
            out!(
                "Tunnels at {scheme}://{address}, {clients}: https_proxy={scheme}://{address}. Ctrl-C ends this."
            );
        }
    }))
}

/// The line that gives a listener its TLS; `folder` holds the certificate that is made for it.
fn tls_line(tls: Option<&ListenerTls>, folder: &mut Option<TempFolder>) -> anyhow::Result<String> {
    let (cert, key) = match tls {
        None => return Ok(String::new()),
        Some(ListenerTls::Files { cert, key }) => (cert.clone(), key.clone()),
        Some(ListenerTls::SelfSigned) => folder
            .insert(TempFolder::new().context("temporary directory")?)
            .certificate()?,
        Some(ListenerTls::Internal) => folder
            .insert(TempFolder::new().context("temporary directory")?)
            .internal_certificate()?,
    };
    let (cert, key) = (
        quote(&cert.to_string_lossy()),
        quote(&key.to_string_lossy()),
    );
    Ok(format!("tls = {{ cert = {cert}, key = {key} }}\n"))
}

fn run(config: &str, name: &str, greet: impl FnOnce(&RunningServer)) -> ExitCode {
    // Nothing changes it while it runs, and a service may have the default place.
    let config = format!("admin = false\n{config}");
    match parse_str(&config, Path::new(name)) {
        Ok(loaded) => supervisor::run(loaded, None, StartKind::Plain, greet),
        Err(report) => {
            print::report(&report);
            ExitCode::FAILURE
        }
    }
}

/// A basic string of TOML.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)))
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_stays_one_string() {
        assert_eq!(quote(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(quote("a\nb"), r#""a\u000ab""#);
    }
}
