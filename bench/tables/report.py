"""Tables in Markdown: medians of interleaved rounds, their spread, the ratio to the best peer; all records as JSON.

A round with an error is invalid: it is shown and not counted. A peer that did not start is a row that says so.
"""
import datetime
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys

from . import peers
from .processes import REPOSITORY, busy_now

ENOUGH = 7  # interleaved rounds before a ratio counts as reached or not


class Report:
    def __init__(self, arguments, json_path=None):
        self.command = "bench/run " + shlex.join(arguments)
        self.json_path, self.cells, self.bad = json_path, [], False
        self.machine = machine()

    def head(self, what, seconds):
        m = self.machine
        say(f"## {what}\n")
        say(f"{m['date']}, commit {m['commit']}, `{self.command}`, about {duration(seconds)}  ")
        say(f"{m['cpu']}, {m['cores']} cores, Linux {m['kernel']}, somaxconn {m['somaxconn']}, {m['congestion']}, {m['busy']:.0%} busy before  ")
        say("; ".join(f"{k}: {v}" for k, v in m["versions"].items()) + "\n")
        if m["congestion"] != "cubic":
            say(f"**TCP here is {m['congestion']}, not the kernel's own default, cubic.** BBR paces by a timer for every burst, which costs every "
                "program the same and so moves the ratios of plain TCP: `sysctl -w net.ipv4.tcp_congestion_control=cubic`.\n")
        if m["busy"] > 0.05:
            say("**The machine was not idle: these figures do not count.**\n")

    def cell(self, title, rows, columns, cost=None, rivals=(), goal=None, notes=()):
        """Prints one table. `rows`: name to records or to a string that says why there are none.

        `cost` is the figure whose ratio to the best of `rivals` is shown and held against `goal`.
        """
        say(f"### {title}\n")
        summaries = {name: summary(records) for name, records in rows.items()}
        best = min(((s["median"][cost], name) for name, s in summaries.items() if name in rivals and s["valid"] and s["median"].get(cost)), default=None)
        heads = ["", *(c[0] for c in columns)] + (["÷ best peer", "spread"] if cost else []) + ["rounds", "errors"]
        say("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        for name, s in summaries.items():
            if s["failed"]:
                say(f"| {name} | **{one_line(s['failed'])}** |" + " |" * (len(heads) - 2))
                self.bad |= name.startswith("lockgate")
                continue
            cells = [name] + [figure(s["median"].get(key), digits) for _, key, digits in columns]
            if cost:
                ratio = s["median"][cost] / best[0] if best and s["valid"] and s["median"].get(cost) else None
                cells += [figure(ratio, 2), f"{s['spread'][cost]:.0%}" if s["valid"] > 1 and cost in s["spread"] else ""]
            cells += [f"{s['valid']}" if s["valid"] == s["all"] else f"**{s['valid']} of {s['all']} valid**", s["errors"] or "0"]
            say("| " + " | ".join(cells) + " |")
            self.bad |= bool(s["errors"]) and name.startswith("lockgate")
        say("")
        disturbed = [f"{s['median']['others_percent']:.0f} % beside {name}" for name, s in summaries.items() if s["median"].get("others_percent", 0) > 5]
        for note in [*notes, *(["**Other programs used the tested core:** " + ", ".join(disturbed)] if disturbed else [])]:
            say(note + "\n")
        ours = summaries.get("lockgate")
        if goal and cost and best and ours and ours["valid"]:
            ratio = ours["median"][cost] / best[0]
            verdict = "reached" if ratio <= goal else "NOT reached"
            few = "" if ours["valid"] >= ENOUGH else f" (of {ours['valid']} rounds; {ENOUGH} are needed to say so)"
            say(f"Lockgate: {ratio:.2f} × {best[1]}, the best peer; to reach ≤ {goal}: **{verdict}**{few}.\n")
        self.cells.append({"title": title, "goal": goal, "cost": cost, "rivals": list(rivals), "rows": rows})
        self.save()

    def plain(self, title, heads, lines, notes=()):
        """Prints a table of finished cells, for what has no rounds."""
        say(f"### {title}\n\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        for line in lines:
            say("| " + " | ".join(one_line(str(c)) for c in line) + " |")
        say("")
        for note in notes:
            say(note + "\n")
        self.cells.append({"title": title, "heads": heads, "lines": lines, "notes": list(notes)})
        self.save()

    def save(self):
        if self.json_path:
            with open(self.json_path, "w") as f:
                json.dump({"command": self.command, "machine": self.machine, "cells": self.cells}, f, indent=1, default=str)


def summary(records):
    if isinstance(records, str):
        return {"failed": records, "valid": 0, "all": 0, "median": {}, "spread": {}, "errors": ""}
    good = [r for r in records if not r.get("errors")]
    median, spread = {}, {}
    for key in {k for r in good for k, v in r.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}:
        values = [r[key] for r in good if r.get(key) is not None]
        median[key] = statistics.median(values)
        spread[key] = (max(values) - min(values)) / median[key] if median[key] else 0
    for key in {k for r in good for k, v in r.items() if isinstance(v, str)}:
        median[key] = ", ".join(sorted({r[key] for r in good if r.get(key)}))
    errors = {}
    for r in records:
        for kind, n in (r.get("errors") or {}).items():
            errors[kind] = errors.get(kind, 0) + n
    return {"failed": "", "valid": len(good), "all": len(records), "median": median, "spread": spread,
            "errors": ", ".join(f"**{n} {kind}**" for kind, n in errors.items())}


def interleaved(programs, rounds, measure):
    """A B C A B C …: {name: [record, …]}; `programs` is {name: program or a string that says why there is none}."""
    rows = {name: program if isinstance(program, str) else [] for name, program in programs.items()}
    for number in range(rounds):
        for name, program in programs.items():
            if isinstance(program, str):
                continue
            if hasattr(program, "alive") and not program.alive():
                record = {"errors": {f"it ended with {program.popen.returncode}": 1}}
            else:
                record = measure(name, program)
            rows[name].append(record)
            progress(f"round {number + 1}/{rounds} {name}")
    progress("")
    return rows


def same_work(rows):
    """A note when the peers did not negotiate the same TLS."""
    seen = {name: rows[name] for name in rows if rows[name]}
    if len(set(seen.values())) > 1:
        return ["**Not the same work:** " + "; ".join(f"{n}: {t}" for n, t in seen.items())]
    return [f"TLS: {next(iter(seen.values()))}."] if seen else []


def machine():
    def git(*arguments):
        return subprocess.run(["git", "-C", REPOSITORY, *arguments], capture_output=True, text=True).stdout.strip()
    with open("/proc/cpuinfo") as f:
        model = re.search(r"model name\s*:\s*(.*)", f.read())
    with open("/proc/sys/net/core/somaxconn") as f:
        somaxconn = int(f.read())
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as f:
        congestion = f.read().strip()
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "commit": git("rev-parse", "--short=12", "HEAD") + (" with changes" if git("status", "--porcelain", "--untracked-files=no") else ""),
            "cpu": model.group(1) if model else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(), "somaxconn": somaxconn, "congestion": congestion,
            "busy": busy_now(), "versions": peers.versions()}


def figure(value, digits):
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:,.{digits}f}"


