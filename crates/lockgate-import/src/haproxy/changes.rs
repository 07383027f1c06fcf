//! What rules have changed in the head of a request, so that later rules see something else than the
//! client has sent: Lockgate chooses routes by what the client has sent.

/// What earlier rules may have changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HaproxyChanges {
    pub(super) path: bool,
    pub(super) host: bool,
    /// The port that the client has connected to.
    pub(super) port: bool,
}

impl HaproxyChanges {
    /// Adds what a rule for requests may change. A rule that is left out counts too: without it the
    /// later ones see something else.
    pub(super) fn add(&mut self, words: &[String]) {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        match word(0) {
            "set-path" | "replace-path" | "set-pathq" | "replace-pathq" => self.path = true,
            "set-dst-port" => self.port = true,
            // The URI may have a host.
            "set-uri" | "replace-uri" | "reqrep" | "reqirep" => {
                (self.path, self.host) = (true, true);
            }
            "set-header" if keeps_host(word(2)) => {}
            "set-header" | "add-header" | "replace-header" | "replace-value" => {
                self.host |= word(1).eq_ignore_ascii_case("host");
            }
            // With `-m`, more than one name may be meant.
            "del-header" => self.host |= words.len() > 2 || word(1).eq_ignore_ascii_case("host"),
            "reqadd" | "reqdel" | "reqidel" => {
                let text = word(1).to_ascii_lowercase();
                let named = text.trim_start_matches('^').split(':').next();
                self.host |= named
                    .is_some_and(|name| name == "host" || name.contains(['.', '(', '[', '\\']));
            }
            _ => {}
        }
    }

    /// Whether a value is made of what has changed.
    pub(super) fn in_value(self, words: &[String]) -> bool {
        words.iter().any(|word| {
            let word = word.to_ascii_lowercase();
            self.path && word.contains("%[path") || self.host && word.contains("hdr(host")
        })
    }

    /// Whether a target of Lockgate is made of what has changed.
    pub(super) fn in_target(self, to: &str) -> bool {
        self.path && to.contains("{path}") || self.host && to.contains("{host}")
    }
}

/// Whether a value for `Host` is the one that the client has sent, in lower case or without the port.
fn keeps_host(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let Some(mut rest) = ["%[req.hdr(host)", "%[hdr(host)"]
        .iter()
        .find_map(|start| value.strip_prefix(start))
    else {
        return false;
    };
    while let Some(more) = [",lower", ",field(1,:)", ",host_only", ",word(1,:)"]
        .iter()
        .find_map(|converter| rest.strip_prefix(converter))
    {
        rest = more;
    }
    rest == "]"
}
