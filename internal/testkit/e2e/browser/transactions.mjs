// Lists of transactions, the timeline of receipts, traces in place, copy buttons, the search, and texts of a contract that means harm.
import assert from "node:assert";
import { go, open, rpc, scene, step, url } from "./check.mjs";

await rpc("sandbox_set_production", { mode: "manual" }); // the blocks of the scene stay among the last
const { browser, context, page, trouble } = await open();
page.setDefaultTimeout(60_000);
await context.grantPermissions(["clipboard-read", "clipboard-write"]);
const quiet = () => assert.deepEqual(trouble.splice(0), []);
const main = () => page.locator("main").innerText();
const row = (hash) => page.locator(`.txs tbody tr:has(a[href^='#/tx/${hash}/'])`);
const search = async (q) => {
  await page.fill("#q", q);
  await page.press("#q", "Enter");
};
const at = (start) => page.waitForFunction((s) => location.hash.startsWith(s), start);
await step("a browser at the root comes to the console, a program does not", async () => {
  await page.goto(url + "/");
  await page.waitForFunction(() => location.pathname === "/console/");
  await page.locator("main h1").first().waitFor();
  const [weight, files] = await page.evaluate(() => {
    const all = [...performance.getEntriesByType("resource"), ...performance.getEntriesByType("navigation")].filter((e) => new URL(e.name).pathname.startsWith("/console/") || e.entryType === "navigation");
    return [all.reduce((n, e) => n + e.decodedBodySize, 0), all.length];
  });
  assert(weight > 100_000 && weight < 300_000, `the page weighs ${weight} bytes`);
  console.log(`the page weighs ${weight} bytes in ${files} files`);
  assert.equal((await fetch(url + "/", { headers: { accept: "application/json" } })).status, 405);
  quiet();
});

await step("the last transactions, live, also after the page is loaded again", async () => {
  await go(page, "transactions");
  await row(scene.tx).waitFor();
  assert.match(await row(scene.tx).innerText(), /ft_transfer_call\(\)/);
  await page.reload();
  await row(scene.tx).waitFor();
  const failed = row(scene.hostile[4]);
  assert.match(await failed.innerText(), /✕ failed\s+panicked: <img src=x/);
  assert.match(await failed.locator(".outcome").getAttribute("title"), /^Smart contract panicked: <img src=x/);
  assert.match(await row(scene.tx).innerText(), /1 yocto/);
  const age = page.locator(".txs th button.age");
  assert.match(await row(scene.tx).locator("time").innerText(), / ago$/);
  await age.click();
  assert.match(await row(scene.tx).locator("time").innerText(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
  assert.equal(await age.innerText(), "Time (UTC)");
  await age.click();
  const rows = await page.locator(".txs tbody tr").count();
  await page.check("input[name=failed]");
  await page.waitForFunction((n) => document.querySelectorAll(".txs tbody tr").length < n, rows);
  await failed.waitFor();
  assert.equal(await row(scene.tx).count(), 0);
  await at("#/transactions///failed");
  await page.uncheck("input[name=failed]");
  await page.fill("input[name=account]", scene.token);
  await page.fill("input[name=method]", "ft_transfer");
  await page.press("input[name=method]", "Enter");
  await at(`#/transactions/${scene.token}/ft_transfer`);
  await row(scene.tx).waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll(".txs tbody tr")].every((r) => r.textContent.includes("ft_transfer")));
  await page.reload(); // the filters are in the address
  await row(scene.tx).waitFor();
  assert.equal(await page.inputValue("input[name=account]"), scene.token);
  await go(page, "transactions/nobody.at.all");
  await page.getByText("No transaction that fits").waitFor();
  quiet();
});

