"""The tables of HTTP/2 beside nginx and HAProxy: requests from clients, requests to endpoints, memory of idle connections."""
import os
import socket
import ssl
import struct
import time

from . import load, peers, processes
from .load import H2load
from .processes import BOTH, BUILT, OTHERS, TESTED, Process
from .report import gone, interleaved, progress, same_work
from .throughput import LARGE, asked, rivals, start_all, stop_programs

COST = [("CPU µs/request", "cpu_us", 1), ("user", "user_us", 1), ("system", "sys_us", 1), ("requests/s", "per_second", 0), ("core %", "core_percent", 0), ("mean ms", "mean", 2), ("max ms", "max", 1)]
ROWS = {"get-100": ("GET", 100), "get-10k": ("GET", 10_000), "get-1m": ("GET", 1_000_000), "post-10k": ("POST", 10_000), "post-1m": ("POST", 1_000_000), "post-100m": ("POST", 100_000_000)}
GOAL = 1.0
MORE = 1.2  # what a request to an endpoint over HTTP/2 may cost beside one over HTTP/1


def http2(report, a):
    """HTTP/2 over TLS to an origin that speaks HTTP/1: 10 connections with 10 streams each, GET and uploads."""
    names = [p for p in a.peers if not p.startswith("hitch")]
    if a.namespaces:
        processes.apart()
    report.head("HTTP/2 over TLS, proxied to HTTP/1", len(a.rows) * len(names) * a.rounds * (a.secs + 0.5))
    cores, others = (TESTED, OTHERS) if a.workers == 1 else (BOTH, BOTH)
    origin = load.Origin(others)
    programs, large = {}, None
    for row in sorted(a.rows, key=lambda row: ROWS[row][1] >= LARGE):
        method, size = ROWS[row]
        if large != (size >= LARGE):
            stop_programs(programs)
            large = size >= LARGE
            programs = start_all(names, cores, upstream=origin.tcp, key="ecdsa", http=True, h2=True, large=large, workers=a.workers)
            notes = same_work(asked(programs))
        job = H2load.of(method, size, a.conns, a.streams)

        def measure(_, program):
            before = origin.counted.read()
            record = load.h2load(program, program.port, job, a.secs, others)
            came = origin.counted.read()["bytes_in"] - before["bytes_in"]
            if job.body and came < record["requests"] * size:
                record["errors"]["bytes missing at the origin"] = record["requests"] * size - came
            return record
        found = interleaved(programs, a.rounds, measure)
        report.cell(f"{method} {size:,} B, {a.conns} × {a.streams} streams" + f", {a.workers} workers" * (a.workers > 1), found, [*COST, *[load.CORE] * a.namespaces], cost="cpu_us", rivals=rivals(names), goal=GOAL, notes=notes)
    stop_programs(programs)
    origin.stop()


def h2_upstream(report, a):
    """HTTP/2 to endpoints against HTTP/1 to the same ones, for clients with HTTP/2: nginx serves files by both."""
    names = [p for p in a.peers if not p.startswith(("hitch", "nginx", "h2o", "caddy"))]  # nginx has no HTTP/2 towards endpoints
    report.head("HTTP/2 to endpoints", 4 * len(a.sizes) * len(names) * a.rounds * (a.secs + 0.5))
    endpoint, ports = files(a.sizes)
    for before, after in (("http1", "h2c"), ("https", "h2")):
        programs = {}
        for kind in (after, before):
            for name, program in start_all(names, key="ecdsa", http=True, h2=True, endpoint=kind, upstream=f"127.0.0.1:{ports[kind]}").items():
                programs[name if kind == after else f"{name}, {kind}"] = program
        for size in a.sizes:
            rows = interleaved(programs, a.rounds, lambda _, p: load.h2load(p, p.port, H2load.of("GET", size, a.conns, a.streams), a.secs))
            report.cell(f"GET {size:,} B, {a.conns} × {a.streams} streams, {after} to the endpoint beside {before}", rows, COST, cost="cpu_us", rivals=[f"lockgate, {before}"], goal=MORE)
        stop_programs(programs)
    endpoint.stop()


def files(sizes):
    """nginx as the endpoint: files of these sizes on a port for each way to speak to it."""
    directory = processes.fresh_directory("endpoint")
    for size in sizes:
        with open(os.path.join(directory, str(size)), "wb") as f:
            f.write(b"x" * size)
    ports = {kind: processes.free_port() for kind in ("http1", "h2c", "https", "h2")}
    words = {"http1": "", "h2c": "http2", "https": "ssl", "h2": "ssl http2"}
    listeners = " ".join(f"listen 127.0.0.1:{port} {words[kind]} backlog=8192;" for kind, port in ports.items())
    temporary = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    conf = os.path.join(directory, "nginx.conf")
    with open(conf, "w") as f:
        f.write(f"""daemon off; {'user root;' if os.geteuid() == 0 else ''} worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log crit; events {{ worker_connections 10000; }}
http {{ access_log off; keepalive_requests 1000000000; open_file_cache max=100; sendfile on; tcp_nodelay on; root {directory}; {temporary}
server {{ {listeners} ssl_certificate {BUILT}/certs/endpoint.crt; ssl_certificate_key {BUILT}/certs/endpoint.key; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; }} }}
""")
    nginx = Process(["nginx", "-p", directory, "-c", conf, "-e", f"{directory}/error.log"], OTHERS, "endpoint")
    if not all(nginx.listens(port) for port in ports.values()):
        raise RuntimeError(f"the endpoint did not start: {nginx.said()[-300:]}")
    return nginx, ports


