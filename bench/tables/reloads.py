"""How each program is configured for the tables of reloads: what changes with every reload, and many sites."""
import os
import shutil
import subprocess
from dataclasses import dataclass

from . import binaries, peers, processes
from .peers import _written as written
from .processes import BUILT

LISTENERS = 8  # the ports that the listener takes in turn which changes with every reload
ROUTES = ("api", "img", "static")
RELOADED = "the configuration was reloaded"  # in Lockgate's log


@dataclass(frozen=True)
class Changing:
    """HTTPS with HTTP/2 and WebSockets, a relay, a tunnel where there is one; route, endpoint, certificate and one listener are those of a number."""
    tls: int
    relay: int
    tunnel: int
    metrics: int
    changing: tuple               # ports
    echoes: tuple                 # three origins: the first is always there, the other two take turns
    mixed: str                    # the origin of WebSockets, slow uploads and downloads
    certificates: tuple           # two files with certificate and key
    user: str = ""                # the `user` of Lockgate

    def port(self, n):
        return self.changing[n % LISTENERS]

    def endpoints(self, n):
        return self.echoes[0], self.echoes[1 + n % 2]

    def certificate(self, n):
        return self.certificates[n % 2]


def lockgate(c, n, build):
    one, two = c.endpoints(n)
    return [*([f'user = "{c.user}"'] if c.user else []), "workers = 1", "access_log = false", f'metrics = "127.0.0.1:{c.metrics}"', 'admin = "unix:DIRECTORY/admin.socket"', f'[pool.app]\nendpoints = ["{one}", "{two}"]',
            f'[site.":{c.tls}"]\nlisten = ["127.0.0.1"]\ntls = "{c.certificate(n)}"\nproxy = "pool:app"',
            f'path."/r{n}" = {{ respond = {{ body = "{n}" }} }}', f'path."/mixed/*" = {{ proxy = "{c.mixed}", strip_prefix = true }}',
            f'[site.":{c.port(n)}"]\nlisten = ["127.0.0.1"]\nrespond = {{ body = "{n}" }}',
            f'[tcp."127.0.0.1:{c.relay}"]\nproxy = "pool:app"', f'[tunnel."127.0.0.1:{c.tunnel}"]\nallow = ["127.0.0.1:*"]\nprivate = true']


def nginx(c, n, build):
    one, two = c.endpoints(n)
    return [*nginx_head(1, build), f"stream {{ upstream app {{ server {one}; server {two}; }}",
            f"  server {{ listen 127.0.0.1:{c.relay} backlog=8192; proxy_pass app; tcp_nodelay on; proxy_timeout 1h; }} }}",
            *nginx_http(), "  map $http_upgrade $upgrade { default upgrade; '' ''; }",
            f"  upstream app {{ server {one}; server {two}; keepalive 64; }} upstream mixed {{ server {c.mixed}; keepalive 64; }}",
            f"  server {{ {peers.nginx_listen(build, c.tls, True, True)} ssl_certificate {c.certificate(n)}; ssl_certificate_key {c.certificate(n)};",
            f'    location = /r{n} {{ return 200 "{n}"; }}', "    location /mixed/ { proxy_pass http://mixed/; proxy_set_header Connection $upgrade; proxy_set_header Upgrade $http_upgrade; }",
            "    location / { proxy_pass http://app; } }", f'  server {{ listen 127.0.0.1:{c.port(n)}; location / {{ return 200 "{n}"; }} }} }}']


def haproxy(c, n, build):
    one, two = c.endpoints(n)
    return [*haproxy_head(1), f"frontend site\n  bind 127.0.0.1:{c.tls} backlog 8192 ssl crt {c.certificate(n)} alpn h2,http/1.1",
            f"  http-request return status 200 content-type text/plain string {n} if {{ path /r{n} }}", "  use_backend mixed if { path_beg /mixed/ }\n  default_backend app",
            f"frontend changing\n  bind 127.0.0.1:{c.port(n)}\n  http-request return status 200 content-type text/plain string {n}",
            f"backend app\n  server one {one}\n  server two {two}", f"backend mixed\n  http-request replace-path /mixed(/.*) \\1\n  server mixed {c.mixed}",
            f"listen relay\n  mode tcp\n  bind 127.0.0.1:{c.relay} backlog 8192\n  server one {one}\n  server two {two}"]


@dataclass(frozen=True)
class Many:
    """Sites with four routes each, on one address with TLS; one path of the first says which number the configuration has."""
    tls: int
    sites: int
    certificates: tuple           # a file with certificate and key for each site, or one for all

    def name(self, site):
        return f"s{site}.example.test"

    def endpoint(self, site, route):
        return f"10.{site >> 8}.{site & 255}.{route}:8080"


def many_lockgate(m, n, build, directory):
    shared = len(m.certificates) == 1
    text = ["workers = 2", "access_log = false", f"ports = {{ https = {m.tls} }}"]
    text += [f'[tls]\ncerts = ["{m.certificates[0]}"]'] if shared else []
    for s in range(m.sites):
        text += [f'[site."{m.name(s)}"]\nlisten = ["127.0.0.1"]'] + ([] if shared else [f'tls = "{m.certificates[s]}"'])
        text += [f'path."/now" = {{ respond = {{ body = "{n}" }} }}'] if s == 0 else []
        text += [f'path."/{route}/*" = {{ proxy = "{m.endpoint(s, r)}" }}' for r, route in enumerate(ROUTES, 1)]
        text.append(f'path."/*" = {{ proxy = ["{m.endpoint(s, 4)}", "{m.endpoint(s, 5)}"] }}')
    return text


