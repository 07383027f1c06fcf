"""How each program is configured to serve a folder of files, bare or with what sites want beside, for the tables of files and pages.

What a program cannot do in stock form is said by `cannot`, and is a dash in a table.
"""
import os
from dataclasses import dataclass, replace

from . import binaries, peers, processes
from .peers import _written as written
from .processes import BEFORE, BUILT, LOCKGATE

NOT_LIMITED = 1_000_000  # requests a second that a limit allows which never refuses
SECURE = {"Strict-Transport-Security": "max-age=31536000", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
          "Referrer-Policy": "strict-origin-when-cross-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()"}


@dataclass(frozen=True)
class Folder:
    """One site that is a folder of files, with at most these features."""
    root: str
    port: int = 0
    key: str | None = None        # "ecdsa", "rsa": TLS with that certificate; None: plain HTTP
    h2: bool = False              # clients may have HTTP/2; without TLS with prior knowledge
    workers: int = 1
    cache: bool = False           # rules for caches, pages revalidated and /assets/ immutable, and five fields of security
    limit: bool = False           # a limit per client that never refuses
    change: str | None = None     # this mark in pages is another value in every answer
    compress: bool = False        # pages are compressed as they are served, for whom accepts that
    rules: str | None = None      # Lockgate's `cache` value instead
    more: tuple = ()              # further lines of Lockgate's site

    few_descriptors = False

    @property
    def h2c(self):
        return self.h2 and not self.key

    @property
    def secure(self):
        """The fields of security; the first one is for answers over TLS only (RFC 6797 §7.2)."""
        return {name: value for name, value in SECURE.items() if self.cache and (self.key or name != "Strict-Transport-Security")}

    @property
    def certificate(self):
        return f"{BUILT}/certs/{self.key}.crt"

    @property
    def private_key(self):
        return f"{BUILT}/certs/{self.key}.key"


# What the mark in a page is, where a program wants it in its own words: Caddy's pages are templates.
MARK = "<!-- request -->"
MARKS = {"caddy": '{{placeholder "http.request.uuid"}}'}

NO_CHANGE, NO_LIMIT = "bodies are not changed", "no rate limit per client"
CANNOT = {
    "caddy": {"limit": "the rate limit is a plug-in"},
    "sws": {"h2c": "HTTP/2 over TLS only", "limit": NO_LIMIT, "change": NO_CHANGE},
    "h2o": {"h2c": "not configured for HTTP/2 without TLS", "cache": "not configured for that", "limit": NO_LIMIT, "change": NO_CHANGE, "compress": "not configured for that"},
    "go": {"limit": f"net/http has {NO_LIMIT}", "compress": "net/http does not compress"},
    "axum": {"limit": f"tower-http has {NO_LIMIT}"},
}


def cannot(name, folder):
    """Why this program does not do all of that; None when it does."""
    return next((why for feature, why in CANNOT.get(name.removesuffix(binaries.SUFFIX), {}).items() if getattr(folder, feature)), None)


def lockgate(folder, directory, binary=LOCKGATE):
    text = [f"workers = {folder.workers}", "access_log = false", f'[site.":{folder.port}"]', 'listen = ["127.0.0.1"]', f'root = "{folder.root}"',
            f"compress = {'true' if folder.compress else 'false'}"]
    if folder.key:
        text.append(f'tls = {{ cert = "{folder.certificate}", key = "{folder.private_key}" }}')
        text.append("" if folder.h2 else 'protocols = ["http1"]')
    elif folder.h2:
        text.append('protocols = ["http1", "h2c"]')
    # Left to itself it has good rules; the bare row is to have none, as the others have none.
    rules = '{ "*" = "no-cache", "/assets/*" = "1y immutable" }' if folder.cache else "false"
    text.append(f"cache = {folder.rules or rules}")
    if folder.cache:
        text.append("headers = { secure = true }")
    if folder.limit:
        text.append(f'limit = "{NOT_LIMITED}/s per client burst {NOT_LIMITED}"')
    if folder.change:
        text.append(f'rewrite_body = [{{ text = "{folder.change}", with = "{{id}}" }}]')
    return written(directory, "lockgate.toml", [*text, *folder.more]), [binary, "run", "-c", f"{directory}/lockgate.toml"]


