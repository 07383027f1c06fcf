//! Inquiries at routers that are scripted, over real sockets.

mod fake_router;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use lockgate_client::ClientError;

use fake_router::{Asked, datagrams, datagrams_beside_a_liar, http, response};

use super::device_url::UrlFault;
use super::ssdp::SERVICES;
use super::{
    ProtocolFailure, RouterAnswer, RouterError, RouterInquiry, RouterProtocol, UpnpFailure,
};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(8, 8, 4, 4);
/// No service has the lowest port.
const CLOSED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

fn inquiry(control: SocketAddrV4, search: SocketAddrV4) -> RouterInquiry {
    RouterInquiry {
        control_port: control.port(),
        search,
        ..RouterInquiry::at(Ipv4Addr::LOCALHOST)
    }
}

/// What each protocol failed with.
async fn failures(inquiry: RouterInquiry) -> [ProtocolFailure; 3] {
    let told = inquiry.ask().await;
    let Err(RouterError::NotTold { failures, .. }) = told else {
        panic!("{told:?}");
    };
    let failures: Vec<_> = failures.into_iter().map(|(_, failure)| failure).collect();
    failures.try_into().unwrap()
}

fn told(address: Ipv4Addr, protocol: RouterProtocol) -> RouterAnswer {
    RouterAnswer { address, protocol }
}

/// An answer of NAT-PMP (RFC 6886 §3.2).
fn nat_pmp(result: u8, address: Ipv4Addr) -> Vec<u8> {
    [&[0, 128, 0, result, 0, 0, 0, 9], &address.octets()[..]].concat()
}

/// An answer of PCP to a request MAP (RFC 6887 §7.2, §11.1).
fn pcp(request: &[u8], result: u8, address: Ipv4Addr) -> Vec<u8> {
    let mut answer = request.to_vec();
    answer[1] |= 0x80;
    answer[3] = result;
    answer[8..24].fill(0);
    if request[4..8] != [0; 4] {
        answer[44..60].copy_from_slice(&address.to_ipv6_mapped().octets());
    }
    answer
}

/// A server of PCP alone (RFC 6887 §9).
fn pcp_alone(request: &[u8]) -> Vec<Vec<u8>> {
    match request[0] {
        2 => vec![pcp(request, 0, ADDRESS)],
        _ => vec![[&[2, request[1] | 0x80, 0, 1][..], &[0; 20]].concat()],
    }
}

/// The answer to a search.
fn found(location: &str) -> Vec<u8> {
    let service = SERVICES[1];
    format!("HTTP/1.1 200 OK\r\nEXT:\r\nLOCATION: {location}\r\nST: {service}\r\n\r\n").into_bytes()
}

/// A description with services: a number of [`SERVICES`], and the URL of the control.
fn description(services: &[(usize, &str)]) -> String {
    let services: String = services
        .iter()
        .map(|(kind, control)| {
            let kind = SERVICES[*kind];
            format!("<service><serviceType>{kind}</serviceType><controlURL>{control}</controlURL></service>")
        })
        .collect();
    format!(
        "<?xml version=\"1.0\"?><root><device><serviceList>{services}</serviceList></device></root>"
    )
}

/// The answer of a service.
fn soap(address: &str) -> String {
    format!(
        "<s:Envelope xmlns:s=\"s\"><s:Body><u:GetExternalIPAddressResponse xmlns:u=\"u\">\
         <NewExternalIPAddress>{address}</NewExternalIPAddress></u:GetExternalIPAddressResponse>\
         </s:Body></s:Envelope>"
    )
}

/// A router with UPnP alone, which serves HTTP by a script; its search, and what HTTP was asked.
async fn upnp(
    script: impl FnMut(&str) -> Option<String> + Send + 'static,
) -> (SocketAddrV4, Asked<String>) {
    let (web, asked) = http(Ipv4Addr::LOCALHOST, script).await;
    let location = format!("http://{web}/igd/root.xml");
    let (search, _) = datagrams(move |_| vec![found(&location)]).await;
    (search, asked)
}

/// What UPnP failed with at a router that serves HTTP by a script.
async fn upnp_failure(script: impl FnMut(&str) -> Option<String> + Send + 'static) -> UpnpFailure {
    let (search, _) = upnp(script).await;
    upnp_failure_of(inquiry(CLOSED, search)).await
}

