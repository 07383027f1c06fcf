"""Starts, watches and ends the programs of a run: pinned to cores, their CPU time and memory read from /proc.

Nothing started here outlives the run: neither after Ctrl-C nor after an exception.
"""
import atexit
import ctypes
import itertools
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILT = os.path.abspath(os.environ.get("BENCH_DIR", os.path.join(REPOSITORY, "target", "bench")))
LOCKGATE = os.path.abspath(os.environ.get("LOCKGATE", os.path.join(REPOSITORY, "target", "release", "lockgate")))
LOAD = os.path.abspath(os.environ.get("LOCKGATE_LOAD", LOCKGATE))
PYTHON = sys.executable
BEFORE = os.environ.get("LOCKGATE_BEFORE") and os.path.abspath(os.environ["LOCKGATE_BEFORE"])

# The layout: the program under test alone on one core, origin and generator on the other.
TESTED, OTHERS, BOTH = {0}, {1}, {0, 1}

_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_running = []
_scratch = None


@dataclass(frozen=True)
class Side:
    """Where clients or the origin are: their own address, that of the program under test as they see it, and the words in front of their commands."""
    own: str = "127.0.0.1"
    program: str = "127.0.0.1"
    enter: tuple = ()


CLIENTS = ORIGIN = Side()


@dataclass(frozen=True)
class Cpu:
    """CPU time in microseconds: `total` from the scheduler, `user` and `system` from ticks (10 ms)."""
    total: float
    user: float
    system: float

    def __sub__(self, other):
        return Cpu(self.total - other.total, self.user - other.user, self.system - other.system)


def scratch():
    """A directory for this run, short enough for socket paths and open to the users that peers change to."""
    global _scratch
    if _scratch is None:
        _scratch = tempfile.mkdtemp(prefix="lockgate-bench-")
        os.chmod(_scratch, 0o755)
    return _scratch


