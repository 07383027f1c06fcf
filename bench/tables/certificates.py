"""Certificates by ACME: the time from nothing to the first good handshake, beside Caddy, and a thousand names obtained and renewed under load.

The authority is Pebble, which validates without its usual pauses; names resolve to this machine. Both
are built by bench/setup.
"""
import base64
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

from . import load, peers, processes, reload
from .processes import BOTH, LOAD, LOCKGATE, OTHERS, Process
from .report import figure, progress

PEERS = ["lockgate", "caddy"]
BIN = os.path.join(os.environ.get("BENCH_DIR") or os.path.join(os.path.dirname(__file__), "../../target/bench"), "bin")
FOUR = ["app.example.com", "www.example.com", "api.example.com", "shop.example.com"]
PATIENCE = 30  # seconds until something that must come counts as missing


class Authority:
    """Pebble with its name server; it validates on the ports that it is given."""

    def __init__(self, http, https, refused=50):
        missing = [name for name in ("pebble", "pebble-challtestsrv") if not os.path.exists(os.path.join(BIN, name))]
        if missing:
            raise peers.DidNotStart(f"no {' and '.join(missing)}: bench/setup builds them with Go")
        self.port, self.management, names = (processes.free_port() for _ in range(3))
        self.directory = processes.fresh_directory(f"authority-{self.port}")
        certificate, key = os.path.join(self.directory, "cert.pem"), os.path.join(self.directory, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-nodes", "-days", "9", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE",
                        "-keyout", key, "-out", certificate], check=True, capture_output=True)
        config = {"listenAddress": f"127.0.0.1:{self.port}", "managementListenAddress": f"127.0.0.1:{self.management}", "certificate": certificate, "privateKey": key, "httpPort": http, "tlsPort": https,
                  "ocspResponderURL": "", "externalAccountBindingRequired": False, "retryAfter": {"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa", "profiles": {"default": {"description": "", "validityPeriod": 7776000}}}
        path = os.path.join(self.directory, "pebble.json")
        with open(path, "w") as file:
            json.dump({"pebble": config}, file)
        self.names = Process([os.path.join(BIN, "pebble-challtestsrv"), "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", f"127.0.0.1:{processes.free_port()}",
                              "-dnsserver", f"127.0.0.1:{names}"], OTHERS, "challtestsrv")
        self.names.listens(names)
        self.pebble = Process([os.path.join(BIN, "pebble"), "-config", path, "-dnsserver", f"127.0.0.1:{names}"], OTHERS, "pebble", env={"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": str(refused)})
        if not self.pebble.listens(self.port):
            raise peers.DidNotStart(f"Pebble: {self.pebble.said()[-300:]}")
        self.ca, self.url = certificate, f"https://localhost:{self.port}/dir"
        self.trust = ssl.create_default_context(cadata=self.managed("/roots/0").decode())

    def managed(self, path, body=None):
        request = urllib.request.Request(f"https://localhost:{self.management}{path}", data=body)
        with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=10) as answer:
            return answer.read()

    def revoke_soon(self, pem):
        """Has the authority say that a certificate is to be renewed now (RFC 9773)."""
        window = {"suggestedWindow": {"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}}
        self.managed("/set-renewal-info/", json.dumps({"certificate": pem, "ariResponse": json.dumps(window)}).encode())

    def accounts(self):
        return len(set(re.findall(r"There are now (\d+) accounts", self.pebble.said())))

    def stop(self):
        self.pebble.stop()
        self.names.stop()


def handshake(port, name, trust):
    """The certificate that a client gets for a name, in DER; nothing where the handshake fails."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as plain, trust.wrap_socket(plain, server_hostname=name) as stream:
            return stream.getpeercert(binary_form=True)
    except (OSError, ssl.SSLError):
        return None


def lockgate(directory, authority, names, http, https, more=""):
    """The lines that a person writes, and those for this machine: ports, folder, authority."""
    text = "acme = {}\n" + "".join(f'[site."{name}"]\nproxy = "127.0.0.1:3000"\n' for name in names)
    here = f'state = "{directory}/state"\nports = {{ http = {http}, https = {https} }}\nadmin = false\naccess_log = false\n'
    acme = f'acme = {{ directory = "{authority.url}", ca = "{authority.ca}" }}\n'
    path = os.path.join(directory, "lockgate.toml")
    with open(path, "w") as file:
        file.write(here + text.replace("acme = {}\n", acme) + more)
    return [LOCKGATE, "run", "-c", path], text, None


def caddy(directory, authority, names, http, https, more=""):
    text = "".join(f"{name} {{\n\treverse_proxy 127.0.0.1:3000\n}}\n" for name in names)
    here = f"{{\n\thttp_port {http}\n\thttps_port {https}\n\tadmin off\n\tacme_ca {authority.url}\n\tacme_ca_root {authority.ca}\n}}\n"
    path = os.path.join(directory, "Caddyfile")
    with open(path, "w") as file:
        file.write(here + text)
    return ["caddy", "run", "--config", path, "--adapter", "caddyfile"], text, {"XDG_DATA_HOME": os.path.join(directory, "data"), "XDG_CONFIG_HOME": os.path.join(directory, "config"), "HOME": directory}


WRITERS = {"lockgate": lockgate, "caddy": caddy}


def first_handshakes(command, env, https, names, trust, name):
    """Starts a program; the seconds until each name has had a good handshake, and the program."""
    began, process = time.monotonic(), Process(command, BOTH, name, env=env)
    left, seconds = set(names), {}
    while left and time.monotonic() - began < PATIENCE and process.alive():
        for one in list(left):
            if handshake(https, one, trust):
                seconds[one] = time.monotonic() - began
                left.discard(one)
        time.sleep(0.005)
    return seconds, process


def acme(report, a):
    """Four sites from nothing to their first good handshakes, and again with what is kept."""
    report.head(f"Four sites by ACME, {a.rounds} times", len(a.peers) * a.rounds * 10)
    http, https = processes.free_port(), processes.free_port()
    authority, found, lines = Authority(http, https, a.refused), {}, {}
    try:
        for n in range(a.rounds):
            for name in a.peers:
                progress(f"{name} {n + 1}")
                if name == "caddy" and not shutil.which("caddy"):
                    continue
                directory = processes.fresh_directory(f"acme-{name}-{n}")
                command, text, env = WRITERS[name](directory, authority, FOUR, http, https)
                lines[name] = text.count("\n")
                for kind in ("cold", "warm"):
                    seconds, process = first_handshakes(command, env, https, FOUR, authority.trust, name)
                    process.stop()
                    if len(seconds) < len(FOUR):
                        report.bad |= name == "lockgate"
                        print(process.said()[-2000:])
                    found.setdefault((name, kind), []).append(max(seconds.values()) if len(seconds) == len(FOUR) else None)
    finally:
        authority.stop()
    rows = []
    for name in a.peers:
        cells = [name, str(lines.get(name, ""))]
        for kind in ("cold", "warm"):
            every = found.get((name, kind), [])
            good = sorted(one for one in every if one is not None)
            missing = f" ({len(every) - len(good)} of {len(every)} not within {PATIENCE} s)" if len(good) < len(every) else ""
            cells += [figure(good[len(good) // 2], 2) if good else "", (figure(good[-1], 2) if good else "") + missing]
        rows.append(cells)
    report.plain("Seconds from the start of the program until all four names have had a good handshake",
                 ["", "lines of the sites", "from nothing: median", "longest", "with what is kept: median", "longest"], rows,
                 [f"Pebble on this machine refuses {a.refused} % of the nonces (PEBBLE_WFE_NONCEREJECT) and validates at once. Lines: those that a person writes, without those for this machine (ports, folder, authority)."])


def acme_many(report, a):
    """Many names obtained and renewed under load: what clients of a name that has its certificate notice."""
    report.head(f"{a.count} names by ACME under load", a.secs * 3 + 660)  # ten minutes of them for the renewal
    http, https = processes.free_port(), processes.free_port()
    authority, origin = Authority(http, https), load.Origin()
    directory = processes.fresh_directory("acme-many")
    names = [f"site{n}.example.com" for n in range(a.count)]
    own = os.path.join(BIN, "..", "certs", "ecdsa.pem")
    more = f'[site."localhost"]\ntls = "{own}"\nproxy = "{origin.tcp}"\n'
    command, _, env = lockgate(directory, authority, names, http, https, more)
    rows, state = [], os.path.join(directory, "state/certs")

    def weigh(kind, until):
        """Runs load until something is done; the cells of a row."""
        generator = Process([LOAD, "load", f"https://localhost:{https}/100", "--insecure", "-c", "10", "--rate", str(a.rate), "--per-connection", "50", "-d", f"{a.longest:g}s", "--quiet", "--anyway", "--json", "-"],
                            OTHERS, "load", stdout=subprocess.PIPE)
        spoken, began = reload.Spoken(generator), time.monotonic()
        good = until()
        took = time.monotonic() - began
        time.sleep(max(0, a.secs - took))
        memory = process.pss() / 1024
        generator.signal(signal.SIGINT)  # it ends with what it has
        generator.wait(60)
        spoken.thread.join(10)
        one = reload.stage(generator, spoken.text)
        rows.append([kind, figure(took, 1) if good else "did not come", str(one["asked"]), reload.counted(one["failures"]), figure(one["p99"], 2) if one["p99"] else "", figure(memory, 0)])
        report.bad |= not good or bool(one["failures"])

    def pems(folder=state):
        return {name for name in os.listdir(folder) if name.endswith(".pem")} if os.path.isdir(folder) else set()

    def obtained(folder=state):
        end = time.monotonic() + a.longest
        while time.monotonic() < end and len(pems(folder)) < a.count:
            time.sleep(0.2)
        return len(pems(folder)) == a.count

    process = other = second = None
    try:
        quiet, _, _ = lockgate(directory, authority, [], http, https, more)
        process = Process(quiet, BOTH, "lockgate", env=env)
        process.listens(https)
        weigh("nothing to obtain", lambda: time.sleep(a.secs) or True)
        # What the authority costs on the same cores: another Lockgate orders as many at a Pebble of its own.
        ports, apart = (processes.free_port(), processes.free_port()), processes.fresh_directory("acme-apart")
        second = Authority(*ports)
        beside, _, _ = lockgate(apart, second, names, *ports)
        other = Process(beside, BOTH, "lockgate", env=env)
        weigh(f"{a.count} names obtained by another Lockgate", lambda: obtained(os.path.join(apart, "state/certs")))
        other.stop()
        second.stop()
        other = second = None
        lockgate(directory, authority, names, http, https, more)
        process.signal(1)
        weigh(f"{a.count} names obtained", obtained)
        before = {name: os.stat(os.path.join(state, name)).st_ino for name in pems()}
        failed = []
        served = [name for name in names if handshake(https, name, authority.trust)]
        for name in names:
            with open(os.path.join(state, f"{name}.pem")) as file:
                authority.revoke_soon(file.read().split("-----BEGIN PRIVATE")[0])

        def renewed():
            # Within ten minutes after a start every certificate is asked about; later as often as the authority wants.
            end = time.monotonic() + a.longest
            while time.monotonic() < end:
                now = {name: os.stat(os.path.join(state, name)).st_ino for name in pems()}
                failed.extend(name for name in names[::50] if not handshake(https, name, authority.trust))
                if all(now.get(name) not in (None, inode) for name, inode in before.items()):
                    return True
                time.sleep(0.5)
            return False
        process.stop()
        for name in names:  # as if hours had passed: no certificate is renewed right after it was obtained
            path = os.path.join(state, f"{name}.json")
            with open(path) as file:
                record = json.load(file)
            record["obtained"] = "2026-01-01T00:00:00Z"
            with open(path, "w") as file:
                json.dump(record, file)
        process = Process(command, BOTH, "lockgate", env=env)
        process.listens(https)
        weigh(f"{a.count} names renewed, since ARI says now", renewed)
        report.bad |= bool(failed) or len(served) < len(names)
    finally:
        for one in (process, other, second, authority, origin):
            if one:
                one.stop()
    report.plain(f"`lockgate load --rate {a.rate} -c 10` on a site of a file's certificate beside them",
                 ["", "seconds", "requests", "failed", "p99 ms", "PSS MB"], rows,
                 [f"Served after they were obtained: {len(served)} of {a.count}; failed handshakes with every 50th name during the renewal: {len(failed)}; accounts: {authority.accounts()}. Before the renewal the program is started anew: it asks the authority about each name within ten minutes."])
