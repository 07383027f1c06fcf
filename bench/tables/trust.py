"""What must hold rather than be fast: certificates swapped and connections drained under load, testssl.sh, OpenSSL and curl."""
import json
import os
import shutil
import signal
import subprocess
import time

from . import load, peers, processes
from .processes import BUILT, fresh_directory

CERTIFICATES = f"{BUILT}/certs"
DRAIN = {"nginx": signal.SIGQUIT, "haproxy": signal.SIGUSR1}  # their graceful stop; Lockgate's is TERM
V12, V13 = "-tls1_2", "-tls1_3"
NEEDS_HUP = ("nginx", "hitch")                                # Lockgate sees the new file by itself
REQUEST = "GET /10 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def swap_and_drain(report, a):
    """The certificate replaced every 100 ms under load, then a graceful stop under load: no connection may fail."""
    report.head("Certificate swap and drain under load", len(a.peers) * (a.secs + 12))
    swaps, drains = [], []
    for name in a.peers:
        origin = load.Origin()
        live = os.path.join(fresh_directory(f"live-{name}"), "live.pem")
        shutil.copy(f"{CERTIFICATES}/ecdsa.pem", live)
        try:
            program = peers.start(name, peers.Front(port=0, upstream=origin.unix, pem=live, metrics=processes.free_port()))
        except peers.DidNotStart as why:
            swaps.append([name, str(why), "", "", "", ""])
            report.bad |= name == "lockgate"
            continue
        line, good = swap(name, program, live, a.secs)
        swaps.append(line)
        more, drained = drain(name, program)
        drains.append(more)
        report.bad |= name == "lockgate" and not (good and drained)
        program.stop()
        origin.stop()
    report.plain(f"Certificate replaced by an atomic rename for {a.secs:g} s: a connection per request at c = 16, and 50 kept ones at 200 requests/s",
                 ["", "swaps", "certificates seen", "connections", "failed", "kept: answered, failed, lost"], swaps)
    report.plain("Graceful stop after 2 s of the same load", ["", "connections", "failed", "refused once closed", "kept: answered, failed, lost", "/ready after the signal", "exit code", "exit after the last one closed"], drains,
                 ["A connection refused because nobody listens any more is not a failed one; one that was accepted and then got no answer is."])


def failures(said):
    return sum(n for kind, n in said["failed"].items() if kind != "refused")


def kinds(said):
    return ", ".join(f"**{n} {kind}**" for kind, n in said["failed"].items() if n and kind != "refused") or "0"


def swap(name, program, live, seconds):
    new = load.client(program.port, "--connections", 16, "--close", "--get", 10, "--seconds", seconds)
    kept = load.client(program.port, "--connections", 50, "--rate", 200, "--get", 100, "--seconds", seconds)
    count, end = 0, time.monotonic() + seconds - 0.3
    while time.monotonic() < end:
        count += 1
        # Another file every time, the other certificate every seventh: who looks once in a while must not see but one.
        turn = count if name in NEEDS_HUP else count // 7
        shutil.copy(f"{CERTIFICATES}/{'ecdsa-next' if turn % 2 else 'ecdsa'}.pem", live + ".new")
        os.replace(live + ".new", live)
        if name in NEEDS_HUP:
            program.signal(signal.SIGHUP)
        time.sleep(1 if name in NEEDS_HUP else 0.1)
    said, held = load.finish_client(new), load.finish_client(kept)
    seen = len(said["certificates"])
    good = not failures(said) and not said["failed"].get("refused") and not failures(held) and not held["lost"] and seen == 2
    refused = said["failed"].get("refused", 0)
    return [name, count, seen if seen == 2 else f"**{seen}, the other was never served**", said["connections"],
            kinds(said) + (f", **{refused} refused**" if refused else ""), f"{held['requests']}, {kinds(held)}, {held['lost']}"], good


