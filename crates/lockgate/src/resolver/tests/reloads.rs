//! Names and services of one configuration after the other.

use std::collections::HashMap;

use lockgate_net::dial::DialTarget;
use lockgate_upstream::{Balance, Member, Settings};
use tokio::net::UdpSocket;

use super::*;

/// Look-ups that never end, by their names: each message is the beginning of one, and the channel
/// closes when the last one was given up.
fn endless(
    names: &[&'static str],
) -> (LookupFn, HashMap<&'static str, mpsc::UnboundedReceiver<()>>) {
    let (asked, asks): (HashMap<_, _>, HashMap<_, _>) = names
        .iter()
        .map(|name| {
            let (asked, asks) = mpsc::unbounded_channel();
            ((*name, Mutex::new(Some(asked))), (*name, asks))
        })
        .unzip();
    let lookup: LookupFn = Arc::new(move |name| {
        let asked = asked[name.host()].lock().unwrap().take();
        let asked = asked.expect("it is looked up once");
        let _ = asked.send(());
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(asked);
            Ok(Vec::new())
        })
    });
    (lookup, asks)
}

#[test]
fn names_in_common_are_not_asked_for_again_and_those_that_are_gone_end() {
    block_on(async {
        let (lookup, mut asks) = endless(&["stays", "gone", "new"]);
        let mut resolver = EndpointResolver::default();
        let [stays, _] = ["stays", "gone"].map(|name| resolver.register(name, 1));
        let mut resolving = started(resolver, lookup, QUICK);
        for name in ["stays", "gone"] {
            assert_eq!(asks.get_mut(name).unwrap().recv().await, Some(()));
        }
        let mut resolver = EndpointResolver::continuing(&resolving);
        assert!(Arc::ptr_eq(&stays, &resolver.register("stays", 1)));
        assert!(Arc::ptr_eq(&stays, &resolver.register("stays", 1)));
        resolver.register("new", 1);
        let prepared = resolving.prepare(resolver);
        // The new one is looked up before the commit, and the old ones still are.
        assert_eq!(asks.get_mut("new").unwrap().recv().await, Some(()));
        assert!(!asks["gone"].is_closed());
        resolving.commit(prepared);
        assert_eq!(asks.get_mut("gone").unwrap().recv().await, None);
        assert!(!asks["stays"].is_closed() && !asks["new"].is_closed());
    });
}

#[test]
fn prepared_names_that_are_dropped_leave_no_task() {
    block_on(async {
        let (lookup, mut asks) = endless(&["stays", "new"]);
        let mut resolver = EndpointResolver::default();
        let stays = resolver.register("stays", 1);
        let resolving = started(resolver, lookup, QUICK);
        let mut resolver = EndpointResolver::continuing(&resolving);
        let new = resolver.register("new", 1);
        let prepared = resolving.prepare(resolver);
        assert_eq!(asks.get_mut("new").unwrap().recv().await, Some(()));
        drop(prepared);
        assert_eq!(asks.get_mut("new").unwrap().recv().await, None);
        assert!(!asks["stays"].is_closed());
        let mut resolver = EndpointResolver::continuing(&resolving);
        assert!(Arc::ptr_eq(&stays, &resolver.register("stays", 1)));
        assert!(!Arc::ptr_eq(&new, &resolver.register("new", 1)));
    });
}

#[test]
fn a_reload_waits_for_the_first_answers_of_new_names_only() {
    block_on(async {
        let (answer, _asks) = scripted(&[&["10.0.0.1:1"]]);
        let lookup: LookupFn = Arc::new(move |name| match name.host() {
            "hangs" => Box::pin(std::future::pending()),
            _ => answer(name),
        });
        let mut resolver = EndpointResolver::default();
        resolver.register("hangs", 1);
        let resolving = started(resolver, lookup, ONLY_WHEN_WOKEN);
        let mut resolver = EndpointResolver::continuing(&resolving);
        resolver.register("hangs", 1);
        let new = resolver.register("new", 1);
        let prepared = resolving.prepare(resolver);
        prepared.first_answers(Duration::from_secs(3_600)).await;
        assert_eq!(**new.addresses(), addresses(&["10.0.0.1:1"]));
    });
}

/// A name server with the records of every service: priority, weight and port, at 127.0.0.1.
async fn name_server() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Answers the next query.
async fn answer(socket: &UdpSocket, records: &[(u16, u16, u16)]) {
    let mut asked = [0; 512];
    let (length, from) = socket.recv_from(&mut asked).await.unwrap();
    let mut answer = asked[..length].to_vec();
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (priority, weight, port) in records {
        // Of the name in the question, SRV, IN, for a day.
        answer.extend_from_slice(&[0xc0, 12, 0, 33, 0, 1, 0, 1, 0x51, 0x80]);
        let target = b"\x03127\x010\x010\x011\x00";
        answer.extend_from_slice(&(6 + target.len() as u16).to_be_bytes());
        answer.extend_from_slice(&[*priority, *weight, *port].map(u16::to_be_bytes).concat());
        answer.extend_from_slice(target);
    }
    socket.send_to(&answer, from).await.unwrap();
}