# Types of frames, and flags (RFC 9113 §6).
DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
END_STREAM = ACK = 1
END_HEADERS = 4
INITIAL_WINDOW_SIZE = 4


class Connection:
    """One connection over TLS that speaks HTTP/2."""

    def __init__(self, port, context, settings=b""):
        self.socket = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 30), server_hostname="localhost")
        if self.socket.selected_alpn_protocol() != "h2":
            raise OSError(f"{self.socket.selected_alpn_protocol()} was negotiated")
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, payload=settings))

    def get(self, path, *streams):
        # :method GET, :scheme https, then :path and :authority as literals without an index (RFC 7541 §6.2.2).
        head = b"\x82\x87" + b"".join(bytes([index, len(text)]) + text for index, text in ((4, path.encode()), (1, b"localhost")))
        self.socket.sendall(b"".join(frame(HEADERS, END_STREAM | END_HEADERS, stream, head) for stream in streams))

    def next(self):
        """The next frame, its settings acknowledged."""
        head = self.exactly(9)
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big")
        payload = self.exactly(int.from_bytes(head[:3], "big"))
        if kind == SETTINGS and not flags & ACK:
            self.socket.sendall(frame(SETTINGS, ACK))
        if kind == GOAWAY:
            raise OSError(f"GOAWAY, code {int.from_bytes(payload[4:8], 'big')}")
        return kind, flags, stream

    def exactly(self, length):
        found = b""
        while len(found) < length:
            piece = self.socket.recv(length - len(found))
            if not piece:
                raise OSError("closed")
            found += piece
        return found

    def lives(self):
        """Sends a PING and waits for its answer."""
        self.socket.sendall(frame(PING, payload=b"are you?"))
        while self.next()[:2] != (PING, ACK):
            pass


class Idle(Connection):
    """One that has had one answer."""

    def __init__(self, port, context, path="/100"):
        super().__init__(port, context)
        self.get(path, 1)
        while True:
            kind, flags, stream = self.next()
            if stream == 1 and flags & END_STREAM and kind in (DATA, HEADERS):
                return


class Stalled(Connection):
    """One with streams that have had their heads, and a window of one byte: with none nginx 1.22 sends no head."""

    def __init__(self, port, context, streams, path):
        super().__init__(port, context, struct.pack(">HI", INITIAL_WINDOW_SIZE, 1))
        self.get(path, *range(1, 2 * streams, 2))
        heads = 0
        while heads < streams:
            heads += self.next()[0] == HEADERS


def frame(kind, flags=0, stream=0, payload=b""):
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def h2_idle(report, a):
    """PSS per idle connection that has had one answer over HTTP/2 and TLS: memory before and after, every round in a fresh process."""
    held(report, a, f"{a.conns:,} idle connections", "connection", 1, lambda port, context: Idle(port, context))


def h2_stalled(report, a):
    """PSS per stream over TLS whose client gives a window of one byte for an answer."""
    held(report, a, f"{a.conns * a.streams:,} stalled streams, {a.conns} × {a.streams}, answers of {a.size:,} B", "stream", a.streams, lambda port, context: Stalled(port, context, a.streams, f"/{a.size}"))


def held(report, a, title, unit, each, connect):
    """Memory of connections that stay, before and after: every round in a fresh process."""
    names = [p for p in a.peers if not p.startswith("hitch")]
    report.head(title, a.rounds * len(names) * (a.wait + a.conns * each / 300 + 3))
    os.sched_setaffinity(0, OTHERS)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    origin = load.Origin()
    rows = {name: [] for name in names}
    for _ in range(a.rounds):
        for name in names:
            if not isinstance(rows[name], str):
                rows[name] = held_once(name, origin, a, each, lambda port: connect(port, context), rows[name])
                progress(name)
    report.cell(title, rows, [(f"KB/{unit} (PSS)", "kb", 1), ("MB before", "before", 1), ("MB with them", "after", 1), ("answered", "opened", 0), ("still there", "kept", 0)],
                cost="kb", rivals=rivals(names), goal=1.0)
    origin.stop()


def held_once(name, origin, a, each, connect, records):
    try:
        program = peers.start(name, peers.Front(port=0, upstream=origin.tcp, key="ecdsa", http=True, h2=True))
    except peers.DidNotStart as why:
        return str(why)
    errors, held, kept = {}, [], 0

    def failed(why):
        errors[str(why)] = errors.get(str(why), 0) + 1

    try:
        connect(program.port).socket.close()  # what the very first connection allocates for good is not the second's
    except OSError as why:
        failed(why)
    time.sleep(0.5)
    before = program.pss()
    for _ in range(a.conns):
        try:
            held.append(connect(program.port))
        except OSError as why:
            failed(why)
    time.sleep(a.wait)
    after = program.pss()
    for connection in held:
        try:
            connection.lives()
            kept += 1
        except OSError as why:
            failed(f"{why} after the rest")
        connection.socket.close()
    errors |= gone(program)
    program.stop()
    record = {"kb": (after - before) / a.conns / each, "before": before / 1024, "after": after / 1024, "opened": len(held) * each, "kept": kept * each, "errors": errors}
    return [*records, record]
