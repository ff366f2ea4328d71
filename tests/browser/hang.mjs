// A script that never ends, or ends and leaves a process behind, so that a test sees who ends both.

import { spawn } from "node:child_process";
import { run } from "./lib/run.mjs";

// Longer than any test waits.
const LEFT_S = "600";

await run(async (browser, { leaves }) => {
  await browser.newPage();
  console.log(`hangs in ${process.env.MFAAS_BROWSER_RUN}`);
  if (!leaves) await new Promise(() => {});
  spawn("sleep", [LEFT_S], { detached: true, stdio: "ignore" }).unref();
  return {};
});
