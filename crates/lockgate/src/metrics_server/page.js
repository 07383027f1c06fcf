// The live page: two events of /live, drawn. Text from outside goes in by textContent only.
"use strict";

const $ = (id) => document.getElementById(id);

function make(name, settings = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(settings)) element[key] = value;
  element.append(...children);
  return element;
}

function svg(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// Units

const NONE = "–";
const DIGITS = new Intl.NumberFormat("en");

function number(value) {
  if (value == null) return NONE;
  if (value >= 100 || Number.isInteger(value)) return value < 1000 ? String(Math.round(value)) : DIGITS.format(Math.round(value));
  return value.toFixed(value >= 10 ? 1 : 2);
}

// One decimal below 100, also of whole ones: the figures of a column line up.
function rate(value) {
  return value == null || value >= 100 ? number(value) : value.toFixed(1);
}

function bytes(value) {
  if (value == null) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

function seconds(value) {
  if (value == null) return NONE;
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  return value < 120 ? `${value.toFixed(1)} s` : span(value);
}

function span(value) {
  if (value < 60) return `${Math.round(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  if (value < 86400) return `${Math.floor(value / 3600)} h ${Math.floor(value % 3600 / 60)} min`;
  return `${Math.floor(value / 86400)} d ${Math.floor(value % 86400 / 3600)} h`;
}

// Times are those of the browser's zone; one of another day has its date.
function moment(time) {
  const at = new Date(time), day = at.toLocaleDateString("sv");
  const clock = at.toLocaleTimeString("en-GB");
  return day === new Date().toLocaleDateString("sv") ? clock : `${day} ${clock}`;
}
const clock = (unix) => new Date(unix * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
// Of a row, an absent member is 0 or empty, and null is not known.
const zero = (value) => value === undefined ? 0 : value;
const sum = (counts) => counts === null ? null : Object.values(counts || {}).reduce((all, one) => all + one, 0);

// Charts

const CHARTS = {
  "chart-requests": { unit: rate, stacked: true, series: (h) => STATUSES.filter(([name]) => h.requests[name]).map(([name, color]) => [name, h.requests[name], color]) },
  "chart-latency": { unit: seconds, series: (h) => [["p99", h.p99, "var(--c3)"], ["p50", h.p50, "var(--c2)"]] },
  "chart-errors": { unit: rate, stacked: true, series: (h) => causes(h.errors) },
  "chart-bytes": { unit: bytes, series: (h) => [["sent", h.sent, "var(--c2)"], ["received", h.received, "var(--c5)"]] },
};
const STATUSES = [["2xx", "var(--c1)"], ["3xx", "var(--c2)"], ["4xx", "var(--c3)"], ["5xx", "var(--c4)"], ["1xx", "var(--c6)"]];
// A young history fills the width: ten minutes at least, an hour at most.
const FEWEST = 60;
const MOST = 360;
const HEIGHT = 100;

// The five most frequent causes, and the others together.
function causes(errors) {
  const all = Object.entries(errors).map(([name, values]) => [name, values, values.reduce((a, b) => a + b, 0)]);
  all.sort((a, b) => b[2] - a[2]);
  const shown = all.slice(0, 5).map(([name, values], at) => [name.replaceAll("_", " "), values, `var(--c${[4, 3, 2, 5, 1][at]})`]);
  if (all.length > 5) {
    const rest = all.slice(5).map(([, values]) => values);
    shown.push(["others", rest[0].map((_, at) => rest.reduce((all, values) => all + values[at], 0)), "var(--c6)"]);
  }
  return shown;
}

function niceTop(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * unit).find((top) => top >= value);
}

function drawChart(id, history) {
  const { unit, stacked, series } = CHARTS[id];
  const lines = series(history);
  const count = Math.max(0, ...lines.map(([, values]) => values.length));
  const places = Math.min(MOST, Math.max(FEWEST, count));
  const first = places - count;
  const base = new Array(count).fill(0);
  const tops = lines.map(([, values]) => values.map((value, at) => stacked ? (base[at] += value || 0) : value));
  const most = niceTop(Math.max(0, ...tops.flat().filter((value) => value != null)));
  const y = (value) => (HEIGHT - value / most * HEIGHT).toFixed(2);
  const drawing = svg("svg", { viewBox: `0 0 ${places - 1} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label(id, lines, unit) });
  for (const part of [0, 0.5, 1]) drawing.append(svg("line", { class: "grid", x1: 0, x2: places - 1, y1: part * HEIGHT, y2: part * HEIGHT }));
  for (let at = lines.length - 1; at >= 0; at -= 1) {
    const color = lines[at][2];
    if (stacked) {
      const upper = tops[at].map((value, place) => `${first + place},${y(value)}`);
      const lower = (at > 0 ? tops[at - 1] : tops[at].map(() => 0)).map((value, place) => `${first + place},${y(value)}`).reverse();
      const area = svg("path", { d: `M${upper.concat(lower).join("L")}Z` });
      area.style.fill = color;
      drawing.append(area);
    } else {
      let path = "", drawn = false;
      tops[at].forEach((value, place) => {
        if (value == null) { drawn = false; return; }
        path += `${drawn ? "L" : "M"}${first + place},${y(value)}${drawn ? "" : "h.01"}`;
        drawn = true;
      });
      const line = svg("path", { class: "line", d: path });
      line.style.stroke = color;
      drawing.append(line);
    }
  }
  const key = make("div", { className: "key" });
  const plot = make("div", { className: "plot" }, drawing, make("span", { className: "most", textContent: unit(most) }),
    make("span", { className: "hour", textContent: `${span(places * history.seconds)} ago` }), make("span", { className: "end", textContent: "now" }));
  const show = (place) => showKey(key, lines, unit, place, history, count);
  const pointer = svg("line", { class: "pointer", y1: 0, y2: HEIGHT });
  plot.onpointermove = (event) => {
    const box = drawing.getBoundingClientRect();
    const place = Math.round((event.clientX - box.left) / box.width * (places - 1)) - first;
    if (place < 0 || place >= count) return;
    pointer.setAttribute("x1", first + place);
    pointer.setAttribute("x2", first + place);
    drawing.append(pointer);
    show(place);
  };
  plot.onpointerleave = () => { pointer.remove(); show(count - 1); };
  show(count - 1);
  $(id).replaceChildren($(id).querySelector("figcaption"), plot, key);
}

