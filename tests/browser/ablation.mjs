// Shows that the checks of `hostile.mjs` can fail. A little server of this script prints the same strings
// as they are, in five places of a page: without a policy their scripts have to run and be seen, under the
// console's own policy the browser has to block them and report it, and a page that shows nothing has to be
// found out.

import { createServer } from "node:http";
import { newContext, run } from "./lib/run.mjs";
import { look } from "./lib/look.mjs";
import { settle, watch } from "./lib/watch.mjs";

// Where a page that forgot to escape would print a string.
const PLACES = {
  text: (text) => `<p>${text}</p>`,
  attribute: (text) => `<input value="${text}">`,
  address: (text) => `<a href="${text}">x</a><iframe src="${text}"></iframe>`,
  form: (text) => `<textarea>${text}</textarea>`,
  title: (text) => `</main><title>${text}</title>`,
};

await run(async (browser, { texts, policy }) => {
  const server = createServer((request, response) => {
    const [, mode, index, place] = request.url.split("/");
    if (!["open", "closed", "blank"].includes(mode)) return void response.writeHead(404).end();
    const headers = { "content-type": "text/html; charset=utf-8" };
    if (mode === "closed") headers["content-security-policy"] = policy;
    const body = mode === "blank" ? "" : PLACES[place](texts[Number(index)]);
    response.writeHead(200, headers).end(`<!doctype html><html lang="en"><title>x</title><body><main>${body}</main>`);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const origin = `http://127.0.0.1:${server.address().port}`;
  const found = {};
  try {
    for (const mode of ["open", "closed", "blank"]) found[mode] = await tried(browser, origin, mode, texts);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return found;
});

// How many strings did something in one mode, and how often the look at the document objects.
async function tried(browser, origin, mode, texts) {
  const context = await newContext(browser);
  const watcher = await watch(context, origin);
  const total = { pages: 0, ran: 0, violations: 0, strange: 0, missing: 0 };
  const places = mode === "blank" ? ["text"] : Object.keys(PLACES);
  const ran = new Set();
  let page = await context.newPage();
  for (let index = 0; index < texts.length; index += 1) {
    for (const place of places) {
      try {
        await page.goto(`${origin}/${mode}/${index}/${place}`);
        await settle(page);
        const { strange, missing } = await look(page, mode === "blank" ? [texts[index]] : []);
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
      if (seen.ran.some((what) => what.startsWith("__ran")) || seen.dialogs.length > 0) ran.add(index);
    }
  }
  await context.close();
  return { ...total, ran: ran.size };
}
