"""The requests that a configuration is asked, and their answers.

They are made of the configuration's own words: each name with each path, then variations of paths, hosts, methods, fields, clients and
credentials in turn. The same configuration gives the same requests.
"""

import base64
import gzip
import http.client
import itertools
import json
import random
import socket
import ssl
import time
import zlib
from dataclasses import asdict, dataclass, field

from machine import SECRET, STRANGER, US
from words import client_of, unique

UNKNOWN = "unknown.example"


@dataclass
class Request:
    port: int
    tls: bool
    proxy: bool
    host: str
    target: str
    method: str = "GET"
    fields: list = field(default_factory=list)
    client: str = "127.0.0.1"
    body: str = ""

    def __str__(self):
        more = "".join(f" -H '{name}: {value}'" for name, value in self.fields)
        return f"{self.method} {'https' if self.tls else 'http'}://{self.host}:{self.port}{self.target} from {self.client}{more}"

    def key(self):
        return json.dumps(asdict(self))


@dataclass
class Answer:
    """What came back; a status 0 is no answer."""
    status: int
    fields: dict = field(default_factory=dict)
    body: bytes = b""
    said: str = ""

    def origin(self):
        """What an origin says that it got; None where the server itself answers."""
        if not self.body.startswith(b'{"at": '):
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def __str__(self):
        if not self.status:
            return f"no answer ({self.said})"
        shown = {name: value for name, value in self.fields.items() if name not in ("date", "connection", "content-length", "server", "set-cookie", "x-powered-by", "x-origin")}
        told = self.origin()
        if told:
            told.pop("more", None)
            body = "origin " + json.dumps(told)
        else:
            body = repr(self.body[:60])
        return f"{self.status} {json.dumps(shown)} {body}"


def paths_around(path):
    """The path, and those that servers often take differently."""
    base, _, query = path.partition("?")
    tail = "?" + query if query else ""
    plain = base.rstrip("/")
    return [path, plain + "/" + tail, plain + "/child", (plain or "/") + "x", base + "?q=1&r=%20", base.upper() if base.upper() != base else base.lower(),
            "/" + base, plain + "/../other", "/x/.." + base, "/." + base, plain + "/%63hild", plain + "/a%2Fb", "/%" + f"{ord(base[1]):02x}" + base[2:] if len(base) > 1 else "/%2e",
            plain + "//child", plain + "/sub/deep.txt", plain + "/index.html", plain + "/origin-404", plain + "/origin-moved", plain + "/origin-500"]


GENERAL_PATHS = ["/", "/no-such", "/index.html", "/page", "/sub/", "/sub", "/app.js", "/.hidden", "/?a=b", "/style.css", "/image.svg"]
METHODS = ["GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE"]


def variations(named):
    """Fields, clients and credentials that a request may have, in turn."""
    credentials = "Basic " + base64.b64encode(f"alice:{SECRET}".encode()).decode()
    wrong = "Basic " + base64.b64encode(b"alice:wrong").decode()
    fields = [[], [("Authorization", credentials)], [("Accept-Encoding", "gzip")], [("X-Forwarded-For", "198.51.100.7"), ("X-Forwarded-Proto", "https")],
              [("Authorization", wrong)], [("Origin", "https://other.example")]]
    fields += [[(name, value)] for name, value in unique(named.asked)[:12] if "\n" not in value and value.isascii()]
    clients = ["127.0.0.1", STRANGER] + unique(address for address in map(client_of, named.networks) if address and not address.startswith("127."))[:4]
    return fields, clients


