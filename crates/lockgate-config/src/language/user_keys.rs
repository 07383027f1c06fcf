//! What stands by keys that the user chooses: by what tables and values are told apart.

/// By what tables are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableNaming {
    /// The address of a listener.
    Address,
    /// A host, a port or both.
    Site,
    /// A path, perhaps after a method.
    Path,
    /// A name of letters, digits, `-`, `_` and dots.
    Name,
}

impl TableNaming {
    /// What stands for the key in the name of what is in the table.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            TableNaming::Address => "\"ADDR\"",
            TableNaming::Site => "\"HOST\"",
            TableNaming::Path => "\"PATH\"",
            TableNaming::Name => "NAME",
        }
    }

    /// A key, as it stands in a header.
    pub(crate) fn sample(self) -> &'static str {
        match self {
            TableNaming::Address => "\":8443\"",
            TableNaming::Site => "\"example.com:8080\"",
            TableNaming::Path => "\"/api/*\"",
            TableNaming::Name => "app",
        }
    }
}

/// What the keys of a map are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapKeys {
    /// Names of fields of an answer.
    AnswerFields,
    /// Names of fields of a request.
    RequestFields,
    /// Statuses of errors, from 400 to 599.
    Errors,
    /// Endings of names with their dot, and paths of requests.
    FileTypes,
    /// Paths of requests, media types, `*`.
    Cached,
    /// Names of attributes of HTML.
    Attributes,
    /// Names of servers, as clients ask for them in TLS; `*.` in front stands for every name below
    /// one.
    Servers,
    /// Names of protocols, as in ALPN.
    Protocols,
}

impl MapKeys {
    /// Whether what stands by them are tables with keys of their own.
    pub(crate) fn lead(self) -> bool {
        matches!(self, MapKeys::Servers | MapKeys::Protocols)
    }

    /// What stands for the key in the name of what is in its table.
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
