"""What a configuration names: listeners, sites, paths, fields, upstreams, files. No more is understood than requests and a machine need.

A `Node` is a statement with its place; the trees of nginx and Caddy nest as their braces do, a section of HAProxy is a node with its
lines as children.
"""

import glob
import ipaddress
import os
import re
from dataclasses import dataclass, field

try:
    from re import _parser as regex_parser  # Python 3.11
except ImportError:
    import sre_parse as regex_parser


@dataclass(eq=False)
class Node:
    words: list
    file: str
    line: int
    parent: "Node" = None
    children: list = None

    def walk(self):
        for child in self.children or []:
            yield child
            yield from child.walk()

    def chain(self):
        node = self
        while node:
            yield node
            node = node.parent

    def all(self, *names):
        return [node for node in self.walk() if node.words and node.words[0] in names]


@dataclass
class Site:
    """Requests of these names and paths come to these ports; `node` is the statement that opens it."""
    node: Node
    ports: list  # (port, whether TLS, whether it wants a PROXY header)
    names: list
    paths: list


@dataclass
class Named:
    tree: Node
    sites: list = field(default_factory=list)
    upstreams: list = field(default_factory=list)   # (group, host or unix:path, port)
    files: list = field(default_factory=list)       # (kind, path, …)
    answers: set = field(default_factory=set)       # fields of responses that are set
    asked: list = field(default_factory=list)       # (name, value) that conditions look at
    networks: list = field(default_factory=list)    # that rules of access name
    resolvers: list = field(default_factory=list)
    addresses: set = field(default_factory=set)     # that listeners bind
    users: set = field(default_factory=set)         # that the process becomes
    checked: set = field(default_factory=set)       # ports of health checks
    limited: bool = False                           # by the rate of requests


def sample(pattern, choice=0):
    """A text that the regular expression matches, most often; None if it is not understood."""
    pattern = re.sub(r"\(\?<(\w+)>", r"(?P<\1>", pattern)
    try:
        return write_sample(regex_parser.parse(pattern), choice)
    except (re.error, OverflowError, RecursionError):
        return None


def write_sample(parts, choice):
    text = ""
    for kind, value in parts:
        kind = str(kind)
        if kind == "LITERAL":
            text += chr(value)
        elif kind == "NOT_LITERAL":
            text += "a" if value != ord("a") else "b"
        elif kind == "ANY":
            text += "a"
        elif kind == "IN":
            text += one_of(value)
        elif kind == "CATEGORY":
            text += of_category(value)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = value
            if least == 0 and int(most) > 1:
                least = 1
            text += write_sample(inner, choice) * min(least, 3)
        elif kind == "SUBPATTERN":
            text += write_sample(value[3], choice)
        elif kind == "BRANCH":
            text += write_sample(value[1][choice % len(value[1])], choice)
    return text


def one_of(members):
    if str(members[0][0]) == "NEGATE":
        return next(char for char in "a1-_Z~" if not any(holds(member, char) for member in members[1:]))
    kind, value = members[0]
    if str(kind) == "LITERAL":
        return chr(value)
    return chr(value[0]) if str(kind) == "RANGE" else of_category(value)


def holds(member, char):
    kind, value = str(member[0]), member[1]
    if kind == "LITERAL":
        return chr(value) == char
    return value[0] <= ord(char) <= value[1] if kind == "RANGE" else of_category(value) == char


def of_category(value):
    return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}.get(str(value), "-")


def samples(pattern):
    found = []
    for choice in range(3):
        text = sample(pattern, choice)
        if text and text not in found:
            found.append(text)
    return found


def host_port(text, usual):
    """`host`, `host:port`, `[v6]:port` or `unix:path`."""
    if text.startswith("unix:") or text.startswith("unix@") or text.startswith("unix/"):
        return "unix:" + re.sub(r"^unix[:@/]+", "/", text).split(":")[0], 0
    match = re.fullmatch(r"(\[[^\]]+\]|[^:]+)(?::(\d+))?", text)
    return (match[1], int(match[2] or usual)) if match else (None, 0)


def client_of(network):
    """An address in a network, as a client has it; None for all addresses, IPv6 and no network."""
    try:
        network = ipaddress.ip_network(network, strict=False)
    except ValueError:
        return None
    if network.version != 4 or network.prefixlen == 0 or network.is_multicast:
        return None
    return str(network.network_address + (7 if network.prefixlen < 29 else 0))


