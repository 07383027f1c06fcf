//! The first answer of each target, before anything is measured: whether it is there, and what the
//! others must be like.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use fastrand::Rng;
use lockgate_net::stream::Blocks;
use lockgate_net::timer::Timer;

use crate::client::{self, ExchangeStats, Fault, Transport, Scratch};
use crate::plan::Plan;
use crate::result::{Failure, FirstResponse};
use crate::run::StartError;
use crate::target::{Exchange, Target};
use crate::worker::{Stop, TICK};

/// Asks each target once. Addresses that do not answer are struck out.
///
/// # Errors
/// When a target does not answer as expected, unless the plan says to go on.
pub(crate) fn ask(plan: &Plan, stop: &Stop) -> Result<Vec<FirstResponse>, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build_local(Default::default())?;
    runtime.block_on(async {
        let mut answers = Vec::new();
        for place in 0..plan.targets.len() {
            let Some(answer) = one(plan, place, stop).await? else {
                break;
            };
            answers.push(answer);
        }
        Ok(answers)
    })
}

/// `None` when the run was ended meanwhile.
async fn one(plan: &Plan, place: usize, stop: &Stop) -> Result<Option<FirstResponse>, StartError> {
    let blocks = Blocks::new();
    let mut scratch = Scratch::new(blocks, Rng::new());
    let timer = Timer::new()?;
    timer.set(Duration::ZERO)?;
    let begun = Instant::now();
    let mut stats = ExchangeStats::default();
    let asked = {
        let mut asking = pin!(try_all(
            &plan.targets[place],
            plan.timeout,
            &mut scratch,
            &mut stats
        ));
        poll_fn(|cx| {
            while timer.poll(cx)?.is_ready() {
                if stop.is_asked() {
                    return Poll::Ready(Ok::<_, StartError>(None));
                }
                if begun.elapsed() >= plan.timeout {
                    let text = format!("no whole answer within {:?}", plan.timeout);
                    return Poll::Ready(Ok(Some((None, Err(Fault::new(Failure::Timeout, text))))));
                }
                timer.set(TICK)?;
            }
            asking.as_mut().poll(cx).map(|made| Ok(Some(made)))
        })
        .await?
    };
    let Some((transport, made)) = asked else {
        return Ok(None);
    };
    let target = &plan.targets[place];
    if let Err(fault) = made
        && !plan.anyway
    {
        let text = format!("{}{}", fault.text, advice(target, &fault, &stats));
        return Err(StartError::First {
            target: target.written.clone(),
            text,
        });
    }
    Ok(Some(FirstResponse {
        target: target.written.clone(),
        status: stats.response.status,
        length: stats.response.length,
        protocol: target.exchange.protocol(),
        streams: transport.as_ref().and_then(|transport| transport.allowed),
        tls: transport
            .and_then(|transport| transport.tls)
            .map(|tls| format!("{} {}", tls.version, tls.cipher)),
    }))
}

/// Asks at one address after the other until one can be connected to; the others are not asked
/// again. Each has its share of the time, so that one that is silent does not stand for all.
async fn try_all(
    target: &Target,
    timeout: Duration,
    scratch: &mut Scratch,
    stats: &mut ExchangeStats,
) -> (Option<Transport>, Result<(), Fault>) {
    let mut failed = Fault::new(Failure::Connect, "its name has no address");
    let peer = &target.peer;
    let places = peer
        .chosen
        .get()
        .map_or(0..peer.addresses.len(), |chosen| *chosen..chosen + 1);
    let each = timeout / places.len().max(1) as u32;
    for place in places {
        let address = &peer.addresses[place];
        match within(each, client::open(target, address, scratch, stats)).await {
            Some(Ok(mut transport)) => {
                peer.choose(place);
                let made = client::exchange(&mut transport, target, scratch, stats).await;
                return (Some(transport), made);
            }
            Some(Err(fault)) => failed = fault,
            None => {
                failed = Fault::new(
                    Failure::Timeout,
                    format!("{address}: no connection within {each:?}"),
                )
            }
        }
    }
    (None, Err(failed))
}

/// What `wanted` comes to, if it does in time.
async fn within<T>(time: Duration, wanted: impl Future<Output = T>) -> Option<T> {
    let timer = Timer::new().and_then(|timer| timer.set(time).map(|()| timer));
    let mut wanted = pin!(wanted);
    poll_fn(|cx| match wanted.as_mut().poll(cx) {
        Poll::Ready(made) => Poll::Ready(Some(made)),
        // Without a descriptor for it there is the deadline of the whole.
        Poll::Pending => match &timer {
            Ok(timer) if timer.poll(cx).is_ready() => Poll::Ready(None),
            _ => Poll::Pending,
        },
    })
    .await
}

/// What to do about it.
fn advice(target: &Target, fault: &Fault, stats: &ExchangeStats) -> String {
    match fault.failure {
        Failure::Status if matches!(target.exchange, Exchange::Http1(_) | Exchange::Http2(_)) => {
            let (status, length) = (stats.response.status.unwrap_or_default(), stats.response.length);
            format!(
                " with {length} bytes came instead of the page; say --expect-status {status} if that is what you \
                 measure, or --anyway to go on and count failures"
            )
        }
        Failure::Length | Failure::Body => "; say --anyway to go on and count failures".to_owned(),
        _ => String::new(),
    }
}