async fn upnp_failure_of(inquiry: RouterInquiry) -> UpnpFailure {
    match failures(inquiry).await {
        [_, _, ProtocolFailure::Upnp(failure)] => failure,
        failures => panic!("{failures:?}"),
    }
}

#[test]
fn nat_pmp_tells_the_address_and_nothing_else_is_asked() {
    run(async {
        let (control, asked) = datagrams(|_| vec![nat_pmp(0, ADDRESS)]).await;
        let (search, searches) = datagrams(|_| Vec::new()).await;
        let answer = inquiry(control, search).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::NatPmp));
        assert_eq!(asked.take(), [[0, 0]]);
        assert!(searches.take().is_empty());
    });
}

#[test]
fn lost_requests_are_repeated() {
    run(async {
        let mut lost = 1;
        let script = move |_: &[u8]| match lost {
            0 => vec![nat_pmp(0, ADDRESS)],
            _ => {
                lost -= 1;
                Vec::new()
            }
        };
        let (control, _) = datagrams(script).await;
        let answer = inquiry(control, CLOSED).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::NatPmp));
    });
}

#[test]
fn answers_of_another_kind_or_machine_are_passed_over() {
    run(async {
        let script = |_: &[u8]| {
            vec![
                Vec::new(),
                nat_pmp(0, Ipv4Addr::new(9, 9, 9, 1))[..11].to_vec(),
                [&[0, 129], &nat_pmp(0, Ipv4Addr::new(9, 9, 9, 2))[2..]].concat(),
                vec![0; 2000],
                nat_pmp(0, ADDRESS),
            ]
        };
        let (control, _) = datagrams(script).await;
        let answer = inquiry(control, CLOSED).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::NatPmp));

        let lie = nat_pmp(0, Ipv4Addr::new(9, 9, 9, 3));
        let control = datagrams_beside_a_liar(lie, nat_pmp(0, ADDRESS)).await;
        let answer = inquiry(control, CLOSED).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::NatPmp));
    });
}

#[test]
fn a_server_of_pcp_alone_gets_a_mapping_that_is_ended_at_once() {
    run(async {
        let (control, asked) = datagrams(pcp_alone).await;
        let answer = inquiry(control, CLOSED).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::Pcp));
        let asked = asked.take();
        let [nat_pmp, begin, end] = &*asked else {
            panic!("{asked:?}");
        };
        assert_eq!(nat_pmp[..], [0, 0]);
        let seconds = |request: &[u8]| u32::from_be_bytes(request[4..8].try_into().unwrap());
        assert_eq!((seconds(begin), seconds(end)), (10, 0));
        // RFC 6887 §7.1: its own address. §11.4: the same nonce, protocol and port.
        let own = Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
        assert_eq!(begin[8..24], own);
        assert_eq!(begin[8..], end[8..]);
        assert_ne!(begin[24..36], [0; 12]);
    });
}

#[test]
fn a_mapping_without_answer_is_ended_all_the_same() {
    run(async {
        let (control, asked) = datagrams(|_| Vec::new()).await;
        let (search, _) = datagrams(|_| Vec::new()).await;
        let short = RouterInquiry {
            first_wait: Duration::from_millis(5),
            search_wait: Duration::from_millis(100),
            ..inquiry(control, search)
        };
        let error = short.ask().await.unwrap_err();
        let cure = "; switch on UPnP, NAT-PMP or PCP in its settings";
        assert!(error.to_string().ends_with(cure), "{error}");
        asked.take();
        let failures = failures(short).await;
        let silent = |failure: &ProtocolFailure| matches!(failure, ProtocolFailure::Silent(_));
        assert!(failures[..2].iter().all(silent), "{failures:?}");
        let not_found = ProtocolFailure::Upnp(UpnpFailure::NotFound(Duration::ZERO));
        assert_eq!(
            std::mem::discriminant(&failures[2]),
            std::mem::discriminant(&not_found)
        );
        let asked = asked.take();
        let lengths: Vec<_> = asked.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 2, 2, 60, 60, 60, 60]);
        let lifetimes: Vec<_> = asked[3..].iter().map(|request| request[7]).collect();
        assert_eq!(lifetimes, [10, 10, 10, 0]);
    });
}

