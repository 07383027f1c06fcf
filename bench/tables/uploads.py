"""T12: a tus upload through basic authentication and TLS, cut and resumed: who hands bytes on as they come, in how much memory?"""
import glob
import hashlib
import os
import subprocess
import sys
import threading
import time

from . import load, peers, processes, sites
from .processes import BUILT, Process
from .report import progress

sys.path.insert(0, load.SOURCES)
from pattern import digest  # noqa: E402

USER = "bench:a long way up"


class Tus(Process):
    """The tus server with its folder."""

    def __init__(self, how):
        self.port, self.folder = processes.free_port(), processes.fresh_directory("tus")
        super().__init__(["node", f"{BUILT}/node/tus.mjs", str(self.port), self.folder, how], processes.OTHERS, "tus")
        if not self.listens(self.port):
            raise RuntimeError(f"the tus server did not start: {self.said()[-300:]}")
        self.tcp = f"127.0.0.1:{self.port}"

    def file(self):
        return next((f for f in glob.glob(f"{self.folder}/*") if not f.endswith(".json")), None)

    def size(self):
        return os.path.getsize(self.file()) if self.file() else 0


class Memory(threading.Thread):
    """The most PSS of a program while it is watched."""

    def __init__(self, program):
        super().__init__(daemon=True)
        self.program, self.most, self.over = program, program.pss(), threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            self.most = max(self.most, self.program.pss())


def uploads(report, a):
    """T12: 1 GB by tus through basic authentication and TLS, killed in the middle and resumed."""
    report.head(f"Uploads: {a.size / 1e9:g} GB in PATCH requests of {a.chunk / 1e6:g} MB", len(a.peers) * (6 + a.size / 60e6))
    lines = []
    for name in a.peers:
        progress(name)
        try:
            line, good = upload(name, a)
        except peers.DidNotStart as why:
            line, good = [name, str(why)] + [""] * 8, False
        lines.append(line)
        report.bad |= name == "lockgate" and not good
    report.plain(f"tus ({a.origin}), basic authentication, TLS; {a.size:,} B, the client killed at a half and resumed",
                 ["", "Location", "not yet at the backend while the client stands still", "the backend is told of the kill after", "resumed from (of what was sent)", "PSS before, most", "grew", "content", "took", "CPU-s/GB"], lines)


def upload(name, a):
    tus = Tus(a.origin)
    hashed = subprocess.run(["openssl", "passwd", "-6", USER.split(":")[1]], capture_output=True, text=True, check=True).stdout.strip()
    users = os.path.join(processes.fresh_directory("users"), "users")
    with open(users, "w") as f:
        f.write(f"bench:{hashed}\n")
    try:
        program = sites.start(name, sites.Site(upstreams=(tus.tcp,), key="ecdsa", users=users, password=hashed))
    except peers.DidNotStart:
        tus.stop()
        raise
    try:
        return watched(name, a, tus, program)
    finally:
        program.stop()
        tus.stop()


def watched(name, a, tus, program):
    refused = load.finish_client(load.client(program.port, "--once", "--get", 10), 20)  # warms up; without a password it is a 401
    time.sleep(0.3)
    before, cpu, began = program.pss(), program.cpu(), time.monotonic()
    memory = Memory(program)
    memory.start()
    half = a.size // 2 + a.chunk // 3
    # Inside of requests, at a third of each; the last one is where it is killed.
    pauses = [n * a.chunk + a.chunk // 3 for n in range(1, half // a.chunk, max(1, half // a.chunk // 4))] + [half]
    client = start_client(program.port, "-", a, pauses)
    location, behind, sent = "", [], 0
    for line in client.popen.stdout:
        word, _, rest = line.strip().partition(" ")
        if word == "location":
            location = rest
        elif word == "at":
            sent = int(rest)
            behind.append(sent - settled(tus, sent))
            if sent >= half:
                break
            client.popen.stdin.write("\n")
            client.popen.stdin.flush()
        elif word == "end":
            break
    client.popen.kill()
    killed = time.monotonic()
    client.stop()
    while tus_connections(tus.port) and time.monotonic() < killed + 5:
        time.sleep(0.01)
    told = time.monotonic() - killed
    path = "/" + location.split("/", 3)[3] if "://" in location else location
    second = start_client(program.port, path, a, [])
    said = dict(line.strip().partition(" ")[::2] for line in second.popen.stdout)
    second.stop()
    took = time.monotonic() - began
    memory.over.set()
    memory.join()
    used = program.cpu() - cpu
    whole = content(tus) == digest(a.size)
    public = f"https://{sites.HOST}:{program.port}/files/"
    grew = (memory.most - before) / 1024
    right = location.startswith(public)
    good = right and whole and max(behind, default=a.size) == 0 and grew < 20 and program.alive() and refused["requests"] == 0
    return [name, location[:len(public)] if right else f"**{location or 'none'}**", ", ".join(f"{b:,} B" for b in behind), f"{told:.2f} s" if told < 5 else "**more than 5 s**",
            f"{int(said.get('from', 0)):,} ({sent:,})", f"{before / 1024:.1f} MB, {memory.most / 1024:.1f} MB", f"{grew:.1f} MB",
            "right" if whole else f"**wrong**, the client said {said.get('end', 'nothing')}", f"{took:.1f} s", f"{used.total / 1e6 / (a.size / 1e9):.2f}"], good


def start_client(port, path, a, pauses):
    return Process([sys.executable, f"{load.SOURCES}/upload.py", str(port), sites.HOST, USER, path, str(a.size), str(a.chunk), *map(str, pauses)],
                   processes.OTHERS, "upload", stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def settled(tus, sent, seconds=3):
    """How much the backend has of what was sent, once that does not change any more."""
    end, before = time.monotonic() + seconds, -1
    while time.monotonic() < end:
        now = tus.size()
        if now >= sent:
            return sent
        before = now
        time.sleep(0.05)
    return before


def tus_connections(port):
    """Connections that the backend's side still holds open."""
    with open("/proc/net/tcp") as f:
        return sum(1 for line in f if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01")


def content(tus):
    h = hashlib.sha256()
    with open(tus.file() or os.devnull, "rb") as f:
        while piece := f.read(1 << 20):
            h.update(piece)
    return h.hexdigest()
