"""Origins, applications and generators, and the two ways to weigh a program: while a load is steady, or over a whole run."""
import json
import math
import mmap
import os
import re
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass

from . import processes
from .processes import BUILT, OTHERS, REPOSITORY, Process

SOURCES = os.path.join(REPOSITORY, "bench", "src")
SET_UP = 10  # seconds that wrk's connections may take; hitch and Node.js, which accept one a turn, have not all of 3,000 by then


SUITES = {"aes128": ("TLS_AES_128_GCM_SHA256", "ECDHE+AES128+AESGCM"), "aes256": ("TLS_AES_256_GCM_SHA384", "ECDHE+AES256+AESGCM"),
          "chacha20": ("TLS_CHACHA20_POLY1305_SHA256", "ECDHE+CHACHA20")}
_offered = {}


def offer(suite):
    """From now on the generators offer only this suite, and X25519 first: each program prefers another, and that is not the same work.

    P-256 is there because TLS 1.2 takes no ECDSA certificate on a curve that was not offered.
    """
    if suite == "any":
        return
    path = os.path.join(processes.scratch(), "generators.cnf")
    with open(path, "w") as f:
        f.write("openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n[tls]\n"
                f"Ciphersuites = {SUITES[suite][0]}\nCipherString = {SUITES[suite][1]}\nGroups = X25519:P-256\n")
    _offered["OPENSSL_CONF"] = path


class Counted:
    """The counters that an origin keeps in a file."""

    def __init__(self, path, process):
        end = time.monotonic() + 5
        while not (os.path.exists(path) and os.path.getsize(path) == 32):
            if time.monotonic() > end or not process.alive():
                raise RuntimeError(f"{process.name} did not start: {process.said()[-300:]}")
            time.sleep(0.02)
        with open(path, "rb") as f:
            self._map = mmap.mmap(f.fileno(), 32, prot=mmap.PROT_READ)

    def read(self):
        return dict(zip(("connections", "requests", "bytes_in", "bytes_out"), struct.unpack("4Q", self._map)))


class Origin:
    """Our echo server on a Unix socket and on a TCP port."""

    def __init__(self, cores=OTHERS, requests=0, split=0, port=None):
        self.port = port or processes.free_port()
        self.path = os.path.join(scratch_sockets(), f"echo-{self.port}.sock")
        count = self.path + ".count"
        side = processes.ORIGIN
        self.process = Process([*side.enter, f"{BUILT}/echo", "--host", side.own, "--tcp", str(self.port), "--unix", self.path, "--requests", str(requests),
                                "--split", str(split), "--count", count], cores, "echo")
        self.counted = Counted(count, self.process)
        if not self.process.listens(self.port, host=side.own):
            raise RuntimeError(f"the origin did not start: {self.process.said()}")
        self.unix, self.tcp = f"unix:{self.path}", f"{side.own}:{self.port}"

    def stop(self):
        self.process.stop()


class Application(Process):
    """The echo application in Node.js, on http, https and a Unix socket."""

    def __init__(self, cores, key="ecdsa", shape="buffer", nagle=False, only=("http", "https", "unix")):
        self.http, self.https = processes.free_port(), processes.free_port()
        self.path = os.path.join(scratch_sockets(), f"app-{self.http}.sock")
        argv = ["node", f"{SOURCES}/echo-app.js", "--shape", shape, "--count", self.path + ".count"] + ["--nagle"] * nagle
        where = {"http": ["--http", str(self.http)], "unix": ["--unix", self.path],
                 "https": ["--https", str(self.https), "--cert", f"{BUILT}/certs/{key}.crt", "--key", f"{BUILT}/certs/{key}.key"]}
        for name in only:
            argv += where[name]
        super().__init__(argv, cores, "node")
        if not self.listens(self.https if only == ("https",) else self.http if "http" in only else 0):
            raise RuntimeError(f"node did not start: {self.said()[-300:]}")
        self.counted = Counted(self.path + ".count", self)
        self.unix, self.tcp = f"unix:{self.path}", f"127.0.0.1:{self.http}"


def scratch_sockets():
    path = os.path.join(processes.scratch(), "s")
    os.makedirs(path, exist_ok=True)
    return path


