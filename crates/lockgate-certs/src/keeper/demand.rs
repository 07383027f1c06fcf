//! Certificates that clients ask for: permission, limits, and the wait of a handshake.
//!
//! Orders nothing itself: it hands what is permitted to the tasks that do.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lockgate_net::cert_demand::CertDemand;
use lockgate_net::tls::{CertFiles, ManagedCert};
use lockgate_rules::on_demand::is_certifiable_name;
use lockgate_rules::{CertKeyKind, HostPattern, OnDemand};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;

use super::{CertState, KeeperState, OnDemandHosts, WantedCert};
use crate::leaf::Leaf;
use crate::permission::{Permission, ask};
use crate::store::{CertFolder, CertId};

const HOUR: Duration = Duration::from_secs(3600);
/// The first time for which a name is not tried again after a failure or a refusal; it doubles up to
/// an hour.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// New names for each order that `per_hour` allows: they cost a question at the operator's service each.
const QUESTIONS: usize = 10;
/// The most names and clients that are remembered.
const REMEMBERED: usize = 4096;

/// The demands of clients.
pub(super) struct Demands {
    pub(super) shared: Arc<KeeperState>,
    pub(super) folder: CertFolder,
    pub(super) hosts: watch::Receiver<Arc<[OnDemandHosts]>>,
    /// Takes certificates that are to be ordered.
    pub(super) begun: mpsc::UnboundedSender<WantedCert>,
    /// Whether this process has the right to order, once that is known.
    pub(super) orders: watch::Sender<Option<bool>>,
    pub(super) limits: RefCell<DemandLimits>,
}

/// What was asked for in the last hour.
#[derive(Default)]
pub(super) struct DemandLimits {
    /// Orders.
    begun: VecDeque<Instant>,
    /// New names, permitted or not.
    questions: VecDeque<Instant>,
    /// The same by client; an IPv6 client is its /64.
    clients: HashMap<IpAddr, VecDeque<Instant>>,
    /// Names that were refused or have failed: how often, and until when they are not tried again.
    paused: HashMap<String, (u32, Instant)>,
}

/// Why a name is not ordered for a client.
#[derive(Debug, PartialEq, Eq)]
enum Denial {
    Paused,
    PerHour,
    PerClient,
    Questions,
}

impl Demands {
    /// Meets demands until their source is gone.
    pub(super) async fn serve(self: Rc<Self>, mut demands: mpsc::Receiver<CertDemand>) {
        while let Some(demand) = demands.recv().await {
            let own = Rc::clone(&self);
            // It ends with its client, or with the order.
            spawn_local(async move {
                let mut demand = demand;
                if own.meet(&mut demand).await {
                    // The client may have left.
                    let _ = demand.done.send(());
                }
            });
        }
    }

    /// Lets the acceptor of a demand have its certificate; returns whether it has.
    async fn meet(&self, demand: &mut CertDemand) -> bool {
        let Some((hosts, id)) = self.permitted(&demand.name) else {
            return false;
        };
        let state = match self.shared.get(&id) {
            Some(state) => state,
            // A process before this one may have obtained it.
            None if self.install(demand, &id) => return true,
            None => {
                let Some(state) = self.begin(demand, hosts, &id).await else {
                    return false;
                };
                state
            }
        };
        let mut told = state.told.subscribe();
        loop {
            let (valid, failed) = {
                let status = state.status();
                let valid = status.validity;
                (
                    valid.is_some_and(|valid| SystemTime::now() < valid.not_after),
                    status.failures > 0,
                )
            };
            if valid {
                return self.install(demand, &id);
            }
            if failed {
                return false;
            }
            tokio::select! {
                changed = told.changed() => if changed.is_err() {
                    return false;
                },
                () = demand.done.closed() => return false,
            }
        }
    }

