//! What is to be done next so that names follow the machine's address: a state machine. Time and what
//! came of each step are told to it; it asks nothing and sets nothing itself.
//!
//! A name is read before it is set, so that nothing is sent where the zone is right already, and after a
//! while again, since others may change it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use lockgate_dns::{AddressReading, DnsError, WantedAddresses};

use crate::back_off::{BackOff, FailureKind};
use crate::family::AddressFamily;
use crate::settling::{Asked, SettledAddress, Sighting};

/// The time after which a name that is right is read again, and the share by which it may be longer.
const READ_AGAIN: Duration = Duration::from_secs(10 * 60);
const SPREAD: f64 = 0.25;
/// The longest time for which names wait for an address that is about to change, so that both families
/// change by one update: the gap before a look, two looks of 10 s, and the time between them.
const PATIENCE: Duration = Duration::from_secs(30);

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Look at the sources of a family.
    Look(AddressFamily),
    /// Read what the zone shows of the name at this place.
    Read {
        name: usize,
        wanted: WantedAddresses,
    },
    /// Set the addresses of the name.
    Set {
        name: usize,
        zone: String,
        wanted: WantedAddresses,
        change: WantedAddresses,
    },
    /// Nothing until then, if the network does not change.
    Wait(Option<Instant>),
}

/// What has become known of a name by a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameNews {
    /// The zone shows these addresses.
    Right(WantedAddresses),
    /// The zone shows others than these; it will be set.
    Differs,
    /// These addresses were set.
    Set(WantedAddresses),
    /// These were set before, the provider said yes, and yet no server of the zone shows them.
    NotShown(WantedAddresses),
    /// The step has failed; it is tried again at that time.
    Failed(DnsError, Instant),
}

/// Keeps names at addresses.
pub(crate) struct Follower {
    ipv4: Option<SettledAddress>,
    ipv6: Option<SettledAddress>,
    /// Since when an address is about to change.
    unsettled: Option<Instant>,
    /// The families that were looked at since names had their turn. Each is so once before it: sources
    /// that take longer than `every` would otherwise keep names waiting for ever.
    looked: Vec<AddressFamily>,
    names: Vec<NameState>,
    /// The name that is looked at first: the one behind that which has failed last, so that it does not
    /// keep the others of its zone waiting.
    turn: usize,
    /// Failures of the provider, by zone.
    zones: HashMap<String, BackOff>,
    /// Random numbers from 0 to 1.
    jitter: fn() -> f64,
}

/// A name.
struct NameState {
    /// Its zone, once that is known.
    zone: Option<String>,
    /// What the zone has, as far as is known.
    known: WantedAddresses,
    /// What was set, and was not shown by the last look at the zone.
    unseen: WantedAddresses,
    /// A change that is to be made: what was wanted, and what of it is lacking.
    change: Option<(WantedAddresses, WantedAddresses)>,
    read_at: Instant,
    back_off: BackOff,
}

impl NameState {
    /// Plans the change that a look at the zone has called for; `otherwise` where there is none.
    fn compared(
        &mut self,
        wanted: WantedAddresses,
        change: WantedAddresses,
        otherwise: NameNews,
    ) -> NameNews {
        if change.is_empty() {
            self.back_off.succeeded();
            return otherwise;
        }
        self.change = Some((wanted, change));
        NameNews::Differs
    }
}

impl Follower {
    /// So many names without a known address. A family without sources (`None`) is left alone.
    pub(crate) fn new(
        now: Instant,
        names: usize,
        every: Duration,
        asked: [Option<Asked>; 2],
        jitter: fn() -> f64,
    ) -> Self {
        let family = |asked: Option<Asked>| Some(SettledAddress::new(now, every, asked?));
        let [ipv4, ipv6] = asked;
        let name = || NameState {
            zone: None,
            known: WantedAddresses::default(),
            unseen: WantedAddresses::default(),
            change: None,
            read_at: now,
            back_off: BackOff::default(),
        };
        Self {
            ipv4: family(ipv4),
            ipv6: family(ipv6),
            unsettled: None,
            looked: Vec::new(),
            names: std::iter::repeat_with(name).take(names).collect(),
            turn: 0,
            zones: HashMap::new(),
            jitter,
        }
    }

