"""CPU a request and a connection beside the peers, on TCP and over TLS."""
import re

from . import load, peers, processes, rates
from .load import Wrk
from .processes import BOTH
from .report import interleaved, same_work, summary

BULK = [("CPU s/GB", "cpu_s_per_gb", 3), ("user", "user_us", 0), ("system", "sys_us", 0), ("MB/s", "mb_per_second", 0), ("p50 ms", "p50", 2), ("p99 ms", "p99", 2)]
LARGE = 100_000  # bytes of a body from which on peers get buffers of 64 KB
COST = [("CPU µs/request", "cpu_us", 1), ("user", "user_us", 1), ("system", "sys_us", 1), ("requests/s", "per_second", 0),
        ("p50 ms", "p50", 2), ("p99 ms", "p99", 2)]


def start_all(names, cores=processes.TESTED, **front):
    """Every peer with the same front; a peer that does not start is the string that says why."""
    programs = {}
    for name in names:
        try:
            programs[name] = peers.start(name, peers.Front(port=0, **front), cores)
        except peers.DidNotStart as why:
            programs[name] = str(why)
    return programs


def stop_programs(programs):
    for program in programs.values():
        if not isinstance(program, str):
            program.stop()


def asked(programs):
    return {name: load.negotiated(program.port) for name, program in programs.items() if not isinstance(program, str)}


def rivals(names):
    return [n for n in names if not n.startswith(("lockgate", "node", "direct"))]


def tls_echo(report, a):
    """T1: POST echo through TLS to a TCP port, beside the terminators and beside Node.js itself with and without TLS."""
    names = [n for n in a.peers if n in peers.PEERS]
    own = [n for n in a.peers if n.startswith("node")]
    runs = sum(a.secs + 1.2 + (load.SET_UP if c >= 3000 and name in ("hitch", *own) else c / 1000) for c in a.conns for name in names + own)
    report.head(f"TLS echo (T1): POST over TLS to a {'Unix socket' if a.upstream == 'unix' else 'TCP port'}", runs * len(a.sizes) * len(a.keys) * a.rounds)
    for key in a.keys:
        origin = load.Application(processes.OTHERS, only=("unix", "http")) if a.app == "node" else load.Origin()
        for large in sorted({size >= LARGE for size in a.sizes}):
            programs = start_all(names, upstream=origin.unix if a.upstream == "unix" else origin.tcp, key=key, large=large)
            for name in own:
                kind = "https" if name == "node-tls" else "http"
                app = load.Application(processes.TESTED, key=key, only=(kind,) if kind == "http" else ("https",))
                app.port = app.https if kind == "https" else app.http
                programs[name] = app
            notes = same_work({n: t for n, t in asked({n: p for n, p in programs.items() if n != "node-plain"}).items()})
            for conns in a.conns:
                for size in a.sizes:
                    if (size >= LARGE) != large:
                        continue

                    def measure(name, program):
                        counted = program.counted if name in own else origin.counted
                        return load.steady(program, counted, Wrk(conns, post=size), program.port, name != "node-plain", a.secs)
                    rows = interleaved(programs, a.rounds, measure)
                    report.cell(f"POST {size:,} B, c = {conns:,}, {key}", rows, COST + [("connections up", "up", 0), ("with set-up µs", "whole_us", 1)], cost="cpu_us",
                                rivals=rivals(names), goal=0.9 if size <= 1000 else 0.85, notes=notes)
            stop_programs(programs)
        origin.stop()


HANDSHAKES = {"ecdsa-new": ("ecdsa", 16, ["--no-resumption"], 0.65), "rsa-new": ("rsa", 16, ["--no-resumption"], None),
              # Eight at once: a client keeps eight tickets for one server, and sixteen that ask in step find none left.
              "ecdsa-resumed": ("ecdsa", 8, [], None)}


