// The pictures of docs/guide/console and README, into the folder PICTURES.
import { existsSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { go, open, pages, rpc, step } from "./check.mjs";

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// picture shows a page with these options, prepares it, and writes what is to be seen.
async function picture(file, name, prepare = () => wait(1500), options = {}) {
  await step(file, async () => {
    const { browser, page } = await open({ viewport: { width: 1280, height: 820 }, colorScheme: "light", ...options });
    await go(page, pages[name]);
    await page.waitForSelector("#link.live");
    await prepare(page);
    const path = `${process.env.PICTURES}/${file}.png`;
    await page.screenshot({ path });
    await browser.close();
    if (existsSync("/usr/bin/pngquant")) execFileSync("/usr/bin/pngquant", ["--force", "--skip-if-larger", "--ext", ".png", "--speed", "1", "96", path]);
  });
}

const live = () => wait(25_000); // points for the charts
await picture("overview", "overview", live);
await picture("overview-dark", "overview", live, { colorScheme: "dark" });
await picture("transaction", "transaction", undefined, { viewport: { width: 1280, height: 1240 } }); // with its timeline
await picture("block", "block");
await picture("account", "account", async (page) => {
  await page.locator("#contract .chips button", { hasText: /^ft_balance_of$/ }).click();
  await page.fill("textarea[name=args]", JSON.stringify({ account_id: "test.near" }));
  await page.locator("#call > button").click();
  await page.locator("#result pre").waitFor();
});
await picture("actors", "actors", async (page) => {
  await page.locator("[role=row]", { hasText: /^chain/ }).first().click();
  await wait(20_000);
}, { colorScheme: "dark" });
await rpc("sandbox_snapshot", { name: "deployed" });
await rpc("sandbox_new_world", { snapshot: "deployed" });
await picture("sandbox", "sandbox");