    /// The hosts that a name is one of, and the identity of its certificate, if it is one that an
    /// authority may certify.
    fn permitted(&self, name: &str) -> Option<(OnDemandHosts, CertId)> {
        let hosts = self.hosts.borrow();
        let host = HostPattern::Exact(name.to_owned());
        let of_name = |hosts: &&OnDemandHosts| {
            hosts.has(name) && hosts.rules.lists(name) && hosts.settings.refuses(&host).is_none()
        };
        let found = hosts.iter().find(of_name)?.clone();
        let key = found.settings.keys.first();
        let key = key.copied().unwrap_or(CertKeyKind::EcdsaP256);
        is_certifiable_name(name).then(|| {
            let id = CertId {
                name: name.to_owned(),
                key,
                on_demand: true,
            };
            (found, id)
        })
    }

    /// Hands a name to the tasks that order, if the limits and the operator's service let it through.
    async fn begin(
        &self,
        demand: &CertDemand,
        hosts: OnDemandHosts,
        id: &CertId,
    ) -> Option<Arc<CertState>> {
        let name = &demand.name;
        let mut orders = self.orders.subscribe();
        let orders = orders
            .wait_for(Option::is_some)
            .await
            .ok()?
            .unwrap_or_default();
        if !orders {
            return None;
        }
        let now = Instant::now();
        let admitted = self
            .limits
            .borrow_mut()
            .admit(name, demand.client, &hosts.rules, now);
        if let Err(denial) = admitted {
            tracing::debug!(name, ?denial, "no certificate is ordered on demand");
            return None;
        }
        match ask(&hosts.rules, name).await {
            Permission::Given => {}
            Permission::Denied => {
                self.limits.borrow_mut().pause(name, Instant::now());
                tracing::info!(name, client = ?demand.client, "no certificate on demand: the name is not permitted");
                return None;
            }
            Permission::Unknown(error) => {
                self.limits.borrow_mut().pause(name, Instant::now());
                tracing::warn!(
                    name,
                    error,
                    "no certificate on demand: the permission cannot be asked for"
                );
                return None;
            }
        }
        // Another client may have asked meanwhile.
        if let Some(state) = self.shared.get(id) {
            return Some(state);
        }
        if let Err(denial) = self.limits.borrow_mut().begin(&hosts.rules, Instant::now()) {
            tracing::debug!(name, ?denial, "no certificate is ordered on demand");
            return None;
        }
        tracing::info!(name, client = ?demand.client, "a client asks for a certificate on demand");
        let state = self.shared.add(id);
        let wanted = WantedCert {
            id: id.clone(),
            settings: hosts.settings,
            ways: hosts.ways,
            permission: Some(hosts.rules),
        };
        self.begun.send(wanted).ok()?;
        Some(state)
    }

    /// Gives an acceptor the certificate on the disk, if there is a valid one.
    fn install(&self, demand: &CertDemand, id: &CertId) -> bool {
        let file = self.folder.cert_file(id);
        let kept = self.folder.cert(id).ok().flatten();
        let leaf = kept.and_then(|pem| Leaf::of_pem(&pem).ok());
        if leaf.is_none_or(|leaf| leaf.validity.not_after <= SystemTime::now()) {
            return false;
        }
        let report = demand.acceptor.store().add(ManagedCert {
            files: CertFiles::of(file),
            names: vec![demand.name.clone()],
            fallback: false,
            on_demand: true,
            default: false,
        });
        for error in &report.failed {
            tracing::error!(name = demand.name, %error, "the certificate is not used");
        }
        demand.acceptor.serves(Some(&demand.name))
    }

    /// Forgets an order on demand that has failed; its name rests for a while.
    pub(super) fn end(&self, id: &CertId) {
        self.limits.borrow_mut().pause(&id.name, Instant::now());
        self.shared.lock().remove(id);
        if let Err(error) = self.folder.remove(id) {
            tracing::warn!(name = id.name, %error, "what is kept of a failed order is not removed");
        }
    }
}

/// Forgets what was more than an hour ago.
fn forget_old(moments: &mut VecDeque<Instant>, now: Instant) {
    let is_old = |moment: &Instant| now.duration_since(*moment) >= HOUR;
    while moments.front().is_some_and(is_old) {
        moments.pop_front();
    }
}

