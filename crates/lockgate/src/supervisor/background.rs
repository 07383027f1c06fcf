//! What runs beside the workers for a configuration: look-ups of names, health checks, fetched
//! values.

use std::io;

use crate::assemble::{Assembly, BackgroundWork};
use crate::fetcher::{self, Fetcher, Fetching};
use crate::prober::{EndpointStatuses, Prober, Probing};
use crate::resolver::{self, EndpointResolver, Resolving};

/// The background work of the configuration that runs. Dropping it ends that.
#[derive(Default)]
pub(super) struct RunningBackground {
    pub(super) resolving: Resolving,
    pub(super) fetching: Fetching,
    pub(super) probing: Probing,
}

impl RunningBackground {
    /// Starts what a first configuration needs before connections come, but for its health checks:
    /// one before the first answer would find no address, and the first page shows fetched values.
    ///
    /// # Errors
    /// When the system has no room for another thread.
    pub(super) async fn start(assembly: &mut Assembly) -> io::Result<Self> {
        let mut background = Self::default();
        let names = std::mem::take(&mut assembly.resolver);
        let names = background.resolving.prepare(names);
        names.first_answers(resolver::PATIENCE).await;
        background.resolving.commit(names);
        let values = std::mem::take(&mut assembly.fetcher);
        let values = background.fetching.prepare(values)?;
        values.first_tries(fetcher::PATIENCE).await;
        background.fetching.commit(values);
        Ok(background)
    }

    /// The background work of a next configuration, which goes on with what both have.
    pub(super) fn continuing(&self) -> BackgroundWork {
        BackgroundWork {
            resolver: EndpointResolver::continuing(&self.resolving),
            fetcher: Fetcher::continuing(&self.fetching),
            prober: Prober::continuing(&self.probing),
        }
    }

    /// Begins the health checks of a first configuration.
    ///
    /// # Errors
    /// When the system has no room for another thread.
    pub(super) fn probe(&mut self, assembly: &mut Assembly) -> io::Result<EndpointStatuses> {
        let prober = std::mem::take(&mut assembly.prober);
        let statuses = prober.statuses();
        let probes = self.probing.prepare(prober)?;
        self.probing.commit(probes);
        Ok(statuses)
    }
}
