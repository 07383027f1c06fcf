//! The names that are kept, as other threads see them, and the task that keeps them.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use lockgate_dns::{AddressWriter, WantedAddresses};
use lockgate_rules::DynamicDns;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::family::AddressFamily;
use crate::follower::{Follower, NameNews, Step};
use crate::network_watch::NetworkWatch;
use crate::settling::Sighting;
use crate::sources::Sources;
use crate::status::NameStatus;

/// The names that are kept at this machine's address, and how they stand; at first none is. They are
/// kept while a [`DdnsTask`] runs.
#[derive(Debug, Default)]
pub struct DdnsKeeper {
    wanted: watch::Sender<Option<Arc<DynamicDns>>>,
    statuses: Arc<Statuses>,
}

/// What the thread that keeps names runs.
pub struct DdnsTask {
    wanted: watch::Receiver<Option<Arc<DynamicDns>>>,
    statuses: Arc<Statuses>,
}

/// How the names stand.
#[derive(Debug, Default)]
struct Statuses(Mutex<BTreeMap<String, NameStatus>>);

impl DdnsKeeper {
    /// Keeps the names of these settings, and no others, from now on. Settings that are the same as
    /// before change nothing.
    pub fn keep(&self, wanted: Option<Arc<DynamicDns>>) {
        let names = wanted.iter().flat_map(|wanted| &wanted.names);
        let mut statuses = self.statuses.lock();
        let mut known = std::mem::take(&mut *statuses);
        for name in names {
            let status = known.remove(name).unwrap_or_default();
            statuses.insert(name.clone(), status);
        }
        drop(statuses);
        self.wanted.send_if_modified(|before| {
            let is_new = *before != wanted;
            *before = wanted;
            is_new
        });
    }

    /// How each name stands.
    pub fn statuses(&self) -> Vec<(String, NameStatus)> {
        let statuses = self.statuses.lock();
        let all = statuses.iter();
        all.map(|(name, status)| (name.clone(), status.clone()))
            .collect()
    }

    /// What a thread is to run so that the names are kept.
    pub fn task(&self) -> DdnsTask {
        DdnsTask {
            wanted: self.wanted.subscribe(),
            statuses: Arc::clone(&self.statuses),
        }
    }
}

impl Statuses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, NameStatus>> {
        // A status is whole after each statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the status of a name that is kept; returns what it was.
    fn change(&self, name: &str, change: impl FnOnce(&mut NameStatus)) -> NameStatus {
        let mut statuses = self.lock();
        let Some(status) = statuses.get_mut(name) else {
            return NameStatus::default();
        };
        let before = status.clone();
        change(status);
        before
    }

    /// Says why of names without an address.
    fn without_address(&self, why: &str) {
        for status in self.lock().values_mut() {
            if status.addresses.is_empty() {
                (status.failure, status.next_try) = (Some(why.to_owned()), None);
            }
        }
    }
}