@dataclass(frozen=True)
class Wrk:
    """What wrk is to do; `post` with `sink` is an upload, `get` a download of so many bytes."""
    connections: int
    post: int | None = None
    get: int | None = None
    sink: bool = False
    close: bool = False
    timeout: int = 60
    path: str | None = None       # of a file with `get` bytes
    accept: str | None = None     # Accept-Encoding
    slack: int = 0                # bytes that an answer may have less or more

    def start(self, port, seconds, tls, cores=OTHERS):
        path = self.path or ("/sink" if self.sink else f"/{self.get}" if self.get is not None else "/")
        env = _offered | {k: str(v) for k, v in (("POST", self.post), ("EXPECT", self.get), ("ACCEPT", self.accept), ("SLACK", self.slack or None)) if v is not None}
        env |= {"SINK": "1"} if self.sink else {}
        env |= {"CLOSE": "1"} if self.close else {}
        side = processes.CLIENTS
        argv = [*side.enter, "wrk", "-t1", f"-c{self.connections}", f"-d{math.ceil(seconds)}s", f"--timeout={self.timeout}s", "-s", f"{SOURCES}/wrk.lua",
                f"{'https' if tls else 'http'}://{side.program}:{port}{path}"]
        return Process(argv, cores, "wrk", env=env, stdout=subprocess.PIPE)


def finish_wrk(process, seconds=60):
    try:
        out, _ = process.popen.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        out = ""
    process.stop()
    found = re.search(r"JSON(\{.*\})", out or "")
    if not found:
        return {"requests": 0, "failed": {"wrk said nothing": 1}, "said": (out or "")[-200:]}
    return json.loads(found.group(1))


def errors_of(said):
    return {kind: n for kind, n in said.get("failed", {}).items() if n}


def steady(program, counted, wrk, port, tls, seconds, cores=OTHERS, pooled=False):
    """Weighs the program between two moments of a load that is already up, so that handshakes at its begin do not count.

    Requests are counted by the origin. `up` says how many connections it had when the first of the two moments came; those of
    a program that shares them among its clients (`pooled`) say nothing, and the kernel is asked for the clients' own.
    """
    def connected(now):
        return processes.established(port) if pooled else now["connections"] - at_start["connections"]

    enough = wrk.connections * (10 if pooled else 1)
    program.until_quiet()
    at_start, cpu_at_start = counted.read(), program.cpu()
    generator = wrk.start(port, SET_UP + seconds + 5, tls, cores)
    began = time.monotonic()
    while generator.alive() and time.monotonic() < began + SET_UP:
        now = counted.read()
        if now["requests"] - at_start["requests"] >= enough and connected(now) >= wrk.connections:
            break
        time.sleep(0.02)
    set_up = time.monotonic() - began
    time.sleep(min(0.5, 0.25 * seconds))
    up = connected(counted.read())
    before, cpu_before, core_before, t_before = counted.read(), program.cpu(), processes.busy(0), time.monotonic()
    time.sleep(seconds)
    after, cpu_after, core_after, t_after = counted.read(), program.cpu(), processes.busy(0), time.monotonic()
    generator.signal(signal.SIGINT)
    said = finish_wrk(generator)
    program.until_quiet()
    errors = errors_of(said)
    requests = after["requests"] - before["requests"]
    if not requests:
        errors["no request"] = 1
    record = weighed(cpu_after - cpu_before, requests, after["bytes_in"] - before["bytes_in"] + after["bytes_out"] - before["bytes_out"], t_after - t_before)
    record |= {k: said.get(k) for k in ("p50", "p90", "p99", "p999", "max")}
    if cores == OTHERS:
        record |= on_the_core(cpu_after - cpu_before, core_after - core_before, t_after - t_before, requests)
    record |= {"errors": errors, "answered": said.get("requests", 0), "set_up_s": set_up, "up": min(up, wrk.connections), "whole_us": (program.cpu() - cpu_at_start).total / max(1, said.get("requests", 0))}
    return record


def closed_loop(program, port, wrk, seconds, tls, whole=0):
    """Weighs the program over one run of wrk, its handshakes included: there is no origin that could count between two moments.

    What of answers has come that are under way at the end counts as a part, where `whole`, the bytes of a head and its body, is known:
    of the biggest they would be some percent, and more for who is slower.
    """
    program.until_quiet()
    before, core_before, began = program.cpu(), processes.busy(0), time.monotonic()
    said = finish_wrk(wrk.start(port, seconds, tls), seconds + 60)
    lasted = time.monotonic() - began
    cpu, core = program.cpu() - before, processes.busy(0) - core_before
    program.until_quiet()
    requests, errors = said["requests"], errors_of(said)
    if whole and requests <= (parts := said.get("bytes", 0) / whole) <= requests + wrk.connections:
        requests = parts
    record = weighed(program.cpu() - before, requests, requests * (wrk.get or 0), said.get("seconds") or lasted)
    record |= {k: said.get(k) for k in ("p50", "p90", "p99", "p999", "max")}
    return record | {"errors": errors | ({} if requests else {"no request": 1}), "others_percent": others(cpu, core, lasted)}


