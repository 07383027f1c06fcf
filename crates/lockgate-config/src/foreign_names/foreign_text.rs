//! Files of other servers, recognised by their lines, and the same in our language.
//!
//! Looks at lines only: a text that is mostly TOML is never taken for another language.

use std::ops::Range;

use crate::host::SiteKey;
use crate::model::EndpointAddr;

/// A text in another language.
#[derive(Debug)]
pub(crate) struct ForeignText {
    /// The language, with its article.
    pub(crate) name: &'static str,
    /// The line that gave it away.
    pub(crate) span: Range<usize>,
    /// An equivalent in TOML.
    pub(crate) example: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForeignLanguage {
    Nginx,
    Haproxy,
    Caddy,
    Apache,
    Json,
    Yaml,
}

/// More lines are not looked at.
const LINES: usize = 500;

/// The language of a text that is not TOML, if it is known.
pub(crate) fn recognise(text: &str) -> Option<ForeignText> {
    let lines: Vec<ForeignLine<'_>> = lines(text).collect();
    let toml = lines.iter().filter(|line| line.is_toml()).count();
    if toml * 4 > lines.len() {
        return None;
    }
    let told = || lines.iter().find_map(|line| Some((line.language()?, line)));
    let (language, line) = json(text, &lines).or_else(told).or_else(|| yaml(&lines))?;
    let end = line.start + line.text.len();
    Some(ForeignText {
        name: language.name(),
        span: line.start..end,
        example: example(language, &lines),
    })
}

impl ForeignLanguage {
    fn name(self) -> &'static str {
        match self {
            ForeignLanguage::Nginx => "an nginx configuration",
            ForeignLanguage::Haproxy => "an HAProxy configuration",
            ForeignLanguage::Caddy => "a Caddyfile",
            ForeignLanguage::Apache => "an Apache configuration",
            ForeignLanguage::Json => "JSON",
            ForeignLanguage::Yaml => "YAML",
        }
    }

    /// The words before a host and before an address that is proxied to.
    fn words(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            ForeignLanguage::Nginx => (&["server_name"], &["proxy_pass", "server"]),
            ForeignLanguage::Haproxy => (&[], &["server"]),
            ForeignLanguage::Caddy => (&[], &["reverse_proxy"]),
            ForeignLanguage::Apache => (&["ServerName"], &["ProxyPass"]),
            ForeignLanguage::Json => (
                &["\"host\":", "\"server_name\":"],
                &["\"dial\":", "\"url\":"],
            ),
            ForeignLanguage::Yaml => (&["host:", "- host:"], &["url:", "- url:", "- address:"]),
        }
    }
}

/// A line that is neither empty nor a comment, without the space around it.
struct ForeignLine<'a> {
    start: usize,
    text: &'a str,
}

fn lines(text: &str) -> impl Iterator<Item = ForeignLine<'_>> {
    let mut next = 0;
    let lines = text.split('\n').map(move |line| {
        let start = next + (line.len() - line.trim_start().len());
        next += line.len() + 1;
        ForeignLine {
            start,
            text: line.trim(),
        }
    });
    lines
        .filter(|line| !line.text.is_empty() && !line.text.starts_with('#'))
        .take(LINES)
}

