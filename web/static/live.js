// Keeps the deployment page current while a deployment runs. The page is complete without this
// module; with it, rows appear as stages happen, and bars grow. Texts from the stream reach the page
// through textContent only, never as markup.

const SVG = "http://www.w3.org/2000/svg";
// How often the bar of a running stage grows.
const DRAW_MS = 500;

const root = document.querySelector("[data-events]");
if (root) follow(root);

function follow(root) {
  const rows = root.querySelector("tbody");
  // Waits for reviews are left out of the scale; all that the page knows of came before what is still to happen.
  const origin = Number(root.dataset.origin);
  // The server's clock, not the browser's.
  const opened = performance.now();
  const now = () => Number(root.dataset.now) + performance.now() - opened;
  const seen = new Set([...rows.querySelectorAll("tr")].map((row) => row.dataset.seq));
  const source = new EventSource(root.dataset.events);
  const ends = new Set(["admitted", "refused", "waiting", "failed"]);
  const onEvent = (message) => {
    const event = JSON.parse(message.data);
    if (seen.has(String(event.seq))) return;
    seen.add(String(event.seq));
    place(rows, event, origin);
    draw(rows, now());
    if (event.state) show(event.state);
    // The server draws diagnostics and the outcome; the finished page is fetched once.
    if (event.state && ends.has(event.state)) {
      source.close();
      location.reload();
    }
  };
  for (const kind of ["started", "finished", "diagnostic", "state"]) source.addEventListener(kind, onEvent);
  const drawing = setInterval(() => draw(rows, now()), DRAW_MS);
  addEventListener("pagehide", () => {
    clearInterval(drawing);
    source.close();
  });
}

// A stage that has ended takes the place of its beginning.
function place(rows, event, origin) {
  const begun = [...rows.querySelectorAll('tr[data-kind="started"]')].filter((row) => row.dataset.stage === event.stage);
  const made = row(event, origin);
  if (event.kind === "finished" && begun.length > 0) begun.at(-1).replaceWith(made);
  else rows.append(made);
}

function row(event, origin) {
  const row = document.createElement("tr");
  const end = Math.max(0, Date.parse(event.at) - origin);
  row.dataset.seq = event.seq;
  row.dataset.stage = event.stage;
  row.dataset.kind = event.kind;
  row.dataset.begin = Math.max(0, end - (event.wall_ms ?? 0));
  row.dataset.end = end;
  const what = event.state ?? event.diagnostics?.[0]?.message ?? event.kind;
  row.append(cell(event.stage, ""), cell(what, ""), timeline());
  row.append(cell(milliseconds(event.wall_ms), "number"), cell(milliseconds(event.cpu_ms), "number"));
  return row;
}

function cell(text, kind) {
  const cell = document.createElement("td");
  cell.className = kind;
  cell.textContent = text;
  return cell;
}

function timeline() {
  const cell = document.createElement("td");
  cell.className = "timeline";
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const bar = document.createElementNS(SVG, "rect");
  bar.setAttribute("y", "0");
  bar.setAttribute("height", "10");
  const cuts = document.querySelector("td.timeline svg")?.querySelectorAll("line") ?? [];
  svg.append(bar, ...[...cuts].map((cut) => cut.cloneNode()));
  cell.append(svg);
  return cell;
}

// All bars to one scale. Only the last stage can still run: an earlier one was given up.
function draw(rows, now) {
  const all = [...rows.querySelectorAll("tr")];
  const last = all.findLast((row) => ["started", "finished"].includes(row.dataset.kind));
  if (last?.dataset.kind === "started") last.dataset.end = Math.round(now);
  const whole = Math.max(1, ...all.map((row) => Number(row.dataset.end)));
  for (const row of all) {
    const svg = row.querySelector("svg");
    const [begin, end] = [Number(row.dataset.begin), Number(row.dataset.end)];
    svg.setAttribute("viewBox", `0 0 ${whole} 10`);
    svg.setAttribute("aria-label", `from ${seconds(begin)} to ${seconds(end)} s on the timeline`);
    const width = Math.max(end - begin, Math.floor(whole / 200), 1);
    svg.firstElementChild.setAttribute("x", Math.max(0, Math.min(begin, whole - width)));
    svg.firstElementChild.setAttribute("width", width);
  }
}

function seconds(ms) {
  return (ms / 1000).toFixed(2);
}

function milliseconds(value) {
  return typeof value === "number" ? String(value) : "";
}

function show(state) {
  const badge = document.querySelector("[data-state]");
  if (!badge) return;
  badge.textContent = state;
  badge.className = `state ${{ admitted: "good", refused: "bad", failed: "bad", waiting: "wait" }[state] ?? "busy"}`;
}
