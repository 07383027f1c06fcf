//! The ACME authority against a client that others have written, instant-acme: a finding of a test
//! about Lockgate must not be a mistake of the kit.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use instant_acme::{
    Account, AccountCredentials, BodyWrapper, BytesResponse, CertificateIdentifier, ChallengeType,
    Error, ExternalAccountKey, HttpClient, Identifier, NewAccount, NewOrder, Order, OrderStatus,
    RetryPolicy, RevocationReason, RevocationRequest,
};
use lockgate_testkit::acme::{AcmeServer, ChallengeKind, Fault, Resource, WrongChain};
use lockgate_testkit::{DEADLINE, Origin, P256, Serving, Tls};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

const DAY: Duration = Duration::from_secs(86_400);

// --- The client -----------------------------------------------------------------------------------

fn roots(pem: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(pem) {
        roots.add(root.expect("PEM")).expect("an authority");
    }
    roots
}

/// One connection for each request, to where the authority of this file is.
struct Https(Arc<ClientConfig>);

impl Https {
    fn trusting(server: &AcmeServer) -> Box<Self> {
        let ca = std::fs::read(server.ca_file()).expect("it is there");
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has all versions")
            .with_root_certificates(roots(&ca))
            .with_no_client_auth();
        Box::new(Self(Arc::new(config)))
    }
}

type Sent = Result<BytesResponse, Error>;

impl HttpClient for Https {
    fn request(
        &self,
        mut request: http::Request<BodyWrapper<bytes::Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Sent> + Send>> {
        let config = Arc::clone(&self.0);
        Box::pin(async move {
            let other = |error: &dyn std::fmt::Display| Error::Other(error.to_string().into());
            let authority = request.uri().authority().expect("a whole URL").clone();
            let host = ServerName::try_from(authority.host().to_owned()).expect("a host");
            let path = request.uri().path().parse().expect("a path");
            *request.uri_mut() = path;
            let host_field = authority.as_str().parse().expect("a host");
            request.headers_mut().insert("host", host_field);
            let stream = tokio::net::TcpStream::connect(authority.as_str()).await;
            let stream = stream.map_err(|error| other(&error))?;
            let connector = tokio_rustls::TlsConnector::from(config);
            let stream = connector.connect(host, stream).await;
            let stream = TokioIo::new(stream.map_err(|error| other(&error))?);
            let handshake = hyper::client::conn::http1::handshake(stream).await;
            let (mut sender, connection) = handshake.map_err(|error| other(&error))?;
            let exchange = async move {
                let response = sender.send_request(request).await?;
                let (head, body) = response.into_parts();
                let body = body.collect().await?.to_bytes();
                Ok::<_, hyper::Error>(http::Response::from_parts(
                    head,
                    http_body_util::Full::new(body),
                ))
            };
            let (response, _) = tokio::join!(exchange, connection);
            Ok(BytesResponse::from(
                response.map_err(|error| other(&error))?,
            ))
        })
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("descriptors are left");
    runtime
        .block_on(async { tokio::time::timeout(DEADLINE, work).await })
        .expect("an answer")
}

const CONTACT: NewAccount<'static> = NewAccount {
    contact: &["mailto:me@example.com"],
    terms_of_service_agreed: true,
    only_return_existing: false,
};

async fn account(server: &AcmeServer) -> (Account, AccountCredentials) {
    Account::builder_with_http(Https::trusting(server))
        .create(&CONTACT, server.directory(), None)
        .await
        .expect("an account")
}

fn quickly() -> RetryPolicy {
    RetryPolicy::new()
        .initial_delay(Duration::from_millis(5))
        .timeout(DEADLINE)
}

fn identifiers(names: &[&str]) -> Vec<Identifier> {
    let names = names.iter();
    names
        .map(|name| Identifier::Dns((*name).to_owned()))
        .collect()
}

/// The last part of a problem's type.
fn kind(error: Error) -> String {
    let Error::Api(problem) = error else {
        panic!("no problem of ACME: {error}")
    };
    let kind = problem.r#type.expect("a type");
    let kind = kind.strip_prefix("urn:ietf:params:acme:error:");
    kind.expect("one of ACME's").to_owned()
}

fn failed<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("it went well"),
        Err(error) => kind(error),
    }
}

