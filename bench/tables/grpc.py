"""gRPC through a site: grpc-go's client over TLS, its server without TLS behind each program."""
import json
import os
import subprocess
import time

from . import load, peers, processes
from .load import others, weighed
from .processes import BUILT, OTHERS, Process
from .report import interleaved
from .throughput import rivals, start_all, stop_programs

COST = [("CPU µs/answer", "cpu_us", 1), ("user", "user_us", 1), ("system", "sys_us", 1), ("answers/s", "per_second", 0), ("core %", "core_percent", 0), ("p50 ms", "p50", 2), ("p99 ms", "p99", 2)]
KINDS = {"unary": "unary calls", "stream": "messages there and back on streams that stay open"}
CLIENT, SERVER = f"{BUILT}/bin/messages", f"{BUILT}/bin/greeter"


def grpc(report, a):
    """gRPC over TLS to a server without TLS: unary calls, and messages there and back on streams that stay open."""
    names = [name for name in a.peers if not name.startswith(("hitch", "h2o"))]  # h2o speaks HTTP/1 to its origins
    report.head("gRPC over TLS, HTTP/2 without TLS to the server", len(a.kinds) * len(a.sizes) * len(names) * a.rounds * (a.secs + 0.5))
    if not os.path.exists(CLIENT):
        report.plain("gRPC", ["not run"], [["there was no Go when bench/setup ran"]])
        report.bad = True
        return
    port = processes.free_port()
    server = Process([SERVER, f"127.0.0.1:{port}"], OTHERS, "greeter")
    if not server.listens(port):
        raise RuntimeError(f"the server did not start: {server.said()[-300:]}")
    programs = start_all(names, upstream=f"127.0.0.1:{port}", key="ecdsa", http=True, h2=True, endpoint="h2c")
    for kind in a.kinds:
        for size in a.sizes:
            rows = interleaved(programs, a.rounds, lambda _, program: measured(program, kind, a.conns, a.streams, size, a.secs))
            report.cell(f"{size:,} B, {a.conns} × {a.streams}, {KINDS[kind]}", rows, COST, cost="cpu_us", rivals=rivals(names))
    stop_programs(programs)
    server.stop()


def measured(program, kind, connections, streams, size, seconds):
    """Weighs the program over one run of the client, its few handshakes included."""
    program.until_quiet()
    before, core_before, began = program.cpu(), processes.busy(0), time.monotonic()
    client = Process([CLIENT, f"127.0.0.1:{program.port}", kind, *(str(n) for n in (connections, streams, size, max(1, round(seconds))))], OTHERS, "messages", stdout=subprocess.PIPE)
    out = load.spoken(client, seconds + 60)
    lasted = time.monotonic() - began
    used, core = program.cpu() - before, processes.busy(0) - core_before
    client.stop()
    program.until_quiet()
    try:
        said = json.loads(out)
    except ValueError:
        said = {"answers": 0, "seconds": lasted, "failed": {f"the client said: {' '.join(client.said().split())[-120:]}": 1}}
    answers = said["answers"]
    record = weighed(program.cpu() - before, answers, 2 * size * answers, said["seconds"])
    record |= {"p50": said.get("p50"), "p99": said.get("p99"), "core_percent": used.total / lasted / 1e4, "others_percent": others(used, core, lasted)}
    return record | {"errors": said["failed"] | ({} if answers else {"no answer": 1})}
