//! The users that may use the admin socket, by what the kernel says of the other end.

use lockgate_net::socket::peer_groups;
use tokio::net::UnixStream;

/// The allowed users: root, the user of this process, and the members of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllowedPeers {
    /// The group, if one is configured.
    pub(crate) group: Option<u32>,
}

/// The judgement about the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerJudgement {
    Allowed(PeerRights),
    /// The user that is refused, if the kernel says which it is.
    Refused(Option<u32>),
}

/// What an allowed user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerRights {
    /// Everything that this process may do: root, and the user of this process.
    All,
    /// All but start other programs: a member of the group.
    Group,
}

impl AllowedPeers {
    pub(super) fn judge(self, stream: &UnixStream) -> PeerJudgement {
        let Ok(peer) = stream.peer_cred() else {
            return PeerJudgement::Refused(None);
        };
        let (user, group) = (peer.uid(), peer.gid());
        let is_member = |allowed| {
            group == allowed || peer_groups(stream).is_ok_and(|groups| groups.contains(&allowed))
        };
        // The user of this process is asked each time: it changes when root is given up.
        let own = nix::unistd::geteuid().as_raw();
        if user == 0 || user == own {
            PeerJudgement::Allowed(PeerRights::All)
        } else if self.group.is_some_and(is_member) {
            PeerJudgement::Allowed(PeerRights::Group)
        } else {
            PeerJudgement::Refused(Some(user))
        }
    }
}
