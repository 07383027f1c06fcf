//! The results of exchanges with a pool's endpoints: their effect on ejection, and their lines in
//! the operator log: the first failure of a healthy endpoint, a pool without one that answers, and
//! the end of both. Not each failure: a line for every request would help no operator.

use std::fmt::Display;

use lockgate_net::millis::Millis;

use super::balance::Member;
use super::endpoint::Endpoint;
use super::outlier_detection::{Condition, EndpointFailure};
use super::pool::Pool;

impl Pool {
    /// Notes that an endpoint of the pool has failed, for the reason `why`. It is ejected only
    /// while half of the pool is left, up and available: a failure of all is not the fault of one,
    /// and the others must bear its load.
    pub fn failed(
        &self,
        endpoint: &Endpoint,
        failure: EndpointFailure,
        why: &dyn Display,
        now: Millis,
    ) {
        let remains = |member: &&Member| {
            let other = &**member.endpoint();
            !std::ptr::eq(other, endpoint)
                && member.takes_any_client()
                && other.condition(now) != Condition::Unavailable
        };
        let all = |member: &&Member| !member.endpoint().is_vacant();
        let may = || {
            let (left, all) = (
                self.members().iter().filter(remains).count(),
                self.members().iter().filter(all).count(),
            );
            2 * left >= all
        };
        let ejected = endpoint.failed(failure, now, self.settings.eject, may);
        let pool = &*self.settings.name;
        // A target that a client has named: there may be any number of these.
        if pool.is_empty() {
            return;
        }
        let left = endpoint.passed_over(now);
        if ejected {
            endpoint.notice.begins(now);
            tracing::warn!(%endpoint, pool, %why, "the endpoint is ejected: it kept failing");
        } else if let Some(left) = left
            && endpoint.notice.begins(now)
        {
            let what = match failure {
                EndpointFailure::Unreachable => "cannot be reached",
                EndpointFailure::Reset | EndpointFailure::Unserved => "failed",
            };
            if self.members().len() > 1 {
                let seconds = left.as_u64().div_ceil(1_000);
                tracing::warn!(%endpoint, pool, %why, "the endpoint {what}: others are preferred for {seconds} s");
            } else {
                tracing::warn!(%endpoint, pool, %why, "the endpoint {what}");
            }
        }
        let answers = |member: &Member| {
            let endpoint = member.endpoint();
            member.is_usable() && !endpoint.is_vacant() && !endpoint.is_lost()
        };
        if self.members().iter().any(answers) {
            self.notice.ends();
        } else if self.notice.begins(now) {
            tracing::error!(pool, "no endpoint of the pool responds");
        }
    }

    /// Notes that an endpoint of the pool has succeeded.
    pub fn succeeded(&self, endpoint: &Endpoint, now: Millis) {
        // A check may have reset the endpoint before: the pool responds again all the same.
        if endpoint.succeeded(now) || self.notice.is_told() {
            self.recovered(endpoint);
        }
    }

    #[cold]
    fn recovered(&self, endpoint: &Endpoint) {
        let pool = &*self.settings.name;
        if endpoint.notice.ends() {
            tracing::info!(%endpoint, pool, "the endpoint serves again");
        }
        if self.notice.ends() {
            tracing::info!(pool, "the pool responds again");
        }
    }
}
