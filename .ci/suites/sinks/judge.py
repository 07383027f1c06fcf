"""Whether a sink has the figures of Lockgate's `/metrics`, and the spans that it should.

    judge.py statsd METRICS PORT           statsd, asked at its management port
    judge.py otlp METRICS FILE…            what a collector has written of metrics
    judge.py spans TOLD FILE…              and of spans; TOLD is a folder with what the application was told, a file a trace
    judge.py telegraf METRICS FILE WAY     what Telegraf has written of one of its inputs

Says what is wrong and exits with 1, or says how many figures are the same.
"""

import json
import math
import os
import re
import socket
import sys

# Families that have come to rest with the last request; the beginnings of their names.
AT_REST = ("lockgate_request", "lockgate_connection_bytes_total", "lockgate_connections_accepted_total", "lockgate_connections_ended_total",
           "lockgate_upstream_requests_total", "lockgate_upstream_reused_total", "lockgate_upstream_connects_total",
           "lockgate_upstream_response_duration_seconds", "lockgate_build_info", "lockgate_upstream_up")
wrong = []


class Figure:
    """A sample of `/metrics`."""

    def __init__(self, name, labels, value, kind):
        self.name, self.labels, self.value, self.kind = name, labels, value, kind

    def __str__(self):
        return self.name + "".join(f" {name}={value}" for name, value in self.labels)

    @property
    def bound(self):
        """That of a bucket of a histogram."""
        return dict(self.labels).get("le")

    def key(self, change=lambda value: value):
        """Name and labels without regard to order; an empty label is none."""
        return self.name, frozenset((name, change(value)) for name, value in self.labels if value)


