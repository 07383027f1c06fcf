"""The tables of files: what serving one costs, what a page costs that is changed as it is served, and memory under very many."""
import hashlib
import os
import random
import re
import socket
import subprocess
import time

from . import folders, load, peers, processes
from .folders import MARK, MARKS, Folder
from .load import H2load, Wrk
from .report import ENOUGH, figure, interleaved, progress, same_work, summary
from .throughput import COST, asked, rivals, stop_programs

FRONTS = {"http": "HTTP/1.1", "https": "HTTP/1.1 over TLS", "h2": "HTTP/2 over TLS", "h2c": "HTTP/2 without TLS"}
STATIC, HTTP2, PLAIN = ("http", "https", "h2"), ("h2", "h2c"), ("http", "h2c")
FILES = {"811": ("page811.html", 811, 0.8), "100k": ("page100k.html", 105_600, 0.9), "850k": ("file850k.zip", 855_697, 1.0)}
OVER_TLS, OVER_H2 = 0.7, 0.8  # to reach, of any size
ANSWERED = [*COST[:4], ("mean ms", "mean", 2), ("max ms", "max", 1)]
COLUMNS = {"http": COST, "https": COST, "h2": ANSWERED, "h2c": ANSWERED}


def files(report, a):
    """Files of 811 B, 100 KB and 850 KB: c = 100 plain and over TLS, and 10 × 10 streams of HTTP/2; beside nginx with open_file_cache."""
    report.head("Files", len(a.fronts) * len(a.sizes) * len(a.peers) * a.rounds * (a.secs + 1))
    root = processes.fresh_directory("files")
    for name, size, _ in FILES.values():
        write(root, name, content(name, size))
    for front in a.fronts:
        programs = started(a.peers, lambda _: Folder(root=root, **tls(front)))
        notes = same_work(asked_over(front, programs))
        for size in a.sizes:
            name, length, goal = FILES[size]
            jobs = {p: one_fetch(program, front, f"/{name}", digest_of(os.path.join(root, name))) for p, program in programs.items()}
            found = interleaved(programs, a.rounds, lambda p, program: measured(program, front, jobs[p], a.conns, a.secs))
            report.cell(f"{length:,} B, {FRONTS[front]}, {shape(front, a.conns)}", found, COLUMNS[front], cost="cpu_us", rivals=[p for p in a.peers if p.startswith(("nginx", "h2o"))],
                        goal={"http": goal, "https": OVER_TLS, "h2": OVER_H2}[front], notes=notes)
        stop_programs(programs)


def tls(front):
    return {"key": None if front in PLAIN else "ecdsa", "h2": front in HTTP2}


def shape(front, conns):
    return f"{conns // 10} × 10 streams" if front in HTTP2 else f"c = {conns}"


def asked_over(front, programs):
    return {} if front in PLAIN else asked(programs)


def started(names, folder):
    """Each program with its folder, or the string that says why there is none."""
    programs = {}
    for name in names:
        try:
            programs[name] = folders.start(name, folder(name))
        except peers.DidNotStart as why:
            programs[name] = str(why)
    return programs


class Job:
    """One path, what its answer was by hand, and whether that was right."""

    def __init__(self, path, got, wrong=None, accept=None, slack=0):
        self.path, self.length, self.wrong, self.accept, self.slack = path, got.length, wrong, accept, slack
        self.whole, self.coding = 0 if slack else got.length + got.head, got.coding or "none"