function showKey(key, lines, unit, place, history, count) {
  const at = place < 0 || place === count - 1 ? "now" : clock(history.last - (count - 1 - place) * history.seconds);
  key.replaceChildren(make("span", { textContent: at }), ...lines.map(([name, values, color]) => {
    const mark = make("i");
    mark.style.background = color;
    return make("span", {}, mark, `${name} ${unit(values[place])}`);
  }));
}

function label(id, lines, unit) {
  const caption = $(id).querySelector("figcaption").textContent;
  return `${caption}: ${lines.map(([name, values]) => `${name} ${unit(values[values.length - 1])}`).join(", ")}`;
}

// Tables

const STATES = {
  up: ["good", "up"], down: ["bad", "down"], ejected: ["warn", "ejected"], avoided: ["warn", "avoided"],
  drain: ["out", "drain"], maintenance: ["out", "maintenance"],
};

const text = (name, value, more = {}) => ({ name, value, ...more });
const count = (name, value, unit = number, more = {}) => ({ name, value, unit, ...more });

const TABLES = {
  sites: {
    rows: (now) => now.sites.sites,
    columns: [
      text("site", (row) => row.site),
      count("req/s", (row) => zero(row.requests_per_second), rate),
      count("p50", (row) => row.p50_seconds, seconds),
      count("p99", (row) => row.p99_seconds, seconds),
      count("in flight", (row) => zero(row.in_flight)),
      count("queued", (row) => zero(row.queued), number, { wide: true }),
      count("requests", (row) => zero(row.requests), number, { wide: true }),
      count("4xx", (row) => row.responses?.["4xx"] || 0, number, { wide: true }),
      count("5xx", (row) => row.responses?.["5xx"] || 0),
      count("errors", (row) => sum(row.errors), number, { title: (row) => list(row.errors) }),
      count("sent", (row) => zero(row.sent_bytes), bytes, { wide: true }),
    ],
  },
  pools: {
    rows: (now) => now.pools.pools.flatMap((pool) => pool.endpoints),
    columns: [
      text("pool", (row) => row.pool),
      text("endpoint", (row) => row.endpoint),
      { name: "state", value: (row) => row.admin || row.state, key: (row) => `${row.admin || row.state} ${row.backup || false}`, draw: drawState },
      { name: "last hour", value: (row) => row.strip, draw: drawStrip },
      count("req/s", (row) => zero(row.requests_per_second), rate),
      count("p50", (row) => row.p50_seconds, seconds, { wide: true }),
      count("p99", (row) => row.p99_seconds, seconds),
      count("in flight", (row) => zero(row.in_flight)),
      count("connections", (row) => zero(row.connections), number, { wide: true }),
      count("weight", (row) => row.weight, number, { wide: true }),
      count("errors", (row) => sum(row.errors), number, { title: (row) => list(row.errors) }),
      text("why", (row) => row.why || "", { className: "text", wide: true }),
    ],
  },
  certificates: {
    rows: (now) => now.certs.certs,
    columns: [
      text("names", (row) => [...row.names, ...row.addresses].join(", ") || row.subject, { className: "text" }),
      text("listener", (row) => row.listener, { wide: true }),
      { name: "days left", value: (row) => row.days_left, draw: drawDays, number: true },
      text("expires", (row) => row.not_after.slice(0, 10), { wide: true }),
    ],
    sort: ["days left", 1],
  },
  clients: {
    rows: (now) => now.clients.clients.slice(0, 50),
    columns: [
      text("client", (row) => row.client),
      count("sent/s", (row) => row.sent_bytes_per_second, bytes),
      count("received/s", (row) => row.received_bytes_per_second, bytes),
      count("sent", (row) => row.sent_bytes, bytes, { wide: true }),
      count("received", (row) => row.received_bytes, bytes, { wide: true }),
    ],
    sort: ["sent/s", -1],
  },
  errors: {
    rows: (now) => now.errors,
    columns: [
      text("time", (row) => row.time, { shown: moment, title: (row) => row.time }),
      text("cause", (row) => row.cause ? row.cause.replaceAll("_", " ") : row.endpoint ? "the application's status" : "configured status", { className: "short" }),
      count("status", (row) => row.status ?? null, (value) => value ?? NONE),
      text("site", (row) => row.site || row.listener, { wide: true }),
      text("request", (row) => row.path ? `${row.method} ${row.path}` : "", { className: "text" }),
      text("endpoint", (row) => row.endpoint || "", { wide: true }),
      text("detail", (row) => row.detail || "", { className: "text", wide: true }),
    ],
    sort: ["time", -1],
  },
};

