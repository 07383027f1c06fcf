"""Tables in Markdown: medians of interleaved rounds, the ratio to the best peer with its interval and verdict; all records as JSON.

A round with an error is invalid: it is shown and not counted. A peer that did not start is a row that says so.
Ratios are of pairs from the same round; their interval and verdict are by the sign test, as in crates/lockgate-compare/src/statistics.rs.
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

from dataclasses import dataclass

from . import binaries, peers, processes
from .processes import REPOSITORY, busy_now

ENOUGH = 7  # interleaved rounds before a ratio counts as reached or not
CONFIDENCE = 0.95  # of the interval of a ratio


@dataclass(frozen=True)
class Ratio:
    """Ours ÷ another's, from rounds in which both were measured."""
    median: float
    interval: tuple | None  # of the true median; None for fewer than 6 rounds
    rounds: int

    @classmethod
    def of(cls, above, below, key):
        """Of the records of two programs; pairs in which one is invalid or not above zero do not count."""
        values = [(a.get(key), b.get(key)) for a, b in zip(above, below) if not a.get("errors") and not b.get("errors")]
        found = sorted(a / b for a, b in values if a and b and a > 0 and b > 0)
        if not found:
            return None
        out = sign_test(len(found))
        return cls(statistics.median(found), None if out is None else (found[out], found[-1 - out]), len(found))

    @property
    def verdict(self):
        """On which side of 1 the ratio is, where the interval has no 1 in it."""
        if self.interval and self.interval[1] < 1:
            return "less"
        if self.interval and self.interval[0] > 1:
            return "more"
        return "not shown"

    def reaches(self, goal):
        """The median is at or under the goal, and where that says "less" the sign test says so too."""
        return self.median <= goal and (self.verdict == "less" if goal < 1 else goal > 1 or self.verdict != "more")

    def __str__(self):
        return f"{self.median:.2f}" + (f" [{self.interval[0]:.2f}–{self.interval[1]:.2f}]" if self.interval else "")


def sign_test(n):
    """How many of n ordered values to leave out at each end, so that the rest covers the median with CONFIDENCE; None: n is too few, it takes 6.

    Each value is above the median with a probability of a half: their number is binomial.
    """
    chance, below, found = 0.5 ** n, 0.0, None
    for out in range((n + 1) // 2):
        below += chance
        if 1 - 2 * below < CONFIDENCE:
            break
        found = out
        chance *= (n - out) / (out + 1)
    return found


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
        if processes.CLIENTS.enter:
            say("Clients and origin are in network namespaces of their own, and what is sent to a program is received on its own core.\n")
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
        best = best_of(rows, cost, rivals)
        heads = ["", *(c[0] for c in columns)] + (["÷ best peer", "spread"] if cost else []) + ["rounds", "errors"]
        say("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        for name, s in summaries.items():
            if s["failed"]:
                say(f"| {binaries.named(name)} | **{one_line(s['failed'])}** |" + " |" * (len(heads) - 2))
                self.bad |= name.startswith("lockgate")
                continue
            cells = [binaries.named(name)] + [figure(s["median"].get(key), digits) for _, key, digits in columns]
            if cost:
                ratio = Ratio.of(rows[name], rows[best], cost) if best and name != best else None
                cells += [str(ratio or ("1" if name == best else "")), f"{s['spread'][cost]:.0%}" if s["valid"] > 1 and cost in s["spread"] else ""]
            cells += [f"{s['valid']}" if s["valid"] == s["all"] else f"**{s['valid']} of {s['all']} valid**", s["errors"] or "0"]
            say("| " + " | ".join(cells) + " |")
            self.bad |= bool(s["errors"]) and name.startswith("lockgate")
        say("")
        disturbed = [f"{s['median']['others_percent']:.0f} % beside {name}" for name, s in summaries.items() if s["median"].get("others_percent", 0) > 5]
        for note in [*notes, *(["**Other programs used the tested core:** " + ", ".join(disturbed)] if disturbed else [])]:
            say(note + "\n")
        if cost and best and summaries.get("lockgate", {"valid": 0})["valid"]:
            say(told(Ratio.of(rows["lockgate"], rows[best], cost), binaries.named(best), goal) + "\n")
        self.cells.append({"title": title, "goal": goal, "cost": cost, "columns": columns, "rivals": list(rivals), "rows": rows, "notes": list(notes)})
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


def best_of(rows, cost, rivals):
    """The peer with the least median cost; None where none has one."""
    medians = {name: summary(rows[name])["median"].get(cost) for name in rivals if name in rows and not isinstance(rows[name], str)}
    return min((name for name in medians if medians[name]), key=medians.get, default=None)


def told(ratio, peer, goal):
    """The ratio, the verdict, and whether a goal is reached, in a sentence."""
    if not ratio:
        return f"No round has figures of both Lockgate and {peer}."
    text = f"Lockgate: {ratio} × {peer}, the best peer, {ratio.rounds} rounds: {ratio.verdict}"
    if goal is None:
        return text + "."
    if ratio.rounds < ENOUGH:
        return f"{text}; to reach ≤ {goal}: {ENOUGH} rounds are needed to say so."
    return f"{text}; to reach ≤ {goal}: **{'reached' if ratio.reaches(goal) else 'NOT reached'}**."


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
    """A B C, C B A, B C A, A C B, …: {name: [record, …]}, a record a round; `programs` is {name: program or a string that says why there is none}.

    The order turns, so that none has always the same one before it. What dies in the middle, the program or its origin, and
    what a measurement breaks with, is the error of that round; the others go on.
    """
    rows = {name: program if isinstance(program, str) else [] for name, program in programs.items()}
    running = [name for name, program in programs.items() if not isinstance(program, str)]
    for number in range(rounds):
        for name in turn(running, number):
            program, record, before = programs[name], {}, processes.running()
            if not (died := gone(program, programs.values())):
                try:
                    record = measure(name, program)
                except (OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, subprocess.SubprocessError) as why:
                    record = {"errors": {one_line(f"{type(why).__name__}: {why}")[:160]: 1}}
                    processes.stop_but(before)
                died = gone(program, programs.values())
            if died:
                record["errors"] = (record.get("errors") or {}) | died
            rows[name].append(record)
            progress(f"round {number + 1}/{rounds} {name}")
    progress("")
    return rows


def gone(program, tested=()):
    """What has ended that this program's round needs, as errors: itself, and whatever is none of those under test, as the origin."""
    return {f"{one.name} ended with {one.popen.returncode}": 1 for one in processes.ended() if one is program or one not in tested}


def turn(names, number):
    """The order of a round: it begins one further each second time, and runs backwards between."""
    start = number // 2 % max(1, len(names))
    order = names[start:] + names[:start]
    return order[::-1] if number % 2 else order


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
            best = min((name for name in among if name in cost), key=cost.get, default=None)
            ours = found.get("lockgate")
            ratio = Ratio.of(c["rows"]["lockgate"], c["rows"][best], c["cost"]) if best and "lockgate" in cost else None
            say("| " + " | ".join([
                c["title"], *(figure(cost.get(name), 3 if cost.get(name, 9) < 9 else 1) for name in names),
                f"**{ratio}**" if ratio else "", f"≤ {c['goal']}" if c["goal"] else "",
                f"{ours['spread'][c['cost']]:.0%}" if ours and ours["valid"] > 1 else "",
                "/".join(str(n) for n in sorted({s["valid"] for s in found.values()})),
                "; ".join(f"{name}: {s['errors'] or s['failed']}" for name, s in found.items() if s["errors"] or s["failed"]) or "0",
            ]) + " |")
        say("")
