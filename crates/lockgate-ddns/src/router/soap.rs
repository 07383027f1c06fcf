//! The action GetExternalIPAddress of a gateway (WANIPConnection:1 §2.4.18) as a message of SOAP
//! (UPnP Device Architecture 1.1 §3.2).

use super::xml::{XmlError, XmlEvent, XmlScanner};

const ACTION: &str = "GetExternalIPAddress";

/// The body of the request to a service of a kind.
pub(super) fn encode_request(service: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\r\n\
         <s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         s:encodingStyle=\"http://schemas.xmlsoap.org/soap/encoding/\">\
         <s:Body><u:{ACTION} xmlns:u=\"{service}\"></u:{ACTION}></s:Body></s:Envelope>\r\n"
    )
}

/// The value of the field SOAPACTION of that request.
pub(super) fn soap_action(service: &str) -> String {
    format!("\"{service}#{ACTION}\"")
}

/// What an answer says. The texts are the device's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SoapAnswer {
    /// What stands where the address should, without space around it; may be empty.
    Address(String),
    /// The number and description of an error, as far as they are there.
    Fault(String),
    /// None of these.
    Other,
}

impl SoapAnswer {
    /// Reads the body of an answer.
    ///
    /// # Errors
    /// When it is no XML that is read.
    pub fn parse(text: &str) -> Result<Self, XmlError> {
        let (mut path, mut content) = (Vec::new(), String::new());
        let (mut address, mut fault): (Option<String>, Option<String>) = (None, None);
        for event in XmlScanner::new(text) {
            match event? {
                XmlEvent::Open(name) => {
                    path.push(name);
                    content.clear();
                }
                XmlEvent::Text(part) => content.push_str(&part),
                XmlEvent::Close => {
                    let value = content.trim();
                    match (path.pop(), path.last()) {
                        (Some("NewExternalIPAddress"), Some(&"GetExternalIPAddressResponse")) => {
                            address.get_or_insert_with(|| value.to_owned());
                        }
                        (Some("errorCode" | "errorDescription"), Some(&"UPnPError")) => {
                            let text = fault.get_or_insert_default();
                            if !text.is_empty() {
                                text.push(' ');
                            }
                            text.push_str(value);
                        }
                        (Some("Fault"), _) => {
                            fault.get_or_insert_default();
                        }
                        _ => {}
                    }
                    content.clear();
                }
            }
        }
        Ok(match (fault, address) {
            (Some(fault), _) => Self::Fault(fault),
            (None, Some(address)) => Self::Address(address),
            (None, None) => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::ssdp::SERVICES;

    fn envelope(body: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\r\n<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" \
             s:encodingStyle=\"http://schemas.xmlsoap.org/soap/encoding/\"><s:Body>{body}</s:Body></s:Envelope>"
        )
    }

    #[test]
    fn requests_name_the_action_of_the_service() {
        let request = encode_request(SERVICES[1]);
        let names: Vec<_> = XmlScanner::new(&request)
            .filter_map(|event| match event.unwrap() {
                XmlEvent::Open(name) => Some(name),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["Envelope", "Body", ACTION]);
        let element =
            "<u:GetExternalIPAddress xmlns:u=\"urn:schemas-upnp-org:service:WANIPConnection:1\">";
        assert!(request.contains(element), "{request}");
        assert_eq!(
            soap_action(SERVICES[1]),
            "\"urn:schemas-upnp-org:service:WANIPConnection:1#GetExternalIPAddress\""
        );
    }

    #[test]
    fn answers_tell_an_address_or_an_error() {
        let response = |content: &str| {
            envelope(&format!(
                "<u:GetExternalIPAddressResponse xmlns:u=\"u\">{content}</u:GetExternalIPAddressResponse>"
            ))
        };
        let address = |text: &str| SoapAnswer::Address(text.to_owned());
        let fault = |text: &str| SoapAnswer::Fault(text.to_owned());
        for (text, answer) in [
            // UPnP Device Architecture 1.1 §3.2.2
            (
                response("<NewExternalIPAddress>203.0.113.5</NewExternalIPAddress>"),
                address("203.0.113.5"),
            ),
            (
                response("\n <NewExternalIPAddress> 203.0.113.5\n</NewExternalIPAddress>"),
                address("203.0.113.5"),
            ),
            (response("<NewExternalIPAddress/>"), address("")),
            (
                response(
                    "<NewExternalIPAddress>1.2.3.4</NewExternalIPAddress><NewExternalIPAddress>5.6.7.8</NewExternalIPAddress>",
                ),
                address("1.2.3.4"),
            ),
            (response(""), SoapAnswer::Other),
            // Another action's answer.
            (
                envelope("<u:X><NewExternalIPAddress>1.2.3.4</NewExternalIPAddress></u:X>"),
                SoapAnswer::Other,
            ),
            // §3.2.2: the error of an action.
            (
                envelope(
                    "<s:Fault><faultcode>s:Client</faultcode><faultstring>UPnPError</faultstring><detail>\
                     <UPnPError xmlns=\"urn:schemas-upnp-org:control-1-0\"><errorCode>501</errorCode>\
                     <errorDescription>Action Failed</errorDescription></UPnPError></detail></s:Fault>",
                ),
                fault("501 Action Failed"),
            ),
            (envelope("<s:Fault/>"), fault("")),
            (
                "<html><body>404</body></html>".to_owned(),
                SoapAnswer::Other,
            ),
        ] {
            assert_eq!(SoapAnswer::parse(&text), Ok(answer), "{text}");
        }
        assert_eq!(SoapAnswer::parse("no XML"), Err(XmlError::CutOff));
    }
}