const list = (counts) => Object.entries(counts || {}).map(([name, count]) => `${name} ${number(count)}`).join(", ");

function drawState(cell, row) {
  const [className, name] = STATES[row.admin || row.state] || ["warn", row.state];
  cell.append(make("span", { className, textContent: name + (row.backup ? " (backup)" : "") }));
}

// The places of a strip as one gradient with a part for each run: an element for each place would be too many for a thousand endpoints.
function drawStrip(cell, row, value) {
  const strip = make("div", { className: "strip", title: describe(value) });
  const percent = (at) => `${(60 - value.length + at) / 60 * 100}%`;
  const parts = [`var(--s0) 0 ${percent(0)}`];
  for (let at = 0, end = 0; at < value.length; at = end) {
    while (value[end] === value[at]) end += 1;
    parts.push(`var(--s${value[at]}) ${percent(at)} ${percent(end)}`);
  }
  if (value.length > 0) strip.style.background = `linear-gradient(90deg, ${parts.join(", ")})`;
  cell.append(strip);
}

function describe(value) {
  const names = ["", "without a request", "with requests", "with failures", "avoided or ejected", "down", "taken out"];
  const counts = names.map((_, state) => [...value].filter((one) => Number(one) === state).length);
  return names.map((name, state) => counts[state] && name ? `${counts[state]} min ${name}` : "").filter(Boolean).join(", ");
}

