//! Names that the user chooses as keys: of tables, and in maps.

/// The kind of names of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableNaming {
    /// The address of a listener.
    Address,
    /// A host, a port or both.
    Site,
    /// A path, optionally after a method.
    Path,
    /// A name of letters, digits, `-`, `_` and dots.
    Name,
}

impl TableNaming {
    /// The placeholder for the name in the paths of keys.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            TableNaming::Address => "\"ADDR\"",
            TableNaming::Site => "\"HOST\"",
            TableNaming::Path => "\"PATH\"",
            TableNaming::Name => "NAME",
        }
    }

    /// A sample name, as it is written in a header.
    pub(crate) fn sample(self) -> &'static str {
        match self {
            TableNaming::Address => "\":8443\"",
            TableNaming::Site => "\"example.com:8080\"",
            TableNaming::Path => "\"/api/*\"",
            TableNaming::Name => "app",
        }
    }
}

/// The kind of keys of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapKeys {
    /// Field names of responses.
    AnswerFields,
    /// Field names of requests.
    RequestFields,
    /// Field names of any request.
    TestFields,
    /// Field names of requests of our own.
    SentFields,
    /// Statuses of errors, from 400 to 599.
    Errors,
    /// File extensions with their dot, and request paths.
    FileTypes,
    /// Request paths, media types, `*`.
    Cached,
    /// Names of HTML attributes.
    Attributes,
    /// Server names of SNI; `*.` in front stands for every name below.
    Servers,
    /// Names of ALPN protocols.
    Protocols,
}

impl MapKeys {
    /// Whether the values of the map are tables.
    pub(crate) fn lead(self) -> bool {
        matches!(self, MapKeys::Servers | MapKeys::Protocols)
    }

    /// The placeholder for the key in the paths of the table's keys.
    pub(crate) fn placeholder(self) -> &'static str {
        if self == MapKeys::Protocols {
            "\"PROTOCOL\""
        } else {
            "\"NAME\""
        }
    }

    /// A key of a map that has tables.
    pub(crate) fn sample(self) -> &'static str {
        if self == MapKeys::Protocols {
            "\"acme-tls/1\""
        } else {
            "\"mail.example.com\""
        }
    }
}
