//! A primary server of the zone `example.org`: it takes updates (RFC 2136) that are signed with a key
//! (RFC 8945), and answers by UDP.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use hickory_proto::rr::rdata::{A, AAAA, CNAME};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType, TSigResponseContext, TSigner};

/// The secret of the key `lockgate`, in base64.
pub(crate) const SECRET: &str = "YSBzZWNyZXQgb2YgdGhlIGtleQ==";

/// A running server.
pub(crate) struct ZoneServer {
    pub(crate) address: SocketAddr,
    zone: Arc<Mutex<ZoneRecords>>,
    thread: Option<JoinHandle<()>>,
}

/// The records of the zone.
#[derive(Default)]
struct ZoneRecords {
    addresses: BTreeMap<String, Vec<IpAddr>>,
    aliases: BTreeMap<String, Name>,
    /// A name with the addresses that it was given, for each update.
    updates: Vec<String>,
}

impl ZoneServer {
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(ZoneRecords::default()));
        let shared = Arc::clone(&zone);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).unwrap();
                if length == 0 {
                    return;
                }
                let answer = shared.lock().unwrap().answer(&buffer[..length]);
                socket.send_to(&answer, from).unwrap();
            }
        });
        Self {
            address,
            zone,
            thread: Some(thread),
        }
    }

    pub(crate) fn set_addresses(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        let mut zone = self.zone.lock().unwrap();
        zone.addresses.insert(name.to_owned(), addresses.collect());
    }

    pub(crate) fn set_alias(&self, name: &str, target: &str) {
        let mut target = Name::from_ascii(target).unwrap();
        target.set_fqdn(true);
        let mut zone = self.zone.lock().unwrap();
        zone.aliases.insert(name.to_owned(), target);
    }

    /// The addresses of a name.
    pub(crate) fn addresses(&self, name: &str) -> Vec<String> {
        let zone = self.zone.lock().unwrap();
        let found = zone.addresses.get(name).into_iter().flatten();
        found.map(ToString::to_string).collect()
    }

    /// The updates so far.
    pub(crate) fn updates(&self) -> Vec<String> {
        self.zone.lock().unwrap().updates.clone()
    }
}

impl Drop for ZoneServer {
    fn drop(&mut self) {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let _ = own.send_to(b"", self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl ZoneRecords {
    fn answer(&mut self, octets: &[u8]) -> Vec<u8> {
        let request = Message::from_vec(octets).unwrap();
        match request.op_code {
            OpCode::Update => self.update(octets, &request),
            _ => self.show(&request),
        }
    }

    fn show(&self, request: &Message) -> Vec<u8> {
        let question = request.queries.first().unwrap();
        let mut response = Message::response(request.id, OpCode::Query);
        response.add_query(question.clone());
        response.metadata.authoritative = true;
        let name = shown(question.name());
        if let Some(target) = self.aliases.get(&name) {
            let data = RData::CNAME(CNAME(target.clone()));
            response.add_answer(Record::from_rdata(question.name().clone(), 60, data));
        }
        for address in self.addresses.get(&name).into_iter().flatten() {
            let (kind, data) = match *address {
                IpAddr::V4(address) => (RecordType::A, RData::A(A(address))),
                IpAddr::V6(address) => (RecordType::AAAA, RData::AAAA(AAAA(address))),
            };
            if kind == question.query_type() {
                response.add_answer(Record::from_rdata(question.name().clone(), 60, data));
            }
        }
        response.to_vec().unwrap()
    }

    fn update(&mut self, octets: &[u8], request: &Message) -> Vec<u8> {
        let key = Name::from_ascii("lockgate.").unwrap();
        let secret = b"a secret of the key".to_vec();
        let signer = TSigner::new(secret, TsigAlgorithm::HmacSha256, key, 300).unwrap();
        let signature = &request.signature.as_ref().unwrap().data;
        let (time, mac) = (signature.time, signature.mac.clone());
        signer.verify_message_byte(octets, None, true).unwrap();
        let mut response = Message::new(request.id, MessageType::Response, OpCode::Update);
        response.add_queries(request.queries.clone());
        let is_alias = |record: &Record| {
            // RFC 2136 §2.4.3.
            record.dns_class == DNSClass::NONE && self.aliases.contains_key(&shown(&record.name))
        };
        if request.answers.iter().any(is_alias) {
            response.metadata.response_code = ResponseCode::YXRRSet;
        } else {
            self.carry_out(&request.authorities);
        }
        let octets = response.to_vec().unwrap();
        let context = TSigResponseContext::new(request.id, time, signer, mac, None);
        response.set_signature(context.sign(&octets).unwrap());
        response.to_vec().unwrap()
    }

    fn carry_out(&mut self, records: &[Record]) {
        let mut made = String::new();
        for record in records {
            let name = shown(&record.name);
            let of_name = self.addresses.entry(name.clone()).or_default();
            let address = match &record.data {
                RData::A(address) => IpAddr::V4(address.0),
                RData::AAAA(address) => IpAddr::V6(address.0),
                // RFC 2136 §2.5.2: all of its kind.
                _ => {
                    let is_v4 = record.record_type() == RecordType::A;
                    of_name.retain(|address| address.is_ipv4() != is_v4);
                    continue;
                }
            };
            of_name.push(address);
            if made.is_empty() {
                made = name;
            }
            made += &format!(" {address}");
        }
        self.updates.push(made);
    }
}

/// A name in lower case without the dot at its end.
fn shown(name: &Name) -> String {
    let text = name.to_lowercase().to_ascii();
    text.trim_end_matches('.').to_owned()
}