function drawDays(cell, row) {
  const days = row.days_left;
  cell.append(make("span", { className: days < 0 ? "bad" : days < 21 ? "warn" : "good", textContent: number(days) }));
}

const LONGEST = 1000;

// Rows and cells stay, and only what has changed is written: a selection, the focus and the processor are spared.
function drawTable(id, now) {
  const table = TABLES[id], [sorted, direction] = table.sort || [null, 1];
  const by = table.columns.find((column) => column.name === sorted);
  const wanted = $("filter").value.trim().toLowerCase();
  const words = (row) => table.columns.map((column) => column.value(row)).join(" ").toLowerCase();
  let rows = table.rows(now).filter((row) => !wanted || words(row).includes(wanted));
  if (by) rows = rows.map((row) => [by.value(row), row]).sort(([a], [b]) => compare(a, b) * direction).map(([, row]) => row);
  const { heads, body, lines, note } = table.drawn ||= drawFrame(id, table);
  heads.forEach((head, at) => {
    const isSorted = table.columns[at].name === sorted;
    const order = isSorted ? (direction > 0 ? "ascending" : "descending") : null;
    if (head.ariaSort !== order) head.ariaSort = order;
  });
  const shown = rows.slice(0, LONGEST);
  lines.splice(shown.length).forEach((line) => line.element.remove());
  shown.forEach((row, at) => {
    const line = lines[at] || addLine(table, lines, body);
    if (isSame(line.row, row)) return;
    line.row = row;
    table.columns.forEach((column, place) => drawCell(line.cells[place], column, row));
  });
  const left = rows.length - LONGEST;
  const said = rows.length === 0 ? (wanted ? "None has the text of the filter." : "None.") : left > 0 ? `${number(left)} more: use the filter.` : "";
  if (note.textContent !== said) note.textContent = said;
  if (body.parentNode.hidden !== (rows.length === 0)) body.parentNode.hidden = rows.length === 0;
}

function drawFrame(id, table) {
  const heads = table.columns.map((column) =>
    make("th", { scope: "col", className: classes(column) }, make("button", { type: "button", textContent: column.name, onclick: () => sortBy(id, column) })));
  const body = make("tbody"), note = make("p", { className: "empty" });
  $(id).querySelector(".table").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body), note);
  return { heads, body, lines: [], note };
}

function addLine(table, lines, body) {
  const cells = table.columns.map((column) => ({ element: make("td", { className: classes(column) }), shown: null, title: "" }));
  const line = { element: make("tr", {}, ...cells.map((cell) => cell.element)), cells, row: null };
  lines.push(line);
  body.append(line.element);
  return line;
}

// Whether two rows have the same members: of a thousand most do.
function isSame(one, other) {
  if (one === other) return true;
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => isSame(one[name], other[name]));
}

function drawCell(cell, column, row) {
  const value = column.value(row);
  const shown = column.key ? column.key(row) : String((column.unit || column.shown || String)(value));
  if (cell.shown !== shown) {
    cell.shown = shown;
    if (column.draw) { cell.element.replaceChildren(); column.draw(cell.element, row, value); } else cell.element.textContent = shown;
  }
  const title = column.title ? column.title(row) : "";
  if (cell.title !== title) cell.element.title = cell.title = title;
}

const classes = (column) => [column.unit || column.number ? "number" : "", column.className || "", column.wide ? "wide" : ""].join(" ").trim();

const TEXTS = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  if (a == null || b == null) return (a == null ? -1 : 0) - (b == null ? -1 : 0);
  return typeof a === "number" && typeof b === "number" ? a - b : TEXTS.compare(String(a), String(b));
}

function sortBy(id, column) {
  const [name, direction] = TABLES[id].sort || [null, 1];
  const first = column.unit || column.number ? -1 : 1;
  TABLES[id].sort = [column.name, name === column.name ? -direction : first];
  drawTable(id, latest);
}

