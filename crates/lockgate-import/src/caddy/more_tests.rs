//! More tests of the import of Caddyfiles: access, hosts, imports, variables, options.

use super::tests::{becomes, is_differs, is_refused, read, read_files, toml, valid};

#[test]
fn passwords_stand_in_a_file() {
    let text = ":80 {
          basic_auth bcrypt Secret {
            alice $2a$14$abcdef
          }
          reverse_proxy app:1
        }";
    let toml = toml(text);
    assert!(toml.contains("auth = { basic = \"/etc/lockgate/htpasswd\", realm = \"Secret\" }"));
    assert!(toml.contains("# alice:$2a$14$abcdef\n"));
    assert!(is_differs(text, "basic_auth"));
}

#[test]
fn a_service_is_asked_but_for_its_own_paths() {
    becomes(
        ":80 {
          reverse_proxy /outpost/* auth:9000
          reverse_proxy /outpost auth:9000
          @rest not path /outpost /outpost/*
          forward_auth @rest auth:9091 {
            uri /verify
            copy_headers Remote-User Remote-Groups
          }
          reverse_proxy app:1
        }"
        .replace("outpost", "0")
        .as_str(),
        "# Caddyfile:1
[site.\":80\"]
proxy = \"app:1\"
auth = { forward = \"auth:9091\", path = \"/verify\", copy = [\"remote-user\", \"remote-groups\"] }

# Caddyfile:2
[site.\":80\".path.\"/0/*\"]
proxy = \"auth:9000\"
auth = false
",
    );
}

#[test]
fn hosts_of_matchers_are_sites() {
    becomes(
        "http:// {
          @a host a.example.com
          handle @a {
            reverse_proxy a:1
          }
          handle {
            respond 404
          }
        }",
        "# Caddyfile:1
[site.\":80\"]
respond = 404

# Caddyfile:1
[site.\"a.example.com:80\"]
proxy = \"a:1\"
",
    );
}

#[test]
fn snippets_take_arguments() {
    becomes(
        "(app) {
          reverse_proxy {args[0]}:{args.1}
        }
        (unused) {
          reverse_proxy x:1
        }
        :80 {
          import app a 1
        }",
        "# Caddyfile:7\n[site.\":80\"]\nproxy = \"a:1\"\n",
    );
}

#[test]
fn files_are_imported() {
    let files = [
        ("Caddyfile", "import sites/*\n"),
        ("sites/a", ":80 {\n import ../common\n}\n"),
        ("sites/../common", "reverse_proxy a:1\n"),
    ];
    let imported = read_files(&files).expect("a Caddyfile");
    valid(&imported);
    assert!(imported.draft.to_string().contains("proxy = \"a:1\""));
    assert!(is_refused(
        "import missing\n:80 {\n respond 200\n}\n",
        "import"
    ));
}

#[test]
fn variables_come_from_the_environment() {
    becomes(
        ":80 {\n reverse_proxy {$APP}:80\n}\n"
            .replace("{$APP}:80", "a{$TOKEN}:80")
            .as_str(),
        "# Caddyfile:1\n[site.\":80\"]\nproxy = \"a${env:TOKEN}:80\"\n",
    );
    let text = "{$SITE:a.example.com} {\n reverse_proxy {$APP}\n}\n";
    assert!(toml(text).contains("[site.\"a.example.com\"]\nproxy = \"${env:APP}\""));
    assert!(is_differs(text, "{$SITE"));
    assert!(is_differs(text, "reverse_proxy"));
    let text = ":80 {\n root * {$ROOT:/a b}\n file_server\n}\n";
    assert!(is_differs(text, "root"));
}

#[test]
fn options_hold_for_the_file() {
    becomes(
        "{
          email me@example.com
          acme_dns cloudflare {env.TOKEN}
          admin off
          servers {
            trusted_proxies static 10.0.0.0/8
            trusted_proxies_strict
          }
        }
        *.example.com {
          reverse_proxy a:1
        }",
        "admin = false
trusted = [\"10.0.0.0/8\"]

[acme]
email = \"me@example.com\"
dns = { provider = \"cloudflare\", token = \"${env:TOKEN}\" }

# Caddyfile:10
[site.\"*.example.com\"]
proxy = \"a:1\"
",
    );
}

#[test]
fn names_that_no_authority_certifies_are_internal() {
    assert!(toml("localhost {\n respond 200\n}\n").contains("tls = \"internal\""));
    let text = "box.lan {\n respond 200\n}\n";
    assert!(toml(text).contains("tls = \"internal\""));
    assert!(is_differs(text, "box.lan"));
    assert!(is_differs(
        "*.example.com {\n respond 200\n}\n",
        "*.example.com"
    ));
    assert!(is_refused(
        "a.example.com/x {\n respond 200\n}\n",
        "a.example.com"
    ));
}

#[test]
fn logs_files_and_bodies() {
    becomes(
        "http://a.example.com {
          log {
            output file /var/log/a.log {
              roll_size 10mb
              roll_keep 3
            }
          }
          request_body {
            max_size 10MB
          }
          encode gzip
          file_server browse
          root * /srv
          handle /app/* {
            reverse_proxy app:1
          }
        }",
        "# Caddyfile:1
[site.\"a.example.com:80\"]
access_log = { to = \"/var/log/a.log\", rotate = { size = \"10MB\", keep = 3 } }
root = \"/srv\"
listing = true

# Caddyfile:15
[site.\"a.example.com:80\".path.\"/app/*\"]
proxy = \"app:1\"
compress = true
body = { max = \"10MB\" }

# Caddyfile:12
# /app/* of Caddy does not have /app itself.
[site.\"a.example.com:80\".path.\"/app\"]
",
    );
}

#[test]
fn php_is_left_out_with_its_files() {
    let text = ":80 {
          root * /srv
          php_fastcgi php:9000
          file_server
        }";
    assert!(!toml(text).contains("root"));
    assert!(is_refused(text, "php_fastcgi"));
    assert!(is_refused(text, ":80"));
}

#[test]
fn paths_are_rewritten() {
    becomes(
        ":80 {
          handle /a {
            rewrite * /b{uri}
            reverse_proxy app:1
          }
          handle /c/* {
            uri strip_prefix /c
            reverse_proxy app:1
          }
          respond 404
        }",
        "# Caddyfile:1
[site.\":80\"]
respond = 404

# Caddyfile:4
[site.\":80\".path.\"/a\"]
proxy = \"app:1\"
rewrite = \"/b{path}\"

# Caddyfile:8
[site.\":80\".path.\"/c/*\"]
proxy = \"app:1\"
strip_prefix = true

# Caddyfile:10
# /c/* of Caddy does not have /c itself.
[site.\":80\".path.\"/c\"]
",
    );
}

#[test]
fn tests_say_what_was_understood() {
    let imported = read("www.example.com {\n redir https://example.com{uri} 301\n}\n");
    let text = imported.draft.to_string();
    let test = "[[test]]
request = \"GET https://www.example.com/\"
expect = { site = \"www.example.com\", route = \"/*\", status = 301, location = \"https://example.com/\" }
";
    assert!(text.ends_with(test), "{text}");
}

#[test]
fn transports_and_refused_options() {
    let text = ":80 {
          reverse_proxy a:443 {
            transport http {
              tls_server_name b.example.com
              tls_insecure_skip_verify
              dial_timeout 3s
              keepalive off
            }
            lb_policy uri_hash
            handle_response {
              respond 200
            }
          }
        }";
    let toml = toml(text);
    assert!(
        toml.contains("tls = { name = \"b.example.com\" }"),
        "{toml}"
    );
    assert!(toml.contains("timeouts = { connect = \"3s\" }"));
    assert!(is_differs(text, "tls_insecure_skip_verify"));
    assert!(is_refused(text, "lb_policy"));
    assert!(is_refused(text, "handle_response"));
    let text = ":80 {\n reverse_proxy {\n dynamic a x\n }\n}\n";
    assert!(is_refused(text, "dynamic"));
}

#[test]
fn constants_are_put_in_their_places() {
    becomes(
        ":80 {
          vars app a:1
          reverse_proxy {vars.app}
        }",
        "# Caddyfile:1\n[site.\":80\"]\nproxy = \"a:1\"\n",
    );
    let text = ":80 {\n templates\n root * /srv\n file_server\n}\n";
    assert!(toml(text).contains("deny"));
    assert!(is_refused(text, "templates"));
}

#[test]
fn addresses_are_bound() {
    becomes(
        ":80 {\n bind 127.0.0.1\n respond 200\n}\n",
        "# Caddyfile:1\n[site.\":80\"]\nlisten = [\"127.0.0.1\"]\nrespond = 200\n",
    );
    let text = ":80 {\n bind tailscale/app\n reverse_proxy a:1\n}\n";
    assert!(toml(text).contains("deny"));
    assert!(is_refused(text, "bind"));
}

#[test]
fn segments_of_stars_are_parameters() {
    becomes(
        ":80 {
          reverse_proxy /a/*/c x:1
          header /a/b/c X-A y
          reverse_proxy y:1
        }"
        .replace("/a/b/c", "/1/2/3")
        .replace("/a/*/c", "/1/*/3")
        .as_str(),
        "# Caddyfile:1
[site.\":80\"]
proxy = \"y:1\"

# Caddyfile:2
[site.\":80\".path.\"/1/2/3\"]
proxy = \"x:1\"
headers = { x-a = \"y\" }

# Caddyfile:2
[site.\":80\".path.\"/1/{p2}/3\"]
proxy = \"x:1\"
",
    );
}

#[test]
fn files_that_are_fallen_back_to_are_those_of_their_own_place() {
    let auth = "{\n a $2a$14$abc\n }";
    // The words of `try_files`, the rest of the site, whether the part is closed.
    for (tried, rest, is_closed) in [
        (
            "{path} /app/index.html",
            format!(
                "basic_auth /app/* {auth}\n handle /app/* {{\n header X-A b\n file_server\n }}\n \
                 handle {{\n file_server\n }}"
            ),
            true,
        ),
        (
            "{path} /a.html",
            "respond /a.html 403\n file_server".to_owned(),
            true,
        ),
        (
            "{path} {path}.html",
            "respond /a.html 403\n file_server".to_owned(),
            true,
        ),
        (
            "{path} /a.x",
            "php_fastcgi /a.x php:1\n file_server".to_owned(),
            true,
        ),
        (
            "{path} /app/index.html",
            "handle /app/* {\n header X-A b\n file_server\n }\n file_server".to_owned(),
            false,
        ),
        (
            "{path} /a.html",
            "reverse_proxy /a.html a:1\n file_server".to_owned(),
            true,
        ),
        (
            "{path} /a/b.html",
            "handle /a/* {\n header X-A b\n }\n handle {\n file_server\n }".to_owned(),
            true,
        ),
        (
            "{path} /index.html",
            format!("basic_auth /1/* {auth}\n file_server"),
            false,
        ),
        (
            "{path} /a/b.html",
            "handle_path /a/* {\n file_server\n }\n file_server".to_owned(),
            false,
        ),
        (
            "{path} /app/index.html",
            "handle /app/* {\n root * /app\n file_server\n }\n file_server".to_owned(),
            false,
        ),
    ] {
        let text = format!(":80 {{\n root * /srv\n try_files {tried}\n {rest}\n}}\n");
        let toml = toml(&text);
        let site = toml.split("[site.\":80\".path").next().unwrap_or_default();
        assert_eq!(
            site.contains("deny = [\"0.0.0.0/0\", \"::/0\"]"),
            is_closed,
            "{toml}"
        );
        assert_eq!(is_refused(&text, "try_files"), is_closed, "{toml}");
        assert_eq!(is_differs(&text, "try_files"), !is_closed, "{toml}");
    }
    // The folder `/a/` is not for every client, and `/a` would send its index.
    let text = format!(
        ":80 {{\n root * /srv\n try_files {{path}} {{path}}/ /x.html\n basic_auth /a/* {auth}\n file_server\n}}\n"
    );
    let toml = toml(&text);
    let path = toml.split("path.\"/a\"]\n").nth(1).unwrap_or_default();
    assert!(path.starts_with("deny = "), "{toml}");
}

#[test]
fn fields_of_an_application_are_not_replaced_without_a_word() {
    // The directives, the beginning of the statement, whether the field is set, its verdict.
    for (text, statement, is_set, verdict) in [
        (
            "header ?X-A b\n reverse_proxy a:1",
            "header",
            true,
            "differs",
        ),
        (
            "header {\n ?X-A b\n }\n reverse_proxy a:1",
            "?X-A",
            true,
            "differs",
        ),
        (
            "header ?Cache-Control b\n reverse_proxy a:1",
            "header",
            false,
            "not",
        ),
        (
            "header {\n ?Cache-Control b\n }\n reverse_proxy a:1",
            "?Cache",
            false,
            "not",
        ),
        (
            "header ?X-Frame-Options b\n reverse_proxy a:1",
            "header",
            false,
            "not",
        ),
        (
            "reverse_proxy a:1 {\n header_down ?X-A b\n }",
            "header_down",
            true,
            "differs",
        ),
        (
            "reverse_proxy a:1 {\n header_down ?Vary b\n }",
            "header_down",
            false,
            "not",
        ),
        (
            "header ?Cache-Control b\n root * /srv\n file_server",
            "header",
            true,
            "",
        ),
        (
            "header ?ETag b\n root * /srv\n file_server",
            "header",
            false,
            "not",
        ),
        ("header ?Cache-Control b\n respond 200", "header", true, ""),
    ] {
        let text = format!(":80 {{\n {text}\n}}\n");
        assert_eq!(toml(&text).contains("= \"b\""), is_set, "{text}");
        assert_eq!(is_differs(&text, statement), verdict == "differs", "{text}");
        assert_eq!(is_refused(&text, statement), verdict == "not", "{text}");
    }
}

#[test]
fn late_fields_of_the_more_specific_path_win() {
    let text = |sign: &str| {
        format!(":80 {{\n header {sign}X-A all\n header /1 {sign}X-A one\n reverse_proxy a:1\n}}\n")
    };
    assert!(toml(&text(">")).contains("path.\"/1\"]\nheaders = { x-a = \"one\" }"));
    assert!(!toml(&text("")).contains("path"));
    let text = ":80 {\n header {\n match status 404\n X-A b\n }\n respond 200\n}\n";
    assert!(is_refused(text, "header"));
    assert!(!toml(text).contains("x-a"));
}

#[test]
fn a_test_of_a_wildcard_asks_for_a_host_of_no_other_site() {
    let text = "http://*.example.com {
          @a host a.example.com
          respond @a 200
          respond 404
        }";
    let toml = read(text).draft.to_string();
    assert!(
        toml.contains("request = \"GET http://some-host.example.com/\""),
        "{toml}"
    );
}

#[test]
fn a_site_that_is_left_out_does_not_fall_to_a_wildcard() {
    let text = "http://php.example.com {
          php_fastcgi php:9000
        }
        http://*.example.com {
          reverse_proxy a:1
        }";
    let toml = toml(text);
    assert!(
        toml.contains("[site.\"php.example.com:80\"]\nrespond = 404\n"),
        "{toml}"
    );
    assert!(is_refused(text, "http://php"));
}

