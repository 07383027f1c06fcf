"""Reloads: many of them under load of every kind, and one of a large configuration; upgrades of the program; beside nginx and HAProxy.

nginx is told by HUP, HAProxy runs with a master (-W) and is told by USR2; neither has a time after which old workers end, so that
both keep what their clients hold, as Lockgate does.
"""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time

from . import binaries, load, peers, processes, reloads
from .hostile import SOURCES
from .processes import BOTH, LOAD, OTHERS, TESTED, Process
from .report import figure, progress

PEERS = binaries.with_newer([*peers.OURS, "nginx", "haproxy"])
# What `lockgate load` does: its options, and requests a second.
LOADS = {"h1": ("https", "/1000", 200, ["-c", 20]), "h2": ("https", "/1000", 200, ["-c", 4, "--http2", "--streams", 5]), "handshake each": ("https", "/100", 30, ["-c", 5, "--per-connection", 1, "--no-resumption"]),
         "WebSocket": ("wss", "/mixed/ws", 100, ["-c", 20, "--body", "ping"]), "upload": ("https", "/sink", 10, ["-c", 5, "--body-size", "200KB"]),
         "relay": ("relay", "/1000", 100, ["-c", 20]), "tunnel": ("tunnel", "/1000", 100, ["-c", 20])}
MARKS = (20, 200, 1000)
SIGNALS = {"nginx": signal.SIGHUP, "haproxy": signal.SIGUSR2}
# What the shipped unit gives and takes.
AS_UNIT = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs", "--inh-caps=-all,+net_bind_service", "--ambient-caps=-all,+net_bind_service", "--bounding-set=-all,+net_bind_service", "--"]
RIGHTS = ("root", "user", "unit")
# nginx ignores USR2 while the process that has started it lives.
ORPHAN = ["sh", "-c", '"$@" & sleep 0.5', "sh"]
PATIENCE = 30  # seconds for what old generations or processes have left to end


class Reloaded:
    """A program whose configuration has a number."""

    def __init__(self, name, wanted, cores, port, before=(), rights="root"):
        """`before`: words in front of its command."""
        self.name, self.wanted, self.port, self.number = name, wanted, port, 0
        self.directory = processes.fresh_directory(f"{name}-{port}")
        if self.is_ours() and rights != "root":
            # The user reads keys anew at each reload, and makes the admin socket.
            for path in (self.directory, *wanted.certificates):
                shutil.chown(path, "nobody")
            if rights == "unit":
                before = AS_UNIT
        argv = reloads.command(name, self.directory, self.write(0))
        if binary := peers.missing(argv):
            raise peers.DidNotStart(f"there is no {binary}")
        self.process = Process([*before, *argv], cores, name, cwd=self.directory)
        if not self.process.listens(port, 60):
            said = self.process.said().strip()[-300:]
            self.process.stop()
            raise peers.DidNotStart(f"did not listen: {said or 'without a word'}")
        time.sleep(1)
        self.first = len(self.process.group())

    def is_ours(self):
        return self.name.startswith("lockgate")

    def write(self, number):
        return reloads.write(self.name, self.directory, self.wanted, number)

    def reload(self):
        """Tells it to take over the configuration that is written; when."""
        self.process.signal(SIGNALS.get(binaries.kind_of(self.name), signal.SIGHUP))
        return time.monotonic()

    def told(self):
        """How many reloads Lockgate says it has done."""
        return self.process.said().count(reloads.RELOADED)

    def earlier(self):
        """How many earlier generations Lockgate has; None for others."""
        if not self.is_ours() or not isinstance(self.wanted, reloads.Changing):
            return None
        found = load.fetch(self.wanted.metrics, "/metrics")
        value = found and re.search(r"^lockgate_config_earlier_generations (\d+)", found[1], re.M)
        return int(value.group(1)) if value else None

    def look(self):
        return {"processes": len(self.process.group()), "pss": self.process.pss() / 1024, "earlier": self.earlier()}

    def settled(self):
        """What it has when nothing of earlier configurations goes on any more, or time is over."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and (len(self.process.group()) > self.first or self.earlier()):
            time.sleep(0.2)
        self.process.until_quiet()
        time.sleep(1)  # memory is given back
        return self.look()


def answer(port, path="/", host="localhost", secure=None):
    """The body of a GET over a new connection, or None."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as plain:
            stream = secure.wrap_socket(plain, server_hostname=host) if secure else plain
            stream.settimeout(5)
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while piece := stream.recv(65536):
                data += piece
    except OSError:
        return None
    head, _, body = data.partition(b"\r\n\r\n")
    return body.decode(errors="replace") if b" 200 " in head[:16] else None


