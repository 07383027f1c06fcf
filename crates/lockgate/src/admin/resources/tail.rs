//! `/v1/tail`: the access log while it happens, a line of JSON for each entry.

use std::ops::RangeInclusive;

use hyper::StatusCode;
use lockgate_proxy::access_log::{Cause, TailFilter, Tails};

use super::super::error::AdminError;
use super::super::line_stream::LineStream;
use super::super::query::{RequestQuery, bad_query};
use super::super::state::AdminState;

/// Opens a reader for the lines that the query chooses.
pub(super) fn open(state: &AdminState, query: &str) -> Result<LineStream, AdminError> {
    let filter = filter(query)?;
    let reader = state.exposition().tails().open(filter);
    let reader = reader.map(|reader| LineStream::new(reader, state.phase.clone()));
    reader.ok_or_else(|| {
        AdminError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_tails",
            format!("{} readers follow the access log already", Tails::MOST),
            "end another `lockgate tail`",
        )
    })
}

fn filter(query: &str) -> Result<TailFilter, AdminError> {
    let known = [
        "site",
        "listener",
        "status",
        "cause",
        "slower_than",
        "client",
    ];
    let query = RequestQuery::parse(query, &known)?;
    let text = |name: &str| query.last(name).map(str::to_owned);
    Ok(TailFilter {
        site: text("site"),
        listener: text("listener"),
        statuses: query
            .all("status")
            .map(statuses)
            .collect::<Result<_, _>>()?,
        cause: query.last("cause").map(cause).transpose()?,
        slower_than: query.seconds("slower_than")?,
        client: query.network("client")?,
    })
}

/// `404`, `5xx` or `500-504`.
fn statuses(text: &str) -> Result<RangeInclusive<u16>, AdminError> {
    let wrong = || {
        bad_query(
            format!("`{text}` is no status"),
            "write 404, 5xx or 500-504",
        )
    };
    if let Some(class) = text.strip_suffix("xx") {
        let class: u16 = class.parse().map_err(|_| wrong())?;
        return (1..=9)
            .contains(&class)
            .then(|| class * 100..=class * 100 + 99)
            .ok_or_else(wrong);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(wrong());
    }
    Ok(first..=last)
}

fn cause(text: &str) -> Result<Cause, AdminError> {
    let found = Cause::ALL.into_iter().find(|cause| cause.as_str() == text);
    found.ok_or_else(|| {
        let names = Cause::ALL.map(Cause::as_str).join(", ");
        bad_query(
            format!("there is no cause `{text}`"),
            format!("there are {names}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_classes_or_ranges() {
        for (text, expected) in [
            ("404", 404..=404),
            ("5xx", 500..=599),
            ("500-504", 500..=504),
        ] {
            assert_eq!(statuses(text).unwrap(), expected, "{text}");
        }
        for text in ["", "xx", "0xx", "50x", "504-500", "a-b", "70000", "99999xx"] {
            assert!(statuses(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_filter_is_read_from_a_query() {
        let read = filter("site=a.test&status=5xx&status=404&cause=idle&slower_than=1.5").unwrap();
        assert_eq!(read.site.as_deref(), Some("a.test"));
        assert_eq!(read.statuses, [500..=599, 404..=404]);
        assert_eq!(read.cause, Some(Cause::Idle));
        assert_eq!(filter("").unwrap(), TailFilter::default());
        for wrong in [
            "cause=none",
            "colour=red",
            "slower_than=x",
            "client=x",
            "status=x",
        ] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }
}