    /// The next step at a time. It is to be asked again after each one.
    pub(crate) fn next(&mut self, now: Instant) -> Step {
        let families = [
            (AddressFamily::Ipv4, &self.ipv4),
            (AddressFamily::Ipv6, &self.ipv6),
        ];
        let (mut due, mut later, mut is_settled) = (Vec::new(), Vec::new(), true);
        for (family, settled) in families {
            let Some(settled) = settled else {
                continue;
            };
            is_settled &= settled.is_settled();
            match settled.next_look() {
                at if at > now => later.push(at),
                _ => due.push(family),
            }
        }
        if let Some(family) = due.iter().find(|family| !self.looked.contains(family)) {
            return Step::Look(*family);
        }
        self.looked.clear();
        self.unsettled = match is_settled {
            true => None,
            false => self.unsettled.or(Some(now)),
        };
        let patient_until = self.unsettled.map(|since| since + PATIENCE);
        if let Some(until) = patient_until.filter(|until| now < *until) {
            later.push(until);
        } else if let Some(step) = self.next_of_names(now, &mut later) {
            return step;
        }
        match due.first() {
            Some(family) => Step::Look(*family),
            None => Step::Wait(later.into_iter().min()),
        }
    }

    /// The next step of a name, or when one is due `later`.
    fn next_of_names(&mut self, now: Instant, later: &mut Vec<Instant>) -> Option<Step> {
        let wanted = self.wanted();
        if wanted.is_empty() {
            return None;
        }
        let (count, turn) = (self.names.len(), self.turn);
        for name in (0..count).map(|at| (turn + at) % count) {
            let Some(state) = self.names.get_mut(name) else {
                continue;
            };
            let of_zone = state.zone.as_ref().and_then(|zone| self.zones.get(zone));
            let waits = [Some(&state.back_off), of_zone];
            let held = waits.into_iter().flatten().filter_map(BackOff::until).max();
            if let Some(until) = held
                && now < until
            {
                later.push(until);
                continue;
            }
            if let (Some((asked_for, change)), Some(zone)) = (state.change, &state.zone)
                && asked_for == wanted
            {
                return Some(Step::Set {
                    name,
                    zone: zone.clone(),
                    wanted,
                    change,
                });
            }
            state.change = None;
            if state.read_at <= now || !wanted.without(state.known).is_empty() {
                return Some(Step::Read { name, wanted });
            }
            later.push(state.read_at);
        }
        None
    }

    /// The addresses that all names are to have.
    pub(crate) fn wanted(&self) -> WantedAddresses {
        let address = |settled: &Option<SettledAddress>| settled.as_ref()?.address();
        WantedAddresses {
            ipv4: address(&self.ipv4).and_then(|address| match address {
                IpAddr::V4(address) => Some(address),
                IpAddr::V6(_) => None,
            }),
            ipv6: address(&self.ipv6).and_then(|address| match address {
                IpAddr::V6(address) => Some(address),
                IpAddr::V4(_) => None,
            }),
        }
    }

    /// The network has changed: the sources are looked at soon.
    pub(crate) fn wake(&mut self, now: Instant) {
        let families = [&mut self.ipv4, &mut self.ipv6];
        families
            .into_iter()
            .flatten()
            .for_each(|settled| settled.wake(now));
    }

