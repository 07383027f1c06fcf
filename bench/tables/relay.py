"""T6 to T8: what a TCP relay adds to the time of a request and what CPU it takes, at a moderate rate, at the highest, and for a connection each."""
import statistics

from . import load, rates
from .report import ENOUGH, figure, interleaved
from .throughput import rivals, start_all, stop_programs

SIZE = 10_000      # bytes of an answer
REUSED = 50        # requests of a connection, under T6 and T7
MODERATE = 0.42    # of the rate that the origin can do by itself: 25,000 of 60,000 a second in the document
CLOSING = 0.4      # of the connections a second that it can do
STEPS = 10
LATENCY = [("p50 µs", "p50", 0), ("p90", "p90", 0), ("p99", "p99", 0), ("p99.9", "p99_9", 0), ("p99.99", "p99_99", 0)]
ADDED = [(f"{'added ' if n == 0 else '+ '}{name.split()[0]}", f"added_{key}", 0) for n, (name, key, _) in enumerate(LATENCY) if key != "p90"]
TABLES = ("t6", "t7", "t8")


def relay(report, a):
    """T6, T7, T8: TCP relays beside the origin itself: a ladder of rates, as much as there is, a connection for each request."""
    report.head("TCP relay (T6, T7, T8)", spans(a, len(a.peers) + 1))
    for table in a.tables:
        origin = load.Origin({a.origin}, requests=0 if table == "t8" else REUSED)
        programs = {"direct": itself(origin)} | start_all(a.peers, upstream=origin.tcp)
        cell(report, a, table, origin, programs, lambda program: (f"http://127.0.0.1:{program.port}/{SIZE}", []))
        stop_programs({name: p for name, p in programs.items() if name != "direct"})
        origin.stop()


def spans(a, programs):
    """Seconds of all tables together."""
    each = {"t6": 1.5 + (STEPS - 1) * a.secs + a.top, "t7": 1.5 + a.top, "t8": 1.5 + (STEPS - 1) * a.secs + a.top}
    return sum(each[table] for table in a.tables) * programs * a.rounds


def itself(origin):
    origin.process.port = origin.port
    return origin.process


def cell(report, a, table, origin, programs, way, where=""):
    """One of the tables; `way`: the URL of a program and the options that lead through it."""
    closed = ["-c", 100 if table == "t7" else 10, *(["--per-connection", 1] if table == "t8" else [])]
    if table == "t7":
        options, title, top = ["-d", f"{a.top}s"], "T7: as much as there is, c = 100", None
    else:
        top = direct_rate(report, a, origin, closed) * (CLOSING if table == "t8" else MODERATE)
        options = [*rates.ladder(top, STEPS), "--every", f"{a.secs}s", "--hold", f"{a.top}s"]
        title = "T8: a connection for each request" if table == "t8" else f"T6: {REUSED} requests a connection"
        title += f", c = 10, at {top:,.0f} a second"
    stages = {name: [] for name in programs}

    def measure(name, program):
        direct = name == "direct"
        url, through = (f"http://127.0.0.1:{origin.port}/{SIZE}", []) if direct else way(program)
        found = rates.run(program, url, *closed, *options, *through, counted=origin.counted, direct=direct)
        stages[name].append(found)
        errors = {kind: n for stage in found for kind, n in stage["errors"].items()}
        return found[-1] | {"errors": errors | ({found[-1]["limits"]: 1} if top and found[-1].get("limits") else {})}
    rows = interleaved(programs, a.rounds, measure)
    add(rows)
    columns = [("CPU µs/request", "cpu_us", 1), ("requests/s", "per_second", 0), *([] if top else [("of direct's", "share", 2)]), *LATENCY, *ADDED]
    notes = [note for other in ("haproxy-copies", "haproxy-splice") for note in beside(rows, other)]
    notes += [f"{name}: {why}." for name, why in limits(rows).items() if not top]
    report.cell(f"{title}, {SIZE:,} B{where}", rows, columns, cost="cpu_us", rivals=rivals(programs), goal=1.05, notes=notes)
    if top:
        ladder(report, title.split(":")[0] + where, stages)


def direct_rate(report, a, origin, closed):
    """What the origin does by itself in a closed loop: the median of three runs."""
    runs = [rates.run(origin.process, f"http://127.0.0.1:{origin.port}/{SIZE}", *closed, "-d", f"{a.secs}s", counted=origin.counted, direct=True)[-1] for _ in range(3)]
    for one in runs:
        if one["errors"]:
            raise SystemExit(f"bench/run: the origin by itself: {one['errors']}")
    return statistics.median(one["per_second"] for one in runs)


def add(rows):
    """To every record what it has more than direct of the same round."""
    direct = rows["direct"]
    for name, records in rows.items():
        for base, record in zip(direct, [] if isinstance(records, str) or name == "direct" else records):
            if base.get("errors") or record.get("errors"):
                continue
            record |= {f"added_{key}": record[key] - base[key] for _, key, _ in LATENCY}
            record["share"] = record["per_second"] / base["per_second"]


def beside(rows, other):
    """Ours less the other's in each round: above it beyond the spread is what is above it in every round."""
    ours, theirs = rows.get("lockgate"), rows.get(other)
    if not ours or not theirs or isinstance(ours, str) or isinstance(theirs, str):
        return []
    pairs = [(a, b) for a, b in zip(ours, theirs) if not a.get("errors") and not b.get("errors")]
    if not pairs:
        return []
    told = []
    for name, key, _ in LATENCY:
        less = sorted(a[key] - b[key] for a, b in pairs)
        verdict = ", **above**" if less[0] > 0 else ", below" if less[-1] < 0 else ", no difference"
        told.append(f"{name.removesuffix(' µs')} {statistics.median(less):+,.0f} ({less[0]:+,.0f} … {less[-1]:+,.0f}){verdict if len(pairs) >= ENOUGH else ''}")
    return [f"Lockgate less {other} in the same round, µs, {len(pairs)} rounds: " + "; ".join(told) + "."]


def limits(rows):
    return {name: found for name, records in rows.items() if not isinstance(records, str) and (found := next((r["limits"] for r in records if r.get("limits")), None))}


def ladder(report, title, stages):
    """p50 and p99 of every step, medians of its good rounds."""
    names = next(([stage["name"] for stage in runs[0]] for runs in stages.values() if runs and len(runs[0]) > 1), [])
    lines = []
    for name, runs in stages.items():
        good = [run for run in runs if len(run) == len(names) and not any(stage["errors"] for stage in run)]
        line = [" / ".join(figure(statistics.median(run[n][key] for run in good), 0) for key in ("p50", "p99")) for n in range(len(names))] if good else [""] * len(names)
        lines.append([name, *line])
    report.plain(f"{title}: p50 / p99 by requests a second, µs", ["", *names], lines)
