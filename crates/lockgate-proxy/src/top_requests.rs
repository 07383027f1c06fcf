//! What is asked for most: hosts, pages, and the sites that send visitors.
//!
//! Bounded counts of one worker, for `/top`. The counters of [`metrics`](crate::metrics) are
//! exact; this is what they cannot tell, because a client chooses the names.

use foldhash::fast::RandomState;
use lockgate_metrics::{Top, TopSnapshot};
use lockgate_net::millis::Millis;

/// Hosts that one worker tracks: as a rule, all there are.
const HOSTS: usize = 256;
const PAGES: usize = 1024;
const REFERERS: usize = 256;
/// Most bytes of a page: its host and its path.
const PAGE: usize = 256;
/// Most bytes of a referer's host: of a name in the DNS, with a port.
const HOST: usize = 261;

/// Requests that are looked at in one second before only samples are.
const LOOKED_AT: u32 = 200;
/// From then on one in so many, and it counts for them all.
const ONE_IN: u32 = 16;

/// The counts of one worker. A request counts 1 as *received*, so the rates are requests per
/// second.
#[derive(Debug)]
pub struct TopRequests {
    hosts: Top<Box<str>, RandomState>,
    pages: Top<Box<str>, RandomState>,
    referers: Top<Box<str>, RandomState>,
    /// The page of this request, before it is known whether it has an entry.
    page: String,
    second: u64,
    seen: u32,
}

impl Default for TopRequests {
    fn default() -> Self {
        let [hosts, pages, referers] =
            [HOSTS, PAGES, REFERERS].map(|keys| Top::with_hasher(keys, RandomState::default()));
        Self {
            hosts,
            pages,
            referers,
            page: String::with_capacity(PAGE),
            second: 0,
            seen: 0,
        }
    }
}

impl TopRequests {
    /// Counts a request; `now` is of any clock, the same for all calls of all workers.
    ///
    /// `host` is the name in the configuration, or `other`. `what` gives the path and the referer,
    /// if it is called. The path may have a query, which is left out: it is not the page, and may
    /// hold secrets. Without a path only the host counts: for responses that are not a page, so
    /// that a client that asks for a thousand names that do not exist does not push out those that
    /// do.
    pub fn record<'a>(
        &mut self,
        now: Millis,
        host: &str,
        what: impl FnOnce() -> (Option<&'a [u8]>, Option<&'a [u8]>),
    ) {
        let Some(weight) = self.weight(now) else {
            return;
        };
        let now = now.as_u64();
        self.hosts.add_borrowed(host, now, weight, 0);
        let (Some(path), referer) = what() else {
            return;
        };
        self.page.clear();
        self.page.push_str(host);
        let path = path
            .split(|&byte| matches!(byte, b'?' | b'#'))
            .next()
            .unwrap_or_default();
        let room = PAGE.saturating_sub(host.len());
        let is_cut = path.len() > room;
        // A target is ASCII (RFC 9112 §3.2, RFC 3986 §2); should one come that is not, it is still
        // one text.
        self.page.extend(path.iter().take(room).map(|&byte| {
            if byte.is_ascii() {
                char::from(byte)
            } else {
                '?'
            }
        }));
        if is_cut {
            self.page.push('…');
        }
        self.pages.add_borrowed(self.page.as_str(), now, weight, 0);
        if let Some(from) = referer.and_then(host_of)
            && !from.eq_ignore_ascii_case(host)
        {
            self.referers.add_borrowed(from, now, weight, 0);
        }
    }

    /// For how many requests this one counts; `None` if another one counts for it.
    ///
    /// A thousand requests a second can be judged by samples. Looking at each would cost as much
    /// again as the rest of the counting, above all where every name is a new one.
    fn weight(&mut self, now: Millis) -> Option<u64> {
        let second = now.as_u64() / 1_000;
        if second != self.second {
            self.second = second;
            self.seen = 0;
        }
        self.seen = self.seen.saturating_add(1);
        match self.seen {
            0..=LOOKED_AT => Some(1),
            more if (more - LOOKED_AT).is_multiple_of(ONE_IN) => Some(u64::from(ONE_IN)),
            _ => None,
        }
    }

    /// Reads all of it; `now` as in [`record`](Self::record).
    pub fn snapshot(&self, now: Millis) -> TopRequestsSnapshot {
        let now = now.as_u64();
        TopRequestsSnapshot {
            hosts: self.hosts.snapshot(now),
            pages: self.pages.snapshot(now),
            referers: self.referers.snapshot(now),
        }
    }
}

