//! Changes of the path that a service sees: `strip_prefix` and `rewrite`.

use super::route_parts::TraefikPathStep;
use super::rule::{RulePath, is_plain_path};
use crate::DraftValue;

/// How one pattern of a route changes its paths.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PathChange {
    /// The pattern.
    pub(super) path: RulePath,
    /// The keys that change it.
    pub(super) keys: Vec<(String, DraftValue)>,
    /// Fields that tell the service.
    pub(super) fields: Vec<(String, DraftValue)>,
    /// What is different, if something is.
    pub(super) differs: Option<String>,
}

/// The patterns of a route with these steps: its own one first, then narrower ones.
pub(super) fn changes(
    steps: &[TraefikPathStep],
    path: &RulePath,
) -> Result<Vec<PathChange>, String> {
    let own = match path {
        RulePath::All => "",
        RulePath::Prefix(path) | RulePath::Exact(path) => path.as_str(),
    };
    let exact = matches!(path, RulePath::Exact(_));
    let mut base = own.to_owned();
    let mut constant = false;
    let mut stripped = false;
    let mut other = false;
    let mut fields: Vec<(String, DraftValue)> = Vec::new();
    let mut narrower = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        match step {
            TraefikPathStep::Strip(prefixes) => {
                for prefix in prefixes {
                    let prefix = prefix.trim_end_matches('/');
                    if prefix.is_empty() {
                        break;
                    }
                    if !is_plain_path(prefix) {
                        return Err(format!("the prefix {prefix} cannot be written"));
                    }
                    if let Some(rest) = base.strip_prefix(prefix) {
                        if !rest.is_empty() && !rest.starts_with('/') {
                            return Err(format!("the prefix {prefix} ends within a part of {own}"));
                        }
                        base = rest.to_owned();
                        stripped = true;
                        fields.push(("x-forwarded-prefix".to_owned(), prefix.into()));
                        break;
                    }
                    let below = prefix
                        .strip_prefix(base.as_str())
                        .is_some_and(|rest| rest.starts_with('/'));
                    if below && !constant && !exact {
                        if index > 0 || steps.len() > 1 {
                            return Err(
                                "a prefix below its path is one of several changes".to_owned()
                            );
                        }
                        narrower.push(PathChange {
                            path: RulePath::Prefix(prefix.to_owned()),
                            keys: vec![("strip_prefix".to_owned(), true.into())],
                            fields: vec![("x-forwarded-prefix".to_owned(), prefix.into())],
                            differs: None,
                        });
                    }
                }
            }
            TraefikPathStep::Add(prefix) => {
                let prefix = prefix.trim_end_matches('/');
                if !prefix.is_empty() && !is_plain_path(prefix) {
                    return Err(format!("the prefix {prefix} cannot be written"));
                }
                base = format!("{prefix}{base}");
                other = true;
            }
            TraefikPathStep::Replace(whole) => {
                if !is_plain_path(whole) {
                    return Err(format!("the path {whole} cannot be written"));
                }
                base.clone_from(whole);
                constant = true;
                other = true;
                fields.push(("x-replaced-path".to_owned(), "{path}".into()));
            }
            TraefikPathStep::Pattern(regex, with) => {
                match pattern(regex, with, &base, exact || constant) {
                    PatternOutcome::Base(changed) => {
                        base = changed;
                        other = true;
                        fields.push(("x-replaced-path".to_owned(), "{path}".into()));
                    }
                    PatternOutcome::Root(target) if !exact && base.is_empty() => {
                        narrower.push(PathChange {
                            path: RulePath::Exact("/".to_owned()),
                            keys: vec![("rewrite".to_owned(), target.into())],
                            fields: vec![("x-replaced-path".to_owned(), "{path}".into())],
                            differs: None,
                        });
                        if index > 0 {
                            return Err("a pattern follows another change".to_owned());
                        }
                    }
                    PatternOutcome::Nothing => {}
                    _ => return Err(format!("the pattern {regex} cannot be written")),
                }
            }
        }
    }
    // A step after a rewrite of the root alone applies there too.
    for change in &mut narrower {
        if let (RulePath::Exact(_), Some((_, DraftValue::Text(target)))) =
            (&change.path, change.keys.first_mut())
            && other
            && base != own
        {
            *target = format!("{}{target}", base.strip_suffix(own).unwrap_or(&base));
        }
    }
    let mut differs = None;
    let mut keys: Vec<(String, DraftValue)> = Vec::new();
    if constant || exact {
        if base != own {
            keys.push((
                "rewrite".to_owned(),
                if base.is_empty() {
                    "/".into()
                } else {
                    base.into()
                },
            ));
        }
    } else if base != own {
        if base.is_empty() && stripped && !other {
            keys.push(("strip_prefix".to_owned(), true.into()));
        } else {
            if !own.is_empty() {
                differs = Some(format!("{own} itself is sent as {base}/"));
            }
            keys.push(("rewrite".to_owned(), format!("{base}/{{*}}").into()));
        }
    }
    if keys.is_empty() {
        fields.clear();
    }
    let mut all = vec![PathChange {
        path: path.clone(),
        keys,
        fields,
        differs,
    }];
    all.extend(narrower);
    Ok(all)
}

enum PatternOutcome {
    /// What comes before the rest of the path.
    Base(String),
    /// `/` alone becomes this.
    Root(String),
    /// The pattern never matches.
    Nothing,
    /// It is none of the known forms.
    Unknown,
}

fn pattern(regex: &str, with: &str, base: &str, fixed: bool) -> PatternOutcome {
    let regex = regex
        .replace("\\/", "/")
        .replace("\\.", ".")
        .replace("\\-", "-");
    let with = with.replace("${1}", "$1");
    if matches!(regex.as_str(), "^(/)?$" | "^/$" | "^/?$") {
        return match is_plain_path(&with) && !fixed {
            true => PatternOutcome::Root(with),
            false => PatternOutcome::Unknown,
        };
    }
    let Some(body) = regex.strip_prefix('^') else {
        return PatternOutcome::Unknown;
    };
    let body = body.strip_suffix('$').unwrap_or(body);
    // `^/from/(.*)` to `/to/$1`: the rest with, or without, the slash before it.
    let forms = [
        ("/?(.*)", false),
        ("/(.*)", false),
        ("(/.*)?", true),
        ("(/.*)", true),
        ("(.*)", true),
        ("/(.+)", false),
    ];
    let Some((from, slash)) = forms
        .iter()
        .find_map(|(form, slash)| Some((body.strip_suffix(form)?, *slash)))
    else {
        return PatternOutcome::Unknown;
    };
    let Some(to) = with.strip_suffix("$1") else {
        return PatternOutcome::Unknown;
    };
    let to = match slash {
        true => to,
        false => match to.strip_suffix('/') {
            Some(to) => to,
            None => return PatternOutcome::Unknown,
        },
    };
    let from = from.trim_end_matches('/');
    let plain = |text: &str| {
        text.is_empty()
            || (is_plain_path(text) && !text.contains(['(', ')', '[', ']', '+', '|', '^']))
    };
    if !plain(from) || !plain(to) || fixed {
        return PatternOutcome::Unknown;
    }
    match base.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            PatternOutcome::Base(format!("{to}{rest}"))
        }
        Some(_) => PatternOutcome::Unknown,
        None if from.starts_with(base) => PatternOutcome::Unknown,
        None => PatternOutcome::Nothing,
    }
}
