//! The health protocol of gRPC: whether a service is served.

use lockgate_client::{ClientRequest, HttpConnection, ServerStream};

use super::{AGENT, CheckError};

/// Asks about a service, by `grpc.health.v1.Health/Check`; the empty name is the whole server.
pub(super) async fn check(
    service: &str,
    stream: ServerStream,
    host: &str,
) -> Result<(), CheckError> {
    let mut connection = HttpConnection::http2(stream);
    let request = ClientRequest {
        method: "POST",
        host,
        path: "/grpc.health.v1.Health/Check",
        fields: &[
            ("user-agent", AGENT),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ],
        body: framed(&health_request(service)).into(),
    };
    let mut response = connection.exchange(&request).await?;
    if response.status != 200 {
        return Err(CheckError::Status(response.status));
    }
    // An error has nothing but a head, and its status there.
    let message = if response.fields.contains_key("grpc-status") {
        Vec::new()
    } else {
        response.read(|_, _| false).await?
    };
    let [early, late] = [&response.fields, &response.trailers];
    let code = early.get("grpc-status").or(late.get("grpc-status"));
    match code.map(|code| code.to_str().unwrap_or_default()) {
        Some("0") => {}
        Some(code) => return Err(CheckError::Grpc(code.chars().take(8).collect())),
        None => return Err(CheckError::NoGrpc),
    }
    drop(response);
    connection.close().await;
    match message.get(5..).and_then(health_status) {
        Some(1) => Ok(()),
        Some(0) => Err(CheckError::NotServing("UNKNOWN")),
        Some(2) => Err(CheckError::NotServing("NOT_SERVING")),
        Some(3) => Err(CheckError::NotServing("SERVICE_UNKNOWN")),
        _ => Err(CheckError::NoGrpc),
    }
}

/// A message as gRPC frames it: not compressed, and its length.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend_from_slice(
        &u32::try_from(message.len())
            .unwrap_or_default()
            .to_be_bytes(),
    );
    out.extend_from_slice(message);
    out
}

/// `HealthCheckRequest { string service = 1; }`
fn health_request(service: &str) -> Vec<u8> {
    if service.is_empty() {
        return Vec::new();
    }
    let mut out = vec![0x0a];
    let mut left = service.len();
    while left >= 0x80 {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
    out.extend_from_slice(service.as_bytes());
    out
}

/// `HealthCheckResponse { ServingStatus status = 1; }`, which leaves out what is 0.
fn health_status(message: &[u8]) -> Option<u8> {
    match message {
        [] => Some(0),
        [0x08, status] if *status < 0x80 => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_health_protocol() {
        assert_eq!(framed(&health_request("")), [0, 0, 0, 0, 0]);
        assert_eq!(framed(&health_request("a.B")), *b"\0\0\0\0\x05\x0a\x03a.B");
        assert_eq!(health_request(&"x".repeat(300))[..3], [0x0a, 0xac, 0x02]);
        let read: Vec<_> = [&[][..], &[8, 1], &[8, 2], &[8], &[8, 0x81, 1], &[16, 1]]
            .map(health_status)
            .into();
        assert_eq!(read, [Some(0), Some(1), Some(2), None, None, None]);
    }
}
