"""The origin of every upstream that a configuration names: it answers with what it got.

  origin.py SPEC     SPEC is JSON: {"tcp": [[host, port]…], "unix": [path…], "dns": [[host, port]…], "names": {name: address}, "pem": path}

A listener has a thread, and so has a connection. TLS and PROXY headers are recognised by their first bytes. The answer is JSON: the
address that was reached, the method, the target and the fields in their order. Words in the path choose another answer (`special`).
"""

import json
import os
import socket
import ssl
import struct
import sys
import threading

SPEC = json.loads(sys.argv[1])


def take(stream, size):
    got = stream.read(size)
    if len(got) != size:
        raise ConnectionError("ends early")
    return got


def body_of(stream, fields):
    named = {name.lower(): value for name, value in fields}
    if named.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := int(stream.readline().split(b";")[0], 16):
            body += take(stream, size)
            stream.readline()
        while stream.readline().strip():
            pass
        return body
    return take(stream, int(named.get("content-length") or 0))


def special(target):
    """Another status and other fields, by a word in the path."""
    path = target.split("?")[0]
    if "origin-404" in path:
        return "404 Not Found", []
    if "origin-500" in path:
        return "500 Internal Server Error", []
    if "origin-moved" in path:
        return "302 Found", [("Location", "/elsewhere?x=1")]
    return "200 OK", []


def proxy_header(sock):
    """Takes a PROXY header, if there is one; its text, else None."""
    first = sock.recv(12, socket.MSG_PEEK)
    if first.startswith(b"PROXY "):
        line = b""
        while not line.endswith(b"\r\n"):
            line += sock.recv(1)
        return "v1 " + line.decode().split()[2]
    if first == b"\r\n\r\n\0\r\nQUIT\n":
        head = sock.recv(16, socket.MSG_WAITALL)
        rest = sock.recv(struct.unpack("!H", head[14:16])[0], socket.MSG_WAITALL)
        return "v2 " + (socket.inet_ntoa(rest[:4]) if head[13] >> 4 == 1 else "other")
    return None


def answer(sock, label):
    header = proxy_header(sock)
    secure = sock.recv(1, socket.MSG_PEEK) == b"\x16"
    if secure:
        sock = CONTEXT.wrap_socket(sock, server_side=True)
    stream = sock.makefile("rb")
    while line := stream.readline():
        method, target, version = line.decode("latin-1").split()
        fields = []
        while (line := stream.readline().strip()):
            name, _, value = line.decode("latin-1").partition(":")
            fields.append((name, value.strip()))
        if dict((name.lower(), value) for name, value in fields).get("expect"):
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        took = body_of(stream, fields)
        status, more = special(target)
        told = {"at": label, "tls": secure, "proxy": header, "method": method, "target": target, "fields": fields, "took": took.decode("latin-1")}
        body = json.dumps({**told, "more": "x" * 2000}).encode()
        head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", "X-Powered-By: origin", "X-Origin: yes",
                "Server: origin", "Set-Cookie: origin=1; Path=/"]
        head += [f"{name}: {value}" for name, value in more]
        close = version == "HTTP/1.0" or any(name.lower() == "connection" and "close" in value.lower() for name, value in fields)
        head.append("Connection: close" if close else "Connection: keep-alive")
        sock.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else body))
        if close:
            break
    sock.close()


def attend(sock, label):
    try:
        answer(sock, label)
    except (OSError, ValueError, ssl.SSLError):
        sock.close()


def listen(listener, label_of):
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=attend, args=(sock, label_of(sock)), daemon=True).start()


def resolve(listener):
    """Answers questions for A records from the names that are known; for all others there is no such name."""
    while True:
        query, peer = listener.recvfrom(2048)
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1:at + 1 + size].decode("latin-1"))
            at += 1 + size
        kind = struct.unpack("!H", query[at + 1:at + 3])[0]
        address = SPEC["names"].get(".".join(labels).lower())
        found = address is not None and kind == 1
        head = query[:2] + struct.pack("!HHHHH", 0x8180 if address else 0x8183, 1, int(found), 0, 0)
        record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(address) if found else b""
        listener.sendto(head + query[12:at + 5] + record, peer)


CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CONTEXT.load_cert_chain(SPEC["pem"])

for host, port in SPEC["tcp"]:
    made = socket.create_server((host, port), backlog=128)
    threading.Thread(target=listen, args=(made, lambda sock: "%s:%d" % sock.getsockname()[:2])).start()
for path in SPEC["unix"]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    os.chmod(path, 0o777)
    made.listen(128)
    threading.Thread(target=listen, args=(made, lambda sock: "unix:" + sock.getsockname())).start()
for host, port in SPEC["dns"]:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((host, port))
    threading.Thread(target=resolve, args=(made,)).start()
print("ready", flush=True)
