"""T11: a page of 28 objects over a slow link, by HTTP/1 and HTTP/2, with and without priorities."""
import json
import os
import random
import subprocess

from . import peers, processes
from .peers import _written as written
from .processes import BOTH, LOCKGATE, Process
from .report import progress
from .throughput import stop_programs

LINK = "1024kbit/s"
GOAL = 16.0  # seconds until a page can be used over HTTP/2 with priorities, where HTTP/1 takes about 30

# Bytes. Of style sheets the last three are imported by "theme.css", so that they are found after the images are.
STYLES = {"bootstrap.css": 140_900, "animate.css": 71_600, "icons.css": 59_300, "main.css": 38_200, "gallery.css": 18_400, "slider.css": 12_100, "forms.css": 9_300,
          "menu.css": 7_400, "footer.css": 6_200, "print.css": 5_100, "theme.css": 4_200, "theme/colours.css": 11_800, "theme/type.css": 9_700, "theme/layout.css": 8_600}
SCRIPTS = {"vendor.js": 612_400, "app.js": 236_800}
IMAGES = {"hero.jpg": 468_300, "team.jpg": 352_500, "office.jpg": 301_700, "product-1.jpg": 257_900, "product-2.jpg": 216_200, "product-3.jpg": 162_600, "map.png": 118_800,
          "partners.png": 71_300, "badge.png": 38_600, "logo.png": 12_400}
ICON, PAGE = {"favicon.ico": 15_100}, 60_200
OBJECTS = 1 + len(STYLES) + len(SCRIPTS) + len(IMAGES) + len(ICON)
IMPORTED = [name for name in STYLES if "/" in name]

SAY_NOTHING, ALIKE, BROWSER = [], ["-H", "priority: u=3, i"], ["--priorities"]
ROWS = {  # name: program, over TLS, what the client does beside
    "lockgate, h1": ("lockgate", False, []),
    "lockgate, h1 over TLS": ("lockgate", True, []),
    "lockgate, h2, all alike": ("lockgate", True, ["--http2", *ALIKE]),
    "lockgate, h2, by type": ("lockgate", True, ["--http2", *SAY_NOTHING]),
    "lockgate, h2, as Chromium says": ("lockgate", True, ["--http2", *BROWSER]),
    "nginx, h1 over TLS": ("nginx", True, []),
    "nginx, h2, as Chromium says": ("nginx", True, ["--http2", *BROWSER]),
    "haproxy, h1 over TLS": ("haproxy", True, []),
    "haproxy, h2, as Chromium says": ("haproxy", True, ["--http2", *BROWSER]),
}


def page(report, a):
    """T11: a page of 28 objects, 3.3 MB, over a link of 1,024 kbit/s: when page, styles and scripts are complete, and when all is."""
    rows = {name: row for name, row in ROWS.items() if row[0] in a.peers}
    size = PAGE + sum(sum(kind.values()) for kind in (STYLES, SCRIPTS, IMAGES, ICON))
    needed = PAGE + sum(STYLES.values()) + sum(SCRIPTS.values())
    report.head(f"A page of {OBJECTS} objects, {size / 1000:,.0f} KB, over {LINK}", a.rounds * 30)
    origin = files()
    programs = {}
    for name, tls in {(name, tls) for name, tls, _ in rows.values()}:
        try:
            programs[name, tls] = peers.start(name, peers.Front(port=0, upstream=f"127.0.0.1:{origin.port}", key="ecdsa" if tls else None, http=True, h2=tls))
        except peers.DidNotStart as why:
            programs[name, tls] = str(why)
    found = {name: why if isinstance(why := programs[name_of, tls], str) else [] for name, (name_of, tls, _) in rows.items()}
    for number in range(a.rounds):
        # All at once: each has a link of its own, and nothing else is near its limit.
        loads = {name: load(programs[kind, tls].port, tls, options) for name, (kind, tls, options) in rows.items() if not isinstance(found[name], str)}
        for name, process in loads.items():
            found[name].append(result(process))
        progress(f"round {number + 1}/{a.rounds}")
    progress("")
    notes = [f"Page, style sheets and scripts are {needed / 1000:,.0f} KB: {needed * 8 / 1_024_000:.1f} s of this link. {len(IMPORTED)} of the style sheets are imported by another one, scripts stand at "
             "the page's end, over HTTP/1 there are six connections. \"All alike\": the client says `priority: u=3, i` of each; \"by type\": it says nothing; \"as Chromium says\": `--priorities`. "
             "nginx and HAProxy know nothing of RFC 9218; nginx knows the priorities of RFC 7540, which this client does not send."]
    report.cell("Seconds", found, [("page, styles and scripts", "usable", 1), ("all", "all", 1), ("page alone", "page", 2)], notes=notes)
    verdict(report, found)
    stop_programs(programs)
    origin.stop()


