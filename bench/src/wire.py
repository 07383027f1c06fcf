"""HTTP/2 frames, a ClientHello and TLS by hand, for clients that do what no library lets them do."""
import asyncio
import socket
import ssl

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
WIDE = (1 << 31) - 1


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def greeting():
    """Preface and SETTINGS of a client whose windows are as wide as can be."""
    settings = (4).to_bytes(2, "big") + WIDE.to_bytes(4, "big") + (2).to_bytes(2, "big") + (0).to_bytes(4, "big")
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, (WIDE - 65535).to_bytes(4, "big"))


def request(stream, path, flags=END_STREAM):
    """A GET of HPACK's static table and literals."""
    block = b"\x82\x87\x04" + bytes((len(path),)) + path.encode() + b"\x01\x09localhost"
    return frame(HEADERS, flags | END_HEADERS, stream, block)


def is_ok(block):
    """Whether a field section begins with `:status: 200`; a change of the table's size may come before."""
    at = 0
    while at < len(block) and block[at] & 0xE0 == 0x20:
        long = block[at] & 0x1F == 0x1F
        at += 1
        while long and at < len(block) and block[at] & 0x80:
            at += 1
        at += long
    return block[at:at + 1] == b"\x88"


def context(*protocols):
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    found.set_alpn_protocols(list(protocols))
    return found


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context("h2", "http/1.1").wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


async def connect(port, address, room=None):
    """A socket from that address; `room`: what its kernel takes unread."""
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if room:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    try:
        sock.bind((address, 0))
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port)), 10)
    except BaseException:
        sock.close()
        raise
    return sock


class Tls:
    """TLS over a socket that is read only when somebody says so: what is not asked for stays in the kernel."""

    def __init__(self, sock, using):
        self.sock, self.loop = sock, asyncio.get_running_loop()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = using.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    async def shake_hands(self):
        while True:
            try:
                self.tls.do_handshake()
                return await self.flush()
            except ssl.SSLWantReadError:
                await self.flush()
                await self.fill()

    async def flush(self):
        if self.outgoing.pending:
            await self.loop.sock_sendall(self.sock, self.outgoing.read())

    async def fill(self):
        data = await self.loop.sock_recv(self.sock, 65536)
        if not data:
            raise EOFError
        self.incoming.write(data)

    async def send(self, data):
        self.tls.write(data)
        await self.flush()

    async def receive(self):
        while True:
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                await self.fill()
