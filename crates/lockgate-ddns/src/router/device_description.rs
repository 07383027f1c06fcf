//! The description of a gateway device (UPnP Device Architecture 1.1 §2.3): where the services are
//! controlled that know the external address.

use super::ssdp::SERVICES;
use super::xml::{XmlError, XmlEvent, XmlScanner};

/// What of a description matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The URL that others are relative to, where it is not that of the description (UPnP Device
    /// Architecture 1.0 §2.1; later versions have none).
    pub base: Option<String>,
    /// The services that know the external address, the best one first; [`MOST_SERVICES`] at most.
    pub services: Vec<DeviceService>,
}

/// A service that knows the external address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceService {
    /// One of [`SERVICES`].
    pub kind: &'static str,
    /// The URL of its control, as it is written: absolute or relative.
    pub control: String,
}

/// So many services are kept: a device has one for each of its lines.
pub const MOST_SERVICES: usize = 4;

impl DeviceDescription {
    /// Reads a description.
    ///
    /// # Errors
    /// When it is no XML that is read.
    pub fn parse(text: &str) -> Result<Self, XmlError> {
        let (mut base, mut services) = (None, Vec::new());
        let (mut path, mut content) = (Vec::new(), String::new());
        let (mut kind, mut control) = (None, None);
        for event in XmlScanner::new(text) {
            match event? {
                XmlEvent::Open(name) => {
                    path.push(name);
                    content.clear();
                    if name == "service" {
                        (kind, control) = (None, None);
                    }
                }
                XmlEvent::Text(part) => content.push_str(&part),
                XmlEvent::Close => {
                    let value = content.trim();
                    match (path.pop(), path.last()) {
                        (Some("URLBase"), Some(&"root")) if !value.is_empty() => {
                            base = Some(value.to_owned());
                        }
                        (Some("serviceType"), Some(&"service")) => {
                            kind = SERVICES.into_iter().find(|known| *known == value);
                        }
                        (Some("controlURL"), Some(&"service")) => {
                            control = Some(value.to_owned());
                        }
                        (Some("service"), _) => {
                            if let (Some(kind), Some(control)) = (kind.take(), control.take())
                                && services.len() < MOST_SERVICES
                            {
                                services.push(DeviceService { kind, control });
                            }
                        }
                        _ => {}
                    }
                    content.clear();
                }
            }
        }
        let rank = |service: &DeviceService| SERVICES.iter().position(|kind| *kind == service.kind);
        services.sort_by_key(rank);
        Ok(Self { base, services })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service of `kind`, a number of [`SERVICES`].
    fn service(kind: usize, control: &str) -> DeviceService {
        DeviceService {
            kind: SERVICES[kind],
            control: control.to_owned(),
        }
    }

    fn services(text: &str) -> Vec<DeviceService> {
        DeviceDescription::parse(text).unwrap().services
    }

    /// UPnP Device Architecture 1.1 §2.3, and InternetGatewayDevice:1 §2.3 for the devices.
    const DESCRIPTION: &str = r#"<?xml version="1.0"?>
<root xmlns="urn:schemas-upnp-org:device-1-0">
  <specVersion><major>1</major><minor>0</minor></specVersion>
  <URLBase>http://192.168.1.1:5431/</URLBase>
  <device>
    <deviceType>urn:schemas-upnp-org:device:InternetGatewayDevice:1</deviceType>
    <friendlyName>Router &amp; more</friendlyName>
    <serviceList>
      <service>
        <serviceType>urn:schemas-upnp-org:service:Layer3Forwarding:1</serviceType>
        <controlURL>/ctl/L3F</controlURL>
      </service>
    </serviceList>
    <deviceList><device>
      <deviceType>urn:schemas-upnp-org:device:WANDevice:1</deviceType>
      <deviceList><device>
        <deviceType>urn:schemas-upnp-org:device:WANConnectionDevice:1</deviceType>
        <serviceList>
          <service>
            <serviceType>urn:schemas-upnp-org:service:WANPPPConnection:1</serviceType>
            <serviceId>urn:upnp-org:serviceId:WANPPPConn1</serviceId>
            <controlURL>/ctl/PPPConn</controlURL>
            <eventSubURL>/evt/PPPConn</eventSubURL>
            <SCPDURL>/WANPPPCn.xml</SCPDURL>
          </service>
          <service>
            <SCPDURL>/WANIPCn.xml</SCPDURL>
            <controlURL> ctl/IPConn?a=1&amp;b=2 </controlURL>
            <serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType>
          </service>
        </serviceList>
      </device></deviceList>
    </device></deviceList>
  </device>
</root>"#;

    #[test]
    fn services_that_know_the_address_are_found_and_ordered() {
        let description = DeviceDescription::parse(DESCRIPTION).unwrap();
        assert_eq!(
            description,
            DeviceDescription {
                base: Some("http://192.168.1.1:5431/".to_owned()),
                services: vec![service(1, "ctl/IPConn?a=1&b=2"), service(2, "/ctl/PPPConn")],
            }
        );
    }

    #[test]
    fn services_without_type_or_control_are_left_out() {
        let kind = SERVICES[0];
        for text in [
            "<root/>".to_owned(),
            "<root><URLBase> </URLBase></root>".to_owned(),
            format!("<root><service><serviceType>{kind}</serviceType></service></root>"),
            "<root><service><controlURL>/a</controlURL></service></root>".to_owned(),
            // Not in a service, or deeper in it.
            format!("<root><serviceType>{kind}</serviceType><controlURL>/a</controlURL></root>"),
            format!(
                "<service><x><serviceType>{kind}</serviceType></x><controlURL>/a</controlURL></service>"
            ),
            // Those of another one.
            format!(
                "<root><service><serviceType>{kind}</serviceType></service>\
                 <service><controlURL>/a</controlURL></service></root>"
            ),
            format!(
                "<service><serviceType>{kind}0</serviceType><controlURL>/a</controlURL></service>"
            ),
        ] {
            let empty = DeviceDescription {
                base: None,
                services: Vec::new(),
            };
            assert_eq!(DeviceDescription::parse(&text), Ok(empty), "{text}");
        }
    }

    #[test]
    fn the_number_of_services_is_limited() {
        let one = format!(
            "<service><serviceType>{}</serviceType><controlURL>/a</controlURL></service>",
            SERVICES[1]
        );
        let text = format!("<root>{}</root>", one.repeat(100));
        assert_eq!(services(&text), vec![service(1, "/a"); MOST_SERVICES]);
    }

    #[test]
    fn a_description_that_is_cut_off_is_an_error() {
        let cut = &DESCRIPTION[..DESCRIPTION.len() - 1];
        assert_eq!(DeviceDescription::parse(cut), Err(XmlError::CutOff));
    }
}
