//! Changes of paths.

use super::patterns::PathPattern;
use super::plan::HaproxyPlan;
use crate::Verdict;

/// A change of the path: a prefix that is taken off or put before it.
pub(super) fn rewrite(
    words: &[String],
    part: Option<&PathPattern>,
    plan: &mut HaproxyPlan,
) -> Verdict {
    let because = Verdict::not_supported(
        "this change of the path has no counterpart, so that the route refuses all clients (deny)",
        Some("write rewrite or strip_prefix, and take the deny out"),
    );
    let fail = |plan: &mut HaproxyPlan| {
        plan.refused = true;
        because.clone()
    };
    if plan.strip || plan.rewrite.is_some() {
        return fail(plan);
    }
    let (action, one, two) = match words {
        [action, one] => (action.as_str(), one.as_str(), ""),
        [action, one, two] => (action.as_str(), one.as_str(), two.as_str()),
        _ => return fail(plan),
    };
    let plain = |text: &str| {
        text.starts_with('/')
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-._~/".contains(&b))
    };
    if action == "set-path" {
        if plain(one) {
            plan.rewrite = Some(one.to_owned());
            return Verdict::Converted;
        }
        if let Some(PathPattern::Below(prefix)) = part
            && !prefix.is_empty()
            && one == format!("%[path,regsub(^{prefix}/,/)]")
        {
            plan.strip = true;
            return Verdict::Converted;
        }
        if let Some(prefix) = one.strip_suffix("%[path]").filter(|prefix| plain(prefix)) {
            plan.rewrite = Some(format!("{prefix}{{path}}"));
            return Verdict::Converted;
        }
        return fail(plan);
    }
    if let (Some(PathPattern::Below(prefix)), "replace-path" | "replace-uri" | "replace-pathq") =
        (part, action)
    {
        let regex = one.strip_prefix('^').unwrap_or(one);
        let regex = regex.strip_suffix('$').unwrap_or(regex);
        let forms = [
            (format!("{prefix}/(.*)"), "/\\1"),
            (format!("{prefix}(/)?(.*)"), "/\\2"),
            (format!("{prefix}/?(.*)"), "/\\1"),
            (format!("{prefix}(/.*)"), "\\1"),
        ];
        if !prefix.is_empty() && forms.iter().any(|(from, to)| regex == from && two == *to) {
            plan.strip = true;
            return Verdict::Converted;
        }
    }
    fail(plan)
}

/// `reqrep` of the path in the first line of a request.
pub(super) fn old_rewrite(
    words: &[String],
    part: Option<&PathPattern>,
    plan: &mut HaproxyPlan,
) -> Verdict {
    if let [_, from, to] = words {
        let heads = ["^([^ :]*) ", "^([^ ]*) ", "^([^\\ :]*)\\ "];
        let path = heads.iter().find_map(|head| from.strip_prefix(head));
        if to == "\\1 /\\2" {
            if path == Some("/(.*)") {
                return Verdict::Default;
            }
            if let (Some(PathPattern::Below(prefix)), Some(path)) = (part, path)
                && !prefix.is_empty()
                && !plan.strip
                && plan.rewrite.is_none()
                && [format!("{prefix}/(.*)"), format!("{prefix}[/]?(.*)")]
                    .contains(&path.to_owned())
            {
                plan.strip = true;
                return Verdict::Converted;
            }
        }
    }
    plan.refused = true;
    Verdict::not_supported(
        "this change of the head has no counterpart, so that the route refuses all clients (deny)",
        Some("write rewrite, strip_prefix or request_headers, and take the deny out"),
    )
}
