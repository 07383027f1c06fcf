"""Clients as they should be, at fixed rates: what they ask is counted by kind, and latency from the time each was due.

honest.py PORT [--kinds get:40,fresh:10,h2:40,ws:16,upload:2,download:2] [--addresses A,B,…] [--timeout S]
  get       a GET of 200 B on a kept HTTPS connection of that address
  fresh     the same on a connection of its own: TCP, handshake, request
  h2        the same as a stream of a kept HTTP/2 connection
  ws        a message that comes back on a kept WebSocket
  upload    POST of 200 KB            download  GET of 1 MB, both on kept HTTPS connections
  shake     TCP and a full handshake, no request

A connection that the server closed while it was idle is no failure, and a request that it says was not looked at is asked again, once. A
WebSocket that is closed is a failure. Ends when standard input does; prints one JSON object with every sample: kind, when it was due on
the monotonic clock, milliseconds, failure.
"""
import argparse
import asyncio
import itertools
import json
import os
import struct
import sys
import time

import wire

TLS = {"h2": wire.context("h2"), "http": wire.context("http/1.1")}
RATES = "get:40,fresh:10,h2:40,ws:16,upload:2,download:2"
REFUSED_STREAM = 7


class Again(Exception):
    """The server has closed a kept connection, or not looked at the request: it may be asked once more."""


class Failed(Exception):
    pass


