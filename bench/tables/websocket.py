"""WebSockets through a site: the Autobahn test suite's verdicts direct and behind each program, a browser, the memory of idle ones."""
import base64
import json
import os
import re
import socket
import ssl
import time

from . import peers, processes, rates, sites
from .processes import BUILT, Process
from .report import gone, progress, turn
from .throughput import COST, rivals

PYTHON2, SUITE = f"{BUILT}/python2", f"{BUILT}/autobahn"
GOOD = ("OK", "NON-STRICT", "INFORMATIONAL")


class Echo(Process):
    """The WebSocket origin."""

    def __init__(self, cores=processes.OTHERS):
        self.port = processes.free_port()
        super().__init__(["node", f"{BUILT}/node/ws-echo.mjs", str(self.port)], cores, "ws-echo")
        if not self.listens(self.port):
            raise RuntimeError(f"the origin did not start: {self.said()[-300:]}")
        self.tcp = f"127.0.0.1:{self.port}"


def autobahn(report, a):
    """Autobahn's fuzzing client against ws, direct and through each program: every case must have the same verdict."""
    report.head("Autobahn test suite", 60 * (1 + len(a.peers) * len(a.fronts)) * (4 if any(c.startswith("1") and c[:2] in ("12", "13") for c in a.cases) else 1))
    if not os.path.exists(PYTHON2):
        report.plain("Autobahn test suite", ["not run"], [["there was no CPython 2.7 when bench/setup ran: the suite needs one (pyenv install 2.7.18)"]])
        report.bad = True
        return
    origin = Echo()
    direct = fuzz("direct", f"ws://127.0.0.1:{origin.port}", a.cases)
    lines = [line_of("direct", direct, direct)]
    for name in a.peers:
        for front in a.fronts:
            behind, upstream, endpoint = None, origin.tcp, "http1"
            try:
                if front == "h2":  # The suite's client has no HTTP/2: one before it speaks that, and is tried as well.
                    behind = sites.start(name, sites.Site(upstreams=(origin.tcp,), h2c=True))
                    upstream, endpoint = f"127.0.0.1:{behind.port}", "h2c"
                program = sites.start(name, sites.Site(upstreams=(upstream,), endpoint=endpoint, key="ecdsa" if front == "tls" else None))
            except peers.DidNotStart as why:
                lines.append([f"{name}, {front}", str(why)] + [""] * 4)
                report.bad |= name == "lockgate"
                continue
            progress(f"{name} {front}")
            found = fuzz(f"{name}-{front}", f"{'wss' if front == 'tls' else 'ws'}://127.0.0.1:{program.port}", a.cases)
            lines.append(line_of(f"{name}, {front}", found, direct))
            report.bad |= name == "lockgate" and (not found or bool(others(found, direct)) or not program.alive())
            program.stop()
            if behind:
                behind.stop()
    origin.stop()
    report.plain(f"Autobahn test suite, cases {', '.join(a.cases)}, against ws", ["", "cases", "passed", "failed", "other verdict than direct", "took"], lines,
                 ["Passed: OK, NON-STRICT or INFORMATIONAL. The verdict of a case is its behaviour, its behaviour on close and the close code of the server."])


def fuzz(name, url, cases):
    """Runs the fuzzing client; {case: (behaviour, behaviour on close, close code, milliseconds)}."""
    directory = processes.fresh_directory(f"autobahn-{name}")
    spec = os.path.join(directory, "spec.json")
    with open(spec, "w") as f:
        json.dump({"outdir": directory, "servers": [{"agent": "it", "url": url}], "cases": cases, "exclude-cases": [], "exclude-agent-cases": {}}, f)
    client = Process([PYTHON2, "-m", "autobahntestsuite.wstest", "-m", "fuzzingclient", "-s", spec], processes.OTHERS, "autobahn",
                     env={"PYTHONUSERBASE": SUITE}, cwd=directory)
    client.wait(1800)
    client.stop()
    try:
        with open(os.path.join(directory, "index.json")) as f:
            return {case: (r["behavior"], r["behaviorClose"], r["remoteCloseCode"], r["duration"]) for case, r in json.load(f)["it"].items()}
    except (OSError, ValueError, KeyError):
        progress("")
        print(client.said()[-500:])
        return {}