/// A request for a certificate, with a key of its own.
fn csr(names: &[&str]) -> Vec<u8> {
    let key = rcgen::KeyPair::generate_for(&P256).expect("there is randomness");
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let mut params = rcgen::CertificateParams::new(names).expect("names of hosts");
    // The one that rcgen makes up is no name of the order.
    params.distinguished_name = rcgen::DistinguishedName::new();
    let request = params.serialize_request(&key).expect("whole parameters");
    request.der().to_vec()
}

// --- What answers its challenges ------------------------------------------------------------------

/// Key authorizations by token (HTTP-01) or name (TLS-ALPN-01, as digests; DNS-01, as values).
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Answers {
    fn put(&self, key: &str, value: impl AsRef<[u8]>) {
        let mut answers = self.0.lock().expect("no test has panicked with it");
        answers.insert(key.to_owned(), value.as_ref().to_vec());
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        let answers = self.0.lock().expect("no test has panicked with it");
        answers.get(key).cloned()
    }
}

fn answer_http(answers: &Answers, server: &AcmeServer) -> Serving {
    let origin = Origin::tcp();
    server.set_http_port(origin.socket_address().port());
    let answers = answers.clone();
    origin.answering(move |request| {
        let path = request.first_line().split(' ').nth(1).unwrap_or_default();
        let token = path.strip_prefix("/.well-known/acme-challenge/");
        assert_eq!(request.field("host"), Some("a.example.com"));
        match token.and_then(|token| answers.get(token)) {
            Some(body) => {
                let body = String::from_utf8(body).expect("text");
                let length = body.len();
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into()
            }
            None => b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
        }
    })
}

fn answer_tls(answers: &Answers, server: &AcmeServer) -> Serving {
    let origin = Origin::tcp();
    server.set_tls_port(origin.socket_address().port());
    let answers = answers.clone();
    origin.serve(move |wire| {
        let digest = answers.get("a.example.com").expect("a digest");
        let authority = lockgate_testkit::Authority::new("nobody");
        let certificate = authority.issue_with(&["a.example.com"], &P256, |params| {
            let extension = rcgen::CustomExtension::new_acme_identifier(&digest);
            params.custom_extensions.push(extension);
        });
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = provider
            .key_provider
            .load_private_key(certificate.key_der());
        let key = CertifiedKey::new(vec![certificate.der()], key.expect("a key"));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has all versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
        if let Ok(mut tls) = Tls::accept(&Arc::new(config), wire.another()) {
            tls.wait_closed();
        }
    })
}

/// Answers all challenges of this kind, and says so.
async fn answer(order: &mut Order, kind: ChallengeType, answers: &Answers) -> Result<(), Error> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let Some(mut challenge) = authorization.challenge(kind.clone()) else {
            panic!("{kind:?} is not offered")
        };
        let right = challenge.key_authorization();
        let name = challenge
            .identifier()
            .identifier
            .authorized(false)
            .to_string();
        match kind {
            ChallengeType::Http01 => answers.put(&challenge.token, right.as_str()),
            ChallengeType::TlsAlpn01 => answers.put(&name, right.digest()),
            _ => answers.put(&format!("_acme-challenge.{name}"), right.dns_value()),
        }
        challenge.set_ready().await?;
    }
    Ok(())
}

/// The chain of an order for one name, from its beginning.
async fn obtain(
    account: &Account,
    kind: ChallengeType,
    answers: &Answers,
) -> Result<String, Error> {
    let names = identifiers(&["a.example.com"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await?;
    answer(&mut order, kind, answers).await?;
    assert_eq!(order.poll_ready(&quickly()).await?, OrderStatus::Ready);
    order.finalize_csr(&csr(&["a.example.com"])).await?;
    order.poll_certificate(&quickly()).await
}

/// Checks a chain as a browser does.
fn verify(server: &AcmeServer, chain: &str, name: &str) -> Result<(), rustls::Error> {
    let roots = Arc::new(roots(server.root_pem().as_bytes()));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider)
        .build()
        .expect("there is a root");
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain.as_bytes())
        .collect::<Result<_, _>>()
        .expect("PEM");
    let [first, rest @ ..] = chain.as_slice() else {
        panic!("no certificate")
    };
    let name = ServerName::try_from(name).expect("a host name");
    rustls::client::danger::ServerCertVerifier::verify_server_cert(
        &*verifier,
        first,
        rest,
        &name,
        &[],
        UnixTime::now(),
    )
    .map(|_| ())
}

// --- Whole orders ---------------------------------------------------------------------------------

