//! What valid sites of files mean.

use std::path::Path;

use lockgate_config::{
    Environment, RouteAction, SiteRoute, StaticFiles, SymlinkRule, parse_str_in,
};
use lockgate_rules::{FileTypes, Pattern, TargetRewrite};

/// The routes of a site on port 1, which needs no certificate.
fn routes(inner: &str) -> Vec<SiteRoute> {
    let text = format!("[site.\":1\"]\n{inner}\n");
    match parse_str_in(
        &text,
        Path::new("/etc/lockgate/lockgate.toml"),
        &Environment::none(),
    ) {
        Ok(loaded) => {
            assert!(loaded.warnings.is_empty(), "{text}\n{}", loaded.warnings);
            loaded.config.sites[0].routes.clone()
        }
        Err(report) => panic!("{text}\n{report}"),
    }
}

fn files(route: &SiteRoute) -> &StaticFiles {
    match &route.action {
        RouteAction::Files(files) => files,
        other => panic!("{other:?}"),
    }
}

fn strips(route: &SiteRoute) -> bool {
    route.rules.target == TargetRewrite::StripPrefix
}

#[test]
fn a_root_alone_serves_what_is_safe_to_serve() {
    let routes = routes("root = \"www\"");
    let files = files(&routes[0]);
    assert_eq!(files.root, Path::new("/etc/lockgate/www"));
    assert_eq!(
        (&*files.index, files.charset.as_deref()),
        (&["index.html".to_owned()][..], Some("utf-8"))
    );
    assert!(files.precompressed && !files.clean_urls && !files.listing && !files.hidden);
    assert_eq!(files.symlinks, SymlinkRule::Inside);
    assert!(files.attempts.is_empty() && files.fallback.is_none() && files.not_found.is_none());
    assert_eq!(files.types, FileTypes::default());
}

#[test]
fn what_belongs_to_a_root_is_inherited_by_the_paths_of_a_site() {
    let routes = routes(
        "root = \"/srv\"\nclean_urls = true\nnot_found = \"/404.html\"\n\
         [site.\":1\".path.\"/a/*\"]\nlisting = true\nnot_found = false\n\
         [site.\":1\".path.\"/b/*\"]\nroot = \"/other\"\nstrip_prefix = true\nclean_urls = false\n",
    );
    let [a, b, site] = [files(&routes[0]), files(&routes[1]), files(&routes[2])];
    assert!(a.root == Path::new("/srv") && a.clean_urls && a.listing && a.not_found.is_none());
    assert!(b.root == Path::new("/other") && !b.clean_urls && !b.listing && strips(&routes[1]));
    assert_eq!(b.not_found.as_deref(), Some("/404.html"));
    assert!(site.clean_urls && !site.listing && !strips(&routes[2]));
}

#[test]
fn the_nearer_of_try_and_spa_holds() {
    let routes = routes(
        "root = \"/srv\"\nspa = true\n[site.\":1\".path.\"/a/*\"]\ntry = [\"/{*}\", \"{path}/\"]\n\
         [site.\":1\".path.\"/b/*\"]\nspa = false\n[site.\":1\".path.\"/c/{id}\"]\nspa = \"/c.html\"\n",
    );
    let tried = |route: &SiteRoute| {
        let attempts = files(route).attempts.iter();
        let attempts = attempts.map(|attempt| attempt.written(&route.pattern));
        (attempts.collect::<Vec<_>>(), files(route).fallback.clone())
    };
    assert_eq!(
        tried(&routes[0]),
        (vec!["/{*}".to_owned(), "{path}/".to_owned()], None)
    );
    assert_eq!(tried(&routes[1]), (vec![], None));
    assert_eq!(tried(&routes[2]), (vec![], Some("/c.html".to_owned())));
    assert_eq!(tried(&routes[3]), (vec![], Some("/index.html".to_owned())));
}

#[test]
fn types_are_merged_by_key_and_the_more_specific_path_comes_first() {
    let routes = routes(
        "root = \"/srv\"\ntypes = { \".LOG\" = \"text/plain\", \"/*\" = \"a/all\", \"/x/*\" = \"a/x\" }\n\
         [site.\":1\".path.\"/x/*\"]\ntypes = { \".log\" = \"text/csv\", \"/x/y\" = \"a/y\", \"/x/*\" = \"b/x\" }\n",
    );
    let types = &files(&routes[0]).types;
    assert_eq!(
        types.extensions,
        [("log".to_owned(), "text/csv".to_owned())]
    );
    let paths = [("/x/y", "a/y"), ("/x/*", "b/x"), ("/*", "a/all")];
    assert_eq!(
        types.paths,
        paths.map(|(path, media_type)| (Pattern::parse(path).unwrap(), media_type.to_owned()))
    );
}

#[test]
fn what_only_some_paths_use_may_stand_in_their_site() {
    routes(
        "proxy = \"127.0.0.1:1\"\nlisting = true\n[site.\":1\".path.\"/a/*\"]\nroot = \"/srv\"\n",
    );
    routes(
        "root = \"/srv\"\nbody = { max = \"1MB\" }\n[site.\":1\".path.\"/a/*\"]\nproxy = \"127.0.0.1:1\"\n",
    );
}
