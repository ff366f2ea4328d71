// Opens pages of a site as it is, light and dark, keeps a picture of each, and has axe look for what shuts people out.

import { demand, newContext, run } from "./lib/run.mjs";
import { sweeper } from "./lib/sweep.mjs";
import { watch } from "./lib/watch.mjs";

await run(async (browser, config) => {
  const { url, cookie, pages, pictures } = config;
  const context = await newContext(browser);
  await context.addCookies([{ name: "mfaas_session", value: cookie, url }]);
  const watcher = await watch(context, url);
  const { found, sweep } = sweeper(pictures);
  const page = await context.newPage();
  for (const { name, path } of pages) {
    await page.goto(url + path);
    demand(page.url() === url + path, `${name} leads to ${page.url()}`);
    await sweep(page, name);
  }
  return { ...found, seen: watcher.take() };
});
