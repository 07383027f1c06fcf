//! The address by UPnP: the device is found, its description read, its service asked.
//!
//! Everything leads to the gateway: its answer to the search alone is taken, and no URL of it leads
//! to another host. Redirects are not followed.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use bytes::Bytes;
use lockgate_client::{
    ClientError, ClientRequest, DialTarget, ExchangeLimits, HttpConnection, RemoteServer,
};
use tokio::time::Instant;

use crate::publishable::{AddressRefusal, refusal};

use super::device_description::{DeviceDescription, DeviceService};
use super::device_url::{DeviceUrl, UrlFault};
use super::error::{ProtocolFailure, UpnpFailure, bounded};
use super::soap::{self, SoapAnswer};
use super::ssdp;

/// A gateway that is asked by UPnP.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpnpGateway {
    /// Its address.
    pub(super) gateway: Ipv4Addr,
    /// The address of this machine that it knows.
    pub(super) own: Ipv4Addr,
    /// Where searches are sent.
    pub(super) search: SocketAddrV4,
    /// The wait for the answer to a search, of which there are two.
    pub(super) search_wait: Duration,
    /// The end of everything.
    pub(super) end: Instant,
}

/// The longest description in bytes.
const LONGEST_DESCRIPTION: usize = 64 << 10;
/// The longest answer of a service in bytes.
const LONGEST_ANSWER: usize = 16 << 10;
/// The time of one exchange over HTTP, with its connection.
const HTTP_TIME: Duration = Duration::from_secs(3);

impl UpnpGateway {
    /// Asks for the external address.
    ///
    /// # Errors
    /// When the device is not found, or no service of it tells an address.
    pub(super) async fn ask(&self) -> Result<Ipv4Addr, ProtocolFailure> {
        let location = ssdp::find_description(
            self.gateway,
            self.own,
            self.search,
            self.search_wait,
            self.end,
        );
        let location = location.await?;
        let url = DeviceUrl::parse(&location, self.gateway);
        let url = url.map_err(|fault| refused(&location, fault))?;
        let description = self.describe(&url).await?;
        let base = match &description.base {
            Some(base) => {
                DeviceUrl::parse(base, self.gateway).map_err(|fault| refused(base, fault))?
            }
            None => url.clone(),
        };
        let mut failure = UpnpFailure::NoService {
            url: url.to_string(),
        };
        let mut others = Vec::new();
        // A device may have a service for each of its lines: some are not in use, and some are the
        // provider's own, with a private address.
        for service in &description.services {
            match self.ask_service(&base, service).await {
                Ok(address) if refusal(IpAddr::V4(address)).is_none() => return Ok(address),
                Ok(address) => others.push(address),
                Err(error) => failure = error,
            }
        }
        let is_reserved = |address: &Ipv4Addr| {
            matches!(
                refusal(IpAddr::V4(*address)),
                Some(AddressRefusal::Reserved(_))
            )
        };
        // A private one says more than that of a line that is down.
        let told = others.into_iter().min_by_key(is_reserved);
        told.ok_or(failure.into())
    }

    async fn describe(&self, url: &DeviceUrl) -> Result<DeviceDescription, UpnpFailure> {
        let request = ClientRequest {
            method: "GET",
            host: &url.authority(),
            path: url.path(),
            fields: &[],
            body: Bytes::new(),
        };
        let (status, text) = self.exchange(url, &request, LONGEST_DESCRIPTION).await?;
        if status != 200 {
            let url = url.to_string();
            return Err(UpnpFailure::Status { url, status });
        }
        DeviceDescription::parse(&text).map_err(|error| {
            let url = url.to_string();
            UpnpFailure::Xml { url, error }
        })
    }

    async fn ask_service(
        &self,
        base: &DeviceUrl,
        service: &DeviceService,
    ) -> Result<Ipv4Addr, UpnpFailure> {
        let url = base.join(&service.control);
        let url = url.map_err(|fault| refused(&service.control, fault))?;
        let request = ClientRequest {
            method: "POST",
            host: &url.authority(),
            path: url.path(),
            fields: &[
                ("content-type", "text/xml; charset=\"utf-8\""),
                ("soapaction", &soap::soap_action(service.kind)),
            ],
            body: Bytes::from(soap::encode_request(service.kind)),
        };
        let (status, text) = self.exchange(&url, &request, LONGEST_ANSWER).await?;
        // 500 is the status of an error that the body tells (UPnP Device Architecture 1.1 §3.2.2).
        if status != 200 && status != 500 {
            let url = url.to_string();
            return Err(UpnpFailure::Status { url, status });
        }
        let answer = SoapAnswer::parse(&text).map_err(|error| UpnpFailure::Xml {
            url: url.to_string(),
            error,
        })?;
        let url = url.to_string();
        match answer {
            SoapAnswer::Address(text) if text.is_empty() => Err(UpnpFailure::Empty { url }),
            SoapAnswer::Address(text) => text.parse().map_err(|_| UpnpFailure::NoAddress {
                url,
                text: bounded(&text),
            }),
            SoapAnswer::Fault(text) => Err(UpnpFailure::Fault {
                url,
                text: bounded(&text),
            }),
            SoapAnswer::Other => Err(UpnpFailure::OtherAnswer { url }),
        }
    }

    /// The status and the body of a response; the body has at most `longest` bytes.
    async fn exchange(
        &self,
        url: &DeviceUrl,
        request: &ClientRequest<'_>,
        longest: usize,
    ) -> Result<(u16, String), UpnpFailure> {
        let left = self.end.saturating_duration_since(Instant::now());
        let limits = ExchangeLimits {
            time: HTTP_TIME.min(left),
            head_bytes: 16 << 10,
            // One more, by which a longer body is known.
            body_bytes: longest + 1,
        };
        let sent = limits.bound(send(url, request, limits)).await;
        let (status, body) = sent.map_err(|error| UpnpFailure::Http {
            url: url.to_string(),
            error,
        })?;
        if body.len() > longest {
            return Err(UpnpFailure::TooLong {
                url: url.to_string(),
                limit: longest,
            });
        }
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

async fn send(
    url: &DeviceUrl,
    request: &ClientRequest<'_>,
    limits: ExchangeLimits,
) -> Result<(u16, Vec<u8>), ClientError> {
    let server = RemoteServer {
        addresses: vec![DialTarget::Tcp(url.address().into())],
        tls: None,
        proxy_header: &[],
    };
    // Routers end connections as they like: each exchange has its own.
    let mut connection = HttpConnection::http1(server.connect(limits).await?).await?;
    let mut response = connection.exchange(request).await?;
    let body = response.read(|_, _| false).await?;
    Ok((response.status, body))
}

fn refused(url: &str, fault: UrlFault) -> UpnpFailure {
    UpnpFailure::Url {
        url: bounded(url),
        fault,
    }
}
