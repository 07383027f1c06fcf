//! The indexes of what a table leads to.

use lockgate_net::index_type;

index_type! {
    /// The index of a site among those of its listener.
    ListenerSiteIndex;
    /// The index of a route among those of its listener, of all sites together.
    RouteIndex;
}
