//! Run of several loads of a page, one after the other, each like a first visit.

use std::io;
use std::time::Instant;

use lockgate_net::reactor::{self, Reactor};
use lockgate_net::stream::BufferPool;
use lockgate_net::timer::Timer;

use super::load::{LoadResources, load};
use super::plan::PagePlan;
use super::result::{PageLoad, PageReport};
use crate::options::OptionsError;
use crate::result::RunEnd;
use crate::shared_link::LinkQueue;
use crate::worker::Stop;

/// Error of a run without a result.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The first load did not get the page.
    #[error("{url}: {text}")]
    First {
        /// The page's URL, as written.
        url: String,
        /// Text of the failure.
        text: String,
    },
    /// A name or file is not there any more.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There are no descriptors left.
    #[error("the page cannot be loaded: {0}")]
    Io(#[from] io::Error),
}

/// Loads the page as often as `plan` says; `tell` gets each load.
///
/// # Errors
/// The run cannot begin, or the first load does not get the page itself. Later failures are in the
/// report.
pub fn run(
    plan: &PagePlan,
    stop: &Stop,
    mut tell: impl FnMut(&PageLoad),
) -> Result<PageReport, PageError> {
    let run = async {
        let link_queue = plan.link.as_ref().map(LinkQueue::new).transpose()?;
        if let Some(link_queue) = link_queue.clone() {
            // It ends with the reactor.
            reactor::spawn(async move { drop(link_queue.run().await) });
        }
        let resources = LoadResources {
            plan,
            stop,
            blocks: BufferPool::new(),
            link_queue,
            timer: Timer::new()?,
        };
        let mut loads: Vec<PageLoad> = Vec::new();
        let begin = Instant::now();
        while (loads.len() as u64) < plan.loads {
            let Some(load) = load(&resources, &plan.peer()?).await? else {
                break;
            };
            let failure = load.objects.first().and_then(|page| page.failure.as_ref());
            if let (Some((_, text)), true) = (failure, loads.is_empty()) {
                let url = plan.options.requests.urls.concat();
                return Err(PageError::First {
                    url,
                    text: text.clone(),
                });
            }
            tell(&load);
            loads.push(load);
        }
        let complete = loads.len() as u64 == plan.loads;
        let note = plan
            .link
            .as_ref()
            .and_then(|link| link.note(link.busy(), begin.elapsed()));
        Ok(PageReport {
            command: plan.options.command.clone(),
            url: plan.options.requests.urls.concat(),
            protocol: plan.protocol,
            connections: plan.connections,
            timeout: plan.timeout,
            notes: note.into_iter().collect(),
            loads,
            end: if complete {
                RunEnd::Complete
            } else {
                RunEnd::Interrupted
            },
        })
    };
    Reactor::new()?.block_on(run)?
}