def many_nginx(m, n, build, directory):
    shared = len(m.certificates) == 1
    text = [*nginx_head(2, build), *nginx_http(), "  server_names_hash_max_size 65536; server_names_hash_bucket_size 128;"]
    text += [f"  ssl_certificate {m.certificates[0]}; ssl_certificate_key {m.certificates[0]};"] if shared else []
    for s in range(m.sites):
        text.append(f"  upstream pair{s} {{ server {m.endpoint(s, 4)}; server {m.endpoint(s, 5)}; }}")
        text.append(f"  server {{ {peers.nginx_listen(build, m.tls, True, True)} server_name {m.name(s)};")
        text += [] if shared else [f"    ssl_certificate {m.certificates[s]}; ssl_certificate_key {m.certificates[s]};"]
        text += [f'    location = /now {{ return 200 "{n}"; }}'] if s == 0 else []
        text += [f"    location /{route}/ {{ proxy_pass http://{m.endpoint(s, r)}; }}" for r, route in enumerate(ROUTES, 1)]
        text.append(f"    location / {{ proxy_pass http://pair{s}; }} }}")
    return [*text, "}"]


def many_haproxy(m, n, build, directory):
    """Hosts and paths are looked up in one map, as its manual has it for many sites."""
    routes = [f"{m.name(s)}/{route} b{s}-{r}" for s in range(m.sites) for r, route in enumerate((*(f"{route}/" for route in ROUTES), ""), 1)]
    found = written(directory, "routes.map", routes)
    listed = written(directory, "certificates", m.certificates)
    text = [*haproxy_head(2), f"frontend site\n  bind 127.0.0.1:{m.tls} ssl crt-list {listed} alpn h2,http/1.1",
            f"  http-request return status 200 content-type text/plain string {n} if {{ path /now }}", f"  use_backend %[base,lower,map_beg({found})]"]
    for s in range(m.sites):
        text += [f"backend b{s}-{r}\n  server one {m.endpoint(s, r)}" for r in range(1, 5)]
        text.append(f"  server two {m.endpoint(s, 5)}")
    return text


def nginx_head(workers, build):
    return [build.module("stream"), "daemon off;", "user root;" if os.geteuid() == 0 else "", f"worker_processes {workers};", "pid DIRECTORY/nginx.pid;",
            "error_log DIRECTORY/error.log crit;", "worker_rlimit_nofile 20000; events { worker_connections 19000; }"]


def nginx_http():
    temporary = " ".join(f"{kind}_temp_path DIRECTORY/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return [f"http {{ access_log off; {temporary} client_max_body_size 0; keepalive_requests 1000000000; keepalive_timeout 300s;",
            '  proxy_http_version 1.1; proxy_request_buffering off; proxy_max_temp_file_size 0; proxy_read_timeout 1h; proxy_set_header Host $http_host; proxy_set_header Connection "";',
            "  ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:S:10m;"]


def haproxy_head(threads):
    return [f"global\n  nbthread {threads}\n  maxconn 9500\n  stats socket DIRECTORY/socket expose-fd listeners", "defaults\n  mode http\n  maxconn 9500\n  timeout connect 5s\n  timeout client 60s",
            "  timeout server 60s\n  timeout tunnel 1h\n  timeout http-request 10s\n  http-reuse always"]


# Each kind of program: how the changing configuration is written, and the one of many sites; its file, and what is behind its name in a command.
CHANGING = {"lockgate": lockgate, "nginx": nginx, "haproxy": haproxy}
MANY = {"lockgate": many_lockgate, "nginx": many_nginx, "haproxy": many_haproxy}
COMMANDS = {"lockgate": ("lockgate.toml", ["run", "-c", "FILE"]), "nginx": ("nginx.conf", ["-p", "DIRECTORY", "-c", "FILE", "-e", "DIRECTORY/error.log"]), "haproxy": ("haproxy.cfg", ["-W", "-f", "FILE"])}


def write(name, directory, wanted, number):
    """Writes the configuration of that number, as a whole in one moment; where it is."""
    kind, build = binaries.kind_of(name), binaries.build(name)
    text = CHANGING[kind](wanted, number, build) if isinstance(wanted, Changing) else MANY[kind](wanted, number, build, directory)
    path = os.path.join(directory, COMMANDS[kind][0])
    next_one = written(directory, COMMANDS[kind][0] + ".next", [line.replace("DIRECTORY", directory) for line in text])
    os.rename(next_one, path)
    return path


def command(name, directory, path):
    """nginx executes its own program anew at an upgrade, and needs a path for that."""
    program = binaries.build(name).path
    return [shutil.which(program) or program, *(part.replace("DIRECTORY", directory).replace("FILE", path) for part in COMMANDS[binaries.kind_of(name)][1])]


def certificates(folder, names):
    """Files with a certificate for each of the names, all with one key, and that key; made once and kept beside the other certificates."""
    directory = os.path.join(BUILT, "certs", folder)
    os.makedirs(directory, exist_ok=True)
    key = f"{BUILT}/certs/ecdsa.key"
    with open(key) as f:
        private = f.read()
    found = []
    for number, name in enumerate(names):
        path = os.path.join(directory, f"{number}.pem")
        found.append(path)
        if os.path.exists(path):
            continue
        made = subprocess.run(["openssl", "req", "-x509", "-new", "-key", key, "-days", "3650", "-subj", "/CN=bench", "-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=CA:FALSE"],
                              capture_output=True, text=True, check=True).stdout
        with open(os.open(path + ".next", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(made + private)
        os.rename(path + ".next", path)
    return tuple(found)
