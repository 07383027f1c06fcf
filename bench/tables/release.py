"""The tables of a release: which rows the README and docs/perf.md have, and how each is made. Runs nothing by itself.

Each row is one call of a function of `bench/run`, by a process of its own (bench/release): what dies with it is that row.
"""
from argparse import Namespace
from dataclasses import dataclass, field

from . import binaries, crowd, files, folders, generators, grpc, hostile, http2, latency, peers, proxy, reload, throughput, websocket


@dataclass(frozen=True)
class Row:
    """One call, in interleaved rounds beside all peers; `goals`: the cases that it measures, and what to reach in each (ours ÷ the best peer's)."""
    name: str
    function: callable
    goals: dict
    options: dict = field(default_factory=dict)
    peers: list = field(default_factory=lambda: peers.HTTP_PEERS)
    digits: int = 1
    each: float = 1.5             # seconds that a measurement takes beside its own
    fixed: float | None = None    # seconds of all of it, where rounds do not count

    def arguments(self, rounds, secs):
        return Namespace(**{"rounds": rounds, "secs": secs, "peers": list(self.peers), "suite": "aes128", "namespaces": False, "workers": 1} | self.options)

    def seconds(self, rounds, secs):
        return self.fixed or rounds * len(self.peers) * (secs + self.each)


@dataclass(frozen=True)
class Table:
    """Rows that are measured one behind the other; `unit`: of their figures."""
    name: str
    title: str
    unit: str
    rows: list

    def seconds(self, rounds, secs):
        return sum(row.seconds(rounds, secs) for row in self.rows)


def _each(function, option, goals, **more):
    """A row for each value of one option that takes a list."""
    return [Row(str(value), function, {str(value): goal}, options={option: [value]} | more.get("options", {}), **{key: word for key, word in more.items() if key != "options"}) for value, goal in goals.items()]


RELAYED = binaries.with_newer([*peers.OURS, "hitch", "haproxy", "nginx"])
PLAIN = binaries.with_newer([*peers.OURS, "haproxy", "nginx"])
SPLICED = binaries.with_newer([*peers.OURS, "haproxy-copies", "haproxy-splice", "nginx"])
SITES = [name for name in peers.HTTP_PEERS if not name.startswith("caddy")]
APART = binaries.with_newer(["lockgate", "haproxy", "nginx"])  # each by itself
SERVED = [name for name in folders.PEERS if name.startswith(("lockgate", "nginx", "h2o"))]
CODED = [("https", "811"), ("h2", "811"), ("h2", "100k")]


def _open_loop(front):
    return Row(front, latency.open_loop, {f"{front}-{share}": 1.0 for share in (30, 60)}, {"fronts": [front], "shares": [30, 60], "conns": 100, "size": 100}, SITES, 0, 5)