class Http1:
    """One kept connection."""

    def __init__(self, tls):
        self.tls, self.rest = tls, b""

    async def ask(self, request, expected):
        begun = False
        try:
            await self.tls.send(request)
            while b"\r\n\r\n" not in self.rest:
                self.rest += await self.tls.receive() or self.ended()
                begun = True
            head, _, self.rest = self.rest.partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise Failed(head[9:12].decode())
            if expected is None:
                return False
            length = int(next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")))
            if length != expected:
                raise Failed(f"{length} B")
            got = len(self.rest)
            while got < length:
                got += len(await self.tls.receive() or self.ended())
            self.rest = b""
            return b"connection: close" not in head.lower()
        except (OSError, EOFError):
            if begun:
                raise Failed("cut") from None
            raise Again from None

    def ended(self):
        raise EOFError


class Http2:
    """One kept connection, whose streams are answered as they come."""

    def __init__(self, tls):
        self.tls, self.waiting, self.stream, self.left = tls, {}, 1, False
        self.reading = None

    async def begin(self):
        await self.tls.send(wire.greeting())
        self.reading = asyncio.create_task(self.read())
        return self

    async def ask(self, path):
        if self.left:
            raise Again
        stream, self.stream = self.stream, self.stream + 2
        answer = self.waiting[stream] = asyncio.get_running_loop().create_future()
        try:
            await self.tls.send(wire.request(stream, path))
            await answer
        except OSError:
            raise Again from None
        finally:
            self.waiting.pop(stream, None)

    def end(self, stream, why):
        answer = self.waiting.get(stream)
        if answer and not answer.done():
            answer.set_exception(why) if why else answer.set_result(None)

    async def read(self):
        rest = b""
        try:
            while data := await self.tls.receive():
                rest += data
                while len(rest) >= 9 and len(rest) >= 9 + (length := int.from_bytes(rest[:3], "big")):
                    kind, flags, stream, payload = rest[3], rest[4], int.from_bytes(rest[5:9], "big") & 0x7FFFFFFF, rest[9:9 + length]
                    rest = rest[9 + length:]
                    await self.frame(kind, flags, stream, payload)
        except (OSError, EOFError):
            pass
        self.left = True
        for stream in list(self.waiting):
            self.end(stream, Failed("cut"))
        self.tls.sock.close()

    async def frame(self, kind, flags, stream, payload):
        if kind == wire.SETTINGS and not flags & wire.ACK:
            await self.tls.send(wire.frame(wire.SETTINGS, wire.ACK, 0))
        elif kind == wire.PING and not flags & wire.ACK:
            await self.tls.send(wire.frame(wire.PING, wire.ACK, 0, payload))
        elif kind == wire.GOAWAY:
            self.left, last = True, struct.unpack(">I", payload[:4])[0]
            for waiting in [one for one in self.waiting if one > last]:
                self.end(waiting, Again())
        elif kind == wire.RST_STREAM:
            code = int.from_bytes(payload, "big")
            self.end(stream, Again() if code == REFUSED_STREAM else Failed(f"reset {code}"))
        elif kind == wire.HEADERS and not wire.is_ok(payload):
            self.end(stream, Failed("not 200"))
        elif kind in (wire.HEADERS, wire.DATA) and flags & wire.END_STREAM:
            self.end(stream, None)


class Honest:
    def __init__(self, a):
        self.a, self.samples, self.again = a, [], 0
        self.idle = {address: [] for address in a.addresses}   # kept HTTPS connections
        self.h2, self.ws, self.locks = {}, {}, {address: asyncio.Lock() for address in a.addresses}

    async def secure(self, address, using):
        sock = await wire.connect(self.a.port, address)
        try:
            tls = wire.Tls(sock, TLS[using])
            await tls.shake_hands()
            return tls
        except BaseException:
            sock.close()
            raise

    async def http1(self, address, request, expected, kept=True):
        idle = self.idle[address]
        reused = kept and bool(idle)
        connection = idle.pop() if reused else Http1(await self.secure(address, "http"))
        goes_on = False
        try:
            goes_on = await connection.ask(request, expected)
        except Again:
            if not reused:
                raise Failed("closed") from None
            self.again += 1
            for other in idle:  # as old as this one
                other.tls.sock.close()
            idle.clear()
            await self.http1(address, request, expected)
        finally:
            if goes_on and kept:
                idle.append(connection)
            else:
                connection.tls.sock.close()

    async def on_get(self, address):
        await self.http1(address, b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n", 200)

    async def on_fresh(self, address):
        await self.http1(address, b"GET /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200, kept=False)

    async def on_download(self, address):
        await self.http1(address, b"GET /download HTTP/1.1\r\nHost: localhost\r\n\r\n", 1_000_000)

    async def on_upload(self, address):
        await self.http1(address, b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" + b"y" * 200_000, 6)

    async def on_shake(self, address):
        (await self.secure(address, "http")).sock.close()

    async def on_h2(self, address, tries=2):
        async with self.locks[address]:
            if address not in self.h2 or self.h2[address].left:
                self.h2[address] = await Http2(await self.secure(address, "h2")).begin()
        try:
            await self.h2[address].ask("/small")
        except Again:
            if tries == 1:
                raise Failed("refused twice") from None
            self.again += 1
            await self.on_h2(address, tries - 1)

    async def on_ws(self, address):
        connection = self.ws.pop(address, None)  # taken while it is used
        if not connection:
            connection = Http1(await self.secure(address, "http"))
            upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            await connection.tls.send(b"GET /ws HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n")
            while b"\r\n\r\n" not in connection.rest:
                connection.rest += await connection.tls.receive() or connection.ended()
            if not connection.rest.startswith(b"HTTP/1.1 101"):
                raise Failed(connection.rest[9:12].decode())
        try:
            await connection.tls.send(b"\x81\x84\0\0\0\0ping")
            got = b""
            while len(got) < 6:
                got += await connection.tls.receive() or connection.ended()
            if got != b"\x81\x04ping":
                raise Failed("not what was sent")
            self.ws[address] = connection
        except (OSError, EOFError):
            raise Failed("cut") from None

    async def sample(self, kind, due, address):
        try:
            failure = await asyncio.wait_for(getattr(self, "on_" + kind)(address), self.a.timeout)
        except (asyncio.TimeoutError, TimeoutError):
            failure = "timeout"
        except Failed as why:
            failure = str(why)
        except (OSError, EOFError, Again) as why:
            failure = type(why).__name__
        self.samples.append((kind, due, (time.monotonic() - due) * 1e3, failure))

    async def steadily(self, kind, rate):
        began, addresses, tasks = time.monotonic(), itertools.cycle(self.a.addresses), set()
        for n in itertools.count():
            due = began + n / rate
            await asyncio.sleep(max(0, due - time.monotonic()))
            task = asyncio.create_task(self.sample(kind, due, next(addresses)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def run(self):
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        steady = [asyncio.create_task(self.steadily(kind, rate)) for kind, rate in self.a.kinds.items()]
        await reader.read()
        for task in steady:
            task.cancel()
        # What is under way has its time.
        rest = asyncio.all_tasks() - {asyncio.current_task(), *steady} - {h2.reading for h2 in self.h2.values()}
        if rest:
            await asyncio.wait(rest, timeout=self.a.timeout)
        print(json.dumps({"samples": self.samples, "again": self.again, "cpu": time.process_time()}), flush=True)
        os._exit(0)  # kept connections end by themselves


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--kinds", default=RATES, type=lambda text: {kind: float(rate) for kind, rate in (pair.split(":") for pair in text.split(","))})
    parser.add_argument("--addresses", type=lambda text: text.split(","), default=[f"127.0.0.{n}" for n in range(2, 10)])
    parser.add_argument("--timeout", type=float, default=10)
    asyncio.run(Honest(parser.parse_args()).run())


main()
