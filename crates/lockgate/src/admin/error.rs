//! Errors of the admin socket: a status, and a JSON object with code, message and cure.

use hyper::StatusCode;
use serde_json::{Map, Value, json};

/// An error as a client of the admin socket gets it.
#[derive(Debug)]
pub(crate) struct AdminError {
    pub(super) status: StatusCode,
    /// The kind, which programs compare.
    code: &'static str,
    message: String,
    cure: String,
    /// Further members beside `error`.
    more: Map<String, Value>,
}

impl AdminError {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            cure: cure.into(),
            more: Map::new(),
        }
    }

    /// The same with a member beside `error`.
    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    /// The supervisor has stopped to take commands.
    pub(super) fn stopping() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the process is about to end",
            "",
        )
    }

    pub(super) fn into_json(self) -> Value {
        let mut object = self.more;
        let error = json!({ "code": self.code, "message": self.message, "cure": self.cure });
        object.insert("error".to_owned(), error);
        Value::Object(object)
    }
}
