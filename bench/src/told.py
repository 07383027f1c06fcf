"""An application that answers with the address that it was told its client has, by HTTP and over WebSockets.

    python3 told.py PORT

It is told by a PROXY header (version 2), then it says address and port, or else by X-Forwarded-For. GET /health says ok.
"""
import asyncio
import base64
import hashlib
import socket
import struct
import sys

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def proxied(reader):
    """The address in the PROXY header that has begun, or None where it names none."""
    _, command, family, size = struct.unpack("!11sBBH", await reader.readexactly(15))
    said = await reader.readexactly(size)
    if command != 0x21 or family != 0x11:
        return None
    return f"{socket.inet_ntoa(said[:4])}:{struct.unpack('!H', said[8:10])[0]}"


async def serve(reader, writer):
    try:
        told, begun = None, await reader.readexactly(1)
        if begun == SIGNATURE[:1]:
            told, begun = await proxied(reader), b""
        while head := begun + await reader.readuntil(b"\r\n\r\n"):
            begun = b""
            first, *lines = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            address = told or fields.get("x-forwarded-for", "nobody")
            if fields.get("upgrade", "").lower() == "websocket":
                accept = base64.b64encode(hashlib.sha1(fields["sec-websocket-key"].encode() + GUID).digest()).decode()
                writer.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
                await echo(reader, writer, address.encode())
                return
            body = b"ok" if first.split()[1] == "/health" else address.encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        writer.close()


async def echo(reader, writer, address):
    """The address for every message, and a close for a close; messages are one masked frame of less than 126 bytes."""
    while True:
        kind, size = await reader.readexactly(2)
        await reader.readexactly(4 + (size & 127))
        if kind & 15 == 8:
            writer.write(b"\x88\0")
            return
        writer.write(bytes((0x81, len(address))) + address)


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await server.serve_forever()

asyncio.run(main())
