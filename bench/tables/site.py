"""A site of many files as outsiders see it: REDbot's notes on its answers, and Chromium, which loads it, seeks in its film and reloads it."""
import base64
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import time
import zlib

from . import folders, peers, processes
from .files import page, write
from .folders import Folder
from .processes import BUILT, OTHERS, Process
from .report import progress

REDBOT, OUT = f"{BUILT}/redbot/bin/python", f"{BUILT}/site"
FILM_SECONDS = 60


def build(root):
    """Writes the site; the names of its files by what they are. There is no film without ffmpeg."""
    chance = random.Random(6)
    style = "body { font: 16px sans-serif; margin: 2em; background: #f4f6f8 }\nimg, video { width: 300px; border: 1px solid #345; margin: 4px }\n" + "".join(
        f".c{n} {{ color: #{chance.randrange(1 << 24):06x} }}\n" for n in range(300))
    part = "export const told = (text) => { document.querySelector('#told').textContent = text; };\n"
    names = {"style": hashed("style", "css", style), "part": hashed("part", "js", part)}
    app = f"""import {{ told }} from './{names['part']}';
const film = document.querySelector('video');
const begun = film && new Promise((resolve, reject) => {{
  if (film.readyState >= 2) resolve();
  film.onloadeddata = resolve;
  film.onerror = () => reject(film.error);
}});
window.complete = (async () => {{
  const data = await (await fetch('/data.json')).json();
  const pictures = await Promise.all([...document.images].map(async (image) => {{ await image.decode(); return image.naturalWidth; }}));
  await begun;
  told(`${{data.words}} words, ${{pictures.length}} pictures, a film of ${{film ? film.duration.toFixed(0) : 'no'}} s`);
  return {{ pictures, words: data.words, colour: getComputedStyle(document.querySelector('h1')).color }};
}})();
"""
    names["app"] = hashed("app", "js", app)
    film = make_film(os.path.join(root, "media", "film.webm"))
    film_tag = '<video src="/media/film.webm" preload="metadata" muted controls></video>' if film else ""
    body = page(30_000).decode().partition("<body>\n")[2]
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>A site</title><link rel="icon" href="/img/icon.svg"><link rel="stylesheet" href="/assets/{names['style']}">
<script type="module" src="/assets/{names['app']}"></script></head>
<body><h1 class="c7">A site served by files</h1><p id="told"></p><p><img src="/img/photo.png" alt=""><img src="/img/drawing.svg" alt="">{film_tag}</p>
{body}"""
    drawing = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 200"><rect width="300" height="200" fill="#dde"/><circle cx="150" cy="100" r="70" fill="#c43"/></svg>\n'
    for name, text in {"index.html": html, f"assets/{names['style']}": style, f"assets/{names['part']}": part, f"assets/{names['app']}": app,
                       "img/drawing.svg": drawing, "img/icon.svg": drawing, "data.json": '{"words": 42}\n'}.items():
        write(root, name, text.encode())
    write(root, "img/photo.png", picture(320, 240, chance))
    return {"style": f"/assets/{names['style']}", "photo": "/img/photo.png", "film": "/media/film.webm" if film else None}


def hashed(name, extension, text):
    return f"{name}.{hashlib.sha256(text.encode()).hexdigest()[:8]}.{extension}"


def picture(width, height, chance):
    """A PNG (RFC 2083): colours that run into one another, with some noise."""
    rows = b"".join(b"\0" + b"".join(bytes((x * 255 // width, y * 255 // height, chance.randrange(120, 200))) for x in range(width)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def make_film(path):
    """A film of some 40 MB, too long to be read ahead as a whole, so that seeking needs a range; kept for the next run."""
    kept = os.path.join(BUILT, "film.webm")
    if not os.path.exists(kept):
        if not shutil.which("ffmpeg"):
            return False
        made = subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc2=size=640x360:rate=25:duration={FILM_SECONDS}", "-vf", "noise=alls=40:allf=t",
                               "-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "5M", "-minrate", "5M", "-maxrate", "5M", "-cues_to_front", "1", "-f", "webm", kept + ".part"], timeout=300)
        if made.returncode:
            return False
        os.replace(kept + ".part", kept)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.link(kept, path)
    except OSError:
        shutil.copy(kept, path)
    return True


NO_FILM = "There was no ffmpeg, and so no film."


def redbot(report, a):
    """REDbot's notes on a page, a style sheet, a picture, a range of a film and a page that is missing, by severity."""
    report.head("REDbot", 10 * len(a.peers))
    if not os.path.exists(REDBOT):
        report.plain("REDbot", ["not run"], [["REDbot could not be installed when bench/setup ran: it comes from PyPI"]])
        report.bad = True
        return
    root = processes.fresh_directory("site")
    names = build(root)
    asked = [("/", []), (names["style"], []), (names["photo"], []), ("/missing", [])]
    if names["film"]:
        asked += [(names["film"], []), (names["film"], ["Range: bytes=1000000-1999999"])]
    for name in a.peers:
        try:
            program = folders.start(name, Folder(root=root, cache=True, compress=True))
        except peers.DidNotStart as why:
            report.plain(name, ["did not start"], [[why]])
            report.bad |= name == "lockgate"
            continue
        lines = []
        for path, fields in asked:
            progress(f"{name} {path}")
            said = examined(f"http://127.0.0.1:{program.port}{path}", fields)
            by_level = {level: [note for note in said["notes"] if note["level"] == level] for level in ("bad", "warn", "info", "good")}
            told = [f"**{level}**: {note['summary']} ({note['id']})" for level in ("bad", "warn") for note in by_level[level]]
            lines.append([f"{path} {' '.join(fields)}", said["status"] or f"**{said['error']}**", *(len(by_level[level]) for level in ("bad", "warn", "info", "good")), "; ".join(told) or "none"])
            report.bad |= name == "lockgate" and (not said["status"] or any(not excused(note, path) for level in ("bad", "warn") for note in by_level[level]))
        program.stop()
        progress("")
        report.plain(name, ["", "status", "bad", "warn", "info", "good", "what is bad, and what it warns of"], lines,
                     [*(f"{note} on {ending} is not about the server: {why}." for (note, ending), why in NOT_OURS.items() if any(note in line[-1] for line in lines)), *([] if names["film"] else [NO_FILM])])


