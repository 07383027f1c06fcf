//! The router as a source. One that says nothing is asked less and less often: an inquiry without an
//! answer takes up to ten seconds, in which no name is looked after. One that has told its address a short
//! while ago is off, and will be back with another one: it is asked at each look.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use crate::back_off::{BackOff, FailureKind};
use crate::router::{RouterError, external_ipv4};

/// The time after its last answer for which a silent router is asked at each look.
const OFF: Duration = Duration::from_secs(30 * 60);

/// The router as a source.
#[derive(Debug, Default)]
pub(crate) struct RouterSource {
    silence: BackOff,
    /// When it has told something for the last time.
    answered: Option<Instant>,
    /// What the last inquiry has failed with.
    why: String,
}

impl RouterSource {
    /// Asks the router, unless it said nothing a short while ago.
    ///
    /// # Errors
    /// When it tells no public address; where it is not asked, with the reason of the last time.
    pub(crate) async fn ask(&mut self) -> Result<IpAddr, String> {
        if !self.is_due(Instant::now()) {
            return Err(self.why.clone());
        }
        let told = external_ipv4().await;
        self.asked(Instant::now(), told)
    }

    /// Asks again at the next look: this machine is in another network.
    pub(crate) fn network_changed(&mut self) {
        self.silence.succeeded();
    }

    fn is_due(&self, now: Instant) -> bool {
        self.silence.until().is_none_or(|until| until <= now)
    }

    /// Takes what an inquiry has come to.
    fn asked(
        &mut self,
        now: Instant,
        told: Result<Ipv4Addr, RouterError>,
    ) -> Result<IpAddr, String> {
        let is_off = self.answered.is_some_and(|at| now <= at + OFF);
        match &told {
            Err(error) if error.is_silence() => {
                if !is_off {
                    self.silence.failed(now, FailureKind::Silence, 0.0);
                }
            }
            Ok(_) => {
                self.silence.succeeded();
                self.answered = Some(now);
            }
            // All else is known soon. A router that says that its line is down is asked as often as ever:
            // it is about to get another address.
            Err(_) => self.silence.succeeded(),
        }
        told.map(IpAddr::V4).map_err(|error| {
            self.why = error.to_string();
            self.why.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::router::{ProtocolFailure, RouterProtocol};

    use super::*;

    const ADDRESS: Ipv4Addr = Ipv4Addr::new(1, 1, 1, 1);

    fn silent() -> Result<Ipv4Addr, RouterError> {
        Err(RouterError::NotTold {
            gateway: Ipv4Addr::new(192, 168, 1, 1),
            failures: vec![(RouterProtocol::NatPmp, ProtocolFailure::Closed(5351))],
        })
    }

    /// What an inquiry comes to: an address, `a`; no router, `n`; a line that is down, `d`; else there is
    /// no answer.
    fn told(state: char) -> Result<Ipv4Addr, RouterError> {
        match state {
            'a' => Ok(ADDRESS),
            'n' => Err(RouterError::NoDefaultRoute),
            'd' => Err(RouterError::NotTold {
                gateway: Ipv4Addr::new(192, 168, 1, 1),
                failures: vec![
                    (
                        RouterProtocol::NatPmp,
                        ProtocolFailure::Refused("result 3".to_owned()),
                    ),
                    (
                        RouterProtocol::Pcp,
                        ProtocolFailure::Silent(Duration::from_secs(2)),
                    ),
                ],
            }),
            _ => silent(),
        }
    }

    /// Each minute for half an hour after an answer, and then less often.
    const OFF_AT: [u64; 35] = {
        let mut minutes = [0; 35];
        let mut at = 0;
        while at < 32 {
            minutes[at] = at as u64;
            at += 1;
        }
        (minutes[32], minutes[33], minutes[34]) = (32, 34, 38);
        minutes
    };

    #[test]
    fn a_silent_router_is_asked_less_and_less_often() {
        let begin = Instant::now();
        // Each minute is a look. `c`: the network changes, and the router stays silent.
        for (minutes, asked_at) in [
            (".".repeat(52), &[0, 1, 3, 7, 15, 25, 35, 45][..]),
            ("a".repeat(5), &[0, 1, 2, 3, 4]),
            ("n".repeat(5), &[0, 1, 2, 3, 4]),
            ("d".repeat(5), &[0, 1, 2, 3, 4]),
            ("...a.......".to_owned(), &[0, 1, 3, 4, 5, 6, 7, 8, 9, 10]),
            // It is off for half an hour.
            (format!("a{}", ".".repeat(40)), &OFF_AT),
            ("........c......".to_owned(), &[0, 1, 3, 7, 8, 9, 11]),
        ] {
            let mut router = RouterSource::default();
            let mut asked = Vec::new();
            for (minute, state) in (0..).zip(minutes.chars()) {
                let now = begin + Duration::from_secs(60 * minute);
                if state == 'c' {
                    router.network_changed();
                }
                if router.is_due(now) {
                    asked.push(minute);
                    let found = router.asked(now, told(state));
                    assert_eq!(found.ok(), (state == 'a').then_some(ADDRESS.into()));
                }
            }
            assert_eq!(asked, asked_at, "{minutes}");
        }
    }

    #[test]
    fn while_a_router_is_not_asked_its_last_reason_is_told() {
        let mut router = RouterSource::default();
        let why = router.asked(Instant::now(), silent()).unwrap_err();
        assert!(why.starts_with("the router 192.168.1.1 does not tell its address"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        // This runtime has no IO: nothing can be asked.
        assert_eq!(runtime.block_on(router.ask()), Err(why));
    }
}