await step("the overview has the last ten, blocks their counts", async () => {
  await go(page, "");
  await page.locator(".txs caption", { hasText: "Latest transactions" }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".txs tbody tr").length === 10);
  assert.equal(await page.locator(`.txs a[href='#/account/system']`).count(), 0);
  await go(page, "blocks");
  const block = page.locator(`main tbody tr:has(a[href='#/block/${scene.block}'])`);
  await page.waitForFunction((hash) => Number([...document.querySelectorAll("main tbody tr")].find((r) => r.querySelector(`a[href='#/block/${hash}']`))?.children[4].textContent) >= 1, scene.block);
  await block.locator("a").first().click();
  await row(scene.tx).waitFor();
  const shards = await page.locator("main table:has(caption:text('Shards')) tbody tr td:first-child").allInnerTexts();
  assert.deepEqual(shards, ["0", "1"]);
  assert(!/\bnone\b/.test(await main()), "an empty table");
  await page.getByText("two blocks have to follow one to make it final").waitFor();
  quiet();
});

await step("the timeline: a link for each receipt, in words for those that do not see it", async () => {
  await go(page, `tx/${scene.tx}/${scene.signer}`);
  await page.locator("svg.timeline").waitFor();
  const r = await rpc("EXPERIMENTAL_tx_status", { tx_hash: scene.tx, sender_account_id: scene.signer, wait_until: "FINAL" });
  const labels = await page.locator("svg.timeline a.receipt").evaluateAll((all) => all.map((a) => a.getAttribute("aria-label")));
  assert.equal(labels.length, r.receipts_outcome.length + 1);
  assert(labels.some((l) => /refund/.test(l)) && labels.some((l) => /ft_on_transfer\(\), shard \d, block \d+, succeeded/.test(l)), labels.join("\n"));
  assert.match(await page.locator("svg.timeline").getAttribute("aria-label"), /^\d+ steps in \d+ blocks and 2 shards, .* succeeded/);
  await page.locator("svg.timeline a.receipt").nth(1).focus();
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "Receipt" }).waitFor();
  const kinds = await (async () => {
    await go(page, `tx/${scene.hostile[4]}/${scene.signer}`);
    await page.locator("svg.timeline a.receipt.failed").waitFor();
    return page.locator("svg.timeline a.receipt").evaluateAll((all) => all.map((a) => getComputedStyle(a.querySelector("rect")).strokeWidth + getComputedStyle(a.querySelector("rect")).strokeDasharray));
  })();
  assert(new Set(kinds).size >= 2, "failed and refunds differ in more than colour: " + kinds);
  quiet();
});

await step("the result first: a reason in words, transfers of tokens, and refunds folded", async () => {
  await go(page, `tx/${scene.hostile[4]}/${scene.signer}`);
  await page.locator("svg.timeline").waitFor();
  assert.equal(await page.locator(".title .tag.bad").first().innerText(), "✕ failed");
  const reason = page.locator("main dl p.reason").first();
  assert.match(await reason.innerText(), /^✕ failed: Smart contract panicked: <img src=x/);
  assert(!(await page.locator("main dl pre", { hasText: "ActionError" }).first().isVisible()), "the failure as JSON is folded");
  const refunds = page.locator("ul.tree details:has(> summary > strong)", { hasText: "refund" }).last();
  assert.equal(await refunds.getAttribute("open"), null);
  await page.getByRole("button", { name: "Expand all" }).click();
  assert.notEqual(await refunds.getAttribute("open"), null);
  await page.getByRole("button", { name: "Collapse all" }).waitFor();
  await go(page, `tx/${scene.tx}/${scene.signer}`);
  const transfers = page.locator("table:has(caption:text('Token transfers')) tbody tr");
  await page.waitForFunction(() => [...document.querySelectorAll("main td")].some((d) => d.textContent === "0.000007"));
  const first = (await transfers.first().innerText()).split(/\s+/);
  assert.deepEqual(first, [scene.signer, "zdefi.test.near", "0.000007", "TRP", scene.token]);
  await page.click("#logs > summary");
  await page.locator("#logs .tag", { hasText: "ft_transfer" }).first().waitFor();
  assert.match(await page.locator("main dd", { hasText: "attached" }).innerText(), /^[\d.]+ Tgas \(100 Tgas attached\)$/);
  await go(page, "receipt/" + scene.receipt);
  await page.locator(".title .tag.good", { hasText: "✓ succeeded" }).waitFor();
  await page.locator("dt", { hasText: "Gas burnt" }).waitFor();
  await go(page, "account/" + scene.signer);
  await row(scene.tx).locator(".tag.way.out").waitFor();
  await go(page, "account/" + scene.token);
  await row(scene.tx).locator(".tag.way.in").waitFor();
  await go(page, "account/zdefi.test.near");
  await row(scene.tx).locator(".tag.way.via").waitFor();
  quiet();
});

