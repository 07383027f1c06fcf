//! The address of one family that is published: of all that are seen, over time.
//!
//! Two addresses that are both good do not take turns: the published one stays while it is there. One
//! that a server or a router reports is published when it was reported twice in a row, since they
//! change their minds. Where none is seen, the last one stays.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The time after which an address that was reported once is asked for again.
const CONFIRMATION: Duration = Duration::from_secs(5);
/// The least time between two looks that changes of the network bring about: one where the kernel alone
/// is asked, one where others are.
const GAP: Duration = Duration::from_secs(1);
const GAP_OF_OTHERS: Duration = Duration::from_secs(5);

/// What a look at the sources has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// The addresses of interfaces, the preferred one first; at least one.
    Interfaces(Vec<IpAddr>),
    /// The address that another machine reports.
    Reported(IpAddr),
    /// None, and why.
    Nothing(String),
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Kernel,
    Others,
}

/// The address of one family.
#[derive(Debug)]
pub(crate) struct SettledAddress {
    every: Duration,
    asked: Asked,
    address: Option<IpAddr>,
    /// An address that was reported once.
    candidate: Option<IpAddr>,
    /// Whether the network has changed since the last look.
    woken: bool,
    last_look: Option<Instant>,
    next_look: Instant,
}

impl SettledAddress {
    /// None so far; a first look is due at once, and another after each `every`.
    pub(crate) fn new(now: Instant, every: Duration, asked: Asked) -> Self {
        Self {
            every,
            asked,
            address: None,
            candidate: None,
            woken: false,
            last_look: None,
            next_look: now,
        }
    }

    /// The address that is published.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Whether nothing says that it is about to change: neither the network nor an answer.
    pub(crate) fn is_settled(&self) -> bool {
        !self.woken && self.candidate.is_none()
    }

    /// When to look.
    pub(crate) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// The network has changed: the next look is soon.
    pub(crate) fn wake(&mut self, now: Instant) {
        let gap = match self.asked {
            Asked::Kernel => GAP,
            Asked::Others => GAP_OF_OTHERS,
        };
        let soon = self.last_look.map_or(now, |last| (last + gap).max(now));
        self.next_look = self.next_look.min(soon);
        self.woken = true;
    }

    /// Takes what a look has found.
    pub(crate) fn looked(&mut self, now: Instant, sighting: &Sighting) {
        self.last_look = Some(now);
        self.woken = false;
        self.next_look = now + self.every;
        match sighting {
            Sighting::Interfaces(found) => {
                self.candidate = None;
                let stays = self.address.is_some_and(|address| found.contains(&address));
                if let (Some(first), false) = (found.first(), stays) {
                    self.address = Some(*first);
                }
            }
            Sighting::Reported(found) if self.address == Some(*found) => self.candidate = None,
            Sighting::Reported(found) if self.candidate == Some(*found) => {
                self.address = Some(*found);
                self.candidate = None;
            }
            Sighting::Reported(found) => {
                self.candidate = Some(*found);
                self.next_look = now + self.every.min(CONFIRMATION);
            }
            // It was not reported twice in a row.
            Sighting::Nothing(_) => self.candidate = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(60);

    fn ip(last: u8) -> IpAddr {
        [1, 1, 1, last].into()
    }

    fn interfaces(last: &[u8]) -> Sighting {
        Sighting::Interfaces(last.iter().map(|last| ip(*last)).collect())
    }

    fn address_after(sightings: &[Sighting]) -> Option<IpAddr> {
        let now = Instant::now();
        let mut settled = SettledAddress::new(now, EVERY, Asked::Others);
        sightings.iter().for_each(|one| settled.looked(now, one));
        settled.address()
    }

    #[test]
    fn two_public_addresses_do_not_take_turns() {
        let turns: Vec<_> = (0..9)
            .map(|turn| interfaces(if turn % 2 == 0 { &[1, 2] } else { &[2, 1] }))
            .collect();
        for end in 1..turns.len() {
            assert_eq!(address_after(&turns[..end]), Some(ip(1)));
        }
        // Once it is gone, another takes its place, and keeps it.
        let gone = [interfaces(&[1, 2]), interfaces(&[2]), interfaces(&[1, 2])];
        assert_eq!(address_after(&gone), Some(ip(2)));
    }

    #[test]
    fn a_reported_address_is_taken_when_it_comes_twice_in_a_row() {
        let reported = |last| Sighting::Reported(ip(last));
        let nothing = || Sighting::Nothing("x".to_owned());
        for (sightings, expected) in [
            (vec![reported(1)], None),
            (vec![reported(1), reported(1)], Some(1)),
            (vec![reported(1), reported(2), reported(1)], None),
            (vec![reported(1), nothing(), reported(1)], None),
            (vec![reported(1), reported(1), reported(2)], Some(1)),
            (
                vec![
                    reported(1),
                    reported(1),
                    reported(2),
                    reported(1),
                    reported(2),
                ],
                Some(1),
            ),
            (
                vec![reported(1), reported(1), reported(2), reported(2)],
                Some(2),
            ),
            (vec![interfaces(&[3]), nothing()], Some(3)),
            (vec![interfaces(&[3]), reported(4)], Some(3)),
            (vec![reported(4), interfaces(&[3])], Some(3)),
        ] {
            assert_eq!(address_after(&sightings), expected.map(ip), "{sightings:?}");
        }
    }

    #[test]
    fn a_reported_address_is_soon_asked_for_again() {
        let now = Instant::now();
        let mut settled = SettledAddress::new(now, EVERY, Asked::Others);
        assert_eq!(settled.next_look(), now);
        settled.looked(now, &Sighting::Reported(ip(1)));
        assert_eq!(settled.next_look(), now + CONFIRMATION);
        settled.looked(now, &Sighting::Reported(ip(1)));
        assert_eq!(settled.next_look(), now + EVERY);
        let mut hurried = SettledAddress::new(now, GAP, Asked::Others);
        hurried.looked(now, &Sighting::Reported(ip(1)));
        assert_eq!(hurried.next_look(), now + GAP);
    }

    #[test]
    fn an_address_is_settled_once_no_look_is_due_soon() {
        let now = Instant::now();
        let mut settled = SettledAddress::new(now, EVERY, Asked::Others);
        for (sighting, expected) in [
            (Sighting::Reported(ip(1)), false),
            (Sighting::Reported(ip(1)), true),
            (Sighting::Reported(ip(2)), false),
            (Sighting::Nothing("x".to_owned()), true),
        ] {
            settled.looked(now, &sighting);
            assert_eq!(settled.is_settled(), expected, "{sighting:?}");
            settled.wake(now);
            assert!(!settled.is_settled());
        }
    }

    #[test]
    fn many_changes_of_the_network_bring_few_looks() {
        let now = Instant::now();
        for (asked, gap) in [(Asked::Kernel, GAP), (Asked::Others, GAP_OF_OTHERS)] {
            let mut settled = SettledAddress::new(now, EVERY, asked);
            settled.looked(now, &interfaces(&[1]));
            settled.wake(now);
            assert_eq!(settled.next_look(), now + gap);
            settled.wake(now + 2 * gap);
            assert_eq!(settled.next_look(), now + gap);
            settled.looked(now + gap, &interfaces(&[1]));
            settled.wake(now + 10 * gap);
            assert_eq!(settled.next_look(), (now + 10 * gap).min(now + gap + EVERY));
        }
    }
}
