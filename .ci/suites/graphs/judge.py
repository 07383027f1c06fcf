"""Whether Graphite and Prometheus have the figures of /metrics, and answer what the dashboards ask: see `run`.

  judge.py figures COUNTED [PICTURES]    while Lockgate runs and nothing is asked of it
  judge.py last COUNTED                  after its end

COUNTED has a line with site and status for each request that was sent.
"""

import collections
import json
import math
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
METRICS = "http://127.0.0.1:9090/metrics"
GRAPHITE = "http://127.0.0.1:8080"
PROMETHEUS = "http://127.0.0.1:9091"
LINES, PICKLED, TAGGED = "lines.gate.lockgate", "pickled.gate.lockgate", "tagged"
# As several machines are shown.
BOTH = "*.gate.lockgate"
# The names of the sinks in the metrics.
SINKS = {LINES: "graphite:127.0.0.1:2003", PICKLED: "graphite:127.0.0.1:2004"}
WINDOW = 9 * 60  # seconds that queries are about; carbon keeps ten minutes
PATIENCE = 120  # seconds until something that must come counts as missing


class Wrong(Exception):
    pass


def require(holds, what):
    if not holds:
        raise Wrong(what)


def until_true(what, ask):
    """What `ask` returns, once that is true."""
    end = time.time() + PATIENCE
    while True:
        found = ask()
        if found:
            return found
        require(time.time() < end, what)
        time.sleep(0.2)


def fetched(url, fields=None):
    data = urllib.parse.urlencode(fields).encode() if fields else None
    try:
        with urllib.request.urlopen(url, data, timeout=PATIENCE) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        raise Wrong(f"{url} {fields}: {error.code} {error.read()[-500:]}") from error


# --- What Lockgate shows --------------------------------------------------------------------------------------------------

SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)",?')


def samples():
    """The value of each series of /metrics: a name and a tuple of labels, with their values."""
    found = {}
    for line in fetched(METRICS).decode().splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            labels = tuple((label, re.sub(r"\\(.)", r"\1", text)) for label, text in LABEL.findall(labels or ""))
            found[name, labels] = float(value)
    return found


def path_of(prefix, series):
    """The path of a series, as docs/guides/export.md describes it."""
    name, labels = series
    parts = [re.sub(r"[^a-zA-Z0-9_-]", "_", text) or "_" for label in labels for text in label]
    return ".".join([prefix, name.removeprefix("lockgate_"), *parts])


def total(values, name, **labels):
    """The sum of the samples that have these labels."""
    return sum(value for (found, has), value in values.items() if found == name and labels.items() <= dict(has).items())


# --- Graphite -------------------------------------------------------------------------------------------------------------

def render(targets, start, end, **more):
    fields = [("target", target) for target in targets]
    fields += [("from", int(start)), ("until", int(end)), ("noCache", "1"), *({"format": "json", **more}).items()]
    return fetched(GRAPHITE + "/render", fields)


def rendered(targets, start, end):
    """The series of some targets, each with its points that have a value, by their time."""
    answer = json.loads(render(targets, start, end))
    points = lambda series: {at: value for value, at in series["datapoints"] if value is not None}
    return [(series["target"], points(series), series.get("tags", {})) for series in answer]


def of_paths(paths, start, end):
    """The points of each path."""
    found = {}
    for at in range(0, len(paths), 200):
        found.update({name: points for name, points, _ in rendered(paths[at:at + 200], start, end)})
    return found


# Gauges that go up and down while nothing is asked, be it by the readings and the health checks; they may have the same value twice.
RESTLESS = ("lockgate_memory_", "lockgate_upstream_connections", "lockgate_upstream_sockets", "lockgate_upstream_latency", "lockgate_upstream_check_")


def steady_moment():
    """A second, and the samples that had the same value before and after it, and so at it."""
    before = samples()
    moment = int(time.time()) + 2
    time.sleep(moment + 2 - time.time())
    after = samples()
    return moment, {series: value for series, value in before.items() if after.get(series) == value and not series[0].startswith(RESTLESS)}


def compare_figures(moment, steady):
    """Every steady sample is in Graphite, by lines and by pickle, with its value to the last digit."""
    for prefix in (LINES, PICKLED):
        paths = {path_of(prefix, series): value for series, value in steady.items()}
        require(len(paths) == len(steady), "two series have one path")
        found = of_paths(list(paths), moment - 1, moment)
        for path, value in paths.items():
            read = found.get(path, {}).get(moment)
            require(read == value, f"{path} at {moment}: {read}, and not {value}")
    print(f"graphs: {len(steady)} series have the values of /metrics, by lines and by pickle")


def compare_counts(counted, values):
    """What curl has counted is what /metrics has, and so Graphite."""
    sent = collections.Counter(open(counted).read().split("\n")[:-1])
    classes = collections.Counter()
    for line, times in sent.items():
        site, status = line.split(" ")
        classes[site, status[0] + "xx"] += times
    for (site, code), times in classes.items():
        shown = total(values, "lockgate_requests_total", site=site, code=code)
        require(shown == times, f"{site} has {shown} responses {code}, and not {times}")
    sites = {site for site, _ in classes}
    for site in sites:
        times = sum(number for (of, _), number in classes.items() if of == site)
        shown = total(values, "lockgate_request_duration_seconds_bucket", site=site, le="+Inf")
        require(shown == times, f"the buckets of {site} have {shown} requests, and not {times}")
    return sum(classes.values())


