"""Clients that take and give nothing, each kind at a fixed rate of new connections, from the addresses that are named.

hostile.py PORT --kinds hello:200,idle:20,… [--most hello:1100,…] [--addresses A,B] [--seconds S] [--hold S] [--streams N]
  hello    a ClientHello, then nothing
  idle     one request that is answered, then nothing
  reader   asks for 10 MB over TLS and reads nothing
  h2hang   HTTP/2 with --streams requests to an endpoint that hangs
  h2reader the same, of 10 MB each, with wide windows, and reads nothing
  trickle  a head, or a body, by a byte a second

`--most`: so many connections of a kind in all. Prints one JSON object: of each kind the connections that were opened, those that
were refused or closed before their time, and those that were open at the end. Ends when standard input does, or after S seconds.
"""
import argparse
import asyncio
import collections
import itertools
import json
import os
import resource
import sys
import time

import wire

TLS = {"h2": wire.context("h2"), "http": wire.context("http/1.1")}


class Hostile:
    def __init__(self, a):
        self.a, self.seen, self.open = a, collections.defaultdict(collections.Counter), collections.Counter()
        self.hello, self.addresses = wire.client_hello(), itertools.cycle(a.addresses)

    async def one(self, kind):
        room = 4096 if kind in ("reader", "h2reader") else None
        try:
            sock = await wire.connect(self.a.port, next(self.addresses), room)
        except OSError:
            self.seen[kind]["not connected"] += 1
            return
        self.seen[kind]["opened"] += 1
        self.open[kind] += 1
        try:
            await getattr(self, "on_" + kind)(sock)
        finally:
            self.open[kind] -= 1
            sock.close()

    async def until_closed(self, sock):
        """As long as it is held, and no longer than it is wanted there; what comes is thrown away."""
        async with asyncio.timeout(self.a.hold):
            while await asyncio.get_running_loop().sock_recv(sock, 65536):
                pass
        raise EOFError

    async def silent(self, sock):
        """The same without reading: that it was cut is seen by what is sent."""
        await asyncio.sleep(self.a.hold)

    async def secure(self, sock, kind):
        tls = wire.Tls(sock, TLS[kind])
        await asyncio.wait_for(tls.shake_hands(), self.a.hold)
        return tls

    async def on_hello(self, sock):
        await asyncio.get_running_loop().sock_sendall(sock, self.hello)
        await self.until_closed(sock)

    async def on_idle(self, sock):
        tls = await self.secure(sock, "http")
        await tls.send(b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(tls.receive(), self.a.hold)
        await self.until_closed(sock)

    async def on_reader(self, sock):
        tls = await self.secure(sock, "http")
        await tls.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await self.silent(sock)

    async def on_h2hang(self, sock):
        tls = await self.secure(sock, "h2")
        await tls.send(wire.greeting() + b"".join(wire.request(1 + 2 * n, "/hang") for n in range(self.a.streams)))
        await self.until_closed(sock)

    async def on_h2reader(self, sock):
        tls = await self.secure(sock, "h2")
        await tls.send(wire.greeting() + b"".join(wire.request(1 + 2 * n, "/large") for n in range(self.a.streams)))
        await self.silent(sock)

    async def on_trickle(self, sock):
        tls = await self.secure(sock, "http")
        body = self.seen["trickle"]["opened"] % 2
        await tls.send(b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" if body else b"GET /small HTTP/1.1\r\nHost: localhost\r\nx: ")
        end = time.monotonic() + self.a.hold
        while time.monotonic() < end:
            await tls.send(b"x")
            await asyncio.sleep(1)

    async def guarded(self, kind):
        try:
            await self.one(kind)
        except TimeoutError:
            self.seen[kind]["held to the end"] += 1
        except EOFError:
            self.seen[kind]["closed by the server"] += 1
        except Exception as why:  # a server may say anything to such clients
            self.seen[kind][type(why).__name__] += 1

    async def steadily(self, kind, rate, most):
        began = time.monotonic()
        tasks = set()
        for n in itertools.count():
            if n == most:
                break
            await asyncio.sleep(max(0, began + n / rate - time.monotonic()))
            task = asyncio.create_task(self.guarded(kind))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.Event().wait()

    async def run(self):
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        steady = [asyncio.create_task(self.steadily(kind, rate, self.a.most.get(kind))) for kind, rate in self.a.kinds.items()]
        try:
            await asyncio.wait_for(reader.read(), self.a.seconds)
        except TimeoutError:
            pass
        for task in steady:
            task.cancel()
        print(json.dumps({"kinds": {kind: dict(self.seen[kind]) | {"open": self.open[kind]} for kind in self.a.kinds}, "cpu": time.process_time()}), flush=True)
        os._exit(0)  # thousands of connections end by themselves


def pairs(text):
    return {kind: float(number) for kind, number in (pair.split(":") for pair in text.split(",") if pair)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--kinds", type=pairs, required=True)
    parser.add_argument("--most", type=lambda text: {kind: int(n) for kind, n in pairs(text).items()}, default={})
    parser.add_argument("--addresses", type=lambda text: text.split(","), default=["127.0.0.10"])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--hold", type=float, default=60)
    parser.add_argument("--streams", type=int, default=128)
    a = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(Hostile(a).run())


main()
