"""Many connections at once: memory of idle ones, five thousand together, and more of them than descriptors."""
import re
import shutil
import subprocess
import time

from . import load, peers, processes
from .processes import OTHERS, Process
from .report import gone, interleaved, progress
from .throughput import COST, LARGE, rivals, start_all, stop_programs


def idle_memory(report, a):
    """PSS per idle TLS connection, through a relay or a site, and CPU a second for all: before and after, every round in a fresh process."""
    a.peers = [name for name in a.peers if a.front == "relay" and not name.startswith(("h2o", "caddy")) or a.front == "site" and not name.startswith("hitch")]
    report.head(f"{a.conns:,} idle TLS connections after one request each, through a {a.front}", a.rounds * len(a.peers) * (a.wait + 12))
    origin = load.Origin()
    rows = {name: [] for name in a.peers}
    for _ in range(a.rounds):
        for name in a.peers:
            if isinstance(rows[name], str):
                continue
            try:
                program = peers.start(name, peers.Front(port=0, upstream=origin.tcp, key=a.key, http=a.front == "site"))
            except peers.DidNotStart as why:
                rows[name] = str(why)
                continue
            load.negotiated(program.port)  # what the very first connection allocates for good is not the second's
            time.sleep(0.5)
            before = program.pss()
            holder = load.client(program.port, "--connections", a.conns, "--stay", "--get", 100, "--opening", 64, stdin=subprocess.PIPE)
            ready = holder.popen.stdout.readline().strip() == "ready"
            time.sleep(7)  # what follows the last request is no idling: after five seconds a relay sets keep-alive
            cpu_before, began = program.cpu(), time.monotonic()
            time.sleep(a.wait)
            idle_ms = (program.cpu() - cpu_before).total / 1e3 / (time.monotonic() - began)
            after = program.pss()
            said = load.finish_client(holder)
            errors = load.errors_of(said) | ({} if ready else {"not all were answered": 1}) | ({"lost while idle": said["lost"]} if said["lost"] else {})
            rows[name].append({"kb": (after - before) / a.conns, "before": before / 1024, "after": after / 1024, "idle_ms": idle_ms, "errors": errors | gone(program)})
            program.stop()
            progress(f"{name}")
    report.cell(f"{a.conns:,} idle connections, {a.key}, {a.front}", rows, [("KB/connection (PSS)", "kb", 1), ("CPU ms/s of all", "idle_ms", 2), ("MB before", "before", 1), ("MB with them", "after", 1)],
                cost="kb", rivals=rivals(a.peers), goal=0.8)
    origin.stop()


def ab(report, a):
    """`ab` with 5,000 connections at once through a site, a connection for each request: none may fail."""
    report.head(f"ab -n {2 * a.conns} -c {a.conns}", len(a.sizes) * a.rounds * len(a.peers) * 3)
    a.peers = [name for name in a.peers if not name.startswith("hitch")]
    origin = load.Origin()
    for size in a.sizes:
        programs = start_all(a.peers, upstream=origin.tcp, http=True, large=size >= LARGE)
        rows = interleaved(programs, a.rounds, lambda _, p: one_ab(p, size, a.conns))
        report.cell(f"ab, {2 * a.conns:,} requests of {size:,} B, {a.conns:,} at once", rows, [*COST[:4], ("p50 ms", "p50", 0), ("p99 ms", "p99", 0), ("max ms", "max", 0)], cost="cpu_us", rivals=rivals(a.peers), goal=1.0)
        stop_programs(programs)
    origin.stop()


def one_ab(program, size, conns):
    """Weighs the program over one run of ab; every answer's length must be that of the first, and there must be as many as asked for."""
    if not shutil.which("ab"):
        return {"errors": {"there is no ab: Debian's package apache2-utils": 1}}
    program.until_quiet()
    before, core_before, began = program.cpu(), processes.busy(0), time.monotonic()
    generator = Process(["ab", "-q", "-n", str(2 * conns), "-c", str(conns), "-s", "60", f"http://127.0.0.1:{program.port}/{size}"], OTHERS, "ab", stdout=subprocess.PIPE)
    out = load.spoken(generator, 180)
    lasted = time.monotonic() - began
    disturbed = load.others(program.cpu() - before, processes.busy(0) - core_before, lasted)
    generator.stop()
    program.until_quiet()
    said = {key: re.search(rf"^{words}:? +([\d.]+)", out, re.M) for key, words in
            {"done": "Complete requests", "failed": "Failed requests", "other": "Non-2xx responses", "length": "Document Length", "seconds": "Time taken for tests", "p50": " +50%", "p99": " +99%", "max": " +100%"}.items()}
    if not said["done"]:
        return {"errors": {"ab: " + (" ".join(out.split())[-120:] or "nothing said"): 1}}
    done, length = int(said["done"].group(1)), int(said["length"].group(1))
    wrong = {"failed": int(said["failed"].group(1)), "not 2xx": int(said["other"].group(1)) if said["other"] else 0, "unanswered": 2 * conns - done, f"answers of {length} B": int(length != size)}
    record = load.weighed(program.cpu() - before, done, done * size, float(said["seconds"].group(1)))
    return record | {key: float(said[key].group(1)) for key in ("p50", "p99", "max") if said[key]} | {"others_percent": disturbed, "errors": {kind: n for kind, n in wrong.items() if n}}