def verdict(report, found):
    for name in ("lockgate, h2, by type", "lockgate, h2, as Chromium says"):
        taken = [record["usable"] for record in found.get(name, []) if isinstance(record, dict) and not record["errors"]]
        if taken:
            print(f"{name}: {max(taken):.1f} s at the most, to reach ≤ {GOAL:.0f} s: **{'reached' if max(taken) <= GOAL else 'NOT reached'}**.\n")


def load(port, tls, options):
    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/"
    insecure = ["--insecure"] if tls else []
    argv = [LOCKGATE, "load", url, "--page", "--link", LINK, "--timeout", "3m", "--quiet", "--json", "-", *insecure, *options]
    return Process(argv, BOTH, "load", stdout=subprocess.PIPE)


def result(process):
    said, _ = process.popen.communicate()
    code = process.popen.returncode
    process.stop()
    if code:
        return {"errors": {f"exit code {code}: {process.said().strip()[-200:]}": 1}}
    found = json.loads(said)
    one = found["loads"][0]
    errors = {kind: failure["count"] for kind, failure in found["failures"].items()}
    if len(one["objects"]) != OBJECTS:
        errors[f"objects instead of {OBJECTS}"] = len(one["objects"])
    seconds = {key: one[f"{key}_us"] and one[f"{key}_us"] / 1e6 for key in ("usable", "all", "page")}
    return {**seconds, "opened": one["connections_opened"], "errors": errors, "objects": one["objects"]}


def files():
    """nginx with the page in a directory."""
    directory = processes.fresh_directory("page")
    root = os.path.join(directory, "root")
    text = random.Random(11)
    for name, size in {**STYLES, **SCRIPTS, **IMAGES, **ICON}.items():
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        with open(os.path.join(root, name), "wb") as f:
            f.write(content(name, size, text))
    with open(os.path.join(root, "index.html"), "wb") as f:
        f.write(document(text))
    port = processes.free_port()
    lines = ["daemon off;", "user root;" if os.geteuid() == 0 else "", f"pid {directory}/nginx.pid;", f"error_log {directory}/error.log crit;", "events {}",
             "http { include /etc/nginx/mime.types; access_log off; keepalive_requests 1000000; sendfile on;",
             f"  server {{ listen 127.0.0.1:{port}; root {root}; }} }}"]
    written(directory, "nginx.conf", lines)
    process = Process(["nginx", "-p", directory, "-c", f"{directory}/nginx.conf", "-e", f"{directory}/error.log"], BOTH, "files")
    process.port = port
    if not process.listens(port):
        raise SystemExit(f"the origin does not listen: {process.said()}")
    return process


def content(name, size, chance):
    """Bytes of this kind of file, which name nothing but what is imported."""
    begin = b""
    if name == "theme.css":
        begin = "".join(f'@import "{imported}";\n' for imported in IMPORTED).encode()
    if name.endswith((".css", ".js")):
        begin += b"/* "
        return begin + bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz ", k=size - len(begin) - 3)) + b" */"
    return chance.randbytes(size)


def document(chance):
    """The page: style sheets and the icon in its head, images between its paragraphs, scripts at its end."""
    head = "".join(f'<link rel="stylesheet" href="/{name}">\n' for name in STYLES if name not in IMPORTED)
    head = f'<!doctype html>\n<html lang="en"><head><title>T11</title>\n<link rel="icon" href="/favicon.ico">\n{head}</head>\n<body>\n'
    end = "".join(f'<script src="/{name}"></script>\n' for name in SCRIPTS) + "</body></html>\n"
    images = [f'<img src="/{name}" alt="">\n' for name in ["logo.png", *(name for name in IMAGES if name != "logo.png")]]
    left = PAGE - len(head) - len(end) - sum(map(len, images))
    paragraph = left // len(images)
    body = ""
    for number, image in enumerate(images):
        length = paragraph if number + 1 < len(images) else left - paragraph * (len(images) - 1)
        body += image + "<p>" + "".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=length - 8)) + "</p>\n"
    return (head + body + end).encode()