impl DemandLimits {
    /// Counts an order, unless its limit is reached.
    fn begin(&mut self, rules: &OnDemand, now: Instant) -> Result<(), Denial> {
        forget_old(&mut self.begun, now);
        if self.begun.len() >= rules.per_hour as usize {
            return Err(Denial::PerHour);
        }
        self.begun.push_back(now);
        Ok(())
    }

    /// Counts a new name of a client, unless a limit is reached.
    fn admit(
        &mut self,
        name: &str,
        client: Option<IpAddr>,
        rules: &OnDemand,
        now: Instant,
    ) -> Result<(), Denial> {
        if self.paused.get(name).is_some_and(|(_, until)| now < *until) {
            return Err(Denial::Paused);
        }
        forget_old(&mut self.begun, now);
        if self.begun.len() >= rules.per_hour as usize {
            return Err(Denial::PerHour);
        }
        forget_old(&mut self.questions, now);
        if self.questions.len() >= QUESTIONS.saturating_mul(rules.per_hour as usize) {
            return Err(Denial::Questions);
        }
        if let Some(client) = client.map(lockgate_limits::client) {
            if self.clients.len() >= REMEMBERED {
                self.clients.retain(|_, asked| {
                    let last = asked.back();
                    last.is_some_and(|last| now.duration_since(*last) < HOUR)
                });
            }
            let asked = self.clients.entry(client).or_default();
            forget_old(asked, now);
            if asked.len() >= rules.per_client as usize {
                return Err(Denial::PerClient);
            }
            asked.push_back(now);
        }
        self.questions.push_back(now);
        Ok(())
    }

    /// Lets a name rest, twice as long each time.
    fn pause(&mut self, name: &str, now: Instant) {
        if self.paused.len() >= REMEMBERED {
            self.paused.retain(|_, (_, until)| now < *until + HOUR);
        }
        if self.paused.len() >= 2 * REMEMBERED {
            self.paused.clear();
        }
        let (count, until) = self.paused.entry(name.to_owned()).or_insert((0, now));
        *until = now + (FIRST_PAUSE * (1 << (*count).min(6))).min(HOUR);
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(per_hour: u32, per_client: u32) -> OnDemand {
        OnDemand {
            names: Vec::new(),
            ask: Some("http://127.0.0.1/".to_owned()),
            per_hour,
            per_client,
        }
    }

    #[test]
    fn on_demand_limits_hold_for_an_hour_by_client_and_in_all() {
        let (mut limits, now) = (DemandLimits::default(), Instant::now());
        let client = |last| Some(IpAddr::from([192, 0, 2, last]));
        let rules = rules(3, 2);
        let mut admit = |client, at| {
            limits.admit("a.example", client, &rules, at)?;
            limits.begin(&rules, at)
        };
        assert_eq!(admit(client(1), now), Ok(()));
        assert_eq!(admit(client(1), now), Ok(()));
        assert_eq!(admit(client(1), now), Err(Denial::PerClient));
        assert_eq!(admit(client(2), now), Ok(()));
        assert_eq!(admit(client(3), now), Err(Denial::PerHour));
        assert_eq!(admit(client(1), now + HOUR), Ok(()));
    }

    #[test]
    fn a_failed_on_demand_name_rests_twice_as_long_each_time() {
        let (mut limits, now) = (DemandLimits::default(), Instant::now());
        let rules = rules(100, 100);
        limits.pause("a.example", now);
        let mut admit = |name, after| limits.admit(name, None, &rules, now + after);
        assert_eq!(admit("a.example", FIRST_PAUSE / 2), Err(Denial::Paused));
        assert_eq!(admit("b.example", Duration::ZERO), Ok(()));
        assert_eq!(admit("a.example", FIRST_PAUSE), Ok(()));
        limits.pause("a.example", now);
        let mut admit = |name, after| limits.admit(name, None, &rules, now + after);
        assert_eq!(admit("a.example", FIRST_PAUSE), Err(Denial::Paused));
        assert_eq!(admit("a.example", FIRST_PAUSE * 2), Ok(()));
    }
}
