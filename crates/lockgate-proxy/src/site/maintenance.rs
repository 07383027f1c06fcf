//! The maintenance of a site, which an operator begins and ends while the process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a site is in maintenance. Every listener with the site shares it, and so does the next
/// configuration with a site of its name.
#[derive(Debug, Clone, Default)]
pub struct SiteMaintenance(
    /// The status in the lower 16 bits, and the seconds above; 0 without maintenance.
    Arc<AtomicU64>,
);

/// The response to the requests of a site in maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintenanceResponse {
    /// The status.
    pub status: u16,
    /// The seconds of `Retry-After`.
    pub retry_after: u32,
}

impl SiteMaintenance {
    /// The response, while the site is in maintenance.
    pub fn response(&self) -> Option<MaintenanceResponse> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            word => Some(MaintenanceResponse {
                status: word as u16,
                retry_after: (word >> 16) as u32,
            }),
        }
    }

    /// Begins or ends the maintenance.
    pub fn set(&self, response: Option<MaintenanceResponse>) {
        let word = response.map_or(0, |response| {
            u64::from(response.retry_after) << 16 | u64::from(response.status)
        });
        self.0.store(word, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maintenance_has_the_response_that_was_set_last() {
        let (site, none) = (SiteMaintenance::default(), None);
        let shared = site.clone();
        assert_eq!(shared.response(), none);
        for response in [(503, 60), (599, u32::MAX), (400, 0)] {
            let (status, retry_after) = response;
            let response = Some(MaintenanceResponse {
                status,
                retry_after,
            });
            site.set(response);
            assert_eq!(shared.response(), response);
        }
        site.set(none);
        assert_eq!(shared.response(), none);
    }
}