def unique(things):
    return list(dict.fromkeys(things))


# --- nginx ------------------------------------------------------------------------------------------------------------------

def nginx_tree(path):
    root = Node([], path, 0, None, [])
    read_nginx(path, root)
    return root


def read_nginx(path, root):
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    here, words, word, line, start, at = root, [], None, 1, 1, 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            start = line if not words and word is None else start
            word = (word or "") + (text[at + 1] if text[at + 1] in "\"' " else text[at:at + 2])
            at += 1
        elif char in "\"'" and word is None:
            start = line if not words else start
            end = at + 1
            while end < len(text) and text[end] != char:
                end += 2 if text[end] == "\\" else 1
            word = text[at + 1:end].replace("\\" + char, char)
            line += text.count("\n", at, end)
            at = end
        elif char == "#" and word is None:
            at = text.find("\n", at)
            if at < 0:
                break
            continue
        elif char == "{" and word is not None and word.endswith("$"):
            end = text.index("}", at)
            word += text[at:end + 1]
            at = end
        elif char.isspace() or char in ";{}":
            if word is not None:
                words.append(word)
                word = None
            if char == "\n":
                line += 1
            elif char == ";":
                if words:
                    add_nginx(words, path, start, here, root)
                words = []
            elif char == "{":
                here = Node(words, path, start, here, [])
                here.parent.children.append(here)
                words = []
            elif char == "}":
                here = here.parent or root
                words = []
        else:
            if word is None and not words:
                start = line
            word = (word or "") + char
        at += 1


def add_nginx(words, path, line, here, root):
    if words[0] == "include":
        pattern = os.path.join(os.path.dirname(root.file), words[1])
        found = sorted(glob.glob(pattern))
        for included in found:
            read_nginx_into(included, here, root)
        return
    here.children.append(Node(words, path, line, here))


def read_nginx_into(path, here, root):
    inner = Node([], root.file, 0, None, [])
    read_nginx(path, inner)
    for child in inner.children:
        child.parent = here
        here.children.append(child)


def nginx(path):
    named = Named(nginx_tree(path))
    tree = named.tree
    for server in tree.all("server"):
        if server.children is not None and not any(node.words[:1] == ["upstream"] for node in server.chain()):
            nginx_site(named, server)
    for upstream in tree.all("upstream"):
        for node in upstream.all("server"):
            host, port = host_port(node.words[1], 80)
            named.upstreams.append((upstream.words[1], host, port))
    groups = {upstream.words[1] for upstream in tree.all("upstream")}
    for node in tree.all("proxy_pass", "grpc_pass"):
        where = re.match(r"(?:(\w+)://)?(\[[^\]]*\][:\d]*|unix:[^:]+|[^/$]+)", node.words[1])
        if where and where[2] not in groups:
            host, port = host_port(where[2], 443 if where[1] in ("https", "grpcs") else 80)
            named.upstreams.append((where[2], host, port))
    for node in tree.all("fastcgi_pass", "uwsgi_pass", "scgi_pass", "auth_request_pass", "memcached_pass"):
        # They are no origin of this run, but must have an address.
        host, port = host_port(node.words[1], 9000)
        if host and not host.startswith(("unix:", "$")) and host not in groups:
            named.upstreams.append((host, host, 0))
    for node in tree.all("set", "map") + [child for block in tree.all("map") for child in block.children]:
        # Upstreams that a variable holds.
        for word in node.words[1:]:
            where = re.fullmatch(r"(?:https?://)?([a-z0-9][\w.-]*):(\d+)/?", word)
            if where and where[1] not in groups:
                named.upstreams.append((word, where[1], int(where[2])))
            elif node.words[0] == "set" and re.fullmatch(r"[a-z][\w.-]*", word) and word not in groups:
                for port in {port for _, host, port in named.upstreams if port} | {int(found) for found in re.findall(r"\$\{?\w+\}?:(\d+)", " ".join(" ".join(one.words) for one in tree.all("proxy_pass")))}:
                    named.upstreams.append((word, word, port))
    for node in tree.walk():
        nginx_files(named, node)
    named.limited = bool(tree.all("limit_req", "limit_conn", "limit_rate"))
    return named


