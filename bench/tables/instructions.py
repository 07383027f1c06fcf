"""Instructions and cache lines that a request costs, counted by callgrind (valgrind ≥ 3.22 for files: older ones lack openat2)."""
import os
import re
import statistics

from . import folders, load, peers, processes
from .load import H2load
from .peers import Front

# Row: the listener, what the client does, and whether it speaks HTTP/2.
ROWS = {
    "h1-get": ("http", ["--get", 100]),
    "h1-post": ("http", ["--post", 1000]),
    "h2-get": ("h2", ["--get", 100]),
    "tls-relay": ("relay", ["--post", 100]),
    "static": ("files", ["--get", 811]),
}
CACHE = ["--cache-sim=yes", "--LL=2097152,16,64"]  # the second-level cache that one core has for itself
FEW, MANY = 4, 24  # requests on each connection, or hundreds of them in all: the difference leaves out the start and what connections cost
STREAMS = 10


def instructions(report, a):
    """Instructions a request in user space: GET and POST over HTTP/1, GET over HTTP/2, a relay that ends TLS, a file of 811 B."""
    report.head("Instructions a request", 15 * a.rounds * len(a.rows) * len(a.peers))
    counted(report, a, "Instructions a request", [], lambda totals: totals["Ir"])


def cache_lines(report, a):
    """Cache lines a request that miss 2 MB of cache, of HTTP/1 at 1,000 connections: what lives while a request waits for its endpoint."""
    report.head("Cache lines a request", 60 * a.rounds * len(a.rows) * len(a.peers))
    counted(report, a, "Cache lines a request, read and written", CACHE, lambda totals: totals["DLmr"] + totals["DLmw"])


def counted(report, a, title, options, figure):
    cells = {(row, name): [] for row in a.rows for name in a.peers}
    failed = {}
    for _ in range(a.rounds):
        for (row, name), figures in cells.items():
            count, errors = per_request(name, row, a.conns, options, figure)
            report.bad |= bool(errors)
            figures.append(count)
            if errors:
                failed[row, name] = errors
    both = "lockgate-before" in a.peers and "lockgate" in a.peers
    lines = []
    for row in a.rows:
        middle = {name: None if (row, name) in failed else statistics.median(cells[row, name]) for name in a.peers}
        line = [row, *(f"**{failed[row, name]}**" if count is None else f"{count:,.0f}" for name, count in middle.items())]
        if both:
            line.append(f"{middle['lockgate'] / middle['lockgate-before']:.3f}" if all(middle.values()) else "")
        lines.append(line)
    report.plain(f"{title}, c = {a.conns:,}, median of {a.rounds}", ["", *a.peers, *["÷ before"] * both], lines)


def per_request(name, row, conns, options, figure):
    """(the figure, nothing), or nothing and what went wrong."""
    totals = []
    for each in (FEW, MANY):
        each *= max(1, 100 // conns)
        total, answered, errors = one_run(name, row, conns, each, options, figure)
        if errors:
            return None, errors
        totals.append((total, answered))
    (few, answered_few), (many, answered_many) = totals
    return (many - few) / (answered_many - answered_few), ""


def one_run(name, row, conns, each, options, figure):
    """The figure of a whole process that answers `each` requests on each of `conns` connections, the requests, and what went wrong."""
    kind, request = ROWS[row]
    origin = load.Origin()
    try:
        program, out = start(name, kind, origin, options)
    except peers.DidNotStart as why:
        origin.stop()
        return 0, 0, str(why)
    if kind == "h2":
        said = load.finish_h2load(H2load.of("GET", request[1], max(1, conns // STREAMS), STREAMS), program.port, conns * each)
    else:
        shape = ["--once", "--timeout", 120, "--connections", conns, *request, "--requests", each]
        said = load.finish_client(load.client(program.port, *shape, tls="any" if kind == "relay" else "off"), 600)
    program.signal(15)
    program.wait(120)  # callgrind writes its counts at the end
    program.stop()
    origin.stop()
    errors = load.errors_of(said)
    totals = totals_of(out)
    if errors or not totals:
        return 0, 0, ", ".join(f"{n} {what}" for what, n in errors.items()) or "callgrind counted nothing"
    return figure(totals), said["requests"], ""


def start(name, kind, origin, options):
    """The program under callgrind, and the file that its counts go to."""
    binary = processes.BEFORE if name == "lockgate-before" else processes.LOCKGATE
    out = os.path.join(processes.scratch(), "callgrind.out")
    if os.path.exists(out):
        os.remove(out)

    def counted_program(front, directory):
        configure = folders.lockgate if kind == "files" else peers.lockgate
        path, argv = configure(front, directory, binary)
        return path, ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *options, *argv]

    if kind == "files":
        root = processes.fresh_directory("instructions")
        with open(os.path.join(root, "811"), "wb") as f:
            f.write(pattern(811))
        front = folders.Folder(root=root)
    elif kind == "relay":
        front = Front(port=0, upstream=origin.unix, key="ecdsa")
    else:
        front = Front(port=0, upstream=origin.tcp, http=True, key="ecdsa" if kind == "h2" else None, h2=kind == "h2")
    return peers.start(name, front, kinds={name: counted_program}), out


def pattern(length):
    """The bytes that the client expects of a body (bench/src/pattern.h)."""
    return bytes(ord("a") + (n * 7 + n // 97) % 26 for n in range(length))


def totals_of(path):
    """Events to counts of the whole process, but for entropy: aws-lc measures jitter at the first handshake, for as long as it takes."""
    try:
        with open(path, errors="replace") as f:
            text = f.read()
    except OSError:
        return {}
    events = re.search(r"^events: (.+)$", text, re.M)
    totals = re.search(r"^totals: (.+)$", text, re.M)
    if not events or not totals:
        return {}
    counts = [int(total) - noise for total, noise in zip(totals.group(1).split(), entropy_of(text.splitlines(), len(events.group(1).split())))]
    return dict(zip(events.group(1).split(), counts))


def entropy_of(lines, events):
    """The counts of the functions that gather entropy, without those that they call."""
    names, noise, function, is_call = {}, [0] * events, "", False
    for line in lines:
        if named := re.match(r"(c?fn)=(\(\d+\))(?: (.*))?$", line):
            kind, number, name = named.groups()
            name = names.setdefault(number, name)
            if kind == "fn":
                function = name
        elif line.startswith("calls="):
            is_call = True
        elif line[:1] in "+-*0123456789" and line:
            if not is_call and re.match(r"jent_|rol64|xoshiro", function):
                costs = [int(cost) for cost in line.split()[1:]]
                noise = [sum(pair) for pair in zip(noise, costs + [0] * (events - len(costs)))]
            is_call = False
    return noise
