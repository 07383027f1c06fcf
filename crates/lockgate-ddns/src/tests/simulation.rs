//! Names over simulated time: hours and days pass at once.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use lockgate_dns::{AddressReading, DnsError, WantedAddresses};

use crate::family::AddressFamily;
use crate::follower::{Follower, Step};
use crate::settling::{Asked, Sighting};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The default of `every`.
const EVERY: Duration = Duration::from_secs(30);
/// The longest time of a look.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

/// What sources see at a time, for each family.
type Seen = Box<dyn Fn(AddressFamily, Duration) -> Sighting>;

/// Names, a zone, and what happens to them.
struct Simulation {
    begin: Instant,
    now: Instant,
    follower: Follower,
    names: Vec<&'static str>,
    seen: Seen,
    /// What the zone has.
    zone: BTreeMap<&'static str, WantedAddresses>,
    /// Every update: when, the name, and what was set.
    updates: Vec<(Duration, &'static str, WantedAddresses)>,
    reads: usize,
    looks: usize,
    /// The time that a look for the address of each family takes; what it finds is that of its end.
    look_takes: [Duration; 2],
    /// The error of all updates.
    refusal: Option<DnsError>,
    /// Whether the zone keeps what it had, although it takes updates.
    frozen: bool,
    /// Whether no server of the zone answers.
    silent: bool,
    /// Whether no name server at all answers.
    offline: bool,
    alias: Option<&'static str>,
}

impl Simulation {
    fn new(
        names: &[&'static str],
        asked: [Option<Asked>; 2],
        seen: impl Fn(AddressFamily, Duration) -> Sighting + 'static,
    ) -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            now,
            follower: Follower::new(now, names.len(), EVERY, asked, || 0.0),
            names: names.to_vec(),
            seen: Box::new(seen),
            zone: BTreeMap::new(),
            updates: Vec::new(),
            reads: 0,
            looks: 0,
            look_takes: [Duration::ZERO; 2],
            refusal: None,
            frozen: false,
            silent: false,
            offline: false,
            alias: None,
        }
    }

    /// Lets so much time pass since the begin.
    fn run_to(&mut self, end: Duration) {
        for _ in 0..1_000_000 {
            let since = self.now - self.begin;
            match self.follower.next(self.now) {
                Step::Look(family) => {
                    self.looks += 1;
                    let [of_ipv4, of_ipv6] = self.look_takes;
                    self.now += match family {
                        AddressFamily::Ipv4 => of_ipv4,
                        AddressFamily::Ipv6 => of_ipv6,
                    };
                    let since = self.now - self.begin;
                    let sighting = (self.seen)(family, since);
                    if since > end {
                        return;
                    }
                    self.follower.looked(self.now, family, &sighting);
                }
                Step::Read { name, wanted } => {
                    self.reads += 1;
                    let reading = self.reading(self.names[name], wanted);
                    self.follower.read(self.now, name, wanted, reading).unwrap();
                }
                Step::Set {
                    name,
                    zone,
                    wanted,
                    change,
                } => {
                    assert_eq!(zone, "example.com");
                    let result = self.set(since, self.names[name], change);
                    self.follower
                        .set(self.now, name, wanted, change, result)
                        .unwrap();
                }
                Step::Wait(until) => {
                    let until = until.unwrap();
                    assert!(until > self.now);
                    if until - self.begin > end {
                        return;
                    }
                    self.now = until;
                }
            }
        }
        panic!("time does not pass");
    }

    fn reading(&self, name: &str, wanted: WantedAddresses) -> Result<AddressReading, DnsError> {
        if self.alias == Some(name) {
            return Err(DnsError::Alias {
                name: name.to_owned(),
                target: "x".to_owned(),
            });
        }
        if self.offline {
            return Err(DnsError::Unanswered {
                question: format!("{name} SOA"),
                why: "Network is unreachable".to_owned(),
            });
        }
        let has = self.zone.get(name).copied().unwrap_or_default();
        Ok(AddressReading {
            zone: "example.com".to_owned(),
            lacking: (!self.silent).then(|| wanted.without(has)),
        })
    }

