//! Responses with a configured status and body.

use crate::template::Template;

/// A response that a route gives without an endpoint or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedResponse {
    /// The status, from 200 to 599.
    pub status: u16,
    /// The body; a template for [`Purpose::Text`](crate::Purpose::Text).
    pub body: Template,
    /// The media type of the body.
    pub media_type: String,
}
