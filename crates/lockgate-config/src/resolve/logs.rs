//! Access logs of the process and of sites, and the operator log.

use lockgate_rules::SiteLog;

use crate::codes::Code;
use crate::keys::access_log::{self, AccessLogForm, rotate};
use crate::keys::{site, top};
use crate::model::{AccessLog, LogTarget, OperatorLog, Rotate};
use crate::values::ShortOrLong;

use super::{Resolver, View};

impl Resolver<'_> {
    /// The access log that `written` is the value of, with `long` as its table.
    pub(super) fn access_log(
        &mut self,
        written: AccessLogForm,
        long: &View<'_>,
    ) -> Option<AccessLog> {
        let (format, to) = match written {
            ShortOrLong::Short(None) => return None,
            ShortOrLong::Short(Some(place)) => place,
            ShortOrLong::Long(_) => (long.get(&access_log::FORMAT), long.get(&access_log::TO)),
        };
        let rotation = long.section(&access_log::ROTATE);
        let rotation = long.get(&access_log::ROTATE).is_long().then(|| Rotate {
            size: rotation.get(&rotate::SIZE),
            keep: rotation.get(&rotate::KEEP),
        });
        if let (Some(_), LogTarget::Stdout | LogTarget::Stderr, Some(written)) =
            (rotation, &to, long.written(&access_log::ROTATE))
        {
            let message = "there is no file to rotate";
            let why = "the log goes to a stream";
            let cure = "give `to` a file, or remove `rotate`";
            self.report
                .push_at(Code::NothingToRotate, written.at, message, why, cure);
        }
        Some(AccessLog {
            to,
            format,
            sample: long.get(&access_log::SAMPLE),
            mask_ip: long.get(&access_log::MASK_IP),
            rotate: rotation,
        })
    }

    /// The access log of a site. One that equals that of another site is the same log.
    pub(super) fn site_log(&mut self, view: &View<'_>) -> SiteLog {
        let Some(written) = view.written(&site::ACCESS_LOG) else {
            return SiteLog::Shared;
        };
        let long = view.section(&site::ACCESS_LOG);
        let Some(log) = self.access_log(written.value.clone(), &long) else {
            return SiteLog::Off;
        };
        if self.shared_log.as_ref() == Some(&log) {
            return SiteLog::Shared;
        }
        if let Some(same) = self.site_logs.iter().position(|(known, _)| *known == log) {
            return SiteLog::Own(same);
        }
        let places = self.root.key_at(&top::ACCESS_LOG);
        let shared = self.shared_log.as_ref().map(|shared| (shared, places));
        let others = self.site_logs.iter().map(|(known, at)| (known, Some(at)));
        let file = |to: &LogTarget| matches!(to, LogTarget::File(_));
        let rival = shared
            .into_iter()
            .chain(others)
            .find(|(known, _)| file(&log.to) && known.to == log.to);
        if let Some((_, at)) = rival {
            let texts = (
                "this file is written by another access log",
                "it has another format, sample, mask or rotation",
                "write the same in both, or give it a file of its own",
            );
            match at.cloned() {
                Some(at) => {
                    self.report
                        .push_pair(Code::Disagree, written.at, texts, (&at, "that one"));
                }
                None => self
                    .report
                    .push_at(Code::Disagree, written.at, texts.0, texts.1, texts.2),
            }
            return SiteLog::Off;
        }
        self.site_logs.push((log, written.at.clone()));
        SiteLog::Own(self.site_logs.len() - 1)
    }
}

/// The operator log.
pub(super) fn log(top: &View<'_>) -> OperatorLog {
    let long = top.section(&top::LOG);
    let short = top.get(&top::LOG);
    let level = short.as_ref().and_then(ShortOrLong::short).copied();
    OperatorLog {
        level: level.unwrap_or_else(|| long.get(&top::log::LEVEL)),
        format: long.get(&top::log::FORMAT),
    }
}