def others(found, direct):
    return [f"{case}: {direct.get(case, ('none',))[:3]} direct, {found.get(case, ('none',))[:3]}"
            for case in sorted({*found, *direct}, key=lambda c: [int(n) for n in c.split(".")]) if found.get(case, ())[:3] != direct.get(case, ())[:3]]


def line_of(name, found, direct):
    failed = [case for case, r in found.items() if r[0] not in GOOD or r[1] not in GOOD]
    different = others(found, direct)
    return [name, len(found) or "**it did not run**", len(found) - len(failed), ", ".join(failed) or "0", "; ".join(f"**{d}**" for d in different[:10]) + (f" and {len(different) - 10} more" if len(different) > 10 else "") or "none",
            f"{sum(r[3] for r in found.values()) / 1000:.0f} s"]


ECHOED = "echoed, closed with 1000"


def browser(report, a):
    """Chromium loads a page over HTTP/2 that echoes on two WebSockets: are they streams of that connection (RFC 8441)?"""
    report.head("WebSockets in a browser", 8 * len(a.peers))
    lines = []
    for name in a.peers:
        origin = Echo()
        try:
            program = sites.start(name, sites.Site(upstreams=(origin.tcp,), key="ecdsa", h2=True))
        except peers.DidNotStart as why:
            lines.append([name, str(why), "", ""])
            report.bad |= name == "lockgate"
            origin.stop()
            continue
        progress(name)
        said, extended = visit(f"https://127.0.0.1:{program.port}/", origin)
        over = "HTTP/2" if extended == 2 else "HTTP/1.1" if extended == 0 and said.get("sockets") else f"{extended} of 2 over HTTP/2"
        lines.append([name, said.get("page", "**the page said nothing**"), "; ".join(said.get("sockets", [])), over])
        report.bad |= name == "lockgate" and (said.get("page"), said.get("sockets"), extended) != ("h2", [ECHOED] * 2, 2)
        program.stop()
        origin.stop()
    report.plain("A page with two WebSockets: 6 bytes of text, 200,000 bytes", ["", "page over", "WebSockets", "WebSockets over"], lines)


def visit(url, origin, seconds=30):
    """What the page reported, and how many extended CONNECTs Chromium wrote to its log of the network."""
    directory = processes.fresh_directory("chromium")
    log = os.path.join(directory, "net.json")
    chromium = Process(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", f"--user-data-dir={directory}",
                        f"--log-net-log={log}", url], processes.OTHERS, "chromium")
    end, said = time.monotonic() + seconds, {}
    while not said and chromium.alive() and time.monotonic() < end:
        time.sleep(0.1)
        said = next((json.loads(line) for line in origin.said().splitlines() if line.startswith("{") and line.endswith("}")), {})
    chromium.stop(patience=10)
    try:
        with open(log, errors="replace") as f:  # an event a line; the end is missing
            sent = re.search(r'"HTTP2_SESSION_SEND_HEADERS":(\d+)', f.readline())
            return said, sum(":protocol: websocket" in line and line.rstrip(",\n").endswith(f'"type":{sent.group(1)}}}') for line in f)
    except (OSError, AttributeError):
        return said, 0


def echoes(report, a):
    """WebSockets that echo as fast as they can: CPU a message, and memory of a busy connection; every round in a fresh process."""
    names = [name for name in a.peers if not name.startswith(("hitch", "h2o"))]
    report.head(f"WebSocket echoes over {a.conns:,} connections", a.rounds * len(names) * len(a.fronts) * (a.secs + 1.5))
    for front in a.fronts:
        origin = Echo()
        options = ["-c", a.conns, "-d", f"{a.secs}s", "--body-size", 64, *(rates.TLS_OFFERED if front == "tls" else [])]
        rows = {name: [] for name in names}
        for number in range(a.rounds):
            for name in turn(names, number):
                if isinstance(rows[name], str):
                    continue
                try:
                    program = peers.start(name, peers.Front(port=0, upstream=origin.tcp, key="ecdsa" if front == "tls" else None, http=True, upgrades=True))
                except peers.DidNotStart as why:
                    rows[name] = str(why)
                    continue
                record = rates.whole(program, f"{'wss' if front == 'tls' else 'ws'}://127.0.0.1:{program.port}/", *options)
                record["errors"] |= gone(program)
                rows[name].append(record)
                program.stop()
                progress(f"{front} {name}")
        for cost, goal in (("cpu_us", 0.85), ("kb", 0.6)):
            what = "memory of a busy connection" if cost == "kb" else "CPU"
            report.cell(f"echo of 64 B, c = {a.conns:,}, {front}: {what}", rows, [("CPU µs/message", "cpu_us", 1), *COST[1:], ("KB/connection", "kb", 1)], cost=cost, rivals=rivals(names), goal=goal)
        origin.stop()


