"""The tables of the HTTP/1 proxy beside nginx and HAProxy: kept connections, system calls."""
import json
import os
import time

from . import load, processes
from .load import Wrk
from .report import interleaved, same_work, summary
from .throughput import COST, asked, rivals, start_all, stop_programs

# Row: what is asked for, over TLS or not, and the ratio to reach.
ROWS = {
    "get-100": (Wrk(100, get=100), False, 0.85),
    "get-10k": (Wrk(100, get=10_000), False, 0.85),
    "get-c1": (Wrk(1, get=100), False, 0.9),
    "get-c1000": (Wrk(1000, get=100), False, 0.8),
    "tls-100": (Wrk(100, get=100), True, 0.8),
    "tls-10k": (Wrk(100, get=10_000), True, 0.8),
    "post-10": (Wrk(100, post=10), False, 0.85),
    "post-100": (Wrk(100, post=100), False, 0.85),
    "post-1k": (Wrk(100, post=1000), False, 0.85),
    "post-10k": (Wrk(100, post=10_000), False, 0.85),
    "post-100k": (Wrk(100, post=100_000), False, 0.85),
    "get-100k": (Wrk(100, get=100_000), False, 0.85),
    "log": (Wrk(100, get=100), False, None),
}
LARGE = ("post-100k", "get-100k")
LOG_COSTS = 1.5  # µs a request that a JSON access log may cost at most
BUSY = ("core %", "core_percent", 0)


def http(report, a):
    """The HTTP/1.1 proxy with kept connections: GET from 1 to 1,000 connections, over TLS, POST echoes, and with a JSON access log."""
    runs = sum(2 * len(a.peers) - 1 if row == "log" else len(a.peers) for row in a.rows)
    a.peers = [p for p in a.peers if not p.startswith("hitch")]  # which reads no HTTP
    if a.namespaces:
        processes.apart()
    report.head("HTTP/1.1 proxy, keep-alive", runs * a.rounds * (a.secs + 1.5))
    origin = load.Origin()
    for tls, large in ((False, False), (False, True), (True, False), (True, True)):
        rows = [row for row in a.rows if row != "log" and ROWS[row][1] == tls and (row in LARGE) == large]
        if not rows:
            continue
        programs = start_all(a.peers, upstream=origin.tcp, key="ecdsa" if tls else None, http=True, large=large)
        notes = same_work(asked(programs)) if tls else []
        for row in rows:
            wrk, _, goal = ROWS[row]
            found = interleaved(programs, a.rounds, lambda _, p: load.steady(p, origin.counted, wrk, p.port, tls, a.secs, pooled=True))
            report.cell(title(wrk, tls), found, [*COST, *[load.CORE] * a.namespaces, BUSY, ("connections up", "up", 0)], cost="cpu_us", rivals=rivals(a.peers), goal=goal, notes=notes)
        stop_programs(programs)
    if "log" in a.rows:
        logged(report, a, origin)
    origin.stop()


def title(wrk, tls):
    what = f"POST echo {wrk.post:,} B" if wrk.get is None else f"GET {wrk.get:,} B"
    return f"{what}, c = {wrk.connections:,}{', over TLS' if tls else ''}"


def logged(report, a, origin):
    """Each program without a log and with one: what a JSON line a request costs. HAProxy has no log that is a file."""
    wrk = ROWS["log"][0]
    programs = start_all(a.peers, upstream=origin.tcp, http=True)
    for name in a.peers:
        if not name.startswith(("haproxy", "h2o", "caddy")):
            path = os.path.join(processes.fresh_directory(f"log-{name}"), "access.log")
            programs[f"{name}, log"] = start_all([name], upstream=origin.tcp, http=True, log=path)[name]

    def measure(name, program):
        r = load.steady(program, origin.counted, wrk, program.port, False, a.secs, pooled=True)
        if program.front.log:
            r["line_bytes"], missing = read_log(program.front.log, r["answered"])
            r["errors"] |= missing
        return r
    rows = interleaved(programs, a.rounds, measure)
    report.cell(f"{title(wrk, False)}, JSON access log to a file", rows, [*COST[:4], BUSY, ("bytes a line", "line_bytes", 0)])
    stop_programs(programs)
    costs = {name: summary(records)["median"].get("cpu_us") for name, records in rows.items()}
    lines = [[name, f"{costs[f'{name}, log'] - costs[name]:.2f}"] for name in a.peers if costs.get(name) and costs.get(f"{name}, log")]
    report.plain("What the log costs", ["", "CPU µs a request more"], lines, [f"Lockgate is to reach ≤ {LOG_COSTS} and no more than nginx."])