def lockgate_before(folder, directory):
    return lockgate(folder, directory, BEFORE)


def nginx(folder, directory, script=False, build=None):
    """With sendfile, tcp_nopush and open_file_cache; pages changed by sub_filter, or by a script of njs."""
    build = build or binaries.build("nginx")
    if script and folder.change and "njs" not in build.said and not build.module("http_js"):
        raise peers.DidNotStart("it has no njs")
    tls = peers.nginx_tls(folder, build)
    # Frames of 64 KB in place of 8 KB.
    h2 = "http2_chunk_size 64k;" if folder.h2 else ""
    temporary = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    scripted = bool(script and folder.change)
    # njs sees empty buffers of what sendfile would send, and the body is lost: with it, sendfile must be off.
    features = ["" if not folder.compress else "gzip on; gzip_types text/css application/javascript; gzip_min_length 1000; gzip_vary on;",
                f"limit_req zone=clients burst={NOT_LIMITED} nodelay;" if folder.limit else ""]
    if folder.change and not scripted:
        features.append(f"sub_filter '{folder.change}' $request_id; sub_filter_once off;")
    secure = " ".join(f'add_header {name} "{value}" always;' for name, value in folder.secure.items())
    text = [build.module("http_js") if scripted else "", "daemon off;", "user root;" if os.geteuid() == 0 else "",
            f"worker_processes {folder.workers};", f"pid {directory}/nginx.pid;", f"error_log {directory}/error.log crit;", "worker_rlimit_nofile 20000; events { worker_connections 19000; }",
            f"http {{ include /etc/nginx/mime.types; access_log off; {temporary}",
            f"  sendfile {'off' if scripted else 'on'}; tcp_nopush on; tcp_nodelay on; open_file_cache max=1000 inactive=60s;",
            "  keepalive_requests 1000000000; keepalive_timeout 300s; http2_max_concurrent_streams 256;",
            f"  limit_req_zone $binary_remote_addr zone=clients:1m rate={NOT_LIMITED}r/s;" if folder.limit else "",
            f"  js_path {directory}; js_import page from page.js;" if scripted else "",
            f"  server {{ {peers.nginx_listen(build, folder.port, bool(folder.key), folder.h2)} root {folder.root}; {tls} {h2}",
            f"    {' '.join(features)}",
            f"    location / {{ {'add_header Cache-Control no-cache;' if folder.cache else ''} {secure} {'js_header_filter page.head; js_body_filter page.body;' if scripted else ''} }}",
            f"    location /assets/ {{ add_header Cache-Control \"max-age=31536000, immutable\"; {secure} }}" if folder.cache else "", "} }"]
    if scripted:
        written(directory, "page.js", [
            "function head(r) { delete r.headersOut['Content-Length']; }",
            # A mark may lie across two buffers: what could be the begin of one waits for the next.
            f"const mark = '{folder.change}';",
            "let kept = '';",
            "function body(r, data, flags) {",
            "    let text = kept + data;",
            "    let keep = 0;",
            "    if (!flags.last) {",
            "        for (keep = Math.min(mark.length - 1, text.length); keep > 0 && !mark.startsWith(text.slice(text.length - keep)); keep--) {}",
            "    }",
            "    kept = keep ? text.slice(text.length - keep) : '';",
            "    text = keep ? text.slice(0, text.length - keep) : text;",
            "    r.sendBuffer(text.split(mark).join(r.variables.request_id), flags);",
            "}",
            "export default { head, body };"])
    return written(directory, "nginx.conf", text), [build.path, "-p", directory, "-c", f"{directory}/nginx.conf", "-e", f"{directory}/error.log"]


def nginx_njs(folder, directory, build=None):
    return nginx(folder, directory, script=True, build=build)