def handshakes(report, a):
    """A connection for each request over TLS to a TCP port: full handshakes with both keys, and resumed ones."""
    report.head("Handshakes: connect, handshake, GET 100 B, close", len(a.modes) * a.rounds * len(a.peers) * (a.secs + 0.5))
    origin = load.Origin()
    for mode in a.modes:
        key, conns, resumption, goal = HANDSHAKES[mode]
        programs = start_all(a.peers, upstream=origin.tcp, key=key)

        def measure(name, program):
            r = rates.whole(program, f"https://127.0.0.1:{program.port}/100", "-c", conns, "-d", f"{a.secs}s", "--per-connection", 1, *rates.TLS_OFFERED, *resumption)
            share = r.get("resumed_percent", 0)
            # The first connection of each slot has nothing to resume.
            if resumption and share or not resumption and share < 90:
                r["errors"][f"{share:.0f} % of connections were resumed"] = 1
            return r
        rows = interleaved(programs, a.rounds, measure)
        report.cell(f"{key}, {'full' if resumption else 'resumed'}, c = {conns}", rows, [("CPU µs/connection", "cpu_us", 0), *COST[1:], ("resumed %", "resumed_percent", 0)], cost="cpu_us", rivals=rivals(a.peers),
                    goal=goal, notes=same_work({n: r[0].get("tls") for n, r in rows.items() if not isinstance(r, str) and r}))
        stop_programs(programs)
    origin.stop()


# What is moved: over TLS or plain, through a site or a relay, down or up; and what to reach.
MOVED = {"tls-down": ("TLS download through a relay, 768 KB bodies, c = 16", {"key": "ecdsa"}, 0.58), "tls-up": ("TLS upload through a relay, 768 KB bodies, c = 16", {"key": "ecdsa"}, 0.6),
         "site-down": ("TLS download through a site, 768 KB bodies, c = 16", {"key": "ecdsa", "http": True}, None), "site-up": ("TLS upload through a site, 768 KB bodies, c = 16", {"key": "ecdsa", "http": True}, 0.6),
         "tcp-down": ("Plain TCP, 1 GiB down on one connection", {}, 1.0), "tcp-up": ("Plain TCP, 1 GiB up on one connection", {}, 1.0)}


