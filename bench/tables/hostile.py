"""Hostile clients beside honest ones, with few descriptors and little memory: who is answered, how soon, and what it costs.

Each program has its own limits of descriptors and a memory cgroup of its own; origin and generators are outside of them. Clients are
those of bench/src/honest.py and bench/src/hostile.py; both use a core of which the table says how much.
"""
import dataclasses
import json
import os
import re
import subprocess
import sys
import time

from . import binaries, peers, processes
from .peers import _written as written
from .processes import BOTH, BUILT, LOCKGATE, REPOSITORY, Process
from .report import figure, progress

SOURCES = os.path.join(REPOSITORY, "bench", "src")
PEERS = binaries.with_newer([*peers.OURS, "haproxy", "nginx"])
# New connections a second of each kind; what they do: the head of hostile.py.
HOSTILE = {"hello": 200, "idle": 20, "reader": 5, "h2hang": 1, "trickle": 20}
HOLD = 60             # seconds that a hostile client holds a connection, unless it is closed
ONE = ["127.0.0.10"]
EIGHT = [f"127.0.0.{n}" for n in range(10, 18)]
GIVEN_UP = 10_000.0   # milliseconds that a request has, and that one that failed counts for
KINDS = ("get", "fresh", "h2", "ws", "upload", "download")
MB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Limited:
    """One site over TLS, HTTP/1 and HTTP/2, and what its program may have."""
    port: int
    upstream: str
    descriptors: int
    workers: int

    @property
    def certificate(self):
        return f"{BUILT}/certs/ecdsa.crt"


def lockgate(limited, directory, binary=LOCKGATE):
    text = [f"workers = {limited.workers}", "access_log = false", f'[site.":{limited.port}"]', 'listen = ["127.0.0.1"]',
            f'tls = {{ cert = "{limited.certificate}", key = "{BUILT}/certs/ecdsa.key" }}', f'proxy = "{limited.upstream}"']
    return [binary, "run", "-c", written(directory, "lockgate.toml", text)]


def lockgate_before(limited, directory):
    return lockgate(limited, directory, processes.BEFORE)


def nginx(limited, directory, build=None):
    """Every worker has the descriptors for itself, two for each client that is proxied; timeouts as against slow clients, no limit by client."""
    build = build or binaries.build("nginx")
    temporary = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    text = ["daemon off;", "user root;" if os.geteuid() == 0 else "", f"worker_processes {limited.workers};", f"pid {directory}/nginx.pid;", f"error_log {directory}/error.log crit;",
            f"worker_rlimit_nofile {limited.descriptors}; events {{ worker_connections {limited.descriptors - 20}; }}",
            f"http {{ access_log off; {temporary} client_max_body_size 0; client_header_timeout 10s; client_body_timeout 10s; send_timeout 10s; keepalive_timeout 75s;",
            "  reset_timedout_connection on; proxy_request_buffering off; proxy_max_temp_file_size 0; proxy_read_timeout 60s;", "  map $http_upgrade $upgrade { default upgrade; '' ''; }",
            f"  upstream origin {{ server {limited.upstream}; keepalive 32; }}",
            f"  server {{ {peers.nginx_listen(build, limited.port, True, True)} ssl_certificate {limited.certificate}; ssl_certificate_key {BUILT}/certs/ecdsa.key;",
            "    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:S:1m;",
            "    location / { proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $upgrade; } } }"]
    return [build.path, "-p", directory, "-c", written(directory, "nginx.conf", text), "-e", f"{directory}/error.log"]


def haproxy(limited, directory, build=None):
    """It finds out by itself how many connections its descriptors allow; timeouts as its manual has them against slow clients."""
    build = build or binaries.build("haproxy")
    text = ["global", f"  nbthread {limited.workers}", "defaults", "  mode http", "  timeout connect 5s", "  timeout client 30s", "  timeout server 60s", "  timeout tunnel 1h",
            "  timeout http-request 10s", "  timeout http-keep-alive 75s", "  timeout client-fin 10s", "  option http-keep-alive",
            "listen site", f"  bind 127.0.0.1:{limited.port} backlog 8192 defer-accept ssl crt {BUILT}/certs/ecdsa.pem alpn h2,http/1.1", f"  server origin {limited.upstream}"]
    return [build.path, "-f", written(directory, "haproxy.cfg", text)]