def nginx_site(named, server):
    ports = []
    stream = any(node.words[:1] == ["stream"] for node in server.chain())
    for listen in [node for node in server.children if node.words[0] == "listen"]:
        host, port = (None, int(listen.words[1])) if listen.words[1].isdigit() else host_port(listen.words[1], 80)
        if host and host.startswith("unix:") or "udp" in listen.words or "quic" in listen.words:
            continue
        if host and host not in ("*", "0.0.0.0") and not host.startswith("["):
            named.addresses.add(host)
        tls = "ssl" in listen.words or any(node.words == ["ssl", "on"] for node in server.children) \
            or any(node.words == ["ssl_preread", "on"] for node in server.children)
        ports.append((port, tls, "proxy_protocol" in listen.words))
    if not ports and not stream:
        ports = [(80, False, False)]
    names = []
    for node in [node for node in server.children if node.words[0] == "server_name"]:
        for name in node.words[1:]:
            names += samples(name[1:]) if name.startswith("~") else [re.sub(r"^\.", "", name.replace("*", "any")).lower()]
    names = [name for name in names if re.fullmatch(r"[a-z0-9.-]+", name or "") and name != "_"]
    if stream:
        for block in named.tree.all("map"):
            if "$ssl_preread_server_name" in block.words[1]:
                names += [node.words[0] for node in block.children if re.fullmatch(r"[\w.-]+", node.words[0]) and node.words[0] != "default"]
    paths = []
    for node in server.walk():
        if node.words[0] == "location":
            pattern = node.words[-1]
            if node.words[1] in ("~", "~*") or re.match(r"~\*?", node.words[1]):
                paths += samples(pattern.lstrip("~*"))
            elif not pattern.startswith("@"):
                paths.append(re.sub(r"^[=^~]+", "", pattern))
        elif node.words[0] == "rewrite":
            paths += samples(node.words[1])[:2]
        elif node.words[0] == "if" and any(name in node.words[1] for name in ("$uri", "$request_uri", "$document_uri")) and len(node.words) > 3:
            paths += samples(node.words[3].rstrip(")"))[:2]
        elif node.words[0] == "if":
            found = re.match(r"\(\$http_(\w+)", node.words[1])
            if found and len(node.words) > 2:
                value = " ".join(node.words[3:]).rstrip(")") if len(node.words) > 3 else "x"
                for text in samples(value)[:2] or ["x"]:
                    named.asked.append((found[1].replace("_", "-"), text))
            cookie = re.match(r"\(\$cookie_(\w+)", node.words[1])
            if cookie:
                named.asked.append(("cookie", f"{cookie[1]}=1"))
            query = re.match(r"\(\$arg_(\w+)", node.words[1])
            if query:
                paths.append(f"/?{query[1]}=1")
    for block in named.tree.all("map"):
        header = re.fullmatch(r"\$http_(\w+)", block.words[1])
        for node in block.children:
            word = node.words[0]
            if block.words[1] in ("$uri", "$request_uri"):
                paths += samples(word.lstrip("~*")) if word.startswith("~") else [word]
            elif header and word not in ("default", "", "hostnames", "volatile"):
                found = samples(word.lstrip("~*")) if word.startswith("~") else [word]
                named.asked += [(header[1].replace("_", "-"), text) for text in found[:2]]
    paths = [path if path.startswith("/") else "/" + path for path in paths]
    if ports:
        named.sites.append(Site(server, ports, unique(names), unique(path for path in paths if re.fullmatch(r"/[!-~]*", path))))


def nginx_files(named, node):
    words = node.words
    base = os.path.dirname(named.tree.file)
    path = os.path.join(base, words[1]) if len(words) > 1 else ""
    if "$" in path and words[0] != "root":
        return
    if words[0] == "ssl_certificate":
        siblings = {child.words[0]: child.words[1] for child in node.parent.children if len(child.words) > 1}
        key = os.path.join(base, siblings.get("ssl_certificate_key", path))
        named.files.append(("certificate", path, key))
    elif words[0] in ("ssl_trusted_certificate", "ssl_client_certificate", "proxy_ssl_trusted_certificate"):
        named.files.append(("authority", path))
    elif words[0] == "proxy_ssl_certificate":
        named.files.append(("certificate", path, path.replace(".crt", ".key").replace("cert", "key")))
    elif words[0] == "ssl_dhparam":
        named.files.append(("parameters", path))
    elif words[0] == "ssl_session_ticket_key":
        named.files.append(("bytes", path))
    elif words[0] == "auth_basic_user_file":
        named.files.append(("users", path))
    elif words[0] in ("root", "alias"):
        named.files.append(("folder", words[1] if words[1].startswith("/") else "/usr/share/nginx/" + words[1]))
    elif words[0] in ("access_log", "error_log", "pid") and path.startswith("/"):
        named.files.append(("parent", path))
    elif words[0] in ("proxy_cache_path", "proxy_temp_path", "client_body_temp_path", "fastcgi_temp_path"):
        named.files.append(("empty", path))
    elif words[0] == "user":
        named.users.update(words[1:])
    elif words[0] == "add_header":
        named.answers.add(words[1].lower())
    elif words[0] in ("proxy_hide_header", "proxy_pass_header"):
        named.answers.add(words[1].lower())
    elif words[0] in ("allow", "deny", "set_real_ip_from"):
        named.networks.append(words[1])
    elif words[0] == "resolver":
        named.resolvers += [host_port(word, 53) for word in words[1:] if re.match(r"[\d.]+(:\d+)?$", word)]
    elif words[0] == "index" and node.parent:
        named.files.append(("index", *words[1:]))
    for block in node.chain():
        if block.words[:1] == ["geo"]:
            named.networks.append(words[0])


