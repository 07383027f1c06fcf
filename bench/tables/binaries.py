"""Which program a peer is, and what it says of itself: version, TLS library, how it was built. Configures nothing.

`PEERS_BIN=DIR` adds newer builds as peers of their own: `nginx-new` is DIR/nginx, `haproxy-splice-new` is DIR/haproxy. What DIR does
not have is a row that says so.
"""
import functools
import os
import re
import shutil
import subprocess

from .processes import BEFORE, LOCKGATE

NEW = os.environ.get("PEERS_BIN") and os.path.abspath(os.environ["PEERS_BIN"])
BUILDS = ("nginx", "haproxy", "hitch", "h2o", "caddy")  # that PEERS_BIN may have
SUFFIX = "-new"
# In this order: AWS-LC and BoringSSL name an OpenSSL, too, that they are compatible with.
LIBRARIES = (rb"AWS-LC(?: FIPS)? \d+\.\d+\.\d+", rb"BoringSSL", rb"LibreSSL \d+\.\d+\.\d+", rb"OpenSSL [13]\.\d+\.\d+[a-z]?(?=[ \0])")


class Build:
    """One program of one kind: `path` to run, and what it says of itself."""

    def __init__(self, kind, path):
        self.kind, self.path = kind, path

    @functools.cached_property
    def said(self):
        ask = {"nginx": ["-V"], "haproxy": ["-vv"], "hitch": ["--version"], "h2o": ["-v"], "caddy": ["version"], "lockgate": ["version"]}[self.kind]
        try:
            r = subprocess.run([self.path, *ask], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        # A Caddy that `go install` has made knows its version as a module's only.
        return r.stdout + r.stderr + (self._run("build-info").partition("\ndep\t")[0] if self.kind == "caddy" else "")

    @property
    def version(self):
        """As it names itself: 1.22.1, 3.5-dev5-a1b2c3."""
        found = re.search(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)?(?:-[\w.+~-]+)?)", self.said)
        return found.group(1) if found else "unknown"

    @property
    def numbers(self):
        """The version to compare with: (1, 22, 1). A program that says none passes for an old one."""
        return tuple(int(n) for n in re.findall(r"\d+", self.version.partition("-")[0])) or (0,)

    @functools.cached_property
    def tls(self):
        """The TLS library that it runs with."""
        if self.kind == "caddy":
            go = re.search(r"^go\s+go(\S+)", self.said, re.M)
            return f"Go {go.group(1)}" if go else "Go's own"
        # What it runs with, which need not be what it was built with.
        named = {"nginx": [r"running with ([^)]+)", r"built with ([^\n]*)"], "haproxy": [r"Running on (?:OpenSSL|SSL library) version : (.*)"], "h2o": [r"OpenSSL: (.*)"]}
        found = next(filter(None, (re.search(pattern, self.said) for pattern in named.get(self.kind, ()))), None)
        text = found.group(1).encode() if found else b""
        library = _library(text) or next(filter(None, map(_library_in, [self.path, *self._libraries()])), None)
        if self.kind == "lockgate":
            return "rustls, AWS-LC"
        if self.kind == "h2o" and b"picotls" in _bytes(self.path):
            return f"picotls, {library or 'unknown'}"
        return library or "unknown"

    @property
    def flags(self):
        """How it was built, as far as it says: the compiler's options, and what of them is switched on."""
        if self.kind == "nginx":
            options = re.search(r"--with-cc-opt='([^']*)'", self.said)
            return " ".join(word for word in options.group(1).split() if word.startswith(("-O", "-march", "-flto"))) if options else ""
        if self.kind == "haproxy":
            options = re.search(r"CFLAGS\s*=(.*)", self.said)
            return " ".join(dict.fromkeys(word for word in options.group(1).split() if word.startswith(("-O", "-march", "-flto")))) if options else ""
        return ""

    def module(self, name):
        """The line that loads a module of nginx where it is one that is loaded; nothing where it is built in."""
        if f"--with-{name}=dynamic" not in self.said and f"--with-{name}" in self.said:
            return ""
        folder = re.search(r"--modules-path=(\S+)", self.said)
        folder = folder.group(1) if folder else "/usr/lib/nginx/modules"
        for path in (f"{folder}/ngx_{name}_module.so", f"{os.path.dirname(self.path)}/ngx_{name}_module.so"):
            if os.path.exists(path):
                return f"load_module {path};"
        return ""

    def __str__(self):
        return f"{self.kind} {self.version} ({self.tls}{', ' + self.flags if self.flags else ''})"

    def _run(self, *words):
        try:
            return subprocess.run([self.path, *words], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL).stdout
        except (OSError, subprocess.TimeoutExpired):
            return ""

    def _libraries(self):
        """The libraries of TLS that the loader finds for it."""
        try:
            found = subprocess.run(["ldd", shutil.which(self.path) or self.path], capture_output=True, text=True, timeout=10).stdout
        except (OSError, subprocess.TimeoutExpired):
            return []
        return re.findall(r"lib(?:crypto|ssl)\S* => (\S+)", found)


@functools.cache
def build(name):
    """The build that a peer runs: `nginx`, `haproxy-splice-new`, `lockgate-before`."""
    kind = kind_of(name)
    if kind == "lockgate":
        return Build(kind, BEFORE if name.endswith("-before") else LOCKGATE)
    if name.endswith(SUFFIX):
        return Build(kind, os.path.join(NEW or "PEERS_BIN", kind))
    return Build(kind, kind)


def kind_of(name):
    """Whose program it is; None for peers of which there is one build only."""
    return next((kind for kind in ("lockgate", *BUILDS) if name == kind or name.startswith(kind + "-")), None)


def with_newer(names):
    """These peers, and behind them the builds of PEERS_BIN."""
    newer = [name + SUFFIX for name in names if kind_of(name) in BUILDS and not name.endswith(SUFFIX)] if NEW else []
    return [*names, *newer]


def present(*names):
    """Those of these peers that are installed: h2o is a row only where it is installed."""
    return [name for name in names if shutil.which(kind_of(name))]


def named(name):
    """A peer with its version and TLS library, for the head of a column: `haproxy-splice 2.6.12, OpenSSL 3.0.19`."""
    if not kind_of(name) or not shutil.which(build(name).path):
        return name
    one = build(name)
    return f"{name} {short(one.version)}, {one.tls}"


def short_name(name, builds):
    """For the head of a column: the peer, its version and TLS library, out of what each build said when it was measured."""
    said = builds.get(name, "")
    return f"{name} {short(said.split()[1])} ({said.partition('(')[2].rstrip(')')})" if said.count(" ") else name


def short(version):
    """Without what a distribution adds: 2.6.12-1+deb12u4 is 2.6.12, but 3.5-dev5 stays."""
    return re.sub(r"-\d+\S*$", "", version)


def _library(text):
    for pattern in LIBRARIES:
        found = re.search(pattern, text + b" ")
        if found:
            return found.group(0).decode()
    return None


def _library_in(path):
    return _library(_bytes(path))


@functools.lru_cache(maxsize=4)
def _bytes(path):
    try:
        with open(shutil.which(path) or path, "rb") as f:
            return f.read()
    except OSError:
        return b""
