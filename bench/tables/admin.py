"""The admin side: an endpoint that is drained under load, beside HAProxy, and what it costs that the live page or `lockgate top` is open."""
import collections
import csv
import http.client
import json
import os
import pty
import re
import select
import signal
import socket
import statistics
import subprocess
import termios
import time
from dataclasses import dataclass

from . import binaries, load, peers, processes, reload, sites
from .peers import _written as written
from .processes import BEFORE, BOTH, LOAD, LOCKGATE, OTHERS, Process
from .report import figure, interleaved, progress
from .throughput import stop_programs

PATIENCE = 30  # seconds that a drain may take


def drain(report, a):
    """One of two endpoints drained under load, killed when that is done, started again and taken back."""
    report.head(f"{a.drains} drains of an endpoint under load", sum(binaries.kind_of(name) in VERBS for name in a.peers) * (a.secs + 3))
    lines = []
    for name in a.peers:
        try:
            line, good = drained(name, a) if binaries.kind_of(name) in VERBS else (["its free version has no such verb"], True)
        except peers.DidNotStart as why:
            line, good = [str(why)], False
        lines.append([name, *line] + [""] * (9 - len(line)))
        report.bad |= name.startswith("lockgate") and not good
    report.plain(f"Two workers, `lockgate load -c {a.conns} --body-size 100`, both endpoints in use, one of them drained and killed {a.drains} times",
                 ["", "drained and taken back", "ms until it is done: median", "longest", "fewest connections to it before", "most when it is done", "requests", "failed", "p50 ms", "longest ms"], lines,
                 ["lockgate endpoint drain --wait; HAProxy: state drain over its stats socket, done when the server has no session. Connections are those that the kernel lists, idle ones too. POSTs are sent, which no program tries again once an endpoint may have them."])


def drained(name, a):
    """One program: its cells, and whether all is as it is to be."""
    tell = VERBS[binaries.kind_of(name)]
    origins = [load.Origin(), load.Origin()]
    try:
        program = sites.start(name, sites.Site(upstreams=tuple(one.tcp for one in origins), workers=2, admin=True), BOTH)
        generator = Process([LOAD, "load", f"http://127.0.0.1:{program.port}/", "--body-size", "100", "-c", str(a.conns), "-d", f"{a.secs:g}s", "--quiet", "--anyway", "--json", "-"], OTHERS, "load", stdout=subprocess.PIPE)
        spoken, began, every = reload.Spoken(generator), time.monotonic(), a.secs / (a.drains + 1)
        taken, before, after, back = [], [], [], 0
        for n in range(1, a.drains + 1):
            progress(f"{name} {n}")
            time.sleep(max(0, began + n * every - time.monotonic()))
            before.append(processes.established(origins[0].port))
            told = time.monotonic()
            done = tell(program, "drain")
            taken.append((time.monotonic() - told) * 1e3)
            after.append(processes.established(origins[0].port))
            origins[0].process.signal(signal.SIGKILL)
            time.sleep(every / 4)
            origins[0].stop()
            origins[0] = load.Origin(port=origins[0].port)
            back += tell(program, "ready") and done
        spoken.thread.join(a.secs + 60)
        generator.stop()
        alive = program.alive()
        program.stop()
    finally:
        for one in origins:
            one.stop()
    stage = reload.stage(generator, spoken.text)
    line = [f"{back} of {a.drains}", figure(statistics.median(taken), 0), figure(max(taken), 0), min(before), max(after), figure(stage["asked"], 0), reload.counted(stage["failures"]), figure(stage["p50"], 2), figure(stage["max"], 1)]
    return line, alive and back == a.drains and min(before) > 0 and not max(after) and not stage["failures"]


def told_ours(program, verb):
    """Tells it to drain the first endpoint, which ends when that is done, or to take it back; whether it did."""
    wait = ["--wait", f"{PATIENCE}s"] if verb == "drain" else []
    return subprocess.run([program.argv[0], "endpoint", verb, f"origins/{program.front.upstreams[0]}", *wait, "--admin", f"unix:{program.directory}/admin.socket"], capture_output=True).returncode == 0