#[test]
fn json_is_refused_with_a_reason() {
    let json = "{\n \"apps\": {\"layer4\": {\"servers\": {\"a\": {\"listen\": [\":443\"]}}}}}";
    let error = read_files(&[("Caddyfile", json)]).unwrap_err().to_string();
    assert!(
        error.starts_with("Caddyfile:1: this is Caddy's JSON"),
        "{error}"
    );
    let layer4 = "{\n layer4 {\n  :5432 {\n   route\n  }\n }\n}\n:80 {\n respond 200\n}\n";
    assert!(is_refused(layer4, "layer4") && is_refused(layer4, ":5432"));
}

#[test]
fn methods_have_routes_of_their_own() {
    becomes(
        ":80 {\n @post method POST\n respond @post 405\n @write {\n  method PUT DELETE\n  path /api/*\n }\n \
         reverse_proxy @write 10.0.0.2:80\n reverse_proxy 10.0.0.1:80\n}\n",
        "# Caddyfile:1\n[site.\":80\"]\nproxy = \"10.0.0.1:80\"\n\n\
         # Caddyfile:9\n# /api/* of Caddy does not have /api itself.\n[site.\":80\".path.\"/api/*\"]\n\n\
         # Caddyfile:9\n# /api/* of Caddy does not have /api itself.\n[site.\":80\".path.\"/api\"]\n\n\
         # Caddyfile:3\n[site.\":80\".path.\"POST /*\"]\nrespond = 405\n\n\
         # Caddyfile:8\n[site.\":80\".path.\"DELETE /api/*\"]\nproxy = \"10.0.0.2:80\"\n\n\
         # Caddyfile:3\n[site.\":80\".path.\"POST /api/*\"]\nrespond = 405\n\n\
         # Caddyfile:8\n[site.\":80\".path.\"PUT /api/*\"]\nproxy = \"10.0.0.2:80\"\n\n\
         # Caddyfile:3\n[site.\":80\".path.\"POST /api\"]\nrespond = 405\n",
    );
    // A route of GET is one of HEAD too.
    let text = toml(":80 {\n @get method GET\n respond @get 204\n reverse_proxy 10.0.0.1:80\n}\n");
    assert!(text.contains("\"GET /*\"]\nrespond = 204"), "{text}");
    assert!(text.contains("\"HEAD /*\"]\n"), "{text}");
    let text = toml(
        ":80 {\n @write not method GET HEAD\n respond @write 403\n root * /srv\n file_server\n}\n",
    );
    assert!(!text.contains("0.0.0.0/0"), "{text}");
    assert!(text.contains("[site.\":80\"]\nrespond = 403"), "{text}");
    assert!(text.contains("\"GET /*\"]\nroot = \"/srv\""), "{text}");
    assert!(!text.contains("HEAD"), "{text}");
}
