//! The static configuration, TLS and relays.

use super::converted;

#[test]
fn logs_timeouts_and_trust() {
    let (out, told) = converted(&[(
        "s.yml",
        "log: {level: WARN, format: json, filePath: /x.log}
accessLog: {filePath: /var/log/a.log, bufferingSize: 100, filters: {statusCodes: ['500']}}
global: {checkNewVersion: true, sendAnonymousUsage: false}
entryPoints:
  web:
    address: '127.0.0.1:8080'
    forwardedHeaders: {trustedIPs: [10.0.0.0/8], insecure: true}
    proxyProtocol: {trustedIPs: [10.0.0.1]}
    transport: {respondingTimeouts: {readTimeout: 60s, idleTimeout: 90s}, lifeCycle: {graceTimeOut: 10s}}
    http3: {}
providers: {docker: {exposedByDefault: false, watch: true}, consul: {endpoints: [x]}}
metrics: {prometheus: {entryPoint: web}}
http:
  routers: {a: {rule: Host(`a.com`), service: ping@internal}}
",
    )]);
    let expected = r#"trusted = ["10.0.0.0/8", "10.0.0.1"]
log = { level = "warn", format = "json" }
access_log = "combined:/var/log/a.log"
metrics = "127.0.0.1:9090"
"#;
    assert!(out.starts_with(expected), "{out}");
    for line in [
        "filePath: /x.log differs",
        "bufferingSize: 100 default",
        "statusCodes: [500] not supported",
        "checkNewVersion: true differs",
        "insecure: true not supported",
        "readTimeout: 60s differs",
        "http3: not supported",
        "watch: true differs",
        "endpoints: [x] not supported",
        "entryPoint: web differs",
    ] {
        assert!(
            told.iter().any(|said| said.starts_with(line)),
            "{line}\n{told:#?}"
        );
    }
    assert!(
        out.contains("idle = \"90s\"") && out.contains("deadline = \"10s\""),
        "{out}"
    );
}

#[test]
fn resolvers_and_options_of_tls() {
    let (out, told) = converted(&[(
        "s.yml",
        "entryPoints: {web: {address: ':80'}, tls: {address: ':443', http: {tls: {certResolver: le}}}}
accessLog: {format: json}
certificatesResolvers:
  le: {acme: {email: a@b.com, caServer: 'https://acme-staging-v02.api.letsencrypt.org/directory', keyType: RSA4096, dnsChallenge: {provider: cloudflare, resolvers: ['1.1.1.1:53']}}}
http:
  routers:
    a: {rule: 'HostRegexp(`^.+\\.a\\.com$`)', entryPoints: [tls], service: noop@internal}
    b: {rule: Host(`b.com`), entryPoints: [tls], service: noop@internal, tls: {certResolver: le, options: strict}}
    c: {rule: Host(`c.com`), entryPoints: [tls], service: noop@internal, tls: {options: unknown}}
    d: {rule: Host(`d.lan`), entryPoints: [tls], service: noop@internal, tls: {}}
tls:
  options:
    default: {minVersion: VersionTLS10, sniStrict: true, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_256_CBC_SHA]}
    strict: {minVersion: VersionTLS13, clientAuth: {caFiles: [/ca.pem], clientAuthType: RequireAndVerifyClientCert}}
",
    )]);
    for part in [
        "[acme]\nemail = \"a@b.com\"\ndirectory = \"letsencrypt-staging\"\nkey = \"rsa2048\"\ndns = { provider = \"cloudflare\", token = \"${env:CF_DNS_API_TOKEN}\", resolvers = [\"1.1.1.1:53\"] }\n",
        "[tls]\npolicy = { suites = [\"TLS13_AES_128_GCM_SHA256\", \"TLS13_AES_256_GCM_SHA384\", \"TLS13_CHACHA20_POLY1305_SHA256\", \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"] }\n",
        "[site.\"*.a.com\"]\nrespond = 418\n",
        "[site.\"b.com\"]\ntls = { client_auth = { ca = \"/ca.pem\" }, policy = \"modern\" }\nrespond = 418\n",
        "[site.\"d.lan\"]\ntls = \"internal\"\n",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(!out.contains("c.com"), "{out}");
    for line in [
        "keyType: RSA4096 differs",
        "minVersion: VersionTLS10 differs",
        "rule: Host(`c.com`) not supported its site is left out",
    ] {
        assert!(
            told.iter().any(|said| said.starts_with(line)),
            "{line}\n{told:#?}"
        );
    }
}

#[test]
fn relays() {
    let (out, told) = converted(&[(
        "s.toml",
        "[entryPoints.tls]\naddress = \":443\"\n[entryPoints.db]\naddress = \"127.0.0.1:5432\"\n
[tcp.routers.m]\nrule = \"HostSNI(`m.com`, `n.com`)\"\nentryPoints = [\"tls\"]\nservice = \"s\"\ntls = { passthrough = true }
[tcp.routers.all]\nrule = \"HostSNI(`*`)\"\nentryPoints = [\"tls\"]\nservice = \"s\"\ntls = { passthrough = true }
[tcp.routers.db]\nrule = \"HostSNI(`*`)\"\nentryPoints = [\"db\"]\nservice = \"two\"
[tcp.routers.no]\nrule = \"HostSNI(`x.com`) && ClientIP(`10.0.0.1`)\"\nentryPoints = [\"tls\"]\nservice = \"s\"\ntls = { passthrough = true }
[tcp.routers.mw]\nrule = \"HostSNI(`y.com`)\"\nentryPoints = [\"tls\"]\nservice = \"s\"\nmiddlewares = [\"lan\"]\ntls = { passthrough = true }
[tcp.services.s.loadBalancer]\nproxyProtocol = { version = 2 }\n[[tcp.services.s.loadBalancer.servers]]\naddress = \"10.0.0.5:443\"
[tcp.services.two.loadBalancer]\nterminationDelay = 100\n[[tcp.services.two.loadBalancer.servers]]\naddress = \"10.0.0.6:5432\"\n[[tcp.services.two.loadBalancer.servers]]\naddress = \"10.0.0.7:5432\"\n[accessLog]\nformat = \"json\"\n",
    )]);
    let expected = r#"# s.toml:6
# s.toml:11
[tcp.":443"]
proxy_protocol = "v2"
default = "10.0.0.5:443"

[tcp.":443".sni]
"m.com" = "10.0.0.5:443"
"n.com" = "10.0.0.5:443"

# s.toml:16
[tcp."127.0.0.1:5432"]
proxy = ["10.0.0.6:5432", "10.0.0.7:5432"]
"#;
    assert_eq!(out, expected);
    assert!(
        told.iter()
            .any(|line| line.contains("by server name and ALPN alone"))
    );
    assert!(
        told.iter()
            .any(|line| line.contains("a relay has no middlewares"))
    );
}

#[test]
fn entry_points_that_are_not_known() {
    let (out, told) = converted(&[(
        "d.yml",
        "http: {routers: {a: {rule: Host(`a.com`), entryPoints: [websecure], service: noop@internal, tls: {certResolver: x}}, b: {rule: Host(`b.com`), entryPoints: [odd], service: noop@internal}}}\n",
    )]);
    assert_eq!(
        out,
        "# no file has the certificate resolver: this is Let's Encrypt\n[acme]\n\n# d.yml:1\n[site.\"a.com\"]\nrespond = 418\n"
    );
    assert!(
        told.iter()
            .any(|line| line.contains("it is taken to be port 443"))
    );
    assert!(
        told.iter()
            .any(|line| line.contains("no file here defines the entry point odd"))
    );
}
