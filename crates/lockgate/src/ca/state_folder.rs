//! The folder of `state`, in which the authority has a folder of its own. Makes neither.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use lockgate_certs::authority::{AuthorityFolder, CaCert};

use super::refused;
use crate::cli::ca::StateChoice;
use crate::privileges::ServiceUser;

/// The folder of `state`.
pub(super) struct StateFolder {
    pub(super) state: PathBuf,
    /// Its owner if it is made now: the key `user`, for a command of root.
    pub(super) owner: Option<(u32, u32)>,
}

impl StateFolder {
    /// The folder that was chosen.
    ///
    /// # Errors
    /// A configuration that cannot be read or names no folder.
    pub(super) fn find(choice: &StateChoice) -> anyhow::Result<Self> {
        let file = match choice {
            StateChoice::At(state) => {
                return Ok(Self {
                    state: std::path::absolute(state)?,
                    owner: None,
                });
            }
            StateChoice::Configured(file) => file,
        };
        let shown = file.display();
        // Mistakes elsewhere in the file do not matter.
        let Ok(draft) = lockgate_config::read_keys(file, &["state", "user"]) else {
            bail!("{shown} cannot be read: name another file with -c, or the folder with --state");
        };
        let config = &draft.understood().config;
        let Some(state) = config.state.clone() else {
            bail!(
                "{shown} names no folder for the authority: add state = \"/var/lib/lockgate\", or name one with --state"
            );
        };
        let owner = match &config.user {
            Some(user) if nix::unistd::geteuid().is_root() => {
                let user = ServiceUser::look_up(user).context("the key `user`")?;
                Some(user.ids())
            }
            _ => None,
        };
        Ok(Self { state, owner })
    }

    /// The folder of the authority.
    pub(super) fn authority(&self) -> PathBuf {
        self.state.join("ca")
    }

    /// The root certificate of an authority that is there.
    ///
    /// # Errors
    /// When there is none, or no permission.
    pub(super) fn root(&self) -> anyhow::Result<CaCert> {
        let folder = self.authority();
        let root = AuthorityFolder::at(&folder).root();
        let root = root.map_err(|error| refused(error, &self.state))?;
        root.with_context(|| {
            format!(
                "there is no authority in {} yet: `lockgate ca export` makes one",
                folder.display()
            )
        })
    }
}
