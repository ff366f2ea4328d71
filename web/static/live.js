// Keeps the deployment page current while a deployment runs. The page is complete without this
// module; with it, rows appear as stages happen. Texts from the stream reach the page through
// textContent only, never as markup.

const root = document.querySelector("[data-events]");
if (root) follow(root);

function follow(root) {
  const rows = root.querySelector("tbody");
  const seen = new Set([...rows.querySelectorAll("tr")].map((row) => row.dataset.seq));
  const source = new EventSource(root.dataset.events);
  const ends = new Set(["admitted", "refused", "waiting", "failed"]);
  const onEvent = (message) => {
    const event = JSON.parse(message.data);
    if (seen.has(String(event.seq))) return;
    seen.add(String(event.seq));
    place(rows, event);
    if (event.state) show(event.state);
    // The server draws diagnostics and the outcome; the finished page is fetched once.
    if (event.state && ends.has(event.state)) {
      source.close();
      location.reload();
    }
  };
  for (const kind of ["started", "finished", "diagnostic", "state"]) source.addEventListener(kind, onEvent);
  addEventListener("pagehide", () => source.close());
}

// A stage that has ended takes the place of its beginning.
function place(rows, event) {
  const begun = [...rows.querySelectorAll('tr[data-kind="started"]')].filter((row) => row.dataset.stage === event.stage);
  if (event.kind === "finished" && begun.length > 0) begun.at(-1).replaceWith(row(event));
  else rows.append(row(event));
}

function row(event) {
  const row = document.createElement("tr");
  row.dataset.seq = event.seq;
  row.dataset.stage = event.stage;
  row.dataset.kind = event.kind;
  const what = event.state ?? event.diagnostics?.[0]?.message ?? event.kind;
  for (const [text, kind] of [
    [event.stage, ""],
    [what, ""],
    [milliseconds(event.wall_ms), "number"],
    [milliseconds(event.cpu_ms), "number"],
  ]) {
    const cell = document.createElement("td");
    cell.className = kind;
    cell.textContent = text;
    row.append(cell);
  }
  return row;
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