PROGRAMS = peers.newer({"lockgate": lockgate, "lockgate-before": lockgate_before, "haproxy": haproxy, "nginx": nginx})


class Cgroup:
    """A memory cgroup of its own, version 2 where that controls memory, else version 1; without either, `path` is None."""

    def __init__(self, name, limit):
        self.path, self.what = None, "**no memory cgroup can be made here: the limit does not hold**"
        parent, self.version = self.parent()
        if not parent:
            return
        path = os.path.join(parent, f"lockgate-bench-{os.getpid()}-{name}")
        try:
            os.makedirs(path, exist_ok=True)
            self.put(path, {2: "memory.max", 1: "memory.limit_in_bytes"}[self.version], limit)
            for swap in {2: ["memory.swap.max"], 1: ["memory.swappiness"]}[self.version]:
                self.put(path, swap, 0)
            self.what = f"memory cgroup of version {self.version}, {limit // MB} MB" + ("" if self.version == 2 else ", kernel buffers of sockets not in it")
            self.path = path
        except OSError as why:
            self.what = f"**no memory cgroup: {why}: the limit does not hold**"

    @staticmethod
    def parent():
        with open("/proc/mounts") as f:
            mounts = [line.split()[1:4] for line in f]
        for place, kind, _ in mounts:
            if kind == "cgroup2" and "memory" in processes._read(f"{place}/cgroup.controllers").split():
                if "memory" not in processes._read(f"{place}/cgroup.subtree_control").split():
                    try:
                        Cgroup.put(place, "cgroup.subtree_control", "+memory")
                    except OSError:
                        continue
                return place, 2
        return next(((place, 1) for place, kind, options in mounts if kind == "cgroup" and "memory" in options.split(",")), (None, 0))

    @staticmethod
    def put(path, name, value):
        with open(os.path.join(path, name), "w") as f:
            f.write(str(value))

    def kills(self):
        """Processes that the kernel has killed for it."""
        text = processes._read(f"{self.path}/memory.events" if self.version == 2 else f"{self.path}/memory.oom_control")
        found = re.search(r"^oom_kill (\d+)", text, re.M)
        return int(found.group(1)) if found else 0

    def remove(self):
        for _ in range(50):
            try:
                return self.path and os.rmdir(self.path)
            except OSError:
                time.sleep(0.1)


class Tested:
    """A program under its limits, and what was seen of it."""

    def __init__(self, name, upstream, descriptors, memory, workers):
        limited = Limited(processes.free_port(), upstream, descriptors, workers)
        directory = processes.fresh_directory(f"{name}-{limited.port}")
        argv = PROGRAMS[name](limited, directory)
        if binary := peers.missing(argv):
            raise peers.DidNotStart(f"there is no {binary}")
        self.cgroup, self.port = Cgroup(name, memory), limited.port
        self.process = Process(argv, BOTH, name, descriptors=descriptors, cwd=directory, cgroup=self.cgroup.path)
        if not self.process.listens(limited.port):
            said = self.process.said().strip()[-300:]
            self.stop()
            raise peers.DidNotStart(f"did not listen: {said or 'without a word'}")
        time.sleep(0.5)
        self.began, self.first, self.seen = time.monotonic(), set(self.process.tree()), []

    def look(self):
        """Memory in MB and descriptors, now."""
        tree = self.process.tree()
        open_now = sum(len(processes._listed(f"/proc/{pid}/fd")) for pid in tree)
        self.seen.append((time.monotonic() - self.began, self.process.pss() / 1024, open_now))
        return self.seen[-1]

    def lived(self):
        """Whether the same processes run as at first: a master that starts new workers has lost the connections of the old."""
        lost = self.first - set(self.process.tree())
        kills = f", {self.cgroup.kills()} killed for memory" if self.cgroup.kills() else ""
        return "yes" if self.process.alive() and not lost else f"**no**: {'it ended' if not self.process.alive() else f'{len(lost)} of its processes ended'}{kills}"

    def stop(self):
        self.process.stop()
        self.cgroup.remove()


