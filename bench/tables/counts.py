"""What `lockgate load` counts, beside what nginx's access log and the kernel's TCP_INFO say of the same run."""
import json
import os
import subprocess

from . import processes
from .processes import LOCKGATE, Process


def counts(report, a):
    """lockgate load's requests and bytes beside nginx's access log and the kernel's counters: the same to the last one."""
    report.head("Counts of lockgate load", 10)
    lines = []
    for connections, each, streams in ((1, None, 0), (50, None, 0), (50, 7, 0), (10, 1, 0), (10, None, 10), (5, 7, 3)):
        arguments = ["-n", str(a.requests), "-c", str(connections)] + (["--per-connection", str(each)] if each else [])
        arguments += ["--http2", "--streams", str(streams)] if streams else []
        # Over HTTP/2 there are bytes that are of no message: settings, windows.
        beside = [("nginx's access log", beside_nginx)] + [("the kernel's TCP_INFO", beside_the_kernel)] * (not streams)
        for name, run in beside:
            said, seen = run(arguments)
            same = said == seen
            report.bad |= not same
            lines.append([" ".join(arguments), name, *(f"{ours:,}" + ("" if ours == theirs else f" **({theirs:,})**") for ours, theirs in zip(said, seen)), "the same" if same else "**differs**"])
    report.plain("Counts of lockgate load, and in bold what the other side saw where that is something else", ["load", "beside", "requests", "bytes sent", "bytes received", "connections", ""], lines,
                 ["The first request, which is in no stage, is taken off the other side's counts; so is the one that the kernel counts for each FIN."])


def load(port, arguments):
    """(requests, bytes sent, bytes received, connections) as load counts them, and the bytes of its first request."""
    said = subprocess.run([LOCKGATE, "load", f"http://127.0.0.1:{port}/", "--json", "-", "--quiet", *arguments], capture_output=True, check=True)
    stage = json.loads(said.stdout)["stages"][0]
    assert stage["failed"] == 0, stage["failures"]
    return stage["succeeded"], stage["bytes_sent"], stage["bytes_received"], stage["connections_opened"]


def beside_nginx(arguments):
    directory, port = processes.fresh_directory("counts"), processes.free_port()
    http2 = "--http2" in arguments
    conf = os.path.join(directory, "nginx.conf")
    log = os.path.join(directory, "access.log")
    with open(conf, "w") as f:
        f.write(f"""daemon off; user root; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log crit; events {{ worker_connections 1000; }}
http {{ log_format counts "$connection $request_length $bytes_sent"; access_log {log} counts; keepalive_requests 1000000000;
client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
server {{ listen 127.0.0.1:{port}{' http2' * http2}; location / {{ return 200 "{'x' * 1000}"; }} }} }}""")
    nginx = Process(["nginx", "-p", directory, "-c", conf, "-e", f"{directory}/error.log"], processes.TESTED, "nginx")
    assert nginx.listens(port), nginx.said()
    said = load(port, arguments)
    nginx.stop()
    with open(log) as f:
        seen = [[int(n) for n in line.split()] for line in f]
    # The first line is the first request, on a connection of its own.
    first, seen = seen[0], seen[1:]
    # nginx counts what is in the frames of a request, and the frames of an answer with their heads of 9 bytes.
    heads = 9 * len(seen) if http2 else 0
    return said, (len(seen), sum(l[1] for l in seen) + heads, sum(l[2] for l in seen), len({l[0] for l in seen} - {first[0]}))


def beside_the_kernel(arguments):
    origin = subprocess.Popen(["python3", os.path.join(os.path.dirname(__file__), "..", "src", "tcp-info.py"), "1000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said = load(int(origin.stdout.readline()), arguments)
    seen = json.loads(origin.communicate()[0])
    requests, connections = seen["requests"] - 1, seen["connections"] - 1
    # All requests are alike, and so are all answers.
    sent, received = (seen["received"] - seen["connections"]) * requests // seen["requests"], seen["sent"] * requests // seen["requests"]
    return said, (requests, sent, received, connections)
