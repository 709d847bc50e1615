// Every page at one width and in one colour scheme (WIDTH, SCHEME): axe finds nothing, nothing is wider than the window, no cell is too narrow for its
// text, no request fails or goes to another host, and the console is small.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { go, open, pages, rpc, step } from "./check.mjs";

const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const { browser, page, trouble } = await open({ viewport: { width: Number(process.env.WIDTH), height: 844 }, colorScheme: process.env.SCHEME, bypassCSP: true /* for axe */ });
page.on("response", (r) => r.status() >= 400 && trouble.push(`HTTP ${r.status()}: ${r.url()}`));
await rpc("sandbox_snapshot", { name: "layouts" });

for (const [name, hash] of Object.entries(pages)) {
  await step(name, async () => {
    await go(page, hash);
    if (name === "account") {
      await page.locator("#storage form button.main").click();
      await page.locator("#storage caption").waitFor();
    } else if (name === "actors") await page.locator(".vt-space [role=row]").first().waitFor();
    else if (name !== "search") await page.locator("main table caption, main dl").first().waitFor();
    const wide = await page.evaluate(() => ({ by: document.documentElement.scrollWidth - innerWidth, what: [...document.querySelectorAll("header *, main *")]
      .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .vt-scroll, .hidden")).slice(0, 5).map((e) => e.outerHTML.slice(0, 100)) }));
    assert(wide.by <= 0, `${wide.by} px too wide: ${wide.what.join("\n")}`);
    const narrow = await page.evaluate(() => [...[...document.querySelectorAll("main td")].filter((e) => e.textContent.length > 4 && e.clientWidth && e.clientWidth < 30),
      ...(innerWidth < 1280 ? [] : [...document.querySelectorAll("main .scroll > table")].filter((e) => e.scrollWidth > e.parentElement.clientWidth)),
      ...[...document.querySelectorAll(".cards .v")].filter((e) => e.scrollWidth > e.clientWidth)].map((e) => e.outerHTML.slice(0, 100)));
    assert(!narrow.length, "texts that are cut:\n" + narrow.join("\n"));
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
    assert.equal(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 200) + "\n" + n.failureSummary).join("\n")}`).join("\n"), "");
    assert.deepEqual(trouble, []);
  });
}
await step("the weight", async () => {
  const weight = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter((e) => /\/console\/[a-z.]*$/.test(new URL(e.name).pathname)).reduce((s, e) => s + e.decodedBodySize, 0));
  assert(weight > 50_000 && weight < 300 << 10, `the console weighs ${weight} bytes`);
});
await browser.close();