    fn set(
        &mut self,
        since: Duration,
        name: &'static str,
        change: WantedAddresses,
    ) -> Result<(), DnsError> {
        self.updates.push((since, name, change));
        if let Some(error) = &self.refusal {
            return Err(error.clone());
        }
        if !self.frozen {
            let has = self.zone.entry(name).or_default();
            has.ipv4 = change.ipv4.or(has.ipv4);
            has.ipv6 = change.ipv6.or(has.ipv6);
        }
        Ok(())
    }

    /// An interface changes at this time since the begin.
    fn wake_at(&mut self, since: Duration) {
        self.run_to(since);
        self.now = self.now.max(self.begin + since);
        self.follower.wake(self.now);
    }

    /// The minutes of all updates.
    fn minutes(&self) -> Vec<u64> {
        let seconds = self.updates.iter().map(|(since, ..)| since.as_secs());
        seconds.map(|seconds| seconds / 60).collect()
    }
}

fn v4(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(1, 1, 1, last)
}

fn only_v4(last: u8) -> WantedAddresses {
    WantedAddresses {
        ipv4: Some(v4(last)),
        ipv6: None,
    }
}

const KERNEL: [Option<Asked>; 2] = [Some(Asked::Kernel), None];
const OTHERS: [Option<Asked>; 2] = [Some(Asked::Others), None];

fn always(last: u8) -> impl Fn(AddressFamily, Duration) -> Sighting {
    move |_, _| Sighting::Interfaces(vec![v4(last).into()])
}

#[test]
fn nothing_is_sent_while_an_interface_stays_for_a_day() {
    let mut simulation = Simulation::new(&["a", "b"], KERNEL, always(1));
    simulation.zone.insert("a", only_v4(1));
    simulation.zone.insert("b", only_v4(1));
    simulation.run_to(DAY);
    assert!(simulation.updates.is_empty());
    // Looked at twice a minute, and read every ten.
    assert_eq!(simulation.looks, 2 * 24 * 60 + 1);
    assert_eq!(simulation.reads, 2 * (24 * 6 + 1));
}

/// A router and a server that tells addresses report one each.
#[test]
fn nothing_is_sent_while_a_router_reports_the_same_all_day() {
    let mut simulation =
        Simulation::new(&["a", "b"], OTHERS, |_, _| Sighting::Reported(v4(1).into()));
    simulation.zone.insert("a", only_v4(1));
    simulation.zone.insert("b", only_v4(1));
    simulation.run_to(DAY);
    assert!(simulation.updates.is_empty());
    // At the begin twice in five seconds; then the same, five seconds later each.
    assert_eq!(simulation.looks, 2 * 24 * 60 + 1);
    assert_eq!(simulation.reads, 2 * 24 * 6);
}

#[test]
fn nothing_is_sent_when_a_router_is_silent_or_lies() {
    let mut simulation = Simulation::new(&["a"], OTHERS, |_, since| {
        match since.as_secs() / 600 % 6 {
            1 => Sighting::Nothing("it is behind another NAT".to_owned()),
            // Another address, but not after five seconds again.
            2 if since.as_secs() % 7 == 3 => Sighting::Reported(v4(9).into()),
            _ => Sighting::Reported(v4(1).into()),
        }
    });
    simulation.run_to(DAY);
    assert_eq!(simulation.minutes(), [0]);
    assert_eq!(simulation.reads, 24 * 6);
    assert_eq!(simulation.zone["a"], only_v4(1));
}

#[test]
fn nothing_is_sent_when_other_interfaces_change_all_day() {
    // Containers come and go.
    let mut simulation = Simulation::new(&["a"], KERNEL, always(1));
    simulation.zone.insert("a", only_v4(1));
    for second in 1..DAY.as_secs() / 10 {
        simulation.wake_at(Duration::from_secs(10 * second));
    }
    simulation.run_to(DAY);
    assert!(simulation.updates.is_empty());
    assert_eq!(simulation.reads, 24 * 6 + 1);
}