def h2o(folder, directory, build=None):
    """Files only; it caches open files by itself."""
    build = build or binaries.build("h2o")
    text = [*peers.h2o_head(build, folder.port, folder, folder.workers), "hosts:", "  default:", "    paths:", "      /:", f"        file.dir: {folder.root}"]
    return written(directory, "h2o.conf", text), [build.path, "-m", "worker", "-c", f"{directory}/h2o.conf"]


def caddy(folder, directory, build=None):
    """Pages are templates of its own, with a placeholder in them."""
    build = build or binaries.build("caddy")
    text = ["{", "  admin off", "  auto_https off", f"  storage file_system {directory}", "  log {", "    output discard", "  }",
            "  servers {", f"    protocols h1{' h2c' if folder.h2c else ' h2' if folder.h2 else ''}", "  }", "}",
            ", ".join(f"{'https' if folder.key else 'http'}://{host}:{folder.port}" for host in ("127.0.0.1", "localhost")) + " {", "  bind 127.0.0.1", f"  tls {folder.certificate} {folder.private_key}" if folder.key else "",
            f"  root * {folder.root}", *(f'  header {name} "{value}"' for name, value in folder.secure.items()),
            # Of two fields that match the later, general one would win.
            '  @pages not path /assets/*\n  header @pages Cache-Control no-cache\n  header /assets/* Cache-Control "max-age=31536000, immutable"' if folder.cache else "",
            "  encode zstd gzip" if folder.compress else "", "  templates" if folder.change else "", "  file_server", "}"]
    return written(directory, "Caddyfile", text), ["env", f"XDG_CONFIG_HOME={directory}", f"XDG_DATA_HOME={directory}", build.path, "run", "--config", f"{directory}/Caddyfile", "--adapter", "caddyfile"]


def sws(folder, directory):
    """Static Web Server, whose rules for caches are its own: a day for pages."""
    text = ["[general]", 'host = "127.0.0.1"', f"port = {folder.port}", f'root = "{folder.root}"', 'log-level = "error"', f"threads-multiplier = {folder.workers}",
            f"cache-control-headers = {'true' if folder.cache else 'false'}", f"security-headers = {'true' if folder.cache else 'false'}",
            f"compression = {'true' if folder.compress else 'false'}"]
    if folder.key:
        text += ["http2 = true", f'http2-tls-cert = "{folder.certificate}"', f'http2-tls-key = "{folder.private_key}"']
    return written(directory, "sws.toml", text), [f"{BUILT}/bin/static-web-server", "--config-file", f"{directory}/sws.toml"]


def by_words(program):
    """One of ours that takes its features as words: bench/src/files.go, bench/src/axum-files."""
    def of(folder, _):
        words = (["cache"] if folder.cache else []) + ([f"change={folder.change}"] if folder.change else []) + (["compress"] if folder.compress else [])
        tls = [folder.certificate, folder.private_key] if folder.key else []
        return None, [f"{BUILT}/bin/{program}", f"127.0.0.1:{folder.port}", folder.root, *words, *tls]
    return of


KINDS = {"lockgate": lockgate, "lockgate-before": lockgate_before, "nginx": nginx, "nginx-njs": nginx_njs, "caddy": caddy, "sws": sws,
         "go": by_words("gofile"), "axum": by_words("axum-files"), "h2o": h2o}
KINDS = peers.newer(KINDS)
PEERS = binaries.with_newer([*peers.OURS, "nginx", *binaries.present("h2o"), "caddy"])
PEERS += ["h2o-new"] * bool(binaries.NEW and "h2o-new" not in PEERS) + ["sws", "go", "axum"]
PAGE_PEERS = [*peers.OURS, "nginx", "nginx-njs", "caddy", "sws", "go", "axum"]


def start(name, folder, cores=processes.TESTED):
    """Starts the program with this folder and waits until it listens."""
    return peers.start(name, replace(folder, port=folder.port or processes.free_port()), cores, KINDS)
