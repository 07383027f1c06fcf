//! A scripted name server: it answers by UDP and TCP on one port, from records that tests change.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::str::FromStr as _;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::tsig::{TSIG, TsigAlgorithm, TsigError, make_tsig_record};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, SOA, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType, TSigResponseContext, TSigner};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

/// What a server does instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// It answers.
    Answers,
    /// It knows nothing of the zone.
    Refuses,
    /// It sends what is no message.
    Garbage,
    /// By UDP it says that the answer is too long.
    Truncates,
    /// It sends answers with another id before the right one.
    Strays,
    /// It answers from a cache, and holds no zone.
    Caches,
    /// It knows nothing of AAAA records.
    RefusesIpv6,
}

/// What happens before an answer.
type BeforeAnswer = Box<dyn FnMut(&NameServer)>;

/// The records and the manner of a server.
pub(super) struct NameServer {
    pub(super) address: SocketAddr,
    records: RefCell<Vec<Record>>,
    pub(super) manner: Cell<Manner>,
    pub(super) asked: Cell<usize>,
    /// Called with each question for TXT records, before the answer.
    pub(super) on_txt: RefCell<Option<BeforeAnswer>>,
    /// The key of updates.
    pub(super) signer: RefCell<Option<TSigner>>,
    /// Whether answers to updates are left unsigned.
    pub(super) unsigned: Cell<bool>,
    /// Whether answers to updates have nothing but their header and the signature.
    pub(super) bare: Cell<bool>,
    /// Updates that were carried out.
    pub(super) updates: Cell<usize>,
}

/// A running server; it ends when this is dropped.
pub(super) struct RunningServer {
    pub(super) server: Rc<NameServer>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

pub(super) fn name(text: &str) -> Name {
    let mut name = Name::from_str(text).unwrap();
    name.set_fqdn(true);
    name
}

pub(super) fn signer(secret: &[u8]) -> TSigner {
    let algorithm = TsigAlgorithm::HmacSha256;
    TSigner::new(secret.to_vec(), algorithm, name("lockgate"), 300).unwrap()
}

impl NameServer {
    pub(super) fn add(&self, owner: &str, data: RData) {
        let record = Record::from_rdata(name(owner), 60, data);
        self.records.borrow_mut().push(record);
    }

    pub(super) fn add_txt(&self, owner: &str, value: &str) {
        self.add(owner, RData::TXT(TXT::new(vec![value.to_owned()])));
    }

    pub(super) fn add_alias(&self, owner: &str, target: &str) {
        self.add(owner, RData::CNAME(CNAME(name(target))));
    }

    pub(super) fn add_address(&self, owner: &str, address: &str) {
        self.add(
            owner,
            match address.parse().unwrap() {
                IpAddr::V4(address) => RData::A(A(address)),
                IpAddr::V6(address) => RData::AAAA(AAAA(address)),
            },
        );
    }

    /// The addresses of a name.
    pub(super) fn addresses(&self, owner: &str) -> Vec<String> {
        let records = self.records.borrow();
        let of_name = records.iter().filter(|record| record.name == name(owner));
        of_name
            .filter_map(|record| match &record.data {
                RData::A(address) => Some(address.0.to_string()),
                RData::AAAA(address) => Some(address.0.to_string()),
                _ => None,
            })
            .collect()
    }

    /// Makes a zone with these servers, each with an address.
    pub(super) fn add_zone(&self, zone: &str, servers: &[(&str, Option<IpAddr>)]) {
        let soa = SOA::new(name("ns"), name("root"), 1, 60, 60, 60, 60);
        self.add(zone, RData::SOA(soa));
        for (server, address) in servers {
            self.add(zone, RData::NS(NS(name(server))));
            if let Some(IpAddr::V4(address)) = address {
                self.add(server, RData::A(A(*address)));
            }
        }
    }

    /// The values of the TXT records of a name.
    pub(super) fn txt(&self, owner: &str) -> Vec<String> {
        let records = self.records.borrow();
        let of_name = records.iter().filter(|record| record.name == name(owner));
        of_name
            .filter_map(|record| match &record.data {
                RData::TXT(txt) => Some(String::from_utf8(txt.txt_data.concat()).unwrap()),
                _ => None,
            })
            .collect()
    }

    fn answer(&self, octets: &[u8], by_stream: bool) -> Vec<Vec<u8>> {
        let Ok(request) = Message::from_vec(octets) else {
            return Vec::new();
        };
        self.asked.set(self.asked.get() + 1);
        if request.op_code == OpCode::Update {
            return vec![self.update(octets, &request)];
        }
        let mut response = Message::response(request.id, OpCode::Query);
        response.add_queries(request.queries.clone());
        response.metadata.authoritative = self.manner.get() != Manner::Caches;
        let question = request.queries.first().unwrap();
        if question.query_type() == RecordType::TXT {
            let called = self.on_txt.borrow_mut().take();
            if let Some(mut called) = called {
                called(self);
                self.on_txt.borrow_mut().get_or_insert(called);
            }
        }
        let manner = self.manner.get();
        match manner {
            Manner::Refuses => response.metadata.response_code = ResponseCode::Refused,
            Manner::RefusesIpv6 if question.query_type() == RecordType::AAAA => {
                response.metadata.response_code = ResponseCode::Refused;
            }
            Manner::Garbage => return vec![b"garbage".to_vec()],
            Manner::Truncates if !by_stream => response.metadata.truncation = true,
            _ => {
                let records = self.records.borrow();
                let mut of_name = of_owner(&records, question.name()).into_iter().peekable();
                if of_name.peek().is_none() {
                    response.metadata.response_code = ResponseCode::NXDomain;
                }
                // An alias answers each question (RFC 1034 §3.6.2).
                let asked = |record: &Record| {
                    record.record_type() == question.query_type()
                        || record.record_type() == RecordType::CNAME
                };
                response.add_answers(of_name.filter(asked));
            }
        }
        let right = response.to_vec().unwrap();
        if manner == Manner::Strays && !by_stream {
            let mut stray = right.clone();
            stray[0] ^= 1;
            return vec![stray, b"x".to_vec(), right];
        }
        vec![right]
    }

