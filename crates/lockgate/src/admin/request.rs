//! A request to a resource, and its response.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::{MutexGuard, oneshot};

use super::body::known;
use super::command::{AdminCommand, Reply};
use super::error::AdminError;
use super::state::AdminState;
use super::turns::PoolTurn;

/// A request with its whole body.
pub(super) struct AdminRequest {
    pub(super) state: Arc<AdminState>,
    /// The query of the target, without its question mark.
    pub(super) query: String,
    pub(super) body: Bytes,
    /// Whether the client has all rights of this process.
    pub(super) may_start_programs: bool,
}

/// The JSON of a response, or an error.
pub(super) type AdminResult<T = Value> = Result<T, AdminError>;

/// The body of a response: indented JSON.
pub(super) struct AdminText(Vec<u8>);

impl AdminText {
    /// The text of a value, which may borrow.
    pub(super) fn of(value: &impl Serialize) -> Self {
        let mut text = serde_json::to_vec_pretty(value).expect("names are strings");
        text.push(b'\n');
        Self(text)
    }
}

impl From<Value> for AdminText {
    fn from(value: Value) -> Self {
        Self::of(&value)
    }
}

impl From<AdminText> for Bytes {
    fn from(text: AdminText) -> Self {
        text.0.into()
    }
}

impl AdminRequest {
    /// The body as a JSON object with no other members than these; nothing is an empty one.
    pub(super) fn object(&self, members: &[&str]) -> Result<Map<String, Value>, AdminError> {
        if self.body.is_empty() {
            return Ok(Map::new());
        }
        let object = serde_json::from_slice(&self.body).map_err(|error| {
            AdminError::new(
                StatusCode::BAD_REQUEST,
                "bad_json",
                format!("the body is not a JSON object: {error}"),
                "",
            )
        })?;
        known(&object, members)?;
        Ok(object)
    }

    /// Makes a change to its end in a task of its own, also where the client leaves meanwhile: others
    /// are judged by it, and what is to be kept of it is a part of it.
    pub(super) async fn carry_out<C>(
        self,
        change: impl FnOnce(Self) -> C + Send + 'static,
    ) -> AdminResult
    where
        C: Future<Output = AdminResult> + Send + 'static,
    {
        let ended = tokio::spawn(async move {
            // An upgrade may have begun before the task.
            self.state.admit(true)?;
            change(self).await
        });
        // It is dropped with the runtime only.
        ended.await.unwrap_or_else(|_| Err(AdminError::stopping()))
    }

    /// Waits for the turn to add an endpoint or to remove one, which lasts until it is dropped.
    pub(super) async fn pool_turn(&self) -> Result<PoolTurn<'_>, AdminError> {
        let turn = self.state.turns.of_pools().await?;
        // An upgrade may have begun meanwhile.
        self.state.admit(true)?;
        Ok(turn)
    }

    /// Waits for the turn to take an endpoint out of its pool, which lasts until it is dropped.
    pub(super) async fn turn_to_take_out(&self) -> Result<MutexGuard<'_, ()>, AdminError> {
        let turn = self.state.turns.to_take_out().await;
        self.state.admit(true)?;
        Ok(turn)
    }

    /// Gives a command to the supervisor, and waits for its answer.
    pub(super) async fn ask<T, C: Into<AdminCommand>>(
        &self,
        command: impl FnOnce(Reply<T>) -> C,
    ) -> Result<T, AdminError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.state.commands.send(command(reply).into()).await;
        sent.map_err(|_| AdminError::stopping())?;
        answer.await.map_err(|_| AdminError::stopping())
    }
}
