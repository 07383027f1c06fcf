"""The machine that a configuration describes, in namespaces of its own: a root that is a copy on write, addresses, names, files, certificates.

Every address that is no loopback address leads to a second network namespace, where the origin answers on each port that an upstream
has. So listeners may take all ports of this one.
"""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
PATIENCE = 20  # seconds until something that must come counts as missing
US = "198.18.0.1"  # an address of this machine, for clients that are not on it
STRANGER = "203.0.113.77"
SECRET = "secret"  # the password of alice
PORTS_ELSEWHERE = (80, 443)


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def new_root(keep):
    """A root of our own, over the machine's: what is written is gone with the namespace. `keep` are folders that must be seen."""
    run("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    for folder in ("up", "work", "root"):
        os.makedirs("/mnt/" + folder)
    run("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work", "/mnt/root")
    for folder in ["/dev", *keep]:
        os.makedirs("/mnt/root" + folder, exist_ok=True)
        run("mount", "--rbind", folder, "/mnt/root" + folder)
    run("mount", "-t", "proc", "proc", "/mnt/root/proc")
    os.chroot("/mnt/root")
    os.chdir("/")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (500_000, 500_000))  # servers ask for what they may never need
    except (ValueError, PermissionError):
        pass  # files that ask for more than the machine allows are left out
    for folder in ("/tmp", "/run", "/etc/lockgate", "/var/lib/lockgate/certs", "/usr/local/nginx/logs"):
        os.makedirs(folder, exist_ok=True)
    os.chmod("/tmp", 0o1777)


def network(addresses):
    """Loopback with the addresses of listeners and clients; the second namespace, to which all else leads. Its first process is given."""
    run("ip", "link", "set", "lo", "up")
    there = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    there.stdout.readline()
    run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(there.pid))
    inside = ["nsenter", f"--net=/proc/{there.pid}/ns/net", "ip"]
    run("ip", "address", "add", "198.19.0.1/30", "dev", "here")
    run("ip", "link", "set", "here", "up")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "address", "add", "198.19.0.2/30", "dev", "there")
    run(*inside, "link", "set", "there", "up")
    run(*inside, "route", "add", "local", "0.0.0.0/0", "dev", "lo")
    run("ip", "route", "add", "default", "via", "198.19.0.2")
    for address in sorted({US, STRANGER, *addresses}):
        subprocess.run(["ip", "address", "add", address + "/32", "dev", "lo"], check=False, capture_output=True)
    return there


