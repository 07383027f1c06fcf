//! The indexes by which connections and limits are told apart. The things themselves belong to
//! higher crates.

use std::num::{NonZeroU32, NonZeroU64};

use lockgate_net::index_type;

/// The number of a listener: no other one of the process has had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(NonZeroU64);

impl ListenerId {
    /// The listener with this number.
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }
}

/// The place of a site among those of its configuration, in four bytes with that of no site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SiteNumber(NonZeroU32);

impl SiteNumber {
    /// That of the site with this index; none for one beyond four billion.
    pub fn of(index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(Self)
    }

    /// The index of the site.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

index_type! {
    /// The index of a listener among those of its configuration.
    ListenerIndex;
    /// The index of a relay among those of its configuration.
    RelayIndex;
    /// The index of a pool among those of its configuration, the same in every worker.
    PoolIndex;
    /// The index of a member in its pool.
    MemberIndex;
    /// The index of a worker.
    WorkerIndex;
}
