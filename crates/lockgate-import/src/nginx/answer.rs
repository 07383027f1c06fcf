//! What answers a location: `return`, `rewrite`, files, an endpoint, or nothing that Lockgate has.

use super::locations::restricts;
use super::pattern::{NginxMatch, NginxPath, regex};
use super::proxy::proxy_route;
use super::route::{NginxAction, NginxRoute, inline, place_of};
use super::scope::NginxScope;
use super::shared::NginxSite;
use super::syntax::NginxDirective;
use super::values::{NginxWords, redirect_target, with_placeholders};
use crate::{DraftValue, Verdict};

/// Contents that Lockgate cannot make, and what to do instead.
const HANDLERS: &[(&str, &str)] = &[
    (
        "fastcgi_pass",
        "run a server that speaks HTTP before the application (FrankenPHP or RoadRunner, or nginx on a Unix socket before php-fpm) and write proxy = \"unix:/run/app.sock\"",
    ),
    (
        "uwsgi_pass",
        "let uWSGI speak HTTP (http-socket = /run/app.sock), or use gunicorn, and write proxy = \"unix:/run/app.sock\"",
    ),
    (
        "scgi_pass",
        "run a server that speaks HTTP before the application and write proxy = \"unix:/run/app.sock\"",
    ),
    (
        "passenger_enabled",
        "run Passenger alone, or Puma, and write proxy = \"127.0.0.1:3000\"",
    ),
    ("memcached_pass", "let the application read memcached"),
    (
        "stub_status",
        "write metrics = \"127.0.0.1:9090\" at the top",
    ),
    ("status", "write metrics = \"127.0.0.1:9090\" at the top"),
    ("api", "write metrics = \"127.0.0.1:9090\" at the top"),
    (
        "dav_methods",
        "let an application take uploads, behind proxy",
    ),
    ("content_by_lua", "let an application answer, behind proxy"),
    (
        "content_by_lua_block",
        "let an application answer, behind proxy",
    ),
    (
        "content_by_lua_file",
        "let an application answer, behind proxy",
    ),
    ("js_content", "let an application answer, behind proxy"),
    ("perl", "let an application answer, behind proxy"),
    ("rtmp_stat", "let the server of RTMP answer, behind proxy"),
    (
        "rtmp_control",
        "let the server of RTMP answer, behind proxy",
    ),
    ("mp4", "serve the files as they are, with ranges"),
    ("flv", "serve the files as they are, with ranges"),
    ("hls", "let a media server answer, behind proxy"),
    ("empty_gif", "serve a file"),
    ("random_index", "let an application answer, behind proxy"),
];

/// Whether a directive makes contents that Lockgate has not.
pub(super) fn is_handler(name: &str) -> bool {
    HANDLERS.iter().any(|(known, _)| *known == name)
}

/// The first directive in a location that makes contents which Lockgate has not.
pub(super) fn foreign_handler<'a>(
    scope: &NginxScope<'a>,
) -> Option<(&'a NginxDirective, &'static str)> {
    HANDLERS
        .iter()
        .find_map(|(name, instead)| Some((scope.own(name).last().copied()?, *instead)))
        .filter(|(directive, _)| directive.arg(0) != "off")
}

