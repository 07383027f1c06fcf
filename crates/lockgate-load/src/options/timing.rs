//! Stages of a run, from its timing.

use std::time::Duration;

use super::{OptionsError, TimingOptions};
use crate::plan::{LoadStage, Loop, Until};
use crate::profile::RequestRates;

/// Duration of a stage by default.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

impl TimingOptions {
    /// The stages of all rounds.
    pub(super) fn stages(&self) -> Result<Vec<LoadStage>, OptionsError> {
        let once = self.round()?;
        let rounds = (1..=self.rounds).flat_map(|round| {
            once.iter().map(move |stage| LoadStage {
                round,
                ..stage.clone()
            })
        });
        Ok(rounds.collect())
    }

    /// The stages of one round.
    fn round(&self) -> Result<Vec<LoadStage>, OptionsError> {
        let stage = |name: String, shape: Loop, duration: Duration| LoadStage {
            round: 1,
            name,
            shape,
            until: self.count.map_or(Until::Time(duration), Until::Count),
        };
        let Some(profile) = &self.profile else {
            let duration = self.duration.unwrap_or(DEFAULT_DURATION);
            return Ok(vec![stage(
                "closed loop".to_owned(),
                Loop::Closed,
                duration,
            )]);
        };
        let changes = profile.spike.is_some() || matches!(profile.rates, RequestRates::Range(..));
        if changes && self.count.is_some() {
            return Err(OptionsError::together(
                "--count cannot end a ramp or a spike: use --duration instead",
            ));
        }
        let planned = profile.stages(DEFAULT_DURATION)?.into_iter();
        Ok(planned
            .map(|planned| stage(planned.name, Loop::Open(planned.schedule), planned.lasts))
            .collect())
    }
}
