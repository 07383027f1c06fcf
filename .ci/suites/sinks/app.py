"""The application behind the tried sinks: answers every request with "ok", on a Unix socket.

    python3 app.py PATH
"""
import http.server
import os
import socketserver
import sys


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_POST = do_GET

    def address_string(self):
        return "a Unix socket"

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


with Server(sys.argv[1], Answer) as server:
    os.chmod(sys.argv[1], 0o666)
    server.serve_forever()
