//! Pipes: their number, and the bytes in them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use super::*;

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

#[test]
fn bytes_go_through_a_pipe_from_socket_to_socket() {
    let ((mut source, near), (far, mut sink)) = (connection(), connection());
    let pipes = Pipes::new(1);
    let mut pipe = pipes.take(LEAST).unwrap();
    source.write_all(b"through the kernel").unwrap();
    assert_eq!(pipe.fill(&near, usize::MAX), Ok(18));
    assert_eq!(pipe.holds(), 18);
    assert_eq!(pipe.drain(&far), Ok(18));
    assert_eq!(pipe.holds(), 0);
    let mut received = [0; 18];
    sink.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"through the kernel");
    near.set_nonblocking(true).unwrap();
    assert_eq!(pipe.fill(&near, usize::MAX), Err(Errno::AGAIN));
    drop(source);
    assert_eq!(pipe.fill(&near, usize::MAX), Ok(0), "the end");
}

#[test]
fn the_number_of_open_pipes_is_limited() {
    let pipes = Pipes::new(2);
    let (one, two) = (pipes.take(LEAST).unwrap(), pipes.take(LEAST).unwrap());
    assert!(pipes.take(LEAST).is_none());
    drop(one);
    let again = pipes.take(LEAST).unwrap();
    assert!(pipes.take(LEAST).is_none());
    drop((two, again));
    assert_eq!((pipes.open.get(), pipes.idle.borrow().len()), (2, 2));
    assert!(Pipes::new(0).take(LEAST).is_none());
}

#[test]
fn pipes_beyond_a_smaller_limit_are_closed() {
    let pipes = Pipes::new(4);
    let mut lent: Vec<_> = std::iter::from_fn(|| pipes.take(LEAST)).collect();
    lent.truncate(3);
    pipes.set_limit(2);
    assert_eq!((pipes.open.get(), pipes.idle.borrow().len()), (3, 0));
    lent.truncate(1);
    assert_eq!((pipes.open.get(), pipes.idle.borrow().len()), (2, 1));
    drop(lent);
    assert_eq!((pipes.open.get(), pipes.idle.borrow().len()), (2, 2));
    pipes.set_limit(3);
    lent = std::iter::from_fn(|| pipes.take(LEAST)).collect();
    assert_eq!(lent.len(), 3);
}

#[test]
fn a_pipe_with_bytes_in_it_is_never_lent_again() {
    let (mut source, near) = connection();
    let pipes = Pipes::new(1);
    let mut pipe = pipes.take(LEAST).unwrap();
    source.write_all(b"secret").unwrap();
    pipe.fill(&near, usize::MAX).unwrap();
    drop(pipe);
    assert_eq!((pipes.open.get(), pipes.idle.borrow().len()), (0, 0));
    let (far, _sink) = connection();
    let mut fresh = pipes.take(LEAST).unwrap();
    assert_eq!((fresh.holds(), fresh.drain(&far)), (0, Ok(0)));
}

#[test]
fn idle_pipes_beyond_the_pool_size_are_closed() {
    let pipes = Pipes::new(KEPT + 3);
    let lent: Vec<_> = std::iter::from_fn(|| pipes.take(LEAST)).collect();
    assert_eq!(lent.len(), KEPT + 3);
    drop(lent);
    assert_eq!((pipes.open.get(), pipes.idle.borrow().len()), (KEPT, KEPT));
}

#[test]
fn a_pipe_has_the_requested_capacity_within_bounds() {
    let pipes = Pipes::new(LARGE + 1);
    let large: Vec<_> = (0..LARGE).map(|_| pipes.take(0).unwrap()).collect();
    assert!(large.iter().all(|pipe| pipe.ends().capacity == MOST));
    for (wanted, room, capacity) in [
        (0, LEAST, LEAST),
        (usize::MAX, MOST, MOST),
        (LEAST, LEAST, MOST),
    ] {
        let pipe = pipes.take(wanted).unwrap();
        assert_eq!((pipe.room, pipe.ends().capacity), (room, capacity));
    }
}

#[test]
fn the_last_used_pipe_that_is_large_enough_is_lent() {
    let pipes = Pipes::new(LARGE + 2);
    let mut lent: Vec<_> = std::iter::from_fn(|| pipes.take(0)).collect();
    let small = lent.split_off(LARGE);
    let last = lent[0].ends().read.as_raw_fd();
    drop(lent.split_off(1));
    drop(lent);
    drop(small);
    assert_eq!(pipes.take(0).unwrap().ends().read.as_raw_fd(), last);
}

#[test]
fn a_descriptor_without_splice_says_so() {
    let mut pipe = Pipes::new(1).take(LEAST).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let directory = std::fs::File::open(folder.path()).unwrap();
    assert!(is_unsupported(
        pipe.fill(&directory, usize::MAX).unwrap_err()
    ));
    assert!(!is_unsupported(Errno::CONNRESET) && !is_unsupported(Errno::AGAIN));
}
