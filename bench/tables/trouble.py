"""What a site is to survive: endpoints that die, stand still or slow down under load, and slow clients by the thousand."""
import asyncio
import collections
import os
import re
import signal
import statistics
import subprocess
import threading
import time

from . import load, peers, processes, sites
from .processes import BUILT, Process
from .report import progress

EVENTS = ("killed", "paused", "slowed")
BEFORE, DURING, AFTER = 6, 14, 6  # seconds: quiet, with the event, and since it is over


class Origin(Process):
    """One endpoint of a pool; it can be started again on its port."""

    def __init__(self, port, file):
        self.port, self.file, self.tcp = port, file, f"127.0.0.1:{port}"
        super().__init__(["node", f"{BUILT}/node/origin.mjs", str(port), file], processes.OTHERS, "origin")
        if not self.listens(port):
            raise RuntimeError(f"the origin did not start: {self.said()[-300:]}")

    def begin(self, event):
        self.signal({"killed": signal.SIGKILL, "paused": signal.SIGSTOP, "slowed": signal.SIGUSR2}[event])

    def end(self, event):
        """The origin that is the endpoint from now on."""
        if event == "killed":
            self.stop()
            return Origin(self.port, self.file)
        self.signal({"paused": signal.SIGCONT, "slowed": signal.SIGUSR2}[event])
        return self


class Load:
    """GETs and POSTs at a fixed rate over kept connections; latency counts from the time each was due."""

    def __init__(self, port, gets, posts, seconds, timeout=30):
        self.port, self.gets, self.posts, self.seconds, self.timeout = port, gets, posts, seconds, timeout
        self.idle, self.done, self.began = [], [], 0.0  # done: (method, due, latency in ms, failure, id)

    async def run(self):
        self.began = time.monotonic()
        total, asked = self.gets + self.posts, []
        for n in range(int(total * self.seconds)):
            due = self.began + n / total
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            post = n * self.posts // total != (n + 1) * self.posts // total
            asked.append(asyncio.create_task(self.one("POST" if post else "GET", due, n)))
        await asyncio.gather(*asked)
        for _, writer in self.idle:
            writer.close()

    async def one(self, method, due, n):
        try:
            failure = await asyncio.wait_for(self.ask(method, n), self.timeout)
        except asyncio.TimeoutError:
            failure = f"nothing for {self.timeout} s"
        except (OSError, asyncio.IncompleteReadError, ValueError) as why:
            failure = type(why).__name__
        self.done.append((method, due - self.began, (time.monotonic() - due) * 1e3, failure, n))

    async def ask(self, method, n):
        reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection("127.0.0.1", self.port)
        kept = False
        try:
            body = b"ten bytes\n" if method == "POST" else b""
            length = f"Content-Length: {len(body)}\r\n" if body else ""
            writer.write(f"{method} /{method.lower()}/{n} HTTP/1.1\r\nHost: {sites.HOST}\r\n{length}\r\n".encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(re.search(r"content-length: *(\d+)", head).group(1)))
            kept = "connection: close" not in head
            status = int(head.split()[1])
            return None if status == 200 else str(status)
        finally:
            if kept:
                self.idle.append((reader, writer))
            else:
                writer.close()


def failures(report, a):
    """One of three endpoints killed, paused or slowed under load: no GET may fail, no POST may come twice."""
    report.head("One of three endpoints in trouble", len(a.peers) * len(a.events) * (BEFORE + DURING + AFTER + 4))
    os.sched_setaffinity(0, processes.OTHERS)
    for event in a.events:
        lines, seconds = [], []
        for name in a.peers:
            progress(f"{event} {name}")
            try:
                line, by_second, good = trouble(name, event, a)
            except peers.DidNotStart as why:
                line, by_second, good = [name, str(why)] + [""] * 10, [], False
            lines.append(line)
            seconds.append([name, *by_second])
            report.bad |= name == "lockgate" and not good
        report.plain(f"One of three endpoints {event} at {BEFORE} s, for {DURING} s; {a.gets} GETs and {a.posts} POSTs a second, a check every second, two failures",
                     ["", "GETs", "failed", "POSTs", "failed", "came twice", "answered but never came", "down after", "up again after", "p99 ms before", f"p99 from {BEFORE} s to the check's fall", "p99 from 5 s after it"], lines)
        report.plain(f"p99 of GETs by the second they were due, ms; {event} from {BEFORE} to {BEFORE + DURING}", ["", *map(str, range(BEFORE + DURING + AFTER))], seconds)


