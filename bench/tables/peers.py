"""How each program under test is configured for the same work, and how it is started.

A `Front` says what is wanted; one function per program writes it in that program's language. Logs are off everywhere.
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
    text = [f"workers = {front.workers}", "access_log = false"]
    if front.metrics:
        text.append(f'metrics = "127.0.0.1:{front.metrics}"')
    if front.client_ca or front.tickets:
        text.append("[tls]")
    if front.client_ca:
        text.append(f'client_auth = {{ mode = "require", ca = "{front.client_ca}" }}')
    if front.tickets:
        text.append(f"tickets = {front.tickets}")
    text.append(f'[tcp."127.0.0.1:{front.port}"]')
    if front.pem:
        text.append(f'tls = {{ cert = "{front.pem}" }}')
    elif front.key:
        text.append(f'tls = {{ cert = "{front.certificate}", key = "{front.private_key}" }}')
    text.append(f'proxy = "{front.upstream}"')
    return _written(directory, "lockgate.toml", text), [binary, "run", "-c", f"{directory}/lockgate.toml"]


def lockgate_before(front, directory):
    return lockgate(front, directory, BEFORE)


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
            "events { worker_connections 256; }" if front.few_descriptors else "worker_rlimit_nofile 20000; events { worker_connections 19000; }",
            f"stream {{ upstream origin {{ server {front.upstream}; }}",
            f"  server {{ listen 127.0.0.1:{front.port} {'ssl' if front.tls else ''} backlog=8192; {tls} proxy_pass origin; tcp_nodelay on; }} }}"]
    return _written(directory, "nginx.conf", text), ["nginx", "-p", directory, "-c", f"{directory}/nginx.conf", "-e", f"{directory}/error.log"]


def haproxy(front, directory, splice=False):
    upstream = front.upstream.replace("unix:", "unix@")
    most = "" if front.few_descriptors else f"  maxconn {3000 if splice else 9500}"  # splicing takes two descriptors more for each
    text = ["global", f"  nbthread {front.workers}", most,
            "defaults", "  mode tcp", "  timeout connect 5s", "  timeout client 60s", "  timeout server 60s",
            most, "  option splice-auto" if splice else "",
            "listen relay", f"  bind 127.0.0.1:{front.port} backlog 8192 {'ssl crt ' + front.both if front.tls else ''}", f"  server origin {upstream}"]
    return _written(directory, "haproxy.cfg", text), ["haproxy", "-f", f"{directory}/haproxy.cfg"]


def haproxy_splice(front, directory):
    return haproxy(front, directory, splice=True)


def hitch(front, directory):
    upstream = front.upstream.removeprefix("unix:") if front.upstream.startswith("unix:") else "[{}]:{}".format(*front.upstream.split(":"))
    text = [f'frontend = "[127.0.0.1]:{front.port}"', f'backend = "{upstream}"', f'pem-file = "{front.both}"', f"workers = {front.workers}",
            "backlog = 8192", 'user = "nobody"' if os.geteuid() == 0 else "", "daemon = off", "tls-protos = TLSv1.2 TLSv1.3", "log-level = 0", "syslog = off", 'ocsp-dir = ""']
    return _written(directory, "hitch.conf", text), ["hitch", f"--config={directory}/hitch.conf"]


PEERS = {"lockgate": lockgate, "hitch": hitch, "haproxy": haproxy, "nginx": nginx, "haproxy-splice": haproxy_splice}
OURS = ["lockgate"]
if BEFORE:
    PEERS["lockgate-before"] = lockgate_before
    OURS.append("lockgate-before")
TLS_PEERS = [*OURS, "hitch", "haproxy", "nginx"]
TCP_PEERS = [*OURS, "haproxy", "nginx"]


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
        raise DidNotStart(f"there is no {os.path.relpath(argv[0], processes.REPOSITORY) if argv[0] == LOCKGATE else argv[0]}")
    process = Process(argv, cores, name, descriptors=300 if front.few_descriptors else None)
    process.port, process.front, process.directory = front.port, front, directory
    if not process.listens(front.port):
        said = process.said().strip()
        code = process.popen.poll()
        process.stop()
        raise DidNotStart(f"{'did not listen' if code is None else f'ended with {code}'}: {said[-300:] or 'without a word'}")
    return process


def versions():
    """What each program says of itself, for the head of a report."""
    ask = {"lockgate": [LOCKGATE, "version"], "nginx": ["nginx", "-v"], "haproxy": ["haproxy", "-v"], "hitch": ["hitch", "--version"],
           "wrk": ["wrk", "-v"], "node": ["node", "--version"], "openssl": ["openssl", "version"]}
    said = {}
    for name, argv in ask.items():
        try:
            r = subprocess.run(argv, capture_output=True, text=True, timeout=10)
            said[name] = (r.stdout + r.stderr).strip().splitlines()[0][:60]
        except (OSError, IndexError, subprocess.TimeoutExpired):
            said[name] = "absent"
    return said
