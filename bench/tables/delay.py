"""The 40 ms test (T2): origins and clients that leave Nagle's algorithm on and write in pieces, seen through every peer."""
from . import load, peers, processes, rates
from .processes import BUILT, OTHERS, Process
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


SIZE = 1000           # bytes of a body
HOWS = ["length", "chunked", "h2c"]
FRONTS = {"http": {}, "https": {"key": "ecdsa"}, "h2": {"key": "ecdsa", "h2": True}}
SITE_PEERS = [*peers.OURS, "lockgate-relay", "haproxy", "nginx"]


def forty_ms_sites(report, a):
    """T2 through sites: answers of endpoints and uploads of clients in 2 to 5 writes with Nagle's algorithm on, HTTP/1 and HTTP/2."""
    cases = [(how, writes, front) for how in a.hows for writes in a.writes for front in a.fronts]
    uploads = [("upload", writes, front) for writes in a.uploads for front in a.fronts if front != "h2"]
    runs = sum(len(programs_of(a.peers, how, front)) for how, _, front in cases + uploads) * len(a.loads)
    report.head("The 40 ms test (T2) through sites: messages in several writes with Nagle's algorithm on", runs * a.rounds * (a.secs + 0.6))
    lines = []
    for how, writes, front in cases + uploads:
        origin, tcp = start_upload_origin() if how == "upload" else start_pieces(how, writes)
        programs = start_sites(programs_of(a.peers, how, front), front, how, tcp)

        def measure(name, program):
            record = {"errors": {}}
            for kind in a.loads:
                found = asked_of(kind, program, front, a.secs, writes if how == "upload" else 0)
                record |= {f"{kind}_p50": found["p50"], f"{kind}_p99": found["p99"]}
                record["errors"] |= found["errors"]
                progress(f"{how} {writes} {front} {name} {kind}")
            return record
        rows = interleaved(programs, a.rounds, measure)
        columns = [column for kind in a.loads for column in ((f"{kind} p50 ms", f"{kind}_p50", 2), (f"{kind} p99 ms", f"{kind}_p99", 2))]
        what = f"uploads in {writes} writes" if how == "upload" else f"answers in {writes} writes, {how}" if writes > 1 else f"answers in one write, {how}"
        report.cell(f"{what}, clients with {front}", rows, columns)
        for record in [] if isinstance(rows.get("lockgate", ""), str) else rows["lockgate"]:
            lines += [[f"{what}, {front}, {kind}", f"{record[f'{kind}_p99']:.1f}"] for kind in a.loads if record.get(f"{kind}_p99", 0) >= 5]
        stop_programs(programs)
        origin.stop()
    if "lockgate" in a.peers:
        report.plain("Through Lockgate's site, p99 of 5 ms and more", ["where", "ms"], lines or [["nowhere", ""]])


def programs_of(names, how, front):
    """Those that can do it: a relay understands no HTTP/2, and nginx speaks none to endpoints."""
    left_out = {"lockgate-relay": front == "h2" or how == "h2c", "nginx": how == "h2c"}
    return [name for name in names if not left_out.get(name)]


def start_sites(names, front, how, upstream):
    endpoint = "h2c" if how == "h2c" else "http1"
    programs = {}
    for name in names:
        relay = name == "lockgate-relay"
        programs |= start_all([name], upstream=upstream, http=not relay, endpoint=endpoint, **FRONTS[front])
    return programs


def start_pieces(how, writes):
    """The origin that answers in pieces, and where it is."""
    port = processes.free_port()
    process = Process([f"{BUILT}/pieces", "--tcp", str(port), "--writes", str(writes), "--size", str(SIZE), "--how", how], OTHERS, "pieces")
    if not process.listens(port):
        raise RuntimeError(f"the origin did not start: {process.said()[-300:]}")
    return process, f"127.0.0.1:{port}"


def start_upload_origin():
    origin = load.Origin()
    return origin, origin.tcp


def asked_of(kind, program, front, seconds, pieces):
    """One load, in milliseconds: by our client, or by `lockgate load` where clients speak HTTP/2."""
    if front == "h2":
        shape = {"c1": ["-c", 1], "c100": ["-c", 10, "--streams", 10], "paced": ["-c", 10, "--streams", 10, "--rate", 1000]}[kind]
        found = rates.run(program, f"https://127.0.0.1:{program.port}/{SIZE}", "--http2", "--insecure", "--expect-length", SIZE, "--warm-up", "0s", "-d", f"{seconds}s", *shape)[-1]
        return {"p50": found.get("p50", 0) / 1e3, "p99": found.get("p99", 0) / 1e3, "errors": found["errors"]}
    shape = ["--connections", 100, "--rate", 1000] if kind == "paced" else ["--connections", int(kind[1:])]
    wanted = ["--post", SIZE, "--pieces", pieces] if pieces else ["--get", SIZE]
    said = load.finish_client(load.client(program.port, *shape, *wanted, "--seconds", seconds, tls="any" if front == "https" else "off"))
    return {"p50": said["p50"], "p99": said["p99"], "errors": load.errors_of(said)}