/// The counts of one worker, or of several merged, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopRequestsSnapshot {
    /// Requests per host of the configuration.
    pub hosts: TopSnapshot<Box<str>>,
    /// Requests per page: host and path.
    pub pages: TopSnapshot<Box<str>>,
    /// Requests that came from another host's pages, by that host.
    pub referers: TopSnapshot<Box<str>>,
}

impl TopRequestsSnapshot {
    /// Adds up the counts of several workers.
    pub fn merge(snapshots: impl IntoIterator<Item = Self>) -> Self {
        let (mut hosts, mut pages, mut referers) = (Vec::new(), Vec::new(), Vec::new());
        for snapshot in snapshots {
            hosts.push(snapshot.hosts);
            pages.push(snapshot.pages);
            referers.push(snapshot.referers);
        }
        Self {
            hosts: TopSnapshot::merge(hosts),
            pages: TopSnapshot::merge(pages),
            referers: TopSnapshot::merge(referers),
        }
    }
}

/// The host, with its port, of an absolute URL of the web; `None` for anything else.
fn host_of(url: &[u8]) -> Option<&str> {
    let scheme_ends = url.windows(3).take(6).position(|three| three == b"://")?;
    let (scheme, rest) = url.split_at_checked(scheme_ends)?;
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return None;
    }
    let authority = rest
        .get(3..)?
        .split(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .next()?;
    // A user and a password have no place here.
    let host = authority.rsplit(|&byte| byte == b'@').next()?;
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
    let fits = (1..=HOST).contains(&host.len()) && host.iter().all(is_host);
    std::str::from_utf8(host).ok().filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_metrics::TopOrder;

    fn listed(snapshot: &TopSnapshot<Box<str>>) -> Vec<(String, u64)> {
        let listing = snapshot.top(10, TopOrder::Bytes);
        listing
            .entries
            .iter()
            .map(|entry| (entry.key.to_string(), entry.traffic.received))
            .collect()
    }

    fn owned(list: &[(&str, u64)]) -> Vec<(String, u64)> {
        list.iter()
            .map(|&(key, count)| (key.to_owned(), count))
            .collect()
    }

    #[test]
    fn top_hosts_pages_and_referers_omit_queries_and_credentials() {
        let mut top_requests = TopRequests::default();
        for (host, path, referer) in [
            (
                "a.example",
                Some("/x?token=1"),
                Some("https://user:pass@news.example/item?id=1"),
            ),
            ("a.example", Some("/x?token=2"), Some("http://news.example")),
            ("a.example", Some("/y#z"), Some("https://A.example/x")),
            ("b.example", Some("/"), None),
            ("other", None, Some("https://ignored.example/")),
        ] {
            top_requests.record(Millis::new(5_000), host, || {
                (path.map(str::as_bytes), referer.map(str::as_bytes))
            });
        }
        let snapshot = TopRequestsSnapshot::merge([
            top_requests.snapshot(Millis::new(5_000)),
            top_requests.snapshot(Millis::new(5_000)),
        ]);
        let hosts = listed(&snapshot.hosts);
        assert_eq!(hosts[0], ("a.example".to_owned(), 6));
        assert_eq!(hosts.len(), 3);
        assert_eq!(listed(&snapshot.pages)[0], ("a.example/x".to_owned(), 4));
        assert_eq!(listed(&snapshot.pages).len(), 3);
        assert_eq!(listed(&snapshot.referers), owned(&[("news.example", 4)]));
    }

    #[test]
    fn a_top_referer_is_a_web_host_or_nothing() {
        for (url, expected) in [
            ("https://example.com/a", Some("example.com")),
            ("HTTP://example.com:8080", Some("example.com:8080")),
            ("https://[2001:db8::1]/", Some("[2001:db8::1]")),
            ("https://a@b@c.example?x", Some("c.example")),
            ("android-app://com.example/", None),
            ("about:blank", None),
            ("/relative", None),
            ("https:///", None),
            ("https://a b/", None),
            ("https://<script>/", None),
            ("https://b\u{fc}cher.example/", None),
            ("", None),
        ] {
            assert_eq!(host_of(url.as_bytes()), expected, "{url}");
        }
        assert_eq!(
            host_of(format!("https://{}/", "a".repeat(HOST + 1)).as_bytes()),
            None
        );
    }

    #[test]
    fn top_requests_are_sampled_only_in_busy_seconds() {
        let mut top_requests = TopRequests::default();
        let requests = LOOKED_AT + 1_000 * ONE_IN;
        (0..requests)
            .for_each(|_| top_requests.record(Millis::new(1_500), "a", || (Some(b"/"), None)));
        assert_eq!(
            listed(&top_requests.snapshot(Millis::new(1_500)).hosts),
            owned(&[("a", u64::from(requests))])
        );
        top_requests.record(Millis::new(2_000), "a", || (Some(b"/"), None));
        assert_eq!(
            listed(&top_requests.snapshot(Millis::new(2_000)).pages),
            owned(&[("a/", u64::from(requests) + 1)])
        );
    }

    #[test]
    fn top_requests_are_found_in_bounded_memory() {
        let mut top_requests = TopRequests::default();
        for n in 0..50_000_u64 {
            // Each in a second of its own, so that each is sampled.
            let path = format!("/{n}/{}", "x".repeat(1_000));
            let referer = format!("https://{n}.example/");
            top_requests.record(Millis::new(n * 1_000), "a", || {
                (Some(path.as_bytes()), Some(referer.as_bytes()))
            });
            if n.is_multiple_of(10) {
                top_requests.record(Millis::new(n * 1_000), "a", || {
                    (Some(b"/popular"), Some(b"https://often.example/"))
                });
            }
        }
        let snapshot = top_requests.snapshot(Millis::ZERO);
        assert_eq!(
            (snapshot.pages.tracked(), snapshot.referers.tracked()),
            (PAGES, REFERERS)
        );
        let page = |entry: &str| entry.len() <= PAGE + '…'.len_utf8();
        assert!(
            snapshot
                .pages
                .top(PAGES, TopOrder::Bytes)
                .entries
                .iter()
                .all(|entry| page(&entry.key))
        );
        assert_eq!(listed(&snapshot.pages)[0].0, "a/popular");
        assert_eq!(listed(&snapshot.referers)[0].0, "often.example");
    }

    /// By hand: `cargo test --release -p lockgate-proxy --lib cost_of_a_request -- --ignored
    /// --nocapture`
    #[test]
    #[ignore = "prints figures, for people"]
    fn cost_of_a_request() {
        for (what, names, per_second) in [
            ("few names, busy", 100, 50_000),
            ("new names, busy", u64::MAX, 50_000),
            ("new names, quiet", u64::MAX, 100),
        ] {
            let mut top_requests = TopRequests::default();
            let paths: Vec<String> = (0..100_000_u64)
                .map(|n| format!("/page/{}", n % names))
                .collect();
            let began = std::time::Instant::now();
            for (n, path) in paths.iter().enumerate() {
                let now = n as u64 * 1_000 / per_second;
                top_requests.record(Millis::new(now), "a.example", || {
                    (Some(path.as_bytes()), Some(b"https://b.example/"))
                });
            }
            println!(
                "{what}: {} ns a request",
                began.elapsed().as_nanos() / 100_000
            );
        }
    }
}