def others(cpu, core_seconds, seconds):
    """Percent of the tested core that something else used while we measured."""
    return 100 * (core_seconds - cpu.total / 1e6) / seconds


CORE = ("whole core µs/request", "core_us", 1)


def on_the_core(cpu, core_seconds, seconds, requests):
    """What else used the tested core: others, or, where clients and origin are apart, the kernel when it received for the program."""
    if processes.CLIENTS.enter:
        return {"core_us": core_seconds * 1e6 / max(1, requests)}
    return {"others_percent": others(cpu, core_seconds, seconds)}


def weighed(cpu, requests, size, seconds):
    """The figures of a run out of what it used and what it served."""
    n = max(1, requests)
    ticks = max(1, cpu.user + cpu.system)
    return {"cpu_us": cpu.total / n, "user_us": cpu.total / n * cpu.user / ticks, "sys_us": cpu.total / n * cpu.system / ticks,
            "requests": requests, "per_second": requests / seconds, "bytes": size, "cpu_s_per_gb": cpu.total / 1e6 / (size / 1e9) if size else None,
            "mb_per_second": size / seconds / 1e6, "core_percent": cpu.total / seconds / 1e4}


def client(port, *options, cores=OTHERS, tls="any", **more):
    """Starts our own client; options as in bench/src/client.c."""
    side = processes.CLIENTS
    return Process([*side.enter, f"{BUILT}/client", "--host", side.program, "--port", str(port), "--tls", tls, *[str(o) for o in options]], cores, "client", env=_offered,
                   stdout=subprocess.PIPE, **more)


def finish_client(process, seconds=120):
    try:
        out, _ = process.popen.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        out = ""
    process.stop()
    lines = [line for line in (out or "").splitlines() if line.startswith("{")]
    if not lines:
        return {"requests": 0, "connections": 0, "seconds": 1, "bytes_in": 0, "bytes_out": 0, "peak": 0, "waiting": 0, "lost": 0, "tls": "",
                "certificates": {}, "failed": {"client did not end" if out == "" else "client broke": 1}, "p50": 0, "p90": 0, "p99": 0, "p999": 0, "max": 0, "stalled": 0}
    return json.loads(lines[-1])


def whole(program, port, *options, seconds=120, cores=OTHERS, tls="any"):
    """Weighs the program over all that one run of our client makes it do, the closing of connections included."""
    program.until_quiet()
    before, core_before, began = program.cpu(), processes.busy(0), time.monotonic()
    said = finish_client(client(port, *options, cores=cores, tls=tls), seconds)
    lasted = time.monotonic() - began
    used = others(program.cpu() - before, processes.busy(0) - core_before, lasted)
    program.until_quiet()
    record = weighed(program.cpu() - before, said["requests"], said["bytes_in"] + said["bytes_out"], said["seconds"] or lasted)
    record |= {k: said[k] for k in ("p50", "p90", "p99", "p999", "max", "connections", "peak", "tls", "lost", "waiting", "seconds", "certificates")}
    record["errors"] = errors_of(said)
    if cores == OTHERS:
        record["others_percent"] = used
    return record


def traced(program, generate):
    """System calls by name of the program's whole tree during `generate`, and what that returns."""
    path = os.path.join(processes.scratch(), "strace.txt")
    attached = [word for pid in program.tree() for word in ("-p", str(pid))]
    strace = Process(["strace", "-f", "-c", "-o", path, *attached], OTHERS, "strace")
    end = time.monotonic() + 5
    while "attached" not in strace.said() and strace.alive() and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.3)
    said = generate()
    program.until_quiet()
    strace.signal(signal.SIGINT)
    strace.wait(5)
    strace.stop()
    calls = {}
    with open(path) as f:
        for line in f:
            found = re.match(r" *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", line)
            if found and found.group(2) != "total":
                calls[found.group(2)] = calls.get(found.group(2), 0) + int(found.group(1))
    if not calls:
        said["failed"]["strace counted nothing: " + " ".join(strace.said().split())[-100:]] = 1
    return calls, said