class Certificates:
    """An authority that the machine trusts, and certificates of it."""

    def __init__(self):
        os.makedirs("/tmp/tls")
        run("openssl", "req", "-x509", "-nodes", "-days", "90", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=Origins",
            "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", "/tmp/tls/ca.key", "-out", "/tmp/tls/ca.pem")
        for bundle in ("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem"):
            if os.path.exists(bundle) or bundle.endswith(".crt"):
                old = open(bundle, encoding="utf-8").read() if os.path.exists(bundle) else ""
                if os.path.islink(bundle):
                    os.unlink(bundle)
                write(bundle, old + open("/tmp/tls/ca.pem", encoding="utf-8").read())

    def make(self, path, key, names):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.makedirs(os.path.dirname(key), exist_ok=True)
        names = [name for name in names if re.fullmatch(r"[\w.*-]+", name)][:60] or ["any.example"]
        alternatives = ",".join(("IP:" if re.fullmatch(r"[\d.]+", name) else "DNS:") + name for name in names)
        made = path + ".made"
        run("openssl", "req", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=test", "-keyout", made + ".key", "-out", made + ".csr")
        write(made + ".ext", f"subjectAltName={alternatives}\nbasicConstraints=critical,CA:FALSE\n")
        run("openssl", "x509", "-req", "-days", "90", "-in", made + ".csr", "-CA", "/tmp/tls/ca.pem", "-CAkey", "/tmp/tls/ca.key", "-CAcreateserial",
            "-extfile", made + ".ext", "-out", made)
        secret = open(made + ".key", encoding="utf-8").read()
        public = open(made, encoding="utf-8").read()
        write(path, public + (secret if key == path else ""))
        if key != path:
            write(key, secret)
        for ending in ("", ".key", ".csr", ".ext"):
            os.unlink(made + ending)


def folder(path, paths, index):
    """A root of documents: some usual files, and files at some of the paths that the configuration names."""
    os.makedirs(path, exist_ok=True)
    names = ["index.html", "404.html", "50x.html", "page.html", "sub/index.html", "app.js", "style.css", "image.svg", "data.json", "notes.txt", ".hidden", "sub/deep.txt"]
    for named in paths[:30]:
        named = named.split("?")[0]
        if re.search(r"\.\w{2,5}$", named):
            names.append(named.lstrip("/"))
        elif named.endswith("/") and ".." not in named:
            names += [named.lstrip("/") + "index.html", named.lstrip("/") + "app.js"]
    names += [name for name in index if not name.startswith("/")]
    for name in names:
        where = os.path.join(path, name)
        try:
            write(where, f"file {name}\n" + "text of it\n" * 200)
        except OSError:
            pass  # a file is where another path has a folder


def furnish(named, certificates):
    """Makes what the configuration names, the users of its process, and names for its upstreams: name → address."""
    named.upstreams = [upstream for upstream in named.upstreams if upstream[1]]
    names = [name for site in named.sites for name in site.names]
    paths = [path for site in named.sites for path in site.paths]
    index = [name for kind, *rest in named.files if kind == "index" for name in rest]
    hashed = run("openssl", "passwd", "-6", SECRET).strip()
    for kind, path, *more in named.files:
        path = os.path.join(os.path.dirname(named.tree.file), path)
        try:
            if kind == "certificate":
                certificates.make(path, more[0], names)
            elif kind == "pem":
                if path.endswith("/") or not re.search(r"\.\w+$", path) and not os.path.exists(path):
                    certificates.make(os.path.join(path, "site.pem"), os.path.join(path, "site.pem"), names)
                else:
                    certificates.make(path, path, names)
            elif kind == "authority":
                write(path, open("/tmp/tls/ca.pem", encoding="utf-8").read())
            elif kind == "parameters":
                write(path, dh_parameters())
            elif kind == "users":
                write(path, f"alice:{hashed}\n")
            elif kind == "bytes":
                write(path, "0" * 80)
            elif kind == "list":
                write(path, "")
            elif kind == "errorfile":
                write(path, f"HTTP/1.0 {more[0]} Error\r\nContent-Type: text/html\r\n\r\nerror {more[0]}\n")
            elif kind == "folder":
                folder(path, paths, index)
            elif kind == "parent":
                os.makedirs(os.path.dirname(path), exist_ok=True)
            elif kind == "empty":
                os.makedirs(path, exist_ok=True)
        except (NotADirectoryError, IsADirectoryError, FileExistsError):
            pass  # two statements name one path as different things
    with open("/etc/passwd", "a", encoding="utf-8") as users, open("/etc/group", "a", encoding="utf-8") as groups:
        known = open("/etc/passwd", encoding="utf-8").read() + open("/etc/group", encoding="utf-8").read()
        for number, user in enumerate(sorted(named.users | {"nobody", "nogroup"})):
            if re.fullmatch(r"[a-z_][\w-]*", user) and not re.search(rf"^{re.escape(user)}:", known, re.M):
                users.write(f"{user}:x:{7000 + number}:{7000 + number}::/:/usr/sbin/nologin\n")
                groups.write(f"{user}:x:{7000 + number}:\n")
    hosts = {}
    for _, host, _ in named.upstreams:
        if re.search(r"[a-zA-Z]", host) and not host.startswith("unix:") and host != "localhost":
            hosts.setdefault(host.lower(), f"198.20.{len(hosts) // 200}.{len(hosts) % 200 + 1}")
    write("/etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in hosts.items()))
    if os.path.islink("/etc/resolv.conf"):
        os.unlink("/etc/resolv.conf")
    write("/etc/resolv.conf", "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n")
    return hosts


def dh_parameters():
    """The group ffdhe2048 (RFC 7919), as a file."""
    return run("openssl", "genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048")


def start_origins(named, hosts, there, certificates):
    """An origin for loopback addresses and sockets here, and one for all addresses there."""
    certificates.make("/tmp/tls/origin.pem", "/tmp/tls/origin.pem", [*hosts, "localhost", "127.0.0.1", *(host for _, host, _ in named.upstreams if re.fullmatch(r"[\d.]+", host))])
    taken = {port for site in named.sites for port, _, _ in site.ports}
    here = {("127.0.0.1" if host == "localhost" else host, port) for _, host, port in named.upstreams if host == "localhost" or host.startswith("127.")}
    here |= {(host, port) for host, _ in here for port in named.checked}
    here = sorted((host, port) for host, port in here if port and port not in taken)
    sockets = sorted({host[5:] for _, host, _ in named.upstreams if host.startswith("unix:")})
    elsewhere = sorted({port for _, host, port in named.upstreams if port} | taken | named.checked | set(PORTS_ELSEWHERE))
    dns = sorted({("127.0.0.53", 53), *((host, port) for host, port in named.resolvers if host.startswith("127."))})
    base = {"names": hosts, "pem": "/tmp/tls/origin.pem"}
    specs = [([], {**base, "tcp": here, "unix": sockets, "dns": dns}),
             (["nsenter", f"--net=/proc/{there.pid}/ns/net"], {**base, "tcp": [("0.0.0.0", port) for port in elsewhere], "unix": [], "dns": [("0.0.0.0", 53)]})]
    for prefix, spec in specs:
        origin = subprocess.Popen([*prefix, sys.executable, os.path.join(HERE, "origin.py"), json.dumps(spec)], stdout=subprocess.PIPE, text=True)
        if origin.stdout.readline() != "ready\n":
            raise RuntimeError("an origin does not start")


def groups_of(named, hosts):
    """The address that an origin says of itself → the pools that it is in."""
    found = {}
    for group, host, port in named.upstreams:
        address = host if host.startswith("unix:") else f"{hosts.get(host.lower(), '127.0.0.1' if host == 'localhost' else host)}:{port}"
        found.setdefault(address, set()).add(group)
        if not port and not host.startswith("unix:"):
            for site_port in {site_port for site in named.sites for site_port, _, _ in site.ports}:
                found.setdefault(address[:-1] + str(site_port), set()).add(group)
    return found


# --- Programs ------------------------------------------------------------------------------------------------------------------

class Program:
    """A server under test; all its processes end with `stop`."""

    def __init__(self, command, ports, log):
        self.binary = os.path.realpath(command[0])
        self.ports = ports
        self.log = log
        with open(log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        self.missing = set(ports)
        while self.missing and time.monotonic() < end:
            self.missing = {port for port in self.missing if not accepts(port)}
            if not self.missing or self.process.poll() not in (None, 0):
                break
            time.sleep(0.05)

    def said(self):
        return open(self.log, encoding="utf-8", errors="replace").read()

    def runs(self):
        return bool(processes_of(self.binary))

    def stop(self):
        end = time.monotonic() + PATIENCE
        while processes_of(self.binary) or any(accepts(port) for port in self.ports):
            for process in processes_of(self.binary):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            if time.monotonic() > end:
                raise RuntimeError(f"{self.binary} does not end")
            time.sleep(0.01)


def processes_of(binary):
    """Of our process namespace only."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/exe") == binary and open(f"/proc/{name}/stat", encoding="utf-8").read().rsplit(")")[1].split()[0] != "Z":
                found.append(int(name))
        except OSError:
            pass
    return found


def accepts(port):
    try:
        socket.create_connection((US, port), timeout=2).close()
        return True
    except OSError:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
            return True
        except OSError:
            return False


def new_namespaces(program, *arguments):
    """The command that runs a program in namespaces of its own."""
    keep = [f"{name}={os.environ[name]}" for name in ("PATH", "CARGO_TARGET_DIR", "LOCKGATE", "PEERS_BIN") if name in os.environ]
    # Neither outlives this process.
    return ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "env", *keep, sys.executable, program, *arguments]