def told_haproxy(program, verb):
    wrong, end = asked_haproxy(program, f"set server site/o0 state {verb}").strip(), time.monotonic() + PATIENCE
    while verb == "drain" and not wrong and sessions(program):
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return not wrong


def sessions(program):
    """How many the first server has just now."""
    rows = csv.DictReader(asked_haproxy(program, "show stat").removeprefix("# ").splitlines())
    return next(int(row["scur"]) for row in rows if row["svname"] == "o0")


def asked_haproxy(program, command):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(f"{program.directory}/socket")
        stream.sendall(f"{command}\n".encode())
        return b"".join(iter(lambda: stream.recv(65536), b"")).decode()


VERBS = {"lockgate": told_ours, "haproxy": told_haproxy}

SITES, POOLS, EACH, RATE = 100, 50, 20, 400  # EACH: endpoints of a pool


@dataclass(frozen=True)
class Crowd:
    """Sites on one address, two to a pool; every endpoint is the same origin at an address of its own."""
    port: int
    metrics: int
    origin: int
    few_descriptors = False


def crowd(c, directory, binary=LOCKGATE):
    text = ["workers = 1", "access_log = false", f'metrics = "127.0.0.1:{c.metrics}"', f'admin = "unix:{directory}/admin.socket"']
    for p in range(POOLS):
        text.append(f"[pool.p{p}]\nendpoints = [" + ", ".join(f'"127.0.{p}.{n}:{c.origin}"' for n in range(1, EACH + 1)) + "]")
    text += [f'[site."s{s}.test:{c.port}"]\nlisten = ["127.0.0.1"]\nproxy = "pool:p{s % POOLS}"' for s in range(SITES)]
    return written(directory, "lockgate.toml", text), [binary, "run", "-c", f"{directory}/lockgate.toml"]


CROWDS = {"lockgate": crowd, "lockgate-before": lambda c, directory: crowd(c, directory, BEFORE)}


def watchers(report, a):
    """CPU of Lockgate with nothing open, with the live page, and with `lockgate top` at its endpoints."""
    report.head(f"{POOLS * EACH:,} endpoints, {SITES} sites, {RATE} requests/s", len(a.peers) * a.rounds * len(WATCHERS) * (a.secs + 6))
    os.sched_setaffinity(0, OTHERS)
    port, programs = processes.free_port(), {}
    answering = written(processes.scratch(), "origin.toml", ["workers = 1", "access_log = false", "admin = false", f'[site.":{port}"]\nrespond = {{ body = "ok" }}'])
    origin = Process([LOAD, "run", "-c", answering], OTHERS, "origin")
    if not origin.listens(port):
        raise RuntimeError(f"the origin did not start: {origin.said()[-300:]}")
    for name in a.peers:
        try:
            programs[name] = peers.start(name, Crowd(processes.free_port(), processes.free_port(), port), kinds=CROWDS)
        except peers.DidNotStart as why:
            programs[name] = str(why)
    rows = interleaved({f"{name}, {what}": program for name, program in programs.items() for what in WATCHERS}, a.rounds, lambda row, program: watched(program, WATCHERS[row.partition(", ")[2]], a.secs))
    for name in (name for name, program in programs.items() if not isinstance(program, str)):
        for still, *others, again in zip(*(rows[f"{name}, {what}"] for what in WATCHERS)):
            for one in others:
                if not (still["errors"] or one["errors"] or again["errors"]):
                    one["added"] = one["cpu"] - (still["cpu"] + again["cpu"]) / 2
    report.cell("CPU of Lockgate, in % of a core", rows, [("CPU %", "cpu", 2), ("less nothing of the same round", "added", 2), ("top's own CPU %", "own", 2)], cost="added",
                notes=["All sites are asked at random, so that every endpoint is in use. The last event of the page has the requests of every site between two readings of /metrics."])
    stop_programs(programs)
    origin.stop()


