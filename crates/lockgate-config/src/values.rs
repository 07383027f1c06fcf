//! Value languages, one file for each.
//!
//! They do not know which keys are written in them: see `keys`.

mod acme;
mod address;
mod address_source;
mod cache_policy;
mod certificate;
mod choice;
mod cures;
mod dns_provider;
mod duration;
mod export;
mod field;
mod file_mode;
mod host;
mod http_url;
mod list;
mod map;
mod media;
mod network;
mod number;
mod origin;
mod otlp;
mod path;
mod percent;
mod quantity;
mod rate;
mod rate_limit;
mod request_of_test;
mod served_path;
mod session_key;
mod size;
mod statuses;
mod table;
mod tables;
mod template;
mod text;
mod text_language;
mod tls;
mod tunnel_rule;
mod words;

pub(crate) use acme::{DirectoryName, MacKey, MailAddress};
pub(crate) use address::{
    BindAddress, Ip, PoolOrAddress, PoolOrEndpoint, SocketPath, UpstreamAddress,
};
pub(crate) use address_source::AddressSourceName;
pub(crate) use cache_policy::CachePolicy;
pub(crate) use certificate::CertificateFile;
pub(crate) use choice::{
    As, Either, False, Flag, OneOrMore, OrFlag, Short, ShortOrLong, Switch, Unless,
};
pub(crate) use dns_provider::{Credential, DnsProviderName};
pub(crate) use duration::{Age, Time};
pub(crate) use export::{
    AccessToken, InfluxAddress, MetricNames, NamePrefix, PushInterval, SinkAddress,
};
pub(crate) use field::RequestField;
pub(crate) use file_mode::FileMode;
pub(crate) use host::{HostName, SiteHost};
pub(crate) use http_url::PlainUrl;
pub(crate) use list::{Items, List, Listed};
pub(crate) use map::{Map, MapEntry, MapOf};
pub(crate) use media::{Media, MediaType, media_range};
pub(crate) use network::CidrNetwork;
pub(crate) use number::{OneOf, WholeNumber};
pub(crate) use origin::WebOrigin;
pub(crate) use otlp::{OtlpAddress, SecretFieldValue, TracePercent, TraceRatio, all_or_no_traces};
pub(crate) use path::{FilePath, FilePattern, FormattedLog, LOG_FORMATS, LogFile};
pub(crate) use percent::Percent;
pub(crate) use rate::ByteRate;
pub(crate) use rate_limit::{Burst, Frequency, LimitBy, LimitText, WrittenLimit};
pub(crate) use request_of_test::RequestOfTest;
pub(crate) use served_path::{FileName, InsidePath, TryPath};
pub(crate) use session_key::{HashBy, StickyBy, StickyKey};
pub(crate) use size::Size;
pub(crate) use statuses::{StatusRanges, statuses};
pub(crate) use table::TableOf;
pub(crate) use tables::{Keyed, TableName, Tables, is_table_name};
pub(crate) use template::{UrlPath, UrlTemplate};
pub(crate) use text::{Body, FieldValue, Identifier, MethodName, SingleLine, Token};
pub(crate) use text_language::{InvalidText, TextLanguage};
pub(crate) use tls::{GroupName, SuiteName, VersionName};
pub(crate) use tunnel_rule::TunnelTarget;
pub(crate) use words::Words;
