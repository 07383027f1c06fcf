//! Whole files, ranges of them, and conditions (RFC 9110 §13, §14), over every transport and of
//! every size.

use lockgate_testkit::bytes;

use super::*;

/// Name and size: around the limits of what is held in memory and what is read at once.
const SIZES: [(&str, usize); 6] = [
    ("/0.bin", 0),
    ("/1.bin", 1),
    ("/64k.bin", 64 * 1024),
    ("/64k1.bin", 64 * 1024 + 1),
    ("/1m.bin", 1024 * 1024),
    ("/5m.bin", 5 * 1024 * 1024),
];

const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn content(name: &str, size: usize) -> Vec<u8> {
    bytes(name.len() as u64 + size as u64, size)
}

fn all_sizes() -> (Www, Served) {
    let www = Www::new();
    for (path, size) in SIZES {
        www.write(&path[1..], content(path, size));
    }
    let served = Served::start(&www, "");
    (www, served)
}

#[track_caller]
fn assert_same_bytes(found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let differs = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found != expected);
    assert_eq!(differs, None, "{what}");
}

#[test]
fn files_of_every_size_arrive_exactly_and_head_agrees() {
    let (_www, served) = all_sizes();
    for way in WAYS {
        let mut client = served.connect(way);
        // Twice: as it is read, and as it is remembered.
        for (path, size) in SIZES.into_iter().chain(SIZES) {
            let what = format!("{way:?} {path}");
            let answer = client.get(path, &[]);
            assert_eq!(answer.status, 200, "{what}");
            assert_same_bytes(&answer.body, &content(path, size), &what);
            assert_eq!(
                answer.field("content-length"),
                Some(&*size.to_string()),
                "{what}"
            );
            assert_eq!(answer.field("last-modified"), Some(CHANGED_TEXT), "{what}");
            assert_eq!(answer.field("accept-ranges"), Some("bytes"), "{what}");
            assert_eq!(
                answer.field("content-type"),
                Some("application/octet-stream"),
                "{what}"
            );
            assert!(
                answer.field("date").is_some() && answer.field("etag").is_some(),
                "{what}"
            );
            let head = client.ask("HEAD", path, &[]);
            assert_eq!((head.status, &*head.body), (200, &b""[..]), "{what}");
            assert_eq!(head.lasting(), answer.lasting(), "RFC 9110 §9.3.2: {what}");
        }
    }
}

/// RFC 9110 §14.2, §14.4, §15.3.7, §15.5.17.
#[test]
fn a_range_of_every_file_arrives_exactly() {
    let (_www, served) = all_sizes();
    for way in WAYS {
        let mut client = served.connect(way);
        for (path, size) in SIZES.into_iter().filter(|(_, size)| *size > 0) {
            let whole = content(path, size);
            let (end, middle) = (size - 1, size / 2);
            for (range, first, last) in [
                ("bytes=0-".to_owned(), 0, end),
                ("bytes=0-0".to_owned(), 0, 0),
                ("bytes=-1".to_owned(), end, end),
                (format!("bytes={end}-"), end, end),
                (format!("bytes={middle}-{end}"), middle, end),
                (format!("bytes=0-{}", size + 100), 0, end),
                (format!("bytes=-{}", size + 100), 0, end),
                (format!("bytes={}-{}", size / 3, middle), size / 3, middle),
                ("BYTES=0-0".to_owned(), 0, 0),
                // Of several ranges only one is satisfiable.
                (format!("bytes=0-0,{size}-"), 0, 0),
            ] {
                let what = format!("{way:?} {path} {range}");
                let answer = client.get(path, &[("Range", &range)]);
                assert_eq!(answer.status, 206, "{what}");
                let said = format!("bytes {first}-{last}/{size}");
                assert_eq!(answer.field("content-range"), Some(&*said), "{what}");
                assert_eq!(
                    answer.field("content-type"),
                    Some("application/octet-stream"),
                    "{what}"
                );
                assert_same_bytes(&answer.body, &whole[first..=last], &what);
                assert!(
                    answer.field("etag").is_some() && answer.field("date").is_some(),
                    "§15.3.7: {what}"
                );
            }
            for range in [
                format!("bytes={size}-"),
                format!("bytes={size}-{}", size + 1),
                "bytes=-0".to_owned(),
            ] {
                let what = format!("{way:?} {path} {range}");
                let answer = client.get(path, &[("Range", &range)]);
                assert_eq!((answer.status, &*answer.body), (416, &b""[..]), "{what}");
                assert_eq!(
                    answer.field("content-range"),
                    Some(&*format!("bytes */{size}")),
                    "{what}"
                );
            }
        }
        for range in ["bytes=0-0", "bytes=-1", "bytes=5-"] {
            let answer = client.get("/0.bin", &[("Range", range)]);
            assert_eq!(
                (answer.status, &*answer.body),
                (200, &b""[..]),
                "of nothing there are no parts: {range}"
            );
        }
        let head = client.ask("HEAD", "/1m.bin", &[("Range", "bytes=0-0")]);
        assert_eq!(
            (head.status, head.field("content-length")),
            (200, Some("1048576")),
            "§14.2: {way:?}"
        );
    }
}

