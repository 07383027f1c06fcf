//! A set of a pool's members, by their index.

use crate::MemberIndex;

/// Members of one pool, by their index. Members behind the 64th are never in it, and so may be
/// tried again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberSet(u64);

impl MemberSet {
    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has the member.
    pub fn contains(self, member: MemberIndex) -> bool {
        self.0 & Self::bit(member) != 0
    }

    /// Adds a member to this set.
    pub fn insert(&mut self, member: MemberIndex) {
        self.0 |= Self::bit(member);
    }

    /// The same set with another member.
    pub fn with(self, member: MemberIndex) -> Self {
        Self(self.0 | Self::bit(member))
    }

    /// The same set without this member.
    pub fn without(self, member: MemberIndex) -> Self {
        Self(self.0 & !Self::bit(member))
    }

    /// The members of both.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn bit(member: MemberIndex) -> u64 {
        u32::try_from(member.get())
            .ok()
            .and_then(|member| 1_u64.checked_shl(member))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_set_holds_the_first_64_members() {
        let set = [0, 63, 64]
            .map(MemberIndex::new)
            .into_iter()
            .fold(MemberSet::default(), MemberSet::with);
        let held = |set: MemberSet| -> Vec<_> {
            (0..100)
                .filter(|&member| set.contains(MemberIndex::new(member)))
                .collect()
        };
        let (first, third) = (MemberIndex::new(0), MemberIndex::new(2));
        assert_eq!(held(set), [0, 63]);
        assert_eq!(held(set.without(first)), [63]);
        assert_eq!(
            held(set.without(first).union(MemberSet::default().with(third))),
            [2, 63]
        );
    }
}
