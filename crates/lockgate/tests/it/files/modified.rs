//! Files that change while they are served, or were changed since.

use std::io::{Seek, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use lockgate_testkit::h2::Exchange;
use lockgate_testkit::h2::frame::code;
use lockgate_testkit::{Tls, Wire, bytes, eventually};

use super::*;

/// More than fits into all buffers on the way of a response.
const LARGE: usize = 32 << 20;

/// A response that is read as slowly as the test likes.
enum Slow<'a> {
    Plain(Http),
    Secure(Box<Http<Tls>>),
    Http2(Box<Exchange<'a>>),
}

impl<'a> Slow<'a> {
    /// Requests the file, and reads the first of its bytes.
    fn begin(served: &Served, client: &'a Asking, path: &str) -> (Self, Vec<u8>) {
        let begun = |head: String, len: &str| {
            assert!(
                head.contains(&format!("Content-Length: {len}\r\n")),
                "{head}"
            )
        };
        let len = LARGE.to_string();
        match client {
            Asking::Plain(_) => {
                let mut http = Http::over(Wire::connect_narrow(served.gate.at("127.0.0.1:0")));
                http.send(head("GET", path, &[]));
                begun(http.head(), &len);
                let first = http.exactly(1_000);
                (Self::Plain(http), first)
            }
            Asking::Secure(_) => {
                let wire = Wire::connect_narrow(served.gate.at("127.0.0.2:0"));
                let mut http =
                    Http::over(Tls::connect(&served.site.client().build(), wire, NAME).unwrap());
                http.send(head("GET", path, &[]));
                begun(http.head(), &len);
                let first = http.exactly(1_000);
                (Self::Secure(Box::new(http)), first)
            }
            Asking::Http2(client) => {
                let mut request = Client::request(Method::GET, path);
                *request.uri_mut() = format!("https://{NAME}{path}").parse().unwrap();
                let mut exchange = client.begin(request, true);
                assert_eq!(
                    exchange.head().unwrap().field("content-length"),
                    Some(&*len)
                );
                let first = exchange.piece().unwrap().unwrap().to_vec();
                (Self::Http2(Box::new(exchange)), first)
            }
        }
    }

    /// Reads the rest behind `read`, and returns whether the body was complete.
    fn end(self, mut read: Vec<u8>) -> (Vec<u8>, bool) {
        match self {
            Self::Plain(mut http) => read.extend(http_end(&mut http, LARGE - read.len())),
            Self::Secure(mut http) => read.extend(http_end(&mut http, LARGE - read.len())),
            Self::Http2(exchange) => {
                let answer = exchange.answer();
                let whole = answer.reset.is_none();
                assert!(
                    whole || answer.reset == Some(code::INTERNAL_ERROR),
                    "{:?}",
                    answer.reset
                );
                assert_eq!(
                    whole,
                    answer.body.len() == LARGE,
                    "what is not whole is not ended as if it were"
                );
                return (answer.body, whole);
            }
        }
        let whole = read.len() == LARGE;
        (read, whole)
    }
}

/// Reads `len` bytes, or fewer if the connection ends before.
fn http_end<S: std::io::Read + Write>(http: &mut Http<S>, len: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < len && http.has_more() {
        read.extend(http.unread());
    }
    read
}

#[test]
fn a_file_replaced_during_a_download_is_sent_whole() {
    let www = Www::new();
    let (old, new) = (bytes(1, LARGE), bytes(2, LARGE));
    let served = Served::start(&www, "");
    for way in WAYS {
        let client = served.connect(way);
        let name = format!("{way:?}.bin");
        www.write(&name, &old);
        let path = format!("/{name}");
        let (slow, read) = Slow::begin(&served, &client, &path);
        www.replace(&name, &new);
        let (read, whole) = slow.end(read);
        assert!(whole, "{way:?}: {} bytes", read.len());
        assert!(read == old, "{way:?}: all of the old one");
        eventually("the new file", || {
            let answer = served.connect(way).get(&path, &[("Range", "bytes=0-999")]);
            (answer.body == new[..1_000]).then_some(())
        });
        // With another mode, without a name: it is the same file.
        let (slow, read) = Slow::begin(&served, &client, &path);
        fs::set_permissions(www.path(&name), fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(www.path(&name)).unwrap();
        let (read, whole) = slow.end(read);
        assert!(whole && read == new, "{way:?}: {} bytes", read.len());
    }
}

#[test]
fn a_file_truncated_during_a_download_is_cut_off() {
    let www = Www::new();
    let content = bytes(1, LARGE);
    let served = Served::start(&www, "");
    for way in WAYS {
        // The kernel shares the file's own pages with bytes under way, and blanks the page that it
        // cuts: the test does not cut within them.
        for len in [0, LARGE as u64 - 1] {
            let name = format!("{way:?}-{len}.bin");
            let file = www.write(&name, &content);
            let client = served.connect(way);
            let (slow, read) = Slow::begin(&served, &client, &format!("/{name}"));
            fs::File::options()
                .write(true)
                .open(&file)
                .unwrap()
                .set_len(len)
                .unwrap();
            let (read, whole) = slow.end(read);
            assert!(!whole, "{way:?} {len}");
            assert!(
                content.starts_with(&read),
                "{way:?} {len}: {} bytes",
                read.len()
            );
            fs::remove_file(file).unwrap();
        }
    }
    served.gate.line("why", |line| {
        line["detail"]
            .as_str()
            .is_some_and(|why| why.contains("changed while it was sent"))
    });
}

#[test]
fn a_file_overwritten_during_a_download_is_cut_off() {
    let www = Www::new();
    let content = bytes(1, LARGE);
    let served = Served::start(&www, "");
    for way in WAYS {
        let name = format!("{way:?}.bin");
        let path = www.write(&name, &content);
        let client = served.connect(way);
        let (slow, read) = Slow::begin(&served, &client, &format!("/{name}"));
        let mut file = fs::File::options().write(true).open(&path).unwrap();
        file.rewind().unwrap();
        file.write_all(&bytes(2, LARGE)).unwrap();
        let (read, whole) = slow.end(read);
        assert!(!whole, "{way:?}: {} bytes", read.len());
        fs::remove_file(path).unwrap();
    }
}

/// A file under constant writes never has the same stamp before and after a read, and its last
/// content is seen.
#[test]
fn a_constantly_changing_file_does_no_harm() {
    const SIZE: usize = 60_000;
    let www = Www::new();
    www.write("a.bin", vec![b'a'; SIZE]);
    for number in 0..500 {
        fs::hard_link(www.path("a.bin"), www.path(format!("{number}.bin"))).unwrap();
    }
    let gate = www.start("");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::File::options()
                .write(true)
                .open(www.path("a.bin"))
                .unwrap();
            for letter in (b'a'..=b'y').cycle() {
                file.set_len(letter.into()).unwrap();
                file.write_all_at(&[letter; SIZE], 0).unwrap();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
            file.write_all_at(&[b'z'; SIZE], 0).unwrap();
        });
        let mut client = Http::connect(gate.address());
        for number in 0..500 {
            // A new name is not cached. The length of its head is exact, or reading the next
            // response fails.
            let answer = ask_over(&mut client, "GET", &format!("/{number}.bin"), &[]);
            assert!(
                matches!(answer.status, 200 | 503),
                "{number}: {}",
                answer.status
            );
        }
        done.store(true, Ordering::Relaxed);
    });
    for number in 0..500 {
        eventually("what was written last", || {
            (get(&gate, &format!("/{number}.bin"), &[]).body == [b'z'; SIZE]).then_some(())
        });
    }
}

