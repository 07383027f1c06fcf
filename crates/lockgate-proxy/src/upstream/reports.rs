//! The results of exchanges with a pool's endpoints: what they change of ejection, and the lines of
//! the operator log about them: the first failure of an endpoint that was well, that a pool has
//! none left that answers, and the end of both. Not each failure: a line for every request would
//! help no operator.

use std::fmt::Display;

use super::avoidance::{Condition, Failure};
use super::balance::Member;
use super::endpoint::Endpoint;
use super::pool::Pool;

impl Pool {
    /// An endpoint of the pool has failed, by what `why` says. It is ejected for that only while
    /// half of the pool is left which is up and well: what all of them do is not the fault of
    /// one, and those that are left must bear what it had.
    pub fn failed(&self, endpoint: &Endpoint, failure: Failure, why: &dyn Display, now: u64) {
        let remains = |member: &&Member| {
            let other = &**member.endpoint();
            !std::ptr::eq(other, endpoint)
                && member.is_up()
                && other.condition(now) != Condition::Gone
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
        // A target that a client has named, and of which there may be any number.
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
                Failure::Unreachable => "cannot be reached",
                Failure::Broken | Failure::Unserved => "failed",
            };
            if self.members().len() > 1 {
                let seconds = left.div_ceil(1_000);
                tracing::warn!(%endpoint, pool, %why, "the endpoint {what}: others are preferred for {seconds} s");
            } else {
                tracing::warn!(%endpoint, pool, %why, "the endpoint {what}");
            }
        }
        let answers = |member: &Member| {
            let endpoint = member.endpoint();
            member.is_up() && !endpoint.is_vacant() && !endpoint.is_lost()
        };
        if self.members().iter().any(answers) {
            self.notice.ends();
        } else if self.notice.begins(now) {
            tracing::error!(pool, "no endpoint of the pool responds");
        }
    }

    /// An endpoint of the pool has served.
    pub fn succeeded(&self, endpoint: &Endpoint, now: u64) {
        // A check may have forgiven the endpoint before it served: the pool responds again all the
        // same.
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