#[test]
fn the_authority_issues_a_certificate_by_http_01() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let _responder = answer_http(&answers, &server);
    let chain = run(async {
        let (account, _) = account(&server).await;
        obtain(&account, ChallengeType::Http01, &answers).await
    });
    let chain = chain.expect("a certificate");
    verify(&server, &chain, "a.example.com").expect("a good chain");
    assert!(verify(&server, &chain, "b.example.com").is_err());
    let issued = server.wait_for_issued(1);
    assert_eq!(issued[0].chain, chain);
    assert_eq!(issued[0].names, ["a.example.com"]);
    assert_eq!(issued[0].not_after, issued[0].not_before + 90 * DAY);
    let accounts = server.accounts();
    assert_eq!(accounts.len(), 1);
    assert_eq!(accounts[0].contact, ["mailto:me@example.com"]);
    let orders = server.orders();
    assert_eq!((orders.len(), orders[0].status), (1, "valid"));
    let validations = server.validations();
    assert_eq!((validations.len(), validations[0].kind), (1, "http-01"));
    assert_eq!(validations[0].error, None);
    let log = server.log();
    let of_order = log.iter().find(|one| one.resource == Resource::NewOrder);
    let of_order = of_order.expect("there was one");
    assert_eq!(of_order.names, ["a.example.com"]);
    assert_eq!((of_order.account, of_order.status), (Some(0), Some(201)));
}

#[test]
fn the_authority_issues_a_certificate_by_tls_alpn_01() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let _responder = answer_tls(&answers, &server);
    let chain = run(async {
        let (account, _) = account(&server).await;
        obtain(&account, ChallengeType::TlsAlpn01, &answers).await
    });
    verify(&server, &chain.expect("a certificate"), "a.example.com").expect("a good chain");
    assert_eq!(server.validations()[0].kind, "tls-alpn-01");
}

#[test]
fn a_wildcard_is_validated_by_dns_01_only() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let records = answers.clone();
    server.set_dns(move |name| {
        let value = records.get(name).into_iter();
        value
            .map(|value| String::from_utf8(value).expect("text"))
            .collect()
    });
    run(async {
        let (account, _) = account(&server).await;
        let names = identifiers(&["*.example.com"]);
        let mut order = account.new_order(&NewOrder::new(&names)).await.expect("it");
        {
            let mut all = order.authorizations();
            let only = all.next().await.expect("one").expect("it");
            assert!(only.wildcard);
            let kinds: Vec<_> = only.challenges.iter().map(|one| &one.r#type).collect();
            assert_eq!(kinds, [&ChallengeType::Dns01]);
        }
        let answered = answer(&mut order, ChallengeType::Dns01, &answers).await;
        answered.expect("it is taken");
        order.poll_ready(&quickly()).await.expect("it is ready");
        let finalized = order.finalize_csr(&csr(&["*.example.com"])).await;
        finalized.expect("it is taken");
        let chain = order.poll_certificate(&quickly()).await.expect("it");
        verify(&server, &chain, "b.example.com").expect("a good chain");
    });
}

#[test]
fn a_wrong_acme_identifier_fails_tls_alpn_01() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let _responder = answer_tls(&answers, &server);
    let error = run(async {
        let (account, _) = account(&server).await;
        let names = identifiers(&["a.example.com"]);
        let mut order = account.new_order(&NewOrder::new(&names)).await.expect("it");
        let mut all = order.authorizations();
        let mut one = all.next().await.expect("one").expect("it");
        let mut challenge = one.challenge(ChallengeType::TlsAlpn01).expect("offered");
        answers.put("a.example.com", [7; 32]);
        challenge.set_ready().await.expect("it is taken");
        order.poll_ready(&quickly()).await
    });
    assert_eq!(failed(error), "unauthorized");
    let validation = server.validations().remove(0);
    let (kind, detail) = validation.error.expect("it failed");
    assert_eq!(kind, "unauthorized");
    assert!(detail.contains("another digest"), "{detail}");
}

#[test]
fn http_01_fails_where_nobody_listens() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let closed = Origin::tcp().socket_address().port();
    server.set_http_port(closed);
    let result = run(async {
        let (account, _) = account(&server).await;
        obtain(&account, ChallengeType::Http01, &answers).await
    });
    assert_eq!(failed(result), "connection");
    assert_eq!(server.orders()[0].status, "invalid");
}