await step("blocks beside a block, heights that have none, and what there is not", async () => {
  const { header } = await rpc("block", { finality: "optimistic" });
  await rpc("sandbox_fast_forward", { delta_height: 500 });
  await go(page, "block/" + header.height);
  const next = page.getByRole("link", { name: /^Next block/ });
  await next.waitFor();
  const after = Number((await next.getAttribute("href")).split("/").at(-1));
  assert(after > header.height + 1, `the next block is ${after}`);
  await next.click();
  await page.locator("h1", { hasText: after.toLocaleString("en") }).waitFor();
  await page.getByRole("link", { name: `Previous block, ${header.height.toLocaleString("en")}` }).waitFor();
  await go(page, "block/" + (header.height + 1));
  await page.getByText("it was skipped").waitFor();
  await page.getByRole("link", { name: `Next block, ${after.toLocaleString("en")}` }).waitFor();
  await go(page, "block/99999999");
  await page.getByText("This chain has no block 99,999,999 yet").waitFor();
  await go(page, "account/nobody.at.all");
  await page.getByText("This chain has no account of this name").waitFor();
  await go(page, "tx/" + scene.block);
  await page.getByText("This node knows no transaction with this hash").waitFor();
  await page.getByRole("link", { name: /^Search for a block/ }).click();
  await at("#/block/" + scene.block);
  await go(page, "nosuchpage");
  await page.locator("h1", { hasText: "No such page" }).waitFor();
  await go(page, "blocks");
  await page.check("input[name=busy]");
  await page.locator("caption", { hasText: "Blocks with transactions" }).waitFor();
  await page.waitForFunction(() => {
    const counts = [...document.querySelectorAll("main tbody tr")].map((r) => r.children[4]?.textContent);
    return counts.length && counts.every((n) => Number(n) > 0);
  });
  quiet();
});

await step("trace and flame graph in place", async () => {
  await go(page, `tx/${scene.tx}/${scene.signer}`);
  await page.click("#trace > summary");
  await page.locator("#trace caption", { hasText: "Host functions" }).first().waitFor();
  await page.locator("#trace td", { hasText: "storage_read" }).first().waitFor();
  await page.click("#flame > summary");
  await page.locator("svg.flame [role=button]").first().waitFor();
  const wide = await page.locator("svg.flame [role=button]").count();
  await page.locator("svg.flame [role=button]").nth(1).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Whole graph" }).click();
  await page.waitForFunction((n) => document.querySelectorAll("svg.flame [role=button]").length === n, wide);
  await page.locator("#flame caption", { hasText: "What burns most" }).waitFor();
  quiet();
});

await step("run again in a world", async () => {
  await go(page, `tx/${scene.tx}/${scene.signer}`);
  const before = (await rpc("sandbox_worlds")).length;
  await page.getByRole("button", { name: "Run again in a world" }).click();
  await page.locator("#again .good", { hasText: "It did the same" }).waitFor();
  const worlds = await rpc("sandbox_worlds");
  assert.equal(worlds.length, before + 1);
  await page.locator("#again a").click();
  await page.waitForFunction(() => location.pathname.startsWith("/world/"));
  await page.locator("svg.timeline").waitFor();
  await page.goto("about:blank");
  for (const w of worlds) await rpc("sandbox_drop_world", { id: w.id });
  quiet();
});

