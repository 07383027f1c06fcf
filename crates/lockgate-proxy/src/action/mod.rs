//! What is done with a connection once it is open: so far it is relayed.

pub mod relay;