def drain(name, program):
    new = load.client(program.port, "--connections", 16, "--close", "--get", 10, "--seconds", 10, "--until-refused")
    kept = load.client(program.port, "--connections", 50, "--rate", 200, "--get", 100, "--seconds", 5, "--until-refused")
    time.sleep(2)
    program.signal(DRAIN.get(name, signal.SIGTERM))
    time.sleep(0.05)
    ready = load.fetch(program.front.metrics, "/ready") if name == "lockgate" else None
    said, held = load.finish_client(new), load.finish_client(kept)
    closed = time.monotonic()
    code = program.wait(10)
    took = time.monotonic() - closed
    good = not failures(said) and not failures(held) and not held["lost"] and code == 0
    return [name, said["connections"], kinds(said), said["failed"].get("refused", 0), f"{held['requests']}, {kinds(held)}, {held['lost']}",
            ready[0] if ready else "closed" if name == "lockgate" else "", "**still runs**" if code is None else code, f"{took:.1f} s"], good


def testssl(report, a):
    """testssl.sh: protocols, ciphers and vulnerabilities; nothing above LOW."""
    report.head("testssl.sh", len(a.peers) * len(a.keys) * 40)
    lines = []
    for name in a.peers:
        for key in a.keys:
            origin = load.Origin()
            try:
                program = peers.start(name, peers.Front(port=0, upstream=origin.unix, key=key), processes.BOTH)
            except peers.DidNotStart as why:
                lines.append([name, key, str(why), "", ""])
                report.bad |= name == "lockgate"
                continue
            found = run_testssl(program.port)
            above = [f for f in found if f["severity"] in ("MEDIUM", "HIGH", "CRITICAL", "FATAL")]
            warned = [f for f in found if f["severity"] == "WARN"]
            lines.append([name, key, len(found), "; ".join(f"**{f['severity']}** {f['id']}: {f['finding']}" for f in above) or ("none" if found else "**it did not run**"),
                          "; ".join(f"{f['id']}: {f['finding']}" for f in warned) or "none"])
            report.bad |= name == "lockgate" and (bool(above) or not found)
            program.stop()
            origin.stop()
    report.plain("testssl.sh: protocols, cipher categories, forward secrecy, vulnerabilities", ["", "key", "findings", "above LOW", "could not be tested"], lines)


def run_testssl(port):
    out = os.path.join(fresh_directory("testssl"), "out.json")
    process = processes.Process(["testssl", "--quiet", "--color", "0", "--warnings", "off", "--protocols", "--std", "--pfs", "--vulnerable", "--nodns", "none", "--jsonfile", out,
                                 f"127.0.0.1:{port}"], processes.BOTH, "testssl")
    process.wait(400)
    process.stop()
    try:
        with open(out) as f:
            return json.load(f)
    except (OSError, ValueError):
        return [{"id": "testssl", "severity": "FATAL", "finding": "no result: " + process.said()[-300:]}]


def openssl(report, a):
    """openssl s_client and curl: versions, suites, groups, client certificates, resumption across rotation and restart."""
    report.head("OpenSSL and curl", len(a.peers) * 20 + 130 * ("lockgate" in a.peers))
    for name in a.peers:
        lines = []
        for title, check in CHECKS:
            try:
                good, detail = check(name)
            except peers.DidNotStart as why:
                good, detail = False, str(why)
            except Skipped as why:
                lines.append([title, "not tried", str(why)])
                continue
            report.bad |= name == "lockgate" and not good
            lines.append([title, "yes" if good else "**NO**", detail])
        report.plain(name, ["", "holds", "seen"], lines)


class Skipped(Exception):
    """A check that this peer has no means for."""


class Running:
    """A peer with its origin, for one check."""

    def __init__(self, name, **front):
        self.origin = load.Origin()
        try:
            self.program = peers.start(name, peers.Front(port=front.pop("port", 0), upstream=self.origin.unix, **front), processes.BOTH)
        except peers.DidNotStart:
            self.origin.stop()
            raise

    def __enter__(self):
        return self.program

    def __exit__(self, *_):
        self.program.stop()
        self.origin.stop()


