// Keys for the spots of a review: j to the next one, k to the one before, n to the next that nobody
// has looked at. The pages are complete without this module; it reads attributes that the server
// wrote, moves the focus, and writes nothing.

const spots = [...document.querySelectorAll("[data-spot]")];
const typed = new Set(["INPUT", "TEXTAREA", "SELECT"]);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || typed.has(event.target.tagName)) return;
  const here = spots.findIndex((spot) => spot.contains(document.activeElement));
  const spot = { j: next, k: before, n: unseen }[event.key]?.(here);
  if (!spot) return;
  event.preventDefault();
  spot.focus();
  spot.scrollIntoView({ block: "center" });
});

function next(here) {
  return spots[here + 1];
}

function before(here) {
  return here < 0 ? spots.at(-1) : spots[here - 1];
}

function unseen(here) {
  const waits = (spot) => spot.dataset.state === "unseen";
  return spots.slice(here + 1).find(waits) ?? spots.find(waits);
}

// Whoever comes back from a form goes on with the keyboard where they were.
if (location.hash.startsWith("#spot-")) document.getElementById(location.hash.slice(1))?.focus();
