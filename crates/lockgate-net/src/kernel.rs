//! What the kernel offers: the calls that the server gains by, each tried once, and the state of the
//! clock.
//!
//! Decides nothing: the server has another way where a call is missing, or fails and says so.

use std::io;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use socket2::{Domain, Type};

use crate::syscall::set_defer_accept;

pub use crate::syscall::is_clock_synchronized;

/// A call of the kernel, and whether this process may use it.
#[derive(Debug)]
pub struct KernelFeature {
    /// Its name in the manual pages.
    pub name: &'static str,
    /// The result of a trial.
    pub trial: io::Result<()>,
    /// What happens without it.
    pub without: &'static str,
}

/// Tries every call. Opens no file but the root folder, and connects to nothing.
pub fn features() -> Vec<KernelFeature> {
    let feature = |name, trial: fn() -> io::Result<()>, without| KernelFeature {
        name,
        trial: trial(),
        without,
    };
    vec![
        feature(
            "splice",
            splice,
            "relayed bytes are copied through the process",
        ),
        feature("SO_REUSEPORT", reuse_port, "no address can be bound"),
        feature(
            "TCP_DEFER_ACCEPT",
            defer_accept,
            "listeners where the client speaks first cannot be bound",
        ),
        feature(
            "openat2",
            openat2,
            "the files of sites with `root` cannot be opened",
        ),
        feature(
            "sendfile",
            sendfile,
            "files that no cache holds are not sent over plain HTTP",
        ),
    ]
}

fn splice() -> io::Result<()> {
    let (from, to) = (rustix::pipe::pipe()?, rustix::pipe::pipe()?);
    rustix::io::write(&from.1, b"x")?;
    let flags = rustix::pipe::SpliceFlags::NONBLOCK;
    rustix::pipe::splice(&from.0, None, &to.1, None, 1, flags)?;
    Ok(())
}

fn socket() -> io::Result<socket2::Socket> {
    socket2::Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)
}

fn reuse_port() -> io::Result<()> {
    socket()?.set_reuse_port(true)
}

fn defer_accept() -> io::Result<()> {
    set_defer_accept(socket()?, Some(Duration::from_secs(1)))
}

fn openat2() -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let beneath = ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(rustix::fs::CWD, "/", flags, Mode::empty(), beneath)?;
    Ok(())
}

/// Sends the begin of this program to a socket that nothing reads.
fn sendfile() -> io::Result<()> {
    let program = std::fs::File::open("/proc/self/exe")?;
    let (socket, _reader) = std::os::unix::net::UnixStream::pair()?;
    rustix::fs::sendfile(&socket, &program, None, 1)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_feature_is_tried_once_by_its_name() {
        let names: Vec<_> = features().iter().map(|feature| feature.name).collect();
        let known = [
            "splice",
            "SO_REUSEPORT",
            "TCP_DEFER_ACCEPT",
            "openat2",
            "sendfile",
        ];
        assert_eq!(names, known);
        // Every socket of a worker needs it.
        assert!(reuse_port().is_ok());
    }
}