/// What answers a location (or a server, for its own level).
pub(super) fn answer<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    path: &NginxPath,
    origin: &'a NginxDirective,
) -> NginxRoute {
    let verdicts = site.verdicts();
    let words = NginxWords {
        capture: path.captures.then_some("{*}"),
        ..site.words.clone()
    };
    let found = if !scope.own("internal").is_empty() {
        for internal in scope.own("internal") {
            verdicts.converted(internal);
        }
        let mut route = NginxRoute::new(&path.key, NginxAction::Respond, origin);
        route.set("respond", 404_i64);
        verdicts.rest(
            origin,
            &Verdict::not_supported("only nginx itself asks for this location", None),
        );
        Some(route)
    } else if let Some(directive) = scope.own("return").first() {
        for more in scope.own("return").iter().skip(1) {
            verdicts.default(more);
        }
        return_route(site, scope, directive, path, &words, origin)
    } else if let Some(route) = rewrite_redirect(site, scope, path, &words, origin) {
        Some(route)
    } else if let Some((handler, instead)) = foreign_handler(scope) {
        let because = "Lockgate forwards HTTP and serves files, nothing else";
        verdicts.refuse(handler, because, Some(instead));
        let refused =
            Verdict::not_supported("it belongs to what Lockgate cannot make", Some(instead));
        verdicts.rest(origin, &refused);
        None
    } else if let Some(pass) = scope
        .own("proxy_pass")
        .last()
        .or_else(|| scope.own("grpc_pass").last())
    {
        proxy_route(site, scope, pass, path, origin)
    } else if let Some(pass) = conditional_pass(scope) {
        let route = proxy_route(site, scope, pass, path, origin);
        verdicts.differs(
            pass,
            "all requests go to the application: files are not looked for first",
        );
        route
    } else {
        files(site, scope, path, origin)
    };
    found.unwrap_or_else(|| {
        let mut route = NginxRoute::new(&path.key, NginxAction::Respond, origin);
        route
            .comments
            .push("This could not be converted: write what answers instead.".to_owned());
        route.set("respond", 501_i64);
        route
    })
}

/// `if (!-f $request_filename) { proxy_pass …; }`
fn conditional_pass<'a>(scope: &NginxScope<'a>) -> Option<&'a NginxDirective> {
    scope.own("if").iter().find_map(|condition| {
        let text = condition.args.join(" ");
        let of_file =
            text.contains("!-f $request_filename") || text.contains("!-e $request_filename");
        let pass = condition.children().iter().find(|d| d.name == "proxy_pass");
        pass.filter(|_| of_file)
    })
}

/// `return`
fn return_route<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    directive: &'a NginxDirective,
    path: &NginxPath,
    words: &NginxWords,
    origin: &NginxDirective,
) -> Option<NginxRoute> {
    let verdicts = site.verdicts();
    let first = scope.fold(directive.arg(0), verdicts);
    let (status, text) = match first.parse::<i64>() {
        Ok(status) => (status, scope.fold(directive.arg(1), verdicts)),
        Err(_) => (302, first),
    };
    if matches!(status, 301 | 302 | 303 | 307 | 308) && !text.is_empty() {
        return redirect(site, directive, path, words, origin, status, &text);
    }
    if !(200..600).contains(&status) {
        verdicts.refuse(directive, "this status cannot be sent", None);
        return None;
    }
    let mut route = NginxRoute::new(&path.key, NginxAction::Respond, origin);
    let Some(body) = with_placeholders(&text, words) else {
        verdicts.refuse(directive, "a variable in its text has no counterpart", None);
        return None;
    };
    let kind = scope
        .levels
        .iter()
        .skip(1)
        .rev()
        .find_map(|level| level.get("default_type")?.last().copied());
    let mut keys = vec![("status", DraftValue::from(status))];
    if !body.is_empty() {
        keys.push(("body", body.clone().into()));
        if let Some(kind) = kind {
            keys.push(("type", kind.arg(0).into()));
        }
    }
    match (status, body.is_empty()) {
        (status, true) => route.set("respond", status),
        // `add_header Content-Type` may still change the type.
        _ => route.set("respond", inline(keys)),
    }
    if status == 444 {
        verdicts.differs(
            directive,
            "the client gets this status; nginx closes the connection",
        );
    } else {
        verdicts.converted(directive);
    }
    Some(route)
}

fn redirect<'a>(
    site: &NginxSite<'a, '_>,
    directive: &'a NginxDirective,
    path: &NginxPath,
    words: &NginxWords,
    origin: &NginxDirective,
    status: i64,
    text: &str,
) -> Option<NginxRoute> {
    let verdicts = site.verdicts();
    let Some((target, drops_query)) = redirect_target(text, words) else {
        verdicts.refuse(
            directive,
            "its target has variables that Lockgate has not",
            Some("redirect takes {host}, {path}, {query} and {*}"),
        );
        return None;
    };
    let mut route = NginxRoute::new(&path.key, NginxAction::Redirect, origin);
    match status {
        308 => route.set("redirect", target),
        _ => route.set(
            "redirect",
            inline(vec![("to", target.into()), ("status", status.into())]),
        ),
    }
    if drops_query && !text.contains('?') {
        verdicts.differs(directive, "a query of the request is kept");
    } else {
        verdicts.converted(directive);
    }
    Some(route)
}