def five_thousand(report, a):
    """T10: five thousand connections opened in one go; no request may fail, whatever the size."""
    report.head(f"{a.conns:,} connections at once", len(a.sizes) * len(a.fronts) * a.rounds * (len(a.peers) + 1) * 8)
    for front in a.fronts:
        origin = load.Origin()
        names = [p for p in a.peers if front == "tls" or p != "hitch"]
        programs = start_all(names, upstream=origin.unix, key="ecdsa") if front == "tls" else start_all(names, upstream=origin.tcp)
        if front == "tcp":
            origin.process.port = origin.port
            programs = {"direct": origin.process} | programs
        for size in a.sizes:
            requests = 2 if size < 500_000 else 1

            def measure(_, program):
                r = load.whole(program, program.port, "--connections", a.conns, "--once", "--requests", requests, "--get", size, "--timeout", 60,
                               tls="any" if front == "tls" else "off", seconds=300)
                if r["requests"] < a.conns * requests and not r["errors"]:
                    r["errors"] = {"unanswered": a.conns * requests - r["requests"]}
                return r
            rows = interleaved(programs, a.rounds, measure)
            report.cell(f"{front}, {size:,} B, {requests} request{'s' * (requests > 1)} on each", rows,
                        [("answered", "requests", 0), ("open at once", "peak", 0), ("s in all", "seconds", 1), ("p50 ms", "p50", 0), ("p99 ms", "p99", 0), ("max ms", "max", 0), ("CPU µs/request", "cpu_us", 0)])
        stop_programs({n: p for n, p in programs.items() if n != "direct"})
        origin.stop()


def descriptors(report, a):
    """A limit of 300 descriptors for the program alone: what does it do while it is full, and is everybody served in turn?"""
    report.head("300 descriptors", len(a.peers) * (a.secs + 12))
    lines = []
    for name in a.peers:
        origin = load.Origin()
        try:
            program = peers.start(name, peers.Front(port=0, upstream=origin.unix, key="ecdsa", few_descriptors=True))
        except peers.DidNotStart as why:
            lines.append([name, str(why)] + [""] * 8)
            report.bad |= name == "lockgate"
            continue
        said_before = program.said().count("\n") + errors_logged(program)
        crowd = load.client(program.port, "--connections", 400, "--stay", "--get", 10, stdin=subprocess.PIPE)
        time.sleep(2.5)
        before, began = program.cpu(), time.monotonic()
        time.sleep(a.secs)
        used = (program.cpu() - before).total / (time.monotonic() - began) / 1e4
        said_full = program.said().count("\n") + errors_logged(program) - said_before
        held = load.finish_client(crowd)
        program.until_quiet()
        turn = load.finish_client(load.client(program.port, "--connections", a.clients, "--once", "--get", 10, "--hold", 20, "--timeout", 60), 120)
        failed = ", ".join(f"{n} {kind}" for kind, n in load.errors_of(turn).items())
        said_all = program.said().count("\n") + errors_logged(program) - said_before
        alive = program.alive()
        lines.append([name, held["requests"], held["lost"], f"{used:.1f} %", said_full, f"{turn['requests']} of {a.clients}", failed or "0", f"{turn['seconds']:.1f} s", said_all, "yes" if alive else "**no**"])
        report.bad |= name == "lockgate" and (turn["requests"] < a.clients or not alive or used > 20)
        program.stop()
        origin.stop()
    report.plain("A limit of 300 descriptors, 400 connections that stay, then clients that come all at once and stay 20 ms",
                 ["", "held when full", "lost", f"CPU while full ({a.secs:g} s)", "log lines while full", "served in turn", "failed", "took", "log lines in all", "still runs"], lines)


def errors_logged(program):
    """Lines of an error log of its own, which nginx keeps."""
    try:
        with open(f"{program.directory}/error.log", errors="replace") as f:
            return f.read().count("\n")
    except OSError:
        return 0
