"""How each program under test is configured for the same work, and how it is started.

A `Front` says what is wanted; one function per program writes it in that program's language. Logs are off, or a file of
JSON lines where a table asks for that.
"""
import functools
import os
import shutil
import subprocess
from dataclasses import dataclass, field, replace

from . import binaries, processes
from .processes import BEFORE, BUILT, LOCKGATE, Process


@dataclass(frozen=True)
class Front:
    """One listener in front of one origin."""
    port: int
    upstream: str                 # "unix:/path" or "127.0.0.1:port"
    host: str = field(default_factory=lambda: processes.CLIENTS.program)
    key: str | None = None        # "ecdsa", "rsa": TLS with that certificate; None: plain TCP
    pem: str | None = None        # certificate and key in this one file instead
    workers: int = 1
    metrics: int | None = None    # port of Lockgate's metrics address
    few_descriptors: bool = False
    client_ca: str | None = None  # clients must have a certificate of this authority
    tickets: str | None = None    # Lockgate's [tls] tickets value, nginx's ticket key file
    http: bool = False            # an HTTP/1.1 proxy with kept connections to the origin and X-Forwarded-For; else bytes are relayed
    log: str | None = None        # a JSON access log in this file; HAProxy writes to no file
    h2: bool = False              # of `http` over TLS: clients may have HTTP/2
    large: bool = False           # bodies of 100 KB and more: buffers of 64 KB for peers whose own are 16 KB
    upgrades: bool = False        # of `http`: WebSockets come, which nginx must be told of
    user: str | None = None       # Lockgate and HAProxy change to this user, whose pipes share `pipe-user-pages-soft`
    endpoint: str = "http1"       # of `http`, what is spoken to the origin: "http1", "h2c", or over TLS "https" and "h2"

    @property
    def certificate(self):
        return self.pem or f"{BUILT}/certs/{self.key}.crt"

    @property
    def private_key(self):
        return self.pem or f"{BUILT}/certs/{self.key}.key"

    @property
    def both(self):
        return self.pem or f"{BUILT}/certs/{self.key}.pem"

    @property
    def tls(self):
        return bool(self.key or self.pem)


class DidNotStart(Exception):
    """A peer that did not start; its message says why."""


def lockgate(front, directory, binary=LOCKGATE):
    text = [f"workers = {front.workers}", f'access_log = "{front.log}"' if front.log else "access_log = false"]
    if front.metrics:
        text.append(f'metrics = "127.0.0.1:{front.metrics}"')
    if front.user:
        text.append(f'user = "{front.user}"')
    if front.client_ca or front.tickets:
        text.append("[tls]")
    if front.client_ca:
        text.append(f'client_auth = {{ mode = "require", ca = "{front.client_ca}" }}')
    if front.tickets:
        text.append(f"tickets = {front.tickets}")
    text += [f'[site.":{front.port}"]', f'listen = ["{front.host}"]'] if front.http else [f'[tcp."{front.host}:{front.port}"]']
    if front.pem:
        text.append(f'tls = {{ cert = "{front.pem}" }}')
    elif front.key:
        text.append(f'tls = {{ cert = "{front.certificate}", key = "{front.private_key}" }}')
    text.append('proxy = "pool:origin"' if front.endpoint != "http1" else f'proxy = "{front.upstream}"')
    if front.endpoint != "http1":
        text += ["[pool.origin]", f'endpoints = ["{front.upstream}"]', f'protocol = "{front.endpoint.replace("https", "http1")}"']
        text += [f'tls = {{ name = "localhost", ca = "{BUILT}/certs/endpoint.crt" }}'] if front.endpoint != "h2c" else []
    return _written(directory, "lockgate.toml", text), [binary, "run", "-c", f"{directory}/lockgate.toml"]


def lockgate_before(front, directory):
    return lockgate(front, directory, BEFORE)


def lockgate_relay(front, directory):
    return lockgate(front, directory)