def trouble(name, event, a):
    file = os.path.join(processes.fresh_directory("posts"), "posts")
    origins = [Origin(processes.free_port(), file) for _ in range(3)]
    metrics = processes.free_port() if name.startswith("lockgate") else None
    try:
        program = sites.start(name, sites.Site(upstreams=tuple(o.tcp for o in origins), health="/health", timeouts=a.timeouts or None, metrics=metrics))
    except peers.DidNotStart:
        for origin in origins:
            origin.stop()
        raise
    time.sleep(2.5)  # the first checks
    requests = Load(program.port, a.gets, a.posts, BEFORE + DURING + AFTER)
    turned, over = {}, threading.Event()

    def meddle():
        """Event and end at their times; when the check fell and rose, from the metrics."""
        time.sleep(BEFORE)
        began = time.monotonic()
        origins[0].begin(event)
        ended = None
        while not over.is_set():
            now = time.monotonic()
            if ended is None and now - began >= DURING:
                ended = time.monotonic()
                origins[0] = origins[0].end(event)
            if metrics:
                up = is_up(metrics, origins[0].tcp)
                if up is False:
                    turned.setdefault("down", now - began)
                elif up and ended and "down" in turned:
                    turned.setdefault("up", now - ended)
            time.sleep(0.1)

    hand = threading.Thread(target=meddle)
    hand.start()
    asyncio.run(requests.run())
    over.set()
    hand.join()
    alive = program.alive()
    program.stop()
    for origin in origins:
        origin.stop()
    with open(file, "a+") as f:
        f.seek(0)
        came = collections.Counter(int(line) for line in f)
    gets, posts = ([r for r in requests.done if r[0] == method] for method in ("GET", "POST"))
    twice = sum(n - 1 for n in came.values())
    never = sum(1 for r in posts if not r[3] and r[4] not in came)
    # Others tell no time of the fall: two checks a second apart, and what the last one may take.
    fall = BEFORE + turned.get("down", 2.5 if event != "slowed" or not metrics else 0)
    before, between, since = (p99(gets, *span) for span in ((1, BEFORE - 0.5), (BEFORE, fall), (fall + 5, BEFORE + DURING - 0.5)))
    line = [name, len(gets), kinds(gets), len(posts), kinds(posts), twice or "0", never or "0", told(turned.get("down"), metrics), told(turned.get("up"), metrics),
            *(f"{p:.1f}" if p is not None else "" for p in (before, between, since))]
    good = alive and not any(r[3] for r in gets) and not twice and not never and (event == "slowed" or "up" in turned)
    return line, [f"{p:.0f}" if (p := p99(gets, s, s + 1)) is not None else "" for s in range(BEFORE + DURING + AFTER)], good


def told(seconds, metrics):
    return f"{seconds:.1f} s" if seconds is not None else "never" if metrics else ""


def is_up(metrics, endpoint):
    got = load.fetch(metrics, "/metrics")
    found = re.search(r"^lockgate_upstream_up\{[^}]*" + re.escape(endpoint) + r"[^}]*\} (\d)", got[1], re.M) if got else None
    return found and found.group(1) == "1"