def watched(program, watcher, secs):
    """One record: `lockgate load` asks all sites at random meanwhile."""
    hosts = "|".join(f"s{s}.test" for s in range(SITES))
    generator = Process([LOAD, "load", f"http://127.0.0.1:{program.port}/", "--header-any", f"Host: {hosts}", "--rate", str(RATE), "-c", "10", "-d", "1h", "--quiet", "--anyway", "--json", "-"], OTHERS, "load", stdout=subprocess.PIPE)
    time.sleep(3)
    record = watcher(program, secs)
    generator.signal(signal.SIGINT)
    out = load.spoken(generator, 10)
    generator.stop()
    failures = reload.stage(generator, out)["failures"]
    failures.pop("cut", None)  # under way when it was ended
    return record | {"errors": record.get("errors", {}) | failures}


def weighed(secs, wait, program, watcher=None):
    """What percentage of a core the program takes, and the one that watches it, while so many seconds are waited."""
    before, own, core, began = program.cpu(), watcher and watcher.cpu(), processes.busy(0), time.monotonic()
    wait(secs)
    used, core, lasted = program.cpu() - before, processes.busy(0) - core, time.monotonic() - began
    record = {"cpu": used.total / lasted / 1e4, "others_percent": load.others(used, core, lasted)}
    return record | ({"own": (watcher.cpu() - own).total / lasted / 1e4} if watcher else {})


def nothing(program, secs):
    return weighed(secs, time.sleep, program)


def page(program, secs):
    """The events of the page, read as they come; at last one is held against what /metrics said before and says after it."""
    connection = http.client.HTTPConnection("127.0.0.1", program.front.metrics, timeout=30)
    connection.request("GET", "/live")
    events = sites_of(connection.getresponse())

    def read(secs):
        end = time.monotonic() + secs
        while time.monotonic() < end:
            next(events)

    read(3)
    record = weighed(secs, read, program)
    low, shown, high = scraped(program), next(events), scraped(program)
    connection.close()
    good = sum(low.values()) < sum(high.values()) and all(low[site] <= shown[site] <= high[site] for site in high)
    return record | {"errors": {} if good else {"the page's requests are not those of /metrics": 1}}


def sites_of(stream):
    """Requests by site, of each event with the present figures; none is not written."""
    for line in stream:
        if line == b"event: now\n":
            shown = json.loads(next(stream).removeprefix(b"data: "))["sites"]["sites"]
            yield {one["site"]: one.get("requests", 0) for one in shown}


def scraped(program):
    """The same, of /metrics."""
    found = collections.Counter()
    for site, n in re.findall(r'^lockgate_requests_total\{site="([^"]+)".* (\d+)$', load.fetch(program.front.metrics, "/metrics")[1], re.M):
        found[site] += int(n)
    return found


def top(program, secs):
    """`lockgate top` in a terminal of 200 by 50, at its endpoints."""
    screen, inside = pty.openpty()
    termios.tcsetwinsize(screen, (24, 80))
    process = Process([program.argv[0], "top", "--admin", f"unix:{program.directory}/admin.socket"], OTHERS, "top", env={"TERM": "xterm"}, stdin=inside, stdout=inside)
    shown = b""

    def read(secs):
        nonlocal shown
        end = time.monotonic() + secs
        while (left := end - time.monotonic()) > 0:
            if select.select([screen], [], [], left)[0]:
                shown += os.read(screen, 65536)

    read(2)
    os.write(screen, b"3")
    read(2)
    shown = b""
    termios.tcsetwinsize(screen, (50, 200))  # all is drawn anew, not only what has changed
    read(2)
    record = weighed(secs, read, program, process)
    alive = process.alive()
    process.stop()
    os.close(inside)
    os.close(screen)
    listed = len(set(re.findall(rb"127\.0\.\d+\.\d+:\d+", shown)))
    return record | {"errors": {} if alive and listed > EACH else {f"top shows {listed} endpoints": 1}}


WATCHERS = {"nothing": nothing, "page": page, "top": top, "nothing again": nothing}