class Clients:
    """Honest or hostile ones: a program of ours that ends when its standard input does, and says what it saw."""

    def __init__(self, script, port, *options):
        argv = [processes.PYTHON, os.path.join(SOURCES, script), str(port), *map(str, options)]
        self.began = time.monotonic()
        self.process = Process(argv, BOTH, script.removesuffix(".py"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def finish(self):
        self.lasted = time.monotonic() - self.began
        try:
            out, _ = self.process.popen.communicate(timeout=150)
            said = json.loads(out)
        except (subprocess.TimeoutExpired, ValueError):
            raise RuntimeError(f"{self.process.name} said nothing: {self.process.said()[-300:]}") from None
        finally:
            self.process.stop()
        said["share"] = said["cpu"] / self.lasted / os.cpu_count()
        return said


def origin():
    port = processes.free_port()
    process = Process([processes.PYTHON, f"{SOURCES}/mixed-origin.py", str(port)], BOTH, "mixed-origin")
    if not process.listens(port):
        raise RuntimeError(f"the origin did not start: {process.said()[-300:]}")
    return process, f"127.0.0.1:{port}"


def written_as(rates):
    return ",".join(f"{kind}:{rate}" for kind, rate in rates.items())


def overload_hostile(report, a):
    """Honest load of six kinds beside five kinds of hostile clients, with few descriptors and little memory."""
    quiet = max(5.0, a.secs / 10)
    report.head(f"Overload: nofile {a.descriptors}, {a.memory} MB, 2 workers", len(a.peers) * (a.secs + 2 * quiet + HOLD + 10))
    application, upstream = origin()
    found, lines, verdicts = {}, [], []
    for name in a.peers:
        try:
            found[name] = besieged(name, upstream, a, quiet)
        except (peers.DidNotStart, RuntimeError) as why:
            lines.append([name, str(why)] + [""] * 8)
            report.bad |= name == "lockgate"
    if not found:
        sys.exit("; ".join(f"{name}: {why}" for name, why, *_ in lines))
    for kind in KINDS:
        for name, one in found.items():
            before, during = one["quiet"][kind], one["siege"][kind]
            lines.append([kind, name, during["asked"], during["failed"], *(figure(x, 1) for x in (before["p50"], before["p99"])), before["failed"],
                          *(figure(during[p], 1) for p in ("p50", "p99", "p999"))])
    report.plain(f"Honest requests beside hostile clients, {a.secs:g} s from one address and then from eight, ms",
                 ["", "", "asked", "failed", "quiet p50", "quiet p99", "quiet failed", "p50", "p99", "p99.9"], lines,
                 [f"Hostile, new connections a second: {written_as(HOSTILE)}; each holds its connection {HOLD} s unless it is closed, h2hang has 128 streams. "
                  f"Honest: {written_as(RATES)} a second from 127.0.0.2 … .9; a request has 10 s, and one that failed counts for as much."])
    report.plain("The programs", ["", "lived", "PSS MB: at first · every 30 s · at the end", "descriptors", "generators' CPU", "asked again", "limit"],
                 [[name, one["lived"], series(one["seen"], 1), series(one["seen"], 2), f"{one['share']:.0%}", one["again"], one["limit"]] for name, one in found.items()])
    kinds = sorted({(kind, what) for one in found.values() for kind, counts in one["hostile"].items() for what in counts})
    report.plain("What became of the hostile connections", ["", "", *found], [[kind, what, *(one["hostile"][kind].get(what, 0) for one in found.values())] for kind, what in kinds])
    rivals = [one for name, one in found.items() if not name.startswith("lockgate")]
    for kind in KINDS if "lockgate" in found else ():
        ours = found["lockgate"]["siege"][kind]
        best = min((one["siege"][kind]["p99"] for one in rivals if one["siege"][kind]["p99"]), default=None)
        if ours["failed"] != "0":
            verdicts.append([f"{kind}: {ours['failed']} failed"])
        if best and ours["p99"] and ours["p99"] > best:
            verdicts.append([f"{kind}: p99 {ours['p99']:.1f} ms, the better peer's {best:.1f} ms"])
    if "lockgate" in found:
        verdicts += [] if found["lockgate"]["lived"] == "yes" else [["it did not live"]]
        report.plain("Lockgate: what is not as it is to be", ["what"], verdicts or [["nothing"]])
        report.bad |= bool(verdicts)
    application.stop()


RATES = {"get": 40, "fresh": 10, "h2": 40, "ws": 16, "upload": 2, "download": 2}


def besieged(name, upstream, a, quiet):
    """One program: quiet, half of the time from one address, half from eight, and until what hostile clients held is over."""
    tested = Tested(name, upstream, a.descriptors, a.memory * MB, 2)
    share, clients = 0, []
    try:
        honest = Clients("honest.py", tested.port, "--kinds", written_as(RATES))
        clients.append(honest)
        look_for(tested, 2, name)  # what the first connections cost
        marks = [time.monotonic()]
        look_for(tested, quiet, name)
        marks.append(time.monotonic())
        sums = {kind: {} for kind in HOSTILE}
        for addresses in (ONE, EIGHT):
            hostile = Clients("hostile.py", tested.port, "--kinds", written_as(HOSTILE), "--addresses", ",".join(addresses), "--hold", HOLD)
            clients.append(hostile)
            look_for(tested, a.secs / 2, name)
            said = hostile.finish()
            share = max(share, said["share"])
            for kind, counts in said["kinds"].items():
                for what, n in counts.items():
                    sums[kind][what] = sums[kind].get(what, 0) + n
        marks.append(time.monotonic())
        look_for(tested, quiet, name)
        honestly = honest.finish()
        time.sleep(2)
        tested.look()
        processes.need_all_but(tested.process)
        return {"quiet": by_kind(honestly["samples"], marks[0], marks[1]), "siege": by_kind(honestly["samples"], marks[1], marks[2]), "hostile": sums, "lived": tested.lived(),
                "seen": tested.seen, "share": share + honestly["share"], "again": honestly["again"], "limit": tested.cgroup.what}
    finally:
        for one in clients:
            one.process.stop()
        tested.stop()


def look_for(tested, seconds, name):
    """Waits, and looks at the program at first, every 30 s and at the end."""
    end = time.monotonic() + seconds
    while True:
        tested.look()
        progress(f"{name} {tested.seen[-1][0]:.0f} s")
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 30))