def p99(requests, since, until):
    taken = sorted(r[2] for r in requests if since <= r[1] < until)
    return taken[min(len(taken) - 1, len(taken) * 99 // 100)] if taken else None


def kinds(requests):
    found = collections.Counter(r[3] for r in requests if r[3])
    return ", ".join(f"**{n} {kind}**" for kind, n in found.items()) or "0"


MODES = {  # slowhttptest's options beside the number of connections, their rate and the length of the test
    "headers": ["-H", "-i", "5", "-x", "24"],
    "body": ["-B", "-i", "5", "-s", "8192", "-x", "10"],
    "range": ["-R", "-a", "5", "-b", "3000"],
    "read": ["-X", "-w", "128", "-y", "512", "-n", "5", "-z", "32", "-k", "3"],
}


def slow(report, a):
    """slowhttptest's four modes with a probe every 100 ms beside them: nobody else may notice."""
    report.head("slowhttptest", len(a.peers) * len(a.modes) * (a.secs + 8))
    os.sched_setaffinity(0, processes.OTHERS)
    for mode in a.modes:
        lines = []
        for name in a.peers:
            progress(f"{mode} {name}")
            try:
                line, good = besiege(name, mode, a)
            except peers.DidNotStart as why:
                line, good = [name, str(why)] + [""] * 10, False
            lines.append(line)
            report.bad |= name == "lockgate" and not good
        report.plain(f"slowhttptest, {mode}: {a.conns:,} connections, {a.rate} a second, {a.secs:g} s; a probe every 100 ms",
                     ["", "slowhttptest says", "most at once", "ended by the program", "probes", "failed", "p50 ms", "p99 ms", "max ms", "PSS before, most", "CPU", "still runs"], lines)


def besiege(name, mode, a):
    origin = load.Origin()
    program = sites.start(name, sites.Site(upstreams=(origin.tcp,), key="ecdsa" if a.front == "tls" else None))
    time.sleep(0.5)
    before, cpu = program.pss(), program.cpu()
    url = f"{'https' if a.front == 'tls' else 'http'}://127.0.0.1:{program.port}/{1_000_000 if mode == 'read' else 1000}"
    attack = Process(["slowhttptest", *MODES[mode], "-c", str(a.conns), "-r", str(a.rate), "-l", str(int(a.secs)), "-p", "3", "-u", url], processes.OTHERS, "slowhttptest")
    taken, failed, most = [], collections.Counter(), before
    end = time.monotonic() + a.secs + 3
    due = time.monotonic()
    while time.monotonic() < end and attack.alive():
        began = time.monotonic()
        got = probe(program.port, a.front)
        if got == 200:
            taken.append((time.monotonic() - began) * 1e3)
        else:
            failed[str(got)] += 1
        if len(taken) % 10 == 0:
            most = max(most, program.pss())
        due = max(due + 0.1, time.monotonic() - 1)
        time.sleep(max(0, due - time.monotonic()))
    attack.stop()
    text = re.sub(r"\x1b\[[0-9;]*m", "", attack.said())
    connected = [int(n) for n in re.findall(r"connected: +(\d+)", text)]
    closed = [int(n) for n in re.findall(r"closed: +(\d+)", text)]
    answered = re.findall(r"service available: +(\w+)", text)
    said = f"{answered.count('YES')} of {len(answered)} times available"
    used, alive = (program.cpu() - cpu).total / 1e6, program.alive()
    program.stop()
    origin.stop()
    taken.sort()
    figures = [f"{statistics.median(taken):.1f}", f"{taken[len(taken) * 99 // 100]:.1f}", f"{taken[-1]:.1f}"] if taken else ["", "", ""]
    line = [name, said, max(connected, default="?"), max(closed, default="?"), len(taken) + failed.total(), ", ".join(f"**{n} × {kind}**" for kind, n in failed.items()) or "0",
            *figures, f"{before / 1024:.1f} MB, {most / 1024:.1f} MB", f"{used:.1f} s", "yes" if alive else "**no**"]
    return line, alive and not failed and answered.count("NO") == 0 and bool(taken)


def probe(port, front):
    """Another client: a connection and a request of its own; its status, or what went wrong."""
    r = subprocess.run(["curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "3", f"{'https' if front == 'tls' else 'http'}://127.0.0.1:{port}/100"], capture_output=True, text=True)
    return int(r.stdout) if r.returncode == 0 else f"curl {r.returncode}"
