//! Metrics that are pushed: `[export]`.

use std::collections::HashSet;

use lockgate_rules::{GraphiteNaming, MetricFilter};

use crate::keys::export::{self as keys, Sinks, graphite, influx, otlp, statsd};
use crate::keys::top;
use crate::keys::{ConfigKey, Defaulted, Optional};
use crate::model::{
    AuthoritySource, Export, ExportForm, ExportSink, InfluxTarget, OtlpTarget, TraceExport,
    UrlScheme,
};
use crate::table::MayBeTable;
use crate::values::ShortOrLong;

use super::{Resolver, View};

impl Resolver<'_> {
    /// What the configuration pushes.
    pub(super) fn export(&mut self) -> Export {
        let table = self.top().section(&top::EXPORT);
        let (only, except) = (table.items(&keys::ONLY), table.items(&keys::EXCEPT));
        let beginnings = only.placed().chain(except.placed());
        let mut export = Export {
            beginnings: beginnings
                .map(|(beginning, at)| (beginning.clone(), at.clone()))
                .collect(),
            filter: MetricFilter {
                only: only.values().cloned().collect(),
                except: except.values().cloned().collect(),
            },
            ..Export::default()
        };
        for (short, view) in each(&table, &keys::GRAPHITE) {
            let Some(to) = short.or_else(|| view.get(&graphite::ADDRESS)) else {
                continue;
            };
            let naming = match view.get(&graphite::TAGS) {
                true => GraphiteNaming::Tags,
                false => GraphiteNaming::Path,
            };
            export.sinks.push(ExportSink {
                name: format!("graphite:{to}"),
                every: view.get(&keys::EVERY),
                form: ExportForm::Graphite {
                    to,
                    protocol: view.get(&graphite::PROTOCOL),
                    naming,
                    prefix: view.get(&keys::PREFIX),
                },
            });
        }
        for (short, view) in each(&table, &keys::STATSD) {
            let Some(to) = short.or_else(|| view.get(&statsd::ADDRESS)) else {
                continue;
            };
            export.sinks.push(ExportSink {
                name: format!("statsd:{to}"),
                every: view.get(&keys::EVERY),
                form: ExportForm::Statsd {
                    to,
                    tags: view.get(&statsd::TAGS),
                    prefix: view.get(&keys::PREFIX),
                },
            });
        }
        for (short, view) in each(&table, &keys::INFLUX) {
            let Some(target) = short.or_else(|| view.get(&influx::URL)) else {
                continue;
            };
            let sink = self.influx(target, &view);
            let at = view.value_at(influx::CA.row());
            let at = at.or_else(|| table.key_at(&keys::INFLUX));
            let authorities = sink.form.authorities().cloned();
            export.authorities.extend(authorities.zip(at.cloned()));
            export.sinks.push(sink);
        }
        self.otlp(&table, &mut export);
        name_apart(&mut export.sinks);
        self.unused_of_export(&table, &export.sinks);
        export
    }

    /// Adds the sink of OpenTelemetry's protocol, for figures, spans or both.
    fn otlp(&mut self, table: &View<'_>, export: &mut Export) {
        let Some(written) = table.written(&keys::OTLP) else {
            return;
        };
        let (short, view) = match written.value.short() {
            Some(url) => (Some(url.clone()), table.clone()),
            None => {
                let long = written.value.table().map(View::of).unwrap_or_default();
                (None, long.over(table.clone()))
            }
        };
        // The table of `[export]` has none of the keys but `every`.
        let Some(url) = short.or_else(|| view.get(&otlp::URL)) else {
            return;
        };
        let fields = view.entries(&otlp::HEADERS).filter_map(|one| {
            let name = one.name.to_ascii_lowercase();
            Some((name, one.value.clone()?))
        });
        let to = OtlpTarget {
            fields: fields.collect(),
            ca: view.get(&otlp::CA),
            compression: view.get(&otlp::COMPRESSION),
            service: view.get(&otlp::SERVICE),
            url,
        };
        match to.authorities() {
            None => self.useless_ca(&view, &otlp::CA),
            Some(authorities) => {
                let at = view.value_at(otlp::CA.row()).unwrap_or(written.at);
                export.authorities.push((authorities.clone(), at.clone()));
            }
        }
        let name = format!("otlp:{}", to.url.addr);
        let (metrics, share) = (view.get(&otlp::METRICS), view.get(&otlp::TRACES));
        if metrics {
            export.sinks.push(ExportSink {
                name: name.clone(),
                every: view.get(&keys::EVERY),
                form: ExportForm::Otlp(to.clone()),
            });
        } else if share.is_none() {
            let why = "it gets neither metrics nor traces";
            self.no_effect("otlp", written.at, why, "remove it, or one `false`");
        }
        export.traces = share.map(|share| TraceExport { name, to, share });
    }

    fn influx(&mut self, mut target: InfluxTarget, view: &View<'_>) -> ExportSink {
        let token = view.get(&influx::TOKEN);
        let is_secure = match &mut target {
            InfluxTarget::Http(url) => {
                url.token = token;
                url.ca = view.get(&influx::CA);
                url.scheme == UrlScheme::Https
            }
            InfluxTarget::Udp(_) | InfluxTarget::Tcp(_) => {
                if let Some(at) = view.key_at(&influx::TOKEN) {
                    let why = "only requests have a field for it";
                    self.no_effect("token", at, why, "write an `https://` URL, or remove it");
                }
                false
            }
        };
        if !is_secure {
            self.useless_ca(view, &influx::CA);
        }
        let to = match &target {
            InfluxTarget::Http(url) => &url.addr,
            InfluxTarget::Udp(to) | InfluxTarget::Tcp(to) => to,
        };
        ExportSink {
            name: format!("influx:{to}"),
            every: view.get(&keys::EVERY),
            form: ExportForm::Influx(target),
        }
    }

    /// Warns of the authorities of a sink that is not reached over TLS, if they are written.
    fn useless_ca(&mut self, view: &View<'_>, key: &Defaulted<AuthoritySource>) {
        if let Some(at) = view.key_at(key) {
            let why = "only the server of an `https` URL has a certificate";
            self.no_effect("ca", at, why, "write an `https://` URL, or remove it");
        }
    }

    /// Warns of a table that pushes nothing, and of a prefix that no name begins with.
    fn unused_of_export(&mut self, table: &View<'_>, sinks: &[ExportSink]) {
        if self.report.has_errors() {
            return;
        }
        let is_empty = sinks.is_empty() && table.key_at(&keys::OTLP).is_none();
        let (Some(at), true) = (self.top().key_at(&top::EXPORT), is_empty) else {
            let has_names = |sink: &ExportSink| {
                let form = &sink.form;
                matches!(
                    form,
                    ExportForm::Graphite { .. } | ExportForm::Statsd { .. }
                )
            };
            if let Some(at) = table.key_at(&keys::PREFIX)
                && !sinks.iter().any(has_names)
            {
                let why = "only names in Graphite and statsd have one";
                self.no_effect("prefix", at, why, "remove it");
            }
            return;
        };
        let cure =
            "write graphite = \"10.0.0.9:2003\", statsd, influx or otlp into it, or remove it";
        self.no_effect("export", at, "it names no sink", cure);
    }
}

/// The sinks of a key: the short form if it was written, and the table over that of `[export]`.
fn each<'a, T: Clone + 'static>(
    export: &View<'a>,
    key: &ConfigKey<Sinks<T>, Optional>,
) -> Vec<(Option<T>, View<'a>)> {
    let Some(written) = export.written(key) else {
        return Vec::new();
    };
    let sink = |sink: &'a ShortOrLong<T>| match sink {
        ShortOrLong::Short(to) => (Some(to.clone()), export.clone()),
        ShortOrLong::Long(_) => {
            let table = sink.table().map(View::of).unwrap_or_default();
            (None, table.over(export.clone()))
        }
    };
    written.value.values().map(sink).collect()
}

/// Numbers sinks with one name: series of metrics have it.
fn name_apart(sinks: &mut [ExportSink]) {
    let mut names = HashSet::new();
    for sink in sinks {
        let first = sink.name.clone();
        let mut number = 1;
        while !names.insert(sink.name.clone()) {
            number += 1;
            sink.name = format!("{first}#{number}");
        }
    }
}
