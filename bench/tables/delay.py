"""The 40 ms test (T2): an origin that leaves Nagle's algorithm on and splits its answers, seen through every peer."""
from . import load, processes
from .load import Wrk
from .report import interleaved, progress
from .throughput import start_all, stop_programs

LOADS = ["c1", "c100", "paced"]


def forty_ms(report, a):
    runs = len(a.origins) * len(a.transports) * (len(a.peers) + 1) * len(a.loads)
    report.head("The 40 ms test (T2): POST 10 B, the origin's answer in several writes with Nagle's algorithm on", runs * a.rounds * (a.secs + 0.6))
    over, measured = [], False
    for origin_name in a.origins:
        origin, process = start_origin(origin_name)
        for transport in a.transports:
            upstream = origin.unix if transport == "unix" else origin.tcp
            programs = start_all([p for p in a.peers if a.front == "tls" or p != "hitch"], upstream=upstream, key="ecdsa" if a.front == "tls" else None)
            if transport == "tcp":
                process.port = int(origin.tcp.split(":")[1])
                programs = {"direct": process} | programs

            def measure(name, program):
                record = {"errors": {}}
                for kind in a.loads:
                    said = one(kind, program.port, a.front == "tls" and name != "direct", a.secs)
                    record |= {f"{kind}_p50": said["p50"], f"{kind}_p99": said["p99"]}
                    record["errors"] |= load.errors_of(said)
                    progress(f"{origin_name} {transport} {name} {kind}")
                return record
            rows = interleaved(programs, a.rounds, measure)
            columns = [(f"{kind} {p} ms", f"{kind}_{p}", 2) for kind in a.loads for p in ("p50", "p99")]
            report.cell(f"{origin_name} over {transport}, {a.front} in front", rows, columns)
            ours = rows.get("lockgate", "not asked for")
            for record in [] if isinstance(ours, str) else ours:
                measured = True
                over += [f"{origin_name} over {transport}, {kind}: {record[f'{kind}_p99']:.1f} ms" for kind in a.loads if record.get(f"{kind}_p99", 0) >= 5]
            stop_programs({n: p for n, p in programs.items() if n != "direct"})
        process.stop()
    if measured:
        report.plain("Through Lockgate, p99 of 5 ms and more", ["where"], [[o] for o in over] or [["nowhere"]],
                     ["At c = 100 without a rate the origin itself is saturated: there, compare with the row `direct`."] if over else [])


def start_origin(name):
    """`node-pipe`, `node-buffer`, `split-2` … `split-5`."""
    kind, _, how = name.partition("-")
    if kind == "node":
        app = load.Application(processes.OTHERS, shape=how, nagle=True, only=("http", "unix"))
        return app, app
    origin = load.Origin(split=int(how))
    return origin, origin.process


def one(kind, port, tls, seconds):
    """c1 and c100 are wrk's closed loop; paced asks 1,000 times a second over 100 connections, latency from the time each was due."""
    if kind == "paced":
        return load.finish_client(load.client(port, "--connections", 100, "--post", 10, "--rate", 1000, "--seconds", seconds, tls="any" if tls else "off"))
    return load.finish_wrk(Wrk(int(kind[1:]), post=10, timeout=5).start(port, seconds, tls))