await step("copy buttons", async () => {
  await go(page, `tx/${scene.tx}/${scene.signer}`);
  await page.getByRole("button", { name: /^Copy hash/ }).first().click();
  await page.locator("#say", { hasText: "Copied the hash" }).waitFor({ state: "attached" });
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), scene.tx);
  quiet();
});

await step("the search takes what pages show, and the beginning of a name", async () => {
  await search("zhost");
  await at("#/account/" + scene.hostileAccount);
  await search("ZDEFI.test.near");
  await at("#/account/zdefi.test.near");
  await search("#" + scene.height.toLocaleString("en"));
  await at("#/block/" + scene.height);
  await page.locator("h1", { hasText: "Block" }).waitFor();
  await search("t");
  await page.locator("h2", { hasText: "Accounts that begin with it" }).waitFor();
  assert(await page.locator("main li a").count() >= 2);
  await search(scene.tx.slice(0, 8) + "…" + scene.tx.slice(-5));
  await at(`#/tx/${scene.tx}/`);
  quiet();
});

await step("history and tokens of an account", async () => {
  await go(page, "");
  const shown = await page.evaluate(async ([id, tx]) => {
    const { accountHistory, tokens } = await import("/console/transactions.js");
    const life = { over: new AbortController(), ends: [] };
    const [history, has] = [document.createElement("div"), document.createElement("div")];
    document.querySelector("main").append(history, has);
    accountHistory(id, history, life);
    await tokens(id, has, life);
    for (let n = 0; n < 100 && !history.querySelector(`a[href^='#/tx/${tx}/']`); n++) await new Promise((f) => setTimeout(f, 50));
    life.ends.forEach((f) => f());
    return [history.textContent.includes("ft_transfer_call()"), has.innerText];
  }, ["zdefi.test.near", scene.tx]); // it signed nothing: a receipt and events name it
  assert(shown[0], "the history");
  assert.match(shown[1], /token\.test\.near\s+TRP\s+[\d.,]+\s+NEP-141/);
  quiet();
});

await step("texts of a contract are text, cut, and move nothing", async () => {
  const places = ["", "transactions", "transactions/" + scene.hostileAccount, "account/" + scene.hostileAccount, ...scene.hostile.map((h) => `tx/${h}/${scene.signer}`)];
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    for (const hash of places) {
      await page.goto("about:blank");
      await go(page, hash);
      if (hash.startsWith("tx/")) {
        await page.locator("svg.timeline").waitFor();
        await page.click("#trace > summary");
        await page.click("#flame > summary");
        await page.waitForFunction(() => !document.querySelector("#trace [role=status], #flame [role=status]"));
      } else if (hash.startsWith("account/")) {
        await page.locator("#storage form button.main").click();
        await page.locator("#storage caption", { hasText: "values" }).waitFor();
        await page.getByRole("button", { name: "JSON" }).click();
      } else await page.waitForTimeout(700);
      const found = await page.evaluate(() => {
        const text = document.body.textContent;
        return { hacked: globalThis.hacked, hidden: /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/.exec(text)?.[0].codePointAt(0), size: text.length,
          elements: document.querySelectorAll("*").length, foreign: document.querySelectorAll("main img, main script, main iframe").length };
      });
      assert.equal(found.hacked, undefined, hash);
      assert.equal(found.hidden, undefined, hash);
      assert.equal(found.foreign, 0, hash);
      assert(found.size < 200_000 && found.elements < 6000, `${hash}: ${JSON.stringify(found)}`);
      if (/^(tx|transactions)/.test(hash)) {
        const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
        assert(over <= 0, `${hash} at ${width} px is ${over} px too wide`);
      }
    }
  }
  await go(page, `tx/${scene.hostile[0]}/${scene.signer}`);
  await page.locator("pre.logs", { hasText: "<img src=x onerror=globalThis.hacked=7>\\u202e\\u0007\\u001b[31m" }).waitFor();
  await go(page, `tx/${scene.hostile[7]}/${scene.signer}`); // arguments of a megabyte
  await page.getByText("bytes in all").first().waitFor();
  await page.setViewportSize({ width: 1180, height: 820 });
  quiet();
});

await browser.close();
