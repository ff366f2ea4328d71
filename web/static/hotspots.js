// Keys for the hotspots of a review: j to the next one, k to the one before, n to the next that nobody
// has looked at. The pages are complete without this module; it reads attributes that the server
// wrote, moves the focus, and writes nothing.

const hotspots = [...document.querySelectorAll("[data-hotspot]")];
const typed = new Set(["INPUT", "TEXTAREA", "SELECT"]);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || typed.has(event.target.tagName)) return;
  const here = hotspots.findIndex((hotspot) => hotspot.contains(document.activeElement));
  const hotspot = { j: next, k: before, n: unseen }[event.key]?.(here);
  if (!hotspot) return;
  event.preventDefault();
  hotspot.focus();
  hotspot.scrollIntoView({ block: "center" });
});

function next(here) {
  return hotspots[here + 1];
}

function before(here) {
  return here < 0 ? hotspots.at(-1) : hotspots[here - 1];
}

function unseen(here) {
  const waits = (hotspot) => hotspot.dataset.state === "unseen";
  return hotspots.slice(here + 1).find(waits) ?? hotspots.find(waits);
}

// A reviewer who comes back from a form goes on with the keyboard where they were.
if (location.hash.startsWith("#hotspot-")) document.getElementById(location.hash.slice(1))?.focus();
