"""Two hops, as document 002 has them: a TCP balancer with checks, terminators of TLS behind it, applications behind those.

While new connections come at a steady rate one terminator is killed, comes back, and the other is told to stop.
"""
import asyncio
import base64
import collections
import os
import signal
import ssl
import threading
import time
from dataclasses import dataclass, replace

from . import peers, processes
from .peers import _written as written
from .processes import BUILT, LOCKGATE, OTHERS, REPOSITORY, TESTED, Process
from .report import progress

QUIET, DOWN, BACK, DRAIN = 5, 7, 4, 9  # seconds: before the kill, until it is started again, until the other is told to stop, and since then
HOLD, PAUSE = 4.0, 0.5                 # seconds that a WebSocket lives, and between its messages
DEADLINE = 8                           # of a drain: longer than a WebSocket lives
TERMINATORS = ("relay", "site")
CHECKS = {"ready": "/ready, which says of a drain before it begins", "tcp": "a connection"}


@dataclass(frozen=True)
class Hop:
    """A Lockgate: the balancer of two terminators, or one of these in front of two applications."""
    upstreams: tuple
    kind: str                     # "balancer", "relay", "site"
    port: int = 0
    host: str = "127.0.0.1"
    metrics: int = 0              # port of its metrics address; of the balancer, that of those that it asks for /ready; 0: none

    few_descriptors = False


def hop(front, directory):
    text = ["workers = 1", "access_log = false", f'drain = {{ delay = "2s", deadline = "{DEADLINE}s" }}']
    if front.metrics and front.kind != "balancer":
        text.append(f'metrics = "{front.host}:{front.metrics}"')
    text += ['trusted = ["127.0.0.1/32"]'] if front.kind != "balancer" else []
    text += ["[pool.next]", f"endpoints = {list(front.upstreams)}".replace("'", '"')]
    asked = 'path = "/health", '
    if front.kind == "balancer":
        asked = f'path = "/ready", port = {front.metrics}, ' if front.metrics else ""
    text.append(f'health = {{ {asked}every = "500ms", timeout = "300ms", fall = 2, rise = 2 }}')
    text += [f'[site.":{front.port}"]', f'listen = ["{front.host}"]'] if front.kind == "site" else [f'[tcp."{front.host}:{front.port}"]']
    text.append('proxy = "pool:next"')
    if front.kind != "site":
        text.append('proxy_protocol = "v2"')
    if front.kind != "balancer":
        text += ['accept_proxy = "require"', f'tls = {{ cert = "{BUILT}/certs/ecdsa.crt", key = "{BUILT}/certs/ecdsa.key" }}']
    return written(directory, "lockgate.toml", text), [LOCKGATE, "run", "-c", f"{directory}/lockgate.toml"]


def start(front):
    front = replace(front, port=front.port or processes.free_port())
    return peers.start("lockgate", front, TESTED, {"lockgate": hop})


class Application(Process):
    """What is behind the terminators."""

    def __init__(self):
        self.port = processes.free_port()
        super().__init__(["python3", f"{REPOSITORY}/bench/src/told.py", str(self.port)], OTHERS, "told")
        if not self.listens(self.port):
            raise RuntimeError(f"the application did not start: {self.said()[-300:]}")
        self.tcp = f"127.0.0.1:{self.port}"


@dataclass
class Came:
    """One connection of a client: when it was begun, and what came of it."""
    kind: str                     # "HTTP", "WebSocket"
    began: float
    decided: float | None = None  # when its first answer came, or it failed
    ms: float | None = None       # until that answer
    failed: str | None = None     # there was none
    cut: str | None = None        # it ended later, before its time
    wrong: str | None = None      # the address that the application was told instead