// The head and the tiles

function drawHead({ status }) {
  document.title = `Lockgate ${status.phase}`;
  $("process").textContent = `${status.version}, up ${span(status.uptime_seconds)}, ${status.workers} ${status.workers === 1 ? "worker" : "workers"}, configuration ${status.generation}`;
  const configuration = status.configuration;
  const mistakes = configuration?.mistakes || 0;
  const words = [status.phase];
  if (mistakes) words.push(`the file has ${mistakes} ${mistakes === 1 ? "mistake" : "mistakes"}`);
  else if (configuration?.differs) words.push("the file differs from what runs");
  if (paused) words.push("paused");
  setState(words.join(", "), status.phase === "ready" && words.length === 1 ? "good" : "");
}

// Screen readers say it anew with each change.
function setState(words, className) {
  if ($("state").textContent !== words) $("state").textContent = words;
  $("state").className = className;
}

function drawTiles({ status, sites, totals }) {
  const limits = status.limits;
  const of = (usage, unit = number) => [unit(usage.used), usage.size == null ? "" : `of ${unit(usage.size)}`];
  const tiles = [
    ["requests/s", rate(totals.requests_per_second)],
    ["5xx/s", rate(totals.server_errors_per_second)],
    ["p50", seconds(totals.p50_seconds)],
    ["p99", seconds(totals.p99_seconds)],
    ["in flight", number(sites.sites.reduce((all, site) => all + zero(site.in_flight), 0))],
    ["connections", ...of(limits.connections)],
    ["clients", number(limits.clients)],
    ["sockets to endpoints", ...of(limits.sockets)],
    ["memory", ...of(limits.memory, bytes)],
    ["sent/s", bytes(totals.sent_per_second)],
    ["received/s", bytes(totals.received_per_second)],
  ];
  $("tiles").replaceChildren(...tiles.map(([name, value, more]) =>
    make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: `${value} ` }, ...(more ? [make("small", { textContent: more })] : [])))));
}

// Events

let latest = null, strips = {}, paused = false;

function drawNow() {
  if (!latest) return;
  drawHead(latest);
  drawTiles(latest);
  Object.keys(TABLES).forEach((id) => drawTable(id, latest));
}

function drawHistory(history) {
  strips = history.strips;
  Object.keys(CHARTS).forEach((id) => drawChart(id, history));
}

// Gives rows what is not in them. A row stays as it is from here on: it is compared with the next one.
function prepare(now) {
  for (const { pool, endpoints } of now.pools.pools) {
    for (const row of endpoints) Object.assign(row, { pool, strip: strips[pool]?.[row.endpoint] || "" });
  }
  // A time is shown otherwise on another day.
  const day = new Date().toDateString();
  for (const row of now.errors) row.day = day;
  return now;
}

const RETRY = 5000;

// A browser connects again by itself, except after a response that is none of ours or tells that there are too many pages.
function listen() {
  const events = new EventSource("live");
  events.addEventListener("now", (event) => {
    if (document.hidden) return;
    const now = JSON.parse(event.data);
    // After an upgrade this program may not know what the events mean.
    if (latest && latest.status.version !== now.status.version) location.reload();
    if (paused) { if (latest) drawHead(latest); return; }
    latest = prepare(now);
    drawNow();
  });
  events.addEventListener("history", (event) => { if (!paused) drawHistory(JSON.parse(event.data)); });
  events.onerror = () => {
    setState("no connection, or too many pages are open: trying again …", "bad");
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, RETRY);
  };
}
listen();

$("filter").oninput = drawNow;

document.addEventListener("keydown", (event) => {
  const filter = $("filter");
  if (event.target === filter) {
    if (event.key === "Escape") { filter.value = ""; filter.blur(); drawNow(); }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const section = document.querySelectorAll("main > section")[Number(event.key) - 1];
  if (event.key === "/") { event.preventDefault(); filter.focus(); }
  else if (event.key === "p") { paused = !paused; drawNow(); }
  else if (section) { section.scrollIntoView(); section.focus({ preventScroll: true }); }
});
