//! A set of a pool's members, by their index.

/// Members of one pool, by their index. Members behind the 64th are never in it: no request makes
/// more attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberSet(u64);

impl MemberSet {
    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has the member.
    pub fn contains(self, member: usize) -> bool {
        self.0 & Self::bit(member) != 0
    }

    /// Adds a member to this set.
    pub fn insert(&mut self, member: usize) {
        self.0 |= Self::bit(member);
    }

    /// The same set with another member.
    pub fn with(self, member: usize) -> Self {
        Self(self.0 | Self::bit(member))
    }

    /// The same set without this member.
    pub fn without(self, member: usize) -> Self {
        Self(self.0 & !Self::bit(member))
    }

    /// The members of both.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn bit(member: usize) -> u64 {
        u32::try_from(member)
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
        let set = MemberSet::default().with(0).with(63).with(64);
        let held = |set: MemberSet| -> Vec<_> {
            (0..100).filter(|&member| set.contains(member)).collect()
        };
        assert_eq!(held(set), [0, 63]);
        assert_eq!(held(set.without(0)), [63]);
        assert_eq!(
            held(set.without(0).union(MemberSet::default().with(2))),
            [2, 63]
        );
    }
}