/// RFC 9110 §8.8.3: of two contents no tag is the same, even if all else is.
#[test]
fn a_rolled_back_file_has_a_new_etag() {
    let www = Www::new();
    for (name, size) in [("small", 10), ("large", 100_000)] {
        let contents = ["1", "2", "1", "3"].map(|letter| letter.repeat(size));
        www.write(name, &contents[0]);
        let gate = www.start("");
        let path = format!("/{name}");
        let mut seen = vec![get(&gate, &path, &[]).field("etag").unwrap().to_owned()];
        for content in &contents[1..] {
            // Of the same size and time; another file.
            www.replace(name, content);
            let answer = eventually("the other content", || {
                let answer = get(&gate, &path, &[]);
                (answer.body == content.as_bytes()).then_some(answer)
            });
            let etag = answer.field("etag").unwrap().to_owned();
            assert_ne!(seen.last(), Some(&etag), "{name}");
            assert_eq!(
                get(&gate, &path, &[("If-None-Match", seen.last().unwrap())]).status,
                200
            );
            seen.push(etag);
        }
        // As `cp -p` writes over it: the same file, size and time.
        for content in &contents {
            www.write(name, content);
            let answer = eventually("the other content", || {
                let answer = get(&gate, &path, &[]);
                (answer.body == content.as_bytes()).then_some(answer)
            });
            let etag = answer.field("etag").unwrap().to_owned();
            assert_ne!(seen.last(), Some(&etag), "{name}, in its place");
            seen.push(etag);
        }
    }
}

#[test]
fn created_and_removed_files_are_noticed() {
    let www = Www::with(&[("a", "a"), ("folder/index.html", "index")]);
    let gate = www.start("clean_urls = true");
    check(
        &gate,
        &[
            ("/a", 200, "a"),
            ("/b", 404, ""),
            ("/folder/", 200, "index"),
        ],
    );
    www.write("b", "b");
    check(&gate, &[("/b", 200, "b")]);
    let becomes = |path: &str, status| {
        eventually(path, || {
            (get(&gate, path, &[]).status == status).then_some(())
        });
    };
    fs::remove_file(www.path("a")).unwrap();
    becomes("/a", 404);
    www.write("a/index.html", "now a folder");
    becomes("/a", 308);
    www.write("a.html", "now a page");
    becomes("/a", 200);
    fs::remove_file(www.path("folder/index.html")).unwrap();
    becomes("/folder/", 404);
    fs::rename(www.path("b"), www.path("c")).unwrap();
    becomes("/b", 404);
    check(&gate, &[("/c", 200, "b")]);
}

/// A file that was read while it was written is read again: a change within the same tick of the
/// clock has the same time.
#[test]
fn a_file_written_within_the_clock_tick_is_read_again() {
    let www = Www::new();
    let path = www.path("a");
    fs::write(&path, "1").unwrap();
    let gate = www.start("");
    for round in 2_u32..40 {
        let content = (round % 10).to_string();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(content.as_bytes(), 0).unwrap();
        if round % 13 == 0 {
            eventually("what was written last", || {
                (get(&gate, "/a", &[]).text() == content).then_some(())
            });
        } else {
            get(&gate, "/a", &[]);
        }
    }
}
