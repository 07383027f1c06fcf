"""How each program is configured as an HTTP/1.1 reverse proxy of one site, for the tables that need requests understood."""
import os
from dataclasses import dataclass, replace

from . import binaries, peers, processes
from .peers import _written as written
from .processes import BEFORE, BUILT, LOCKGATE

HOST = "shows.example"


@dataclass(frozen=True)
class Site:
    """One site in front of one or more origins."""
    upstreams: tuple              # "127.0.0.1:port"
    port: int = 0
    key: str | None = None        # "ecdsa", "rsa": TLS with that certificate; None: plain HTTP
    workers: int = 1
    users: str | None = None      # a file of users: basic authentication
    password: str | None = None   # the same one user "bench" as HAProxy wants it: the hash
    health: str | None = None     # a path asked every second; two failures take an endpoint out
    timeouts: str | None = None   # Lockgate's `timeouts` value
    metrics: int | None = None    # port of Lockgate's metrics address
    h2: bool = False              # over TLS: clients may have HTTP/2, and WebSockets over it
    h2c: bool = False             # without TLS: Lockgate's clients have HTTP/2 by prior knowledge, and WebSockets over it
    endpoint: str = "http1"       # what Lockgate speaks to the origins: "http1" or "h2c"
    admin: bool = False           # Lockgate's admin socket, HAProxy's stats socket

    few_descriptors = False

    @property
    def certificate(self):
        return f"{BUILT}/certs/{self.key}.crt"

    @property
    def private_key(self):
        return f"{BUILT}/certs/{self.key}.key"


def lockgate(site, directory, binary=LOCKGATE):
    text = [f"workers = {site.workers}", "access_log = false"]
    if site.metrics:
        text.append(f'metrics = "127.0.0.1:{site.metrics}"')
    if site.admin:
        text.append(f'admin = "unix:{directory}/admin.socket"')
    if site.timeouts:
        text.append(f"timeouts = {site.timeouts}")
    text += ["[pool.origins]", f"endpoints = {list(site.upstreams)}".replace("'", '"')]
    if site.health:
        text.append(f'health = {{ path = "{site.health}", every = "1s", timeout = "500ms", fall = 2 }}')
    if site.endpoint != "http1":
        text.append(f'protocol = "{site.endpoint}"')
    text += [f'[site.":{site.port}"]', 'listen = ["127.0.0.1"]', 'proxy = "pool:origins"']
    if site.h2c:
        text.append('protocols = ["h2c"]')
    if site.key:
        text.append(f'tls = {{ cert = "{site.certificate}", key = "{site.private_key}" }}')
    if site.users:
        text.append(f'auth = {{ basic = "{site.users}" }}')
    return written(directory, "lockgate.toml", text), [binary, "run", "-c", f"{directory}/lockgate.toml"]


def lockgate_before(site, directory):
    return lockgate(site, directory, BEFORE)


def nginx(site, directory, buffering=False, build=None):
    build = build or binaries.build("nginx")
    tls = peers.nginx_tls(site, build)
    users = f'auth_basic bench; auth_basic_user_file {site.users};' if site.users else ""
    text = ["daemon off;", "user root;" if os.geteuid() == 0 else "", f"worker_processes {site.workers};", f"pid {directory}/nginx.pid;", f"error_log {directory}/error.log crit;",
            "worker_rlimit_nofile 20000; events { worker_connections 19000; }",
            "http { access_log off; client_max_body_size 0; client_body_temp_path " + directory + "/body;",
            "  map $http_upgrade $upgrade { default upgrade; '' ''; }",
            "  upstream origins { keepalive 256; " + " ".join(f"server {u};" for u in site.upstreams) + " }",
            f"  server {{ {peers.nginx_listen(build, site.port, bool(site.key), site.h2)} {tls} {users}",
            f"    location / {{ proxy_pass http://origins; proxy_http_version 1.1; proxy_request_buffering {'on' if buffering else 'off'}; proxy_buffering {'on' if buffering else 'off'};",
            "      proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $http_host;",
            "      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $upgrade; proxy_read_timeout 1h; } } }"]
    return written(directory, "nginx.conf", text), [build.path, "-p", directory, "-c", f"{directory}/nginx.conf", "-e", f"{directory}/error.log"]


def nginx_buffering(site, directory, build=None):
    return nginx(site, directory, buffering=True, build=build)


def haproxy(site, directory, build=None):
    build = build or binaries.build("haproxy")
    text = ["global", f"  nbthread {site.workers}", "  maxconn 9500", f"  ssl-default-bind-ciphersuites {peers.SUITES}", f"  ssl-default-bind-ciphers {peers.SUITES_12}",
            "  tune.h2.initial-window-size 1048576" if site.h2 else "", f"  stats socket {directory}/socket level admin" if site.admin else "",
            "userlist bench" if site.password else "", f"  user bench password {site.password}" if site.password else "",
            "defaults", "  mode http", "  maxconn 9500", "  timeout connect 5s", "  timeout client 60s", "  timeout server 60s", "  timeout tunnel 1h", "  timeout http-request 10s",
            "listen site", f"  bind 127.0.0.1:{site.port} backlog 8192 defer-accept {f'ssl crt {BUILT}/certs/{site.key}.pem' if site.key else ''}{' alpn h2,http/1.1' if site.h2 else ''}",
            "  http-request auth unless { http_auth(bench) }" if site.password else "",
            f"  http-request set-header X-Forwarded-Proto {'https' if site.key else 'http'}", "  http-request set-header X-Forwarded-Host %[req.hdr(host)]",
            f"  option httpchk GET {site.health}" if site.health else "",
            "  option redispatch 1\n  retries 1\n  retry-on conn-failure empty-response\n  http-request disable-l7-retry unless METH_GET" if site.health else "",
            *(f"  server o{n} {u}{' check inter 1s fall 2' if site.health else ''}" for n, u in enumerate(site.upstreams))]
    return written(directory, "haproxy.cfg", text), [build.path, "-f", f"{directory}/haproxy.cfg"]


KINDS = {"lockgate": lockgate, "lockgate-before": lockgate_before, "haproxy": haproxy, "nginx": nginx, "nginx-buffering": nginx_buffering}
KINDS = peers.newer(KINDS)
PEERS = binaries.with_newer([*peers.OURS, "haproxy", "nginx"])


def start(name, site, cores=processes.TESTED):
    """Starts the peer in front of the site and waits until it listens."""
    return peers.start(name, replace(site, port=site.port or processes.free_port()), cores, KINDS)