impl ForeignLine<'_> {
    /// A header, or a key and its value.
    fn is_toml(&self) -> bool {
        let key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'');
        let header = self.text.starts_with('[') && self.text.ends_with(']') && self.text.len() > 2;
        let pair = self.text.split_once('=').is_some_and(|(before, _)| {
            let before = before.trim_end();
            !before.is_empty() && (before.starts_with('"') || before.chars().all(key))
        });
        (header && !self.text.contains(": ")) || pair
    }

    /// The language that this line alone gives away.
    fn language(&self) -> Option<ForeignLanguage> {
        match () {
            () if self.is_apache() => Some(ForeignLanguage::Apache),
            () if self.is_nginx() => Some(ForeignLanguage::Nginx),
            () if self.is_haproxy() => Some(ForeignLanguage::Haproxy),
            () if self.is_caddy() => Some(ForeignLanguage::Caddy),
            () => None,
        }
    }

    fn word(&self) -> &str {
        self.text
            .split_ascii_whitespace()
            .next()
            .unwrap_or_default()
    }

    fn has_words(&self) -> bool {
        self.text.contains(char::is_whitespace)
    }

    fn is_apache(&self) -> bool {
        const SECTIONS: &str = "VirtualHost Directory DirectoryMatch Location LocationMatch IfModule IfDefine Files Proxy";
        const WORDS: &str = "ServerName ServerAlias DocumentRoot ProxyPass ProxyPassReverse RewriteRule RewriteEngine SSLEngine LoadModule";
        let section = self.text.strip_prefix('<').is_some_and(|rest| {
            let name = rest.split([' ', '>']).next().unwrap_or_default();
            is_one_of(name, SECTIONS)
        });
        section || is_one_of(self.word(), WORDS) && self.has_words()
    }

    fn is_nginx(&self) -> bool {
        const BLOCKS: &str = "server http events stream location upstream map geo types mail if";
        const WORDS: &str = "listen server_name proxy_pass root index server worker_processes worker_connections user include \
             return rewrite ssl_certificate ssl_certificate_key proxy_set_header add_header try_files error_log access_log \
             gzip fastcgi_pass load_module pid";
        let block =
            self.text.ends_with('{') && is_one_of(self.word().trim_end_matches('{'), BLOCKS);
        block || self.text.ends_with(';') && self.has_words() && is_one_of(self.word(), WORDS)
    }

    fn is_haproxy(&self) -> bool {
        const SECTIONS: &str = "frontend backend listen userlist resolvers peers crt-store";
        const WORDS: &str = "bind default_backend use_backend http-request http-response tcp-request balance maxconn mode option acl";
        const TIMEOUTS: &str =
            "connect client server tunnel check queue http-request http-keep-alive";
        if self.text.contains(['{', ';', '=']) && !self.text.contains("{ ") {
            return false;
        }
        let mut words = self.text.split_ascii_whitespace();
        match (words.next().unwrap_or_default(), words.next()) {
            ("global" | "defaults", None) => true,
            ("timeout", Some(which)) => is_one_of(which, TIMEOUTS),
            ("server", Some(_)) => words
                .next()
                .is_some_and(|addr| addr.contains(':') || addr.contains('@')),
            (word, Some(_)) => is_one_of(word, SECTIONS) || is_one_of(word, WORDS),
            _ => false,
        }
    }

    fn is_caddy(&self) -> bool {
        const WORDS: &str = "reverse_proxy file_server handle handle_path php_fastcgi encode basic_auth basicauth root \
             redir respond import header tls try_files layer4";
        let site = self
            .text
            .strip_suffix('{')
            .map(str::trim_end)
            .is_some_and(|before| {
                let sites = before
                    .split(',')
                    .map(|site| site.trim().trim_start_matches("https://"));
                !before.is_empty() && sites.clone().all(is_host)
                    || before.starts_with('(') && before.ends_with(')')
            });
        let directive = is_one_of(self.word(), WORDS) && !self.text.contains('=');
        site || directive && (self.has_words() || self.text == "file_server")
    }

    /// `key:`, `key: value` or `- item`.
    fn is_yaml(&self) -> bool {
        let item = self.text.strip_prefix("- ").unwrap_or(self.text);
        let key =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '"' | '\'');
        let pair = item.split_once(':').is_some_and(|(key_text, value)| {
            !key_text.is_empty()
                && key_text.chars().all(key)
                && (value.is_empty() || value.starts_with(' '))
        });
        pair || self.text.starts_with("- ") || self.text == "---"
    }
}

fn is_one_of(word: &str, words: &str) -> bool {
    words.split_ascii_whitespace().any(|one| one == word)
}

