//! The stable codes of errors and warnings, in one table, which also gives the reference.

/// Whether a diagnostic stops the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Stops the start.
    Error,
    /// Lockgate starts, but not as the configuration reads.
    Warning,
}

macro_rules! codes {
    ($($name:ident $id:literal $meaning:literal;)*) => {
        /// The kind of a mistake. A code never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $meaning] $name,)* }

        impl Code {
            /// Every code, in the order of the reference.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// `E0012`, `W0003`: errors begin with E, warnings with W.
            pub fn id(self) -> &'static str {
                match self { $(Code::$name => $id,)* }
            }

            /// The meaning in one sentence, for the reference.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    Syntax "E0001" "The file is not valid TOML at this place, or is a configuration of another server.";
    Duplicate "E0002" "A key, or the path of a redirect, is written twice; both places are named.";
    FileUnreadable "E0003" "A configuration file, or a file of redirects, cannot be read, or is not UTF-8.";
    IncludedTwice "E0004" "A file is included twice, or includes itself.";
    UnknownKey "E0010" "No key has this name.";
    NotYet "E0011" "This version does not have the key or value; the message names an alternative.";
    WrongType "E0012" "The value has another type than the key: a number for a string, for example.";
    Unit "E0013" "A duration, a size, a rate or a share has no unit, or one that is not known.";
    OutOfRange "E0014" "A number, a duration or a size is too small or too large.";
    UnknownWord "E0015" "The key does not accept this word.";
    BadAddress "E0016" "The address of a listener, an endpoint or the metrics cannot be read.";
    BadNetwork "E0017" "A network (`10.0.0.0/8`) or client address cannot be read.";
    BadText "E0018" "A text or path is empty, too long or has characters that are not allowed.";
    Excluded "E0019" "Two keys that exclude each other stand in one table.";
    MissingKey "E0020" "The table lacks a key that it needs.";
    SameAddress "E0022" "Two tables cannot share an address: a `[tcp]` table and another, or plain HTTP and TLS; both places are named.";
    NoListener "E0023" "There is no `[site]`, `[tcp]` or `[tunnel]` table, so nothing would be served.";
    NoCertificate "E0024" "A TLS listener has no certificate.";
    NobodyTrusted "E0025" "`accept_proxy` is set, but `trusted` is empty.";
    NoVariable "E0026" "The environment variable in `${env:NAME}` is not set, or not UTF-8.";
    NoFile "E0027" "The file in `${file:PATH}` cannot be read, or is not UTF-8.";
    BadReference "E0028" "A `${env:` or `${file:` has no name or no closing brace.";
    NoSuite "E0029" "No cipher suite is left for one of the TLS versions.";
    NoName "E0030" "TLS to an upstream has no name to verify.";
    NothingToRotate "E0031" "`rotate` without a file to rotate.";
    OtherMax "E0032" "An endpoint has two different values of `max`; both places are named.";
    BadHost "E0033" "The key or an alias of a site is not a host, a port or both.";
    SameHost "E0034" "Two sites serve the same host on the same address; both places are named.";
    BadPath "E0035" "The key of a `path` table, or another path of a URL, cannot be read.";
    TwoVerbs "E0036" "A table has more than one of `proxy`, `root`, `redirect` and `respond`.";
    NoVerb "E0037" "A site or path has none of `proxy`, `root`, `redirect` and `respond`.";
    UnknownPool "E0038" "No `[pool.NAME]` has this name.";
    BadField "E0039" "The name or value of a field is not valid in a message, or the field must not be changed.";
    BadPlaceholder "E0040" "A placeholder has no value in this text, or is one of another server, such as `$host`.";
    BadLimit "E0041" "A rate limit, or its `per`, cannot be read.";
    Disagree "E0042" "Two tables on one address differ in a setting that applies before the host is known, or two access logs with one file differ in their settings.";
    SameEndpoint "E0043" "A pool has the same endpoint twice; both places are named.";
    WrongProtocol "E0044" "A protocol does not fit its connection: `h2` needs TLS, `h2c` is without TLS, and a `[tcp]` table has no protocol.";
    BadRedirect "E0045" "A line of a file of redirects cannot be read.";
    BadTunnelRule "E0046" "A rule of `allow` or `deny` in a `[tunnel]` table cannot be read.";
    NotCertified "E0047" "The authority of `[acme]` issues no certificate for a host, and the table has no other source of one.";
    NoState "E0048" "Certificates come by themselves, but `state = false` leaves them no folder.";
    IncludesNothing "W0001" "A pattern in `include` matches no file.";
    NoCertificateMatches "W0002" "A pattern in `certs` matches no file.";
    NoEffect "W0003" "The key is valid but nothing uses it.";
    LeftAsItIs "W0004" "A `${…}` that is neither `env:` nor `file:`, an unknown `{…}` or a placeholder of another server is kept as text.";
    UnusedPool "W0005" "Nothing uses the pool.";
    OpenProxy "W0006" "A proxy asks for no password and serves clients of every address.";
    MetadataReachable "W0007" "Tunnels may lead to the metadata service of a cloud, which gives away credentials.";
    PlainOnHttps "W0008" "A site speaks plain HTTP on port 443, where browsers expect TLS.";
    OnlyRoot "W0009" "A site responds to `/` only, not to the paths below it.";
    CertificateUnreadable "E0101" "A certificate file cannot be read, or holds no certificate.";
    KeyUnreadable "E0102" "A private key cannot be read, or there is none.";
    KeyMismatch "E0103" "The private key belongs to another certificate.";
    AuthorityUnreadable "E0104" "A file of authorities is missing, empty or not PEM.";
    TicketKeysUnreadable "E0105" "The file of ticket keys cannot be read or has the wrong form.";
    OcspUnreadable "E0106" "An OCSP response cannot be read.";
    AddressInUse "E0107" "Another process listens on this address.";
    AddressForbidden "E0108" "No permission to bind this address.";
    AddressUnavailable "E0109" "The address cannot be bound for another reason.";
    UnknownUser "E0110" "There is no such user, or no permission to become it.";
    StateUnwritable "E0111" "The state directory cannot be written.";
    LogUnwritable "E0112" "The log file cannot be opened.";
    TlsUnusable "E0113" "The certificates and the policy do not make a working TLS listener.";
    Ambiguous "E0114" "Some request would match two routes of a site, or two sites, and neither is more specific; both places are named.";
    UsersUnreadable "E0115" "A file of users cannot be read, names a user twice, or has a line without a user and a supported hash.";
    PageUnreadable "E0116" "An error page cannot be read, is too long, or its name has no known extension.";
    RootUnusable "E0117" "A `root` is not a folder.";
    UnknownGroup "E0118" "There is no such group, or no permission to give a file to it.";
    NoRoom "E0119" "A reload needs more descriptors or threads than the system has left.";
    TestFailed "E0120" "A `[[test]]` of the configuration fails: something else becomes of its request.";
    CertificateExpired "W0101" "A certificate has expired or is not valid yet.";
    CertificateExpiresSoon "W0102" "A certificate expires soon.";
    StateUnwritten "W0103" "The last good configuration could not be kept in `state`.";
    CertificateDoubtful "W0104" "A certificate or key works, but has a flaw, such as a missing intermediate or a key that every user can read.";
    UnreadableLater "W0105" "`user` cannot read a file that is read again when it changes.";
    Unreachable "W0106" "No request can reach the route or the site.";
    CertificateElsewhere "W0107" "No certificate of a site has one of its hosts, so clients refuse it or are refused.";
    RootMissing "W0108" "A `root` does not exist or cannot be read; until it can, its requests get errors.";
    NotExamined "W0109" "`check` or HUP had no permission for something that the start can use.";
    NeedsRestart "W0111" "A key has changed that takes effect with the next start only.";
    Unresolved "W0110" "A host name does not resolve now; its endpoint is not used until it does.";
    EndpointChangeEnded "W0112" "An endpoint that was added to a pool or removed while Lockgate ran is no longer: the configuration leaves it no place.";
    PasswordInClear "W0113" "`check`: clients send the passwords of `auth.basic` unencrypted over a network.";
    HalfGuarded "W0114" "`check`: a path has `allow`, `deny` or `auth`, and the same path with or without a slash at its end has not.";
    RedirectLoop "W0115" "`check`: a `redirect` leads to itself, perhaps over further ones.";
    CheckNeverPasses "W0116" "`check`: no endpoint can pass the check of its pool.";
    NoSuchMetric "W0117" "`check`: no metric has a name that begins like this in `only` or `except`.";
}

impl Code {
    /// Whether the mistake lies outside the configuration: in a file that it names, a user, an
    /// address.
    pub fn is_of_machine(self) -> bool {
        let meanings = [
            Code::TlsUnusable,
            Code::Ambiguous,
            Code::Unreachable,
            Code::CertificateElsewhere,
            Code::TestFailed,
            Code::PasswordInClear,
            Code::HalfGuarded,
            Code::RedirectLoop,
            Code::CheckNeverPasses,
            Code::NoSuchMetric,
        ];
        let id = self.id();
        (id.starts_with("E01") || id.starts_with("W01")) && !meanings.contains(&self)
    }

    /// The severity, by the first letter.
    pub fn severity(self) -> Severity {
        if self.id().starts_with('W') {
            Severity::Warning
        } else {
            Severity::Error
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_is_given_twice() {
        let mut ids: Vec<_> = Code::ALL.iter().map(|code| code.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), Code::ALL.len());
    }
}