#[test]
fn the_same_key_gets_the_same_acme_account() {
    let server = AcmeServer::start();
    run(async {
        let (first, credentials) = account(&server).await;
        let again = Account::builder_with_http(Https::trusting(&server))
            .from_credentials(credentials)
            .await
            .expect("it is known");
        assert_eq!(first.id(), again.id());
        let (_, der) = instant_acme::Key::generate_pkcs8().expect("a key");
        let key = || {
            let key = instant_acme::Key::from_pkcs8_der(der.clone_key()).expect("a key");
            (key, der.clone_key().into())
        };
        let builder = || Account::builder_with_http(Https::trusting(&server));
        let none = builder().from_key(key(), server.directory()).await;
        assert_eq!(failed(none), "accountDoesNotExist");
        for _ in 0..2 {
            let made = builder().create_from_key(key(), server.directory()).await;
            assert_eq!(made.expect("it").0.id(), server.accounts()[1].url);
        }
        let found = builder().from_key(key(), server.directory()).await;
        assert_eq!(found.expect("it").0.id(), server.accounts()[1].url);
        assert_eq!(server.accounts().len(), 2);
        server.forget_accounts();
        let names = identifiers(&["a.example.com"]);
        let gone = first.new_order(&NewOrder::new(&names)).await;
        assert_eq!(failed(gone), "accountDoesNotExist");
    });
}

#[test]
fn an_external_account_is_required_and_its_mac_checked() {
    let server = AcmeServer::start();
    server.require_external_account("kid-1", b"a secret of some length");
    let create = async |external: Option<ExternalAccountKey>| {
        Account::builder_with_http(Https::trusting(&server))
            .create(&CONTACT, server.directory(), external.as_ref())
            .await
    };
    let key = |id: &str, secret: &[u8]| Some(ExternalAccountKey::new(id.to_owned(), secret));
    run(async {
        assert_eq!(failed(create(None).await), "externalAccountRequired");
        let wrong = create(key("kid-1", b"another one")).await;
        assert_eq!(failed(wrong), "unauthorized");
        let wrong = create(key("kid-2", b"a secret of some length")).await;
        assert_eq!(failed(wrong), "unauthorized");
        let right = create(key("kid-1", b"a secret of some length")).await;
        assert!(right.is_ok());
    });
    assert_eq!(server.accounts()[0].external.as_deref(), Some("kid-1"));
}

#[test]
fn profiles_renewal_windows_replacement_and_revocation() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let _responder = answer_http(&answers, &server);
    run(async {
        let (account, _) = account(&server).await;
        let mut profiles: Vec<_> = account.profiles().map(|profile| profile.name).collect();
        profiles.sort_unstable();
        assert_eq!(profiles, ["default", "shortlived"]);
        let names = identifiers(&["a.example.com"]);
        let unknown = account.new_order(&NewOrder::new(&names).profile("x")).await;
        assert_eq!(failed(unknown), "invalidProfile");
        let shortlived = NewOrder::new(&names).profile("shortlived");
        let mut order = account.new_order(&shortlived).await.expect("it");
        let answered = answer(&mut order, ChallengeType::Http01, &answers).await;
        answered.expect("it is taken");
        order.poll_ready(&quickly()).await.expect("it is ready");
        let wrong = order.finalize_csr(&csr(&["b.example.com"])).await;
        assert_eq!(failed(wrong), "badCSR");
        let finalized = order.finalize_csr(&csr(&["a.example.com"])).await;
        finalized.expect("it is taken");
        order.poll_certificate(&quickly()).await.expect("it");

        let issued = server.issued().remove(0);
        assert_eq!(issued.profile.as_deref(), Some("shortlived"));
        assert_eq!(issued.not_after, issued.not_before + 6 * DAY);
        let der = CertificateDer::from(issued.der.as_slice());
        let id = CertificateIdentifier::try_from(&der).expect("it has one");
        assert_eq!(id.to_string(), issued.id);
        let (info, retry) = account.renewal_info(&id).await.expect("it is known");
        let start = SystemTime::from(info.suggested_window.start);
        assert!(start > issued.not_before + 3 * DAY && start < issued.not_after);
        assert!(retry > Duration::from_secs(3 * 3600));
        let past = issued.not_before - DAY;
        server.set_renewal_window("a.example.com", past..past + DAY);
        server.set_renewal_retry_after(Duration::from_secs(60));
        let (info, retry) = account.renewal_info(&id).await.expect("it is known");
        assert_eq!(SystemTime::from(info.suggested_window.start), past);
        assert!(retry <= Duration::from_secs(60));

        server.set_all_renewal_windows(past..past + 2 * DAY);
        let (info, _) = account.renewal_info(&id).await.expect("it is known");
        let end = SystemTime::from(info.suggested_window.end);
        assert_eq!(end, past + DAY, "its own window goes before");

        let replacing = NewOrder::new(&names).replaces(id.clone());
        account.new_order(&replacing).await.expect("it is taken");
        let again = account.new_order(&replacing).await;
        assert_eq!(failed(again), "alreadyReplaced");
        assert_eq!(
            server.orders()[1].replaces.as_deref(),
            Some(issued.id.as_str())
        );

        let revocation = RevocationRequest {
            certificate: &der,
            reason: Some(RevocationReason::Superseded),
        };
        account.revoke(&revocation).await.expect("it is ours");
        assert_eq!(failed(account.revoke(&revocation).await), "alreadyRevoked");
    });
    assert_eq!(server.issued()[0].revoked, Some(4));
}

