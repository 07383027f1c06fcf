//! Names in SNI, as settings have them.

/// A host with its own rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SniPattern {
    /// This name and no other.
    Exact(String),
    /// Every name below this one, however many labels deeper.
    Under(String),
    /// Every name.
    Any,
}

impl SniPattern {
    /// Whether a name in lower case matches.
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(own) => own == name,
            Self::Under(parent) => name
                .strip_suffix(&**parent)
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}
