"""What `[export]` costs: latency and CPU with sinks that read, that refuse, that never read and that are slow, beside no sinks; memory."""
import json
import os
import re
import subprocess
import time
from dataclasses import dataclass

from . import load, peers, processes, rates, reload
from .load import SOURCES
from .peers import _written as written
from .processes import BEFORE, LOCKGATE, OTHERS, PYTHON, Process
from .report import Ratio, figure, interleaved, progress

STATES = {
    "none": "no [export]",
    "read": "sinks that take all",
    "refused": "nothing listens",
    "silent": "accepted, never read",
    "slow": "a byte a second is read",
}
GROWTH = 20  # MB that readings and spans that wait may take: 1 MB for each of five sinks, 4 MB of spans, and what is being encoded
COLUMNS = [("p50 µs", "p50", 0), ("p99", "p99", 0), ("p99.9", "p99_9", 0), ("max", "max", 0), ("CPU µs/request", "cpu_us", 2), ("of the worker", "worker_us", 2), ("points pushed", "pushed", 0), ("lost", "lost", 0)]
BESIDE = {"p50": "p50", "p99": "p99", "cpu_us": "CPU", "worker_us": "CPU of the worker"}


@dataclass(frozen=True)
class Exporting:
    """Sites in front of one origin, with sinks of each kind."""
    port: int
    metrics: int
    origin: str
    sinks: tuple | None           # ports: TCP, HTTP, UDP; None: no [export]
    sites: int
    every: float                  # seconds between two readings
    traces: str
    few_descriptors = False


def exporting(e, directory, binary=LOCKGATE):
    text = ["workers = 1", "access_log = false", "admin = false", f'metrics = "127.0.0.1:{e.metrics}"']
    if e.sinks:
        tcp, http, udp = (f"127.0.0.1:{port}" for port in e.sinks)
        text += ["[export]", f'every = "{e.every:g}s"', f'graphite = "{tcp}"', f'statsd = "{udp}"', f'influx = ["http://{http}/write", "udp://{udp}"]', f'otlp = {{ url = "http://{http}", traces = "{e.traces}" }}']
    text += [f'[site."s{n}.test:{e.port}"]\nlisten = ["127.0.0.1"]\nproxy = "{e.origin}"' for n in range(e.sites)]
    return written(directory, "lockgate.toml", text), [binary, "run", "-c", f"{directory}/lockgate.toml"]


KINDS = {"lockgate": exporting, "lockgate-before": lambda e, directory: exporting(e, directory, BEFORE)}


def sinks(report, a):
    """`[export]` with sinks that read, refuse, never read and are slow, beside none: latency and CPU in open loop, then memory."""
    states = {f"{peer}, {state}": (peer, state) for peer in a.peers for state in a.states}
    report.head(f"Sinks of [export]: {a.sites} sites, a reading every {a.every:g} s, {a.rate:,} requests/s", len(states) * (a.rounds * (a.secs + a.settle + 3) + a.grow + 10))
    os.sched_setaffinity(0, OTHERS)
    origin = load.Origin()
    rows = interleaved(states, a.rounds, lambda _, row: of_a_round(*row, origin, a))
    report.cell(f"GET 100 B in open loop, {a.rate:,} a second", rows, COLUMNS,
                notes=["Each measurement is of a fresh process on one core, the thread that pushes included. " + "; ".join(f"{state}: {what}" for state, what in STATES.items()) + ". Sinks: Graphite, statsd, InfluxDB by HTTP and UDP, OTLP with spans."])
    for peer in a.peers:
        still, lines = rows.get(f"{peer}, none"), []
        for state in a.states:
            if state != "none" and still and f"{peer}, {state}" in rows:
                found = [Ratio.of(rows[f"{peer}, {state}"], still, key) for key in BESIDE]
                lines.append([f"{peer}, {state}", *(f"{one}: {one.verdict}" if one else "" for one in found)])
        report.plain("Beside no sinks", ["", *BESIDE.values()], lines, ["Ratios of the same rounds, with intervals of 95 % and verdicts by the sign test, for which six rounds are needed."])
    if a.grow:
        grown(report, states.values(), origin, a)
    origin.stop()


