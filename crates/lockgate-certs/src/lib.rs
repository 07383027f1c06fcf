//! Certificates that come by themselves: orders from authorities by ACME (RFC 8555), an authority of
//! our own, and the files in which all of this is kept.
//!
//! Serves no client: listeners answer challenges with what is presented in
//! [`lockgate_net::challenges`], and read certificates from the files. Reads no configuration.
//!
//! # Layout
//! - [`schedule`]: when to obtain, a pure function
//! - [`CertKeeper`]: the tasks that do what the schedule says
//! - `order`: one order, in steps that can be repeated · `dns_record`: its TXT records · `directory`: the account at an authority ·
//!   `http`: its connections
//! - [`CertFolder`]: the files · [`private_file`]: how they are replaced
//! - [`import`]: what other programs have stored
//! - `permission`: the question whether a name may have a certificate on demand
//! - `keys`, `leaf`: keys and issued chains · `mutex`: locks without an error
//! - [`authority`]: an authority of our own · `leaves`: its certificates for listeners

#![forbid(unsafe_code)]

pub mod authority;
mod directory;
mod dns_record;
mod error;
mod http;
pub mod import;
mod keeper;
mod keys;
mod leaf;
mod leaves;
mod mutex;
mod order;
mod permission;
pub mod private_file;
pub mod schedule;
mod store;

pub use error::{Failure, FailureKind};
pub use keeper::status::{CertStatus, OrderUnderWay};
pub use keeper::{
    CertKeeper, CertTrial, KeeperTask, OnDemandHosts, RevocationError, RevocationWord, RevokedCert,
    TrialFailure, WantedCert, WantedSet,
};
pub use leaves::{IssuedLeaves, WantedLeaf, issue_leaves};
pub use order::ChallengeKind;
pub use store::{CertFolder, CertId, LeafFile};