# Notes of REDbot on some files that are not about the server.
NOT_OURS = {("CONTENT_TYPE_MISMATCH", ".webm"): "its sniffer knows no WebM"}


def excused(note, path):
    return any(note["id"] == known and path.endswith(ending) for known, ending in NOT_OURS)


def examined(url, fields):
    try:
        done = subprocess.run([REDBOT, os.path.join(processes.REPOSITORY, "bench", "src", "ask-redbot.py"), url, *fields], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return {"status": "", "error": "REDbot took too long", "notes": []}
    return json.loads(done.stdout) if done.stdout.startswith("{") else {"status": "", "error": f"REDbot broke: {done.stderr[-200:]}", "notes": []}


CACHED = ("memory", "disk")


def site(report, a):
    """Chromium loads a site of many files over HTTP/2, seeks in its film and reloads it: protocols, what came from its cache, 304s and 206s."""
    report.head("A site in a browser", 15 * len(a.peers))
    root = processes.fresh_directory("site")
    names = build(root)
    os.makedirs(a.out, exist_ok=True)
    for name in a.peers:
        try:
            program = folders.start(name, Folder(root=root, key="ecdsa", h2=True, cache=True, compress=True))
        except peers.DidNotStart as why:
            report.plain(name, ["did not start"], [[why]])
            report.bad |= name == "lockgate"
            continue
        progress(name)
        kept = os.path.join(a.out, f"{name}.png")
        said = browsed(f"https://localhost:{program.port}/", kept)
        progress("")
        program.stop()
        if said.get("failed"):
            report.plain(name, ["failed"], [[said["failed"]]])
            report.bad |= name == "lockgate"
            continue
        lines, wrong = seen(said, names)
        film = said["seek"] and f"sought {said['seek']['at']:.1f} of {said['seek']['duration']:.1f} s"
        report.plain(name, ["", "protocol", "first", "while seeking", "on reload"], lines,
                     [f"The page said: {said.get('complete', 'nothing')}; {film or NO_FILM} Picture: {os.path.relpath(kept, processes.REPOSITORY)}", "Wrong: " + ("; ".join(f"**{w}**" for w in wrong) or "nothing") + "."])
        report.bad |= name == "lockgate" and bool(wrong)


def seen(said, names):
    """A line for each resource, and what is not as it should be."""
    lines, wrong = [], [f"console: {text}" for text in said["console"]] + ["the page did not run"] * (not said.get("complete"))
    # What is within the page's own text has another scheme; a film's requests are given up for others, with another range.
    fetched = [r for r in said["resources"] if r.get("url", "").startswith("https:") and not (r.get("given_up") and "wire" not in r)]
    paths = list(dict.fromkeys(path_of(r["url"]) for r in fetched))
    for path in paths:
        here = {phase: [r for r in fetched if r["phase"] == phase and path_of(r["url"]) == path] for phase in ("load", "seek", "reload")}
        every = [r for records in here.values() for r in records]
        protocols = sorted({r["protocol"] for r in every if r.get("protocol")})
        lines.append([path, ", ".join(protocols), *("; ".join(came(r) for r in records) for records in here.values())])
        wrong += [f"{path} over {', '.join(protocols)}"] if protocols != ["h2"] else []
        wrong += [f"{path}: {r['failed']}" for r in every if r.get("failed")]
        first, again = here["load"], here["reload"]
        film = path == names["film"]
        wrong += [f"{path}: {came(r)}" for r in first if r.get("wire") not in ((200, 206) if film else (200,))]
        if path.startswith("/assets/"):
            wrong += [f"{path} was asked for again" for r in again if r.get("cache") not in CACHED]
        elif not film:
            wrong += [f"{path} on reload: {came(r)}" for r in again if r.get("wire") != 304 and r.get("cache") not in CACHED]
        if film and not any(r.get("wire") == 206 and not r.get("range", "bytes 0-").startswith("bytes 0-") for r in here["seek"]):
            wrong.append("seeking asked for no range")
    if not any(path_of(r["url"]) == "/" and r.get("wire") == 304 for r in fetched if r["phase"] == "reload"):
        wrong.append("the page was not revalidated")
    return lines, wrong


def path_of(url):
    return "/" + url.partition("://")[2].partition("/")[2]


def came(resource):
    if resource.get("cache") and not resource.get("wire"):
        return f"{resource['cache']} cache"
    return " ".join(str(part) for part in (resource.get("wire") or resource.get("status") or "nothing", resource.get("coding"), resource.get("range")) if part)


def browsed(url, kept, seconds=60):
    """What bench/src/site.mjs tells of one visit by a Chromium of its own; it keeps nothing of what a certificate error came with, so this one is trusted."""
    directory = processes.fresh_directory("chromium")
    chromium = Process(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={directory}", f"--ignore-certificate-errors-spki-list={pin('ecdsa')}",
                        "--remote-debugging-port=0", "about:blank"], OTHERS, "chromium")
    port_file, end = os.path.join(directory, "DevToolsActivePort"), time.monotonic() + 20
    while not os.path.exists(port_file) and chromium.alive() and time.monotonic() < end:
        time.sleep(0.1)
    try:
        with open(port_file) as f:
            port = f.readline().strip()
        done = subprocess.run(["node", f"{BUILT}/node/site.mjs", port, url, kept], capture_output=True, text=True, timeout=seconds)
        return json.loads(done.stdout) if done.stdout.startswith("{") else {"failed": f"the browser's script ended with {done.returncode}: {done.stderr[-300:]}"}
    except OSError:
        return {"failed": f"Chromium did not start: {chromium.said()[-200:]}"}
    except subprocess.TimeoutExpired:
        return {"failed": f"the page was not complete within {seconds} s"}
    finally:
        chromium.stop(patience=10)


def pin(key):
    """The hash of a certificate's public key, as Chromium wants it."""
    public = subprocess.run(["openssl", "x509", "-in", f"{BUILT}/certs/{key}.crt", "-noout", "-pubkey"], capture_output=True, check=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=public, capture_output=True, check=True).stdout
    return base64.b64encode(hashlib.sha256(der).digest()).decode()
