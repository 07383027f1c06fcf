//! Conditions: ACLs, `if` and `unless`, and what is left of them for a part of all requests.

use super::changes::HaproxyChanges;
use super::patterns::{HostPattern, PathPattern};

/// What a condition looks at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HaproxyAtom {
    /// The `Host` of the request, or the server name of TLS.
    Host(HostPattern),
    Path(PathPattern),
    /// Whether the client speaks TLS.
    Tls,
    /// The port that the client has connected to.
    Port(u16),
    /// Networks of clients.
    Source(Vec<String>),
    /// A password of a list of users.
    User(String),
    /// More requests of a client than this in so many milliseconds.
    Rate(u64, u64),
    /// More connections of a client than this.
    Connections(u64),
    /// Anything else.
    Opaque {
        text: String,
        /// Whether it may say which clients are let in.
        access: bool,
    },
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HaproxyCondition {
    Always(bool),
    Atom(HaproxyAtom),
    Not(Box<HaproxyCondition>),
    All(Vec<HaproxyCondition>),
    Any(Vec<HaproxyCondition>),
}

use HaproxyCondition as C;

impl HaproxyAtom {
    /// Whether changes may have changed its result.
    pub(super) fn touched(&self, changes: HaproxyChanges) -> bool {
        match self {
            Self::Path(path) => changes.path && !path.is_every(),
            Self::Host(_) => changes.host,
            Self::Port(_) => changes.port,
            _ => false,
        }
    }
}

/// The part of all requests that a condition is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct HaproxyPart<'a> {
    /// The most specific host; without it, all that no other part has.
    pub(super) host: Option<&'a HostPattern>,
    /// The most specific path; without it, all that no other part has.
    pub(super) path: Option<&'a PathPattern>,
    pub(super) tls: bool,
    pub(super) port: u16,
}

/// How many alternatives a condition may have when it is written out.
const MOST_ALTERNATIVES: usize = 256;

impl HaproxyCondition {
    pub(super) fn not(self) -> Self {
        match self {
            C::Always(known) => C::Always(!known),
            C::Not(inner) => *inner,
            other => C::Not(Box::new(other)),
        }
    }

    pub(super) fn all(parts: Vec<Self>) -> Self {
        let mut left = Vec::new();
        for part in parts {
            match part {
                C::Always(true) => {}
                C::Always(false) => return C::Always(false),
                C::All(more) => left.extend(more),
                other => left.push(other),
            }
        }
        match left.len() {
            0 => C::Always(true),
            1 => left.remove(0),
            _ => C::All(left),
        }
    }

    pub(super) fn any(parts: Vec<Self>) -> Self {
        let mut left = Vec::new();
        for part in parts {
            match part {
                C::Always(false) => {}
                C::Always(true) => return C::Always(true),
                C::Any(more) => left.extend(more),
                other => left.push(other),
            }
        }
        match left.len() {
            0 => C::Always(false),
            1 => left.remove(0),
            _ => C::Any(left),
        }
    }

    /// What is left of the condition for a part of all requests.
    pub(super) fn within(&self, part: &HaproxyPart<'_>) -> Self {
        self.after(HaproxyChanges::default(), part)
    }

    /// What is left of it after changes: what asks for something that has changed stays.
    pub(super) fn after(&self, changes: HaproxyChanges, part: &HaproxyPart<'_>) -> Self {
        let each = |parts: &[Self]| parts.iter().map(|c| c.after(changes, part)).collect();
        match self {
            C::Always(known) => C::Always(*known),
            C::Not(inner) => inner.after(changes, part).not(),
            C::All(parts) => Self::all(each(parts)),
            C::Any(parts) => Self::any(each(parts)),
            C::Atom(atom) if atom.touched(changes) => self.clone(),
            C::Atom(atom) => match atom {
                HaproxyAtom::Host(host) => C::Always(part.host.is_some_and(|h| host.covers(h))),
                HaproxyAtom::Path(path) => {
                    C::Always(path.is_every() || part.path.is_some_and(|p| path.covers(p)))
                }
                HaproxyAtom::Tls => C::Always(part.tls),
                HaproxyAtom::Port(port) => C::Always(part.port == *port),
                _ => self.clone(),
            },
        }
    }

    /// How many atoms it has.
    pub(super) fn size(&self) -> usize {
        match self {
            C::Always(_) | C::Atom(_) => 1,
            C::Not(inner) => inner.size(),
            C::All(parts) | C::Any(parts) => parts.iter().map(Self::size).sum(),
        }
    }

    /// All atoms in it.
    pub(super) fn atoms<'a>(&'a self, found: &mut Vec<&'a HaproxyAtom>) {
        match self {
            C::Always(_) => {}
            C::Atom(atom) => found.push(atom),
            C::Not(inner) => inner.atoms(found),
            C::All(parts) | C::Any(parts) => parts.iter().for_each(|part| part.atoms(found)),
        }
    }

    /// Whether it may say which clients are let in.
    pub(super) fn is_about_access(&self) -> bool {
        let mut atoms = Vec::new();
        self.atoms(&mut atoms);
        atoms.iter().any(|atom| match atom {
            HaproxyAtom::Source(_) | HaproxyAtom::User(_) => true,
            HaproxyAtom::Opaque { access, .. } => *access,
            _ => false,
        })
    }

    /// A text for reasons: what cannot be told.
    pub(super) fn unknown(&self) -> String {
        let mut atoms = Vec::new();
        self.atoms(&mut atoms);
        let texts: Vec<_> = atoms
            .iter()
            .map(|atom| match atom {
                HaproxyAtom::Source(_) => "the client's address".to_owned(),
                HaproxyAtom::User(list) => format!("a password of {list}"),
                HaproxyAtom::Rate(..) => "a rate of requests".to_owned(),
                HaproxyAtom::Connections(_) => "a number of connections".to_owned(),
                HaproxyAtom::Opaque { text, .. } => format!("`{text}`"),
                _ => "this".to_owned(),
            })
            .collect();
        texts
            .first()
            .cloned()
            .unwrap_or_else(|| "this rule".to_owned())
    }

    /// Written out as alternatives, each of atoms that hold or do not hold (`true` for not).
    /// `None` if there are too many.
    pub(super) fn alternatives(&self) -> Option<Vec<Vec<(bool, HaproxyAtom)>>> {
        self.expand(false)
    }

    fn expand(&self, negated: bool) -> Option<Vec<Vec<(bool, HaproxyAtom)>>> {
        match self {
            C::Always(known) if *known != negated => Some(vec![Vec::new()]),
            C::Always(_) => Some(Vec::new()),
            C::Atom(atom) => Some(vec![vec![(negated, atom.clone())]]),
            C::Not(inner) => inner.expand(!negated),
            C::All(parts) | C::Any(parts) => {
                let either = matches!(self, C::Any(_)) != negated;
                let mut all = if either { Vec::new() } else { vec![Vec::new()] };
                for part in parts {
                    let more = part.expand(negated)?;
                    if either {
                        all.extend(more);
                    } else if let [only] = more.as_slice() {
                        for one in &mut all {
                            one.extend(only.iter().cloned());
                        }
                    } else {
                        if all.len().saturating_mul(more.len()) > MOST_ALTERNATIVES {
                            return None;
                        }
                        all = all
                            .iter()
                            .flat_map(|one: &Vec<_>| {
                                more.iter().map(move |two| {
                                    let mut both = one.clone();
                                    both.extend(two.iter().cloned());
                                    both
                                })
                            })
                            .collect();
                    }
                    if all.len() > MOST_ALTERNATIVES {
                        return None;
                    }
                }
                Some(all)
            }
        }
    }
}