def started(peer, state, origin, a, traces):
    """A fresh process with its sinks, and the process of those."""
    ports, theirs = None, None
    if state == "refused":
        ports = tuple(processes.free_port() for _ in range(3))
    elif state != "none":
        theirs = Process([PYTHON, f"{SOURCES}/sinks.py", state], OTHERS, f"sinks-{state}", stdout=subprocess.PIPE)
        ports = tuple(json.loads(theirs.popen.stdout.readline()))
    try:
        return peers.start(peer, Exporting(processes.free_port(), processes.free_port(), origin.tcp, ports, a.sites, a.every, traces), kinds=KINDS), theirs
    except peers.DidNotStart:
        stopped(theirs)
        raise


def stopped(*programs):
    for program in programs:
        if program:
            program.stop()


def asking(program, a, seconds, settle):
    """Options of the generator: all sites at random."""
    hosts = "|".join(f"s{n}.test" for n in range(a.sites))
    return [f"http://127.0.0.1:{program.port}/100", "--header-any", f"Host: {hosts}", "--rate", a.rate, "-c", a.conns, "-d", f"{seconds:g}s", "--warm-up", f"{settle:g}s"]


def of_a_round(peer, state, origin, a):
    """One record. CPU is by the scheduler's clock, over the time in which the sinks settle too."""
    try:
        program, theirs = started(peer, state, origin, a, a.traces)
    except peers.DidNotStart as why:
        return {"errors": {str(why): 1}}
    try:
        cpu, worker = program.cpu().total, worker_us(program)
        said, why = rates.generated(*asking(program, a, a.secs, a.settle))
        if not said:
            return {"errors": {why: 1}}
        cpu, worker = program.cpu().total - cpu, worker_us(program) - worker
        told = pushed(program)
    finally:
        stopped(program, theirs)
    record, asked = rates.record(said["stages"][0]), said["uncounted"] + said["stages"][0]["succeeded"]
    return record | {"cpu_us": cpu / asked, "worker_us": worker / asked, "pushed": sum_of(told, "points_total"), "lost": sum_of(told, "lost_points_total")}


def worker_us(program):
    """Microseconds of the threads that serve."""
    def name(task):
        try:
            with open(f"/proc/{program.pid}/task/{task}/comm") as f:
                return f.read()
        except OSError:
            return ""  # it has ended
    return sum(us for task, us in program.cpu_by_task().items() if name(task).startswith("worker-"))


def pushed(program):
    """What the metrics say of sinks: {(name, labels): value}."""
    status, text = load.fetch(program.front.metrics, "/metrics") or (0, "")
    if status != 200:
        raise RuntimeError(f"the metrics address answered {status}")
    return {(name, labels): float(value) for name, labels, value in re.findall(r"^lockgate_export_(\w+)\{(.*)\} (\S+)$", text, re.M)}


def sum_of(told, name):
    return sum(value for (found, _), value in told.items() if found == name)


def grown(report, states, origin, a):
    """Memory of a process whose requests are all recorded, at the begin and after so many seconds, and what its metrics say of the sinks."""
    lines, counted = [], []
    for peer, state in states:
        progress(f"{peer}, {state}: memory")
        try:
            program, theirs = started(peer, state, origin, a, "100%")
        except peers.DidNotStart as why:
            lines.append([f"{peer}, {state}", str(why), "", "", "", ""])
            report.bad = True
            continue
        generator = Process([processes.LOAD, "load", *map(str, asking(program, a, a.grow, 0)), "--quiet", "--json", "-"], OTHERS, "load", stdout=subprocess.PIPE)
        time.sleep(5)
        before = program.pss() / 1024
        time.sleep(max(0, a.grow - 6))
        after = program.pss() / 1024  # while the generator runs, which shares the pages of the same binary
        out = load.spoken(generator, a.grow + 30)
        generator.stop()
        stage, told, alive = reload.stage(generator, out), pushed(program), program.alive()
        stopped(program, theirs)
        lines.append([f"{peer}, {state}", figure(before, 1), figure(after, 1), figure(after - before, 1), f"{stage['asked']:,}", reload.counted(stage["failures"])])
        counted += [[f"{peer}, {state}", name, labels, f"{value:,.0f}"] for (name, labels), value in sorted(told.items()) if value or name == "up"]
        report.bad |= not alive or bool(stage["failures"]) or after - before > GROWTH
    report.plain(f"Memory while every request is recorded, {a.grow:g} s at {a.rate:,} requests/s", ["", "MB after 5 s (PSS)", "MB at the end", "grown", "requests", "failed"], lines, [f"To reach: less than {GROWTH} MB more."])
    report.plain("What the metrics say of it: lockgate_export_… that are not 0", ["", "name", "labels", "value"], counted)
