"""`lockgate load` as the generator: rates, ladders of them, reconnects and tunnels, where latency is what is asked for.

Every stage of a run is a record. Its CPU time is the program's own between the stage's begin and end, as the generator reads it
(`--watch`), in ticks of 10 ms: right to 2 % where the program takes a second.
"""
import json
import subprocess
import time

from . import load, processes
from .processes import LOAD, OTHERS, Process

PERCENTILES = ("p50", "p90", "p99", "p99_9", "p99_99", "max")


def run(program, url, *options, counted=None, direct=False, cores=OTHERS, seconds=600):
    """The stages of one run, a record each; `counted`: the origin's counters, which must agree; `direct`: the program is the origin itself.

    A run that the generator gave up is one record with that as its error.
    """
    watch = [] if direct else ["--watch", f"program={program.pid}"]
    before = counted.read() if counted else None
    said, why = generated(url, *options, *watch, cores=cores, seconds=seconds)
    if not said:
        return [{"errors": {why: 1}}]
    program.until_quiet()
    records = [record(stage) for stage in said["stages"]]
    if counted:
        came = counted.read()["requests"] - before["requests"]
        told = said["uncounted"] + sum(stage["succeeded"] for stage in said["stages"])
        doubtful = sum(stage["failed"] + stage["cut"] for stage in said["stages"])  # they may have come to the origin
        if not told <= came <= told + doubtful:
            records[-1]["errors"][f"{came:,} requests at the origin, {told:,} to {told + doubtful:,} told"] = 1
    return records


def generated(url, *options, cores=OTHERS, seconds=600):
    """What one run of the generator says; or None and why there is nothing."""
    generator = Process([LOAD, "load", url, *map(str, options), "--quiet", "--json", "-"], cores, "load", stdout=subprocess.PIPE)
    try:
        out, _ = generator.popen.communicate(timeout=seconds)
        said = json.loads(out)
    except (subprocess.TimeoutExpired, ValueError):
        said = None
    generator.stop()
    if not said or not said["stages"]:
        return None, "load: " + (" ".join(generator.said().split())[-160:] or "nothing said")
    return said, None


# One suite and one group for all programs, as load.offer() has it for the other generators.
TLS_OFFERED = ["--insecure", "--tls", "1.3", "--suites", "TLS13_AES_128_GCM_SHA256", "--groups", "X25519"]


def whole(program, url, *options, size=0):
    """Weighs the program by the scheduler's clock over one run of one stage, its connections' begin and end included; milliseconds.

    `size`: bytes that a success moves, for the cost of a gigabyte. Of a connection for each request, `resumed_percent` were resumed.
    """
    program.until_quiet()
    before, core_before, began = program.cpu(), processes.busy(0), time.monotonic()
    said, why = generated(url, *options, "--warm-up", "0", "--watch", f"program={program.pid}")
    if not said:
        return {"errors": {why: 1}}
    lasted = time.monotonic() - began
    disturbed = load.others(program.cpu() - before, processes.busy(0) - core_before, lasted)
    program.until_quiet()
    stage = said["stages"][0]
    # What came after the end was worked for as well.
    requests = stage["succeeded"] + stage["late"]
    found = load.weighed(program.cpu() - before, requests, requests * size, stage["elapsed_s"])
    found |= {key: stage["latency_us"][f"{key[:3]}_{key[3:]}" if key == "p999" else key] for key in ("p50", "p90", "p99", "p999", "max")}
    found |= {key: found[key] / 1e3 for key in ("p50", "p90", "p99", "p999", "max") if found[key] is not None}
    found |= {"connections": stage["connections_opened"], "resumed_percent": 100 * stage["connections_resumed"] / max(1, stage["connections_opened"]), "others_percent": disturbed}
    found["tls"] = next((" ".join(str(word) for word in one["tls"].values()) if isinstance(one["tls"], dict) else str(one["tls"]) for one in said["first"] if one["tls"]), "")
    watched = next(iter(stage["watched"]), {})
    if watched.get("bytes_per_connection"):
        found["kb"] = watched["bytes_per_connection"] / 1e3
    return found | {"errors": {kind: n for kind, n in stage["failures"].items() if n} | ({} if requests else {"no request": 1})}


def record(stage):
    """A stage in the words of the tables: microseconds, and what was wrong with it."""
    taken = {key: stage["latency_us"][key] for key in PERCENTILES}
    watched = next(iter(stage["watched"]), {})
    limits = [one["why"] for one in stage["invalid"]]
    found = taken | {"name": stage["name"], "rate": stage["rate"], "requests": stage["succeeded"], "per_second": stage["succeeded_per_s"], "cpu_us": watched.get("cpu_us_per_success"),
                     "limits": "; ".join(limits), "errors": {kind: n for kind, n in stage["failures"].items() if n}}
    if watched:
        core = next((cpu for cpu in stage["cpus"] if cpu["cpu"] == 0), None)
        if core:
            found["others_percent"] = 100 * max(0, core["processes_s"] - watched["user_s"] - watched["system_s"]) / stage["elapsed_s"]
    return found


def ladder(top, steps):
    """Options of a ladder of so many equal steps up to `top` a second; how long is left to say."""
    step = max(1, round(top / steps))
    return ["--rate", f"{step}..{step * steps}", "--step", step]