class Clients:
    """New connections over TLS at a steady rate, each from an address of its own."""

    def __init__(self, port, whole, https, sockets):
        self.port, self.whole, self.https, self.sockets = port, whole, https, sockets
        self.came, self.began = [], time.monotonic()
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    async def run(self, seconds):
        self.began, tasks, rate = time.monotonic(), [], self.https + self.sockets
        for n in range(int(seconds * rate)):
            if (wait := self.began + n / rate - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            kind = "WebSocket" if n * self.sockets // rate != (n + 1) * self.sockets // rate else "HTTP"
            tasks.append(asyncio.create_task(self.one(kind, n)))
        await asyncio.gather(*tasks)

    async def one(self, kind, n):
        began = time.monotonic()
        came = Came(kind, began - self.began)
        self.came.append(came)
        writer = None
        try:
            async with asyncio.timeout(10 + HOLD):
                source = f"127.{1 + n // 62500}.{n // 250 % 250}.{2 + n % 250}"
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls, server_hostname="localhost", local_addr=(source, 0))
                own = source if not self.whole else "{}:{}".format(*writer.get_extra_info("sockname"))
                if kind == "HTTP":
                    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    head = await reader.readuntil(b"\r\n\r\n")
                    self.answered(came, head[:12] == b"HTTP/1.1 200" and await reader.readexactly(length(head)), own)
                else:
                    await self.messages(came, reader, writer, own)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, ValueError) as why:
            said = type(why).__name__
            if came.ms is None:
                came.failed, came.decided = said, time.monotonic() - self.began
            else:
                came.cut = said
        finally:
            if writer:
                writer.close()

    def answered(self, came, told, own):
        if not told:
            raise ValueError
        if came.ms is None:
            came.decided = time.monotonic() - self.began
            came.ms = (came.decided - came.began) * 1e3
        if told.decode() != own:
            came.wrong = told.decode()

    async def messages(self, came, reader, writer, own):
        key = base64.b64encode(os.urandom(16))
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n\r\n" % key)
        if (await reader.readuntil(b"\r\n\r\n"))[:12] != b"HTTP/1.1 101":
            raise ValueError
        end = time.monotonic() + HOLD
        while time.monotonic() < end:
            writer.write(b"\x81\x82\0\0\0\0hi")
            kind, size = await reader.readexactly(2)
            told = await reader.readexactly(size)
            if kind != 0x81:
                raise ValueError
            self.answered(came, told, own)
            await asyncio.sleep(PAUSE)
        writer.write(b"\x88\x80\0\0\0\0")
        while await reader.read(1000):
            pass


def length(head):
    return next(int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))


def two_hops(report, a):
    """A TCP balancer, two TLS terminators, two applications: one terminator is killed and one drained under new HTTP and WebSocket connections."""
    whole = QUIET + DOWN + BACK + DRAIN
    report.head("Two hops: TCP balancer → TLS terminators → applications", len(a.terminators) * len(a.checks) * (whole + 8))
    os.sched_setaffinity(0, OTHERS)
    for kind, check in ((kind, check) for kind in a.terminators for check in a.checks):
        progress(f"{kind} {check}")
        try:
            story(report, kind, check, a)
        except peers.DidNotStart as why:
            report.plain(f"Terminators: {kind}", ["", ""], [["lockgate", str(why)]])
            report.bad = True


