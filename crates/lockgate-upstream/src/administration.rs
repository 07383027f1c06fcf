//! The administrative state of a pool's member: what an operator has set while the process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The administrative mode of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AdminMode {
    /// It has requests as its checks and its weight allow.
    #[default]
    Ready,
    /// No request or relay begins there; open ones end.
    Drain,
    /// The same, and its checks pause.
    Maintenance,
}

/// The mode and the weight that an operator has set for a member.
#[derive(Debug, Default)]
pub(super) struct Administration {
    /// Shared by the members of the same endpoint in pools of the same name, so that a request of
    /// an earlier configuration finds it too.
    mode: Arc<AtomicU8>,
    weight: WeightOverride,
}

/// A weight in place of the configured one, if there is one.
#[derive(Debug)]
struct WeightOverride(AtomicU32);

const NO_WEIGHT: u32 = u32::MAX;

impl Default for WeightOverride {
    fn default() -> Self {
        Self(AtomicU32::new(NO_WEIGHT))
    }
}

impl Administration {
    /// The same state, in a pool that takes the place of this one.
    pub(super) fn successor(&self) -> Self {
        let next = Self {
            mode: Arc::clone(&self.mode),
            weight: WeightOverride::default(),
        };
        next.set_weight(self.weight());
        next
    }

    /// Takes over the weight of the state that this is the successor of, as it is now.
    pub(super) fn succeed(&self, earlier: &Self) {
        if Arc::ptr_eq(&self.mode, &earlier.mode) {
            self.set_weight(earlier.weight());
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.mode.load(Ordering::Acquire) == AdminMode::Ready as u8
    }

    pub(super) fn mode(&self) -> AdminMode {
        match self.mode.load(Ordering::Acquire) {
            mode if mode == AdminMode::Drain as u8 => AdminMode::Drain,
            mode if mode == AdminMode::Maintenance as u8 => AdminMode::Maintenance,
            _ => AdminMode::Ready,
        }
    }

    pub(super) fn set_mode(&self, mode: AdminMode) {
        self.mode.store(mode as u8, Ordering::Release);
    }

    pub(super) fn weight(&self) -> Option<u32> {
        let weight = self.weight.0.load(Ordering::Relaxed);
        (weight != NO_WEIGHT).then_some(weight)
    }

    pub(super) fn set_weight(&self, weight: Option<u32>) {
        let weight = weight.unwrap_or(NO_WEIGHT);
        self.weight.0.store(weight, Ordering::Relaxed);
    }
}