# TLS 1.3's suites in the order of preference that every peer gets: an AES-128 that all of them take, whether the server's list counts or the client's.
SUITES = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
SUITES_12 = ":".join(f"ECDHE-{key}-{suite}" for suite in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305") for key in ("ECDSA", "RSA"))


def nginx_listen(build, port, tls, h2=False, stream=False, host="127.0.0.1"):
    """The `listen` of a server, and what HTTP/2 needs besides: it is an option of its own from 1.25.1 on.

    Deferred: it is woken with the first bytes of a client instead of with the connection, one wait less for each connection.
    nginx's stream module knows that word from 1.25.5 on.
    """
    own = h2 and build.numbers >= (1, 25, 1)
    words = ["ssl" * tls, "http2" * (h2 and not own), "backlog=8192", "deferred" * (not stream or build.numbers >= (1, 25, 5))]
    return f"listen {host}:{port} {' '.join(filter(None, words))};{' http2 on;' if own else ''}"


def nginx_tls(front, build):
    """Sessions in a cache and in tickets; the server's order of suites, AES-128 first, as AWS-LC and BoringSSL have TLS 1.3's by themselves."""
    if not front.key and not getattr(front, "pem", None):
        return ""
    suites = "" if build.tls.startswith(("AWS-LC", "BoringSSL")) else f"ssl_conf_command Ciphersuites {SUITES}; "
    return (f"ssl_certificate {front.certificate}; ssl_certificate_key {front.private_key}; ssl_protocols TLSv1.2 TLSv1.3; "
            f"ssl_session_cache shared:S:10m; ssl_session_tickets on; ssl_prefer_server_ciphers on; ssl_ciphers {SUITES_12}; {suites}"
            "ssl_ecdh_curve X25519:prime256v1;")


def nginx(front, directory, build=None):
    build = build or binaries.build("nginx")
    tls = nginx_tls(front, build)
    if front.client_ca:
        tls += f" ssl_verify_client on; ssl_client_certificate {front.client_ca};"
    if front.tickets:
        tls += f" ssl_session_ticket_key {front.tickets};"
    text = ["" if front.http else build.module("stream"), "daemon off;", "user root;" if os.geteuid() == 0 else "",
            f"worker_processes {front.workers};", f"pid {directory}/nginx.pid;", f"error_log {directory}/error.log crit;",
            "events { worker_connections 256; }" if front.few_descriptors else "worker_rlimit_nofile 20000; events { worker_connections 19000; }"]
    if front.http:
        text += nginx_http(front, directory, tls, build)
    else:
        # Its pieces are 16 KB else, and large bodies then cost a quarter more (TLS upload: 523-654 against 457-499 µs for 768 KB).
        large = "proxy_buffer_size 64k;" if front.large else ""
        text += [f"stream {{ upstream origin {{ server {front.upstream}; }}",
                 f"  server {{ {nginx_listen(build, front.port, front.tls, stream=True, host=front.host)} {tls} {large} proxy_pass origin; tcp_nodelay on; }} }}"]
    return _written(directory, "nginx.conf", text), [build.path, "-p", directory, "-c", f"{directory}/nginx.conf", "-e", f"{directory}/error.log"]


# What a line of Lockgate's access log has in it, in nginx's words.
LOGGED = {"time": "time_iso8601", "id": "request_id", "connection": "connection", "client": "remote_addr", "client_port": "remote_port", "method": "request_method",
          "scheme": "scheme", "host": "host", "target": "request_uri", "protocol": "server_protocol", "status": "status", "received_bytes": "request_length",
          "sent_bytes": "body_bytes_sent", "duration_seconds": "request_time", "wait_seconds": "upstream_connect_time", "first_byte_seconds": "upstream_header_time",
          "body_seconds": "upstream_response_time", "site": "server_name", "pool": "proxy_host", "endpoint": "upstream_addr"}


def nginx_http(front, directory, tls, build):
    """The http block: bodies stream through as they do in the others, and no number of requests ends a connection.

    With its own sizes of buffers, 4 KB pieces, 100 KB there and back cost it twice of what they cost with these.
    """
    fields = ",".join(f'"{name}":"${variable}"' for name, variable in LOGGED.items())
    log = f"log_format lines escape=json '{{{fields}}}'; access_log {front.log} lines buffer=64k flush=1s;" if front.log else "access_log off;"
    temporary = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # Frames of 64 KB in place of 8 KB; a window of 1 MB for uploads in place of 64 KB, as HAProxy gets it.
    h2 = "http2_chunk_size 64k; http2_body_preread_size 1m;" if front.h2 else ""
    to = ('grpc_pass grpc://origin; grpc_read_timeout 300s; grpc_set_header X-Forwarded-For $remote_addr;' if front.endpoint == "h2c" else  # its only way to HTTP/2 without TLS before 1.29.4
          'proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Host $http_host;')
    return [f"http {{ {log} {temporary}", "  keepalive_requests 1000000000; keepalive_timeout 300s; tcp_nodelay on; client_max_body_size 0;",
            f"  upstream origin {{ server {front.upstream}; keepalive 8192; keepalive_requests 1000000000; keepalive_timeout 300s; }}",
            "  map $http_upgrade $connection_to { default upgrade; '' ''; }" if front.upgrades else "",
            f"  server {{ {nginx_listen(build, front.port, front.tls, front.h2, host=front.host)} {tls} {h2}",
            f"    location / {{ {to}",
            "      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_to; proxy_read_timeout 300s;" if front.upgrades else '      proxy_set_header Connection "";',
            "      proxy_set_header X-Forwarded-For $remote_addr; proxy_request_buffering off; client_body_buffer_size 64k;",
            "      proxy_max_temp_file_size 0; proxy_buffer_size 16k; proxy_buffers 16 16k; proxy_busy_buffers_size 64k; } } }"]


def haproxy(front, directory, splice=False, build=None):
    """As its own manual tunes it; where bytes are only moved, `haproxy-copies` is what it does without `splice`."""
    build = build or binaries.build("haproxy")
    upstream = front.upstream.replace("unix:", "unix@")
    most = "" if front.few_descriptors else f"  maxconn {3000 if splice else 9500}"  # splicing takes two descriptors more for each
    mode = ["  mode http", "  http-reuse always", "  option forwardfor"] if front.http else ["  mode tcp"]
    ssl = f"ssl crt {front.both} curves X25519:P-256" if front.tls else ""
    ssl += " alpn h2,http/1.1" if front.h2 else ""
    spoken = {"http1": "", "h2c": " proto h2", "https": " ssl verify none", "h2": " ssl verify none alpn h2"}[front.endpoint]
    tuned = []
    if splice:
        tuned.append("  tune.pipesize 1048576")  # more in a call than the 64 KB of a pipe
    if front.large:
        tuned.append("  tune.bufsize 65536")  # TLS upload of 768 KB: 651-1,340 µs with its own 16 KB, 487-599 with these
    if front.h2:
        tuned.append("  tune.h2.initial-window-size 1048576")  # 64 KB else: an upload then waits for each of our answers to it
    if front.tls:
        tuned += [f"  ssl-default-bind-ciphersuites {SUITES}", f"  ssl-default-bind-ciphers {SUITES_12}"]
    if front.user:
        tuned.append(f"  user {front.user}")
    text = ["global", f"  nbthread {front.workers}", most, *tuned, "defaults", *mode, "  timeout connect 5s", "  timeout client 300s", "  timeout server 300s", "  timeout tunnel 1h" if front.upgrades else "",
            # splice-auto does not splice such streams (HAProxy 2.6 and 3.5).
            most, *(["  option splice-request", "  option splice-response"] if splice else []),
            # defer-accept: it is woken with a client's first bytes.
            "listen relay", f"  bind {front.host}:{front.port} backlog 8192 defer-accept {ssl}",
            f"  server origin {upstream}{spoken}"]
    return _written(directory, "haproxy.cfg", text), [build.path, "-f", f"{directory}/haproxy.cfg"]


def haproxy_splice(front, directory, build=None):
    return haproxy(front, directory, splice=True, build=build)


def hitch(front, directory, build=None):
    """It defers its accepts by itself, and its buffers grow by themselves."""
    build = build or binaries.build("hitch")
    upstream = front.upstream.removeprefix("unix:") if front.upstream.startswith("unix:") else "[{}]:{}".format(*front.upstream.split(":"))
    text = [f'frontend = "[{front.host}]:{front.port}"', f'backend = "{upstream}"', f'pem-file = "{front.both}"', f"workers = {front.workers}",
            "backlog = 8192", 'user = "nobody"' if os.geteuid() == 0 else "", "daemon = off", "tls-protos = TLSv1.2 TLSv1.3", "log-level = 0", "syslog = off", 'ocsp-dir = ""',
            "prefer-server-ciphers = on", f'ciphersuites = "{SUITES}"', f'ciphers = "{SUITES_12}"', 'ecdh-curve = "X25519:prime256v1"']
    return _written(directory, "hitch.conf", text), [build.path, f"--config={directory}/hitch.conf"]


def h2o_head(build, port, front, workers):
    """h2o's settings of the process and its one listener, which defers accepts by itself and offers HTTP/2 to clients that ask for it."""
    text = [f"num-threads: {workers}", "max-connections: 19000", "user: root" if os.geteuid() == 0 else "", "error-log: /dev/null",
            "http2-idle-timeout: 300", "http1-request-timeout: 300",
            "listen:", f"  host: {getattr(front, 'host', '127.0.0.1')}", f"  port: {port}"]
    if front.key or getattr(front, "pem", None):
        text += ["  ssl:", f"    certificate-file: {front.certificate}", f"    key-file: {front.private_key}", "    minimum-version: TLSv1.2", "    ocsp-update-interval: 0",
                 f'    cipher-suite: "{SUITES_12}"', "    cipher-preference: server"]
        if build.numbers >= (2, 3):  # picotls has a list of its own; before, TLS 1.3 was OpenSSL's
            text.append(f"    cipher-suite-tls1.3: [{', '.join(SUITES.split(':'))}]")
    return text


def h2o(front, directory, build=None):
    """A proxy only: h2o relays no bytes and writes no Unix sockets' peers here. Connections to the origin are kept by itself."""
    build = build or binaries.build("h2o")
    if not front.http:
        raise DidNotStart("it is no relay")
    if front.endpoint != "http1" or front.upgrades or front.log:
        raise DidNotStart("not configured for that")
    text = [*h2o_head(build, front.port, front, front.workers), "hosts:", "  default:", "    paths:", "      /:",
            f"        proxy.reverse.url: http://{front.upstream}/", "        proxy.preserve-host: ON", "        proxy.timeout.keepalive: 300000", "        proxy.timeout.io: 300000"]
    return _written(directory, "h2o.conf", text), [build.path, "-m", "worker", "-c", f"{directory}/h2o.conf"]


def caddy(front, directory, build=None):
    """One thread as the others have one; its pool of connections to the origin is 32 else."""
    build = build or binaries.build("caddy")
    if not front.http:
        raise DidNotStart("it is no relay in stock form")
    if front.endpoint != "http1" or front.log:
        raise DidNotStart("not configured for that")
    # Its tls directive takes no order of TLS 1.3's suites: Go has the client's wish, and the generators offer one.
    tls = f"  tls {front.certificate} {front.private_key} {{\n    curves x25519\n  }}" if front.tls else ""
    # h2load names no host to an address, and the certificate is localhost's.
    text = ["{", "  admin off", "  auto_https off", "  default_sni localhost", f"  storage file_system {directory}", "  log {", "    output discard", "  }",
            "  servers {", f"    protocols h1{' h2' if front.h2 else ''}", "  }", "}",
            ", ".join(f"{'https' if front.tls else 'http'}://{host}:{front.port}" for host in (front.host, "localhost")) + " {", f"  bind {front.host}", tls,
            f"  reverse_proxy {front.upstream} {{\n    transport http {{\n      keepalive_idle_conns 8192\n      keepalive_idle_conns_per_host 8192\n    }}\n  }}", "}"]
    return _written(directory, "Caddyfile", text), ["env", f"XDG_CONFIG_HOME={directory}", f"XDG_DATA_HOME={directory}", f"GOMAXPROCS={front.workers}", build.path, "run", "--config", f"{directory}/Caddyfile", "--adapter", "caddyfile"]


def http_tunnel(front, directory):
    return http_tunnel_as("tcp", ["--destination", front.upstream], front, directory)


def http_tunnel_as(mode, options, front, directory):
    """No rate is too low or too high for it, and it says nothing of each connection. It reads how to log below where it is started."""
    policy = ["  relay_policy:", "    idle_timeout: 60s", "    min_rate_bpm: 0", "    max_rate_bps: 100000000000"]
    text = ["client_connection:", "  initiation_timeout: 10s", *policy,
            "target_connection:", "  dns_cache_ttl: 60s", '  allowed_targets: ".*"', "  connect_timeout: 10s", *policy]
    os.makedirs(os.path.join(directory, "config"))
    _written(directory, "config/log4rs.yaml", ["appenders:", "  stdout:", "    kind: console", "root:", "  level: error", "  appenders:", "    - stdout"])
    path = _written(directory, "config.yaml", text)
    return path, [f"{BUILT}/bin/http-tunnel", "--config", path, "--bind", f"{front.host}:{front.port}", mode, *options]


def go_relay(front, directory, *how):
    return None, [f"{BUILT}/bin/go-relay", f"{front.host}:{front.port}", front.upstream, *how]


def go_relay_copy(front, directory):
    return go_relay(front, directory, "copy")


PEERS = {"lockgate": lockgate, "lockgate-relay": lockgate_relay, "hitch": hitch, "haproxy": haproxy, "nginx": nginx, "haproxy-copies": haproxy, "haproxy-splice": haproxy_splice,
         "http-tunnel": http_tunnel, "go-relay": go_relay, "go-relay-copy": go_relay_copy, "h2o": h2o, "caddy": caddy}
OURS = ["lockgate"]
if BEFORE:
    PEERS["lockgate-before"] = lockgate_before
    OURS.append("lockgate-before")


def newer(kinds):
    """The same kinds with the builds of PEERS_BIN beside them, each configured by the same function."""
    added = {name + binaries.SUFFIX: functools.partial(kind, build=binaries.build(name + binaries.SUFFIX)) for name, kind in kinds.items() if binaries.kind_of(name) in binaries.BUILDS}
    return kinds | added if binaries.NEW else kinds


PEERS = newer(PEERS)
TLS_PEERS = binaries.with_newer([*OURS, "hitch", "haproxy", "nginx"])
HTTP_PEERS = binaries.with_newer([*OURS, "haproxy", "nginx", *binaries.present("h2o")])
HTTP_PEERS += [name for name in ("h2o-new", "caddy-new") if binaries.NEW and name not in HTTP_PEERS]
RELAYS = binaries.with_newer([*OURS, "haproxy-copies", "haproxy-splice", "nginx"]) + ["http-tunnel", "go-relay", "go-relay-copy"]


def _written(directory, name, lines):
    with open(os.path.join(directory, name), "w") as f:
        f.write("\n".join(line for line in lines if line) + "\n")
    return os.path.join(directory, name)


def start(name, front, cores=processes.TESTED, kinds=PEERS):
    """Starts the peer and waits until it listens; `kinds`: who writes the configuration."""
    if not front.port:
        front = replace(front, port=processes.free_port())
    directory = processes.fresh_directory(f"{name}-{front.port}")
    _, argv = kinds[name](front, directory)
    if binary := missing(argv):
        raise DidNotStart(f"there is no {binary}")
    process = Process(argv, cores, name, descriptors=300 if front.few_descriptors else None, cwd=directory)
    process.port, process.front, process.directory = front.port, front, directory
    if not process.listens(front.port, host=getattr(front, "host", "127.0.0.1")):
        said = process.said().strip()
        code = process.popen.poll()
        process.stop()
        raise DidNotStart(f"{'did not listen' if code is None else f'ended with {code}'}: {said[-300:] or 'without a word'}")
    return process


def missing(argv):
    """The program of a command that is not there, as a reader is to be told: `env` may come before it."""
    binary = next(word for word in argv if word != "env" and "=" not in word)
    if shutil.which(binary):
        return None
    if binaries.NEW and binary.startswith(binaries.NEW + "/"):
        return f"{os.path.basename(binary)} in PEERS_BIN"
    return os.path.relpath(binary, processes.REPOSITORY) if os.path.isabs(binary) else binary


def versions():
    """What each program says of itself, for the head of a report; `-new`: those of PEERS_BIN."""
    names = ["lockgate", *binaries.BUILDS[:3], *binaries.present("h2o"), *(kind + binaries.SUFFIX for kind in binaries.BUILDS if binaries.NEW)]
    said = {name: str(binaries.build(name)).partition(" ")[2] if shutil.which(binaries.build(name).path) else "absent" for name in names}
    ask = {"wrk": ["wrk", "-v"], "h2load": ["h2load", "--version"], "node": ["node", "--version"], "openssl": ["openssl", "version"]}
    for name, argv in ask.items():
        try:
            r = subprocess.run(argv, capture_output=True, text=True, timeout=10)
            said[name] = (r.stdout + r.stderr).strip().splitlines()[0][:60]
        except (OSError, IndexError, subprocess.TimeoutExpired):
            said[name] = "absent"
    return said
