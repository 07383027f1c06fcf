//! The server of the admin socket: connections, their limits, and the way to a resource.

use std::convert::Infallible;
use std::io;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, SERVER, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::Pid;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::accept_loop::{Acceptance, HeadReceived};
use crate::handover::{PROTOCOL, TAKEOVER_PATH};
use crate::served_body::ServedBody;
use crate::write_limit::WriteLimited;

use super::error::AdminError;
use super::line_stream::LineStream;
use super::peers::{PeerJudgement, PeerRights};
use super::phase::AdminPhase;
use super::request::{AdminRequest, AdminText};
use super::resources;
use super::state::AdminState;

/// The body of a response: the lines of a tail go on.
type AdminBody = ServedBody<LineStream>;

/// The most connections at once.
const AT_ONCE: usize = 32;
/// The time for a whole request head, and for a kept connection without a request.
const HEAD: Duration = Duration::from_secs(30);
/// The time for a body.
const BODY: Duration = Duration::from_secs(10);
/// The time in which a client must read something of its response.
const WRITE: Duration = Duration::from_secs(20);
/// The field by which a command knows a Lockgate.
const NAME: HeaderValue = HeaderValue::from_static(concat!("lockgate/", env!("CARGO_PKG_VERSION")));

/// The type of a whole response.
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The type of a response that goes on, an object in each line.
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// Serves the resources until the future is dropped.
///
/// # Errors
/// When the runtime cannot take the socket over; afterwards it does not return.
pub(crate) async fn serve(socket: StdUnixListener, state: Arc<AdminState>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let listener = UnixListener::from_std(socket)?;
    let acceptance = Acceptance {
        name: "the admin socket",
        at_once: AT_ONCE,
    };
    let serve = |stream, head_received| serve_connection(stream, Arc::clone(&state), head_received);
    tokio::select! {
        () = acceptance.run(listener, serve) => {}
        () = state.watch_usage() => {}
    }
    Ok(())
}

fn serve_connection(
    stream: UnixStream,
    state: Arc<AdminState>,
    head_received: HeadReceived,
) -> impl Future<Output = ()> {
    let judgement = state.peers.judge(&stream);
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let pid = pid.and_then(Pid::from_raw);
    let mut phase = state.phase.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        head_received.set();
        let (state, head_received) = (Arc::clone(&state), head_received.clone());
        async move {
            let response = respond(request, state, (judgement, pid)).await;
            // From here on a client that does not read may be closed for another.
            if !response.body().goes_on() {
                head_received.clear();
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(matches!(judgement, PeerJudgement::Allowed(_)))
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(WriteLimited::new(stream, WRITE)), service)
        .with_upgrades();
    async move {
        let mut connection = pin!(connection);
        let handed_over = async {
            let waited = phase.wait_for(|phase| *phase == AdminPhase::HandedOver);
            waited.await.is_ok()
        };
        let served = tokio::select! {
            served = &mut connection => served,
            true = handed_over => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection to the admin socket failed");
        }
    }
}

async fn respond(
    mut request: Request<Incoming>,
    state: Arc<AdminState>,
    (judgement, pid): (PeerJudgement, Option<Pid>),
) -> Response<AdminBody> {
    if let PeerJudgement::Refused(user) = judgement {
        return refusal(forbidden(user));
    }
    let has_all_rights = judgement == PeerJudgement::Allowed(PeerRights::All);
    if request.uri().path() == TAKEOVER_PATH {
        if request.method() != Method::POST {
            return not_allowed(wrong_method(TAKEOVER_PATH, "POST"), "POST");
        }
        let asked = resources::take_over(&mut request, &state, has_all_rights, pid).await;
        return match asked {
            Ok(()) => switching(),
            Err(error) if error.status == StatusCode::UPGRADE_REQUIRED => {
                // RFC 9110, section 15.5.22.
                let mut response = refusal(error);
                name_protocol(&mut response);
                response
            }
            Err(error) => refusal(error),
        };
    }
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    if let Some(open) = resources::find_stream(head.uri.path()) {
        if head.method != Method::GET {
            return not_allowed(wrong_method(head.uri.path(), "GET"), "GET");
        }
        let lines = state.admit(false).and_then(|()| open(&state, query));
        return match lines {
            Ok(lines) => response(StatusCode::OK, LINES, ServedBody::GoesOn(lines)),
            Err(error) => refusal(error),
        };
    }
    let resource = match resources::find(head.uri.path()) {
        Ok(resource) => resource,
        Err(error) => return refusal(error),
    };
    let Some(handler) = resource.handler(&head.method) else {
        let methods = resource.methods();
        return not_allowed(wrong_method(resource.path, &methods), &methods);
    };
    let body = match read_body(body, resource.longest_body()).await {
        Ok(body) => body,
        Err(error) => return refusal(error),
    };
    let is_change = head.method == Method::POST && resource.is_handed_over();
    // Nothing waits from here to the change, so that an upgrade begins before or after it.
    if let Err(error) = state.admit(is_change) {
        return refusal(error);
    }
    let request = AdminRequest {
        state,
        query: query.to_owned(),
        body,
        may_start_programs: has_all_rights,
    };
    match handler(request).await {
        Ok(text) => json(StatusCode::OK, text),
        Err(error) => refusal(error),
    }
}

async fn read_body(body: Incoming, longest: usize) -> Result<Bytes, AdminError> {
    let read = timeout(BODY, Limited::new(body, longest).collect()).await;
    match read {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(AdminError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body is longer than {longest} bytes"),
            "",
        )),
        Ok(Err(error)) => Err(AdminError::new(
            StatusCode::BAD_REQUEST,
            "bad_body",
            format!("the body cannot be read: {error}"),
            "",
        )),
        Err(_) => Err(AdminError::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "the body has not arrived in time",
            "",
        )),
    }
}

fn forbidden(user: Option<u32>) -> AdminError {
    let user = user.map_or_else(
        || "an unknown user".to_owned(),
        |user| format!("user {user}"),
    );
    AdminError::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        format!("{user} may not use the admin socket"),
        "use root or the user of Lockgate, or write admin = { group = \"GROUP\" } and join that group",
    )
}

fn not_allowed(error: AdminError, methods: &str) -> Response<AdminBody> {
    let mut response = refusal(error);
    if let Ok(methods) = HeaderValue::from_str(methods) {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}

fn wrong_method(path: &str, methods: &str) -> AdminError {
    AdminError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong_method",
        format!("{path} has only {methods}"),
        "",
    )
}

/// The answer to a takeover that begins: the connection is for it from here on.
fn switching() -> Response<AdminBody> {
    let mut response = Response::new(ServedBody::whole(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    name_protocol(&mut response);
    response.headers_mut().insert(SERVER, NAME);
    response
}

/// Names the protocol of a takeover, and says that this field is for this connection (RFC 9110,
/// section 7.8).
fn name_protocol(response: &mut Response<AdminBody>) {
    let fields = response.headers_mut();
    fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
}

fn refusal(error: AdminError) -> Response<AdminBody> {
    json(error.status, error.into_json().into())
}

fn json(status: StatusCode, text: AdminText) -> Response<AdminBody> {
    response(status, JSON, ServedBody::whole(text))
}

fn response(status: StatusCode, kind: HeaderValue, body: AdminBody) -> Response<AdminBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, kind);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(SERVER, NAME);
    response
}
