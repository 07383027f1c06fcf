"""A client of tus 1.0.0 (https://tus.io/protocols/resumable-upload) that is cut, asks how far it has come, and goes on.

The content is made as it is sent: no file of its size is needed, and a piece in a wrong place is another content.
"""

import contextlib
import hashlib
import http.client
import os
import socket
import ssl
import struct
import subprocess
import time
import urllib.parse

PIECE = 1 << 20
BLOCK = os.urandom(PIECE - 8)


def content(start, end):
    """The bytes from `start` to `end`, in pieces."""
    while start < end:
        number, offset = divmod(start, PIECE)
        piece = (struct.pack(">Q", number) + BLOCK)[offset:min(PIECE, offset + end - start)]
        yield piece
        start += len(piece)


def digest(size):
    made = hashlib.sha256()
    for piece in content(0, size):
        made.update(piece)
    return made.hexdigest()


class Upload:
    """An upload of `size` bytes."""

    def __init__(self, collection, size, authority):
        self.size, self.authority = size, authority
        self.trust = ssl.create_default_context(cafile=authority)
        self.host = urllib.parse.urlsplit(collection).hostname
        response, _ = self.ask("POST", collection, {"Upload-Length": str(size)})
        if response.status != 201:
            raise AssertionError(f"an upload is not made: {response.status}")
        self.url = response.headers["Location"]
        if not self.url.startswith(collection):
            raise AssertionError(f"the Location {self.url} does not lead to {collection}")

    def ask(self, method, url, fields):
        connection = http.client.HTTPSConnection(self.host, timeout=60, context=self.trust)
        connection.request(method, urllib.parse.urlsplit(url).path, headers={"Tus-Resumable": "1.0.0", **fields})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response, body

    def offset(self):
        """How far it has come. A server that still holds what was cut is asked again (423)."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            response, _ = self.ask("HEAD", self.url, {})
            if response.status == 200:
                return int(response.headers["Upload-Offset"])
            if response.status != 423:
                break
            time.sleep(0.1)
        raise AssertionError(f"no offset: {response.status}")

    def send(self, start, end, events=(), cut=False):
        """Sends the bytes from `start` to `end` by HTTP/1.1. `events` are places and what is done there. With `cut` the upload is said to go on
        to its end, and the connection is broken off by a reset."""
        connection = http.client.HTTPSConnection(self.host, timeout=600, context=self.trust)
        connection.putrequest("PATCH", urllib.parse.urlsplit(self.url).path)
        for name, value in self.fields(start) + [("Content-Length", str((self.size if cut else end) - start))]:
            connection.putheader(name, value)
        connection.endheaders()
        for place, piece in self.places(start, end, events):
            connection.sock.sendall(piece)
        if cut:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sock.close()
            return None
        response = connection.getresponse()
        response.read()
        connection.close()
        if response.status != 204:
            raise AssertionError(f"a PATCH of {start} to {end}: {response.status}")
        return int(response.headers["Upload-Offset"])

    def send_and_die(self, start, end, events=()):
        """Sends the same by HTTP/2, by a curl that is killed once it has got all of it. It has no length there."""
        fields = [word for name, value in self.fields(start) for word in ("-H", f"{name}: {value}")]
        curl = subprocess.Popen(["curl", "-sS", "--http2", "--cacert", self.authority, "-X", "PATCH", *fields, "-T", "-", self.url], stdin=subprocess.PIPE)
        for _, piece in self.places(start, end, events):
            curl.stdin.write(piece)
        if curl.poll() is not None:
            raise AssertionError(f"curl has ended: {curl.returncode}")
        curl.kill()
        curl.wait()
        with contextlib.suppress(BrokenPipeError):
            curl.stdin.close()

    def places(self, start, end, events):
        left, at = sorted(events, key=lambda event: event[0]), start
        for piece in content(start, end):
            while left and left[0][0] <= at:
                left.pop(0)[1]()
            yield at, piece
            at += len(piece)
        for _, event in left:
            event()

    def fields(self, start):
        return [("Tus-Resumable", "1.0.0"), ("Upload-Offset", str(start)), ("Content-Type", "application/offset+octet-stream")]

    def download_digest(self):
        """The SHA-256 of what the server has, as it gives it back by HTTP/2."""
        curl = subprocess.Popen(["curl", "-sS", "--fail", "--http2", "--cacert", self.authority, "-H", "Tus-Resumable: 1.0.0", self.url], stdout=subprocess.PIPE)
        made = hashlib.sha256()
        while piece := curl.stdout.read(PIECE):
            made.update(piece)
        if curl.wait() != 0:
            raise AssertionError(f"the download: curl has ended with {curl.returncode}")
        return made.hexdigest()
