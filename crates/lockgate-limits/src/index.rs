//! The indexes by which connections and limits are told apart. The things themselves belong to
//! higher crates.

use lockgate_net::index_type;

index_type! {
    /// The index of a listener among those of the process.
    ListenerIndex;
    /// The index of a relay among those of the process.
    RelayIndex;
    /// The index of a pool among those of a worker, which are the same in every worker.
    PoolIndex;
    /// The index of a member in its pool.
    MemberIndex;
    /// The index of a worker.
    WorkerIndex;
}