    /// An update (RFC 2136 §3) of single records.
    fn update(&self, octets: &[u8], request: &Message) -> Vec<u8> {
        let signer = self.signer.borrow().clone().unwrap();
        let mut response = Message::new(request.id, MessageType::Response, OpCode::Update);
        if !self.bare.get() {
            response.add_queries(request.queries.clone());
        }
        let signature = &request.signature.as_ref().unwrap().data;
        let (time, mac) = (signature.time, signature.mac.clone());
        if signer.verify_message_byte(octets, None, true).is_err() {
            response.metadata.response_code = ResponseCode::NotAuth;
            let error = Some(TsigError::BadSig);
            let algorithm = TsigAlgorithm::HmacSha256;
            let tsig = TSIG::new(
                algorithm,
                time,
                300,
                Vec::new(),
                request.id,
                error,
                Vec::new(),
            );
            response.set_signature(Box::new(make_tsig_record(name("lockgate"), tsig)));
            return response.to_vec().unwrap();
        }
        let is_refused = {
            let records = self.records.borrow();
            // RFC 2136 §2.4.3: a set of records that must not be there.
            let is_there = |absent: &Record| {
                let same = |known: &Record| {
                    known.name == absent.name && known.record_type() == absent.record_type()
                };
                absent.dns_class == DNSClass::NONE && records.iter().any(same)
            };
            request.answers.iter().any(is_there)
        };
        if is_refused {
            response.metadata.response_code = ResponseCode::YXRRSet;
        } else {
            self.updates.set(self.updates.get() + 1);
            request
                .authorities
                .iter()
                .for_each(|record| self.carry_out(record));
        }
        let octets = response.to_vec().unwrap();
        if self.unsigned.get() {
            return octets;
        }
        let context = TSigResponseContext::new(request.id, time, signer, mac, None);
        response.set_signature(context.sign(&octets).unwrap());
        response.to_vec().unwrap()
    }
}

impl NameServer {
    /// Changes a record (RFC 2136 §2.5.1, §2.5.4), or deletes a set of them (§2.5.2).
    fn carry_out(&self, record: &Record) {
        let mut records = self.records.borrow_mut();
        let is_set = record.dns_class == DNSClass::ANY;
        records.retain(|known| {
            let same = match is_set {
                true => known.record_type() == record.record_type(),
                false => known.data == record.data,
            };
            known.name != record.name || !same
        });
        if record.dns_class == DNSClass::IN {
            records.push(record.clone());
        }
    }
}

/// The records of a name: its own, or those of the wildcard beside it (RFC 4592).
fn of_owner(records: &[Record], owner: &Name) -> Vec<Record> {
    let of = |name: &Name| {
        let found = records.iter().filter(|record| record.name == *name);
        found.cloned().collect::<Vec<_>>()
    };
    let own = of(owner);
    if !own.is_empty() || owner.is_root() {
        return own;
    }
    let mut synthesized = of(&owner.base_name().prepend_label("*").unwrap());
    for record in &mut synthesized {
        record.name = owner.clone();
    }
    synthesized
}

/// Starts a server at 127.0.0.1, or another address and its port.
pub(super) async fn start(at: Option<SocketAddr>) -> RunningServer {
    let (stream, datagram) = loop {
        let free = (Ipv4Addr::LOCALHOST, 0).into();
        let stream = TcpListener::bind(at.unwrap_or(free)).await.unwrap();
        // Another process may have the port for UDP.
        match UdpSocket::bind(stream.local_addr().unwrap()).await {
            Ok(datagram) => break (stream, datagram),
            Err(error) => assert!(at.is_none(), "{error}"),
        }
    };
    let server = Rc::new(NameServer {
        address: stream.local_addr().unwrap(),
        records: RefCell::default(),
        manner: Cell::new(Manner::Answers),
        asked: Cell::new(0),
        on_txt: RefCell::default(),
        signer: RefCell::default(),
        unsigned: Cell::new(false),
        bare: Cell::new(false),
        updates: Cell::new(0),
    });
    let by_datagram = {
        let server = Rc::clone(&server);
        tokio::task::spawn_local(async move {
            let mut buffer = [0; 4096];
            loop {
                let (length, from) = datagram.recv_from(&mut buffer).await.unwrap();
                for answer in server.answer(&buffer[..length], false) {
                    datagram.send_to(&answer, from).await.unwrap();
                }
            }
        })
    };
    let by_stream = {
        let server = Rc::clone(&server);
        tokio::task::spawn_local(async move {
            loop {
                let (mut stream, _) = stream.accept().await.unwrap();
                let Ok(length) = stream.read_u16().await else {
                    continue;
                };
                let mut octets = vec![0; usize::from(length)];
                stream.read_exact(&mut octets).await.unwrap();
                for answer in server.answer(&octets, true) {
                    stream.write_u16(answer.len() as u16).await.unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
            }
        })
    };
    RunningServer {
        server,
        tasks: vec![by_datagram, by_stream],
    }
}
