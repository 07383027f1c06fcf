//! Names and `[ddns]`: which of them the running Lockgate keeps, and whether it has failed.

use super::running::KeptNameAnswer;

/// What `[ddns]` does for the addresses of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Nothing.
    #[default]
    None,
    /// It sets them once Lockgate runs.
    Planned,
    /// The running Lockgate keeps them.
    Kept,
    /// The running Lockgate keeps them, and has failed last: the reason.
    Failed(String),
}

impl Keeping {
    /// What `[ddns]` does for a name that it has; `running` are the names that the running Lockgate keeps.
    pub(super) fn of(name: &str, running: Option<&[KeptNameAnswer]>) -> Self {
        let running = running.unwrap_or_default();
        match running.iter().find(|one| one.name == name) {
            None => Self::Planned,
            Some(one) => match &one.failure {
                None => Self::Kept,
                Some(why) => Self::Failed(why.clone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ddns_does_for_a_name_is_told_by_the_running_lockgate() {
        let name = |name: &str, failure: Option<&str>| KeptNameAnswer {
            name: name.to_owned(),
            failure: failure.map(str::to_owned),
        };
        let running = [name("a.test", None), name("b.test", Some("refused"))];
        assert_eq!(Keeping::of("a.test", None), Keeping::Planned);
        assert_eq!(Keeping::of("c.test", Some(&running)), Keeping::Planned);
        assert_eq!(Keeping::of("a.test", Some(&running)), Keeping::Kept);
        let failed = Keeping::Failed("refused".to_owned());
        assert_eq!(Keeping::of("b.test", Some(&running)), failed);
    }
}