def s_client(port, *options):
    """One request through openssl s_client; everything that it prints."""
    r = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", "localhost", "-ign_eof", *options], input=REQUEST, capture_output=True, text=True, timeout=20)
    return r.stdout + r.stderr


def curl(port, *options):
    r = subprocess.run(["curl", "-sS", "-i", "--max-time", "10", "--resolve", f"localhost:{port}:127.0.0.1", *options, f"https://localhost:{port}/10"], capture_output=True, text=True, timeout=20)
    return r.stdout + r.stderr


def answered(text):
    return "HTTP/1.1 200" in text


def gist(text):
    """The line of s_client's output that says what was negotiated, or its last error."""
    wanted = [line.strip() for line in text.splitlines() if line.startswith(("New, ", "Reused, "))]
    errors = [line.split(":")[5] for line in text.splitlines() if ":error:" in line]
    if wanted and answered(text):
        return wanted[0]
    return errors[0] if errors else f"no answer after: {wanted[0]}" if wanted else text.strip()[-120:]


def is_served(*options, key="ecdsa"):
    def check(name):
        with Running(name, key=key) as p:
            text = s_client(p.port, "-CAfile", f"{CERTIFICATES}/{key}.crt", "-verify_return_error", *options)
            return answered(text), gist(text)
    return check


def is_refused(*options):
    def check(name):
        with Running(name, key="ecdsa") as p:
            text = s_client(p.port, *options)
            return not answered(text), gist(text)
    return check


def curl_is_served(*options, client=None, **front):
    def check(name):
        with Running(name, key="ecdsa", **front) as p:
            own = ["--cert", f"{CERTIFICATES}/{client}.crt", "--key", f"{CERTIFICATES}/{client}.key"] if client else []
            text = curl(p.port, "--cacert", f"{CERTIFICATES}/ecdsa.crt", *options, *own)
            return answered(text), text.splitlines()[0] if text else "nothing"
    return check


def with_client_certificate(version, client, served):
    def check(name):
        if name not in ("lockgate", "nginx"):
            raise Skipped("not written for this peer")
        with Running(name, key="ecdsa", client_ca=f"{CERTIFICATES}/clients-ca.crt") as p:
            own = ["-cert", f"{CERTIFICATES}/{client}.crt", "-key", f"{CERTIFICATES}/{client}.key"] if client else []
            text = s_client(p.port, version, *own)
            return answered(text) == served, gist(text)
    return check


def session(port, version, path, direction):
    return s_client(port, version, "-sess_out" if direction == "out" else "-sess_in", path)


def resumes(version):
    def check(name):
        path = os.path.join(fresh_directory("session"), "s")
        with Running(name, key="ecdsa") as p:
            first = session(p.port, version, path, "out")
            text = session(p.port, version, path, "in")
            return answered(first) and answered(text) and "\nReused, " in text, gist(text)
    return check


def resumes_across_rotation(name):
    """Keys rotate once a minute, which is the shortest there is, and two are kept: good after 65 s, forgotten after 130 s."""
    if name != "lockgate":
        raise Skipped("its keys do not rotate by themselves")
    paths = {version: os.path.join(fresh_directory(f"session{version}"), "s") for version in (V12, V13)}
    with Running(name, key="ecdsa", tickets='{ rotate = "60s", keep = 2 }') as p:
        for version, path in paths.items():
            session(p.port, version, path, "out")
        time.sleep(65)
        after_one = [session(p.port, version, path, "in") for version, path in paths.items()]
        time.sleep(65)
        after_two = [session(p.port, version, path, "in") for version, path in paths.items()]
    good = all(answered(t) for t in after_one + after_two) and all("\nReused, " in t for t in after_one) and all("\nNew, " in t for t in after_two)
    return good, f"after one: {', '.join(map(gist, after_one))}; after two: {', '.join(map(gist, after_two))}"