#[test]
fn each_change_of_the_address_is_one_update_of_each_name() {
    // An address of IPv6 whose prefix changes each hour.
    let mut simulation = Simulation::new(&["a", "b"], [Some(Asked::Kernel); 2], |family, since| {
        let hour = u16::try_from(since.as_secs() / 3600).unwrap();
        let address = match family {
            AddressFamily::Ipv4 => v4(1).into(),
            AddressFamily::Ipv6 => IpAddr::V6(Ipv6Addr::new(0x2606, 0x4700, hour, 0, 0, 0, 0, 1)),
        };
        Sighting::Interfaces(vec![address])
    });
    simulation.run_to(DAY - MINUTE);
    for name in ["a", "b"] {
        let of_name = simulation.updates.iter().filter(|(_, one, _)| *one == name);
        let hours: Vec<_> = of_name
            .map(|(since, _, change)| {
                // The address of IPv4 is set once.
                assert_eq!(change.ipv4.is_some(), since.is_zero());
                assert!(change.ipv6.is_some());
                since.as_secs() / 3600
            })
            .collect();
        assert_eq!(hours, (0..24).collect::<Vec<_>>());
    }
}

/// With a second for the update, records follow in a minute.
#[test]
fn an_address_that_others_report_is_set_within_a_minute() {
    let (begin, away) = (Duration::from_secs(20 * 60), Duration::from_secs(3 * 60));
    for (look_takes, worst) in [(Duration::ZERO, 35), (LONGEST_LOOK, 55)] {
        let mut longest = Duration::ZERO;
        for changed in (0..60).map(|seconds| begin + Duration::from_secs(seconds)) {
            // At once, or after a time in which the router is off.
            for (gone, back) in [(changed, changed), (begin, changed + away)] {
                let mut simulation = Simulation::new(&["a"], OTHERS, move |_, since| match since {
                    since if since <= gone => Sighting::Reported(v4(1).into()),
                    since if since <= back => Sighting::Nothing("it is off".to_owned()),
                    _ => Sighting::Reported(v4(2).into()),
                });
                simulation.look_takes = [look_takes, Duration::ZERO];
                simulation.run_to(back + HOUR);
                let [_, (since, ..)] = simulation.updates[..] else {
                    panic!("{:?}", simulation.updates);
                };
                longest = longest.max(since - back);
            }
        }
        assert_eq!(longest.as_secs(), worst);
    }
}

#[test]
fn both_families_changed_at_once_are_one_update_of_each_name() {
    let v6 = |last| Ipv6Addr::new(0x2606, 0x4700, last, 0, 0, 0, 0, 1);
    for look_takes in [Duration::ZERO, LONGEST_LOOK] {
        for seconds in 0..60 {
            let changed = HOUR + Duration::from_secs(seconds);
            let asked = [Some(Asked::Others), Some(Asked::Kernel)];
            let mut simulation = Simulation::new(&["a", "b"], asked, move |family, since| {
                let last = if since < changed { 1 } else { 2 };
                match family {
                    AddressFamily::Ipv4 => Sighting::Reported(v4(last).into()),
                    AddressFamily::Ipv6 => Sighting::Interfaces(vec![v6(u16::from(last)).into()]),
                }
            });
            simulation.look_takes = [look_takes, Duration::ZERO];
            simulation.wake_at(changed);
            simulation.run_to(changed + MINUTE);
            let made = simulation.updates.iter();
            let made: Vec<_> = made.map(|(_, name, change)| (*name, *change)).collect();
            let both = |last: u8| WantedAddresses {
                ipv4: Some(v4(last)),
                ipv6: Some(v6(u16::from(last))),
            };
            let expected = [
                ("a", both(1)),
                ("b", both(1)),
                ("a", both(2)),
                ("b", both(2)),
            ];
            assert_eq!(made, expected, "{seconds}");
        }
    }
}

#[test]
fn a_fickle_router_delays_the_other_family_by_half_a_minute() {
    let asked = [Some(Asked::Others), Some(Asked::Kernel)];
    let mut simulation = Simulation::new(&["a"], asked, |family, since| match family {
        AddressFamily::Ipv4 => Sighting::Reported(v4((since.as_secs() % 251) as u8).into()),
        AddressFamily::Ipv6 => {
            let last = if since < HOUR { 1 } else { 2 };
            Sighting::Interfaces(vec![Ipv6Addr::new(0x2606, 0, 0, 0, 0, 0, 0, last).into()])
        }
    });
    simulation.wake_at(HOUR);
    simulation.run_to(2 * HOUR);
    let times: Vec<_> = simulation
        .updates
        .iter()
        .map(|(since, ..)| *since)
        .collect();
    assert_eq!(times, [Duration::from_secs(30), HOUR]);
}