class Origins:
    def __init__(self):
        self.echoes = [load.Origin() for _ in range(3)]
        port = processes.free_port()
        self.mixed = Process([processes.PYTHON, f"{SOURCES}/mixed-origin.py", str(port)], OTHERS, "mixed-origin")
        if not self.mixed.listens(port):
            raise RuntimeError(f"the origin did not start: {self.mixed.said()[-300:]}")
        self.address = f"127.0.0.1:{port}"

    def changing(self, rights):
        ports = [processes.free_port() for _ in range(4 + reloads.LISTENERS)]
        return reloads.Changing(*ports[:4], tuple(ports[4:]), tuple(one.tcp for one in self.echoes), self.address, reloads.certificates("reload", ["localhost", "localhost"]), "nobody" if rights == "user" else "")

    def stop(self):
        for one in (*self.echoes, self.mixed):
            one.stop()


def reload(report, a):
    """200 reloads in a minute, and more, under load: route, endpoint, certificate and a listener change each time."""
    marks = [mark for mark in MARKS if mark <= a.reloads] or [a.reloads]
    report.head(f"{marks[-1]} reloads, one every {a.secs / 200 * 1e3:.0f} ms", len(a.peers) * (a.secs * (1 + marks[-1] / 200) + 30))
    origins, found, failed = Origins(), {}, []
    for name in a.peers:
        try:
            found[name] = story(name, origins.changing(a.rights), marks, a)
        except (peers.DidNotStart, RuntimeError) as why:
            failed.append([name, str(why)])
            report.bad |= name == "lockgate"
    if not found:
        sys.exit("; ".join(f"{name}: {why}" for name, why in failed))
    if failed:
        report.plain("What did not run", ["", ""], failed)
    tell_load(report, found, marks)
    tell_programs(report, found, marks)
    judge(report, found, marks)
    origins.stop()


def story(name, wanted, marks, a):
    """One program: a time without reloads, then as many of them as each mark asks for."""
    program = Reloaded(name, wanted, TESTED, wanted.tls, rights=a.rights)
    every = a.secs / 200
    try:
        quiet = phase(program, a.secs, 0, every)
        phases = [phase(program, max(3.0, (mark - before) * every + 1), mark - before, every) for before, mark in zip((0, *marks), marks)]
        processes.need_all_but(program.process)
        return quiet, phases
    finally:
        program.process.stop()


def reloaded(program, every):
    """Changes the configuration, and tells the program; milliseconds until that serves, or None."""
    program.number += 1
    program.write(program.number)
    return serves(program, program.reload(), every)