#[test]
fn refusals_of_all_protocols_are_told_together() {
    run(async {
        let script = |request: &[u8]| match request[0] {
            0 => vec![nat_pmp(3, Ipv4Addr::UNSPECIFIED)],
            _ => vec![pcp(request, 2, Ipv4Addr::UNSPECIFIED)],
        };
        let (control, _) = datagrams(script).await;
        let (search, _) = upnp(|_| response(404, "")).await;
        let error = inquiry(control, search).ask().await.unwrap_err();
        let text = error.to_string();
        for part in [
            "the router 127.0.0.1 does not tell its address: by NAT-PMP: it answers with result 3 \
             (network failure: its line is down, or it is behind another NAT), by PCP: it answers with \
             result 2 (not authorized), by UPnP: http://127.0.0.1:",
            "/igd/root.xml: status 404; its settings show whether it is connected",
        ] {
            assert!(text.contains(part), "{text}");
        }
    });
}

#[test]
fn a_private_address_is_told_as_a_nat_behind_a_nat() {
    run(async {
        let (control, _) = datagrams(|_| vec![nat_pmp(0, Ipv4Addr::new(100, 64, 3, 4))]).await;
        let error = inquiry(control, CLOSED).ask().await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(
                "the router's own address is private (100.64.3.4): it is behind another NAT, and \
                 clients from outside cannot reach it"
            ),
            "{text}"
        );
    });
}

#[test]
fn an_address_of_no_machine_leads_to_the_next_protocol() {
    run(async {
        for reserved in ["0.0.0.0", "169.254.1.1", "192.0.0.2", "203.0.113.5"] {
            let reserved: Ipv4Addr = reserved.parse().unwrap();
            let script = move |request: &[u8]| match request[0] {
                0 => vec![nat_pmp(0, reserved)],
                _ => vec![pcp(request, 0, ADDRESS)],
            };
            let (control, _) = datagrams(script).await;
            let answer = inquiry(control, CLOSED).ask().await.unwrap();
            assert_eq!(answer, told(ADDRESS, RouterProtocol::Pcp), "{reserved}");
        }
    });
}

#[test]
fn upnp_tells_the_address_where_the_port_of_nat_pmp_is_closed() {
    run(async {
        let (search, asked) = upnp(|request| match request.starts_with("GET ") {
            true => response(200, &description(&[(1, "ctl/IPConn?a=1&amp;b=2")])),
            false => response(200, &soap("8.8.4.4")),
        })
        .await;
        let answer = inquiry(CLOSED, search).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::Upnp));
        let asked = asked.take();
        let [get, post] = &*asked else {
            panic!("{asked:?}");
        };
        assert!(get.starts_with("GET /igd/root.xml HTTP/1.1\r\n"), "{get}");
        assert!(get.contains("Host: 127.0.0.1:"), "{get}");
        assert!(
            post.starts_with("POST /igd/ctl/IPConn?a=1&b=2 HTTP/1.1\r\n"),
            "{post}"
        );
        let action = "\"urn:schemas-upnp-org:service:WANIPConnection:1#GetExternalIPAddress\"";
        assert!(
            post.contains(&format!("Soapaction: {action}\r\n")),
            "{post}"
        );
        assert!(post.contains("<u:GetExternalIPAddress "), "{post}");
    });
}

#[test]
fn searches_name_each_service_that_knows_the_address() {
    run(async {
        let (search, searches) = datagrams(|_| Vec::new()).await;
        let short = RouterInquiry {
            search_wait: Duration::from_millis(200),
            ..inquiry(CLOSED, search)
        };
        let [nat_pmp, pcp, _] = failures(short).await;
        assert!(matches!(nat_pmp, ProtocolFailure::Closed(1)), "{nat_pmp:?}");
        assert!(matches!(pcp, ProtocolFailure::Closed(1)), "{pcp:?}");
        let searches: Vec<_> = searches
            .take()
            .into_iter()
            .map(|search| String::from_utf8(search).unwrap())
            .collect();
        // All of them twice, since datagrams are lost.
        assert_eq!(searches.len(), 2 * SERVICES.len());
        for (search, service) in searches.iter().zip(SERVICES.iter().cycle()) {
            assert!(
                search.contains(&format!("\r\nST: {service}\r\n")),
                "{search}"
            );
        }
    });
}

