"""How each program under test is configured for the same work, and how it is started.

A `Front` says what is wanted; one function per program writes it in that program's language. Logs are off, or a file of
JSON lines where a table asks for that.
"""
import os
import shutil
import subprocess
from dataclasses import dataclass, replace

from . import processes
from .processes import BEFORE, BUILT, LOCKGATE, Process


@dataclass(frozen=True)
class Front:
    """One listener in front of one origin."""
    port: int
    upstream: str                 # "unix:/path" or "127.0.0.1:port"
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
    if front.client_ca or front.tickets:
        text.append("[tls]")
    if front.client_ca:
        text.append(f'client_auth = {{ mode = "require", ca = "{front.client_ca}" }}')
    if front.tickets:
        text.append(f"tickets = {front.tickets}")
    text += [f'[site.":{front.port}"]', 'listen = ["127.0.0.1"]'] if front.http else [f'[tcp."127.0.0.1:{front.port}"]']
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


def nginx(front, directory):
    tls = ""
    if front.tls:
        tls = (f"ssl_certificate {front.certificate}; ssl_certificate_key {front.private_key}; ssl_protocols TLSv1.2 TLSv1.3; "
               "ssl_session_cache shared:S:10m; ssl_session_tickets on;")
        if front.client_ca:
            tls += f" ssl_verify_client on; ssl_client_certificate {front.client_ca};"
        if front.tickets:
            tls += f" ssl_session_ticket_key {front.tickets};"
    text = ["load_module /usr/lib/nginx/modules/ngx_stream_module.so;", "daemon off;", "user root;" if os.geteuid() == 0 else "",
            f"worker_processes {front.workers};", f"pid {directory}/nginx.pid;", f"error_log {directory}/error.log crit;",
            "events { worker_connections 256; }" if front.few_descriptors else "worker_rlimit_nofile 20000; events { worker_connections 19000; }"]
    if front.http:
        text += nginx_http(front, directory, tls)
    else:
        text += [f"stream {{ upstream origin {{ server {front.upstream}; }}",
                 f"  server {{ listen 127.0.0.1:{front.port} {'ssl' if front.tls else ''} backlog=8192; {tls} proxy_pass origin; tcp_nodelay on; }} }}"]
    return _written(directory, "nginx.conf", text), ["nginx", "-p", directory, "-c", f"{directory}/nginx.conf", "-e", f"{directory}/error.log"]


# What a line of Lockgate's access log has in it, in nginx's words.
LOGGED = {"time": "time_iso8601", "id": "request_id", "connection": "connection", "client": "remote_addr", "client_port": "remote_port", "method": "request_method",
          "scheme": "scheme", "host": "host", "target": "request_uri", "protocol": "server_protocol", "status": "status", "received_bytes": "request_length",
          "sent_bytes": "body_bytes_sent", "duration_seconds": "request_time", "wait_seconds": "upstream_connect_time", "first_byte_seconds": "upstream_header_time",
          "body_seconds": "upstream_response_time", "site": "server_name", "pool": "proxy_host", "endpoint": "upstream_addr"}


def nginx_http(front, directory, tls):
    """The http block: bodies stream through as they do in the others, and no number of requests ends a connection.

    With its own sizes of buffers, 4 KB pieces, 100 KB there and back cost it twice of what they cost with these.
    """
    fields = ",".join(f'"{name}":"${variable}"' for name, variable in LOGGED.items())
    log = f"log_format lines escape=json '{{{fields}}}'; access_log {front.log} lines buffer=64k flush=1s;" if front.log else "access_log off;"
    temporary = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return [f"http {{ {log} {temporary}", "  keepalive_requests 1000000000; keepalive_timeout 300s; tcp_nodelay on; client_max_body_size 0;",
            f"  upstream origin {{ server {front.upstream}; keepalive 1024; keepalive_requests 1000000000; keepalive_timeout 300s; }}",
            f"  server {{ listen 127.0.0.1:{front.port} {'ssl' if front.tls else ''} {'http2' if front.h2 else ''} backlog=8192; {tls}",
            '    location / { proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;',
            "      proxy_set_header X-Forwarded-For $remote_addr; proxy_request_buffering off; client_body_buffer_size 64k;",
            "      proxy_max_temp_file_size 0; proxy_buffer_size 16k; proxy_buffers 16 16k; proxy_busy_buffers_size 64k; } } }"]