def bulk(report, a):
    """Large bodies: 768 KB down and up over TLS, through a relay and a site; one gigabyte down and up over plain TCP on one connection, or four on many."""
    fitting = {cell: [p for p in a.peers if fits(cell, p)] for cell in a.cells}
    report.head("Large bodies", sum(map(len, fitting.values())) * a.rounds * (a.secs + 1.5))
    origin = load.Origin()
    for cell in a.cells:
        title, front, goal = MOVED[cell]
        down, notes = cell.endswith("down"), []
        programs = start_all(fitting[cell], upstream=origin.tcp, large=True, user=a.user, **front)
        if front:
            wrk = Wrk(16, get=786432) if down else Wrk(16, post=786432, sink=True)
            rows = interleaved(programs, a.rounds, lambda _, p: load.steady(p, origin.counted, wrk, p.port, True, a.secs, pooled="http" in front))
            notes = same_work(asked(programs))
        else:
            if a.conns > 1:
                title = f"Plain TCP, 4 GiB {'down' if down else 'up'} on {a.conns} connections at once"
            size = (1 << 30 if a.conns == 1 else (4 << 30) // a.conns)
            options = ["--connections", a.conns, "--get", size, "--discard"] if down else ["--connections", a.conns, "--post", size, "--path", "/sink"]
            rows = interleaved(programs, a.rounds, lambda _, p: load.whole(p, p.port, "--once", *options, tls="off"))
        # The goal was set beside these; http-tunnel and Go's relays are no balancers.
        report.cell(title + (f", as the user {a.user}" if a.user else ""), rows, BULK, cost="cpu_s_per_gb", rivals=[n for n in rivals(programs) if not n.startswith(("go-", "http-tunnel"))], goal=goal, notes=notes)
        stop_programs(programs)
    origin.stop()


def fits(cell, name):
    """Whether a peer is for this kind of work: hitch has no plain TCP and no HTTP, splicing is for plain TCP."""
    plain, site = cell.startswith("tcp"), cell.startswith("site")
    if name.startswith("hitch"):
        return not plain and not site
    if name.startswith(("haproxy-copies", "haproxy-splice", "go-", "http-tunnel")):
        return plain
    if name.startswith("haproxy"):
        return not plain
    return site or not name.startswith(("h2o", "caddy"))


def tcp(report, a):
    """The plain relay where connections come and go: 10 KB with a reconnect every 50 requests, and a connection per request."""
    report.head("Plain TCP relay", 2 * a.rounds * len(a.peers) * (a.secs + 1.5))
    for title, requests, wrk in (("10 KB, reconnect every 50 requests, c = 100", 50, Wrk(100, get=10000)),
                                 ("100 B, a connection per request, c = 50", 0, Wrk(50, get=100, close=True))):
        origin = load.Origin(requests=requests)
        programs = start_all(a.peers, upstream=origin.tcp)
        rows = interleaved(programs, a.rounds, lambda _, p: load.steady(p, origin.counted, wrk, p.port, False, a.secs))
        report.cell(title, rows, COST, cost="cpu_us", rivals=rivals(programs), goal=1.05)
        stop_programs(programs)
        origin.stop()


def two_workers(report, a):
    """CPU per handshake with two workers against one, everything on both cores, and what each worker got of the connections."""
    report.head("Two workers against one", 2 * a.rounds * len(a.peers) * (a.secs + 1))
    origin = load.Origin(cores=BOTH)
    programs, accepted = {}, {}
    for name in a.peers:
        for workers in (1, 2):
            front = peers.Front(port=0, upstream=origin.unix, key="ecdsa", workers=workers, metrics=processes.free_port())
            try:
                programs[f"{name} ×{workers}"] = peers.start(name, front, BOTH)
            except peers.DidNotStart as why:
                programs[f"{name} ×{workers}"] = str(why)

    def measure(name, program):
        before, by_task = accepted_by_worker(program), program.cpu_by_task()
        r = load.whole(program, program.port, "--connections", a.conns, "--close", "--get", 10, "--seconds", a.secs, cores=BOTH)
        after = accepted_by_worker(program)
        if before and after:
            counts, source = [after[w] - before.get(w, 0) for w in sorted(after)], "connections counted"
        else:
            used = program.cpu_by_task()
            counts, source = sorted((used[t] - by_task.get(t, 0) for t in used), reverse=True)[:program.front.workers], "CPU"
        r["shares"] = [c / max(1e-9, sum(counts)) for c in counts]
        accepted.setdefault(name, []).append((r["shares"], source))
        return r
    rows = interleaved(programs, a.rounds, measure)
    report.cell(f"ecdsa, new connections, c = {a.conns}, program and load on both cores", rows, [("CPU µs/connection", "cpu_us", 0), *COST[1:4]])
    lines = []
    for name in a.peers:
        one, two = (rows.get(f"{name} ×{n}") for n in (1, 2))
        if isinstance(one, str) or isinstance(two, str) or not (one and two):
            lines.append([name, "did not start", "", ""])
            continue
        ratio = summary(two)["median"].get("cpu_us", 0) / max(1e-9, summary(one)["median"].get("cpu_us", 0))
        shares = [s for s, _ in accepted[f"{name} ×2"]]
        worst = max((max(s) - min(s)) / max(s) for s in shares)
        lines.append([name, f"{ratio:.2f}", " / ".join(f"{100 * x:.0f} %" for x in shares[-1]), f"{100 * worst:.0f} % by {accepted[f'{name} ×2'][-1][1]}"])
    report.plain("Two against one", ["", "CPU per connection, two ÷ one", "shares (last round)", "the smaller share is at worst lower by"], lines,
                 ["Lockgate is to reach ≤ 1.10 and a difference within 20 %."])
    stop_programs(programs)
    origin.stop()


def accepted_by_worker(program):
    """Connections per worker by Lockgate's metrics, whatever their other labels; nothing for the others."""
    answer = load.fetch(program.front.metrics, "/metrics") if program.name == "lockgate" else None
    found = re.findall(r'^lockgate_worker_connections_accepted_total\{[^}]*\bworker="(\w+)"[^}]*\} (\d+)', answer[1] if answer else "", re.M)
    counts = {}
    for worker, n in found:
        counts[worker] = counts.get(worker, 0) + int(n)
    return counts
