//! Values that other servers have words for, where a key takes one of ours.

/// Words of other servers for ours; each row also has another word of the same key.
const OTHER_WORDS: WordTable = &[
    (
        "http1",
        &["h1", "http", "http/1.1", "http1.1", "http/1", "http11"],
        "http1",
    ),
    (
        "http1",
        &["http2", "http/2", "http/2.0", "https", "grpcs"],
        "h2",
    ),
    ("http1", &["grpc", "h2c-prior-knowledge"], "h2c"),
    (
        "p2c",
        &[
            "random",
            "random_two",
            "two-random-choices",
            "random(2)",
            "ewma",
            "peak_ewma",
        ],
        "p2c",
    ),
    (
        "p2c",
        &[
            "leastconn",
            "least_conn",
            "least-conn",
            "least_request",
            "least_connections",
        ],
        "least",
    ),
    (
        "p2c",
        &[
            "roundrobin",
            "round_robin",
            "static-rr",
            "rr",
            "wrr",
            "weighted_round_robin",
        ],
        "round-robin",
    ),
    (
        "intermediate",
        &["strict", "strong", "tls1.3", "1.3", "high", "secure"],
        "modern",
    ),
    (
        "intermediate",
        &["old", "compat", "compatible", "legacy", "default", "medium"],
        "intermediate",
    ),
    (
        "request",
        &["optional", "want", "verify_if_given", "optional_no_ca"],
        "request",
    ),
    (
        "request",
        &[
            "required",
            "on",
            "mandatory",
            "verify",
            "require_and_verify",
            "need",
        ],
        "require",
    ),
    (
        "rsa2048",
        &[
            "ecdsa",
            "ec",
            "ecc",
            "ec256",
            "ecdsa-p256",
            "ecdsa256",
            "p-256",
            "p384",
            "ec384",
            "prime256v1",
            "secp256r1",
            "ed25519",
        ],
        "p256",
    ),
    (
        "rsa2048",
        &["rsa", "rsa-2048", "2048", "rsa4096", "rsa-4096", "4096"],
        "rsa2048",
    ),
    (
        "acme",
        &["letsencrypt", "lets-encrypt", "le", "auto"],
        "acme",
    ),
    (
        "internal",
        &["self", "self-signed", "selfsigned", "local", "own"],
        "internal",
    ),
    ("auto", &["max", "all", "cpu", "cpus", "cores"], "auto"),
    ("debug", &["warning"], "warn"),
    ("debug", &["notice"], "info"),
    ("debug", &["trace"], "debug"),
    (
        "debug",
        &["crit", "critical", "err", "fatal", "emerg", "alert"],
        "error",
    ),
];

/// Words of other servers for tables; each row also has another word of the same key.
const TABLES: WordTable = &[
    (
        "p2c",
        &[
            "ip_hash",
            "ip-hash",
            "source",
            "hash",
            "client",
            "client_ip",
            "consistent",
            "maglev",
            "ring_hash",
        ],
        "write balance = { hash = \"client\" }",
    ),
    (
        "p2c",
        &["sticky", "cookie", "session", "stick", "persistent"],
        "write balance = { sticky = \"cookie:lg\" }",
    ),
];

/// Words for features of a later version, each with another word of the same key and an
/// alternative.
const LATER_WORDS: WordTable = &[(
    "http1",
    &["h3", "quic", "http3", "http/3"],
    "write \"h2\", or \"h2c\" without TLS",
)];

/// Rows of a word of the same key, words of other servers, and the cure.
type WordTable = &'static [(&'static str, &'static [&'static str], &'static str)];

/// The cure for a word of another server that is a table here; `known` are the words of the key.
pub(crate) fn table_for(known: &[&str], word: &str) -> Option<&'static str> {
    find(TABLES, known, word)
}

/// The alternative for a word of a later version; `known` are the words of the key.
pub(crate) fn later_word(known: &[&str], word: &str) -> Option<&'static str> {
    find(LATER_WORDS, known, word)
}

/// The word among `known` for what others call `word`.
pub(crate) fn other_word(known: &[&str], word: &str) -> Option<&'static str> {
    find(OTHER_WORDS, known, &word.to_ascii_lowercase())
}

fn find(table: WordTable, known: &[&str], word: &str) -> Option<&'static str> {
    let mut rows = table.iter();
    let found = rows.find(|(beside, words, _)| known.contains(beside) && words.contains(&word));
    found.map(|(_, _, cure)| *cure)
}

/// The cure for a word that stands for certificates in place of the path of one.
pub(crate) fn certificate_word(word: &str) -> Option<&'static str> {
    match &*word.to_ascii_lowercase() {
        "auto" | "acme" | "letsencrypt" | "lets-encrypt" | "zerossl" => {
            Some("add [acme], and remove it; where the key has a port, write tls = {}")
        }
        "self" | "self-signed" | "selfsigned" | "self_signed" | "local" | "adhoc" => {
            Some("write tls = \"internal\", for certificates of Lockgate's own authority")
        }
        // Sites and entries of `sni` take it as a word.
        "internal" => Some(
            "write it in a [site], or in an entry of sni: sni.\"mail.example.com\" = { proxy = \"10.0.0.5:25\", tls = \"internal\" }; only those have names",
        ),
        _ => None,
    }
}

/// The prefix of an address that names a provider of a later version, and the alternative.
pub(crate) fn later_provider(address: &str) -> Option<(&str, &'static str)> {
    const PROVIDERS: [&str; 8] = [
        "docker",
        "consul",
        "kubernetes",
        "k8s",
        "nomad",
        "swarm",
        "etcd",
        "ecs",
    ];
    let (provider, _) = address.split_once(':')?;
    let cure = "write the addresses, or \"srv:_app._tcp.service.consul\": SRV records are followed as they change";
    PROVIDERS.contains(&provider).then_some((provider, cure))
}
