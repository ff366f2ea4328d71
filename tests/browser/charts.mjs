// Opens pages of charts on a wide and on a narrow screen, light and dark, with script off; keeps pictures, has axe look, and
// says what is seen of each: that what is drawn lies within its drawing, and that the table opens without script.

import { demand, newContext, run } from "./lib/run.mjs";
import { sweeper } from "./lib/sweep.mjs";
import { watch } from "./lib/watch.mjs";

const SCREENS = { wide: { width: 1280, height: 900 }, narrow: { width: 390, height: 844 } };

await run(async (browser, config) => {
  const { url, cookie, pages, pictures } = config;
  const { found, sweep } = sweeper(pictures);
  const seen = [];
  const drawn = [];
  for (const [screen, viewport] of Object.entries(SCREENS)) {
    const context = await newContext(browser, { viewport });
    await context.addCookies([{ name: "mfaas_session", value: cookie, url }]);
    const watcher = await watch(context, url);
    const page = await context.newPage();
    for (const { name, path } of pages) {
      await page.goto(url + path);
      demand(page.url() === url + path, `${name} leads to ${page.url()}`);
      await sweep(page, `${name}-${screen}`);
      drawn.push({ name, screen, ...(await look(page)) });
    }
    seen.push(watcher.take());
    await context.close();
  }
  const unscripted = await withoutScript(browser, config);
  return { ...found, seen, drawn, unscripted };
});

/** What is drawn, and where. */
function look(page) {
  return page.evaluate(() => {
    const outside = [];
    for (const drawing of document.querySelectorAll("figure.chart div > svg")) {
      const frame = drawing.getBoundingClientRect();
      for (const part of drawing.querySelectorAll("path, text, line")) {
        const box = part.getBoundingClientRect();
        const isWithin = box.left >= frame.left - 2 && box.right <= frame.right + 2 && box.top >= frame.top - 2 && box.bottom <= frame.bottom + 2;
        if (!isWithin && !part.closest("defs")) {
          outside.push(`${drawing.querySelector("title").textContent}: ${part.outerHTML.slice(0, 120)}`);
        }
      }
    }
    const painted = [...document.querySelectorAll("figure.chart path.fill, figure.chart path.heat")];
    return {
      drawings: document.querySelectorAll("figure.chart div > svg[role=img]").length,
      fills: new Set(painted.map((path) => getComputedStyle(path).fill)).size,
      wider: document.documentElement.scrollWidth > window.innerWidth,
      outside,
    };
  });
}

/** The table of each figure opens and has a row for each step. */
async function withoutScript(browser, { url, cookie, pages }) {
  const context = await newContext(browser, { javaScriptEnabled: false });
  await context.addCookies([{ name: "mfaas_session", value: cookie, url }]);
  const page = await context.newPage();
  const rows = {};
  for (const { name, path } of pages) {
    await page.goto(url + path);
    await page.locator("section.charts details summary").first().click();
    rows[name] = await page.locator("section.charts details[open] tbody tr").filter({ visible: true }).count();
  }
  await context.close();
  return rows;
}