#[test]
fn the_answer_of_another_machine_to_a_search_is_passed_over() {
    run(async {
        let serve = |address: &'static str| {
            move |request: &str| match request.starts_with("GET ") {
                true => response(200, &description(&[(0, "/ctl")])),
                false => response(200, &soap(address)),
            }
        };
        let (web, _) = http(Ipv4Addr::LOCALHOST, serve("8.8.4.4")).await;
        let (other, asked) = http(Ipv4Addr::new(127, 0, 0, 2), serve("9.9.9.9")).await;
        let truth = found(&format!("http://{web}/"));
        let search = datagrams_beside_a_liar(found(&format!("http://{other}/")), truth).await;
        let answer = inquiry(CLOSED, search).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::Upnp));
        assert!(asked.take().is_empty());
    });
}

#[test]
fn urls_of_a_router_lead_to_no_other_machine() {
    run(async {
        let (other, asked) = http(Ipv4Addr::new(127, 0, 0, 2), |_| response(200, "")).await;
        let url = format!("http://{other}/");
        let is_refused = |failure: UpnpFailure| {
            assert!(
                matches!(&failure, UpnpFailure::Url { url: told, fault: UrlFault::OtherHost(_) } if *told == url),
                "{failure:?}"
            );
        };
        // The description.
        let location = found(&url);
        let (search, _) = datagrams(move |_| vec![location.clone()]).await;
        is_refused(upnp_failure_of(inquiry(CLOSED, search)).await);
        // The control of a service.
        let text = description(&[(1, &url)]);
        is_refused(upnp_failure(move |_| response(200, &text)).await);
        // What all URLs are relative to.
        let base = format!("<root><URLBase>{url}</URLBase>");
        let text = description(&[(1, "/ctl")]).replace("<root>", &base);
        is_refused(upnp_failure(move |_| response(200, &text)).await);
        // A redirect is not followed.
        let redirect =
            format!("HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n");
        let failure = upnp_failure(move |_| Some(redirect.clone())).await;
        assert!(
            matches!(failure, UpnpFailure::Status { status: 302, .. }),
            "{failure:?}"
        );
        assert!(asked.take().is_empty());
    });
}

#[test]
fn each_service_of_a_device_is_asked_until_one_has_an_address() {
    run(async {
        let fault = "<Envelope><Body><Fault><detail><UPnPError><errorCode>501</errorCode></UPnPError>\
                     </detail></Fault></Body></Envelope>";
        let (search, asked) = upnp(move |request| {
            let path = request.split(' ').nth(1).unwrap();
            match path {
                "/down" => response(200, &soap("0.0.0.0")),
                "/fault" => response(500, fault),
                "/up" => response(200, &soap("8.8.4.4")),
                _ => response(
                    200,
                    &description(&[(2, "/up"), (1, "/fault"), (0, "/down")]),
                ),
            }
        })
        .await;
        let answer = inquiry(CLOSED, search).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::Upnp));
        assert_eq!(asked.take().len(), 4);
    });
}

#[test]
fn a_router_whose_line_is_down_is_told_as_such() {
    run(async {
        let (search, _) = upnp(|request| match request.starts_with("GET ") {
            true => response(200, &description(&[(1, "/ctl")])),
            false => response(200, &soap("0.0.0.0")),
        })
        .await;
        let [_, _, failure] = failures(inquiry(CLOSED, search)).await;
        assert_eq!(
            failure.to_string(),
            "it answers with 0.0.0.0, which is no address of a machine (RFC 1122): its line may be \
             down, or have no IPv4 address of its own"
        );
    });
}

#[test]
fn a_public_address_of_one_service_comes_before_private_ones() {
    run(async {
        // The services in their order, as the search has it: the first line is the provider's own.
        for (addresses, expected) in [
            (
                ["10.1.2.3", "8.8.4.4"],
                Ok(told(ADDRESS, RouterProtocol::Upnp)),
            ),
            (["0.0.0.0", "10.1.2.3"], Err("10.1.2.3")),
            (["10.1.2.3", "0.0.0.0"], Err("10.1.2.3")),
        ] {
            let (search, _) = upnp(move |request| {
                let path = request.split(' ').nth(1).unwrap();
                match path {
                    "/first" => response(200, &soap(addresses[0])),
                    "/second" => response(200, &soap(addresses[1])),
                    _ => response(200, &description(&[(1, "/first"), (2, "/second")])),
                }
            })
            .await;
            match (inquiry(CLOSED, search).ask().await, expected) {
                (Ok(answer), Ok(expected)) => assert_eq!(answer, expected),
                (Err(RouterError::BehindNat { address, .. }), Err(expected)) => {
                    assert_eq!(address.to_string(), expected);
                }
                (answer, _) => panic!("{addresses:?}: {answer:?}"),
            }
        }
    });
}