# --- HAProxy ----------------------------------------------------------------------------------------------------------------

SECTIONS = ("global", "defaults", "frontend", "backend", "listen", "userlist", "peers", "resolvers", "program", "cache", "mailers",
            "http-errors", "ring", "log-forward", "crt-store", "acme")


def haproxy_words(line):
    return [re.sub(r"\\(.)|[\"']", r"\1", word) for word in re.findall(r"(?:\\.|\"(?:\\.|[^\"])*\"|'[^']*'|[^\s#\"'\\])+", line.split(" #")[0] if not line.lstrip().startswith("#") else "")]


def haproxy_tree(path):
    root = Node([], path, 0, None, [])
    here = root
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words = haproxy_words(line)
            if not words:
                continue
            if words[0] in SECTIONS:
                here = Node(words, path, number, root, [])
                root.children.append(here)
            elif here is not root:
                here.children.append(Node(words, path, number, here))
    return root


PATHS = ("path", "path_beg", "path_end", "path_sub", "path_dir", "path_reg", "path_len", "url", "url_beg", "url_reg", "url_sub", "capture.req.uri", "base", "base_beg")
HOSTS = ("hdr(host)", "req.hdr(host)", "hdr_beg(host)", "hdr_dom(host)", "hdr_end(host)", "hdr_reg(host)", "hdr_sub(host)", "req.ssl_sni", "ssl_fc_sni", "req_ssl_sni")


def haproxy_condition(words):
    """Fetch, flags' matching method, and patterns of each test in the words of an ACL or of a condition's braces."""
    if not words:
        return None
    fetch = words[0].split(",")[0].lower()
    method, patterns, at = "", [], 1
    while at < len(words):
        if words[at] == "-m":
            method = words[at + 1]
            at += 1
        elif words[at] in ("-i", "-n", "--"):
            pass
        elif words[at] == "-f":
            at += 1
        else:
            patterns.append(words[at])
        at += 1
    return fetch, method, patterns


def haproxy_tests(node):
    words = node.words
    if words[0] == "acl":
        yield haproxy_condition(words[2:])
    at = 0
    while "{" in words[at:]:
        start = words.index("{", at)
        end = words.index("}", start) if "}" in words[start:] else len(words)
        yield haproxy_condition(words[start + 1:end])
        at = end


def haproxy(path):
    named = Named(haproxy_tree(path))
    backends = {}
    for section in named.tree.children:
        if section.words[0] in ("backend", "listen"):
            backends[section.words[1]] = section
            for node in section.all("server", "server-template"):
                at = 2 if node.words[0] == "server" else 3
                if len(node.words) > at and "<" not in node.words[at]:
                    host, port = host_port(re.sub(r"^ipv4@", "", node.words[at]), 0)  # 0: the port of the listener
                    if host:
                        named.upstreams.append((section.words[1], host, port))
    for section in named.tree.children:
        if section.words[0] in ("frontend", "listen"):
            haproxy_site(named, section, backends)
        for node in section.children:
            haproxy_files(named, node)
    return named