/// Takes the text before `until`, and `until` itself.
fn take<'a>(rest: &mut &'a [u8], until: &[u8]) -> &'a [u8] {
    let at = rest
        .windows(until.len())
        .position(|window| window == until)
        .unwrap();
    let (taken, behind) = rest.split_at(at);
    *rest = &behind[until.len()..];
    taken
}

/// Parses a multipart body (RFC 2046 §5.1, RFC 9110 §14.6): the Content-Range and the content of
/// each part.
fn parts(answer: &Answer) -> Vec<(String, Vec<u8>)> {
    let said = answer.field("content-type").unwrap();
    let boundary = said
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("a multipart")
        .trim_matches('"');
    let mut rest = &*answer.body;
    let mut parts = Vec::new();
    assert_eq!(
        take(&mut rest, format!("--{boundary}").as_bytes()).trim_ascii(),
        b""
    );
    loop {
        let head = String::from_utf8(take(&mut rest, b"\r\n\r\n").to_vec()).unwrap();
        assert!(
            head.to_lowercase()
                .contains("\r\ncontent-type: application/octet-stream"),
            "{head}"
        );
        let range = head
            .split("\r\n")
            .find_map(|line| line.strip_prefix("Content-Range: "))
            .unwrap();
        let content = take(&mut rest, format!("\r\n--{boundary}").as_bytes()).to_vec();
        parts.push((range.to_owned(), content));
        if rest.starts_with(b"--") {
            assert_eq!(rest.trim_ascii(), b"--");
            return parts;
        }
    }
}

#[test]
fn several_ranges_arrive_as_multipart_with_content_length() {
    let (_www, served) = all_sizes();
    for way in WAYS {
        let mut client = served.connect(way);
        for (path, size) in SIZES.into_iter().filter(|(_, size)| *size > 1_000) {
            let whole = content(path, size);
            let (middle, end) = (size / 2, size - 1);
            let range = format!("bytes=0-0, {middle}-{}, -100", middle + 70);
            let answer = client.get(path, &[("Range", &range)]);
            let what = format!("{way:?} {path}");
            assert_eq!(
                (answer.status, answer.field("content-range")),
                (206, None),
                "§15.3.7.2: {what}"
            );
            assert_eq!(
                answer.field("content-length"),
                Some(&*answer.body.len().to_string()),
                "{what}"
            );
            let parts = parts(&answer);
            let expected = [(0, 0), (middle, middle + 70), (end - 99, end)];
            assert_eq!(parts.len(), expected.len(), "{what}");
            for ((range, found), (first, last)) in parts.iter().zip(expected) {
                assert_eq!(*range, format!("bytes {first}-{last}/{size}"), "{what}");
                assert_same_bytes(found, &whole[first..=last], &what);
            }
        }
    }
}

/// CVE-2011-3192. RFC 9110 §14.2: a server may pass over many small or overlapping ranges.
#[test]
fn ten_thousand_ranges_are_ignored() {
    let www = Www::new();
    www.write("a", content("a", 100_000));
    let served = Served::start(&www, "");
    let many = |count: usize, range: &str| format!("bytes={}", vec![range; count].join(","));
    for way in WAYS {
        let mut client = served.connect(way);
        for range in [
            many(10_000, "0-"),
            many(10_000, "1"),
            many(33, "0-0"),
            many(2, "0-"),
            "bytes=0-0;".repeat(999),
        ] {
            let answer = client.get("/a", &[("Range", &range)]);
            if answer.status == 431 {
                // Longer than a head may be: the connection is closed.
                client = served.connect(way);
                continue;
            }
            let what = format!("{way:?} {} bytes {:.20}", range.len(), range);
            assert_eq!(answer.status, 200, "{what}");
            assert_same_bytes(&answer.body, &content("a", 100_000), &what);
        }
    }
}