def series(seen, which):
    return " · ".join(f"{one[which]:.0f}" for one in seen)


def by_kind(samples, begin, end):
    found = {}
    for kind in dict.fromkeys([*KINDS, *(sample[0] for sample in samples)]):
        part = [sample for sample in samples if sample[0] == kind and begin <= sample[1] < end]
        found[kind] = {"asked": len(part), "failed": failures(part)} | percentiles([GIVEN_UP if failure else ms for _, _, ms, failure in part])
    return found


def failures(samples):
    counts = {}
    for *_, failure in samples:
        if failure:
            counts[failure] = counts.get(failure, 0) + 1
    return ", ".join(f"**{n} {why}**" for why, n in counts.items()) or "0"


def percentiles(taken):
    taken = sorted(taken)
    return {name: taken[min(len(taken) - 1, int(len(taken) * share))] if taken else None for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))}


def silent(report, a):
    """2,000 TLS and 200 HTTP/2 clients that ask for much and read nothing, in a small cgroup: does the program live, are others answered?"""
    ramp = max(a.clients / 100, a.h2 / 10)
    report.head(f"{a.clients:,} TLS and {a.h2} HTTP/2 clients that read nothing, {a.memory} MB", len(a.peers) * (ramp + a.secs + 12))
    application, upstream = origin()
    lines = []
    for name in a.peers:
        try:
            tested = Tested(name, upstream, 20_000, a.memory * MB, 2)
        except peers.DidNotStart as why:
            lines.append([name, str(why)] + [""] * 9)
            continue
        try:
            honest = Clients("honest.py", tested.port, "--kinds", "get:10,fresh:10,h2:10")
            look_for(tested, 5, name)
            marks = [time.monotonic()]
            hostile = Clients("hostile.py", tested.port, "--kinds", "reader:100,h2reader:10", "--most", f"reader:{a.clients},h2reader:{a.h2}", "--streams", 100, "--hold", 3600)
            most = 0.0
            while time.monotonic() < marks[0] + ramp + a.secs and tested.process.alive():
                most = max(most, tested.look()[1])
                time.sleep(1)
            lived = tested.lived()
            said = hostile.finish()
            marks.append(time.monotonic())
            time.sleep(5)
            after = tested.look()
            honestly = honest.finish()
            during = by_kind(honestly["samples"], *marks)
            part = [during[kind] for kind in ("get", "fresh", "h2")]
            counts = said["kinds"]
            lines.append([name, lived, counts["reader"].get("opened", 0), counts["h2reader"].get("opened", 0), f"{most:.0f}", f"{after[1]:.0f}", sum(one["asked"] for one in part),
                          "; ".join(f"{kind} {during[kind]['failed']}" for kind in ("get", "fresh", "h2") if during[kind]["failed"] != "0") or "0",
                          *(figure(max((one[p] for one in part if one[p]), default=None), 1) for p in ("p50", "p99")), tested.cgroup.what])
            report.bad |= name == "lockgate" and (lived != "yes" or any(one["failed"] != "0" for one in part))
        finally:
            tested.stop()
    report.plain(f"{a.clients:,} clients that ask for 10 MB over TLS, {a.h2} with 100 such streams, none reads", ["", "lived", "opened", "of HTTP/2", "most PSS MB", "PSS MB 5 s after they left",
                 "honest asked", "failed", "worst p50 ms", "worst p99 ms", "limit"], lines)
    application.stop()


