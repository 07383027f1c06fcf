"""Clients that hold what they have across reloads and upgrades: WebSockets, one more every so often, an upload and a download that are slow, a relayed connection and a tunnel.

held.py PORT [--relay PORT] [--tunnel PORT --origin HOST:PORT] [--at-once N] [--every S] [--bytes N] [--prefix /mixed]

Every WebSocket, and the relayed connection and the tunnel, asks once a second. When standard input ends, all ask once more, the
upload is ended and the rest of the download is read; prints one JSON object: how many of each were opened, and how many were cut and why.
"""
import argparse
import asyncio
import json
import ssl
import sys

UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


class Wrong(Exception):
    pass


def tls():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Held:
    def __init__(self, a):
        self.a, self.over, self.tls = a, asyncio.Event(), tls()
        self.opened, self.cut = {}, {}

    async def pause(self, seconds):
        """Waits; whether it goes on afterwards."""
        try:
            await asyncio.wait_for(self.over.wait(), seconds)
            return False
        except asyncio.TimeoutError:
            return True

    async def hold(self, kind, what):
        self.opened[kind] = self.opened.get(kind, 0) + 1
        writer = None
        try:
            reader, writer = await self.connect(kind)
            await what(reader, writer)
        except (OSError, EOFError, ValueError, StopIteration, asyncio.TimeoutError, Wrong) as why:
            self.cut.setdefault(kind, []).append(f"{type(why).__name__} {why}".strip()[:80])
        finally:
            if writer:
                writer.close()

    async def connect(self, kind):
        port = {"relayed": self.a.relay, "tunnel": self.a.tunnel}.get(kind)
        return await asyncio.open_connection("127.0.0.1", port or self.a.port, ssl=None if port else self.tls)

    async def head(self, reader, status):
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode("latin-1")
        if head.split(" ", 2)[1] != str(status):
            raise Wrong(head.splitlines()[0])
        return head

    def request(self, writer, method, path, more=""):
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())

    async def websocket(self, reader, writer):
        self.request(writer, "GET", self.a.prefix + "/ws", UPGRADE)
        await self.head(reader, 101)
        goes_on = True
        while goes_on:
            goes_on = await self.pause(1)
            writer.write(b"\x81\x84\0\0\0\0ping")
            if await asyncio.wait_for(reader.readexactly(6), 10) != b"\x81\x04ping":
                raise Wrong("not what was sent")

    async def asking(self, reader, writer):
        goes_on = True
        while goes_on:
            goes_on = await self.pause(1)
            self.request(writer, "GET", "/100")
            head = await self.head(reader, 200)
            await reader.readexactly(int(next(line for line in head.lower().splitlines() if line.startswith("content-length:")).split(":")[1]))

    async def tunnel(self, reader, writer):
        self.request(writer, "CONNECT", self.a.origin)
        await self.head(reader, 200)
        await self.asking(reader, writer)

    async def download(self, reader, writer):
        """200 KB a second: asyncio reads ahead by half a megabyte, and would otherwise leave the socket alone for longer than servers wait."""
        goes_on = True
        while goes_on:
            self.request(writer, "GET", f"{self.a.prefix}/bytes/{self.a.bytes}")
            await self.head(reader, 200)
            left = self.a.bytes
            while left:
                goes_on = await self.pause(0.02)
                got = await asyncio.wait_for(reader.read(4096 if goes_on else 65536), 10)
                if not got:
                    raise Wrong(f"{left} bytes are missing")
                left -= len(got)

    async def upload(self, reader, writer):
        self.request(writer, "POST", self.a.prefix + "/upload", "Transfer-Encoding: chunked\r\n")
        sent = 0
        while await self.pause(0.1):
            writer.write(b"1000\r\n" + b"y" * 4096 + b"\r\n")
            await writer.drain()
            sent += 4096
        writer.write(b"0\r\n\r\n")
        await self.head(reader, 200)
        if (await asyncio.wait_for(reader.readexactly(len(str(sent))), 10)) != str(sent).encode():
            raise Wrong("not all of it came")

    async def run(self):
        end = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(end), sys.stdin)
        wanted = [("upload", self.upload), ("download", self.download)]
        wanted += [("relayed", self.asking)] if self.a.relay else []
        wanted += [("tunnel", self.tunnel)] if self.a.tunnel else []
        wanted += [("WebSocket", self.websocket)] * self.a.at_once
        tasks = [asyncio.create_task(self.hold(*one)) for one in wanted]
        ended = asyncio.create_task(end.read())
        while not ended.done():
            tasks.append(asyncio.create_task(self.hold("WebSocket", self.websocket)))
            await asyncio.wait([ended], timeout=self.a.every)
        self.over.set()
        await asyncio.gather(*tasks)
        print(json.dumps({"opened": self.opened, "cut": self.cut}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--relay", type=int)
    parser.add_argument("--tunnel", type=int)
    parser.add_argument("--origin")
    parser.add_argument("--at-once", type=int, default=0)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--bytes", type=int, default=10_000_000)
    parser.add_argument("--prefix", default="")
    asyncio.run(Held(parser.parse_args()).run())


main()