def read_log(path, answered):
    """Bytes of a line, and what is wrong: every answer must have one, and be JSON. The file is empty afterwards."""
    end, size = time.monotonic() + 5, -1
    while size != os.path.getsize(path) and time.monotonic() < end:
        size = os.path.getsize(path)
        time.sleep(1.2)  # buffers are flushed each second
    with open(path, "rb") as f:
        first, count = f.readline(), 1
        while piece := f.read(1 << 20):
            count += piece.count(b"\n")
    os.truncate(path, 0)
    try:
        json.loads(first)
    except ValueError:
        return None, {"lines that are no JSON": count}
    return size / count, {"lines missing": answered - count} if count < answered else {}


SELDOM = 0.05  # calls a request: what is rarer has no column


def syscalls(report, a):
    """System calls per request on kept connections, counted by strace over a fixed number of requests.

    What connections cost is taken out: it is counted in a run of one request on each, after one without strace for the origin's.
    """
    names = [p for p in a.peers if not p.startswith("hitch")]
    report.head("System calls per request", len(a.conns) * len(names) * (a.requests / 2500 + 4))
    tls, h2 = a.front != "http", a.front == "h2"
    origin = load.Origin()
    programs = start_all(names, upstream=origin.tcp, key="ecdsa" if tls else None, http=True, h2=h2)
    for conns in a.conns:
        counts, errors = {}, {}
        for name, program in programs.items():
            if isinstance(program, str):
                report.bad |= name.startswith("lockgate")
                continue
            each = max(1, a.requests // conns)

            def generate(times):
                if h2:
                    return load.finish_h2load(load.H2load.of(a.method, a.size, conns), program.port, conns * times)
                shape = ["--once", "--timeout", 60, "--connections", conns, f"--{a.method}", a.size, "--requests", times]
                return load.finish_client(load.client(program.port, *shape, tls="any" if tls else "off"), 300)
            generate(10)
            opening, first = load.traced(program, lambda: generate(1))
            calls, said = load.traced(program, lambda: generate(1 + each))
            errors[name] = load.errors_of(first) | load.errors_of(said)
            requests = max(1, said["requests"] - first["requests"])
            counts[name] = {call: max(0, n - opening.get(call, 0)) / requests for call, n in calls.items()}
            report.bad |= name.startswith("lockgate") and bool(errors[name])
        totals = {name: sum(calls.values()) for name, calls in counts.items()}
        common = sorted({call for calls in counts.values() for call, n in calls.items() if n >= SELDOM}, key=lambda call: -max(calls.get(call, 0) for calls in counts.values()))
        lines = [[name, program] if isinstance(program, str) else
                 [name, f"{totals[name]:.2f}", *(f"{counts[name].get(call, 0):.2f}" for call in common),
                  f"{totals[name] - sum(counts[name].get(call, 0) for call in common):.2f}", ", ".join(f"**{n} {kind}**" for kind, n in errors[name].items()) or "0"]
                 for name, program in programs.items()]
        report.plain(f"{a.method.upper()} {a.size:,} B{', HTTP/2' if h2 else ''}{' over TLS' if tls else ''}, c = {conns:,}, {max(1, a.requests // conns) * conns:,} requests", ["", "all", *common, "rarer", "errors"], lines)
    stop_programs(programs)
    origin.stop()
