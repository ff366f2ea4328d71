// What every script does: read its configuration, start one browser, tell what was found, close the
// browser whatever happened.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

// Debian's package; nothing is downloaded. The test that starts a script looks at the same place.
const CHROMIUM = "/usr/bin/chromium";
// How long one page, one answer or one element may take.
const WAIT_MS = 60_000;

// Names are looked up nowhere: what leaves this machine fails, and is seen by the watch.
const ARGUMENTS = [
  "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
  "--disable-background-networking",
  "--disable-component-update",
  "--no-first-run",
];

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has the test do what `word` stands for, and waits until it is done. */
export async function ask(word) {
  console.log(`ask ${word}`);
  const { done } = await answers.next();
  if (done) throw new Error(`nobody answered "${word}"`);
}

/** Runs `script(browser, config)` and prints what it gives as the result. */
export async function run(script) {
  const config = JSON.parse(readFileSync(process.argv[2], "utf8"));
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    // Chromium's own sandbox does not work for root, as whom a container runs the tests.
    chromiumSandbox: process.getuid() !== 0,
    args: ARGUMENTS,
  });
  try {
    console.log(`result ${JSON.stringify(await script(browser, config))}`);
  } finally {
    await browser.close();
  }
  process.exit(0);
}

/** A browser profile of its own. */
export async function newContext(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(WAIT_MS);
  return context;
}

/** Signs in the way people do. */
export async function signIn(context, url, token) {
  const page = await context.newPage();
  await page.goto(`${url}/sign-in`);
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Dashboard" }).waitFor();
  return page;
}

/** Fails with a sentence. */
export function demand(holds, sentence) {
  if (!holds) throw new Error(sentence);
}
