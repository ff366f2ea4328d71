// Opens every page that shows strings of strangers, with script on and the console's own policy in
// force, and tells whether anything ran, left, broke out, or is missing from what people see.

import { ask, demand, newContext, run } from "./lib/run.mjs";
import { look } from "./lib/look.mjs";
import { settle, watch } from "./lib/watch.mjs";

// Findings that are told one by one; more are counted.
const TOLD_MAX = 40;

await run(async (browser, config) => {
  const context = await newContext(browser);
  const watcher = await watch(context, config.url);
  const page = await context.newPage();
  const found = { pages: 0, shown: 0, scripts: 0, violations: 0, problems: [], policy: "" };
  const blame = (name, sentences) => found.problems.push(...sentences.map((sentence) => `${name}: ${sentence}`));
  let signedIn = "";

  const become = async (cookie) => {
    if (cookie === signedIn) return;
    await context.clearCookies();
    if (cookie) await context.addCookies([{ name: "mfaas_session", value: cookie, url: config.url }]);
    signedIn = cookie;
  };
  // What the browser saw since the last page, and what the document is.
  const judge = async (name, address, texts) => {
    await settle(page);
    const { strange, missing, shown } = await look(page, config.elements, texts);
    const seen = watcher.take();
    found.pages += 1;
    found.shown += shown;
    found.scripts += seen.ran.length + seen.dialogs.length;
    found.violations += seen.violations.length;
    blame(name, strange.map((what) => `holds ${what}`));
    blame(name, missing.map((text) => `does not show ${JSON.stringify(text)}`));
    for (const [kind, list] of Object.entries(seen)) blame(name, list.map((what) => `${kind}: ${what}`));
    if (page.url() !== address) blame(name, [`led to ${page.url()}`]);
  };

  for (const { name, path, cookie, texts, status } of config.pages) {
    await become(cookie);
    const address = new URL(path, config.url).href;
    const answer = await page.goto(address);
    if (answer.status() !== status) blame(name, [`${path} answers ${answer.status()}`]);
    found.policy = answer.headers()["content-security-policy"] ?? "";
    if (!found.policy.includes("script-src 'nonce-")) blame(name, ["has no policy"]);
    await judge(name, address, texts);
  }

  // A deployment that runs while its page is open: what happens reaches the page as events.
  const { path, cookie, texts, ended } = config.live;
  await become(cookie);
  const address = new URL(path, config.url).href;
  const stream = page.waitForResponse((answer) => answer.url().includes("/events"));
  await page.goto(address);
  demand((await stream).ok(), "there is no event stream");
  const rows = await page.locator("[data-events] tbody tr").count();
  await ask("events");
  await page.locator("[data-events] tbody tr").nth(rows + texts.length - 1).waitFor();
  await judge("live", address, texts);
  await ask("end");
  await page.waitForFunction(() => document.querySelector("[data-events]") === null);
  await judge("live, ended", address, ended);

  const more = found.problems.length - TOLD_MAX;
  if (more > 0) found.problems.splice(TOLD_MAX, more, `${more} further problems`);
  return found;
});