/// The path and the target of a `rewrite` that redirects.
pub(super) fn redirecting(rewrite: &NginxDirective) -> Option<(i64, String)> {
    let to = rewrite.arg(1);
    let absolute = ["http://", "https://", "$scheme"]
        .iter()
        .any(|s| to.starts_with(s));
    let status = match rewrite.arg(2) {
        "permanent" => 301,
        "redirect" => 302,
        _ if absolute => 302,
        _ => return None,
    };
    Some((status, to.to_owned()))
}

/// Whether a regular expression matches every path, and what `$1` is then.
pub(super) fn matches_all(from: &str) -> Option<&'static str> {
    match from {
        "^" | "^/" | ".*" | "^.*" | "^.*$" | "^/.*$" | "/" => Some(""),
        "^(.*)$" | "^(.*)" | "(.*)" | "^(.+)$" => Some("$1"),
        "^/(.*)$" | "^/(.*)" | "/(.*)" | "^/?(.*)$" => Some("/$1"),
        _ => None,
    }
}

/// A `rewrite` in a location that redirects all of it.
fn rewrite_redirect<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    path: &NginxPath,
    words: &NginxWords,
    origin: &NginxDirective,
) -> Option<NginxRoute> {
    let (rewrite, (status, to)) = scope
        .own("rewrite")
        .iter()
        .find_map(|rewrite| Some((*rewrite, redirecting(rewrite)?)))?;
    let (to, words) = match (matches_all(rewrite.arg(0)), regex(rewrite.arg(0), false)) {
        (Some(group), _) => {
            let to = if group.is_empty() {
                to
            } else {
                to.replace(group, "$uri")
            };
            (to, words.clone())
        }
        (None, NginxMatch::Paths(paths)) if paths.iter().any(|p| p.key == path.key) => {
            let capture = paths.iter().any(|p| p.captures).then_some("{*}");
            (
                to,
                NginxWords {
                    capture,
                    ..words.clone()
                },
            )
        }
        _ => return None,
    };
    // nginx adds the query unless the target ends in `?`.
    let to = match to.strip_suffix('?') {
        Some(to) => to.to_owned(),
        None if to.contains("$request_uri") => to,
        None => format!("{to}$is_args$args"),
    };
    redirect(site, rewrite, path, &words, origin, status, &to)
}