def haproxy_site(named, section, backends):
    ports, names, paths = [], [], []
    binds = section.all("bind")
    for bind in binds:
        for part in bind.words[1].split(","):
            host, port = re.match(r"(?:ipv[46]@)?(.*?):?(\d+)?$", part).groups()  # one of QUIC keeps its prefix
            if not port or host.startswith(("unix", "/", "abns")):
                continue
            if re.fullmatch(r"[\d.]+", host or "") and host != "0.0.0.0":
                named.addresses.add(host)
            text = " ".join(node.words[0] for node in section.children)
            sni = any("ssl_sni" in " ".join(node.words) for node in section.children)
            if host.startswith("quic"):
                continue
            ports.append((int(port), "ssl" in bind.words or sni, "accept-proxy" in bind.words))
    used = [section] + [backends[word] for node in section.all("use_backend", "default_backend") for word in node.words[1:2] if word in backends]
    for part in used:
        for node in part.children:
            for fetch, method, patterns in filter(None, haproxy_tests(node)):
                for pattern in patterns:
                    if method == "reg" or "_reg" in fetch:
                        pattern = (samples(pattern) or [""])[0]
                    if fetch in HOSTS:
                        names.append((pattern if not (method == "end" or "_end" in fetch) else "any" + pattern).lower())
                    elif fetch in PATHS:
                        paths.append(pattern if pattern.startswith("/") else "/any" + pattern if pattern.startswith(".") else "/" + pattern)
                    elif fetch == "src":
                        named.networks.append(pattern)
                    elif found := re.match(r"(?:req\.)?(?:hdr|fhdr)\w*\(([\w-]+)", fetch):
                        named.asked.append((found[1], pattern))
                    elif found := re.match(r"(?:req\.)?cook\w*\((\w+)", fetch):
                        named.asked.append(("cookie", f"{found[1]}={pattern}"))
                    elif found := re.match(r"(?:url_param|urlp)\w*\((\w+)", fetch):
                        paths.append(f"/?{found[1]}={pattern}")
    names = [name for name in names if re.fullmatch(r"[a-z0-9.-]+", name)]
    paths = [path for path in paths if re.fullmatch(r"/[!-~]*", path)]
    if ports:
        named.sites.append(Site(section, unique(ports), unique(names), unique(paths)))


def haproxy_files(named, node):
    words = node.words
    for at, word in enumerate(words[:-1]):
        following = words[at + 1]
        if word == "port" and following.isdigit():
            named.checked.add(int(following))
        if word in ("crt", "ca-file", "ca-base", "crt-base", "crl-file", "-f") and not following.startswith("/") and word not in ("ca-base", "crt-base"):
            base = [one.words[1] for one in named.tree.all("crt-base" if word == "crt" else "ca-base")]
            following = os.path.join(base[0] if base else os.path.dirname(node.file), following)
        if word == "crt" and (words[0] in ("bind", "server", "default-server", "load")):
            named.files.append(("pem", following))
        elif word == "ca-file" and not following.endswith("@system-ca"):
            named.files.append(("authority", following))
        elif word == "-f":
            named.files.append(("list", following))
    if words[0] == "errorfile":
        named.files.append(("errorfile", words[2], words[1]))
    elif words[0] == "chroot":
        named.files.append(("empty", words[1]))
    elif words[0] in ("user", "group", "uid", "gid") and node.parent.words[0] == "global":
        named.users.add(words[1])
    elif words[0] == "ssl-dh-param-file":
        named.files.append(("parameters", words[1]))
    elif words[0] == "stats" and words[1] == "socket":
        named.files.append(("parent", words[2]))
    elif words[0] in ("http-response", "rspadd", "http-after-response") and len(words) > 2:
        if words[1].endswith("-header"):
            named.answers.add(words[2].lower())
    elif words[0] == "nameserver":
        named.resolvers.append(host_port(words[2], 53))
    if any("sc_http_req_rate" in word or "sc0_http_req_rate" in word or "rate" in word for word in words) and words[0] != "stick-table":
        named.limited = True


# --- Caddy ------------------------------------------------------------------------------------------------------------------

def caddy_tree(path):
    """The tree of a Caddyfile. A site without braces takes the whole file."""
    root = Node([], path, 0, None, [])
    here = root
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    bare = not re.search(r"^\S[^\n]*\{\s*(#.*)?$|^\{\s*$", text, re.M)
    for number, line in enumerate(text.split("\n"), 1):
        words = [word.strip("\"`") if word[0] in "\"`" else word for word in re.findall(r"\"(?:\\.|[^\"])*\"|`[^`]*`|\S+", re.sub(r"(^|\s)#.*", "", line))]
        if not words:
            continue
        if words[-1] == "{":
            here = Node(words[:-1], path, number, here, [])
            here.parent.children.append(here)
        elif words == ["}"]:
            here = here.parent or root
        else:
            if bare and here is root:
                here = Node(words, path, number, root, [])
                root.children.append(here)
            else:
                here.children.append(Node(words, path, number, here))
    return root


