"""What `lockgate load` itself costs: CPU time a request beside wrk, h2load, and perf-gauge and rewrk where they are installed."""
import os
import re
import resource
import shutil
import subprocess

from . import processes
from .processes import BUILT, LOCKGATE, Process
from .report import interleaved, progress

BODIES = {"100": 100, "10k": 10_000}
STREAMS = 10  # of each connection of HTTP/2
# Each as it is told to do the same: a closed loop over so many connections with so many streams each (0: HTTP/1), in one thread, for so long.
GENERATORS = {
    "lockgate": lambda url, c, m, s: [LOCKGATE, "load", url, "-c", str(c), "-d", f"{s}s", "--warm-up", "0", "--quiet"] + ["--insecure"] * url.startswith("https")
    + (["--http2", "--streams", str(m)] if m else []),
    "wrk": lambda url, c, m, s: ["wrk", "-t1", f"-c{c}", f"-d{s}s", url],
    "perf-gauge": lambda url, c, m, s: ["perf-gauge", "-c", str(c), "-d", f"{s}s", "-m", "1", "http", url, "--conn_reuse", "--ignore_cert"],
    "rewrk": lambda url, c, m, s: ["rewrk", "-t", "1", "-c", str(c), "-d", f"{s}s", "-h", url],
    "h2load": lambda url, c, m, s: ["h2load", "-t", "1", "-c", str(c), "-m", str(m), "-D", str(s), url],
}
OVER_HTTP2 = ("lockgate", "h2load")
SAID = {
    "lockgate": r"succeeded +([\d,]+)",
    "wrk": r"(\d+) requests in",
    "perf-gauge": r"Requests: (\d+)",
    "rewrk": r"Total: +(\d+)",
    "h2load": r"(\d+) succeeded",
}
FAILED = {
    "lockgate": r"failed +([1-9][\d,]*)",
    "wrk": r"(Socket errors.*|Non-2xx.*)",
    "perf-gauge": r"Success rate: (?!100)(.*)",
    "rewrk": r"(\d+ Errors.*)",
    # Those that were under way at the end count as failed; others have no status, or another.
    "h2load": r"([1-9]\d* errored|[1-9]\d* [345]xx)",
}


def generators(report, a):
    """CPU-µs a request of lockgate load, wrk, perf-gauge, rewrk and, over HTTP/2, h2load on one core, against nginx on the other."""
    found = [name for name in a.generators if name == "lockgate" or shutil.which(name)]
    fitting = {row: [name for name in found if (name in OVER_HTTP2 if row.startswith("h2") else name != "h2load")] for row in a.rows}
    report.head("What generators cost", sum(map(len, fitting.values())) * a.rounds * (a.secs + 0.3))
    nginx, ports = target()
    for row in a.rows:
        front, body = row.rsplit("-", 1)
        url = f"{'https' if front.endswith('tls') else 'http'}://127.0.0.1:{ports[front]}/{body}"
        over_http2 = front.startswith("h2")
        connections, streams = (a.conns // STREAMS, STREAMS) if over_http2 else (a.conns, 0)

        def measure(name, _):
            progress(f"{row} {name}")
            return one(name, url, connections, streams, a.secs)
        rows = interleaved(dict.fromkeys(fitting[row]), a.rounds, measure)
        # perf-gauge takes no certificate that it does not know, whatever it is told: it has requests, and no successes.
        rows = {name: records for name, records in rows.items() if name != "perf-gauge" or not all(r.get("requests", 0) < 5000 for r in records)}
        title = f"{row}, c = {connections}" + (f" of {streams} streams" if streams else "")
        report.cell(title, rows, [("CPU µs a request", "cpu_us", 2), ("user", "user_us", 2), ("requests", "requests", 0)], cost="cpu_us", rivals=("h2load" if over_http2 else "wrk",), goal=1.0)
    nginx.stop()


def target():
    directory = processes.fresh_directory("generators")
    ports = {front: processes.free_port() for front in ("plain", "tls", "h2", "h2-tls")}
    conf = os.path.join(directory, "nginx.conf")
    for name, length in BODIES.items():
        with open(os.path.join(directory, name), "wb") as f:
            f.write(b"x" * length)
    certificate = os.path.join(BUILT, "certs", "ecdsa.pem")
    with open(conf, "w") as f:
        f.write(f"""daemon off; user root; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log crit; events {{ worker_connections 10000; }}
http {{ access_log off; keepalive_requests 1000000000; open_file_cache max=100; sendfile on; root {directory};
client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
ssl_certificate {certificate}; ssl_certificate_key {certificate}; ssl_protocols TLSv1.3;
ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384;
server {{ listen 127.0.0.1:{ports['plain']} backlog=8192; }}
server {{ listen 127.0.0.1:{ports['tls']} ssl backlog=8192; }}
server {{ listen 127.0.0.1:{ports['h2']} http2 backlog=8192; }}
server {{ listen 127.0.0.1:{ports['h2-tls']} ssl http2 backlog=8192; }} }}""")
    nginx = Process(["nginx", "-p", directory, "-c", conf, "-e", f"{directory}/error.log"], processes.TESTED, "nginx")
    if not all(nginx.listens(port) for port in ports.values()):
        raise RuntimeError(f"the target did not start: {nginx.said()[-300:]}")
    return nginx, ports


def one(name, url, connections, streams, seconds):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = ",".join(str(c) for c in processes.OTHERS)
    run = subprocess.run(["taskset", "-c", core, *GENERATORS[name](url, connections, streams, max(1, int(seconds)))], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = run.stdout + run.stderr
    found, failed = re.search(SAID[name], said), re.search(FAILED[name], said)
    if run.returncode or not found:
        return {"errors": {"it did not say": said[-200:]}}
    requests = int(found.group(1).replace(",", ""))
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return {"errors": {failed.group(1): 1} if failed else {}, "requests": requests,
            "cpu_us": (user + system) * 1e6 / max(1, requests), "user_us": user * 1e6 / max(1, requests)}