def one_line(text):
    return " ".join(text.split()).replace("|", "\\|")


def duration(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def say(text):
    print(text, flush=True)


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def digest(files):
    """One table for each file that --json wrote: a line for each measured case, the programs side by side."""
    for path in files:
        with open(path) as f:
            run = json.load(f)
        m = run["machine"]
        say(f"{m['date']}, commit {m['commit']}, `{re.sub(' --json [^ ]+', '', run['command'])}`, {m['congestion']}.\n")
        cells = [c for c in run["cells"] if c.get("cost")]
        names = list(dict.fromkeys(name for c in cells for name in c["rows"]))
        say("| | " + " | ".join(names) + " | ÷ best peer | to reach | spread of ours | rounds | errors |\n|" + "---|" * (len(names) + 6))
        for c in cells:
            found = {name: summary(records) for name, records in c["rows"].items()}
            cost = {name: s["median"][c["cost"]] for name, s in found.items() if s["valid"] and s["median"].get(c["cost"])}
            among = c.get("rivals") or [name for name in cost if not name.startswith(("lockgate", "node"))]
            best = min((cost[name] for name in among if name in cost), default=None)
            ours = found.get("lockgate")
            ratio = cost["lockgate"] / best if best and "lockgate" in cost else None
            say("| " + " | ".join([
                c["title"], *(figure(cost.get(name), 3 if cost.get(name, 9) < 9 else 1) for name in names),
                f"**{ratio:.2f}**" if ratio else "", f"≤ {c['goal']}" if c["goal"] else "",
                f"{ours['spread'][c['cost']]:.0%}" if ours and ours["valid"] > 1 else "",
                "/".join(str(n) for n in sorted({s["valid"] for s in found.values()})),
                "; ".join(f"{name}: {s['errors'] or s['failed']}" for name, s in found.items() if s["errors"] or s["failed"]) or "0",
            ]) + " |")
        say("")