def measured(program, front, job, conns, secs):
    """One run; what was wrong with the answer that was looked at by hand makes it invalid."""
    if job.wrong:
        return {"errors": {job.wrong: 1}}
    if front in HTTP2:
        return load.h2load(program, program.port, H2load(job.path, job.length, None, conns // 10, 10, job.accept, job.slack, front not in PLAIN), secs)
    return load.closed_loop(program, program.port, Wrk(conns, get=job.length, path=job.path, accept=job.accept, slack=job.slack), secs, front != "http", job.whole)


def one_fetch(program, front, path, right, accept=None):
    """Fetches a file by curl, whose bytes, the coding taken off, are to have this hash."""
    if isinstance(program, str):
        return None
    got = Got(program.port, front, path, accept)
    wrong = got.wrong or ("other content" if hashlib.sha256(got.body).hexdigest() != right else None)
    return Job(path, got, wrong, accept)


class Got:
    """What curl got: the body without its coding, how long it and its head were on the wire, its coding, and what was wrong."""

    def __init__(self, port, front, path, accept=None):
        scheme, version = "http" if front in PLAIN else "https", {"h2": "--http2", "h2c": "--http2-prior-knowledge"}.get(front, "--http1.1")
        file = os.path.join(processes.scratch(), "fetched")
        argv = ["curl", "-s", "-k", version, "-o", file, "-m", "20", "-w", "%{http_code} %{http_version} %{size_download} %{size_header} %header{content-encoding}"]
        argv += ["--compressed", "-H", f"Accept-Encoding: {accept}"] if accept else []
        said = subprocess.run([*argv, f"{scheme}://127.0.0.1:{port}{path}"], capture_output=True, text=True)
        status, spoken, length, head, *coding = (said.stdout or "0 0 0 0").split()
        self.length, self.head, self.coding, self.body, self.wrong = int(length), int(head), coding[0] if coding else "", b"", None
        if status != "200":
            self.wrong = f"status {status}" if status != "000" else f"curl ended with {said.returncode}"
        elif spoken != ("2" if front in HTTP2 else "1.1"):
            self.wrong = f"HTTP/{spoken}"
        else:
            with open(file, "rb") as f:
                self.body = f.read()


def write(root, name, data):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def digest_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


WORDS = ("the of and to in is that for it as was with be by on not his but at are this have from or had an they which one you were all her she there would their we him been "
         "has when who will more no if out so said what up its about into than them can only other new some could time these two may then do first any my now such like our over").split()


def content(name, size):
    """Bytes of this kind of file, the same in every run."""
    chance = random.Random(7)
    return page(size) if name.endswith(".html") else b"PK\3\4" + chance.randbytes(size - 4)


def page(size, mark=None):
    """A page of words; `mark` stands in its head, in its middle and at its end."""
    chance = random.Random(7)
    begin = f"<!doctype html>\n<html lang=\"en\"><head><title>A page</title>{f'<meta name=request content={chr(34)}{mark}{chr(34)}>' if mark else ''}</head><body>\n"
    end = f"<p>{mark}</p></body></html>\n" if mark else "</body></html>\n"
    middle = f"<p>{mark}</p>\n" if mark else ""
    left = size - len(begin) - len(end)
    paragraphs, length = [], 0
    while length < left:
        paragraphs.append("<p>" + " ".join(chance.choice(WORDS) for _ in range(40)) + "</p>\n")
        length += len(paragraphs[-1])
    half = len(paragraphs) // 2
    text = "".join(paragraphs[:half]) + middle + "".join(paragraphs[half:])
    cut = text[:left - 5]
    return (begin + cut[:cut.rfind(" ")] + " " * (left - 5 - cut.rfind(" ")) + "</p>\n" + end).encode()


# T3: a page with everything on. What each variant has, and whether the client accepts codings.
SIZE, CONNECTIONS = 105_600, 60
CODINGS = "zstd, br, gzip"
ALL = {"cache": True, "limit": True, "change": True}
VARIANTS = {
    "bare": ({}, False),
    "cache": ({"cache": True}, False),
    "limit": ({"limit": True}, False),
    "change": ({"change": True}, False),
    "all": (ALL, False),
    "bare-coded": ({"compress": True}, True),
    "change-coded": ({"compress": True, "change": True}, True),
    "all-coded": (ALL | {"compress": True}, True),
}
KEPT = 0.75      # requests per CPU-second that the changed page keeps of the bare one's
EVERYTHING = 1.15  # what all together may cost beside the changed page
CODED = 1.1      # what the unchanged page may cost from the cache of compressed ones beside the bare one
VALUE = rb"[0-9A-Za-z_.-]{6,64}"


def page_change(report, a):
    """T3: a page of 105,600 bytes, c = 60: bare, with rules for caches, a rate limit, another value in every answer, and all of that; each compressed too."""
    runs = sum(1 for name in a.peers for v in a.variants if not folders.cannot(name, folder_of(name, "", v, "http")))
    report.head("A page changed as it is served (T3)", len(a.fronts) * runs * a.rounds * (a.secs + 0.7))
    root = processes.fresh_directory("page")
    write(root, "bare.html", page(SIZE))
    write(root, "mark.html", page(SIZE, MARK))
    for name, mark in MARKS.items():
        write(root, f"mark-{name}.html", page(SIZE, mark))
    for front in a.fronts:
        page_over(report, a, root, front)


def folder_of(name, root, variant, front):
    features, _ = VARIANTS[variant]
    return Folder(root=root, **tls(front), **(features | ({"change": MARKS.get(name, MARK)} if "change" in features else {})))


def page_over(report, a, root, front):
    programs, reasons = {}, {}
    for variant in a.variants:
        for name in a.peers:
            folder = folder_of(name, root, variant, front)
            if why := folders.cannot(name, folder):
                reasons[name, variant] = why
                continue
            programs |= {(name, variant): p for p in started([name], lambda _, folder=folder: folder).values()}
    notes = same_work(asked_over(front, {name: p for (name, variant), p in programs.items() if variant == a.variants[0]}))
    jobs = {key: looked_at(root, front, *key, program) for key, program in programs.items()}

    def measure(key, program):
        job = jobs[tuple(key.split(": "))]
        return measured(program, front, job, CONNECTIONS, a.secs) | {"coding": job.coding, "length": job.length}
    found = interleaved({named(key): p for key, p in programs.items()}, a.rounds, measure)
    for variant in a.variants:
        rows = {name: found[named((name, variant))] for name in a.peers if (name, variant) in programs}
        missing = [f"{name}: – ({reasons[name, variant]})." for name in a.peers if (name, variant) in reasons]
        report.cell(f"{variant}, {FRONTS[front]}, {shape(front, CONNECTIONS)}", rows, [*COLUMNS[front], ("bytes of a body", "length", 0), ("coding", "coding", 0)],
                    cost="cpu_us", rivals=rivals([name for name in a.peers if (name, variant) in programs]), notes=[*notes, *([" ".join(missing)] if missing else [])])
    together(report, a, front, found, reasons)
    stop_programs(programs)


def named(key):
    return ": ".join(key)


def looked_at(root, front, name, variant, program):
    """Fetches the page twice by hand: content right, another value in each where it is changed, compressed where that is asked for."""
    if isinstance(program, str):
        return None
    features, coded = VARIANTS[variant]
    marked = "change" in features
    file = "bare.html" if not marked else f"mark-{name}.html" if name in MARKS else "mark.html"
    first, second = (Got(program.port, front, f"/{file}", CODINGS if coded else None) for _ in range(2))
    wrong = first.wrong or second.wrong
    if not wrong and coded != bool(first.coding):
        wrong = "not compressed" if coded else f"compressed with {first.coding}"
    if not wrong:
        with open(os.path.join(root, file), "rb") as f:
            wrong = content_wrong(f.read(), MARKS.get(name, MARK).encode() if marked else None, first.body, second.body)
    return Job(f"/{file}", first, wrong, CODINGS if coded else None, slack=first.length // 50 if coded else 0)


def content_wrong(original, mark, first, second):
    """What is wrong with two answers: every mark must be the answer's own value, and all else as it is in the file."""
    if not mark:
        return None if first == second == original else "other content"
    whole = re.compile(b"(" + VALUE + b")" + b"".join(re.escape(part) + b"(" + VALUE + b")" for part in original.split(mark)[1:-1]))
    begin, end = original.split(mark)[0], original.split(mark)[-1]
    values = []
    for body in (first, second):
        if not (body.startswith(begin) and body.endswith(end)):
            return "other content"
        found = whole.fullmatch(body[len(begin):len(body) - len(end)])
        if not found:
            return "other content, or a mark that was left"
        values.append(set(found.groups()))
    return "the same value in two answers" if values[0] & values[1] else None


def together(report, a, front, found, reasons):
    """Requests per CPU-second of all variants, and the ratios that are to be reached."""
    cost = {key: s["median"].get("cpu_us") for key, records in found.items() if (s := summary(records))["valid"]}

    def per_second(name, variant):
        if (name, variant) in reasons:
            return "–"
        us = cost.get(named((name, variant)))
        return figure(1e6 / us, 0) if us else "**none**"

    def ratio(name, over, under, turned=False):
        one, other = cost.get(named((name, over))), cost.get(named((name, under)))
        return (other / one if turned else one / other) if one and other else None

    ratios = [("change ÷ bare, requests", ("change", "bare", True), KEPT, "≥"), ("all ÷ change, CPU", ("all", "change"), EVERYTHING, "≤"), ("bare coded ÷ bare, CPU", ("bare-coded", "bare"), CODED, "≤")]
    lines = [[name, *(per_second(name, v) for v in a.variants), *(figure(ratio(name, *which), 2) or "–" for _, which, _, _ in ratios)] for name in a.peers]
    verdicts = []
    for title, which, goal, relation in ratios:
        value = ratio("lockgate", *which)
        if value is not None:
            reached = value >= goal if relation == "≥" else value <= goal
            valid = min(summary(found[named(("lockgate", variant))])["valid"] for variant in which[:2])
            few = "" if valid >= ENOUGH else f" (of {valid} rounds; {ENOUGH} are needed to say so)"
            verdicts.append(f"Lockgate, {title}: {value:.2f}; to reach {relation} {goal}: **{'reached' if reached else 'NOT reached'}**{few}.")
    why = sorted({f"{name}: {reason}" for (name, _), reason in reasons.items()})
    report.plain(f"Requests per CPU-second, {FRONTS[front]}", ["", *a.variants, *(f"{title} {relation} {goal}" for title, _, goal, relation in ratios)], lines,
                 [*verdicts, *(["–: " + "; ".join(why) + "."] if why else [])])


FEW = 0.05  # of memory that may come in the second half of all files: caches are full long before


def files_memory(report, a):
    """PSS while very many different small files are served, each once and in no order: it must be flat once caches are full."""
    report.head(f"Memory while {a.files:,} files are served", len(a.peers) * (a.files / 6000 + 5) + a.files / 8000)
    root = processes.fresh_directory("many")
    order = list(range(a.files))
    random.Random(7).shuffle(order)
    for number in range(a.files):
        if number % 1000 == 0:
            os.makedirs(os.path.join(root, str(number // 1000)))
        with open(os.path.join(root, many(number)), "wb") as f:
            f.write(many_content(number, a.size))
    os.sched_setaffinity(0, processes.OTHERS)
    moments = sorted({0, a.files // 100, a.files // 10, a.files // 4, a.files // 2, a.files * 3 // 4, a.files})
    lines = []
    for name in a.peers:
        try:
            program = folders.start(name, Folder(root=root))
        except peers.DidNotStart as why:
            lines.append([name, str(why)] + [""] * (len(moments) + 2))
            report.bad |= name == "lockgate"
            continue
        pss, wrong = served(program, order, moments, a.size)
        before, half, end = pss.get(0, 0), pss.get(a.files // 2), pss.get(a.files)
        flat = end is not None and end <= half * (1 + FEW)
        lines.append([name, *(f"{pss[m] / 1024:.1f}" if m in pss else "" for m in moments), f"{(end - before) / 1024:+.1f}" if end else "", "yes" if flat else "**no**", wrong or "0"])
        report.bad |= name == "lockgate" and (not flat or bool(wrong))
        program.stop()
    report.plain(f"{a.files:,} files of {a.size:,} B, MB (PSS) after so many of them", ["", *(f"{m:,}" for m in moments), "grew in all", "flat", "errors"], lines,
                 [f"Flat: no more than {FEW:.0%} are added in the second half; a cache of less than {a.files // 2 * a.size / 1e6:.0f} MB of content is full by then. nginx has `open_file_cache max=1000`."])


def many(number):
    return f"{number // 1000}/{number}.txt"


def many_content(number, size):
    text = f"file {number}\n"
    return (text * (size // len(text) + 1))[:size].encode()


def served(program, order, moments, size):
    """Asks for each file in turn on one kept connection; memory at these moments, and what was wrong."""
    pss, wrong = {}, ""
    with socket.create_connection(("127.0.0.1", program.port), 10) as s:
        for count, number in enumerate(order):
            if count in moments:
                pss[count] = program.pss()
                progress(f"{program.name} {count:,}")
            try:
                s.sendall(f"GET /{many(number)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                answer = s.recv(65536)
                while b"\r\n\r\n" not in answer or len(answer) < answer.index(b"\r\n\r\n") + 4 + size:
                    piece = s.recv(65536)
                    if not piece:
                        raise OSError("closed")
                    answer += piece
            except OSError as why:
                wrong = f"{why or type(why).__name__} after {count:,}"
                break
            head, _, body = answer.partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 ") or body != many_content(number, size):
                wrong = f"{head.splitlines()[0].decode(errors='replace')} for file {number}, or other content"
                break
        else:
            time.sleep(1)
            pss[len(order)] = program.pss()
    progress("")
    return pss, wrong