def count_points(moment):
    """Graphite has as many points from before a moment as Lockgate had pushed until then: the counter of that is a series too."""
    names = json.loads(fetched(GRAPHITE + "/metrics/index.json"))
    counts = {}
    for prefix in (LINES, PICKLED):
        paths = [name for name in names if name.startswith(prefix + ".")]
        found = of_paths(paths, moment - WINDOW, moment)
        counts[prefix] = sum(at < moment for points in found.values() for at in points)
        counter = path_of(prefix, ("lockgate_export_points_total", (("sink", SINKS[prefix]),)))
        pushed = found[counter][moment]
        require(counts[prefix] == pushed, f"{prefix}: Graphite has {counts[prefix]} points, and {pushed} were pushed")
        print(f"graphs: {pushed:.0f} points were pushed as {prefix}, in {len(paths)} series; {counts[prefix]} are read back")


def compare_tags(moment, steady):
    """Series with tags have the labels as they are, and the values."""
    compared = 0
    for name in ("lockgate_requests_total", "lockgate_request_duration_seconds_bucket", "lockgate_cert_not_after_timestamp_seconds"):
        wanted = {labels: value for (found, labels), value in steady.items() if found == name}
        require(wanted, name)
        target = f"seriesByTag('name={name.replace('lockgate_', TAGGED + '.', 1)}')"

        def all_of_it():
            found = rendered([target], moment - 1, moment)
            return len(found) == len(wanted) and all(moment in points for _, points, _ in found) and found
        found = until_true(f"{target} has not {len(wanted)} series with a point at {moment}", all_of_it)
        for _, points, tags in found:
            # The label `name` has another name, since Graphite keeps that of the series as such a tag.
            labels = {label.removeprefix("exported_"): text for label, text in tags.items() if label not in ("name", "host")}
            value = next(value for series, value in wanted.items() if dict(series) == labels)
            require(points.get(moment) == value, f"{tags} at {moment}: {points.get(moment)}, and not {value}")
            compared += 1
    print(f"graphs: {compared} series have their labels as tags, and the values of /metrics")


# --- The dashboards -------------------------------------------------------------------------------------------------------

def panels(name):
    with open(os.path.join(ROOT, "packaging/grafana", name)) as file:
        return json.load(file)["panels"]


def file_name(title):
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


def ask_graphite(start, end, drawn_from, pictures):
    """The legends of each panel, for whose targets Graphite has points and pictures."""
    legends, slowest, points = {}, (0, ""), 0
    asked = 0
    for panel in panels("graphite.json"):
        targets = [target["target"].replace("$prefix", LINES) for target in panel["targets"]]
        for target in targets:
            begun = time.time()
            found = [series for series in rendered([target], start, end) if series[1]]
            slowest = max(slowest, (time.time() - begun, panel["title"]))
            require(found, f"{panel['title']}: no point of {target}")
            more = [series for series in rendered([target.replace(LINES, BOTH)], start, end) if series[1]]
            require(len(more) >= len(found), f"{panel['title']}: {len(more)} series of two machines")
            legends.setdefault(panel["title"], set()).update(name for name, _, _ in found)
            points += sum(len(series[1]) for series in found)
            asked += 1
        picture = render(targets, drawn_from, end, format="png", width=480, height=240, title=panel["title"], tz="UTC", minXStep=10)
        require(picture.startswith(b"\x89PNG\r\n\x1a\n") and len(picture) > 2000, f"{panel['title']}: no picture")
        if pictures:
            os.makedirs(pictures, exist_ok=True)
            with open(os.path.join(pictures, file_name(panel["title"]) + ".png"), "wb") as file:
                file.write(picture)
    print(f"graphs: {asked} queries of Graphite have {points} points, and answers for two machines too; the slowest took {slowest[0]:.2f} s ({slowest[1]})")
    return legends


def added(raw, at):
    """What was added to counters in the second before a time; none where that is unknown."""
    known = [points[at] - points[at - 1] for points in raw if at in points and at - 1 in points]
    return sum(known) if known else None