def phase(program, secs, changes, every, change=reloaded, *holding):
    """So many changes, one after so many seconds, under all loads; what became of them, and what the program has at the end and afterwards."""
    c = program.wanted
    tunnel = ["--tunnel", str(c.tunnel), "--origin", c.echoes[0]] if program.is_ours() else []
    held = Process([processes.PYTHON, os.path.join(SOURCES, "held.py"), str(c.tls), "--relay", str(c.relay), "--prefix", "/mixed", "--every", str(secs / 60), *tunnel, *holding], OTHERS, "held", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    loads = {kind: begin(kind, c, secs) for kind in LOADS if kind != "tunnel" or program.is_ours()}
    # Both are collected by threads: a pipe that is full would hold them up.
    said = {kind: Spoken(process) for kind, process in loads.items()}
    time.sleep(0.5)
    began, late, lost = time.monotonic(), [], 0
    for n in range(changes):
        time.sleep(max(0, began + n * every - time.monotonic()))
        late.append(change(program, every))
        lost += late[-1] is None
        progress(f"{program.name} {n + 1}")
    for one in said.values():
        one.thread.join(secs + 60)
    with_all = program.look()
    held.popen.stdin.close()
    holding = Spoken(held)
    holding.thread.join(60)
    for process in (*loads.values(), held):
        process.stop()
    stages = {kind: stage(loads[kind], one.text) for kind, one in said.items()}
    return {"stages": stages, "held": parsed(holding.text) or {"opened": {}, "cut": {"all": [held.said()[-160:] or "nothing said"]}}, "late": [ms for ms in late if ms is not None], "lost": lost,
            "with": with_all, "after": program.settled(), "alive": bool(program.process.group()), "ended": program.process.popen.poll()}


class Spoken:
    """What a process prints, read in a thread until it ends."""

    def __init__(self, process):
        self.text = ""
        self.thread = threading.Thread(target=self.read, args=(process.popen.stdout,), daemon=True)
        self.thread.start()

    def read(self, stdout):
        self.text = stdout.read()


def serves(program, told, every):
    """Milliseconds from the signal until the new listener answers with the new number; None when it does not within a second or two turns."""
    port, number = program.wanted.port(program.number), str(program.number)
    while time.monotonic() < told + max(1.0, 2 * every):
        if answer(port) == number:
            return (time.monotonic() - told) * 1e3
        time.sleep(0.002)
    return None


def begin(kind, c, secs):
    scheme, path, rate, options = LOADS[kind]
    where = {"relay": f"http://127.0.0.1:{c.relay}", "tunnel": f"http://{c.echoes[0]}"}.get(scheme, f"{scheme}://127.0.0.1:{c.tls}")
    more = ["--proxy", f"http://127.0.0.1:{c.tunnel}"] if scheme == "tunnel" else [] if scheme == "relay" else ["--insecure"]
    argv = [LOAD, "load", where + path, "--rate", str(rate), "-d", f"{secs:g}s", *map(str, options), *more, "--quiet", "--anyway", "--json", "-"]
    return Process(argv, OTHERS, f"load-{kind.split()[0]}", stdout=subprocess.PIPE)


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def stage(process, text):
    """What one load had: requests, failures by kind, connections cut in between, latency in ms."""
    said = parsed(text)
    if not said or not said.get("stages"):
        return {"asked": 0, "failures": {"load: " + (" ".join(process.said().split())[-160:] or "nothing said"): 1}, "opened": None, "p50": None, "p99": None, "max": None}
    one = said["stages"][0]
    failures = {kind: n for kind, n in one["failures"].items() if n} | ({"cut": one["cut"]} if one["cut"] else {})
    latency = {key: one["latency_us"][key] / 1e3 if one["latency_us"][key] is not None else None for key in ("p50", "p99", "max")}
    return {"asked": one["succeeded"] + one["failed"], "failures": failures, "opened": one["connections_opened"], **latency}


def counted(failures):
    return ", ".join(f"**{n} {kind}**" for kind, n in failures.items()) or "0"


def summed(phases, kind):
    found = {}
    for one in phases:
        for why, n in one["stages"][kind]["failures"].items():
            found[why] = found.get(why, 0) + n
    return found


def tell_load(report, found, marks):
    lines = []
    for kind in LOADS:
        for name, (quiet, phases) in found.items():
            if kind not in quiet["stages"]:
                lines.append([kind, name, "it has no tunnels"] + [""] * 8)
                continue
            # The phase that has most of the first 200: as long as the quiet one.
            at, still = phases[min(1, len(phases) - 1)]["stages"][kind], quiet["stages"][kind]
            lines.append([kind, name, still["asked"], counted(still["failures"]), sum(one["stages"][kind]["asked"] for one in phases), counted(summed(phases, kind)), f"{figure(still['opened'], 0)} → {figure(at['opened'], 0)}",
                          *(f"{figure(still[p], 2)} → {figure(at[p], 2)}" for p in ("p50", "p99", "max"))])
    report.plain(f"Requests without reloads, and with {marks[-1]}; connections and latency in ms without → with those up to {marks[min(1, len(marks) - 1)]}", ["", "", "without", "failed", "with", "failed", "connections opened", "p50", "p99", "max"], lines,
                 ["Every load by `lockgate load` at a fixed rate: " + ", ".join(f"{kind} {rate}/s" for kind, (_, _, rate, _) in LOADS.items()) + "."])


def tell_programs(report, found, marks):
    lines = []
    for name, (quiet, phases) in found.items():
        late = sorted(ms for one in phases for ms in one["late"])
        taken = f"{statistics.median(late):.0f} / {late[-1]:.0f}" if late else ""
        for mark, one in zip((0, *marks), (quiet, *phases)):
            opened, cut = one["held"]["opened"], one["held"]["cut"]
            why = f"**{sum(map(len, cut.values()))}**: " + ", ".join(f"{len(those)} {kind}, such as {those[0]}" for kind, those in cut.items()) if cut else "0"
            lines.append([name if not mark else "", mark, one["lost"], sum(opened.values()), why, one["with"]["processes"] if one["ended"] is None else f"**it ended with {one['ended']}**", figure(one["with"]["pss"], 1), figure(one["with"]["earlier"], 0),
                          one["after"]["processes"], figure(one["after"]["pss"], 1), figure(one["after"]["earlier"], 0), taken if mark == marks[-1] else ""])
    report.plain("The programs after so many reloads", ["", "reloads", "not served", "held", "of these cut", "processes", "PSS MB", "earlier generations",
                                                       "processes, nothing held", "PSS MB, nothing held", "earlier generations", "ms to the first answer: median / longest"], lines,
                 ["Held are 60 WebSockets or so, one more every sixtieth of the time, an upload and a download for the whole time, a relayed connection and a tunnel that ask every second; they begin with each line and end before its last columns."])


def judge(report, found, marks):
    if "lockgate" not in found:
        return
    quiet, phases = found["lockgate"]
    wrong = [f"{kind}: {counted(failures)}" for kind in quiet["stages"] if (failures := summed(phases, kind))]
    wrong += [f"{kind}: {len(those)} cut" for one in phases for kind, those in one["held"]["cut"].items()]
    wrong += [f"{sum(one['lost'] for one in phases)} reloads did not serve"] if any(one["lost"] for one in phases) else []
    wrong += [f"{one['after']['earlier']} earlier generations" for one in phases if one["after"]["earlier"]]
    first = phases[0]["after"]["pss"]
    wrong += [f"PSS after {mark} reloads {one['after']['pss'] / first - 1:+.1%} of that after {marks[0]}" for mark, one in zip(marks, phases) if one["after"]["pss"] > 1.02 * first]
    wrong += [] if all(one["alive"] for one in phases) else ["it ended"]
    report.plain("Lockgate: what is not as it is to be", ["what"], [[one] for one in wrong] or [["nothing"]])
    report.bad |= bool(wrong)


def upgrade(report, a):
    """Upgrades of the program under the same load, with 100 WebSockets and one download across all of them."""
    every = a.secs / (a.upgrades + 1)
    report.head(f"{a.upgrades} upgrades, one every {every:.0f} s", len(a.peers) * (a.secs + 40))
    origins, lines, failed = Origins(), [], []
    for name in a.peers:
        wanted = origins.changing(a.rights)
        try:
            program = Reloaded(name, wanted, TESTED, wanted.tls, ORPHAN if name.startswith("nginx") else (), a.rights)
        except peers.DidNotStart as why:
            failed.append([name, str(why)])
            continue
        try:
            one = phase(program, a.secs, a.upgrades, every, UPGRADES[binaries.kind_of(name)], "--at-once", "100", "--every", str(every), "--bytes", str(int(250_000 * a.secs)))  # read at 200 KB a second
        finally:
            program.process.stop()
        failures = {}
        for kind, stage in one["stages"].items():
            failures |= {f"{kind}: {why}": n for why, n in stage["failures"].items()}
        cut = {kind: len(those) for kind, those in one["held"]["cut"].items()}
        lines.append([name, a.upgrades - one["lost"], figure(max(one["late"], default=None), 0), sum(stage["asked"] for stage in one["stages"].values()), counted(failures),
                      ", ".join(f"{n} {kind}" for kind, n in one["held"]["opened"].items()), counted(cut), one["with"]["processes"], figure(one["with"]["pss"], 1), one["after"]["processes"], figure(one["after"]["pss"], 1)])
        report.bad |= program.is_ours() and bool(failures or cut or one["lost"] or one["after"]["processes"] > program.first)
    if failed:
        report.plain("What did not start", ["", ""], failed)
    if lines:
        report.plain("Upgrades", ["", "taken", "longest, ms until the new program serves", "requests", "failed", "held", "of these cut", "processes at the end", "PSS MB", "processes, nothing held", "PSS MB"], lines,
                     ["lockgate upgrade; nginx: USR2, then QUIT to the old master; HAProxy: USR2 to its master, which executes its file anew. Rates and what is held as in the table of reloads."])
    origins.stop()


def upgraded_ours(program, every):
    began = time.monotonic()
    told = subprocess.run([processes.LOCKGATE, "upgrade", "--admin", f"unix:{program.directory}/admin.socket"], capture_output=True, text=True, timeout=120)
    progress(told.stdout + told.stderr)
    return (time.monotonic() - began) * 1e3 if told.returncode == 0 else None


def upgraded_nginx(program, every):
    """nginx ignores USR2 while the master from before still waits for its workers."""
    at = os.path.join(program.directory, "nginx.pid")
    old, began = _pid(at), time.monotonic()
    os.kill(old, signal.SIGUSR2)
    while time.monotonic() < began + min(every, 10):
        if (new := _pid(at)) and new != old and answer(program.wanted.port(0)) == "0":
            os.kill(old, signal.SIGQUIT)
            return (time.monotonic() - began) * 1e3
        time.sleep(0.005)
    return None


def upgraded_haproxy(program, every):
    before, began = set(program.process.group()), time.monotonic()
    program.process.signal(signal.SIGUSR2)
    while time.monotonic() < began + min(every, 10):
        if set(program.process.group()) - before and answer(program.wanted.port(0)) == "0":
            return (time.monotonic() - began) * 1e3
        time.sleep(0.005)
    return None


UPGRADES = {"lockgate": upgraded_ours, "nginx": upgraded_nginx, "haproxy": upgraded_haproxy}


def _pid(path):
    try:
        with open(path) as f:
            return int(f.read())
    except (OSError, ValueError):
        return None


def reload_size(report, a):
    """One reload of thousands of sites, with one certificate and with one for each."""
    report.head(f"Reload of {a.sites:,} sites and {4 * a.sites:,} routes", len(a.peers) * len(a.certs) * (a.rounds * 6 + 20))
    for certs in a.certs:
        names = ["*.example.test"] if certs == "one" else [f"s{s}.example.test" for s in range(a.sites)]
        files = reloads.certificates("wildcard" if certs == "one" else "sites", names)
        lines = []
        for name in a.peers:
            progress(f"{certs} {name}")
            try:
                lines.append([name, *sized(name, reloads.Many(processes.free_port(), a.sites, files), a.rounds)])
            except peers.DidNotStart as why:
                lines.append([name, str(why)] + [""] * 7)
                report.bad |= name == "lockgate"
        report.plain("One wildcard certificate" if certs == "one" else f"{a.sites:,} certificates",
                     ["", "ms from the signal to the first answer by the new configuration", "longest", "ms until it says so or old workers are gone", "longest", "longest request meanwhile, ms",
                      "PSS MB before", "most, of those seen", f"after {a.rounds} reloads"], lines)


def sized(name, wanted, rounds):
    program = Reloaded(name, wanted, BOTH, wanted.tls)
    secure = ssl.create_default_context()
    secure.check_hostname, secure.verify_mode = False, ssl.CERT_NONE
    secure.set_alpn_protocols(["http/1.1"])
    try:
        program.process.until_quiet()
        before, first, done, most, slowest = program.process.pss() / 1024, [], [], 0, 0
        for number in range(1, rounds + 1):
            program.write(number)
            told, old = program.reload(), set(program.process.tree())
            answered = None
            while time.monotonic() < told + 60 and answered is None:
                asked = time.monotonic()
                body = answer(wanted.tls, "/now", wanted.name(0), secure)
                slowest = max(slowest, (time.monotonic() - asked) * 1e3)
                if body == str(number):
                    answered = (time.monotonic() - told) * 1e3
            if answered is None:
                raise peers.DidNotStart(f"reload {number} was not served within 60 s: {program.process.said()[-200:]}")
            most = max(most, program.process.pss() / 1024)
            first.append(answered)
            done.append(ended(program, told, number, old))
            time.sleep(1)
        program.process.until_quiet()
        time.sleep(2)
        return [figure(statistics.median(first), 0), figure(max(first), 0), figure(statistics.median(done), 0), figure(max(done), 0), figure(slowest, 0), figure(before, 1), figure(most, 1), figure(program.process.pss() / 1024, 1)]
    finally:
        program.process.stop()


def ended(program, told, number, old):
    """Milliseconds from the signal until Lockgate's log says so, or the workers from before have ended."""
    while time.monotonic() < told + 60:
        over = program.told() >= number if program.is_ours() else not (old - {program.process.pid}) & set(program.process.tree())
        if over:
            break
        time.sleep(0.005)
    return (time.monotonic() - told) * 1e3
