// Opens a page in light and dark, keeps a picture of each, and has axe look for what shuts people out.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";
import { demand } from "./run.mjs";
import { settle } from "./watch.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SCHEMES = ["light", "dark"];

/** A sweep that collects into `pictures`. */
export function sweeper(pictures) {
  const found = { pages: 0, pictures: 0, rules: Infinity, violations: [] };

  /** One page as it stands, under a name that no other page has. */
  async function sweep(page, name, status = 200) {
    found.pages += 1;
    for (const scheme of SCHEMES) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      const answer = await page.reload();
      demand(answer.status() === status, `${name} answers ${answer.status()}`);
      await settle(page);
      await page.screenshot({ path: path.join(pictures, `${name}-${scheme}.png`), fullPage: true });
      found.pictures += 1;
      const result = await axe(page);
      // The fewest on any page: a page on which no rule found anything to judge was not there.
      found.rules = Math.min(found.rules, result.rules);
      found.violations.push(...result.violations.map((violation) => `${name} (${scheme}): ${violation}`));
    }
  }

  return { found, sweep };
}

/**
 * What axe objects to. The policy of the page forbids scripts of others, and stays in force: the browser
 * evaluates axe's source for us as it does what is typed into its console.
 */
export async function axe(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { violations, passes } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    const words = ({ id, help, nodes }) =>
      `${id}: ${help}: ${nodes.map((node) => `${node.target.join(" ")} ${node.html.slice(0, 200)} ${node.failureSummary}`).join(" | ").slice(0, 2000)}`;
    return { rules: violations.length + passes.length, violations: violations.map(words) };
  });
}