fn is_host(text: &str) -> bool {
    text.contains(['.', ':']) && SiteKey::parse(text).is_ok()
}

/// An object or an array of objects.
fn json<'a, 'b>(
    text: &str,
    lines: &'b [ForeignLine<'a>],
) -> Option<(ForeignLanguage, &'b ForeignLine<'a>)> {
    let bare = text.trim_start_matches('\u{feff}').trim_start();
    let object = |text: &str| {
        let inner = text.strip_prefix('{').map(str::trim_start);
        inner.is_some_and(|inner| inner.starts_with(['"', '}']))
    };
    let array = bare
        .strip_prefix('[')
        .map(str::trim_start)
        .is_some_and(object);
    let first = lines.first().filter(|_| object(bare) || array)?;
    Some((ForeignLanguage::Json, first))
}

/// Nearly every line must be of YAML: one of them may be a slip.
fn yaml<'a, 'b>(lines: &'b [ForeignLine<'a>]) -> Option<(ForeignLanguage, &'b ForeignLine<'a>)> {
    let of_yaml = lines.iter().filter(|line| line.is_yaml()).count();
    let all = lines.len() >= 2
        && of_yaml * 5 >= lines.len() * 4
        && !lines.iter().any(ForeignLine::is_toml);
    lines
        .first()
        .filter(|_| all)
        .map(|first| (ForeignLanguage::Yaml, first))
}

/// Three lines of TOML, with the first host and address of the text where they can be read.
fn example(language: ForeignLanguage, lines: &[ForeignLine<'_>]) -> String {
    let (hosts, addresses) = language.words();
    let host = lines.iter().find_map(|line| {
        let named = after(line, hosts).and_then(|mut words| words.find(|word| is_host(word)));
        let rule = || {
            line.text
                .split_once("Host(`")?
                .1
                .split('`')
                .next()
                .filter(|host| is_host(host))
        };
        let site = || {
            line.text
                .split([' ', ','])
                .next()
                .filter(|_| language == ForeignLanguage::Caddy)
                .filter(|site| is_host(site))
        };
        let site = || site().filter(|site| !site.starts_with(':'));
        named.or_else(rule).or_else(site).map(str::to_owned)
    });
    let address = lines
        .iter()
        .find_map(|line| after(line, addresses)?.find_map(address));
    let host = host.unwrap_or_else(|| "app.example.com".to_owned());
    let address = address.unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    format!(
        "[site.\"{host}\"]\ntls = {{ cert = \"/etc/tls/app.pem\", key = \"/etc/tls/app.key\" }}\nproxy = \"{address}\""
    )
}

/// The words after one of `first` anywhere in the line, without quotes and brackets.
fn after<'a>(
    line: &ForeignLine<'a>,
    first: &[&str],
) -> Option<impl Iterator<Item = &'a str> + use<'a>> {
    let rest = first.iter().find_map(|first| {
        let (before, rest) = line.text.split_once(first)?;
        let word = before.is_empty() || before.ends_with(' ');
        (word && rest.starts_with(' ')).then_some(rest)
    })?;
    Some(
        rest.split_ascii_whitespace()
            .map(|word| word.trim_matches([';', '"', '\'', ',', '{', '}'])),
    )
}