def ticket_keys(name):
    """A file of random bytes in the form that nginx and HAProxy share, and how the peer names it."""
    if name not in ("lockgate", "nginx"):
        raise Skipped("not written for this peer")
    path = os.path.join(fresh_directory("tickets"), "tickets.key")
    with open(path, "wb") as f:
        f.write(os.urandom(80))
    os.chmod(path, 0o600)
    return f'{{ keys = "{path}" }}' if name == "lockgate" else path


def resumes_across_restart(version):
    def check(name):
        tickets = ticket_keys(name)
        path = os.path.join(fresh_directory("session"), "s")
        with Running(name, key="ecdsa", tickets=tickets) as p:
            session(p.port, version, path, "out")
        with Running(name, key="ecdsa", tickets=tickets) as p:
            text = session(p.port, version, path, "in")
            return answered(text) and "\nReused, " in text, gist(text)
    return check


def no_way_around_client_certificates(version):
    def check(name):
        tickets = ticket_keys(name)
        path = os.path.join(fresh_directory("session"), "s")
        with Running(name, key="ecdsa", tickets=tickets) as p:
            session(p.port, version, path, "out")
        with Running(name, key="ecdsa", tickets=tickets, client_ca=f"{CERTIFICATES}/clients-ca.crt") as p:
            text = session(p.port, version, path, "in")
            return not answered(text), gist(text)
    return check


def readable_answer_to_plain_http(name):
    if name != "lockgate":
        raise Skipped("not promised by this peer")
    with Running(name, key="ecdsa") as p:
        answer = load.fetch(p.port, "/")
        return bool(answer) and answer[0] >= 400, f"{answer[0]} {answer[1][:80]}" if answer else "nothing"


CHECKS = [
    ("TLS 1.3, ECDSA", is_served(V13)),
    ("TLS 1.2, ECDSA", is_served(V12)),
    ("TLS 1.3, RSA", is_served(V13, key="rsa")),
    ("TLS 1.2, RSA", is_served(V12, key="rsa")),
    ("TLS 1.1 is refused", is_refused("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0")),
    ("TLS 1.0 is refused", is_refused("-tls1", "-cipher", "DEFAULT@SECLEVEL=0")),
    ("TLS 1.3 with ChaCha20-Poly1305", is_served(V13, "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256")),
    ("TLS 1.3 with AES-128", is_served(V13, "-ciphersuites", "TLS_AES_128_GCM_SHA256")),
    ("TLS 1.2 with CBC is refused", is_refused(V12, "-cipher", "ECDHE-ECDSA-AES128-SHA")),
    ("group X25519", is_served("-groups", "X25519")),
    ("group P-256", is_served("-groups", "P-256")),
    ("group P-384", is_served("-groups", "P-384")),
    ("curl with TLS 1.2", curl_is_served("--tlsv1.2", "--tls-max", "1.2")),
    ("curl with TLS 1.3", curl_is_served("--tlsv1.3")),
    *[(f"client certificate required, {v[1:]}, {what}", with_client_certificate(v, who, served))
      for v in (V12, V13) for what, who, served in (("ours: served", "friend", True), ("none: refused", None, False), ("a stranger's: refused", "stranger", False))],
    ("curl with a client certificate", curl_is_served(client="friend", client_ca=f"{CERTIFICATES}/clients-ca.crt")),
    *[(f"resumption, {v[1:]}", resumes(v)) for v in (V12, V13)],
    ("resumption across a rotation of ticket keys, and none once the key is gone", resumes_across_rotation),
    *[(f"resumption across a restart with a key file, {v[1:]}", resumes_across_restart(v)) for v in (V12, V13)],
    *[(f"a ticket of a site without client certificates does not open one that requires them, {v[1:]}", no_way_around_client_certificates(v)) for v in (V12, V13)],
    ("plain HTTP to the TLS port gets a readable answer", readable_answer_to_plain_http),
]
