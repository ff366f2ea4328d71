// A review through the console, with a real site behind it: a deployment waits for a crate,
// alice walks its hotspots with the keyboard and says yes, somebody marks a hotspot without script, bob says
// yes, and the deployment goes on to be admitted. Every page is looked at on the way, light and dark.

import { ask, demand, newContext, run, signIn } from "./lib/run.mjs";
import { sweeper } from "./lib/sweep.mjs";
import { watch } from "./lib/watch.mjs";

// What the acquirer and the builder may take, and how often the page of a deployment is asked for.
const ADMITTED_WITHIN_MS = 600_000;
const POLL_MS = 500;
// Nobody walks more hotspots than this by hand.
const STEPS_MAX = 200;

await run(async (browser, config) => {
  const { url, tokens, deployment, crate, pictures } = config;
  const begun = Date.now();
  const contexts = {};
  const watches = {};
  for (const name of ["nobody", "admin", "alice", "bob"]) {
    contexts[name] = await newContext(browser);
    watches[name] = await watch(contexts[name], url);
  }
  const { found, sweep } = sweeper(pictures);
  const visit = async (page, path, name, status = 200) => {
    await page.goto(url + path);
    await sweep(page, name, status);
  };

  const nobody = await contexts.nobody.newPage();
  await visit(nobody, "/sign-in", "sign-in");
  await nobody.getByLabel("Access token").fill("mfaas_wrong");
  await nobody.getByRole("button", { name: "Sign in" }).click();
  await nobody.getByRole("alert").waitFor();

  const admin = await signIn(contexts.admin, url, tokens.admin);
  await visit(admin, "/", "dashboard-waiting");
  await visit(admin, "/functions", "functions");
  await visit(admin, "/crates", "crates-waiting");
  await visit(admin, `/deployments/${deployment}`, "deployment-waiting");
  demand((await admin.locator("[data-state]").innerText()).includes("waiting"), "the deployment does not wait");

  const alice = await signIn(contexts.alice, url, tokens.alice);
  await alice.getByRole("link", { name: "Reviews" }).click();
  await sweep(alice, "reviews-open");
  await alice.getByRole("link", { name: crate, exact: true }).click();
  await alice.getByRole("heading", { name: "Decision" }).waitFor();
  const review = new URL(alice.url()).pathname;
  await sweep(alice, "review-open");
  const files = await fileLinks(alice);
  await visit(alice, files[0], "review-file-open");
  await visit(admin, review, "review-of-the-asker");
  demand((await admin.getByRole("button", { name: "Approve" }).count()) === 0, "the requester may approve");

  const scriptless = await withoutScript(browser, url, tokens.bob, review, files[0]);
  const walked = await walk(alice, url + review);
  await sweep(alice, "review-walked");
  await visit(alice, files[0], "review-file-walked");
  await say(alice, url + review, "from_utf8_unchecked over ASCII that it wrote itself");
  await sweep(alice, "review-one-vote");

  const bob = await signIn(contexts.bob, url, tokens.bob);
  await say(bob, url + review, "I have read it, too");
  await sweep(bob, "review-approved");
  await visit(bob, "/reviews", "reviews-decided");
  await visit(bob, `/crates/${crate}`, "crate-history");

  const live = await admitted(admin, `${url}/deployments/${deployment}`);
  await sweep(admin, "deployment-admitted");
  await admin.getByText("left out of the scale").waitFor();
  // It answers before its pages are looked at.
  await ask("invoke");
  await bob.goto(`${url}/crates/${crate}`);
  await bob.getByRole("link", { name: /^Revoke [0-9]/ }).click();
  await bob.getByRole("region", { name: "What it affects" }).getByText(config.function).first().waitFor();
  await sweep(bob, "revocation");
  await visit(admin, `/functions/${config.function}`, "function");
  await admin.getByLabel("Body", { exact: true }).fill("a b");
  await admin.getByRole("button", { name: "Call", exact: true }).click();
  await admin.getByRole("region", { name: "Body of the answer" }).getByText("a%20b").waitFor();
  await sweep(admin, "function-called");
  await admin.getByRole("button", { name: "Compare", exact: true }).click();
  await admin.getByRole("region", { name: "Declarations and image" }).getByText("changed").first().waitFor();
  await admin.getByText("Both use the same crates in the same versions.").waitFor();
  await sweep(admin, "comparison");
  await visit(admin, "/", "dashboard-admitted");
  await visit(admin, "/crates", "crates-decided");
  await visit(admin, "/audit", "audit");
  await visit(admin, "/functions/nothing", "problem", 404);

  const seen = Object.entries(watches).map(([name, { take }]) => [name, take()]);
  const whole_s = Math.round((Date.now() - begun) / 1000);
  return { ...found, walked, scriptless, live, whole_s, seen: Object.fromEntries(seen) };
});