#[test]
fn names_that_no_public_authority_certifies_are_rejected() {
    let server = AcmeServer::start();
    run(async {
        let (account, _) = account(&server).await;
        for name in ["localhost", "a_b.example.com", "10.0.0.1", "A.example.com"] {
            let names = identifiers(&[name]);
            let rejected = account.new_order(&NewOrder::new(&names)).await;
            assert_eq!(failed(rejected), "rejectedIdentifier", "{name}");
        }
    });
}

// --- Faults ---------------------------------------------------------------------------------------

#[test]
fn half_of_the_nonces_are_refused_by_a_seed() {
    let refused = |seed| {
        let server = AcmeServer::start();
        server.refuse_nonces(50, seed);
        run(async {
            for _ in 0..20 {
                let builder = Account::builder_with_http(Https::trusting(&server));
                // The client gives up after three.
                let _ = builder.create(&CONTACT, server.directory(), None).await;
            }
        });
        let log = server.log().into_iter();
        let posts = log.filter(|one| one.resource == Resource::NewAccount);
        posts.map(|one| one.problem).collect::<Vec<_>>()
    };
    let (first, again, other) = (refused(1), refused(1), refused(2));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!(first.contains(&Some("badNonce".to_owned())));
    assert!(first.contains(&None));
}

#[test]
fn faults_come_as_often_and_for_the_names_as_planned() {
    let server = AcmeServer::start();
    run(async {
        let (account, _) = account(&server).await;
        let (a, b) = (
            identifiers(&["a.example.com"]),
            identifiers(&["b.example.com"]),
        );
        server.fail_times(Resource::NewOrder, 2, Fault::rate_limited(60));
        for _ in 0..2 {
            let limited = account.new_order(&NewOrder::new(&a)).await;
            assert_eq!(failed(limited), "rateLimited");
        }
        account.new_order(&NewOrder::new(&a)).await.expect("it");
        server.fail_name(
            Resource::NewOrder,
            "b.example.com",
            Fault::problem(403, "caa"),
        );
        for _ in 0..3 {
            account.new_order(&NewOrder::new(&a)).await.expect("it");
            let refused = account.new_order(&NewOrder::new(&b)).await;
            assert_eq!(failed(refused), "caa");
        }
        server.clear_faults();
        account.new_order(&NewOrder::new(&b)).await.expect("it");
        server.fail(Resource::NewOrder, Fault::Close);
        let closed = account.new_order(&NewOrder::new(&b)).await;
        assert!(matches!(closed, Err(Error::Other(_))));
        server.clear_faults();
        server.fail(Resource::NewOrder, Fault::Garbage);
        let garbage = account.new_order(&NewOrder::new(&b)).await;
        assert!(matches!(garbage, Err(Error::Json(_))));
    });
    let log = server.log();
    assert_eq!(log.last().expect("it").status, Some(200));
    assert_eq!(log[log.len() - 2].problem, None);
}

#[test]
fn a_held_answer_comes_after_its_release() {
    let server = AcmeServer::start();
    server.fail_times(Resource::NewAccount, 1, Fault::Hold);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| run(async { account(&server).await.0.id().to_owned() }));
        server.wait_for("a request", |log| {
            log.iter().any(|one| one.resource == Resource::NewAccount)
        });
        assert_eq!(server.accounts().len(), 0);
        server.release();
        assert_eq!(
            waits.join().expect("it went well"),
            server.accounts()[0].url
        );
    });
}