TABLES = [
    Table("http1", "HTTP/1 proxy, plain, kept connections", "CPU-µs a request", _each(proxy.http, "rows", {"get-100": 0.8, "get-10k": 0.75, "get-c1000": 0.7, "get-c1": 0.95, "post-1k": None, "post-100k": None})),
    Table("https1", "HTTP/1 proxy over TLS, kept connections", "CPU-µs a request", _each(proxy.http, "rows", {"tls-100": 0.7, "tls-10k": 0.72})),
    Table("http2", "HTTP/2 proxy over TLS, 10 connections × 10 streams", "CPU-µs a request", _each(http2.http2, "rows", {"get-100": 1.0, "get-10k": 1.0, "get-1m": 0.8, "post-1m": None}, options={"conns": 10, "streams": 10})),
    Table("grpc", "gRPC over TLS, HTTP/2 without TLS to the server, 10 connections × 10 calls, 100 B", "CPU-µs an answer",
          _each(grpc.grpc, "kinds", {"unary": None, "stream": None}, peers=PLAIN, options={"sizes": [100], "conns": 10, "streams": 10})),
    Table("namespaces", "The same proxies where clients and origin have a network namespace each, with receive steering", "CPU-µs a request",
          [Row("http1", proxy.http, {"get-100": None}, {"rows": ["get-100"], "namespaces": True}), Row("https1", proxy.http, {"tls-100": None}, {"rows": ["tls-100"], "namespaces": True}),
           Row("http2", http2.http2, {"get-100": None}, {"rows": ["get-100"], "namespaces": True, "conns": 10, "streams": 10})]),
    Table("echo", "TLS relay to TCP, POST echo, c = 100", "CPU-µs a request",
          _each(throughput.tls_echo, "sizes", {10: 0.7, 1000: 0.72, 10_000: 0.72, 100_000: 0.6}, peers=RELAYED, options={"conns": [100], "keys": ["ecdsa"], "app": "c", "upstream": "tcp"})),
    Table("handshake", "TLS handshakes to TCP, request and close", "CPU-µs a connection", _each(throughput.handshakes, "modes", {"ecdsa-new": 0.9, "ecdsa-resumed": None, "rsa-new": None}, peers=RELAYED, digits=0)),
    Table("bulk", "Large bodies", "CPU-s a GB",
          [Row(cell, throughput.bulk, {cell: goal}, options={"cells": [cell], "conns": 1, "user": None}, peers=SPLICED if cell.startswith("tcp") else PLAIN if cell.startswith("site") else RELAYED, digits=3)
           for cell, goal in {"tls-down": 0.58, "tls-up": None, "site-up": 0.6, "tcp-down": 1.0, "tcp-up": 1.0}.items()]),
    Table("relay", "Plain TCP, new connections", "CPU-µs a request", [Row("new", throughput.tcp, {"reconnect": 1.05, "close": 1.05}, peers=SPLICED, each=4)]),
    Table("static", "Files", "CPU-µs a request",
          [*_each(files.files, "sizes", {"811": 0.68, "100k": 0.9, "850k": 0.95}, peers=SERVED, options={"fronts": ["http"], "conns": 100}),
           *(Row(f"{front}-{size}", files.files, {f"{front}-{size}": {"https": 0.68}.get(front)}, options={"fronts": [front], "sizes": [size], "conns": 100}, peers=SERVED) for front, size in CODED)]),
    Table("websocket", "WebSocket echo of 64 B over 1,000 connections", "CPU-µs a message, KB a connection",
          [Row("echo", websocket.echoes, {"cpu": 0.85, "memory": 0.6}, {"conns": 1000, "fronts": ["tcp"]}, SITES)]),
    Table("burst", "ab, 5,000 connections at once, a connection each", "CPU-µs a request", _each(crowd.ab, "sizes", {811: 0.97, 160_977: 1.0}, peers=SITES, options={"conns": 5000}, each=2)),
    Table("idle", "3,000 idle connections", "KB a connection (PSS)",
          [Row("tls-site", crowd.idle_memory, {"tls-site": 0.9}, options={"conns": 3000, "wait": 5.0, "key": "ecdsa", "front": "site"}, peers=SITES, each=9), Row("tls-relay", crowd.idle_memory, {"tls-relay": 0.8}, options={"conns": 3000, "wait": 5.0, "key": "ecdsa", "front": "relay"}, peers=RELAYED, each=9),
           Row("h2", http2.h2_idle, {"h2": None}, options={"conns": 2000, "wait": 3.0}, peers=SITES, each=12)]),
    Table("generator", "The generators themselves", "CPU-µs a request of the generator",
          _each(generators.generators, "rows", {"plain-100": 1.0, "tls-100": 1.0, "h2-100": 0.9, "h2-tls-100": 0.9}, peers=["lockgate", "wrk"], digits=2, options={"generators": ["lockgate", "wrk", "h2load"], "conns": 100})),
    Table("latency-http", "Open loop at 30 % and 60 % of the best peer's saturation, plain", "p99 in µs", [_open_loop("http")]),
    Table("latency-tls", "The same over TLS, HTTP/1 and HTTP/2", "p99 in µs", [_open_loop("https"), _open_loop("h2")]),
    # No rounds, and so no ratio: each program by itself, and what it did stands as it is.
    *(Table(f"hostile-{name}", f"Ten minutes of five kinds of attack: {name}", "", [Row("attack", hostile.overload_hostile, {}, peers=[name], options={"secs": 600.0, "descriptors": 512, "memory": 96}, fixed=660)]) for name in APART),
    *(Table(f"reload-{name}", f"200 reloads in 60 s: {name}", "", [Row("reloads", reload.reload, {}, peers=[name], options={"secs": 60.0, "rights": "root", "reloads": 200}, fixed=240)]) for name in APART),
]