def caddy(path):
    named = Named(caddy_tree(path))
    snippets = {node.words[0][1:-1]: node for node in named.tree.children if node.children is not None and re.fullmatch(r"\([\w-]+\)", (node.words or [""])[0])}
    for site in named.tree.children:
        if site.children is None or not site.words or site.words[0].startswith("("):
            continue
        ports, names = [], []
        for word in " ".join(site.words).replace(",", " ").split():
            scheme, host, port = re.match(r"(?:(https?)://)?([^:/]*)(?::(\d+))?", re.sub(r"\{\$[^}:]*:?([^}]*)\}", r"\1", word)).groups()
            if port:
                tls = scheme == "https" or port == "443" or scheme != "http" and bool(host) and port != "80"
                ports.append((int(port), tls, False))
            else:
                ports += [(80, False, False)] if scheme == "http" or not host else [(443, True, False), (80, False, False)]
            if host:
                names.append(host.replace("*", "any"))
        nodes = list(site.walk())
        for node in nodes[:]:
            if node.words[0] == "import" and node.words[1] in snippets:
                nodes += list(snippets[node.words[1]].walk())
        paths = []
        for node in nodes:
            for word in node.words[1:] if node.words[0] != "respond" else node.words[1:2]:
                if word.startswith("/") and "{" not in word and not os.path.splitext(word)[0].startswith(("/etc", "/srv", "/var", "/usr", "/run", "/data")):
                    paths.append(word.replace("*", "any") if word.endswith("*") and word != "/*" else word.replace("*", "a"))
            if node.words[0] == "path" or node.words[0].startswith("@") and node.words[1:2] == ["path"]:
                paths += [word.replace("*", "any") for word in node.words[1:] if word.startswith(("/", "*"))]
            if "path_regexp" in node.words[:2]:
                paths += samples(node.words[-1])[:2]
            if "header" in node.words[:2] and (node.words[0].startswith("@") or node.parent and node.parent.words and node.parent.words[0].startswith("@")) and len(node.words) > 2:
                named.asked.append((node.words[-2], node.words[-1].replace("*", "any")))
            if "remote_ip" in node.words[:2] or "client_ip" in node.words[:2]:
                named.networks += node.words[1:]
            if "rate_limit" in node.words:
                named.limited = True
        paths = [path if path.startswith("/") else "/any/" + path for path in paths]
        if site.words:
            named.sites.append(Site(site, unique(ports), unique(names), unique(path for path in paths if re.fullmatch(r"/[!-~]*", path))))
    for node in named.tree.walk():
        caddy_node(named, node)
    return named


def caddy_node(named, node):
    words = node.words
    if not words:
        return
    if words[0] in ("reverse_proxy", "forward_auth", "to") or words[0] == "proxy":
        for word in words[1:]:
            word = re.sub(r"\{\$[^}:]*:?([^}]*)\}", r"\1", word)
            scheme = re.match(r"(\w+)://", word)
            target = re.sub(r"^\w+://", "", word)
            if word.startswith(("/", "@", "*")) or not target:
                continue
            host, port = host_port(word if word.startswith("unix/") else target.split("/")[0], 443 if scheme and scheme[1] == "https" else 80)
            if host:
                named.upstreams.append((f"{node.file}:{node.line}", host or "127.0.0.1", port))
            elif re.fullmatch(r":\d+", target):
                named.upstreams.append((f"{node.file}:{node.line}", "127.0.0.1", int(target[1:])))
    elif words[0] == "tls" and len(words) == 3 and words[1].startswith("/"):
        named.files.append(("certificate", words[1], words[2]))
    elif words[0] == "root":
        named.files.append(("folder", words[-1]))
    elif words[0] == "header" and len(words) > 1:
        for word in words[1:3]:
            named.answers.add(word.lstrip("+-?>").lower())
    elif words[0] == "output" and words[1:2] == ["file"]:
        named.files.append(("parent", words[2]))
    if node.parent and node.parent.words and node.parent.words[0] == "header":
        named.answers.add(words[0].lstrip("+-?>").lower())


READERS = {"nginx": nginx, "haproxy": haproxy, "caddy": caddy}