#[test]
fn answers_of_services_that_hold_no_address_are_told() {
    run(async {
        for (answer, expected) in [
            (
                soap(""),
                "the answer holds no address: its line is down, or it is behind another NAT",
            ),
            (
                soap("2001:db8::1"),
                "the answer holds `2001:db8::1` instead of an address",
            ),
            (
                soap("1.2.3.4 5"),
                "the answer holds `1.2.3.4 5` instead of an address",
            ),
            ("<a/>".to_owned(), "the answer is to another question"),
            ("<a>".to_owned(), "the XML is cut off"),
            (
                "<UPnPError><errorCode>401</errorCode><errorDescription>Invalid\u{7} Action\
                 </errorDescription></UPnPError>"
                    .to_owned(),
                "the answer is an error: 401 Invalid Action",
            ),
        ] {
            let failure = upnp_failure(move |request| match request.starts_with("GET ") {
                true => response(200, &description(&[(1, "/ctl")])),
                false => response(200, &answer),
            })
            .await;
            let text = failure.to_string();
            assert!(text.ends_with(&format!("/ctl: {expected}")), "{text}");
        }
    });
}

#[test]
fn descriptions_and_answers_have_a_largest_size() {
    run(async {
        let padded = |text: &str, length: usize| {
            let padding = " ".repeat(length - text.len());
            text.replacen("<device>", &format!("{padding}<device>"), 1)
        };
        let text = description(&[(1, "/ctl")]);
        // As long as it may be.
        let longest = padded(&text, 64 << 10);
        let (search, _) = upnp(move |request| match request.starts_with("GET ") {
            true => response(200, &longest),
            false => response(200, &soap("8.8.4.4")),
        })
        .await;
        let answer = inquiry(CLOSED, search).ask().await.unwrap();
        assert_eq!(answer, told(ADDRESS, RouterProtocol::Upnp));
        // A byte more.
        let too_long = padded(&text, (64 << 10) + 1);
        let failure = upnp_failure(move |_| response(200, &too_long)).await;
        assert!(
            failure.to_string().ends_with(": more than 65536 bytes"),
            "{failure}"
        );
        let failure = upnp_failure(move |request| match request.starts_with("GET ") {
            true => response(200, &text),
            false => response(200, &soap(&" ".repeat(16 << 10))),
        })
        .await;
        assert!(
            failure.to_string().ends_with(": more than 16384 bytes"),
            "{failure}"
        );
    });
}

#[test]
fn descriptions_without_such_a_service_are_told() {
    run(async {
        let failure = upnp_failure(|_| response(200, &description(&[]))).await;
        assert!(
            matches!(failure, UpnpFailure::NoService { .. }),
            "{failure:?}"
        );
        let failure = upnp_failure(|_| response(200, "<!DOCTYPE root><root/>")).await;
        let text = failure.to_string();
        assert!(text.ends_with("the XML declares a document type"), "{text}");
    });
}

#[test]
fn one_deadline_holds_for_all_protocols() {
    run(async {
        // A server that accepts and then says nothing.
        let (search, _) = upnp(|_| None).await;
        let short = RouterInquiry {
            time: Duration::from_secs(1),
            ..inquiry(CLOSED, search)
        };
        let failure = upnp_failure_of(short).await;
        assert!(
            matches!(
                failure,
                UpnpFailure::Http {
                    error: ClientError::Late(_),
                    ..
                }
            ),
            "{failure:?}"
        );
        let none = RouterInquiry {
            time: Duration::ZERO,
            ..short
        };
        for failure in failures(none).await {
            assert!(matches!(failure, ProtocolFailure::NotAsked), "{failure:?}");
        }
    });
}