def open_socket(port, front, context):
    """One upgraded connection that has echoed one message; None with a reason when it was refused."""
    s = socket.create_connection(("127.0.0.1", port), 30)
    if front == "tls":
        s = context.wrap_socket(s, server_hostname=sites.HOST)
    key = base64.b64encode(os.urandom(16)).decode()
    s.sendall(f"GET / HTTP/1.1\r\nHost: {sites.HOST}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = s.recv(1)
        if not piece:
            raise OSError("closed before its answer")
        head += piece
    if not head.startswith(b"HTTP/1.1 101 "):
        raise OSError(head.split(b"\r\n")[0].decode(errors="replace"))
    echoed(s)
    return s


def echoed(s):
    """Sends "idle" in a masked text frame (RFC 6455 §5.2) and wants it back."""
    mask = os.urandom(4)
    s.sendall(b"\x81\x84" + mask + bytes(a ^ b for a, b in zip(b"idle", mask)))
    back = b""
    while len(back) < 6:
        piece = s.recv(6 - len(back))
        if not piece:
            raise OSError("closed before the echo")
        back += piece
    if back != b"\x81\x04idle":
        raise OSError(f"another frame came back: {back!r}")


def websockets(report, a):
    """PSS per idle WebSocket after one echo each: the program's memory before and after, every round in a fresh process."""
    report.head(f"Memory of {a.conns:,} idle WebSockets", a.rounds * len(a.peers) * len(a.fronts) * (a.wait + 10))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    os.sched_setaffinity(0, processes.OTHERS)
    for front in a.fronts:
        rows = {name: [] for name in a.peers}
        for _ in range(a.rounds):
            for name in a.peers:
                if not isinstance(rows[name], str):
                    rows[name] = idle(name, front, a, context, rows[name])
                    progress(f"{front} {name}")
        report.cell(f"{a.conns:,} idle WebSockets, {front}", rows, [("KB/connection (PSS)", "kb", 1), ("MB before", "before", 1), ("MB with them", "after", 1), ("answered", "opened", 0), ("still there", "kept", 0)],
                    cost="kb", rivals=[n for n in a.peers if not n.startswith("lockgate")], goal=0.8)


def idle(name, front, a, context, records):
    origin = Echo()
    try:
        program = sites.start(name, sites.Site(upstreams=(origin.tcp,), key="ecdsa" if front == "tls" else None))
    except peers.DidNotStart as why:
        origin.stop()
        return str(why)
    errors, held = {}, []

    def failed(why):
        errors[str(why)] = errors.get(str(why), 0) + 1

    try:
        open_socket(program.port, front, context).close()  # what the very first connection allocates for good is not the second's
    except OSError as why:
        failed(why)
    time.sleep(0.5)
    before = program.pss()
    for _ in range(a.conns):
        try:
            held.append(open_socket(program.port, front, context))
        except OSError as why:
            failed(why)
    time.sleep(a.wait)
    after, kept = program.pss(), 0
    for s in held:
        try:
            echoed(s)
            kept += 1
        except OSError as why:
            failed(f"{re.sub(r'0x[0-9a-f]+', '', str(why))} after it was idle")
        s.close()
    program.stop()
    origin.stop()
    return [*records, {"kb": (after - before) / a.conns, "before": before / 1024, "after": after / 1024, "opened": len(held), "kept": kept, "errors": errors}]