def compare_queries(start, end, legends):
    """Legends are labels, and rates and quantiles are those of the points: computed anew, without Graphite's functions."""
    title = {panel["id"]: panel["title"] for panel in panels("graphite.json")}
    targets = {panel["id"]: [target["target"].replace("$prefix", LINES) for target in panel["targets"]] for panel in panels("graphite.json")}
    require(legends[title[1]] == {"_8081", "_8082", "secure_test_8443"}, legends[title[1]])
    require(legends[title[2]] == {"2xx", "4xx", "5xx"}, legends[title[2]])
    require(legends[title[3]] == {"p50", "p95", "p99"}, legends[title[3]])
    require(legends[title[10]] >= {"app.127_0_0_1_3001", "app.127_0_0_1_3002"}, legends[title[10]])
    require(legends[title[12]] <= {"app.127_0_0_1_3001", "app.127_0_0_1_3002"}, legends[title[12]])
    require(legends[title[15]] == {"secure_test"}, legends[title[15]])
    require(legends[title[16]] == {LINES}, legends[title[16]])
    require(legends[title[18]] == legends[title[1]], legends[title[18]])

    compared = 0
    of = lambda prefix: {name: points for name, points, _ in rendered([targets[1][0].replace(LINES, prefix)], start, end)}
    one, other, both = of(LINES), of(PICKLED), of(BOTH)
    for name, points in both.items():
        for at, rate in points.items():
            sum_of_two = one[name].get(at, 0) + other[name].get(at, 0)
            require(rate == sum_of_two, f"{name} at {at}: {rate} of two machines, and not {sum_of_two}")
    series = lambda pattern: [points for _, points, _ in rendered([pattern], start, end)]
    for name, points, _ in rendered(targets[2], start, end):
        raw = series(f"{LINES}.requests_total.site.*.method.*.code.{name}")
        for at, rate in points.items():
            require(math.isclose(rate, added(raw, at), abs_tol=1e-6), f"{name} at {at}: {rate} a second, and not {added(raw, at)}")
            compared += 1
    buckets = {}
    for name, points, _ in rendered([f"{LINES}.request_duration_seconds_bucket.site.*.le.*"], start, end):
        buckets.setdefault(name.rsplit(".", 1)[1], []).append(points)
    bounds = sorted((float(le.replace("_", ".")), le) for le in buckets if le != "_Inf")
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    for name, points, _ in rendered(targets[3], start, end):
        for at in range(start + 1, end):
            count = added(buckets["_Inf"], at)
            fits = [bound for bound, le in bounds if count and added(buckets[le], at) / count >= shares[name]]
            require(points.get(at) == (fits or [None])[0], f"{name} at {at}: {points.get(at)}, and not {fits[:1]}")
            compared += at in points
    require(compared > 40, compared)
    days = rendered(targets[15], start, end)[0][1].values()
    require(all(29.9 < value < 30.01 for value in days), f"days until the certificate expires: {list(days)[:3]}")
    print(f"graphs: {compared} points of rates and quantiles are those of the counters")


def ask_prometheus(start, end, steady):
    ask = lambda path, **fields: json.loads(fetched(f"{PROMETHEUS}/api/v1/{path}?{urllib.parse.urlencode(fields)}"))["data"]
    asked = points = 0
    for panel in panels("prometheus.json"):
        for target in panel["targets"]:
            # As Grafana replaces them for a data source with a scrape interval of one second.
            query = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "4s")
            require("$" not in query, query)
            result = ask("query_range", query=query, start=start, end=end, step=1)["result"]
            values = [value for series in result for _, value in series["values"] if value != "NaN"]
            require(values, f"{panel['title']}: no sample of {query}")
            asked, points = asked + 1, points + len(values)
    for (name, labels), value in steady.items():
        if name == "lockgate_requests_total":
            matchers = ",".join(f'{label}="{text}"' for label, text in labels)
            found = ask("query", query=f"{name}{{{matchers}}}")["result"]
            require(len(found) == 1 and float(found[0]["value"][1]) == value, f"{labels}: {found}, and not {value}")
    print(f"graphs: {asked} queries of Prometheus have {points} samples")
    rules = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
    wrong = [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"]
    require(rules and not wrong, f"alert rules: {wrong}")
    firing = sorted(rule["name"] for rule in rules if rule["state"] != "inactive")
    print(f"graphs: {len(rules)} alert rules are evaluated without an error; {', '.join(firing)} fire or are about to")


def figures(counted, pictures=""):
    until_true("the last request is not counted", lambda: total(samples(), "lockgate_requests_in_flight") == 0)
    moment, steady = steady_moment()
    sent = compare_counts(counted, steady)
    print(f"graphs: {sent} requests were sent, and are counted by site and status")
    compare_figures(moment, steady)
    count_points(moment)
    compare_tags(moment, steady)
    # Whole minutes, since the clock of Graphite's queries has a point for each.
    began = moment - WINDOW
    legends = ask_graphite(began, moment, total(steady, "lockgate_start_time_seconds"), pictures)
    compare_queries(began, moment, legends)
    ask_prometheus(began, moment, steady)


def last(counted):
    sent = len(open(counted).read().splitlines())
    target = f"sumSeries({LINES}.requests_total.site.*.method.*.code.*)"
    ask = lambda: max(rendered([target], time.time() - 60, time.time())[0][1].values(), default=0)
    until_true(f"Graphite has {ask()} requests at the end, and not {sent}", lambda: ask() == sent)
    print(f"graphs: the figures of a stop are pushed: {sent} requests")


def main():
    try:
        {"figures": figures, "last": last}[sys.argv[1]](*sys.argv[2:])
    except Wrong as wrong:
        sys.exit(f"graphs: {wrong}")


if __name__ == "__main__":
    main()
