//! What values may be, in words.

use crate::keys::{By, Kind, Names};

use super::http::statuses_such_as;
use super::places::FEW;

pub(super) fn quoted(words: &[&str]) -> String {
    words
        .iter()
        .map(|word| format!("\"{word}\""))
        .collect::<Vec<_>>()
        .join(" or ")
}

pub(super) fn one_of(numbers: &[u64]) -> String {
    numbers
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What a value may be, as one phrase.
pub(crate) fn expected(kind: &Kind) -> String {
    match kind {
        Kind::False => "false".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Integer {
            min,
            max: 1_000_000_000,
        } => format!("a number from {min}"),
        Kind::Integer { min, max } => format!("a number from {min} to {max}"),
        Kind::Duration { .. } => "a duration such as \"10s\"".to_owned(),
        Kind::Size { .. } => "a size such as \"100MB\"".to_owned(),
        Kind::Word(words) => quoted(words),
        Kind::Name => "a name".to_owned(),
        Kind::Host => "a host name".to_owned(),
        Kind::Path => "a path".to_owned(),
        Kind::Pattern => "a path or pattern".to_owned(),
        Kind::LogFile => "the path of a file".to_owned(),
        Kind::FormattedLog => "the path of a file".to_owned(),
        Kind::Listener => "an address to listen on".to_owned(),
        Kind::Endpoint => "an address".to_owned(),
        Kind::Target => "an address or \"pool:NAME\"".to_owned(),
        Kind::Ip => "an IP address".to_owned(),
        Kind::SiteHost => "a host".to_owned(),
        Kind::Rate => "a rate such as \"10KB/s\"".to_owned(),
        Kind::Percent => "a share such as \"20%\"".to_owned(),
        Kind::Frequency => "a rate such as \"20/s\"".to_owned(),
        Kind::Allowance => "a rate such as \"20/s burst 200\"".to_owned(),
        Kind::Limit => "a limit such as \"20/s per client burst 40\"".to_owned(),
        Kind::LimitKey => "\"client\", \"route\" or \"header:NAME\"".to_owned(),
        Kind::HashKey => "\"client\", \"sni\", \"header:NAME\" or \"cookie:NAME\"".to_owned(),
        Kind::StickyKey => "\"cookie:NAME\" or \"tls-session\"".to_owned(),
        Kind::Statuses { from } => format!("statuses such as {}", statuses_such_as(*from)),
        Kind::OneOf(numbers) => format!("one of {}", one_of(numbers)),
        Kind::UrlPath => "the path of a URL".to_owned(),
        Kind::Method => "a method".to_owned(),
        Kind::Line | Kind::Body | Kind::FieldValue => "a text".to_owned(),
        Kind::Template => "a path or URL with placeholders".to_owned(),
        Kind::FileName => "the name of a file".to_owned(),
        Kind::InsidePath => "the path of a file in `root`".to_owned(),
        Kind::TryPath => "a path to look for in `root`".to_owned(),
        Kind::MediaType => "a media type such as \"text/html\"".to_owned(),
        Kind::CachePolicy => "a time such as \"1h\", \"no-cache\" or \"no-store\"".to_owned(),
        Kind::Age => "a time such as \"30d\" or \"1y\"".to_owned(),
        Kind::MediaRange => "a media type such as \"text/html\" or \"text/*\"".to_owned(),
        Kind::HttpUrl => "a URL such as \"http://127.0.0.1:9000/motd\"".to_owned(),
        Kind::Origin => "an origin such as \"https://app.example.com\"".to_owned(),
        Kind::Token => "a word such as \"utf-8\"".to_owned(),
        Kind::RequestField => "the name of a field such as \"remote-user\"".to_owned(),
        Kind::TunnelRule => {
            "a target such as \"*.example.com:443\" or \"10.1.0.0/16:22\"".to_owned()
        }
        Kind::Network => "a network such as \"10.0.0.0/8\"".to_owned(),
        Kind::Version => "\"1.2\" or \"1.3\"".to_owned(),
        Kind::Suite => "a cipher suite".to_owned(),
        Kind::Group => "a key exchange group".to_owned(),
        Kind::List { of, .. } => format!("a list of which each is {}", expected(of)),
        Kind::Table(keys) => {
            let names: Vec<_> = keys.iter().map(|key| key.name).take(FEW).collect();
            let more = if keys.len() > FEW { " and more" } else { "" };
            format!("a table of {}{more}", names.join(", "))
        }
        Kind::Tables(By::Address, _) => "a table for each address".to_owned(),
        Kind::Tables(By::Site, _) => "a table for each host".to_owned(),
        Kind::Tables(By::Path, _) => "a table for each path".to_owned(),
        Kind::Tables(By::Name, _) => "a table for each name".to_owned(),
        Kind::Map(Names::Errors, of, _) => {
            format!("a table of statuses, each with {}", expected(of))
        }
        Kind::Map(Names::Attributes, of, _) => {
            format!("a table of attributes, each with {}", expected(of))
        }
        Kind::Map(Names::Cached, of, _) => {
            format!(
                "a table of paths and media types, each with {}",
                expected(of)
            )
        }
        Kind::Map(Names::FileTypes, of, _) => {
            format!("a table of endings and paths, each with {}", expected(of))
        }
        Kind::Map(Names::Servers, of, _) => {
            format!("a table of names of servers, each with {}", expected(of))
        }
        Kind::Map(Names::Protocols, of, _) => {
            format!("a table of protocols, each with {}", expected(of))
        }
        Kind::Map(_, of, _) => format!("a table of names of fields, each with {}", expected(of)),
        Kind::Either(kinds) => kinds.iter().map(expected).collect::<Vec<_>>().join(", or "),
    }
}

pub(super) fn keys_sentence(kind: &Kind) -> String {
    format!("at least one entry: {}", expected(kind))
}
