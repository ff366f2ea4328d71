// Sees what a page does that it must not do: run a script of a stranger, open a dialog, ask another
// host, be stopped by its policy, or complain. The watch is set up before any document loads and does
// not rest on the page's cooperation: the browser reports each of these by itself.

// Hostile strings call `__ran(N)`, or ask for an address that begins like this.
const MARKER_PATH = "/ran";

/** Watches every page of a context. What is seen is collected until `take` empties it. */
export async function watch(context, origin) {
  let seen = nothing();
  await context.exposeBinding("__ran", (_source, what) => void seen.ran.push(`__ran(${what})`));
  await context.exposeBinding("__violation", (_source, what) => void seen.violations.push(what));
  await context.addInitScript(reportViolations);
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (url.pathname.startsWith(MARKER_PATH)) seen.ran.push(request.url());
    else if (url.origin !== origin) seen.foreign.push(request.url());
  });
  context.on("dialog", (dialog) => {
    seen.dialogs.push(dialog.message());
    return dialog.dismiss();
  });
  context.on("weberror", (error) => void seen.errors.push(String(error.error())));
  context.on("console", (message) => {
    // A page that answers 404 on purpose is reported as a resource that failed; its own status is checked.
    const isOwnStatus = message.text().startsWith("Failed to load resource") && message.location().url === message.page()?.url();
    if (["error", "warning"].includes(message.type()) && !isOwnStatus) seen.errors.push(message.text());
  });
  return {
    take() {
      const taken = seen;
      seen = nothing();
      return taken;
    },
  };
}

function nothing() {
  return { ran: [], dialogs: [], foreign: [], violations: [], errors: [] };
}

// Runs in the page, before anything of it.
function reportViolations() {
  addEventListener(
    "securitypolicyviolation",
    (event) => globalThis.__violation(`${event.effectiveDirective} ${event.blockedURI} at ${event.documentURI}`),
    true,
  );
}

/** Lets everything that a document set going happen: two frames, and what they queued. */
export async function settle(page) {
  await page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));
  }));
}