/// Files: `root`, `alias`, `index`, `try_files`.
fn files<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    path: &NginxPath,
    origin: &'a NginxDirective,
) -> Option<NginxRoute> {
    let verdicts = site.verdicts();
    let mut route = NginxRoute::new(&path.key, NginxAction::Files, origin);
    // `try_files … @app`: the application answers what is no file.
    let tries = scope.last("try_files");
    if let Some(tries) = tries
        && let Some(last) = tries.args.last()
        && last.starts_with('@')
    {
        return named(site, tries, last, path, origin);
    }
    let alias = scope.own("alias").last();
    let (directive, is_alias) = match (alias, scope.last("root")) {
        (Some(alias), _) => (*alias, true),
        (None, Some(root)) => (root, false),
        (None, None) => {
            // nginx looks in its own folder `html`, which holds nothing of this.
            let mut route = NginxRoute::new(&path.key, NginxAction::Respond, origin);
            route.set("respond", 404_i64);
            return Some(route);
        }
    };
    let folder = scope.fold(directive.arg(0), verdicts);
    if folder.contains('$') || folder.is_empty() {
        verdicts.refuse(
            directive,
            "a folder has no variables here",
            Some("write a site for each"),
        );
        return None;
    }
    // A file that is named alone, or that nginx serves without asking for scripts, is no script.
    let harmless = path.strong && !path.key.contains(".php") && !path.key.ends_with('/');
    if site.php && !harmless {
        verdicts.refuse(
            directive,
            "the folder holds scripts of PHP, which would be sent as text",
            Some("run FrankenPHP, or nginx on a Unix socket before php-fpm, and write proxy = \"unix:/run/app.sock\""),
        );
        if let Some(tries) = tries {
            verdicts.refuse(tries, "the folder holds scripts of PHP", None);
        }
        return None;
    }
    let uneven = is_alias && path.is_prefix() && folder.ends_with('/') == path.loose;
    let mut stripped = false;
    let folder = if is_alias {
        if !path.is_prefix() {
            // One file under another name.
            let (parent, file) = folder.rsplit_once('/')?;
            route.set("root", if parent.is_empty() { "/" } else { parent });
            route.set("try", vec![format!("/{file}")]);
            verdicts.converted(directive);
            return Some(route);
        }
        let trimmed = folder.strip_suffix('/').unwrap_or(&folder);
        match trimmed
            .strip_suffix(path.base())
            .filter(|rest| !rest.is_empty())
        {
            Some(rest) => rest.to_owned(),
            None => {
                stripped = !path.base().is_empty();
                trimmed.to_owned()
            }
        }
    } else {
        folder
    };
    let folder = match folder.strip_suffix('/') {
        Some(short) if !short.is_empty() => short.to_owned(),
        _ => folder,
    };
    if uneven {
        verdicts.differs(
            directive,
            "the names of files go below the folder, with one slash: nginx puts `alias` in the place of the location's text, and only one of both ends in a slash",
        );
    } else if folder.starts_with('/') || folder.starts_with("./") {
        verdicts.converted(directive);
    } else {
        verdicts.differs(
            directive,
            "the folder is looked up beside the new file, not in nginx's own folder",
        );
    }
    route.set("root", folder.clone());
    if stripped {
        route.set("strip_prefix", true);
    }
    if let Some(index) = scope.last("index") {
        let names: Vec<String> = index.args.iter().map(|n| scope.fold(n, verdicts)).collect();
        if names.iter().all(|name| !name.contains(['$', '/'])) {
            verdicts.converted(index);
            let names: Vec<String> = names.into_iter().filter(|n| !n.ends_with(".php")).collect();
            let of_folder = path.is_prefix() || path.key.ends_with('/');
            if names != ["index.html"] && of_folder {
                route.set("index", names);
            }
        } else {
            verdicts.refuse(
                index,
                "`index` names files, without a folder or a variable",
                None,
            );
        }
    }
    if let Some(listing) = scope.last("autoindex") {
        verdicts.converted(listing);
        if listing.arg(0) == "on" {
            route.set("listing", true);
        }
    }
    if let Some(charset) = scope.last("charset") {
        verdicts.converted(charset);
        match charset.arg(0).to_ascii_lowercase().as_str() {
            "utf-8" => {}
            "off" => route.set("charset", false),
            word if word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) =>
            {
                route.set("charset", word);
            }
            _ => verdicts.refuse(charset, "this is no charset", None),
        }
    }
    media_types(site, scope, &mut route);
    match tries {
        Some(tries) => try_files(site, scope, tries, path, &folder, stripped, route),
        None => Some(route),
    }
}

/// `types` of a location; those of http are Lockgate's own.
fn media_types<'a>(site: &NginxSite<'a, '_>, scope: &NginxScope<'a>, route: &mut NginxRoute) {
    let verdicts = site.verdicts();
    for block in scope.own("types") {
        verdicts.converted(block);
        for entry in block.children() {
            for extension in &entry.args {
                route.set_in("types", &format!(".{extension}"), entry.name.as_str());
            }
            verdicts.converted(entry);
        }
    }
}

