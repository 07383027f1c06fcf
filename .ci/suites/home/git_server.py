"""A git server over HTTP: `git http-backend`, which git itself has, behind a server that calls it by CGI (RFC 3875).

Bodies go on to it as they come, also those without a length. Requests without the password of alice get 401.
"""

import base64
import http.server
import os
import shutil
import subprocess
import threading

ALICE = "alice:secret"
ALLOWED = "Basic " + base64.b64encode(ALICE.encode()).decode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pieces(self):
        """The body, as it comes."""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            piece = self.rfile.read(min(left, 1 << 20))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def feed(self, backend):
        """Gives the body to the backend."""
        try:
            for piece in self.pieces():
                self.took += len(piece)
                backend.stdin.write(piece)
            backend.stdin.close()
        except (OSError, ValueError):
            backend.kill()

    def answer(self):
        self.took = 0
        if self.headers.get("Authorization") != ALLOWED:
            for _ in self.pieces():
                pass
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        fields = {"CONTENT_TYPE": "Content-Type", "CONTENT_LENGTH": "Content-Length", "HTTP_CONTENT_ENCODING": "Content-Encoding", "GIT_PROTOCOL": "Git-Protocol"}
        given = {name: self.headers[field] for name, field in fields.items() if self.headers[field]}
        backend = subprocess.Popen(["git", "http-backend"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.server.folder, "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command, "PATH_INFO": path,
            "QUERY_STRING": query, "REMOTE_USER": "alice", "REMOTE_ADDR": self.headers.get("X-Forwarded-For", ""), **given})
        feeding = threading.Thread(target=self.feed, args=[backend])
        feeding.start()
        status, out = 200, []
        while line := backend.stdout.readline().decode().strip():
            name, _, value = line.partition(": ")
            if name.lower() == "status":
                status = int(value.split()[0])
            else:
                out.append((name, value))
        self.send_response(status)
        for name, value in [*out, ("Transfer-Encoding", "chunked")]:
            self.send_header(name, value)
        self.end_headers()
        while piece := backend.stdout.read1(1 << 18):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
        feeding.join()
        backend.stdout.close()
        backend.wait()
        self.server.seen.append({"path": path, "took": self.took, "length": self.headers.get("Content-Length"), "proto": self.headers.get("X-Forwarded-Proto")})

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


def start(port, folder):
    """A server of the bare repositories in a folder; `seen` has what was asked of it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.folder, server.seen = folder, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def bare_repository(folder, name):
    path = os.path.join(folder, name)
    shutil.rmtree(path, ignore_errors=True)
    subprocess.run(["git", "init", "--quiet", "--bare", path], check=True)
    # No search for what random files have in common.
    for key, value in (("http.receivepack", "true"), ("core.compression", "0"), ("pack.window", "0")):
        subprocess.run(["git", "-C", path, "config", key, value], check=True)
    return path
