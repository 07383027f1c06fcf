//! Responses that a configuration says whole.

use crate::template::Template;

/// A response that a route gives itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedResponse {
    /// From 200 to 599.
    pub status: u16,
    /// Its body; a template for [`Purpose::Text`](crate::Purpose::Text).
    pub body: Template,
    /// The media type of the body.
    pub media_type: String,
}
