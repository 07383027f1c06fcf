//! The events of the live page of the metrics address: what the process does now, and did in the last hour.
//!
//! A page gets server-sent events (HTML Living Standard §9.2) with the figures of the admin socket:
//! `now` every two seconds, `history` every ten. Events are made once for all pages, and without a
//! page only the samples of the history are taken. A page that does not read misses events.

mod history;
mod rows;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::exposition::Exposition;
use crate::metrics_server::Readiness;
use crate::views::{self, RecentCounts, StatusView};

use history::{History, Totals};
use rows::{endpoint_rows, site_rows};

/// The time between two events with the present figures.
const NOW_EVERY: Duration = Duration::from_secs(2);
/// Of so many of them one comes with a sample of the history.
const OF_STEP: u32 = (history::STEP.as_secs() / NOW_EVERY.as_secs()) as u32;
/// The most pages at once.
const PAGES: usize = 16;
/// Events that wait for a page.
const WAITING: usize = 4;
/// The time that the figures of a moment look back.
const BACK: Duration = Duration::from_secs(10);
/// The least time that they look back.
const APART: Duration = Duration::from_secs(1);
/// The most errors of an event.
const ERRORS: usize = 50;

/// The sources of the page, and the pages that are open.
pub(crate) struct LivePage {
    exposition: Arc<ArcSwap<Exposition>>,
    readiness: Arc<Readiness>,
    workers: usize,
    history: Mutex<History>,
    pools: RecentCounts,
    sites: RecentCounts,
    totals: Mutex<VecDeque<(Instant, Totals)>>,
    pages: Mutex<Vec<mpsc::Sender<Bytes>>>,
}

/// Closes the pages when it is dropped: their address is served no more, or by another process, to
/// which browsers connect again.
pub(crate) struct PagesGuard(pub(crate) Arc<LivePage>);

impl Drop for PagesGuard {
    fn drop(&mut self) {
        locked(&self.0.pages).clear();
    }
}

