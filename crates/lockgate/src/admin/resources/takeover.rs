//! `/v1/takeover`: a process that others have started takes over.

use std::io;
use std::os::fd::OwnedFd;

use hyper::body::Incoming;
use hyper::header::UPGRADE;
use hyper::upgrade::{OnUpgrade, on};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::Pid;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use super::super::command::{AdminCommand, TakeoverOutcome, TakeoverRequest};
use super::super::error::AdminError;
use super::super::state::AdminState;
use crate::handover::{PROTOCOL, pass};
use crate::write_limit::WriteLimited;

/// Begins a takeover by the process `pid`: the connection is upgraded, and passes a descriptor.
///
/// # Errors
/// When the client may not take over, or the supervisor refuses it.
pub(in super::super) async fn take_over(
    request: &mut Request<Incoming>,
    state: &AdminState,
    has_all_rights: bool,
    pid: Option<Pid>,
) -> Result<(), AdminError> {
    if !has_all_rights {
        return Err(AdminError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "only root and the user of Lockgate may take over: the sockets and the keys of session tickets give all rights",
            "let a member of the group use `lockgate upgrade`",
        ));
    }
    let protocol = request.headers().get(UPGRADE);
    if protocol.is_none_or(|protocol| protocol != PROTOCOL) {
        return Err(AdminError::new(
            StatusCode::UPGRADE_REQUIRED,
            "upgrade_required",
            format!("a takeover needs the fields `Connection: Upgrade` and `Upgrade: {PROTOCOL}`"),
            "use `lockgate run --takeover` of a version that knows this protocol",
        ));
    }
    state.admit(false)?;
    let (reply, answer) = oneshot::channel();
    let command = AdminCommand::TakeOver(TakeoverRequest { pid, reply });
    let sent = state.commands.send(command).await;
    sent.map_err(|_| AdminError::stopping())?;
    match answer.await.map_err(|_| AdminError::stopping())? {
        TakeoverOutcome::Begins(end) => {
            let upgrade = on(request);
            tokio::spawn(async move {
                // Without it the process that asks has left, which the handover notices.
                if let Err(error) = pass_over(upgrade, end).await {
                    tracing::debug!(%error, "the takeover could not begin");
                }
            });
            Ok(())
        }
        TakeoverOutcome::Refused(why, cure) => Err(AdminError::new(
            StatusCode::CONFLICT,
            "takeover_refused",
            why,
            cure,
        )),
        TakeoverOutcome::Failed(why) => Err(AdminError::new(
            StatusCode::BAD_GATEWAY,
            "takeover_failed",
            why,
            "the running program goes on",
        )),
    }
}

async fn pass_over(upgrade: OnUpgrade, end: OwnedFd) -> io::Result<()> {
    let upgraded = upgrade.await.map_err(io::Error::other)?;
    let parts = upgraded.downcast::<TokioIo<WriteLimited<UnixStream>>>();
    let parts = parts.map_err(|_| io::ErrorKind::InvalidInput)?;
    let stream = parts.io.into_inner().into_inner().into_std()?;
    pass(stream.into(), &end)
}
