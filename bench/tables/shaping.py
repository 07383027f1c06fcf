"""Rates that a relay holds, and what holding them costs beside the same relay fed by a sender that keeps to the rate itself."""
import json
import os
import subprocess
import threading
from dataclasses import dataclass, replace

from . import peers, processes
from .peers import _written as written
from .processes import BEFORE, BUILT, LOCKGATE, OTHERS, Process
from .report import ENOUGH, interleaved, summary

WITHIN = 3  # percent of the rate, over the whole run
FED = "fed"


@dataclass(frozen=True)
class Shaped:
    """A TCP relay that lets so many bytes a second through in each direction, or all of them."""
    upstream: str
    rate: int | None
    port: int = 0

    few_descriptors = False


def lockgate(front, directory, binary=LOCKGATE):
    text = ["workers = 1", "access_log = false", f'[tcp."127.0.0.1:{front.port}"]', f'proxy = "{front.upstream}"']
    if front.rate:
        text.append(f'shape = {{ per_connection = "{front.rate // 1_000_000}MB/s" }}')
    return written(directory, "lockgate.toml", text), [binary, "run", "-c", f"{directory}/lockgate.toml"]


def lockgate_before(front, directory):
    return lockgate(front, directory, BEFORE)


def haproxy(front, directory):
    if front.rate and "bwlim-out" not in subprocess.run(["haproxy", "-vv"], capture_output=True, text=True).stdout:
        raise peers.DidNotStart("bwlim came with 2.7")
    limit = [f"  filter bwlim-{way} {way} default-limit {front.rate} default-period 1s" for way in ("in", "out")]
    limit += ["  tcp-request inspect-delay 1s", "  tcp-request content set-bandwidth-limit in", "  tcp-response content set-bandwidth-limit out"]
    text = ["global", "  nbthread 1", "  maxconn 1000", "defaults", "  mode tcp", "  timeout connect 5s", "  timeout client 60s", "  timeout server 60s",
            "listen relay", f"  bind 127.0.0.1:{front.port}", *(limit if front.rate else []), f"  server origin {front.upstream}"]
    return written(directory, "haproxy.cfg", text), ["haproxy", "-f", f"{directory}/haproxy.cfg"]


def nginx(front, directory):
    limit = f"proxy_download_rate {front.rate}; proxy_upload_rate {front.rate};" if front.rate else ""
    text = ["load_module /usr/lib/nginx/modules/ngx_stream_module.so;", "daemon off;", "user root;" if os.geteuid() == 0 else "", "worker_processes 1;", f"pid {directory}/nginx.pid;",
            f"error_log {directory}/error.log crit;", "events { worker_connections 1000; }",
            f"stream {{ server {{ listen 127.0.0.1:{front.port}; proxy_pass {front.upstream}; tcp_nodelay on; {limit} }} }}"]
    return written(directory, "nginx.conf", text), ["nginx", "-p", directory, "-c", f"{directory}/nginx.conf", "-e", f"{directory}/error.log"]


KINDS = {"lockgate": lockgate, "lockgate-before": lockgate_before, "haproxy": haproxy, "nginx": nginx}
PEERS = [*peers.OURS, "haproxy", "nginx"]


def shaping(report, a):
    """A TCP relay held to 1, 10 and 100 MB/s: the rate that comes, and the CPU beside the same relay fed at that rate."""
    report.head("Shaping: one connection through a TCP relay", len(a.rates) * len(a.ways) * 2 * len(a.peers) * a.rounds * (a.secs + 0.5))
    for way in a.ways:
        for megabytes in a.rates:
            rate = megabytes * 1_000_000
            programs, origins = {}, []
            for name in a.peers:
                for label, held in ((name, True), (f"{name} {FED}", False)):
                    port = processes.free_port()
                    origins.append(paced("listen", port, *role(way == "down", 0 if held else rate, a)))
                    try:
                        programs[label] = start(name, Shaped(f"127.0.0.1:{port}", rate if held else None))
                    except peers.DidNotStart as why:
                        programs[label] = str(why)
                    else:
                        programs[label].client = role(way != "down", 0 if held else rate, a)
                        programs[label].receiver = origins[-1] if way == "up" else None
            rows = interleaved(programs, a.rounds, lambda _, program: measure(program, rate, a.secs))
            tell(report, rows, f"{megabytes} MB/s {way}, one connection", a)
            for process in [*(p for p in programs.values() if not isinstance(p, str)), *origins]:
                process.stop()


def start(name, front):
    return peers.start(name, replace(front, port=processes.free_port()), kinds=KINDS)


def role(sends, rate, a):
    return ["send", rate, a.tick] if sends else ["receive", a.secs]


def paced(side, port, *what):
    """One of the two ends; a listener's first connection is the one that waits for its relay to listen, and carries nothing."""
    return Process([f"{BUILT}/paced", side, str(port), *map(str, what)], OTHERS, "paced", stdout=subprocess.PIPE)


def measure(program, rate, seconds):
    program.until_quiet()
    before = program.cpu()
    client = paced("connect", program.port, *program.client)
    receiver = program.receiver or client
    try:
        said = received(receiver, seconds)
    finally:
        client.stop(patience=0.2)
    cpu = program.cpu() - before
    if not said or not said["bytes"]:
        return {"errors": {"nothing came: " + client.said()[-100:]: 1}}
    errors = {} if said["seconds"] > 0.99 * seconds else {f"it ended after {said['seconds']:.1f} s": 1}
    per_second = said["bytes"] / said["seconds"]
    return {"errors": errors, "cpu_s_per_gb": cpu.total / 1e6 / (said["bytes"] / 1e9), "mb_per_second": per_second / 1e6, "off": 100 * (per_second / rate - 1),
            "least": 100 * (said["least"] / rate - 1), "most": 100 * (said["most"] / rate - 1), "core_percent": cpu.total / said["seconds"] / 1e4}


def received(process, seconds):
    """What it printed of a connection that carried something, or None."""
    timer = threading.Timer(seconds + 10, process.popen.kill)
    timer.start()
    try:
        for line in process.popen.stdout:
            said = json.loads(line)
            if said["bytes"]:
                return said
        return None
    finally:
        timer.cancel()


def tell(report, rows, title, a):
    columns = [("CPU-s/GB", "cpu_s_per_gb", 3), ("core %", "core_percent", 1), ("MB/s", "mb_per_second", 3), ("off %", "off", 2), ("least second %", "least", 1), ("most %", "most", 1)]
    notes = []
    for name in peers.OURS:
        found = summary(rows.get(name, "not asked for"))
        if found["valid"]:
            worst = max((r["off"] for r in rows[name] if not r["errors"]), key=abs)
            reached = abs(worst) <= WITHIN
            notes.append(f"{name} is off its rate by {worst:+.2f} % at worst; to reach within {WITHIN} %: **{'reached' if reached else 'NOT reached'}**.")
            report.bad |= not reached and found["valid"] >= ENOUGH
    report.cell(title, rows, columns, cost="cpu_s_per_gb", rivals=[f"lockgate {FED}"], goal=1.05, notes=notes)
