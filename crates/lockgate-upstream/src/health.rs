//! Whether an endpoint is up, by its active checks: a count of equal results, without clock, socket
//! or log.

/// The health of an endpoint: up until checks say otherwise.
///
/// The first check decides alone, so that a start uses what works; after it `fall` consecutive
/// failures take the endpoint down and `rise` consecutive successes bring it back. An endpoint that
/// has never been up needs a single success too.
#[derive(Debug, Clone)]
pub struct Health {
    fall: u32,
    rise: u32,
    up: bool,
    /// Whether a check has succeeded, ever.
    proven: bool,
    /// Consecutive results that contradict the present state.
    against: u32,
}

/// A change by a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// It serves again.
    Up,
    /// It serves no longer.
    Down,
}

impl Health {
    /// Up; goes down after `fall` failures and up after `rise` successes, each at least 1.
    pub fn new(fall: u32, rise: u32) -> Self {
        Self {
            fall: fall.max(1),
            rise: rise.max(1),
            up: true,
            proven: false,
            against: 0,
        }
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Takes the result of a check: `well` if the endpoint passed.
    pub fn observe(&mut self, well: bool) -> Option<Transition> {
        let enough = match (self.proven, well) {
            (false, _) => 1,
            (true, true) => self.rise,
            (true, false) => self.fall,
        };
        self.proven |= well;
        if well == self.up {
            self.against = 0;
            return None;
        }
        self.against += 1;
        if self.against < enough {
            return None;
        }
        (self.up, self.against) = (well, 0);
        Some(if well {
            Transition::Up
        } else {
            Transition::Down
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state after each result: `+` and `-` in, `U` and `D` where it changes and `.` where not
    /// out.
    fn story(fall: u32, rise: u32, findings: &str) -> String {
        let mut health = Health::new(fall, rise);
        let findings = findings
            .chars()
            .map(|finding| match health.observe(finding == '+') {
                Some(Transition::Up) => 'U',
                Some(Transition::Down) => 'D',
                None => '.',
            });
        findings.collect()
    }

    #[test]
    fn health_changes_after_consecutive_check_results() {
        for (fall, rise, findings, changes) in [
            (3, 2, "+--+---", "......D"),
            (3, 2, "+---+-++", "...D...U"),
            (3, 2, "+---++---", "...D.U..D"),
            (1, 1, "+-+-", ".DUD"),
            (0, 0, "+-+-", ".DUD"),
            // The first check decides, and so does the first success.
            (3, 2, "-", "D"),
            (3, 2, "---+--+---", "D..U.....D"),
            (3, 2, "+", "."),
        ] {
            assert_eq!(story(fall, rise, findings), changes, "{findings}");
        }
    }

    #[test]
    fn an_endpoint_is_up_before_its_first_health_check() {
        assert!(Health::new(3, 2).is_up());
    }
}