/// RFC 9110 §13.2.2: If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since, If-Range, in
/// this order.
#[test]
fn preconditions_are_evaluated_in_order() {
    let (_www, served) = all_sizes();
    for way in WAYS {
        // From memory, and from a descriptor.
        for (path, size) in SIZES
            .into_iter()
            .filter(|(_, size)| (1..100_000).contains(size))
        {
            let mut client = served.connect(way);
            let etag = client.get(path, &[]).field("etag").unwrap().to_owned();
            let weak = format!("W/{etag}");
            let listed = format!("\"x\", {etag}, W/\"y\"");
            let (etag, weak, listed, other) = (&*etag, &*weak, &*listed, "\"x\"");
            let (at, part) = (CHANGED_TEXT, ("Range", "bytes=0-0"));
            let absurd = "\"x\",".repeat(1_000);
            let cases: &[(&[Line<'_>], u16)] = &[
                (&[("If-Match", etag)], 200),
                (&[("If-Match", listed)], 200),
                (&[("If-Match", "*")], 200),
                (&[("If-Match", other)], 412),
                // §13.1.1: strong comparison.
                (&[("If-Match", weak)], 412),
                (&[("If-Match", "")], 412),
                (&[("If-Unmodified-Since", at)], 200),
                (&[("If-Unmodified-Since", AFTER)], 200),
                (&[("If-Unmodified-Since", BEFORE)], 412),
                (&[("If-Unmodified-Since", "no date")], 200),
                // Step 2 only without If-Match.
                (&[("If-Match", etag), ("If-Unmodified-Since", BEFORE)], 200),
                (&[("If-Match", other), ("If-Unmodified-Since", AFTER)], 412),
                (&[("If-None-Match", etag)], 304),
                (&[("If-None-Match", weak)], 304),
                (&[("If-None-Match", listed)], 304),
                (&[("If-None-Match", "*")], 304),
                (&[("If-None-Match", other)], 200),
                (&[("If-None-Match", other), ("If-None-Match", etag)], 304),
                (&[("If-None-Match", &absurd)], 200),
                (&[("If-None-Match", "\"")], 200),
                (&[("If-None-Match", ",,,,")], 200),
                (&[("If-Modified-Since", at)], 304),
                (&[("If-Modified-Since", AFTER)], 304),
                (&[("If-Modified-Since", BEFORE)], 200),
                (
                    &[("If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT")],
                    304,
                ),
                (&[("If-Modified-Since", "Sun Nov  6 08:49:37 1994")], 304),
                (
                    &[("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 CET")],
                    200,
                ),
                (
                    &[("If-Modified-Since", "Fri, 99 Zzz 99999 99:99:99 GMT")],
                    200,
                ),
                (
                    &[("If-Modified-Since", "Fri, 31 Dec 9999 23:59:59 GMT")],
                    200,
                ),
                (&[("If-Modified-Since", "-1")], 200),
                // Step 4 only without If-None-Match.
                (&[("If-None-Match", other), ("If-Modified-Since", at)], 200),
                (
                    &[("If-None-Match", etag), ("If-Modified-Since", BEFORE)],
                    304,
                ),
                // Steps 1 and 2 go before 3 and 4.
                (&[("If-Match", other), ("If-None-Match", etag)], 412),
                (&[("If-Match", etag), ("If-None-Match", etag)], 304),
                (
                    &[("If-Unmodified-Since", BEFORE), ("If-None-Match", etag)],
                    412,
                ),
                (
                    &[("If-Unmodified-Since", BEFORE), ("If-Modified-Since", at)],
                    412,
                ),
                // Step 5, and ranges behind all of them.
                (&[part], 206),
                (&[part, ("If-Range", etag)], 206),
                (&[part, ("If-Range", at)], 206),
                (&[part, ("If-Range", weak)], 200),
                (&[part, ("If-Range", other)], 200),
                (&[part, ("If-Range", AFTER)], 200),
                (&[part, ("If-Range", "?")], 200),
                (&[part, ("If-None-Match", etag)], 304),
                (&[part, ("If-Match", other)], 412),
                (&[part, ("If-Range", etag), ("If-None-Match", other)], 206),
                (
                    &[("Range", "bytes=99999999-"), ("If-None-Match", etag)],
                    304,
                ),
                (&[("Range", "bytes=99999999-"), ("If-Match", other)], 412),
                (&[("Range", "bytes=99999999-"), ("If-Range", other)], 200),
                (&[("Range", "bytes=99999999-"), ("If-Range", etag)], 416),
                (&[("If-Range", etag)], 200),
            ];
            let whole = client.get(path, &[]);
            for (fields, status) in cases {
                let what = format!("{way:?} {path} {fields:?}");
                let answer = client.get(path, fields);
                assert_eq!(answer.status, *status, "{what}");
                match *status {
                    200 => assert_same_bytes(&answer.body, &whole.body, &what),
                    206 => assert_same_bytes(&answer.body, &whole.body[..1], &what),
                    304 => {
                        assert_eq!(answer.body, b"");
                        // §15.4.5: the fields that a 200 would have had.
                        for name in [
                            "etag",
                            "vary",
                            "cache-control",
                            "expires",
                            "content-location",
                        ] {
                            assert_eq!(answer.field(name), whole.field(name), "{what}: {name}");
                        }
                        assert!(answer.field("date").is_some(), "{what}");
                        for name in ["content-type", "content-range", "content-encoding"] {
                            assert_eq!(answer.field(name), None, "{what}: {name}");
                        }
                        // That of nothing would be wrong.
                        let length = answer.field("content-length");
                        assert!(
                            length.is_none_or(|length| length == size.to_string()),
                            "{what}"
                        );
                    }
                    412 => {
                        assert_eq!(
                            (answer.field("content-range"), &*answer.body),
                            (None, &b""[..]),
                            "{what}"
                        );
                    }
                    _ => assert_eq!(
                        answer.field("content-range"),
                        Some(&*format!("bytes */{size}"))
                    ),
                }
            }
            // HEAD is answered as GET, except for ranges.
            for (fields, status) in cases
                .iter()
                .filter(|(_, status)| matches!(status, 200 | 304 | 412))
            {
                assert_eq!(
                    client.ask("HEAD", path, fields).status,
                    *status,
                    "HEAD {fields:?}"
                );
            }
        }
    }
}

/// RFC 9110 §13.1.5: a part of a changed file would not fit to the parts that the client has.
#[test]
fn if_range_never_mixes_parts_of_a_replaced_file() {
    let www = Www::new();
    www.write("a", "first content");
    let gate = www.start("");
    let etag = get(&gate, "/a", &[]).field("etag").unwrap().to_owned();
    www.replace("a", "other content");
    let part = ("Range", "bytes=0-4");
    let answer = lockgate_testkit::eventually("the new file", || {
        let answer = get(&gate, "/a", &[part, ("If-Range", &etag)]);
        (answer.status != 206).then_some(answer)
    });
    assert_eq!((answer.status, answer.text()), (200, "other content"));
    assert_eq!(get(&gate, "/a", &[("If-Match", &etag), part]).status, 412);
}

/// RFC 9110 §8.8.2.1: a modification date in the future is not sent.
#[test]
fn last_modified_is_never_later_than_date() {
    let www = Www::with(&[("a.txt", "a")]);
    touch(&www.path("a.txt"), 4_102_444_800);
    let gate = www.start("listing = true");
    let answer = get(&gate, "/a.txt", &[]);
    assert_eq!(answer.status, 200);
    assert_ne!(
        answer.field("last-modified"),
        Some("Fri, 01 Jan 2100 00:00:00 GMT")
    );
    // Beyond the dates of HTTP, and before 1970.
    for seconds in [i64::MAX / 1_000_000_000, -1_000_000_000] {
        let time = match u64::try_from(seconds) {
            Ok(after) => SystemTime::UNIX_EPOCH + Duration::from_secs(after),
            Err(_) => SystemTime::UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()),
        };
        fs::File::options()
            .write(true)
            .open(www.path("a.txt"))
            .unwrap()
            .set_modified(time)
            .unwrap();
        for path in ["/a.txt", "/"] {
            assert_eq!(get(&gate, path, &[]).status, 200, "{seconds}");
        }
    }
}

/// RFC 6585 §5.
#[test]
fn a_megabyte_of_accept_encoding_is_refused() {
    let www = Www::with(&[("a.txt", "a"), ("a.txt.gz", "not really")]);
    let served = Served::start(&www, "");
    let long = "gzip;q=0.001,".repeat(80_000);
    for way in [Way::Plain, Way::Secure] {
        assert_eq!(
            served
                .connect(way)
                .get("/a.txt", &[("Accept-Encoding", &long)])
                .status,
            431,
            "{way:?}"
        );
    }
    // A field within the limit is read once.
    let long = "gzip;q=0.001,br;q=x,".repeat(1_500);
    for way in WAYS {
        let answer = served
            .connect(way)
            .get("/a.txt", &[("Accept-Encoding", &long)]);
        assert!(
            matches!(answer.status, 200 | 431),
            "{way:?} {}",
            answer.status
        );
    }
}
