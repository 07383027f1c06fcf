//! The first answer of each target, before anything is measured: whether it is there, and what the others must be like.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use fastrand::Rng;
use lockgate_net::stream::Blocks;
use lockgate_net::timer::Timer;

use crate::client::{self, Done, Fault, Scratch};
use crate::plan::Plan;
use crate::result::{Failure, FirstAnswer};
use crate::run::StartError;
use crate::target::Peer;
use crate::worker::Stop;

/// Asks each target once. Addresses that do not answer are struck out.
///
/// # Errors
/// When a target does not answer as expected, unless the plan says to go on.
pub(crate) fn ask(plan: &mut Plan, stop: &Stop) -> Result<Vec<FirstAnswer>, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build_local(Default::default())?;
    runtime.block_on(async {
        let mut answers = Vec::new();
        for place in 0..plan.targets.len() {
            if stop.is_asked() {
                break;
            }
            answers.push(one(plan, place).await?);
        }
        Ok(answers)
    })
}

async fn one(plan: &mut Plan, place: usize) -> Result<FirstAnswer, StartError> {
    let blocks = Blocks::new();
    let mut scratch = Scratch::new(blocks, Rng::new());
    let timer = Timer::new()?;
    timer.set(plan.timeout)?;
    let mut done = Done::default();
    let mut asking = pin!(async {
        let target = &plan.targets[place];
        let mut failed = None;
        for (index, address) in target.peer.addresses.iter().enumerate() {
            match client::open(&target.peer, address, &scratch.blocks).await {
                Ok(mut link) => {
                    let made = client::exchange(&mut link, target, &mut scratch, &mut done).await;
                    return (Some(index), link.tls.take(), made);
                }
                Err(fault) => failed = Some(fault),
            }
        }
        let nothing = || Fault::new(Failure::Connect, "it has no address");
        (None, None, Err(failed.unwrap_or_else(nothing)))
    });
    let (index, tls, made) = poll_fn(|cx| match timer.poll(cx) {
        Poll::Ready(Ok(())) => {
            let text = format!("no answer within {:?}", plan.timeout);
            Poll::Ready((None, None, Err(Fault::new(Failure::Timeout, text))))
        }
        _ => asking.as_mut().poll(cx),
    })
    .await;
    todo!()
}
