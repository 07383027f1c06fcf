"""T9: CONNECT proxies: tunnels that are set up and ended, requests relayed through them, and large bodies, plain and over TLS."""
from . import load, peers, relay, tunnels
from .report import interleaved, same_work
from .throughput import COST, rivals, stop_programs

SET_UPS, BODY = 16, 1 << 30
MOVED = [("CPU-s/GB", "cpu_s_per_gb", 3), ("MB/s", "mb_per_second", 0), ("core %", "core_percent", 0)]
TABLES = ("set-up", "close", "relay", "ladder", "down", "up")
GOALS = {"set-up": 0.77, "relay": 1.05, "down": 0.5, "up": 0.5}  # 0.77: 1.3 × as many set-ups of a CPU-second


def tunnel(report, a):
    """T9: CONNECT proxies, plain and over TLS: set-ups, requests through tunnels, and 1 GiB through one."""
    each = {"ladder": relay.STEPS * a.secs + a.top, "down": 3, "up": 3}
    report.head("CONNECT tunnels (T9)", sum(each.get(table, a.secs + 0.5) for table in a.tables for _ in a.fronts) * len(a.peers) * a.rounds)
    for front in a.fronts:
        programs = start_all(a.peers, "ecdsa" if front == "tls" else None)
        for table in a.tables:
            if table == "ladder" and front == "tls":
                continue  # the generator of rates reaches no proxy over TLS
            origin = load.Origin({a.origin}, requests=relay.REUSED if table in ("relay", "ladder") else 0)
            if table == "ladder":
                ladder(report, a, origin, programs)
            else:
                cell(report, a, table, front, origin, programs)
            origin.stop()
        stop_programs(programs)


def start_all(names, key):
    programs = {}
    for name in names:
        try:
            programs[name] = tunnels.start(name, tunnels.Tunnel(key=key))
        except peers.DidNotStart as why:
            programs[name] = str(why)
    return programs


SHAPES = {  # what the client does, and what a row of it is called
    "set-up": (["--connections", SET_UPS, "--close", "--get", 10], f"connect, CONNECT, GET 10 B, close, c = {SET_UPS}"),
    "close": (["--connections", 10, "--close", "--get", relay.SIZE], f"a tunnel for each request of {relay.SIZE:,} B, c = 10"),
    "relay": (["--connections", 100, "--get", relay.SIZE], f"{relay.SIZE:,} B, {relay.REUSED} requests a tunnel, c = 100"),
    "down": (["--once", "--get", BODY], "1 GiB down through one tunnel"),
    "up": (["--once", "--post", BODY, "--path", "/sink"], "1 GiB up through one tunnel"),
}


def cell(report, a, table, front, origin, programs):
    options, title = SHAPES[table]
    bulk = table in ("down", "up")
    more = [*options, *([] if bulk else ["--seconds", a.secs]), *(["--discard"] if table == "down" and front == "plain" else [])]

    def measure(_, program):
        before = origin.counted.read()
        r = load.whole(program, program.port, *more, "--tunnel", origin.tcp, tls=a.tls if front == "tls" else "off")
        came = {kind: n - before[kind] for kind, n in origin.counted.read().items()}
        # What failed may have come to the origin or not; of a whole run nothing else is in doubt.
        if not r["errors"] and came["requests"] != r["requests"]:
            r["errors"][f"{came['requests']:,} requests at the origin, {r['requests']:,} answers"] = 1
        if bulk and not r["errors"] and came["bytes_out" if table == "down" else "bytes_in"] != BODY:
            r["errors"]["not all bytes at the origin"] = 1
        r["set_ups"] = r["connections"] / max(1e-9, r["cpu_us"] * r["requests"] / 1e6)
        return r
    rows = interleaved(programs, a.rounds, measure)
    notes = same_work({name: records[0].get("tls") for name, records in rows.items() if not isinstance(records, str) and records}) if front == "tls" else []
    columns = MOVED if bulk else [("set-ups/CPU-s", "set_ups", 0), *COST] if table in ("set-up", "close") else COST
    report.cell(f"{'over TLS' if front == 'tls' else 'plain'}: {title}", rows, columns, cost="cpu_s_per_gb" if bulk else "cpu_us", rivals=rivals(programs), goal=GOALS.get(table), notes=notes)


def ladder(report, a, origin, programs):
    """T6 through tunnels: the generator is `lockgate load --proxy`."""
    target = f"http://{origin.tcp}/{relay.SIZE}"
    relay.cell(report, a, "t6", origin, {"direct": relay.itself(origin)} | programs, lambda program: (target, ["--proxy", f"http://127.0.0.1:{program.port}"]), " through a tunnel")