def story(report, kind, check, a):
    applications = [Application(), Application()]
    # Two machines have the same ports: so do two addresses.
    port, metrics = processes.free_port(), processes.free_port() if check == "ready" else 0
    hops = [start(Hop(tuple(app.tcp for app in applications), kind, port, host, metrics)) for host in ("127.0.0.1", "127.0.0.2")]
    balancer = start(Hop(tuple(f"{hop.front.host}:{port}" for hop in hops), "balancer", metrics=metrics))
    time.sleep(2)  # the first checks
    clients = Clients(balancer.port, kind == "relay", a.https, a.sockets)
    moments, said, over = {}, [], threading.Event()

    def notes(hop, up, seconds):
        """When the balancer's log says that this one's checks turned."""
        line, end = f'the endpoint is {"up" if up else "down"} endpoint="{hop.front.host}:{hop.port}"', time.monotonic() + seconds
        while time.monotonic() < end:
            if line in balancer.said():
                return time.monotonic() - clients.began
            time.sleep(0.02)
        said.append(f"**The balancer did not say within {seconds} s: {line}.**")
        return None

    def meddle():
        time.sleep(max(0, clients.began + QUIET - time.monotonic()))
        moments["killed"] = time.monotonic() - clients.began
        hops[0].signal(signal.SIGKILL)
        moments["fell"] = notes(hops[0], False, DOWN)
        hops[0].stop()
        time.sleep(max(0, clients.began + QUIET + DOWN - time.monotonic()))
        hops[0] = start(hops[0].front)
        moments["up"] = notes(hops[0], True, BACK)
        time.sleep(max(0, clients.began + QUIET + DOWN + BACK - time.monotonic()))
        moments["told"] = time.monotonic() - clients.began
        hops[1].signal(signal.SIGTERM)
        code = hops[1].wait(DEADLINE + 3)
        moments["gone"] = time.monotonic() - clients.began
        said.append(f"The drained one ended with {code} after {moments['gone'] - moments['told']:.1f} s, the killed one was out after {(moments['fell'] or 0) - moments['killed']:.2f} s." if code is not None
                    else "**The drained one did not end.**")
        over.wait()  # the one that was started here ends with this thread

    hand = threading.Thread(target=meddle)
    hand.start()
    asyncio.run(clients.run(QUIET + DOWN + BACK + DRAIN))
    alive = balancer.alive() and hops[0].alive()
    over.set()
    hand.join()
    for process in (balancer, *hops, *applications):
        process.stop()
    tell(report, kind, check, clients.came, moments, said, alive)


def tell(report, kind, check, came, moments, said, alive):
    spans = [("quiet", 0, moments["killed"]), ("killed, until its check's fall", moments["killed"], moments["fell"] or moments["killed"]),
             ("one left", moments["fell"] or moments["killed"], moments["up"] or moments["told"]), ("both again", moments["up"] or moments["told"], moments["told"]),
             ("one drains", moments["told"], moments["gone"]), ("it has gone", moments["gone"], float("inf"))]
    lines, good = [], alive and not any(text.startswith("**") for text in said)
    for number, (name, since, until) in enumerate(spans):
        here = [c for c in came if since <= c.decided < until]
        wrong = [c for c in here if c.wrong]
        taken = sorted(c.ms for c in here if c.ms is not None)
        cells = [name, f"{since:.1f} s"]
        for what in ("HTTP", "WebSocket"):
            those = [c for c in here if c.kind == what]
            cells += [len(those), counted(c.failed for c in those)]
            good = good and (number == 1 or not any(c.failed for c in those))
        # What was held by the killed one dies with it, whenever it was begun before.
        good = good and not wrong and (number <= 1 or not any(c.cut for c in here))
        cells += [counted(c.cut for c in here), f"**{len(wrong)}**, such as {wrong[0].wrong}" if wrong else "0"]
        cells += [f"{taken[len(taken) // 2]:.1f}", f"{taken[len(taken) * 99 // 100]:.1f}", f"{taken[-1]:.1f}"] if taken else ["", "", ""]
        lines.append(cells)
    how = "TLS off, a PROXY header passed on" if kind == "relay" else "HTTP with X-Forwarded-For"
    report.plain(f"Terminators: {kind} ({how}), checked by {CHECKS[check]}; by when a connection had its first answer or failed",
                 ["", "from", "new HTTP", "failed", "new WebSockets", "failed", "cut afterwards", "wrong address", "p50 ms", "p99 ms", "max ms"], lines, [" ".join(said)])
    report.bad |= not good


def counted(why):
    found = collections.Counter(one for one in why if one)
    return ", ".join(f"{n} {kind}" for kind, n in found.items()) or "0"