def figures(path):
    """What is at rest of a reading of `/metrics`."""
    kinds, found = {}, []
    for line in open(path, encoding="utf-8").read().splitlines():
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split()
            kinds[family] = kind
        elif line and not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
            labels = [(key, re.sub(r"\\(.)", lambda c: {"n": "\n"}.get(c[1], c[1]), text)) for key, text in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")]
            kind = kinds.get(name) or kinds[re.sub("_(bucket|sum|count)$", "", name)]
            if name.startswith(AT_REST):
                found.append(Figure(name, labels, float(value), kind))
    return found


def compare(figure, found):
    """Counts must be the same to the last one; sums of seconds are of floating point."""
    if found is None:
        wrong.append(f"{figure}: is missing, {figure.value:g} in /metrics")
    elif found != figure.value if figure.value.is_integer() else not math.isclose(found, figure.value, rel_tol=1e-9):
        wrong.append(f"{figure}: {found!r}, {figure.value!r} in /metrics")


def part(text):
    """A label as a part of a path."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text) or "_"


def statsd(metrics, port):
    """All figures but buckets and counters at 0, which are not sent."""
    counters, gauges = asked(port, "counters"), asked(port, "gauges")
    if counters.get("statsd.bad_lines_seen") != 0 or not counters.get("statsd.packets_received"):
        wrong.append(f"{counters.get('statsd.packets_received')} packets with {counters.get('statsd.bad_lines_seen')} bad lines")
    compared = 0
    for figure in figures(metrics):
        if figure.bound or figure.kind != "gauge" and not figure.value:
            continue
        name = ".".join([figure.name.replace("lockgate_", "lockgate.", 1), *(part(text) for label in figure.labels for text in label)])
        compare(figure, (gauges if figure.kind == "gauge" else counters).get(name))
        compared += 1
    return f"{compared} figures in {counters.get('statsd.packets_received', 0):.0f} packets"


def asked(port, command):
    """What statsd says as Node.js prints an object."""
    with socket.create_connection(("127.0.0.1", int(port)), 5) as stream:
        stream.sendall(command.encode() + b"\n")
        said = b""
        while not said.endswith(b"END\n\n"):
            said += stream.recv(65536)
    return {name: float(value) for name, value in re.findall(r"^[{ ]+'?([^' :]+)'?: (-?[\d.e+-]+),?(?: \})?$", said.decode(), re.M)}


def otlp(metrics, *files):
    """The last point of each series. Counters may not fall from one reading to the next."""
    last, readings, known = {}, set(), {}
    for request in requests(files):
        for resource in request["resourceMetrics"]:
            if (service := attributes(resource["resource"]).get("service.name")) != "edge":
                wrong.append(f"service.name is {service}")
            for metric in (metric for scope in resource["scopeMetrics"] for metric in scope["metrics"]):
                kind = next(kind for kind in ("sum", "gauge", "histogram") if kind in metric)
                data = metric[kind]
                if kind == "sum" and not (data.get("isMonotonic") and data["aggregationTemporality"] == 2) or kind == "histogram" and data["aggregationTemporality"] != 2:
                    wrong.append(f"{metric['name']} is no cumulative counter")
                for point in data["dataPoints"]:
                    at = int(point["timeUnixNano"])
                    readings.add(at)
                    key = metric["name"], frozenset((name, value) for name, value in attributes(point).items() if value)
                    count = float(point.get("count", point.get("asInt", point.get("asDouble", 0))))
                    if kind != "gauge" and count < known.get(key, 0):
                        wrong.append(f"{metric['name']}: {count} after {known[key]}")
                    if kind != "gauge" and not int(point["startTimeUnixNano"]) <= at:
                        wrong.append(f"{metric['name']} begins after its end")
                    known[key] = count
                    if at >= last.get(key, (0, None))[0]:
                        last[key] = at, point
    compared = 0
    for figure in figures(metrics):
        name, labels = figure.key()
        part = re.search("_(bucket|sum|count)$", name) if figure.kind == "histogram" else None
        key = name[:part.start()] if part else name, frozenset((label, value) for label, value in labels if label != "le")
        _, point = last.get(key, (0, None))
        compare(figure, point and value_of(point, part and part[1], figure.bound))
        compared += 1
    return f"{compared} figures, {len(readings)} readings"


def value_of(point, part, bound):
    """Of a point, or of a bucket with all below it."""
    if part == "bucket":
        counts, bounds = [float(count) for count in point["bucketCounts"]], [*point["explicitBounds"], math.inf]
        return sum(counts[:bounds.index(float(bound.replace("+Inf", "inf"))) + 1])
    # A zero is not written.
    return float(point.get(part, 0) if part else point.get("asInt", point.get("asDouble", 0)))


def spans(told, *files):
    """Of each trace that is to be recorded the whole chain: the client's span, ours as server and as client, the application's."""
    found = {}
    for request in requests(files):
        for resource in request["resourceSpans"]:
            service = attributes(resource["resource"]).get("service.name")
            for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
                found.setdefault(span["traceId"], []).append((service, span["kind"], span))
    for trace in sorted(os.listdir(told)):
        ids, kinds = f"{int(trace):032x}", sorted((service, kind) for service, kind, _ in found.get(f"{int(trace):032x}", []))
        parent, (came, state) = f"{int(trace) + 1000:016x}", open(os.path.join(told, trace), encoding="utf-8").read().rstrip("\n").split(" ")
        if state != "vendor=1":
            wrong.append(f"trace {trace}: the application has the tracestate {state!r}")
        if int(trace) >= 100:  # not recorded
            if kinds or came != f"00-{ids}-{parent}-00":
                wrong.append(f"trace {trace}, which is not to be recorded: {kinds}, {came}")
            continue
        # What the application has ended while the collector was away its SDK has given up.
        if kinds != [("app", 2), ("edge", 2), ("edge", 3)][int(trace) > 20:]:
            wrong.append(f"trace {trace}: {kinds}")
            continue
        server, client, theirs = (next((span for service, kind, span in found[ids] if (service, kind) == wanted), None) for wanted in [("edge", 2), ("edge", 3), ("app", 2)])
        for what, is_so in {
                "the server span is below the client's": server.get("parentSpanId") == parent,
                "our client span is below our server span": client.get("parentSpanId") == server["spanId"],
                "the application was told of our client span": came == f"00-{ids}-{client['spanId']}-01",
                "the application's span is below it": not theirs or theirs.get("parentSpanId") == client["spanId"],
                "times lie within each other": all(not of_it or lies_within(of_it, out) for out, of_it in ((server, client), (client, theirs))),
                "the request is described": attributes(server).get("http.request.method") == "GET" and attributes(server).get("http.response.status_code") == "200" and attributes(client).get("server.port") == "8090",
        }.items():
            if not is_so:
                wrong.append(f"trace {trace}: not so: {what}")
    known = {f"{int(trace):032x}" for trace in os.listdir(told)}
    if strange := set(found) - known:
        wrong.append(f"{len(strange)} traces of others")
    return f"{sum(len(ones) for ones in found.values())} spans of {len(found)} traces"


def lies_within(inner, outer):
    """Within a millisecond: a program may be put aside between its two clocks."""
    begun, ended = (int(inner[f"{what}TimeUnixNano"]) - int(outer[f"{what}TimeUnixNano"]) for what in ("start", "end"))
    return begun >= -1_000_000 and ended <= 1_000_000


def requests(files):
    for path in files:
        for line in open(path, encoding="utf-8"):
            if line.endswith("\n"):
                yield json.loads(line)


def attributes(of_it):
    return {one["key"]: str(next(iter(one["value"].values()), "")) for one in of_it.get("attributes", [])}


def telegraf(metrics, path, way):
    """The last values of the series that came by one input, which has set the tag `way`."""
    last, readings = {}, set()
    for one in requests([path]):
        tags = one["tags"]
        if tags.pop("way") == way:
            tags.pop("metric_type", None)
            tags.pop("host", None)
            readings.add(one["timestamp"])
            last[one["name"], frozenset(tags.items())] = one["fields"]
    change = (lambda value: re.sub(r"[^!-~]|[,|#:=@\\]", "_", value)) if way == "influx" else (lambda value: re.sub(r"[^!-~]|[,|#]", "_", value)) if way == "dogstatsd" else lambda value: value
    compared = 0
    for figure in figures(metrics):
        name, labels = figure.key(change)
        labels = frozenset((label, value) for label, value in labels if label != "le")
        part = re.search("_(bucket|sum|count)$", name) if figure.kind == "histogram" else None
        if way in ("influx", "dogstatsd"):
            # Its counts are whole numbers: of Datadog's sums it has nothing.
            if figure.bound or figure.kind != "gauge" and not figure.value or way == "dogstatsd" and name.endswith("_seconds_sum"):
                continue
            found = last.get((name, labels), {}).get("value")
        elif part:
            found = last.get((name[:part.start()], labels), {}).get(figure.bound or part[1])
        else:
            found = last.get((name, labels), {}).get(figure.kind)
        compare(figure, None if found is None else float(found))
        compared += 1
    return f"{compared} figures, {len(readings)} readings"


said = {"statsd": statsd, "otlp": otlp, "spans": spans, "telegraf": telegraf}[sys.argv[1]](*sys.argv[2:])
if wrong:
    sys.exit("\n".join(wrong[:20]))
print(said)
