//! Settings of metrics that are pushed: the forms that Graphite and statsd take them in.

/// The protocol of carbon, the receiver of Graphite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphiteProtocol {
    /// A line for each point.
    Plaintext,
    /// Pickled lists of points.
    Pickle,
}

/// Where the name of a series in Graphite has its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphiteNaming {
    /// They are parts of its path.
    Path,
    /// They are tags, as since Graphite 1.1.
    Tags,
}

/// Where a line for statsd has the labels of its metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsdTags {
    /// They are parts of its name.
    None,
    /// Behind the type, as DogStatsD takes them: `|#key:value`.
    DogStatsd,
    /// Behind the name, as Telegraf takes them: `,key=value`.
    Influx,
}

/// Which metrics are pushed, by the beginnings of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricFilter {
    /// Beginnings of those that are; empty for all.
    pub only: Vec<String>,
    /// Beginnings of those that are not, also where `only` has them.
    pub except: Vec<String>,
}

impl MetricFilter {
    /// Whether the metric of this name is pushed.
    pub fn takes(&self, name: &str) -> bool {
        let begins = |beginning: &String| name.starts_with(&**beginning);
        (self.only.is_empty() || self.only.iter().any(begins)) && !self.except.iter().any(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_metrics_by_the_beginnings_of_names() {
        let beginnings = |some: &[&str]| some.iter().map(|one| (*one).to_owned()).collect();
        for (only, except, name, taken) in [
            (&[][..], &[][..], "lockgate_clients", true),
            (&["lockgate_re"], &[], "lockgate_requests_total", true),
            (&["lockgate_re"], &[], "lockgate_clients", false),
            (&[], &["lockgate_client"], "lockgate_clients", false),
            (&[], &["lockgate_client_"], "lockgate_clients", true),
            (&["lockgate_"], &["lockgate_c"], "lockgate_clients", false),
        ] {
            let filter = MetricFilter {
                only: beginnings(only),
                except: beginnings(except),
            };
            assert_eq!(filter.takes(name), taken, "{filter:?} {name}");
        }
    }
}