#[test]
fn a_new_address_ends_the_waits_after_failures() {
    let back = 5 * HOUR;
    let mut simulation = Simulation::new(&["a"], OTHERS, move |_, since| {
        let last = if since < back { 1 } else { 2 };
        Sighting::Reported(v4(last).into())
    });
    simulation.run_to(2 * HOUR);
    // Failures of hours, which say nothing of the new line.
    simulation.offline = true;
    simulation.run_to(back - Duration::from_secs(1));
    simulation.offline = false;
    simulation.run_to(back + MINUTE);
    // It is seen ten seconds later, which is the second time.
    let times: Vec<_> = simulation
        .updates
        .iter()
        .map(|(since, ..)| *since)
        .collect();
    assert_eq!(
        times,
        [Duration::from_secs(5), back + Duration::from_secs(10)]
    );
}

#[test]
fn name_servers_that_are_back_are_asked_within_a_minute() {
    let mut simulation = Simulation::new(&["a"], KERNEL, |_, since| {
        let last = if since < HOUR { 1 } else { 2 };
        Sighting::Interfaces(vec![v4(last).into()])
    });
    simulation.run_to(HOUR - EVERY);
    simulation.offline = true;
    simulation.wake_at(HOUR);
    simulation.run_to(HOUR + Duration::from_secs(25));
    simulation.offline = false;
    simulation.run_to(HOUR + MINUTE);
    let (since, ..) = simulation.updates[1];
    assert_eq!(since, HOUR + Duration::from_secs(10 + 20));
}

#[test]
fn a_change_by_others_is_set_right_at_the_next_reading() {
    let mut simulation = Simulation::new(&["a"], KERNEL, always(1));
    simulation.run_to(HOUR);
    assert_eq!(simulation.minutes(), [0]);
    simulation.zone.insert("a", only_v4(9));
    simulation.run_to(2 * HOUR);
    assert_eq!(simulation.updates.len(), 2);
    assert_eq!(simulation.zone["a"], only_v4(1));
}

#[test]
fn a_router_that_changes_its_mind_changes_no_name() {
    // Another answer each minute, after a first one that it keeps for an hour.
    let mut simulation = Simulation::new(&["a"], OTHERS, |_, since| {
        let last = match since {
            since if since < HOUR => 1,
            since => (since.as_secs() % 251) as u8,
        };
        Sighting::Reported(v4(last).into())
    });
    simulation.run_to(3 * HOUR);
    assert_eq!(simulation.updates.len(), 1);
    assert_eq!(simulation.zone["a"], only_v4(1));
}

#[test]
fn an_address_that_is_gone_for_a_while_is_kept_in_the_zone() {
    let mut simulation = Simulation::new(&["a"], KERNEL, |_, since| match since {
        since if since < HOUR || since > 2 * HOUR => Sighting::Interfaces(vec![v4(1).into()]),
        _ => Sighting::Nothing("the cable is out".to_owned()),
    });
    simulation.run_to(3 * HOUR);
    assert_eq!(simulation.minutes(), [0]);
}

#[test]
fn a_provider_that_refuses_is_asked_less_and_less_often() {
    let mut simulation = Simulation::new(&["a", "b"], KERNEL, always(1));
    let refusal = |why: &str| DnsError::Provider {
        provider: "desec",
        why: why.to_owned(),
    };
    simulation.refusal = Some(refusal("API error: HTTP 500"));
    simulation.run_to(3 * HOUR);
    // One name at a time: the other one waits, too.
    assert_eq!(simulation.minutes(), [0, 1, 3, 7, 15, 31, 63, 123]);
    simulation.refusal = None;
    simulation.run_to(5 * HOUR);
    assert_eq!(simulation.minutes()[8..], [183, 183]);

    let mut limited = Simulation::new(&["a"], KERNEL, always(1));
    limited.refusal = Some(refusal("API error: HTTP 429: slow down"));
    limited.run_to(4 * HOUR);
    assert_eq!(limited.minutes(), [0, 15, 45, 105, 225]);
}

