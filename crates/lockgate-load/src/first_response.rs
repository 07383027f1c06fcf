//! The first response of each target, before any measurement: the later responses are compared with
//! it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use fastrand::Rng;
use lockgate_net::reactor::Reactor;
use lockgate_net::stream::BufferPool;
use lockgate_net::timer::Timer;

use crate::client::{self, ClientBuffers, ExchangeError, ExchangeStats, Transport};
use crate::plan::RunPlan;
use crate::result::{FailureKind, FirstResponse};
use crate::start_error::StartError;
use crate::target::{LoadTarget, TargetRequest};
use crate::worker::{Stop, TICK};

/// Makes one exchange with each target. Each peer keeps the first address that answers.
///
/// # Errors
/// The response of a target is not as expected, unless the plan says to go on.
pub(crate) fn request_all(plan: &RunPlan, stop: &Stop) -> Result<Vec<FirstResponse>, StartError> {
    let requests = async {
        let mut responses = Vec::new();
        for target in &plan.targets {
            let Some(response) = request(plan, target, stop).await? else {
                break;
            };
            responses.push(response);
        }
        Ok(responses)
    };
    Reactor::new()?.block_on(requests)?
}

/// The first response of `target`; `None` when the run was ended meanwhile.
async fn request(
    plan: &RunPlan,
    target: &LoadTarget,
    stop: &Stop,
) -> Result<Option<FirstResponse>, StartError> {
    let mut buffers = ClientBuffers::new(BufferPool::new(), Rng::new());
    let timer = Timer::new()?;
    timer.set(Duration::ZERO)?;
    let begun = Instant::now();
    let mut stats = ExchangeStats::default();
    let outcome = {
        let mut exchange = pin!(try_addresses(
            target,
            plan.timeout,
            &mut buffers,
            &mut stats
        ));
        poll_fn(|cx| {
            while timer.poll(cx)?.is_ready() {
                if stop.is_requested() {
                    return Poll::Ready(Ok::<_, StartError>(None));
                }
                if begun.elapsed() >= plan.timeout {
                    let text = format!("no complete response within {:?}", plan.timeout);
                    return Poll::Ready(Ok(Some((
                        None,
                        Err(ExchangeError::new(FailureKind::Timeout, text)),
                    ))));
                }
                timer.set(TICK)?;
            }
            exchange.as_mut().poll(cx).map(|made| Ok(Some(made)))
        })
        .await?
    };
    let Some((transport, made)) = outcome else {
        return Ok(None);
    };
    if let Err(error) = made
        && !plan.anyway
    {
        let text = format!("{}{}", error.text, advice(target, &error, &stats));
        return Err(StartError::First {
            target: target.written.clone(),
            text,
        });
    }
    let streams = transport
        .as_ref()
        .and_then(|transport| transport.max_streams);
    if let Some(streams) = streams {
        // Targets of one peer are told the same.
        let _ = target.peer.max_streams.set(streams);
    }
    Ok(Some(FirstResponse {
        target: target.written.clone(),
        status: stats.response.status,
        length: stats.response.length,
        protocol: target.request.protocol(),
        streams,
        tls: transport
            .and_then(|transport| transport.tls)
            .map(|tls| format!("{} {}", tls.version, tls.cipher)),
    }))
}

/// Makes the exchange at the first address that can be connected to, which the peer keeps. Each
/// address has its share of the timeout, so that a silent one does not use it up.
async fn try_addresses(
    target: &LoadTarget,
    timeout: Duration,
    buffers: &mut ClientBuffers,
    stats: &mut ExchangeStats,
) -> (Option<Transport>, Result<(), ExchangeError>) {
    let mut failed = ExchangeError::new(FailureKind::Connect, "its host name has no address");
    let peer = &target.peer;
    let indexes = peer
        .chosen
        .get()
        .map_or(0..peer.addresses.len(), |chosen| *chosen..chosen + 1);
    let each = timeout / indexes.len().max(1) as u32;
    for index in indexes {
        let address = &peer.addresses[index];
        match within(each, client::open(target, address, buffers, stats)).await {
            Some(Ok(mut transport)) => {
                peer.choose(index);
                let made = client::exchange(&mut transport, target, buffers, stats).await;
                return (Some(transport), made);
            }
            Some(Err(error)) => failed = error,
            None => {
                failed = ExchangeError::new(
                    FailureKind::Timeout,
                    format!("{address}: no connection within {each:?}"),
                )
            }
        }
    }
    (None, Err(failed))
}

/// The output of `future`, if it completes in time.
async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    let timer = Timer::new().and_then(|timer| timer.set(time).map(|()| timer));
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(made) => Poll::Ready(Some(made)),
        // Without a descriptor for it there is the deadline of the whole.
        Poll::Pending => match &timer {
            Ok(timer) if timer.poll(cx).is_ready() => Poll::Ready(None),
            _ => Poll::Pending,
        },
    })
    .await
}

/// Advice about a failure, behind its text.
fn advice(target: &LoadTarget, error: &ExchangeError, stats: &ExchangeStats) -> String {
    match error.failure {
        FailureKind::Status
            if matches!(
                target.request,
                TargetRequest::Http1(_) | TargetRequest::Http2(_)
            ) =>
        {
            let (status, length) = (
                stats.response.status.unwrap_or_default(),
                stats.response.length,
            );
            format!(
                " with {length} bytes instead of the page; use --expect-status {status} to measure that, or --anyway to go on and count failures"
            )
        }
        FailureKind::Length | FailureKind::Body => {
            "; use --anyway to go on and count failures".to_owned()
        }
        _ => String::new(),
    }
}