def fresh_directory(name):
    path = os.path.join(scratch(), name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


# Below the range of ports that connections get, so that none of them sits on a port we are about to listen on.
_ports = itertools.cycle(range(20000 + os.getpid() % 4000, 32000))


def free_port():
    for port in _ports:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Process:
    """One program with everything that it forks."""

    def __init__(self, argv, cores, name, env=None, descriptors=None, stdin=subprocess.DEVNULL, stdout=None, cwd=None, cgroup=None):
        def prepare():
            os.sched_setaffinity(0, cores)
            if cgroup:
                with open(os.path.join(cgroup, "cgroup.procs"), "w") as f:
                    f.write(str(os.getpid()))
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
            die_with_parent()

        self.name, self.argv = name, argv
        self.log = os.path.join(scratch(), f"{name}-{len(os.listdir(scratch()))}.log")
        with open(self.log, "wb") as log:
            self.popen = subprocess.Popen(argv, stdin=stdin, stdout=stdout or log, stderr=log, start_new_session=True,
                                          preexec_fn=prepare, env={**os.environ, **(env or {})}, text=True, cwd=cwd)
        self.pid = self.popen.pid
        _running.append(self)

    def alive(self):
        return self.popen.poll() is None

    def said(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def listens(self, port, seconds=10, host="127.0.0.1"):
        """Waits until it does; False when it ended or time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.alive():
            try:
                socket.create_connection((host, port), 1).close()
                return True
            except OSError:
                time.sleep(0.05)
        return False

    def tree(self):
        found, todo = [], [self.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            for task in _tasks(pid):
                todo += [int(p) for p in _read(f"/proc/{pid}/task/{task}/children").split()]
        return found

    def group(self):
        """The living processes of its group: those, too, that a process which has ended has started."""
        stat = {int(pid): _read(f"/proc/{pid}/stat").rpartition(")")[2].split() for pid in _listed("/proc") if pid.isdigit()}
        return [pid for pid, words in stat.items() if words[2:3] == [str(self.pid)] and words[0] != "Z"]

    def cpu(self):
        total = user = system = 0
        for pid in self.tree():
            total += _clock(pid)
            stat = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
            if stat:
                user += int(stat[11])
                system += int(stat[12])
        return Cpu(total, user / _TICKS * 1e6, system / _TICKS * 1e6)

    def cpu_by_task(self):
        """Microseconds of every thread of every process of the tree, as far as they still run."""
        parts = {}
        for pid in self.tree():
            for task in _tasks(pid):
                line = _read(f"/proc/{pid}/task/{task}/schedstat").split()
                if line:
                    parts[int(task)] = int(line[0]) / 1e3
        return parts

    def pss(self):
        """Kilobytes of the tree, pages shared by several processes divided among them."""
        found = (re.search(r"^Pss:\s+(\d+)", _read(f"/proc/{pid}/smaps_rollup"), re.M) for pid in self.group())
        return sum(int(m.group(1)) for m in found if m)

    def until_quiet(self, seconds=3):
        """Waits until it has used less than 2 % of a core for 50 ms: the work of the last run is done."""
        end = time.monotonic() + seconds
        before = self.cpu().total
        while time.monotonic() < end:
            time.sleep(0.05)
            after = self.cpu().total
            if after - before < 1000:
                return
            before = after

    def signal(self, number):
        if self.alive():
            self.popen.send_signal(number)

    def wait(self, seconds):
        """Its exit code, or None when it is still running after `seconds`."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, patience=3):
        if self in _running:
            _running.remove(self)
        self.signal(signal.SIGTERM)
        self.wait(patience)
        try:
            os.killpg(self.pid, signal.SIGKILL)  # its own group, what is left of it
        except ProcessLookupError:
            pass
        self.popen.wait()
        if self.popen.stdin:
            self.popen.stdin.close()
        if self.popen.stdout:
            self.popen.stdout.close()


def established(port):
    """How many connections to this port are up, by the kernel's own list; one line is `n: local remote state …`."""
    local = f":{port:04X} "
    return sum(1 for line in _read("/proc/net/tcp").splitlines() if local in line[:24] and line.split()[3] == "01")


def busy(core=None):
    """CPU-seconds that the core (or all together) has worked since boot, time taken by the hypervisor included."""
    name = "cpu" if core is None else f"cpu{core}"
    for line in _read("/proc/stat").splitlines():
        if line.split()[0] == name:
            user, nice, system, _, _, irq, softirq, steal = map(int, line.split()[1:9])
            return (user + nice + system + irq + softirq + steal) / _TICKS
    return 0.0


def busy_now(seconds=1):
    """What share of all cores works just now, before anything of ours does."""
    before = busy()
    time.sleep(seconds)
    return (busy() - before) / seconds / os.cpu_count()


def _clock(pid):
    """Microseconds of CPU time of a process, of its ended threads too: its clock, as clock_getcpuclockid(3) numbers it."""
    try:
        return time.clock_gettime_ns(~pid << 3 | 2) / 1e3
    except OSError:
        return 0


def _tasks(pid):
    return _listed(f"/proc/{pid}/task")


def _listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def die_with_parent():
    """In a child before it becomes the program: the kernel sends it TERM when the process that has started it has ended."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def apart():
    """From now on clients and origin have a network namespace each, so that nobody receives on the core of who sends.

    Each is joined to ours by a pair of devices, whose packets are received on the core of the program that they are for.
    """
    global CLIENTS, ORIGIN
    if not CLIENTS.enter:
        CLIENTS, ORIGIN = _namespace("clients", 0), _namespace("origin", 1)


def _namespace(name, number):
    """It ends with the process that holds it, and the pair of devices with it. Its addresses are of the block for benchmarks (RFC 2544)."""
    own, program = f"198.18.{number}.2", f"198.18.{number}.1"
    try:
        holder = Process(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], OTHERS, f"namespace-{name}", stdout=subprocess.PIPE)
        if not holder.popen.stdout.readline():
            raise OSError(holder.said())
        enter = "nsenter", f"--net=/proc/{holder.pid}/ns/net"
        ours, theirs = (f"bench{holder.pid}{end}" for end in "ab")
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs)
        for device, cores in ((ours, TESTED), (theirs, OTHERS)):
            with open(f"/sys/class/net/{device}/queues/rx-0/rps_cpus", "w") as f:
                f.write(f"{sum(1 << core for core in cores):x}")
        _run("ip", "link", "set", theirs, "netns", str(holder.pid))
        for device, address, words in ((ours, program, ()), (theirs, own, enter)):
            _run(*words, "ip", "address", "add", f"{address}/30", "dev", device)
            _run(*words, "ip", "link", "set", device, "up")
    except OSError as why:
        sys.exit(f"no network namespace with a pair of devices can be made here: {' '.join(str(why).split())}")
    return Side(own, program, enter)


def _run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")


def ended():
    """What should still run and does not: an origin that has died in the middle, a peer."""
    return [process for process in _running if not process.alive()]


def running():
    """What was started here and not stopped, whether or not it has ended by itself."""
    return list(_running)


def stop_but(kept):
    """Stops the generator of a measurement that has broken."""
    for process in running():
        if process not in kept:
            process.stop()


def need_all_but(tested):
    """Where figures are of one program at a time: whether all else still runs, so that what it had to do with is not its fault."""
    if gone := [f"{one.name} ended with {one.popen.returncode}" for one in ended() if one is not tested]:
        raise RuntimeError(", ".join(gone))


def stop_all():
    for process in running():
        process.signal(signal.SIGTERM)
    for process in running():
        process.stop(patience=1)
    if _scratch:
        shutil.rmtree(_scratch, ignore_errors=True)


def arm():
    """Ends everything when the run ends, however it ends."""
    atexit.register(stop_all)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell's "&" had it ignored
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
