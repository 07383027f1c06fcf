"""Differences between two answers, and whether they were announced: by the report of the import, the head of the new file, or the guide.

A verdict announces a difference only if its statement is in a block that the request belongs to, or in one for all requests, and
if it can change an answer at all.
"""

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urljoin, urlsplit

from asking import UNKNOWN
from machine import ROOT

GUIDE = " ".join(open(os.path.join(ROOT, "docs/guides/import.md"), encoding="utf-8").read().split())

# Fields of a request that each hop writes anew, or that hold what no two servers share.
NOISE = {"connection", "via", "x-request-id", "content-length", "transfer-encoding", "te", "keep-alive", "upgrade", "host", "cookie", "accept-encoding"}
FORWARDED = {"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "x-forwarded-port", "x-forwarded-server"}
MATTER = ["location", "content-type", "www-authenticate", "cache-control", "allow", "content-encoding", "vary"]


@dataclass
class Difference:
    what: str
    peer: object
    ours: object

    def __str__(self):
        return f"{self.what}: {self.peer!r}, ours {self.ours!r}"


def told_fields(told):
    found = {}
    for name, value in told["fields"]:
        name = name.lower()
        found[name] = found[name] + ", " + value if name in found else value
    return found


def seen(name, value, request):
    """What of a response's field is compared."""
    if value is None:
        return None
    if name == "location":
        port = "" if request.port == (443 if request.tls else 80) else f":{request.port}"
        whole = urljoin(f"{'https' if request.tls else 'http'}://{request.host.lower()}{port}{urlsplit(request.target).path}", value)
        return re.sub(r"^\w+://[^/]*", lambda found: found[0].lower(), whole).removesuffix("/")
    if name == "www-authenticate":
        return value.split()[0].lower()
    if name in ("allow", "vary", "cache-control"):
        return ", ".join(sorted(part.strip().lower() for part in value.split(",")))
    if name == "content-type":
        return value.lower().replace(" ", "").rstrip(";").replace("application/javascript", "text/javascript")
    return value


def compare(request, peer, ours, named, groups):
    """All differences that matter, without regard to what was announced."""
    if peer.status != ours.status:
        return [Difference("status", peer.status, ours.status)]
    found = []
    theirs, mine = peer.origin(), ours.origin()
    if (theirs is None) != (mine is None) and request.method != "HEAD":
        return [Difference("answered by", "an origin" if theirs else "the server", "an origin" if mine else "the server")]
    if theirs and mine:
        found += compare_told(theirs, mine, groups)
    elif peer.status < 300 and peer.body != ours.body or b"file " in (peer.body[:5], ours.body[:5]) and peer.body != ours.body:
        found.append(Difference("body", peer.body[:80], ours.body[:80]))
    own_error = peer.status >= 400 and not theirs and not peer.body[:5] == ours.body[:5] == b"file "
    for name in [*MATTER, *sorted(named.answers - set(MATTER))]:
        if name in ("content-type", "content-encoding", "cache-control", "vary") and (own_error or 300 <= peer.status < 400):
            continue
        if name in ("date", "server", "set-cookie", "connection", "content-length"):
            continue
        a, b = (seen(name, answer.fields.get(name), request) for answer in (peer, ours))
        if a != b:
            found.append(Difference("field " + name, a, b))
    return found


def compare_told(theirs, mine, groups):
    found = []
    for what in ("method", "target", "tls", "took", "proxy"):
        if theirs[what] != mine[what]:
            found.append(Difference("origin's " + what, theirs[what], mine[what]))
    if theirs["at"] != mine["at"] and not groups.get(theirs["at"], set()) & groups.get(mine["at"], {None}):
        found.append(Difference("endpoint", theirs["at"], mine["at"]))
    a, b = told_fields(theirs), told_fields(mine)
    if (a.get("host") or "").lower() != (b.get("host") or "").lower():
        found.append(Difference("sent host", a.get("host"), b.get("host")))
    for name in sorted((a.keys() | b.keys()) - NOISE):
        if a.get(name) != b.get(name):
            found.append(Difference("sent " + name, a.get(name), b.get(name)))
    return found


# --- What is announced for all ---------------------------------------------------------------------------------------------------

# (sentence of the guide, or of the new file's head; servers, or none for all; what it is about: request, difference, both answers)
GENERAL = [
    ("The redirect from HTTP to HTTPS, and that of a folder to its slash, have status 308, which keeps the method", (),
     lambda request, difference, peer, ours: difference.what == "status" and peer.status in (301, 302, 307) and ours.status == 308
     and same_place(request, peer, ours) and (not request.tls or ours.fields.get("location", "").split("?")[0].endswith("/"))),
    ("A host that no site has gets 404, also on port 80 where the source redirects it, and 421 or no handshake over TLS", (),
     lambda request, difference, peer, ours: request.host.lower() == UNKNOWN and difference.what == "status"
     and (ours.status == 404 and not request.tls and peer.status in (301, 302, 307, 308, 503) or ours.status in (0, 404, 421) and request.tls and peer.status in (0, 503))),
    ("A request that no route has gets 404, with each method", (),
     lambda request, difference, peer, ours: difference.what == "status" and request.method not in ("GET", "HEAD") and (peer.status, ours.status) == (405, 404)),
    ("Paths of routes are compared as they are written; Caddy compares them in any case", ("caddy",),
     lambda request, difference, peer, ours: request.target.upper() == request.target != request.target.lower()),
    ("An endpoint also gets `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `Forwarded`", (),
     lambda request, difference, peer, ours: difference.what.removeprefix("sent ") in FORWARDED and difference.peer is None),
    ("what a client sends of these is not believed unless `trusted` names the client", (),
     lambda request, difference, peer, ours: difference.what.removeprefix("sent ") in FORWARDED and any("198.51.100.7" in str(value) for _, value in request.fields)),
    ("A path with a segment `.` or `..`, also encoded, or an encoded slash gets 400, or 404 where no route has it", (),
     lambda request, difference, peer, ours: difference.what == "status" and ours.status in (400, 404)
     and re.search(r"(?i)/(\.|%2e){1,2}(/|$)|%2f|%5c|%00", request.target.split("?")[0]) is not None),
    ("Files are sent to GET and HEAD; OPTIONS gets 204 with `Allow`, another method 405 with `Allow`", (),
     lambda request, difference, peer, ours: request.method not in ("GET", "HEAD")
     and (difference.what == "status" and ours.status in (204, 405) and peer.status in (200, 301, 403, 404, 405) and peer.origin() is None or difference.what == "field allow")),
    ("Files with names that begin with a dot are not served", (),
     lambda request, difference, peer, ours: difference.what == "status" and peer.status == 200 and ours.status == 404 and "/." in request.target and peer.body[:5] == b"file "),
    ("Files with names that begin with a dot are not served", (),
     lambda request, difference, peer, ours: "/." in request.target and peer.body.startswith(b"file .") and difference.what != "status"),
    ("A text has `charset=utf-8` in its `Content-Type`", (),
     lambda request, difference, peer, ours: difference.what == "field content-type" and peer.origin() is None and difference.ours == f"{difference.peer};charset=utf-8"),
    ("Files are compressed if the client accepts that. What may be compressed has `Vary`", (),
     lambda request, difference, peer, ours: difference.what == "field vary" and difference.ours == "accept-encoding"
     or difference.what == "field content-encoding" and difference.peer is None and is_file(peer)),
    ("A folder without its slash is redirected to it, also where it is one of several tries", ("caddy",),
     lambda request, difference, peer, ours: difference.what == "status" and is_file(peer) and (peer.status, ours.status) == (200, 308)
     and ours.fields.get("location", "").split("?")[0].endswith("/")),
    ("and Caddy redirects a file with a slash behind its name", ("caddy",),
     lambda request, difference, peer, ours: difference.what == "status" and (peer.status, ours.status) == (308, 200) and request.target.split("?")[0].endswith("/")),
    ("Where nginx has no `root`, it serves its own folder `html`; Lockgate responds with 404", ("nginx",),
     lambda request, difference, peer, ours: difference.what == "status" and (peer.status, ours.status) == (200, 404) and b"Welcome to nginx" in peer.body),
    ("A response that sets a cookie of a pool has `Cache-Control: private`", (),
     lambda request, difference, peer, ours: difference.what == "field cache-control" and difference.ours == "private"),
    ("Caddy answers both with an empty 200", ("caddy",),
     lambda request, difference, peer, ours: difference.what == "status" and (peer.status, ours.status) == (200, 404) and not peer.body),
    ("Files have `Cache-Control: no-cache`, unless the source sets the field", (),
     lambda request, difference, peer, ours: difference.what == "field cache-control" and difference.peer is None and is_file(peer) and difference.ours == "no-cache"),
    ("Their `Content-Type` is Lockgate's for the end of the name, not of the source's `types`", (),
     lambda request, difference, peer, ours: difference.what == "field content-type" and is_file(peer) and peer.status == 200),
    ("They lack the fields of a route if the request is refused before its route is known", (),
     lambda request, difference, peer, ours: difference.what.startswith("field ") and difference.ours is None and ours.status == 400),
    ("nginx decodes it and merges its slashes where `proxy_pass` has a path or `rewrite` changes it", ("nginx",),
     lambda request, difference, peer, ours: difference.what == "origin's target" and re.search("//|%", request.target.split("?")[0])
     and normalized(difference.peer) == normalized(difference.ours)),
    ("add_header of nginx adds one beside that of the application, and to errors only with `always`", ("nginx",),
     lambda request, difference, peer, ours: difference.what.startswith("field ") and (difference.peer is None and peer.status >= 400 or "," in str(difference.peer))),
    ("What `http-response` of HAProxy sets is also in responses that Lockgate makes itself", ("haproxy",),
     lambda request, difference, peer, ours: difference.what.startswith("field ") and difference.peer is None and peer.origin() is None and ours.origin() is None
     and ours.status >= 300),
    ("A constant text is `text/plain; charset=utf-8`, unless the source sets its `Content-Type`", (),
     lambda request, difference, peer, ours: difference.what == "field content-type" and peer.origin() is None and difference.ours == "text/plain;charset=utf-8"),
]


def same_place(request, peer, ours):
    return seen("location", peer.fields.get("location"), request) == seen("location", ours.fields.get("location"), request)


def is_file(answer):
    return answer.body[:5] == b"file " or not answer.body


def in_general(peer_name, request, difference, answers, toml):
    """The sentence that announces a difference for all configurations, or None."""
    head = " ".join(line.lstrip("# ") for line in toml.split("\n\n")[0].split("\n") if line.startswith("#"))
    for sentence, servers, about in GENERAL:
        if (not servers or peer_name in servers) and (sentence in GUIDE or sentence in head) and about(request, difference, *answers):
            return sentence
    return None


def sentences_missing():
    """Sentences of the guide that the table relies on and that are not there."""
    return [sentence for sentence, _, _ in GENERAL if sentence not in GUIDE and not sentence.startswith(HEAD_ONLY)]


HEAD_ONLY = ("add_header of nginx", "Paths of routes are compared as")

# --- What the report announces -------------------------------------------------------------------------------------------------

# Statements that change no answer of this run, whatever their verdict.
SILENT = re.compile(
    r"(error_log|access_log|log_format|log|keepalive\w*|worker_\w+|client_(body|header)_\w+|send_timeout|proxy_\w+_timeout|proxy_buffer\w*|"
    r"ssl_(ciphers|protocols|prefer\w+|session\w*|stapling\w*|dhparam|ecdh\w+|buffer_size|trusted_certificate|early_data)|resolver\w*|gzip_(comp_level|buffers|disable|http_version)|"
    r"http2\w*|tcp_\w+|sendfile\w*|server_tokens|user|pid|timeout|maxconn|nbproc|nbthread|balance|tune\.\S+|ssl-\S+|"
    r"option (httplog|tcplog|dontlognull|dontlog-normal|redispatch|log-\S+|http-server-close|httpclose|tcpka|clitcpka|srvtcpka|socket-stats|splice-\S+|http-keep-alive|contstats|abortonclose)|"
    r"stats (socket|timeout)|chroot|group|daemon|retries|fullconn|default-server|email|admin|output|format|types_hash\w*|server_names_hash\w*|reset_timedout\w*|open_file\w*|"
    r"peers?|mailers?|nameserver|hold|resolve\w*|lua\S*|multi_accept|use|events|variables_hash\w*|map_hash\w*|proxy_(redirect_\w+|http_version|request_buffering|next_upstream\w*|temp\w*|max_temp\w*|headers_hash\w*))(\s|$)")

# Statements that announce no more than what they are about: the words of a difference.
ABOUT = [
    (r"(add_header|proxy_set_header|grpc_set_header|proxy_hide_header|proxy_pass_header|header|header_up|header_down|more_set_headers|"
     r"http-(?:request|response|after-response) (?:set|add|del|replace)-header)\s+[+\-?>]?\"?([\w-]+)", lambda found: "(?i)(field|sent) " + re.escape(found[2]) + "$"),
    (r"(compression|gzip|brotli|encode)", lambda found: "content-encoding|vary"),
    (r"option forwardfor|proxy_set_header X-Forwarded|set_real_ip|real_ip|trusted_proxies", lambda found: "sent (x-|forwarded)|403|401"),
    (r"(handle_errors|error_page|errorfile)\b", lambda found: "[45]\\d\\d"),
    (r"(expires|etag)\b", lambda found: "cache-control|expires"),
    (r"proxy_redirect|proxy_cookie", lambda found: "location"),
    (r"client_max_body_size|request_body", lambda found: "413"),
    (r"(userlist|user|auth_basic|basic_?auth|http-request auth)\b", lambda found: "401|www-authenticate"),
    (r"http-request deny.*_rate|limit_req|limit_conn|http-request track-sc|stick-table", lambda found: "429|503"),
    (r"types\b|default_type|charset", lambda found: "content-type"),
    (r"http-check|option httpchk|option tcp-check|server-state-file|load-server-state|.*\bcapture\b|declare|http-(request|response) set-var|bind quic|unique-id|stick on|hash-type|http-reuse|cookie |"
     r"health_|lb_|fail_|max_fails|zone\b|proxy_cache|proxy_ignore|fastcgi_(buffers|cache|param|read)|read_timeout|write_timeout|dial_timeout|proxy_buffering|slice|aio|directio|upstream_|keepalive", lambda found: "$^"),
]

# Reasons that announce less than their block: what the difference must be.
NARROW = [
    (re.compile("which begin with it without a slash"), lambda request, difference, names: re.search(r"[^/]$|[^/]x|\w\.\w", request.target.split("?")[0]) is not None),
    (re.compile("also answers hosts on port"), lambda request, difference, names: request.host.lower() not in names),
    (re.compile("also listens on port 80 and redirects"), lambda request, difference, names: request.port == 80),
]


def concerns(peer_name, node, request, answers, groups):
    """Whether the request can come to the block of a statement."""
    return {"nginx": at_nginx, "haproxy": at_haproxy, "caddy": at_caddy}[peer_name](node, request, answers, groups)


def normalized(target):
    path = re.sub(r"/+", "/", unquote(target.split("?")[0]))
    parts = []
    for part in path.split("/")[1:]:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/" + "/".join(parts)


def at_nginx(node, request, answers, groups):
    # The file that was sent tells where an index, or try_files, led to.
    paths = [normalized(request.target)] + ["/" + answer.body[5:].split(b"\n")[0].decode() for answer in answers if answer.body[:5] == b"file "]
    if request.method == "HEAD":
        paths.append("/index.html")
    for block in node.chain():
        if block.words[:1] == ["server"] and block.children is not None:
            listens = [child.words[1] for child in block.children if child.words[0] == "listen"] or ["80"]
            if not any(re.search(rf"(^|:){request.port}$", listen) for listen in listens):
                return False
            names = [name for child in block.children if child.words[0] == "server_name" for name in child.words[1:]]
            if names and request.host.lower() != UNKNOWN and not any(name_fits(name, request.host.lower()) for name in names):
                siblings = [child.words for other in block.parent.children if other.words[:1] == ["server"] and other.children for child in other.children if child.words[0] == "server_name"]
                if any(name_fits(name, request.host.lower()) for words in siblings for name in words[1:]):
                    return False
        if block.words[:1] == ["location"] and not any(location_fits(block.words[1:], path) for path in paths):
            return False
        if block.words[:1] == ["upstream"]:
            ats = [told["at"] for told in (answer.origin() for answer in answers) if told]
            if ats and not any(block.words[1] in groups.get(at, ()) for at in ats):
                return False
    return True


def name_fits(name, host):
    if name.startswith("~"):
        return re.search(re.sub(r"\(\?<(\w+)>", r"(?P<\1>", name[1:]), host) is not None
    if name.startswith("*.") or name.startswith("."):
        return host.endswith(name.lstrip("*")) or host == name.lstrip("*.")
    return name.lower() == host or name.endswith(".*") and host.startswith(name[:-1])


def location_fits(words, path):
    kind, pattern = (words[0], words[1]) if len(words) > 1 else re.match(r"(=|~\*|~|\^~)?(.*)", words[0]).groups()
    if pattern.startswith("@"):
        return True
    if kind in ("~", "~*"):
        try:
            return re.search(re.sub(r"\(\?<(\w+)>", r"(?P<\1>", pattern), path, re.I if kind == "~*" else 0) is not None
        except re.error:
            return True
    # A prefix also concerns the path without its last slash, which nginx completes.
    return path == pattern or kind != "=" and (path.startswith(pattern) or path + "/" == pattern)


def at_haproxy(node, request, answers, groups):
    section = next((block for block in node.chain() if block.parent and not block.parent.words), node)
    if section.words[:1] and section.words[0] in ("frontend", "listen") and any(child.words[0] == "bind" for child in section.children):
        binds = [child.words[1] for child in section.children if child.words[0] == "bind"]
        # One on a socket gets what another section sends there.
        root = section.parent
        inner = any(bind.startswith(("/", "unix", "abns")) and bind in server.words for bind in binds for server in root.all("server"))
        return inner or any(re.search(rf":{request.port}(,|$)", bind) for bind in binds)
    if section.words[:1] == ["backend"]:
        ats = [told["at"] for told in (answer.origin() for answer in answers) if told]
        return not ats or any(section.words[1] in groups.get(at, ()) for at in ats)
    return True


def at_caddy(node, request, answers, groups):
    for block in node.chain():
        if not block.words:
            continue
        if block.parent and not block.parent.words and block.parent.parent is None and block.children is not None and not block.words[0].startswith("("):
            text = " ".join(block.words).lower()
            hosts = re.findall(r"[a-z0-9*.-]+\.[a-z]+", text)
            if hosts and request.host.lower() != UNKNOWN and not any(name_fits(host, request.host.lower()) for host in hosts):
                return False
        if block.words[0] in ("handle", "handle_path", "route", "redir", "rewrite", "respond", "header", "reverse_proxy", "file_server", "uri") and len(block.words) > 1 and block.words[1].startswith("/"):
            pattern = re.escape(block.words[1]).replace(r"\*", ".*")
            if not re.match(pattern + ("$" if not pattern.endswith(".*") else ""), normalized(request.target), re.I):
                return False
    return True


def node_of(tree, line, text):
    nodes = [node for node in tree.walk() if node.line == line]
    first = text.split()[0] if text.split() else ""
    return next((node for node in nodes if node.words and node.words[0] == first), nodes[0] if nodes else None)


def announced(peer_name, named, verdicts, request, difference, answers, groups):
    """The verdict that announces a difference, or None."""
    for verdict in verdicts:
        text, reason = verdict["text"], verdict["because"] or ""
        if SILENT.match(text.strip()):
            continue
        node = node_of(named.tree, verdict["line"], text)
        names = [name.lower() for child in (node.parent.children if node and node.parent else []) if child.words[:1] == ["server_name"] for name in child.words[1:]]
        narrow = next((about for pattern, about in NARROW if pattern.search(reason)), None)
        if narrow and not narrow(request, difference, names):
            continue
        about = next((words(found) for pattern, words in ABOUT if (found := re.match(pattern, text.strip()))), None)
        if about and not re.search(about, f"{difference.what} {difference.peer} {difference.ours}" if not about.startswith("(?i)(field") else difference.what):
            continue
        if "refuse all clients" in reason:
            # The rule closes the whole server that it is in.
            if difference.ours != 403:
                continue
            node = next((block for block in (node.chain() if node else []) if block.words[:1] == ["server"]), node)
        if node is None or concerns(peer_name, node, request, answers, groups):
            return verdict
    return None
