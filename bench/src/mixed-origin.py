"""The application behind the tables of hostile clients: asyncio, HTTP/1.1, one port.

mixed-origin.py PORT
  /small        200 bytes          /large       10 MB
  /download     1 MB               /bytes/N     N bytes
  POST          the length of what came
  /hang         no answer          a WebSocket  echoes text
"""
import asyncio
import base64
import hashlib
import sys

SIZES = {"/small": 200, "/download": 1_000_000, "/large": 10_000_000}
PIECE = b"x" * 65536


async def answer(writer, size):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % size + PIECE[:min(size, 1000)])
    for at in range(min(size, 1000), size, len(PIECE)):
        writer.write(PIECE[:size - at])
        await writer.drain()


async def echo(reader, writer, key):
    accept = base64.b64encode(hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    while True:
        first, second = await reader.readexactly(2)
        mask, data = await reader.readexactly(4), await reader.readexactly(second & 127)  # messages are short
        data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
        writer.write(bytes((first, len(data))) + data)
        if first & 15 == 8:
            return


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ", 2)[1]
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:] if line)}
            if "sec-websocket-key" in fields:
                return await echo(reader, writer, fields["sec-websocket-key"])
            if path == "/hang":
                await asyncio.sleep(3600)
            if head.startswith("POST"):
                length = await drained(reader, fields)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%d" % (len(str(length)), length))
            else:
                await answer(writer, int(path[7:]) if path.startswith("/bytes/") else SIZES.get(path, 200))
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        pass
    finally:
        writer.close()


async def drained(reader, fields):
    """Reads a body; how long it was."""
    if "content-length" in fields:
        left = length = int(fields["content-length"])
        while left:
            left -= len(await reader.readexactly(min(left, 65536)))
        return length
    length = 0
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
        length += size
    await reader.readline()
    return length


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await server.serve_forever()

asyncio.run(main())
