"""The 40 ms test (T2): an origin that leaves Nagle's algorithm on and splits its answers, seen through every peer."""
from . import load, processes
from .report import interleaved, progress
from .throughput import start_all, stop_programs

LOADS = ["c1", "c100", "paced"]


def forty_ms(report, a):
    """T2: an origin with Nagle's algorithm on that splits its answers, direct and through every peer: who stalls?"""
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
                    record |= {f"{kind}_p50": said["p50"], f"{kind}_p99": said["p99"],
                               f"{kind}_stalled": 1000 * said["stalled"] / max(1, said["requests"])}
                    record["errors"] |= load.errors_of(said)
                    progress(f"{origin_name} {transport} {name} {kind}")
                return record
            rows = interleaved(programs, a.rounds, measure)
            columns = [column for kind in a.loads for column in ((f"{kind} p50 ms", f"{kind}_p50", 2), (f"{kind} p99 ms", f"{kind}_p99", 2), ("stalled ‰", f"{kind}_stalled", 1))]
            report.cell(f"{origin_name} over {transport}, {a.front} in front", rows, columns)
            ours = rows.get("lockgate", "not asked for")
            for record in [] if isinstance(ours, str) else ours:
                measured = True
                over += [f"{origin_name} over {transport}, {kind}: {record[f'{kind}_p99']:.1f} ms" for kind in a.loads if record.get(f"{kind}_p99", 0) >= 5]
            stop_programs({n: p for n, p in programs.items() if n != "direct"})
        process.stop()
    if measured:
        report.plain("Through Lockgate, p99 of 5 ms and more", ["where"], [[o] for o in over] or [["nowhere"]],
                     ["At c = 100 without a rate the origin itself is saturated: compare with the same origin over unix, where nothing can stall."] if over else [])


def start_origin(name):
    """`node-pipe`, `node-buffer`, `split-2` … `split-5`."""
    kind, _, how = name.partition("-")
    if kind == "node":
        app = load.Application(processes.OTHERS, shape=how, nagle=True, only=("http", "unix"))
        return app, app
    origin = load.Origin(split=int(how))
    return origin, origin.process


def one(kind, port, tls, seconds):
    """c1 and c100 are closed loops; paced asks 1,000 times a second over 100 connections, latency from the time each was due.

    Not wrk: it adds samples of its own beside every slow one, so that at c = 1 a single stall makes its p99.
    """
    shape = ["--connections", 100, "--rate", 1000] if kind == "paced" else ["--connections", int(kind[1:])]
    return load.finish_client(load.client(port, *shape, "--post", 10, "--seconds", seconds, tls="any" if tls else "off"))
