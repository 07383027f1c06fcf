//! Which route of which site a request belongs to: a pure function of its host, method and path.
//!
//! Knows no socket and no configuration file: the shell gives it [`SiteRoutes`] and keeps what each
//! route means by its index. What becomes of the request is not decided here.
//!
//! # The rule
//! The most specific wins. Hosts: exact, then the longest wildcard, then any. Paths within a site:
//! exact, then `/a/{id}`, then the longest prefix `/a/*`; of two routes with the same path, the one
//! that names the method. Two of which neither is more specific are a [`Clash`] when the table is
//! built, so no look-up depends on their order.
//!
//! # Layout
//! - [`router`]: the table of one listener's address.
//! - [`hosts`]: from a host to a site.
//! - [`paths`]: from method and path to a route, within a site.

mod clash;
pub mod hosts;
mod index;
mod losses;
pub mod paths;
pub mod router;

pub use clash::{Clash, Unreachable};
pub use index::{ListenerSiteIndex, RouteIndex};
pub use losses::{RouteLoss, SiteLoss};
pub use paths::{NoRoute, RouteEntry};
pub use router::{RouteMatch, Router, SiteRoutes};