impl DdnsTask {
    /// Keeps names until the [`DdnsKeeper`] is gone. To be run in a runtime of tokio with IO and time.
    /// `set` is called with the name each time its addresses were changed.
    pub async fn run(mut self, set: impl Fn(&str)) {
        let statuses = Arc::clone(&self.statuses);
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let following = async {
                match wanted {
                    Some(settings) => follow(&settings, &statuses, &set).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = following => {}
                changed = self.wanted.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }
}

/// Keeps the names of some settings for ever.
async fn follow(settings: &DynamicDns, statuses: &Statuses, was_set: impl Fn(&str)) {
    let writer = match AddressWriter::new(&settings.dns) {
        Ok(writer) => writer,
        Err(error) => {
            tracing::error!(%error, "no name can be kept at this machine's address");
            for name in &settings.names {
                statuses.change(name, |status| failed(status, error.to_string(), None));
            }
            return pending().await;
        }
    };
    let mut network = NetworkWatch::new();
    let mut sources = Sources::new(settings);
    let asked = AddressFamily::ALL.map(|family| sources.asked(family));
    let looked_for = asked.iter().flatten().count();
    let mut follower = Follower::new(
        Instant::now(),
        settings.names.len(),
        settings.every,
        asked,
        fastrand::f64,
    );
    let mut looks = Looks::default();
    let name_at = |at: usize| settings.names.get(at).map_or("", String::as_str);
    loop {
        match follower.next(Instant::now()) {
            Step::Look(family) => {
                let sighting = sources.look(family).await;
                looks.tell(family, &sighting);
                let before = follower.wanted();
                if let Some(why) = looks.in_vain(looked_for, before) {
                    statuses.without_address(&why);
                }
                follower.looked(Instant::now(), family, &sighting);
                if follower.wanted() != before {
                    tracing::info!(%family, sighting = shown(&sighting), "this machine has another address");
                }
            }
            Step::Read { name, wanted } => {
                let reading = writer.read_addresses(name_at(name), wanted).await;
                let news = follower.read(Instant::now(), name, wanted, reading);
                tell(statuses, name_at(name), news);
            }
            Step::Set {
                name,
                zone,
                wanted,
                change,
            } => {
                let set = writer.set_addresses(&zone, name_at(name), wanted, change);
                let news = follower.set(Instant::now(), name, wanted, change, set.await);
                let is_set = matches!(news, Some(NameNews::Set(_)));
                tell(statuses, name_at(name), news);
                if is_set {
                    was_set(name_at(name));
                }
            }
            Step::Wait(until) => {
                let wait = async {
                    match until {
                        Some(until) => sleep_until(until.into()).await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    () = wait => {}
                    () = network.changed() => {
                        sources.network_changed();
                        follower.wake(Instant::now());
                    }
                }
            }
        }
    }
}

/// What the last look at each family has told, so that it is not told again.
#[derive(Default)]
struct Looks {
    ipv4: Option<String>,
    ipv6: Option<String>,
}

impl Looks {
    fn tell(&mut self, family: AddressFamily, sighting: &Sighting) {
        let told = match family {
            AddressFamily::Ipv4 => &mut self.ipv4,
            AddressFamily::Ipv6 => &mut self.ipv6,
        };
        let Sighting::Nothing(why) = sighting else {
            *told = None;
            return;
        };
        if told.as_ref() != Some(why) {
            tracing::warn!(%family, why, "no address of this machine can be published");
            *told = Some(why.clone());
        }
    }

    /// Why there is no address, once each of the families that are looked for was looked for in vain. None
    /// where one is `known` of before: a name without it has a reason of its own.
    fn in_vain(&self, looked_for: usize, known: WantedAddresses) -> Option<String> {
        let told = [
            (AddressFamily::Ipv4, &self.ipv4),
            (AddressFamily::Ipv6, &self.ipv6),
        ];
        let reasons: Vec<_> = told
            .into_iter()
            .filter_map(|(family, why)| Some(format!("{family}: {}", why.as_ref()?)))
            .collect();
        let is_in_vain = known.is_empty() && !reasons.is_empty() && reasons.len() == looked_for;
        let reasons = reasons.join("; ");
        is_in_vain.then(|| format!("no address of this machine can be published: {reasons}"))
    }
}

fn shown(sighting: &Sighting) -> String {
    match sighting {
        Sighting::Interfaces(found) => found.first().map(ToString::to_string).unwrap_or_default(),
        Sighting::Reported(found) => found.to_string(),
        Sighting::Nothing(_) => String::new(),
    }
}

/// Writes what has become of a name into its status, and changes of it into the log.
fn tell(statuses: &Statuses, name: &str, news: Option<NameNews>) {
    let now = SystemTime::now();
    match news {
        None => {}
        Some(NameNews::Differs) => tracing::debug!(name, "the zone has other addresses"),
        Some(NameNews::Right(addresses)) => {
            let before = statuses.change(name, |status| {
                status.addresses = addresses;
                status.succeeded = Some(now);
                (status.failure, status.next_try) = (None, None);
            });
            if before.failure.is_some() {
                tracing::info!(name, "the name has this machine's address again");
            }
        }
        Some(NameNews::Set(addresses)) => {
            statuses.change(name, |status| {
                status.addresses = addresses;
                status.updates += 1;
                status.succeeded = Some(now);
                (status.failure, status.next_try) = (None, None);
            });
            let ipv4 = addresses.ipv4.map(tracing::field::display);
            let ipv6 = addresses.ipv6.map(tracing::field::display);
            tracing::info!(
                name,
                ipv4,
                ipv6,
                "the name was set to this machine's address"
            );
        }
        Some(NameNews::NotShown(lacking)) => {
            let addresses: Vec<String> = lacking
                .ipv4
                .map(|address| address.to_string())
                .into_iter()
                .chain(lacking.ipv6.map(|address| address.to_string()))
                .collect();
            let why = format!(
                "the provider has taken {}, but no server of the zone shows it",
                addresses.join(" and ")
            );
            fail(statuses, name, why, None);
        }
        Some(NameNews::Failed(error, until)) => {
            let wait = until.saturating_duration_since(Instant::now());
            fail(statuses, name, error.to_string(), Some(now + wait));
        }
    }
}

fn fail(statuses: &Statuses, name: &str, why: String, next_try: Option<SystemTime>) {
    let before = statuses.change(name, |status| failed(status, why.clone(), next_try));
    match before.failure.as_ref() == Some(&why) {
        true => tracing::debug!(name, error = why, "the name's address is not set again"),
        false => tracing::error!(name, error = why, "the name's address is not set"),
    }
}

fn failed(status: &mut NameStatus, why: String, next_try: Option<SystemTime>) {
    status.failures += 1;
    status.failure = Some(why);
    status.next_try = next_try;
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use lockgate_rules::{DnsProvider, KnownDnsProvider};

    use super::*;

    #[test]
    fn names_are_told_of_missing_addresses_while_none_is_known() {
        let mut looks = Looks::default();
        let none = WantedAddresses::default();
        let known = WantedAddresses {
            ipv4: Some([1, 1, 1, 1].into()),
            ipv6: None,
        };
        let nothing = Sighting::Nothing("no cable".to_owned());
        looks.tell(AddressFamily::Ipv4, &nothing);
        assert_eq!(looks.in_vain(2, none), None);
        looks.tell(AddressFamily::Ipv6, &nothing);
        assert!(looks.in_vain(2, none).is_some());
        // An alias, for instance, is the reason of its name, also while the line is down.
        assert_eq!(looks.in_vain(2, known), None);
        looks.tell(
            AddressFamily::Ipv4,
            &Sighting::Reported([1, 1, 1, 1].into()),
        );
        assert_eq!(looks.in_vain(2, none), None);
    }

    #[test]
    fn unusable_settings_of_a_provider_stand_at_each_name() {
        let dns = DnsProvider {
            provider: KnownDnsProvider::named("rfc2136").unwrap(),
            parameters: Vec::new(),
            command: Vec::new(),
            propagation: Duration::from_secs(1),
            resolvers: Vec::new(),
        };
        let keeper = DdnsKeeper::default();
        keeper.keep(Some(Arc::new(DynamicDns {
            names: ["a.example.org", "b.example.org"]
                .map(str::to_owned)
                .to_vec(),
            dns: Arc::new(dns),
            ipv4: Vec::new(),
            ipv6: Vec::new(),
            every: Duration::from_secs(60),
            private: false,
        })));
        let running = pin!(keeper.task().run(|_| {}));
        let polled = running.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        let statuses = keeper.statuses();
        assert_eq!(statuses.len(), 2);
        for (name, status) in statuses {
            let failure = status.failure.as_deref();
            let expected = Some("the settings of `rfc2136`: `server` is missing");
            assert_eq!((failure, status.failures), (expected, 1), "{name}");
        }
    }
}
