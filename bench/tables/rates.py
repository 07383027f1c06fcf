"""`lockgate load` as the generator: rates, ladders of them, reconnects and tunnels, where latency is what is asked for.

Every stage of a run is a record. Its CPU time is the program's own between the stage's begin and end, as the generator reads it
(`--watch`), in ticks of 10 ms: right to 2 % where the program takes a second.
"""
import json
import subprocess

from .processes import LOAD, OTHERS, Process

PERCENTILES = ("p50", "p90", "p99", "p99_9", "p99_99", "max")


def run(program, url, *options, counted=None, direct=False, cores=OTHERS, seconds=600):
    """The stages of one run, a record each; `counted`: the origin's counters, which must agree; `direct`: the program is the origin itself.

    A run that the generator gave up is one record with that as its error.
    """
    watch = [] if direct else ["--watch", f"program={program.pid}"]
    before = counted.read() if counted else None
    load = Process([LOAD, "load", url, *map(str, options), *watch, "--quiet", "--json", "-"], cores, "load", stdout=subprocess.PIPE)
    try:
        out, _ = load.popen.communicate(timeout=seconds)
        said = json.loads(out)
    except (subprocess.TimeoutExpired, ValueError):
        said = None
    load.stop()
    if not said or not said["stages"]:
        return [{"errors": {"load: " + (" ".join(load.said().split())[-160:] or "nothing said"): 1}}]
    program.until_quiet()
    records = [record(stage) for stage in said["stages"]]
    if counted:
        came = counted.read()["requests"] - before["requests"]
        told = said["uncounted"] + sum(stage["succeeded"] for stage in said["stages"])
        doubtful = sum(stage["failed"] + stage["cut"] for stage in said["stages"])  # they may have come to the origin
        if not told <= came <= told + doubtful:
            records[-1]["errors"][f"{came:,} requests at the origin, {told:,} to {told + doubtful:,} told"] = 1
    return records


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
