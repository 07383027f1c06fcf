//! The traces of live requests: each has a task that waits for its request, explains it and writes it
//! to the operator log, whether or not a command waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use lockgate_limits::clock;
use lockgate_proxy::request_traces::{OpenTrace, RequestTraces};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::exposition::Exposition;

/// Traces at once, with those that are kept for a command.
const MOST: usize = 64;
/// The time for which a token may be used, and then a trace is kept.
const TIME: Duration = Duration::from_secs(RequestTraces::VALID_SECONDS);

/// The state of a trace.
#[derive(Debug, Clone)]
pub(super) enum TraceState {
    /// No request has brought its token.
    Waiting,
    /// No request has brought it in time.
    Expired,
    /// What became of the request.
    Done(Arc<Value>),
}

/// The traces by their tokens.
#[derive(Default)]
pub(super) struct LiveTraces(Mutex<HashMap<String, watch::Receiver<TraceState>>>);

impl LiveTraces {
    /// A new token, for a request to the configuration that runs then; none while there are too
    /// many.
    pub(super) fn begin(self: &Arc<Self>, running: &Arc<ArcSwap<Exposition>>) -> Option<String> {
        let mut traces = self.lock();
        if traces.len() >= MOST {
            return None;
        }
        let opened = running.load().traces().open(clock::now())?;
        let token = opened.token.clone();
        let (done, waiting) = watch::channel(TraceState::Waiting);
        traces.insert(token.clone(), waiting);
        let (traces, running) = (Arc::clone(self), Arc::clone(running));
        tokio::spawn(traces.follow(running, opened, done));
        Some(token)
    }

    async fn follow(
        self: Arc<Self>,
        running: Arc<ArcSwap<Exposition>>,
        opened: OpenTrace,
        done: watch::Sender<TraceState>,
    ) {
        let OpenTrace { token, request } = opened;
        let result = match timeout(TIME, request).await {
            Ok(Ok(traced)) => {
                let trace = running.load_full().explain_traced(&traced);
                tracing::info!(%trace, "traced a request");
                TraceState::Done(Arc::new(trace))
            }
            Ok(Err(_)) | Err(_) => TraceState::Expired,
        };
        running.load().traces().close_stale(clock::now());
        done.send_replace(result);
        sleep(TIME).await;
        self.lock().remove(&token);
    }

    /// The state of the trace with this token, once its request is over or its time is; none
    /// without such a trace.
    pub(super) async fn result(&self, token: &str) -> Option<TraceState> {
        let mut waiting = self.lock().get(token)?.clone();
        let ended = waiting.wait_for(|state| !matches!(state, TraceState::Waiting));
        ended.await.ok().map(|state| state.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<TraceState>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
