//! The indexes by which connections and limits are told apart. The things themselves belong to
//! higher crates.

use lockgate_net::index_type;

index_type! {
    /// The index of a listener among those of its configuration.
    ListenerIndex;
    /// The number of a listener: no other one of the process has had it.
    ListenerId;
    /// The index of a relay among those of its configuration.
    RelayIndex;
    /// The index of a pool among those of its configuration, the same in every worker.
    PoolIndex;
    /// The index of a member in its pool.
    MemberIndex;
    /// The index of a worker.
    WorkerIndex;
}
