//! Options of a frontend and its backend that become keys of a site.

use super::Importer;
use super::acls::worse;
use super::plan::HaproxyPlan;
use super::words::{haproxy_time, lockgate_time};
use crate::{DraftValue, Verdict};

impl Importer<'_> {
    /// `option forwardfor`.
    pub(super) fn forwarded(&mut self, at: usize, backend: usize, plan: &mut HaproxyPlan) {
        for section in [at, backend] {
            let Some(line) = self.source.option(section, "forwardfor") else {
                continue;
            };
            let mut words = line.from(2).iter();
            let mut verdict = Verdict::Default;
            while let Some(word) = words.next() {
                match word.as_str() {
                    "except" => {
                        words.next();
                        verdict = worse(
                            verdict,
                            Verdict::differs(
                                "X-Forwarded-For is made anew for these clients too: name proxies that run there in `trusted`",
                            ),
                        );
                    }
                    "header" => {
                        let name = words.next().map_or("", String::as_str).to_ascii_lowercase();
                        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                            && !name.is_empty();
                        if name == "x-forwarded-for" {
                            continue;
                        }
                        if plain {
                            plan.request_headers.retain(|(known, _)| *known != name);
                            plan.request_headers.push((name, "{client}".into()));
                            verdict = worse(verdict, Verdict::Converted);
                        } else {
                            verdict =
                                Verdict::not_supported("this is not the name of a field", None);
                        }
                    }
                    "if-none" => {
                        verdict = worse(
                            verdict,
                            Verdict::differs(
                                "X-Forwarded-For of a client is kept only from `trusted` addresses",
                            ),
                        );
                    }
                    _ => verdict = Verdict::not_supported("this option is not known", None),
                }
            }
            self.report.set(line.id, verdict);
        }
    }

    /// `compression`.
    pub(super) fn compression(&mut self, at: usize, backend: usize, plan: &mut HaproxyPlan) {
        let source = self.source;
        let sections = if at == backend {
            vec![at]
        } else {
            vec![at, backend]
        };
        let mut codings = false;
        let mut keys = Vec::new();
        for section in sections {
            let lines: Vec<_> = source
                .lines(section)
                .into_iter()
                .filter(|l| l.is("compression"))
                .collect();
            let algo = lines
                .iter()
                .rev()
                .find(|line| matches!(line.word(1), "algo" | "algo-res"));
            let Some(algo) = algo.map(|line| line.id) else {
                continue;
            };
            codings = true;
            if !lines
                .iter()
                .any(|line| matches!(line.word(1), "type" | "type-res"))
            {
                self.report.set(
                    algo,
                    Verdict::differs("the media types of Lockgate's list are compressed, not all"),
                );
            }
            for line in lines {
                let verdict = match line.word(1) {
                    "algo" | "algo-res" if line.id == algo => {
                        if line.from(2).iter().any(|word| word == "gzip") {
                            keys.retain(|(key, _): &(String, DraftValue)| key != "codings");
                            keys.push(("codings".to_owned(), vec!["gzip"].into()));
                            Verdict::Converted
                        } else {
                            Verdict::differs("zstd, br and gzip are offered")
                        }
                    }
                    "type" | "type-res" => {
                        let types: Vec<String> = line
                            .from(2)
                            .iter()
                            .map(|kind| match kind.strip_suffix('/') {
                                Some(main) => format!("{main}/*"),
                                None => kind.to_ascii_lowercase(),
                            })
                            .collect();
                        let good = |kind: &String| {
                            kind.split_once('/').is_some_and(|(main, sub)| {
                                let token = |t: &str| {
                                    !t.is_empty()
                                        && t.bytes().all(|b| {
                                            b.is_ascii_alphanumeric() || b"-+._".contains(&b)
                                        })
                                };
                                token(main) && (sub == "*" || token(sub))
                            })
                        };
                        if types.iter().all(good) && !types.is_empty() {
                            keys.retain(|(key, _)| key != "types");
                            keys.push(("types".to_owned(), types.into()));
                            Verdict::Converted
                        } else {
                            Verdict::differs(
                                "some of these are not media types; Lockgate's own list is used",
                            )
                        }
                    }
                    "offload" => {
                        if !plan
                            .request_headers
                            .iter()
                            .any(|(name, _)| name == "accept-encoding")
                        {
                            plan.request_headers
                                .push(("accept-encoding".to_owned(), false.into()));
                        }
                        Verdict::Converted
                    }
                    "minsize-res" => match line.word(2).parse::<u64>() {
                        Ok(size) if size <= 1 << 30 => {
                            keys.retain(|(key, _)| key != "min");
                            keys.push(("min".to_owned(), format!("{size}B").into()));
                            Verdict::Converted
                        }
                        _ => Verdict::differs("responses from 1KB on are compressed"),
                    },
                    "direction" if line.word(2) == "response" => Verdict::Default,
                    _ => Verdict::not_supported("only responses are compressed", None),
                };
                self.report.set(line.id, verdict);
            }
        }
        if codings {
            plan.compress = Some(if keys.is_empty() {
                true.into()
            } else {
                DraftValue::Inline(keys)
            });
        }
    }

    /// `timeout server` and `connect` of the backend, where they are not those at the top.
    pub(super) fn site_timeouts(&mut self, at: usize, backend: usize, plan: &mut HaproxyPlan) {
        for (name, key, usual) in [
            ("timeout connect", "connect", 5000),
            ("timeout server", "response", 60_000),
            ("timeout tunnel", "tunnel_idle", 3_600_000),
        ] {
            let top = self.top_timeouts.get(key).copied().unwrap_or(usual);
            let Some(line) = self.source.setting(backend, name) else {
                // The time at the top is that of another `defaults`; here HAProxy has none.
                if top != usual {
                    let value = match key {
                        "response" => "off".to_owned(),
                        _ => lockgate_time(usual),
                    };
                    plan.timeouts.push((key.to_owned(), value.into()));
                }
                continue;
            };
            let Some(time) = haproxy_time(line.word(2)) else {
                self.report
                    .set(line.id, Verdict::not_supported("this is not a time", None));
                continue;
            };
            self.report.set(line.id, Verdict::Converted);
            if key == "response" && time > 0 {
                self.notes.insert(super::notes::PAUSES);
            }
            if time != top && time > 0 {
                plan.timeouts
                    .push((key.to_owned(), lockgate_time(time).into()));
            }
        }
        if let Some(line) = self.source.setting(at, "timeout client") {
            self.report.set(line.id, Verdict::differs(
                "a client that reads or sends too slowly is disconnected by its rate (rates), not by a time",
            ));
        }
        for name in ["timeout http-request", "timeout http-keep-alive"] {
            if let Some(line) = self.source.setting(at, name) {
                let known = self.top_lines.contains(&line.id);
                self.report.set(
                    line.id,
                    if known {
                        Verdict::Converted
                    } else {
                        Verdict::differs(
                            "this time is one for all listeners: that of the first section",
                        )
                    },
                );
            }
        }
    }
}