// Where the page of a review leads for its files.
async function fileLinks(page) {
  const rows = page.getByRole("region", { name: "Files" }).getByRole("link");
  return rows.evaluateAll((links) => links.map((link) => new URL(link.href).pathname));
}

// Goes from hotspot to hotspot with `n` until nobody has left one out, and says something about each. What
// `j` and `k` do is tried on the way.
async function walk(page, review) {
  await page.goto(review);
  const hotspots = page.getByRole("group", { name: /^Hotspot \d+$/ });
  const count = await hotspots.count();
  demand(count > 1, `there are ${count} hotspots to walk`);
  const here = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? "");
  await page.keyboard.press("j");
  demand((await here()) === "Hotspot 1", `j leads to ${await here()}`);
  await page.keyboard.press("j");
  demand((await here()) === "Hotspot 2", `j leads on to ${await here()}`);
  await page.keyboard.press("k");
  demand((await here()) === "Hotspot 1", `k leads back to ${await here()}`);
  let marked = 0;
  for (; marked < STEPS_MAX; marked += 1) {
    const before = marked === 0 ? "" : await here();
    await page.keyboard.press("n");
    const name = await here();
    // `n` leads nowhere once nothing is unseen.
    if (name === before) break;
    const hotspot = page.getByRole("group", { name, exact: true });
    // Tab goes through the links of the hotspot to its form.
    await hotspot.getByLabel("State").focus();
    await hotspot.getByLabel("State").selectOption(marked % 2 === 0 ? "justified" : "seen");
    await page.keyboard.press("Tab");
    await page.keyboard.type(`${name}: bytes < 128, "ASCII" & nothing else`);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${review}#${name.toLowerCase().replace(" ", "-")}`);
    await page.waitForFunction((hotspot) => document.activeElement?.getAttribute("aria-label") === hotspot, name);
    demand((await here()) === name, `after ${name} the focus is at "${await here()}"`);
  }
  const status = await page.getByRole("status").innerText();
  demand(status === `${count} of ${count} hotspots seen`, `after the walk: ${status}`);
  return { hotspots: count, marked };
}

// A yes with words, on the page of a review.
async function say(page, review, words) {
  await page.goto(`${review}#decision`);
  await page.getByLabel("Why: the deployer reads it, and later reviewers").fill(words);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("region", { name: "Votes" }).getByText(words).waitFor();
}

// The same pages for people who switch scripts off.
async function withoutScript(browser, url, token, review, file) {
  const context = await newContext(browser, { javaScriptEnabled: false });
  const page = await signIn(context, url, token);
  await page.goto(url + review);
  const hotspots = page.getByRole("group", { name: /^Hotspot \d+$/ });
  const first = hotspots.first();
  await first.getByLabel("State").selectOption("seen");
  await first.getByLabel("Note").fill("marked without script");
  await first.getByRole("button", { name: "Save" }).click();
  await page.waitForURL(/#hotspot-1$/);
  await page.getByRole("group", { name: "Hotspot 1", exact: true }).getByText("marked without script").first().waitFor();
  await page.goto(url + file);
  await page.getByRole("heading", { name: "Source" }).waitFor();
  const lines = await page.getByRole("region", { name: "Source" }).getByRole("row").count();
  demand(lines > 1, `the file shows ${lines} lines without script`);
  await page.goto(`${url + review}#decision`);
  const buttons = await page.getByRole("button", { name: /^(Approve|Deny)$/ }).count();
  demand(buttons === 2, `the decision has ${buttons} buttons without script`);
  await context.close();
  return { lines, buttons };
}

// Waits until the page of the deployment says that it is admitted. While it waits for the acquirer the
// page is asked for again; once it is being built the page's own module follows it.
async function admitted(page, address) {
  const begun = Date.now();
  const ends = begun + ADMITTED_WITHIN_MS;
  await page.goto(address);
  let followed = 0;
  for (;;) {
    const state = (await page.locator("[data-state]").innerText()).trim();
    if (state === "admitted") return { followed, waited_s: Math.round((Date.now() - begun) / 1000) };
    demand(["waiting", "received", "building", "built"].includes(state), `the deployment is ${state}`);
    demand(Date.now() < ends, `the deployment is still ${state}`);
    if (state === "waiting") {
      await page.waitForTimeout(POLL_MS);
      await page.reload();
    } else {
      followed += 1;
      await page.locator("[data-state]", { hasText: /^(admitted|refused|failed)$/ }).waitFor({ timeout: ends - Date.now() });
      await page.waitForFunction(() => document.querySelector("[data-events]") === null);
    }
  }
}