def handshake_flood(report, a):
    """Stalled ClientHellos at a fixed rate beside honest handshakes; idle clients beyond the descriptors and the next one."""
    report.head(f"{a.hellos:,} stalled ClientHellos at {a.rate}/s, {a.idle} idle clients at nofile {a.descriptors}", len(a.peers) * (a.secs * 2 + 5 + a.idle / 50 + 20))
    application, upstream = origin()
    lines, idle = [], []
    for name in a.peers:
        try:
            tested = Tested(name, upstream, 20_000, 512 * MB, 1)
            lines.append([name, *flooded(tested, a)])
            tested.stop()
            tested = Tested(name, upstream, a.descriptors, 512 * MB, 1)
            idle.append([name, *crowded(tested, a)])
            tested.stop()
        except peers.DidNotStart as why:
            lines.append([name, str(why)] + [""] * 7)
            continue
        ours = name == "lockgate"
        report.bad |= ours and (lines[-1][2] != "0" or float(lines[-1][6] or 1e9) > 50 or idle[-1][2] != "0" or float(idle[-1][3] or 1e9) > 10)
    report.plain(f"Honest handshakes, ten a second, beside ClientHellos that stall, {a.rate} new ones a second", ["", "handshakes", "failed", "quiet p50 ms", "quiet p99", "p50", "p99", "the slowest", "stalled ones open at the end"], lines,
                 ["To reach: p99 of 50 ms and less."])
    report.plain(f"{a.idle} keep-alive connections with one answer each and then silent, nofile {a.descriptors}, one worker; then the next clients", ["", "idle ones answered", "next ones failed", "the next one ms", "the slowest of ten"], idle,
                 ["To reach: the next one within 10 ms."])
    application.stop()


def flooded(tested, a):
    honest = Clients("honest.py", tested.port, "--kinds", "shake:10", "--timeout", 30)
    time.sleep(max(5, a.secs / 3))
    marks = [honest.began + 1, time.monotonic()]
    hostile = Clients("hostile.py", tested.port, "--kinds", f"hello:{a.rate}", "--hold", 60)
    # Once so many stall that no more are let in, as they are refilled at that rate.
    time.sleep(a.hellos / a.rate)
    marks.append(time.monotonic())
    time.sleep(a.secs)
    marks.append(time.monotonic())
    time.sleep(1)
    held = hostile.finish()["kinds"]["hello"]["open"]
    samples = honest.finish()["samples"]
    before, during = by_kind(samples, marks[0], marks[1])["shake"], by_kind(samples, marks[2], marks[3])["shake"]
    slowest = max((ms for _, due, ms, _ in samples if marks[2] <= due < marks[3]), default=None)
    return [during["asked"], during["failed"], *(figure(x, 1) for x in (before["p50"], before["p99"])), figure(during["p50"], 1), plain(during["p99"]), figure(slowest, 1), held]


def crowded(tested, a):
    hostile = Clients("hostile.py", tested.port, "--kinds", "idle:50", "--most", f"idle:{a.idle}", "--hold", 3600)
    time.sleep(a.idle / 50 + 2)
    # One after the other, each of its own address: the first is the next one.
    honest = Clients("honest.py", tested.port, "--kinds", "fresh:2", "--timeout", 100)
    time.sleep(5)
    samples = sorted(honest.finish()["samples"], key=lambda sample: sample[1])[:10]
    answered = hostile.finish()["kinds"]["idle"].get("opened", 0)
    good = [ms for *_, ms, failure in samples if not failure]
    return [answered, failures(samples), plain(samples[0][2] if samples else None), figure(max(good, default=None), 1)]


def plain(value):
    return "" if value is None else f"{value:.1f}"
