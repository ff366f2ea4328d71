// Shows that the checks of `hostile.mjs` can fail. A little server of this script prints the same strings
// as they are, as text and in attributes: without a policy their scripts have to run and be seen, under the
// console's own policy the browser has to block them and report it, a page that shows nothing has to be found
// out, and axe has to object to a page that shuts people out.

import { createServer } from "node:http";
import { newContext, run } from "./lib/run.mjs";
import { look } from "./lib/look.mjs";
import { axe } from "./lib/sweep.mjs";
import { settle, watch } from "./lib/watch.mjs";

// A page that forgot to escape.
const page = (text) => `<!doctype html><html lang="en"><title>x</title><body><main>
<p>${text}</p><input value="${text}"><a href="${text}">x</a></main>`;
const BLANK = "<!doctype html><html lang=en><title>x</title><body><main></main>";
// A page that shuts people out.
const UNFIT = '<!doctype html><html><body><img src="/static/x"><input><p style="color:#ccc;background:#fff">faint</p>';
// Of blank pages a few are enough.
const BLANK_MAX = 20;

await run(async (browser, config) => {
  const { policy, elements } = config;
  // What only looks odd is no test of these checks.
  const texts = config.texts.filter((text) => /ran|alert/.test(text));
  const server = createServer((request, response) => {
    const [, mode, index] = request.url.split("/");
    const bodies = { open: () => page(texts[Number(index)]), closed: () => page(texts[Number(index)]), blank: () => BLANK, unfit: () => UNFIT };
    if (!Object.hasOwn(bodies, mode)) return void response.writeHead(404).end();
    const headers = { "content-type": "text/html; charset=utf-8" };
    if (mode === "closed") headers["content-security-policy"] = policy;
    response.writeHead(200, headers).end(bodies[mode]());
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const origin = `http://127.0.0.1:${server.address().port}`;
  const found = {};
  try {
    for (const mode of ["open", "closed", "blank"]) found[mode] = await tried(browser, origin, mode, { texts, elements });
    found.armed = texts.length;
    found.unfit = await objections(browser, origin);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return found;
});

// How many strings did something in one mode, and how often the look at the document objects.
async function tried(browser, origin, mode, { texts, elements }) {
  const context = await newContext(browser);
  const watcher = await watch(context, origin);
  const total = { pages: 0, ran: 0, violations: 0, strange: 0, missing: 0 };
  let page = await context.newPage();
  const count = mode === "blank" ? BLANK_MAX : texts.length;
  for (let index = 0; index < count; index += 1) {
    try {
      await page.goto(`${origin}/${mode}/${index}`);
      await settle(page);
      const { strange, missing } = await look(page, elements, mode === "blank" ? [texts[index]] : []);
      total.strange += strange.length > 0 ? 1 : 0;
      total.missing += missing.length;
    } catch {
      // A string that leads away takes the document with it, which is more than being strange.
      total.strange += 1;
      await page.close();
      page = await context.newPage();
    }
    const seen = watcher.take();
    total.pages += 1;
    total.violations += seen.violations.length;
    total.ran += seen.ran.some((what) => what.startsWith("__ran")) || seen.dialogs.length > 0 ? 1 : 0;
  }
  await context.close();
  return total;
}

// How many rules of axe a page breaks that shuts people out.
async function objections(browser, origin) {
  const context = await newContext(browser);
  const page = await context.newPage();
  await page.goto(`${origin}/unfit`);
  const { violations } = await axe(page);
  await context.close();
  return violations.length;
}