#[test]
fn a_name_that_is_an_alias_does_not_hold_up_the_others() {
    let mut simulation = Simulation::new(&["alias", "b"], KERNEL, always(1));
    simulation.alias = Some("alias");
    simulation.run_to(HOUR);
    assert_eq!(simulation.updates, [(Duration::ZERO, "b", only_v4(1))]);
}

#[test]
fn an_address_that_the_zone_does_not_show_is_set_once() {
    let mut simulation = Simulation::new(&["a"], KERNEL, always(1));
    simulation.frozen = true;
    simulation.run_to(DAY);
    assert_eq!(simulation.minutes(), [0]);
}

#[test]
fn an_address_that_comes_back_is_set_again() {
    // The zone shows the second one all the time.
    let mut simulation = Simulation::new(&["a"], KERNEL, |_, since| {
        let last = if since < HOUR || since > 2 * HOUR {
            1
        } else {
            2
        };
        Sighting::Interfaces(vec![v4(last).into()])
    });
    simulation.zone.insert("a", only_v4(2));
    simulation.frozen = true;
    simulation.run_to(3 * HOUR);
    assert_eq!(simulation.minutes(), [0, 120]);
}

#[test]
fn sources_that_answer_slowly_keep_no_name_waiting() {
    // Each look takes longer than the time between two of them.
    let mut simulation =
        Simulation::new(
            &["a"],
            [Some(Asked::Others); 2],
            |family, since| match family {
                AddressFamily::Ipv4 if since < 7 * MINUTE => Sighting::Reported(v4(1).into()),
                _ => Sighting::Nothing("no answer".to_owned()),
            },
        );
    simulation.look_takes = [2 * MINUTE; 2];
    simulation.run_to(HOUR);
    assert_eq!(simulation.zone["a"], only_v4(1));
    // Both families are looked at in turn, and the name is read every ten minutes.
    assert!(simulation.looks >= 28, "{}", simulation.looks);
    assert!(simulation.reads >= 4, "{}", simulation.reads);
}

#[test]
fn another_address_is_set_without_the_wait_after_failures() {
    let after_failures_of = |why: &str| {
        let mut simulation = Simulation::new(&["a", "b"], KERNEL, |_, since| {
            let last = if since < 2 * HOUR { 1 } else { 2 };
            Sighting::Interfaces(vec![v4(last).into()])
        });
        simulation.refusal = Some(DnsError::Provider {
            provider: "desec",
            why: why.to_owned(),
        });
        simulation.run_to(2 * HOUR - MINUTE);
        simulation.refusal = None;
        let failed = simulation.updates.len();
        simulation.run_to(4 * HOUR);
        simulation.minutes()[failed..].to_vec()
    };
    // The next try would have been at 123.
    assert_eq!(after_failures_of("the network is unreachable"), [120, 120]);
    // This one stays: 0, 15, 45 and 105 before.
    assert_eq!(
        after_failures_of("API error: HTTP 429: slow down"),
        [225, 225]
    );
}

#[test]
fn servers_of_the_zone_that_are_silent_hold_up_no_change() {
    let mut simulation = Simulation::new(&["a"], KERNEL, |_, since| {
        let last = if since < HOUR { 1 } else { 2 };
        Sighting::Interfaces(vec![v4(last).into()])
    });
    simulation.silent = true;
    simulation.run_to(DAY);
    assert_eq!(simulation.minutes(), [0, 60]);
    assert_eq!(simulation.zone["a"], only_v4(2));
}

#[test]
fn a_change_of_an_interface_is_seen_at_once() {
    let mut simulation = Simulation::new(&["a"], KERNEL, |_, since| {
        let last = if since < Duration::from_secs(90) {
            1
        } else {
            2
        };
        Sighting::Interfaces(vec![v4(last).into()])
    });
    simulation.run_to(Duration::from_secs(89));
    assert_eq!(simulation.zone["a"], only_v4(1));
    simulation.now = simulation.begin + Duration::from_secs(90);
    simulation.follower.wake(simulation.now);
    simulation.run_to(Duration::from_secs(91));
    assert_eq!(simulation.zone["a"], only_v4(2));
}