#[test]
fn an_order_stays_processing_until_it_is_released() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let _responder = answer_http(&answers, &server);
    server.fail_times(Resource::Finalize, 1, Fault::Stay);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            run(async {
                let (account, _) = account(&server).await;
                obtain(&account, ChallengeType::Http01, &answers).await
            })
        });
        server.wait_for("three polls of the order", |log| {
            let finalized = log
                .iter()
                .position(|one| one.resource == Resource::Finalize);
            let after = finalized.map(|at| log[at..].iter());
            let polls = after.map(|after| after.filter(|one| one.resource == Resource::Order));
            polls.is_some_and(|polls| polls.count() >= 3)
        });
        assert_eq!(server.orders()[0].status, "processing");
        server.release();
        assert!(waits.join().expect("no panic").is_ok());
    });
}

#[test]
fn orders_and_authorizations_become_invalid_as_planned() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let _responder = answer_http(&answers, &server);
    run(async {
        let (account, _) = account(&server).await;
        server.fail_times(Resource::Challenge, 1, Fault::invalid("caa"));
        let refused = obtain(&account, ChallengeType::Http01, &answers).await;
        assert_eq!(failed(refused), "caa");
        server.fail_times(Resource::Finalize, 1, Fault::invalid("serverInternal"));
        let refused = obtain(&account, ChallengeType::Http01, &answers).await;
        assert_eq!(failed(refused), "serverInternal");
    });
    let statuses: Vec<_> = server.orders().iter().map(|order| order.status).collect();
    assert_eq!(statuses, ["invalid", "invalid"]);
    assert_eq!(server.issued().len(), 0);
}

#[test]
fn wrong_chains_are_wrong_in_their_way() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let _responder = answer_http(&answers, &server);
    run(async {
        let (account, _) = account(&server).await;
        let chain = async |wrong| {
            server.clear_faults();
            server.fail(Resource::Certificate, Fault::WrongChain(wrong));
            let chain = obtain(&account, ChallengeType::Http01, &answers).await;
            chain.expect("a download")
        };
        let other_key = chain(WrongChain::OtherKey).await;
        verify(&server, &other_key, "a.example.com").expect("a good chain of another key");
        assert_ne!(other_key, server.issued()[0].chain);
        let other_name = chain(WrongChain::OtherName).await;
        verify(&server, &other_name, "wrong.example").expect("a good chain of another name");
        for wrong in [WrongChain::Expired, WrongChain::Alone] {
            let error = verify(&server, &chain(wrong).await, "a.example.com");
            let error = error.expect_err("a chain that is not good");
            let expected = match wrong {
                WrongChain::Expired => "expired",
                _ => "UnknownIssuer",
            };
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert!(!chain(WrongChain::Empty).await.contains("BEGIN"));
    });
}

#[test]
fn challenges_validity_and_authorizations_are_as_the_test_sets_them() {
    let (server, answers) = (AcmeServer::start(), Answers::default());
    let _responder = answer_http(&answers, &server);
    server.set_challenges(&[ChallengeKind::Http01]);
    server.set_authorization_reuse(true);
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    server.set_validity_start(start);
    server.set_validity(DAY);
    run(async {
        let (account, _) = account(&server).await;
        for _ in 0..2 {
            let names = identifiers(&["a.example.com"]);
            let mut order = account.new_order(&NewOrder::new(&names)).await.expect("it");
            if order.state().status == OrderStatus::Pending {
                let answered = answer(&mut order, ChallengeType::Http01, &answers).await;
                answered.expect("it is taken");
                order.poll_ready(&quickly()).await.expect("it is ready");
            }
            let finalized = order.finalize_csr(&csr(&["a.example.com"])).await;
            finalized.expect("it is taken");
        }
    });
    assert_eq!(server.validations().len(), 1);
    for issued in server.issued() {
        assert_eq!((issued.not_before, issued.not_after), (start, start + DAY));
    }
}

#[test]
fn an_endless_answer_ends_with_the_client() {
    let server = AcmeServer::start();
    server.fail(Resource::Directory, Fault::Endless);
    let client = Https::trusting(&server);
    run(async {
        let request = http::Request::get(server.directory());
        let request = request.body(BodyWrapper::default()).expect("a request");
        let sent = tokio::time::timeout(Duration::from_millis(50), client.request(request));
        assert!(sent.await.is_err());
    });
}