@dataclass(frozen=True)
class H2load:
    """What h2load is to do: a closed loop of so many streams on each connection; `body`: a file that every request uploads."""
    path: str
    size: int                     # bytes of an answer
    body: str | None = None
    connections: int = 10
    streams: int = 10
    accept: str | None = None     # Accept-Encoding
    slack: int = 0                # bytes that an answer may have less or more
    tls: bool = True              # else prior knowledge

    @classmethod
    def of(cls, method, size, *shape):
        """A GET of so many bytes, or a POST of which only the length comes back."""
        if method.upper() == "GET":
            return cls(f"/{size}", size, None, *shape)
        path = os.path.join(processes.scratch(), f"body-{size}")
        with open(path, "wb") as f:
            f.write(b"x" * size)
        return cls("/sink", len(str(size)), path, *shape)

    def start(self, port, cores=OTHERS, seconds=None, requests=None):
        """For so long, or so many requests in all."""
        span = ["-D", f"{seconds:g}", "--warm-up-time", "0"] if seconds else ["-n", str(requests)]
        upload = ["-d", self.body] if self.body else []
        upload += ["-H", f"accept-encoding: {self.accept}"] if self.accept else []
        side = processes.CLIENTS
        argv = [*side.enter, "h2load", "-t1", f"-c{self.connections}", f"-m{self.streams}", *span, *upload, f"{'https' if self.tls else 'http'}://{side.program}:{port}{self.path}"]
        return Process(argv, cores, "h2load", env=_offered, stdout=subprocess.PIPE)

    def said(self, out):
        """Answers, and what was wrong with them. Those under way at the end are neither: h2load forgets them, but not their bytes."""
        found = re.search(r"requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", out)
        if not found or "Application protocol: h2" not in out:
            return 0, {"h2load: " + (" ".join(out.split())[-120:] or "nothing said"): 1}
        done, succeeded, *_ = map(int, found.groups())
        errors = {kind: int(n) for kind, n in zip(("failed", "errored", "timeout"), found.groups()[2:]) if int(n)}
        good = int(re.search(r"status codes: (\d+) 2xx", out).group(1))
        data = int(re.search(r"headers \(.*\(([\d]+)\) data", out).group(1))
        if good < done or succeeded < done:
            errors["not 2xx"] = max(done - good, done - succeeded)
        if not done * (self.size - self.slack) <= data <= (done + self.connections * self.streams) * (self.size + self.slack):
            errors[f"answers of {data / max(1, done):.0f} B"] = 1
        return done, errors


def spoken(process, seconds):
    """What a generator prints until it ends, within so many seconds."""
    try:
        return process.popen.communicate(timeout=seconds)[0] or process.said()
    except subprocess.TimeoutExpired:
        return ""


def h2load(program, port, job, seconds, cores=OTHERS):
    """Weighs the program over one run of h2load, its few handshakes included."""
    seconds = math.ceil(seconds)  # it takes whole ones
    program.until_quiet()
    before, core_before, began = program.cpu(), processes.busy(0), time.monotonic()
    process = job.start(port, cores, seconds)
    out = spoken(process, seconds + 60)
    lasted = time.monotonic() - began
    cpu, core = program.cpu() - before, processes.busy(0) - core_before
    process.stop()
    program.until_quiet()
    requests, errors = job.said(out)
    size = requests * (os.path.getsize(job.body) if job.body else job.size)
    record = weighed(program.cpu() - before, requests, size, seconds) | {"errors": errors | ({} if requests else {"no request": 1}), "core_percent": cpu.total / lasted / 1e4}
    times = re.search(r"time for request: +(\S+) +(\S+) +(\S+)", out)
    if times:
        record |= {"mean": milliseconds(times.group(3)), "max": milliseconds(times.group(2))}
    if cores == OTHERS:
        record |= on_the_core(cpu, core, lasted, requests)
    return record


def finish_h2load(job, port, requests):
    """So many requests in all, and how that went."""
    process = job.start(port, requests=requests)
    done, errors = job.said(spoken(process, 300))
    process.stop()
    return {"requests": done, "failed": errors | ({} if done == requests else {"unanswered": requests - done})}


def milliseconds(text):
    """As h2load writes times: "123us", "4.56ms", "1.23s"."""
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000}[unit]


def negotiated(port):
    """Version, suite and group that the program agrees on with a generator: they must be the same everywhere to be comparable."""
    return finish_client(client(port, "--once", "--get", 10), 20)["tls"]


def fetch(port, path):
    """A GET over plain HTTP by hand; status and body, or None when nobody answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while piece := s.recv(65536):
                data += piece
    except OSError:
        return None
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body.decode(errors="replace")
