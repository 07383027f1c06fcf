//! The traces of live requests: each has a task that waits for its request, explains it and writes it
//! to the operator log, whether or not a command waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockgate_limits::clock;
use lockgate_proxy::request_traces::{OpenTrace, RequestTraces};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::state::AdminState;

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
    /// A new token; none while there are too many.
    pub(super) fn begin(state: &Arc<AdminState>) -> Option<String> {
        let traces = state.traces.lock();
        if traces.len() >= MOST {
            return None;
        }
        let opened = state.exposition().traces().open(clock::now())?;
        let token = opened.token.clone();
        let (done, waiting) = watch::channel(TraceState::Waiting);
        let mut traces = traces;
        traces.insert(token.clone(), waiting);
        tokio::spawn(follow(Arc::clone(state), opened, done));
        Some(token)
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

async fn follow(state: Arc<AdminState>, opened: OpenTrace, done: watch::Sender<TraceState>) {
    let OpenTrace { token, request } = opened;
    let result = match timeout(TIME, request).await {
        Ok(Ok(traced)) => {
            let trace = state.exposition().explain_traced(&traced);
            tracing::info!(%trace, "traced a request");
            TraceState::Done(Arc::new(trace))
        }
        Ok(Err(_)) | Err(_) => TraceState::Expired,
    };
    state.exposition().traces().close_stale(clock::now());
    done.send_replace(result);
    sleep(TIME).await;
    state.traces.lock().remove(&token);
}