/// The address of an endpoint in a URL or alone.
fn address(word: &str) -> Option<String> {
    let bare = word
        .split_once("://")
        .map_or(word, |(_, rest)| rest)
        .trim_end_matches('/');
    let unix = bare
        .strip_prefix("unix/")
        .or_else(|| bare.strip_prefix("unix@"))
        .map(|path| format!("unix:{path}"));
    let addr = unix.unwrap_or_else(|| bare.to_owned());
    EndpointAddr::parse(&addr).is_ok().then_some(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Option<&'static str> {
        recognise(text).map(|found| found.name)
    }

    #[test]
    fn languages_are_known_by_one_line() {
        for (text, expected) in [
            ("server {\n  listen 80;\n}\n", "an nginx configuration"),
            ("events {}\nhttp {\n}\n", "an nginx configuration"),
            ("# x\nworker_processes auto;\n", "an nginx configuration"),
            (
                "location / {\n  proxy_pass http://a:1;\n}\n",
                "an nginx configuration",
            ),
            ("global\n  daemon\n", "an HAProxy configuration"),
            (
                "frontend web\n  bind :80\n  default_backend app\n",
                "an HAProxy configuration",
            ),
            (
                "backend app\n  server s1 10.0.0.1:80 check\n",
                "an HAProxy configuration",
            ),
            (
                "example.com {\n  reverse_proxy localhost:3000\n}\n",
                "a Caddyfile",
            ),
            (":2015\nfile_server\n", "a Caddyfile"),
            (
                "a.example.com, b.example.com {\n  encode zstd gzip\n}\n",
                "a Caddyfile",
            ),
            (
                "{\n  email me@example.com\n}\nexample.com {\n}\n",
                "a Caddyfile",
            ),
            (
                "<VirtualHost *:80>\n  ServerName a.b\n</VirtualHost>\n",
                "an Apache configuration",
            ),
            (
                "ProxyPass / http://127.0.0.1:3000/\n",
                "an Apache configuration",
            ),
            ("{\n  \"apps\": {}\n}\n", "JSON"),
            ("{}", "JSON"),
            ("[\n  { \"a\": 1 }\n]", "JSON"),
            ("entryPoints:\n  web:\n    address: \":80\"\n", "YAML"),
            ("---\nservices:\n  - a\n", "YAML"),
        ] {
            assert_eq!(name(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn toml_with_a_slip_is_no_other_language() {
        for text in [
            "",
            "workers = \n",
            "[site.\":1\"]\nproxy: \"a.b:1\"\n",
            "[site.\":1\"]\nproxy = \"a.b:1\";\nroot /srv;\n",
            "[site.\":1\"]\nheaders = { a = \"server {\" }\nproxy \"a.b:1\"\n",
            "site \":8080\" {\nproxy = \"127.0.0.1:3000\"\n}\n",
            "banana\n",
            "{ x = 1 }\n",
        ] {
            assert_eq!(name(text), None, "{text}");
        }
    }

    #[test]
    fn the_example_has_the_host_and_the_address_of_the_file() {
        for (text, host, address) in [
            (
                "server {\n server_name shop.test;\n location / {\n  proxy_pass http://10.0.0.1:81/;\n }\n}\n",
                "shop.test",
                "10.0.0.1:81",
            ),
            (
                "frontend web\nbackend app\n server s1 10.0.0.2:82 check\n",
                "app.example.com",
                "10.0.0.2:82",
            ),
            (
                "server {\n location / { proxy_pass http://10.0.0.5:85; }\n}\n",
                "app.example.com",
                "10.0.0.5:85",
            ),
            (
                "shop.test {\n tls /a.pem /a.key\n reverse_proxy unix//run/app.sock\n}\n",
                "shop.test",
                "unix:/run/app.sock",
            ),
            (
                "<VirtualHost *:80>\nServerName shop.test\nProxyPass / http://10.0.0.3:83/\n",
                "shop.test",
                "10.0.0.3:83",
            ),
            (
                "http:\n routers:\n  a:\n   rule: Host(`shop.test`)\n  b:\n   - url: http://10.0.0.4:84\n",
                "shop.test",
                "10.0.0.4:84",
            ),
            ("{\"apps\": 1}", "app.example.com", "127.0.0.1:3000"),
        ] {
            let example = recognise(text).unwrap().example;
            assert!(
                example.starts_with(&format!("[site.\"{host}\"]\n")),
                "{example}"
            );
            assert!(
                example.ends_with(&format!("proxy = \"{address}\"")),
                "{example}"
            );
        }
    }
}