def haproxy(front, directory, splice=False):
    upstream = front.upstream.replace("unix:", "unix@")
    most = "" if front.few_descriptors else f"  maxconn {3000 if splice else 9500}"  # splicing takes two descriptors more for each
    mode = ["  mode http", "  http-reuse always", "  option forwardfor"] if front.http else ["  mode tcp"]
    ssl = f"ssl crt {front.both}" if front.tls else ""
    ssl += " alpn h2,http/1.1" if front.h2 else ""
    spoken = {"http1": "", "h2c": " proto h2", "https": " ssl verify none", "h2": " ssl verify none alpn h2"}[front.endpoint]
    # splice-auto does not splice such streams (HAProxy 2.6 and 3.5); a pipe of 1 MB moves more in a call.
    pipes = "  tune.pipesize 1048576" if splice else ""
    text = ["global", f"  nbthread {front.workers}", most, pipes, "defaults", *mode, "  timeout connect 5s", "  timeout client 60s", "  timeout server 60s",
            most, *(["  option splice-request", "  option splice-response"] if splice else []),
            "listen relay", f"  bind 127.0.0.1:{front.port} backlog 8192 {ssl}",
            f"  server origin {upstream}{spoken}"]
    return _written(directory, "haproxy.cfg", text), ["haproxy", "-f", f"{directory}/haproxy.cfg"]


def haproxy_splice(front, directory):
    return haproxy(front, directory, splice=True)


def hitch(front, directory):
    upstream = front.upstream.removeprefix("unix:") if front.upstream.startswith("unix:") else "[{}]:{}".format(*front.upstream.split(":"))
    text = [f'frontend = "[127.0.0.1]:{front.port}"', f'backend = "{upstream}"', f'pem-file = "{front.both}"', f"workers = {front.workers}",
            "backlog = 8192", 'user = "nobody"' if os.geteuid() == 0 else "", "daemon = off", "tls-protos = TLSv1.2 TLSv1.3", "log-level = 0", "syslog = off", 'ocsp-dir = ""']
    return _written(directory, "hitch.conf", text), ["hitch", f"--config={directory}/hitch.conf"]


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
    return path, [f"{BUILT}/bin/http-tunnel", "--config", path, "--bind", f"127.0.0.1:{front.port}", mode, *options]


def go_relay(front, directory, *how):
    return None, [f"{BUILT}/bin/go-relay", f"127.0.0.1:{front.port}", front.upstream, *how]


def go_relay_copy(front, directory):
    return go_relay(front, directory, "copy")


PEERS = {"lockgate": lockgate, "lockgate-relay": lockgate_relay, "hitch": hitch, "haproxy": haproxy, "nginx": nginx, "haproxy-splice": haproxy_splice,
         "http-tunnel": http_tunnel, "go-relay": go_relay, "go-relay-copy": go_relay_copy}
OURS = ["lockgate"]
if BEFORE:
    PEERS["lockgate-before"] = lockgate_before
    OURS.append("lockgate-before")
TLS_PEERS = [*OURS, "hitch", "haproxy", "nginx"]
HTTP_PEERS = [*OURS, "haproxy", "nginx"]
RELAYS = [*OURS, "haproxy", "haproxy-splice", "nginx", "http-tunnel", "go-relay", "go-relay-copy"]


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
    if not shutil.which(argv[0]):
        raise DidNotStart(f"there is no {os.path.relpath(argv[0], processes.REPOSITORY) if os.path.isabs(argv[0]) else argv[0]}")
    process = Process(argv, cores, name, descriptors=300 if front.few_descriptors else None, cwd=directory)
    process.port, process.front, process.directory = front.port, front, directory
    if not process.listens(front.port, host=getattr(front, "host", "127.0.0.1")):
        said = process.said().strip()
        code = process.popen.poll()
        process.stop()
        raise DidNotStart(f"{'did not listen' if code is None else f'ended with {code}'}: {said[-300:] or 'without a word'}")
    return process


def versions():
    """What each program says of itself, for the head of a report."""
    ask = {"lockgate": [LOCKGATE, "version"], "nginx": ["nginx", "-v"], "haproxy": ["haproxy", "-v"], "hitch": ["hitch", "--version"],
           "wrk": ["wrk", "-v"], "h2load": ["h2load", "--version"], "node": ["node", "--version"], "openssl": ["openssl", "version"]}
    said = {}
    for name, argv in ask.items():
        try:
            r = subprocess.run(argv, capture_output=True, text=True, timeout=10)
            said[name] = (r.stdout + r.stderr).strip().splitlines()[0][:60]
        except (OSError, IndexError, subprocess.TimeoutExpired):
            said[name] = "absent"
    return said