impl LivePage {
    /// The page of a server with so many `workers`.
    pub(crate) fn new(
        exposition: Arc<ArcSwap<Exposition>>,
        readiness: Arc<Readiness>,
        workers: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            exposition,
            readiness,
            workers,
            history: Mutex::default(),
            pools: RecentCounts::default(),
            sites: RecentCounts::default(),
            totals: Mutex::default(),
            pages: Mutex::default(),
        })
    }

    /// Takes the samples of the history, and sends events to the pages.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(NOW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for tick in (0..OF_STEP).cycle() {
            ticks.tick().await;
            if tick == 0 {
                self.sample();
            }
            if self.has_pages() {
                if tick == 0 {
                    self.send(self.history());
                }
                self.send(self.now());
            }
        }
    }

    /// The events for a further page; none where there are [`PAGES`].
    pub(crate) fn open(&self) -> Option<mpsc::Receiver<Bytes>> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let is_open = {
            let mut pages = locked(&self.pages);
            pages.retain(|page| !page.is_closed());
            let has_room = pages.len() < PAGES;
            if has_room {
                pages.push(sender.clone());
            }
            has_room
        };
        if !is_open {
            return None;
        }
        for event in [self.history(), self.now()] {
            // It has room for both.
            let _ = sender.try_send(event);
        }
        Some(receiver)
    }

    fn has_pages(&self) -> bool {
        let mut pages = locked(&self.pages);
        pages.retain(|page| !page.is_closed());
        !pages.is_empty()
    }

    fn send(&self, event: Bytes) {
        for page in locked(&self.pages).iter() {
            // One that has not read the events before misses this one.
            let _ = page.try_send(event.clone());
        }
    }

    fn sample(&self) {
        let exposition = self.exposition.load();
        let sites = exposition.site_figures();
        let pools = exposition.pool_figures(history::ENDPOINTS);
        let now = (Instant::now(), SystemTime::now());
        locked(&self.history).take(&sites, &pools, now);
    }

    fn history(&self) -> Bytes {
        event("history", &locked(&self.history).view())
    }

    fn now(&self) -> Bytes {
        let exposition = self.exposition.load();
        let (now, uptime) = (Instant::now(), exposition.uptime());
        let (sites, pools) = (
            exposition.site_figures(),
            exposition.pool_figures(usize::MAX),
        );
        let totals = self.totals(Totals::of(&sites), now);
        let sites_recent = self.sites.observe_sites(&sites, now, uptime);
        let pools_recent = self.pools.observe(&pools, now, uptime);
        // Those since the start would look like those of now.
        let recent = (sites_recent.within(BACK), pools_recent.within(BACK));
        let now = NowView {
            status: views::status(&exposition, self.readiness.phase(), self.workers),
            totals,
            sites: site_rows(&sites, &recent.0),
            pools: endpoint_rows(&pools, &recent.1),
            certs: views::certs(&exposition),
            clients: exposition.client_traffic(),
            errors: errors(&exposition),
        };
        event("now", &now)
    }

    /// The traffic of all sites in the last seconds.
    fn totals(&self, totals: Totals, now: Instant) -> TotalsView {
        let mut kept = locked(&self.totals);
        kept.retain(|(at, _)| now.duration_since(*at) <= BACK);
        let is_far = |at: Instant| now.duration_since(at) >= APART;
        let first = kept.front().filter(|(at, _)| is_far(*at));
        let traffic = first.map(|(at, earlier)| totals.since(earlier, now.duration_since(*at)));
        if kept.back().is_none_or(|(at, _)| is_far(*at)) {
            kept.push_back((now, totals));
        }
        let Some(traffic) = traffic else {
            return TotalsView::default();
        };
        TotalsView {
            requests_per_second: Some(traffic.responses.values().sum()),
            server_errors_per_second: Some(traffic.responses.get("5xx").copied().unwrap_or(0.0)),
            received_per_second: Some(traffic.received),
            sent_per_second: Some(traffic.sent),
            p50_seconds: traffic.p50,
            p99_seconds: traffic.p99,
        }
    }
}

/// The figures of a moment.
#[derive(Serialize)]
struct NowView<S, P, C> {
    status: StatusView,
    totals: TotalsView,
    sites: S,
    pools: P,
    certs: C,
    clients: Value,
    errors: Vec<ErrorView>,
}

/// The traffic of a moment; nothing is known with the first event.
#[derive(Default, Serialize)]
struct TotalsView {
    requests_per_second: Option<f64>,
    server_errors_per_second: Option<f64>,
    received_per_second: Option<f64>,
    sent_per_second: Option<f64>,
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
}

/// An error, of its line in the access log.
#[derive(Deserialize, Serialize)]
struct ErrorView {
    time: String,
    cause: Option<String>,
    side: Option<String>,
    detail: Option<String>,
    status: Option<u16>,
    listener: Option<String>,
    site: Option<String>,
    method: Option<String>,
    #[serde(rename(deserialize = "target"))]
    path: Option<String>,
    endpoint: Option<String>,
}

/// The last errors, the latest first. Their targets are paths.
fn errors(exposition: &Exposition) -> Vec<ErrorView> {
    let lines = exposition.recent_errors().into_iter();
    let mut errors: Vec<ErrorView> = lines
        .filter_map(|line| serde_json::from_slice(&line).ok())
        .collect();
    errors.sort_by(|a, b| b.time.cmp(&a.time));
    errors.truncate(ERRORS);
    errors
}

/// An event as the pages read it; JSON has no line ends.
fn event(name: &str, value: &impl Serialize) -> Bytes {
    let mut text = format!("event: {name}\ndata: ").into_bytes();
    serde_json::to_writer(&mut text, value).expect("names are strings");
    text.extend_from_slice(b"\n\n");
    text.into()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_one_line_of_data() {
        let event = event("now", &json!({ "a": "one\ntwo" }));
        assert_eq!(event, "event: now\ndata: {\"a\":\"one\\ntwo\"}\n\n");
    }
}
