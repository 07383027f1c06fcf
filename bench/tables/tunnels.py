"""How each program is configured as a CONNECT proxy, plain or over TLS, for any target on the loopback interface."""
import os
from dataclasses import dataclass, replace

from . import peers, processes
from .peers import _written as written
from .processes import BEFORE, BUILT, LOCKGATE


@dataclass(frozen=True)
class Tunnel:
    """One listener."""
    port: int = 0
    key: str | None = None        # "ecdsa": clients speak TLS to it, with that certificate
    workers: int = 1

    few_descriptors = False


def lockgate(tunnel, directory, binary=LOCKGATE):
    text = [f"workers = {tunnel.workers}", "access_log = false", f'[tunnel."127.0.0.1:{tunnel.port}"]', 'allow = ["127.0.0.1:*"]', "private = true"]
    if tunnel.key:
        text.append(f'tls = {{ cert = "{BUILT}/certs/{tunnel.key}.crt", key = "{BUILT}/certs/{tunnel.key}.key" }}')
    return written(directory, "lockgate.toml", text), [binary, "run", "-c", f"{directory}/lockgate.toml"]


def lockgate_before(tunnel, directory):
    return lockgate(tunnel, directory, BEFORE)


def http_tunnel(tunnel, directory):
    mode = ["https", ["--pk", f"{BUILT}/certs/{tunnel.key}.pfx", "--password", "bench"]] if tunnel.key else ["http", []]
    return peers.http_tunnel_as(*mode, tunnel, directory)


def tinyproxy(tunnel, directory):
    if tunnel.key:
        raise peers.DidNotStart("it has no TLS to clients")
    text = [f"Port {tunnel.port}", "Listen 127.0.0.1", "Allow 127.0.0.1", "Timeout 60", "MaxClients 10000", "LogLevel Critical", f'LogFile "{directory}/log"', "DisableViaHeader Yes"]
    return written(directory, "tinyproxy.conf", text), ["tinyproxy", "-d", "-c", f"{directory}/tinyproxy.conf"]


def squid(tunnel, directory):
    os.chmod(directory, 0o777)  # it goes on as another user
    listener = f"https_port 127.0.0.1:{tunnel.port} tls-cert={BUILT}/certs/{tunnel.key}.pem" if tunnel.key else f"http_port 127.0.0.1:{tunnel.port}"
    text = [listener, "http_access allow all", "workers 1", "access_log none", "cache_store_log none", f"cache_log {directory}/cache.log", "logfile_rotate 0", "pid_filename none",
            "cache deny all", "cache_mem 0 MB", "memory_pools off", f"coredump_dir {directory}", "pinger_enable off", "max_filedescriptors 20000", "shutdown_lifetime 0 seconds", "via off", "client_db off"]
    return written(directory, "squid.conf", text), ["squid", "-N", "-f", f"{directory}/squid.conf"]


KINDS = {"lockgate": lockgate, "lockgate-before": lockgate_before, "http-tunnel": http_tunnel, "tinyproxy": tinyproxy, "squid": squid}
PEERS = [*peers.OURS, "http-tunnel", "tinyproxy", "squid"]


def start(name, tunnel, cores=processes.TESTED):
    """Starts the proxy and waits until it listens."""
    return peers.start(name, replace(tunnel, port=tunnel.port or processes.free_port()), cores, KINDS)
