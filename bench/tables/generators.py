"""What `lockgate load` itself costs: CPU time a request beside wrk, and beside perf-gauge and rewrk where they are installed."""
import os
import re
import resource
import shutil
import subprocess

from . import processes
from .processes import BUILT, LOCKGATE, Process
from .report import interleaved, progress

BODIES = {"100": 100, "10k": 10_000}
# Each as it is told to do the same: a closed loop over so many connections, in one thread, for so long.
GENERATORS = {
    "lockgate": lambda url, c, s: [LOCKGATE, "load", url, "-c", str(c), "-d", f"{s}s", "--warm-up", "0", "--quiet"] + ["--insecure"] * url.startswith("https"),
    "wrk": lambda url, c, s: ["wrk", "-t1", f"-c{c}", f"-d{s}s", url],
    "perf-gauge": lambda url, c, s: ["perf-gauge", "-c", str(c), "-d", f"{s}s", "-m", "1", "http", url, "--conn_reuse", "--ignore_cert"],
    "rewrk": lambda url, c, s: ["rewrk", "-t", "1", "-c", str(c), "-d", f"{s}s", "-h", url],
}
SAID = {
    "lockgate": r"succeeded +([\d,]+)",
    "wrk": r"(\d+) requests in",
    "perf-gauge": r"Requests: (\d+)",
    "rewrk": r"Total: +(\d+)",
}
FAILED = {
    "lockgate": r"failed +([1-9][\d,]*)",
    "wrk": r"(Socket errors.*|Non-2xx.*)",
    "perf-gauge": r"Success rate: (?!100)(.*)",
    "rewrk": r"(\d+ Errors.*)",
}


def generators(report, a):
    """CPU-µs a request of lockgate load, wrk, perf-gauge and rewrk on one core, against nginx on the other."""
    found = {name: GENERATORS[name] for name in a.generators if name == "lockgate" or shutil.which(name)}
    report.head("What generators cost", len(a.rows) * len(found) * a.rounds * (a.secs + 0.3))
    nginx, ports = target()
    for row in a.rows:
        front, body = row.split("-")
        url = f"{'https' if front == 'tls' else 'http'}://127.0.0.1:{ports[front]}/{body}"

        def measure(name, _):
            progress(f"{row} {name}")
            return one(name, url, a.conns, a.secs)
        rows = interleaved(found, a.rounds, measure)
        # perf-gauge takes no certificate that it does not know, whatever it is told: it has requests, and no successes.
        rows = {name: records for name, records in rows.items() if not all(r.get("requests", 0) < 5000 for r in records)}
        report.cell(f"{row}, c = {a.conns}", rows, [("CPU µs a request", "cpu_us", 2), ("user", "user_us", 2), ("requests", "requests", 0)], cost="cpu_us", rivals=("wrk",), goal=1.0)
    nginx.stop()


def target():
    directory = processes.fresh_directory("generators")
    ports = {"plain": processes.free_port(), "tls": processes.free_port()}
    conf = os.path.join(directory, "nginx.conf")
    for name, length in BODIES.items():
        with open(os.path.join(directory, name), "wb") as f:
            f.write(b"x" * length)
    certificate = os.path.join(BUILT, "certs", "ecdsa.pem")
    with open(conf, "w") as f:
        f.write(f"""daemon off; user root; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log crit; events {{ worker_connections 10000; }}
http {{ access_log off; keepalive_requests 1000000000; open_file_cache max=100; sendfile on; root {directory};
client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
server {{ listen 127.0.0.1:{ports['plain']} backlog=8192; }}
server {{ listen 127.0.0.1:{ports['tls']} ssl backlog=8192; ssl_certificate {certificate}; ssl_certificate_key {certificate}; ssl_protocols TLSv1.3;
ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384; }} }}""")
    nginx = Process(["nginx", "-p", directory, "-c", conf, "-e", f"{directory}/error.log"], processes.TESTED, "nginx")
    if not all(nginx.listens(port) for port in ports.values()):
        raise RuntimeError(f"the target did not start: {nginx.said()[-300:]}")
    return nginx, ports


def one(name, url, connections, seconds):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = ",".join(str(c) for c in processes.OTHERS)
    run = subprocess.run(["taskset", "-c", core, *GENERATORS[name](url, connections, int(seconds))], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = run.stdout + run.stderr
    found, failed = re.search(SAID[name], said), re.search(FAILED[name], said)
    if run.returncode or not found:
        return {"errors": {"it did not say": said[-200:]}}
    requests = int(found.group(1).replace(",", ""))
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return {"errors": {failed.group(1): 1} if failed else {}, "requests": requests,
            "cpu_us": (user + system) * 1e6 / max(1, requests), "user_us": user * 1e6 / max(1, requests)}