/// `try_files … @name`
fn named<'a>(
    site: &NginxSite<'a, '_>,
    tries: &NginxDirective,
    name: &str,
    path: &NginxPath,
    origin: &'a NginxDirective,
) -> Option<NginxRoute> {
    let verdicts = site.verdicts();
    let Some((scope, location)) = site.location(name) else {
        verdicts.refuse(tries, "there is no location of that name", None);
        return None;
    };
    let Some(pass) = scope.own("proxy_pass").last() else {
        verdicts.refuse(
            tries,
            "what answers for missing files cannot be converted",
            None,
        );
        return None;
    };
    if tries.args.len() > 1 {
        verdicts.differs(
            tries,
            "all requests go to the application: files are not looked for first. Write path tables with `root` for the folders of files",
        );
    } else {
        verdicts.converted(tries);
    }
    verdicts.converted(location);
    let mut route = proxy_route(site, scope, pass, path, origin)?;
    if restricts(location.children()) {
        let because =
            "its rules of access would be lost: the routes that lead to it refuse all clients";
        verdicts.refuse(location, because, None);
        route
            .closed
            .push(format!("{}: location {name}", place_of(location)));
    }
    Some(route)
}

fn try_files<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    tries: &NginxDirective,
    path: &NginxPath,
    folder: &str,
    stripped: bool,
    mut route: NginxRoute,
) -> Option<NginxRoute> {
    let verdicts = site.verdicts();
    let own_path = if stripped { "/{*}" } else { "{path}" };
    let mut list: Vec<String> = Vec::new();
    let count = tries.args.len();
    for (index, arg) in tries.args.iter().enumerate() {
        let last = index + 1 == count;
        let arg = scope.fold(arg, verdicts);
        if last && arg.starts_with('=') {
            if arg == "=404" {
                continue;
            }
            verdicts.refuse(tries, "a missing file is answered with 404", None);
            return None;
        }
        let bare = arg
            .strip_suffix("$is_args$args")
            .or_else(|| arg.split_once('?').map(|(bare, _)| bare))
            .unwrap_or(&arg);
        let text = match bare
            .strip_prefix("$uri")
            .or_else(|| bare.strip_prefix("${uri}"))
        {
            Some(rest) if !last => format!("{own_path}{rest}"),
            Some(_) => {
                verdicts.refuse(tries, "the last of them is another request", None);
                return None;
            }
            None => {
                // A path of the site: it must lie in this folder.
                let other_root =
                    last && site.scope.last("root").is_none_or(|root| {
                        root.arg(0).trim_end_matches('/') != folder.trim_end_matches('/')
                    }) && !path.base().is_empty();
                let inside = bare
                    .strip_prefix(path.base())
                    .filter(|r| r.starts_with('/'));
                match inside {
                    Some(rest) if stripped => rest.to_owned(),
                    Some(_) => bare.to_owned(),
                    None if stripped || other_root => {
                        verdicts.refuse(tries, "the last path belongs to another folder", None);
                        return None;
                    }
                    None => bare.to_owned(),
                }
            }
        };
        if text.contains(['$', '*']) && text != "/{*}" && !text.starts_with("/{*}")
            || text.contains(".php")
            || !(text.starts_with('/') || text.starts_with('{'))
        {
            verdicts.refuse(tries, "a path in it has no counterpart", None);
            return None;
        }
        list.push(text);
    }
    verdicts.converted(tries);
    let usual = [own_path.to_owned(), format!("{own_path}/")];
    if !list.is_empty() && list != usual {
        route.set("try", list);
    }
    Some(route)
}

/// An answer to `OPTIONS` that stands in a condition.
pub(super) fn options_route<'a>(
    site: &NginxSite<'a, '_>,
    scope: &NginxScope<'a>,
    condition: &'a NginxDirective,
    path: &NginxPath,
) -> Option<NginxRoute> {
    let text = condition.args.join(" ");
    let text = text.trim_matches(['(', ')', ' ']).replace(['"', '\''], "");
    let method = text.strip_prefix("$request_method = ")?.trim().to_owned();
    if !matches!(
        method.as_str(),
        "OPTIONS" | "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "PATCH"
    ) {
        return None;
    }
    let fits = |d: &NginxDirective| matches!(d.name.as_str(), "return" | "add_header");
    if !condition.children().iter().all(fits) {
        return None;
    }
    let inner = scope.inner(condition.children());
    let directive = *inner.own("return").last()?;
    let key = NginxPath {
        key: format!("{method} {}", path.key),
        ..path.clone()
    };
    let route = return_route(site, &inner, directive, &key, &site.words, condition)?;
    site.verdicts().converted(condition);
    Some(route)
}