/// A pool whose members follow the records of a service.
fn pool(resolver: &mut EndpointResolver, backup: bool) -> Arc<Pool> {
    let members = resolver
        .service("_app._tcp.test", None)
        .into_iter()
        .map(|endpoint| {
            let member = Member::new(endpoint, 1).as_backup();
            member.mark_down();
            member
        });
    let members = members.collect();
    let pool = Pool::new(
        members,
        Some(Balance::RoundRobin),
        None,
        Settings::default(),
    );
    let pool = Arc::new(pool);
    resolver.add_pool("_app._tcp.test", &pool, MemberIndex::new(0), backup);
    pool
}

/// The ports and weights of members that are up, with whether they are backups.
fn up(pool: &Pool) -> Vec<(u16, u32, bool)> {
    let members = pool.members().iter().filter(|member| member.is_up());
    let shown = members.map(|member| {
        let targets = member.endpoint().address().targets();
        let [DialTarget::Tcp(address)] = &targets[..] else {
            panic!("{targets:?}");
        };
        (address.port(), member.weight(), member.is_backup())
    });
    shown.collect()
}

#[test]
fn the_next_pool_gets_the_records_and_the_old_one_is_freed() {
    block_on(async {
        let (server, address) = name_server().await;
        let mut resolver = EndpointResolver::default();
        resolver.set_name_servers(&[address]);
        let old = pool(&mut resolver, false);
        let (lookup, _asks) = scripted(&[&[]]);
        let (mut resolving, prepared) = start(resolver, lookup, ONLY_WHEN_WOKEN);
        answer(&server, &[(1, 3, 80), (2, 5, 81)]).await;
        prepared.first_answers(Duration::from_secs(60)).await;
        assert_eq!(up(&old), []);
        resolving.commit(prepared);
        assert_eq!(up(&old), [(80, 30, false), (81, 50, true)]);
        // What checks have found stays where the pool stays.
        old.members()[1].mark_down();

        let mut resolver = EndpointResolver::continuing(&resolving);
        resolver.set_name_servers(&[address]);
        let (new, other) = (pool(&mut resolver, false), pool(&mut resolver, true));
        assert!(Arc::ptr_eq(
            old.members()[0].endpoint(),
            new.members()[0].endpoint()
        ));
        resolver.add_pool("_app._tcp.test", &old, MemberIndex::new(0), false);
        let prepared = resolving.prepare(resolver);
        prepared.first_answers(Duration::from_secs(3_600)).await;
        assert_eq!(
            (up(&new), up(&other)),
            (vec![], vec![]),
            "it may still fail"
        );
        resolving.commit(prepared);
        assert_eq!(up(&old), [(80, 30, false)]);
        assert_eq!(up(&new), [(80, 30, false), (81, 50, true)]);
        assert_eq!(up(&other), [(80, 30, true), (81, 50, true)]);

        let mut resolver = EndpointResolver::continuing(&resolving);
        resolver.set_name_servers(&[address]);
        resolver.service("_app._tcp.test", None);
        resolver.add_pool("_app._tcp.test", &new, MemberIndex::new(0), false);
        let prepared = resolving.prepare(resolver);
        resolving.commit(prepared);
        let gone = [old, other].map(|pool| Arc::downgrade(&pool));
        assert!(gone.iter().all(|pool| pool.upgrade().is_none()));
        // All of that asked the name server nothing.
        let mut buffer = [0; 512];
        assert!(server.try_recv_from(&mut buffer).is_err());
        // A failed connect has it asked, and the records go to the pool that is there.
        let targets = new.members()[0].endpoint().address();
        let lockgate_upstream::EndpointAddress::Name(name) = targets else {
            panic!("{targets:?}");
        };
        name.failed();
        answer(&server, &[(1, 7, 80)]).await;
        until(|| up(&new) == [(80, 70, false)]).await;
    });
}

/// Lets other tasks run until it holds.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_service_that_is_gone_ends_and_other_name_servers_are_asked() {
    block_on(async {
        let ((old, at_old), (new, at_new)) = (name_server().await, name_server().await);
        let mut resolver = EndpointResolver::default();
        resolver.set_name_servers(&[at_old]);
        let members = pool(&mut resolver, false);
        let (lookup, _asks) = scripted(&[&[]]);
        let (mut resolving, prepared) = start(resolver, lookup, ONLY_WHEN_WOKEN);
        answer(&old, &[(1, 1, 80)]).await;
        prepared.first_answers(Duration::from_secs(60)).await;
        resolving.commit(prepared);

        let mut resolver = EndpointResolver::continuing(&resolving);
        resolver.set_name_servers(&[at_new]);
        resolver.service("_app._tcp.test", None);
        resolver.add_pool("_app._tcp.test", &members, MemberIndex::new(0), false);
        let prepared = resolving.prepare(resolver);
        resolving.commit(prepared);
        answer(&new, &[(1, 1, 81)]).await;
        until(|| up(&members) == [(81, 10, false)]).await;

        let gone = Arc::downgrade(members.members()[0].endpoint());
        drop(members);
        let none = resolving.prepare(EndpointResolver::continuing(&resolving));
        resolving.commit(none);
        until(|| gone.upgrade().is_none()).await;
    });
}