    /// The result of [`Step::Look`]. Another address ends the waits of names, but those of rate limits:
    /// what has failed while this machine's line was down must not keep its names at the old one. The other
    /// family is looked at soon, since a line that has come back has often changed both.
    pub(crate) fn looked(&mut self, now: Instant, family: AddressFamily, sighting: &Sighting) {
        let (settled, other) = match family {
            AddressFamily::Ipv4 => (&mut self.ipv4, &mut self.ipv6),
            AddressFamily::Ipv6 => (&mut self.ipv6, &mut self.ipv4),
        };
        let Some(settled) = settled else {
            return;
        };
        let before = settled.address();
        settled.looked(now, sighting);
        self.looked.push(family);
        if settled.address() == before {
            return;
        }
        let of_names = self.names.iter_mut().map(|state| &mut state.back_off);
        let waits = of_names.chain(self.zones.values_mut());
        waits.for_each(BackOff::hurry);
        if let (Some(_), Some(other)) = (before, other) {
            other.wake(now);
        }
    }

    /// The result of [`Step::Read`]; none for a name that is not there.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        name: usize,
        wanted: WantedAddresses,
        reading: Result<AddressReading, DnsError>,
    ) -> Option<NameNews> {
        let jitter = (self.jitter)();
        let state = self.names.get_mut(name)?;
        let reading = match reading {
            Ok(reading) => reading,
            Err(error) => return Some(self.failed(now, name, error)),
        };
        state.read_at = now + READ_AGAIN + READ_AGAIN.mul_f64(SPREAD * jitter);
        state.zone = Some(reading.zone);
        let Some(lacking) = reading.lacking else {
            // No server of the zone tells: what was set is taken for right.
            let change = wanted.without(state.known);
            return Some(state.compared(wanted, change, NameNews::Right(wanted)));
        };
        let change = lacking.without(state.unseen);
        // What was set for another address than the present one is no reason against setting it again.
        state.unseen = lacking.without(change);
        state.known = wanted.without(change);
        let otherwise = match lacking.is_empty() {
            true => NameNews::Right(wanted),
            false => NameNews::NotShown(lacking),
        };
        Some(state.compared(wanted, change, otherwise))
    }

    /// The result of [`Step::Set`]; none for a name that is not there.
    pub(crate) fn set(
        &mut self,
        now: Instant,
        name: usize,
        wanted: WantedAddresses,
        change: WantedAddresses,
        result: Result<(), DnsError>,
    ) -> Option<NameNews> {
        let jitter = (self.jitter)();
        let state = self.names.get_mut(name)?;
        state.change = None;
        if let Err(error) = result {
            return Some(self.failed(now, name, error));
        }
        state.known = wanted;
        state.unseen = WantedAddresses {
            ipv4: change.ipv4.or(state.unseen.ipv4),
            ipv6: change.ipv6.or(state.unseen.ipv6),
        };
        state.read_at = now + READ_AGAIN + READ_AGAIN.mul_f64(SPREAD * jitter);
        state.back_off.succeeded();
        if let Some(of_zone) = state
            .zone
            .as_ref()
            .and_then(|zone| self.zones.get_mut(zone))
        {
            of_zone.succeeded();
        }
        Some(NameNews::Set(wanted))
    }

    /// Counts a failure: where the provider is at fault, all names of the zone wait; the next try is
    /// another name's.
    fn failed(&mut self, now: Instant, name: usize, error: DnsError) -> NameNews {
        let kind = match &error {
            error if error.is_rate_limit() => FailureKind::RateLimit,
            DnsError::Unanswered { .. } => FailureKind::Unanswered,
            _ => FailureKind::Usual,
        };
        let jitter = (self.jitter)();
        let Some(state) = self.names.get_mut(name) else {
            return NameNews::Failed(error, now);
        };
        self.turn = name + 1;
        state.back_off.failed(now, kind, jitter);
        let mut until = state.back_off.until();
        if let (Some(zone), true) = (&state.zone, error.is_of_provider()) {
            let of_zone = self.zones.entry(zone.clone()).or_default();
            of_zone.failed(now, kind, jitter);
            until = until.max(of_zone.until());
        }
        NameNews::Failed(error, until.unwrap_or(now))
    }
}
