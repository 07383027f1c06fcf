//! `/v1/certs`: the certificates of the listeners, the first to expire first.

use super::super::request::{AdminRequest, AdminResult, AdminText};
use crate::views;

/// All certificates.
pub(super) async fn show(request: AdminRequest) -> AdminResult<AdminText> {
    Ok(AdminText::of(&views::certs(&request.state.exposition())))
}
