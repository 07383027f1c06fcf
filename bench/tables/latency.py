"""Latency at a fixed rate: what a request takes at 30 % and 60 % of what the best peer can do, in open loop by `lockgate load`."""
import statistics

from . import load, rates
from .report import interleaved, same_work
from .throughput import asked, rivals, start_all, stop_programs

# What clients speak: the front of the program, and what the generator is told.
FRONTS = {"http": ({}, "http", []), "https": ({"key": "ecdsa"}, "https", rates.TLS_OFFERED), "h2": ({"key": "ecdsa", "h2": True}, "https", [*rates.TLS_OFFERED, "--http2", "--streams", 10])}
COLUMNS = [("p50 µs", "p50", 0), ("p90", "p90", 0), ("p99", "p99", 0), ("p99.9", "p99_9", 0), ("CPU µs/request", "cpu_us", 1), ("requests/s", "per_second", 0)]


def open_loop(report, a):
    """HTTP proxying in open loop at 30 % and 60 % of the best peer's saturation, which is measured first: p99 beside CPU."""
    names = [p for p in a.peers if not p.startswith("hitch")]
    report.head("Open loop at shares of the best peer's saturation", len(a.fronts) * len(names) * (a.secs + a.rounds * len(a.shares) * (a.secs + 1.5)))
    origin = load.Origin()
    for name in a.fronts:
        front, scheme, options = FRONTS[name]
        conns = a.conns // 10 if name == "h2" else a.conns
        programs = start_all(names, upstream=origin.tcp, http=True, **front)
        notes = same_work(asked(programs)) if front else []

        def closed(_, program):
            return rates.whole(program, f"{scheme}://127.0.0.1:{program.port}/{a.size}", "-c", conns, *options, "-d", f"{a.secs}s")
        peers_only = {peer: program for peer, program in programs.items() if peer in rivals(names)}
        most = {peer: [r["per_second"] for r in records if not r.get("errors")] for peer, records in interleaved(peers_only, 1, closed).items() if not isinstance(records, str)}
        most = {peer: statistics.median(found) for peer, found in most.items() if found}
        if not most:
            report.plain(f"{name}, open loop", ["not run"], [["no peer could be saturated"]])
            report.bad = True
            stop_programs(programs)
            continue
        best = max(most, key=most.get)
        for share in a.shares:
            rate = max(1, round(most[best] * share / 100))

            def measure(_, program):
                return rates.run(program, f"{scheme}://127.0.0.1:{program.port}/{a.size}", "-c", conns, *options, "--rate", rate, "-d", f"{a.secs}s", "--warm-up", "500ms")[-1]
            rows = interleaved(programs, a.rounds, measure)
            report.cell(f"{name}, GET {a.size:,} B, {rate:,} a second: {share} % of {best}'s", rows, COLUMNS, cost="p99", rivals=rivals(names), goal=1.0, notes=notes)
        stop_programs(programs)
    origin.stop()