def requests_of(named, count):
    """Requests of a configuration, at most `count`."""
    found, seen = [], set()

    def add(request):
        if request.key() not in seen and len(found) < count:
            seen.add(request.key())
            found.append(request)

    fields, clients = variations(named)
    places = [(site, port, name) for site in named.sites for port in site.ports for name in (site.names[:6] or [UNKNOWN])]
    if not places:
        return []
    share = max(1, count // 2 // len(places))
    for site, (port, tls, proxy), name in places:
        for path in (unique(["/"] + site.paths + GENERAL_PATHS[1:4]))[:share]:
            add(Request(port, tls, proxy, name, path))
    for port, tls, proxy in unique(port for site in named.sites for port in site.ports)[:6]:
        add(Request(port, tls, proxy, UNKNOWN, "/"))
        add(Request(port, tls, proxy, UNKNOWN, "/x?y=1"))
    # The rest: all that can vary, in an order that is shuffled once.
    chance = random.Random(2026)
    cycle = {"fields": itertools.cycle(fields), "client": itertools.cycle(clients), "method": itertools.cycle(METHODS)}
    pools = []
    for site, port, name in places:
        paths = unique(around for path in ["/"] + site.paths for around in paths_around(path)) + GENERAL_PATHS
        chance.shuffle(paths)
        pools.append((site, port, name, itertools.cycle(paths)))
    for turn in range(count * 6):
        if len(found) >= count:
            break
        site, (port, tls, proxy), name, paths = pools[turn % len(pools)]
        target = next(paths)
        kind = (turn // len(pools)) % 5
        request = Request(port, tls, proxy, name, target)
        if kind == 1:
            request.fields = next(cycle["fields"])
        elif kind == 2:
            request.client = next(cycle["client"])
        elif kind == 3:
            request.method = next(cycle["method"])
            request.body = "body!" if request.method in ("POST", "PUT") else ""
        elif kind == 4:
            request.host = name.upper() if turn % 2 else name
            request.fields = next(cycle["fields"])
            request.client = next(cycle["client"])
        add(request)
    return found


def send(request):
    """The answer of whatever listens on the port."""
    try:
        to = "127.0.0.1" if request.client.startswith("127.") else US
        try:
            sock = socket.create_connection((to, request.port), timeout=8, source_address=(request.client, 0))
        except ConnectionRefusedError:
            sock = socket.create_connection((US, request.port), timeout=8, source_address=(request.client if to == US else US, 0))
        with sock:
            if request.proxy:
                sock.sendall(f"PROXY TCP4 {request.client} {US} 4711 {request.port}\r\n".encode())
            if request.tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                sock = context.wrap_socket(sock, server_hostname=request.host)
            usual = request.port == (443 if request.tls else 80)
            head = [f"{request.method} {request.target} HTTP/1.1", f"Host: {request.host}" + ("" if usual else f":{request.port}")]
            head += [f"{name}: {value}" for name, value in request.fields]
            if request.body:
                head.append(f"Content-Length: {len(request.body)}")
            head.append("Connection: close")
            sock.sendall("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + request.body.encode())
            response = http.client.HTTPResponse(sock, method=request.method)
            response.begin()
            body = response.read()
            fields = {}
            for name, value in response.getheaders():
                fields[name.lower()] = fields[name.lower()] + ", " + value if name.lower() in fields else value
            coding = fields.get("content-encoding")
            if coding == "gzip" and body:
                body = gzip.decompress(body)
            elif coding == "deflate" and body:
                body = zlib.decompress(body)
            return Answer(response.status, fields, body)
    except (OSError, http.client.HTTPException, EOFError, zlib.error) as error:
        return Answer(0, said=type(error).__name__)


def answer_of(request):
    """The answer; asked for again where a server says that no endpoint could be reached, as one may say that is busy."""
    answer = send(request)
    return send(request) if answer.status in (502, 504) else answer


def wait_for_certificates(requests):
    """Waits until each name has a certificate, as far as it will: Caddy makes them after its start."""
    end = time.monotonic() + 10
    for port, host in unique((request.port, request.host) for request in requests if request.tls and request.host.lower() != UNKNOWN):
        while time.monotonic() < end and send(Request(port, True, False, host, "/")).said == "SSLError":
            time.sleep(0.1)
