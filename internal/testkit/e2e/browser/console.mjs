// The console in a browser: every page with what a node has, what it must not do with what comes from others, the keyboard, both colour schemes.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { go, open, rpc, scene, step, url } from "./check.mjs";

const { browser, page, trouble } = await open();
const quiet = () => assert.deepEqual(trouble.splice(0), []);
const text = (s) => page.locator(s).first().innerText();
const search = async (q) => {
  await page.fill("#q", q);
  await page.press("#q", "Enter");
};
// shown waits until the table of live blocks has come to a height.
const shown = (height) => page.waitForFunction((h) => [...document.querySelectorAll("main tr td:first-child a[href^='#/block/']")].some((a) => Number(a.textContent.replaceAll(",", "")) >= h), height);
const at = (start) => page.waitForFunction((s) => location.hash.startsWith(s), start);
const sockets = [];
await page.routeWebSocket(/\/ws$/, (ws) => {
  const server = ws.connectToServer();
  const said = [];
  sockets.push({ ws, server, said });
  ws.onMessage((m) => {
    said.push(JSON.parse(m));
    server.send(m);
  });
});

await step("overview is live", async () => {
  await go(page, "");
  await page.waitForSelector("#link.live");
  const before = (await rpc("block", { finality: "optimistic" })).header.height;
  await rpc("sandbox_mine", { blocks: 5 });
  await shown(before + 5);
  const gas = page.locator("canvas[aria-label^='Gas used per block: now']");
  assert.match(await gas.getAttribute("aria-label"), /lowest .*, highest .* blocks/);
  await page.waitForFunction(() => /now \d/.test(document.querySelector("canvas[aria-label^='Transactions per second']").getAttribute("aria-label")));
  assert.equal(await page.locator("main table caption", { hasText: "Shards" }).count(), 1);
  assert((await text("#node")).includes("sandbox"));
  await page.waitForFunction(() => { // of one moment: the newest row, the head, the shards' chunks, and the first row that is not shaded
    const number = (e) => Number(e?.textContent.replaceAll(",", ""));
    const card = (k) => number([...document.querySelectorAll(".cards li")].find((l) => l.querySelector(".k").textContent === k).querySelector(".v"));
    const table = (name) => [...document.querySelectorAll("main table")].find((t) => t.caption.textContent.startsWith(name));
    const rows = table("Latest blocks").querySelectorAll("tbody tr");
    const head = number(rows[0].querySelector("a"));
    const final = number([...rows].find((r) => r.className !== "open")?.querySelector("a"));
    return card("Head") === head && card("Final") === final && final === head - 2 && number(table("Shards").querySelector("tbody tr td:nth-child(3)")) <= head;
  });
  assert(await page.evaluate(() => { // something is drawn
    const c = document.querySelector("canvas[aria-label^='Gas']");
    return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v);
  }));
  quiet();
});

await step("blocks go on behind a lost connection, each once", async () => {
  await go(page, "blocks");
  const first = sockets.at(-1);
  const height = () => rpc("block", { finality: "optimistic" }).then((b) => b.header.height);
  await rpc("sandbox_mine", { blocks: 2 });
  await shown(await height());
  await first.ws.close();
  await page.waitForSelector("#link.lost");
  await rpc("sandbox_mine", { blocks: 3 });
  const last = await height();
  await shown(last);
  assert.notEqual(sockets.at(-1), first);
  assert(sockets.at(-1).said[0].params.after.height > 0, "it said where it was");
  await page.waitForTimeout(400);
  const rows = await page.locator("main tbody tr td:first-child").allInnerTexts();
  const heights = rows.map((s) => Number(s.replaceAll(",", "")));
  for (let i = 1; i < Math.min(heights.length, 8); i++) assert.equal(heights[i], heights[i - 1] - 1, rows.join(" "));
  quiet();
});

await step("search by height, hash, receipt, account", async () => {
  await search(String(scene.height));
  await at("#/block/");
  await page.locator("h1", { hasText: "Block" }).waitFor();
  assert((await text("main")).includes(scene.block));
  for (const [what, page0] of [[scene.block, "block"], [scene.tx, "tx"], [scene.receipt, "receipt"], [scene.chunk, "chunk"], [scene.token, "account"]]) {
    await search(what);
    await at(`#/${page0}/`);
    await page.locator("main h1").first().waitFor();
    assert.equal(new URL(page.url()).hash.split("/")[2], what);
  }
  await rpc("sandbox_fast_forward", { delta_height: 1200 });
  const far = (await rpc("block", { finality: "optimistic" })).header.height;
  await search(far.toLocaleString("en"));
  await at("#/block/" + far);
  await search("system");
  await at("#/account/system");
  await page.getByText("The protocol itself").waitFor();
  await search("no such thing!");
  await page.getByText("No height, hash or account looks like").waitFor();
  await search("nobody.at.all");
  await page.getByText("This node knows no account").waitFor();
  await search("11111111111111111111111111111111111111111111");
  await page.getByText("This node knows no block").waitFor();
  quiet();
});

await step("a transaction's tree of receipts, with gas and logs", async () => {
  await go(page, `tx/${scene.tx}/${scene.signer}`);
  await page.locator("ul.tree").waitFor();
  await page.locator("main dd", { hasText: scene.height.toLocaleString("en") }).locator(`a[href='#/block/${scene.block}']`).waitFor();
  const made = (await rpc("block", { block_id: scene.block })).header.timestamp_nanosec;
  await page.locator("main dd", { hasText: new Date(Number(BigInt(made) / 1000000n)).toISOString().replace("T", " ").slice(0, 23) }).waitFor();
  const receipts = await page.locator("ul.tree details:has(> summary > strong)").count();
  const r = await rpc("EXPERIMENTAL_tx_status", { tx_hash: scene.tx, sender_account_id: scene.signer, wait_until: "FINAL" });
  assert(r.receipts_outcome.length >= scene.receipts && scene.receipts >= 3); // refunds are not in the answer of send_tx
  assert.equal(receipts, r.receipts_outcome.length);
  assert.match(await text("ul.tree summary"), /Tgas|Ggas/);
  const logs = await page.locator("pre.logs").allInnerTexts();
  assert(logs.some((l) => l.includes("<script>hacked=1</script>")), logs.join("\n"));
  await page.getByText("continues in receipt").first().waitFor();
  await page.locator("ul.tree details").first().evaluate((d) => (d.open = true));
  await page.locator("ul.tree a[href^='#/receipt/']").first().click();
  await page.locator("h1", { hasText: "Receipt" }).waitFor();
  await page.locator(`main a[href='#/tx/${scene.tx}/${scene.signer}']`).waitFor(); // where it comes from
  quiet();
});

await step("a block and a chunk", async () => {
  await go(page, "block/" + scene.block);
  await page.locator("main caption", { hasText: "Shards" }).waitFor();
  await page.locator(`main a[href^='#/tx/']`).first().waitFor();
  await page.locator("main a[href^='#/chunk/']").first().click();
  await page.locator("h1", { hasText: "Chunk of shard" }).waitFor();
  quiet();
});

await step("an account: keys, contract, a view call, storage", async () => {
  await go(page, "account/" + scene.token);
  await page.locator("#methods option[value=ft_balance_of]").waitFor({ state: "attached" });
  await page.fill("input[name=method]", "ft_balance_of");
  await page.fill("textarea[name=args]", JSON.stringify({ account_id: scene.signer }));
  await page.press("textarea[name=args]", "Tab"); // by keyboard alone
  await page.keyboard.press("Enter");
  await page.locator("#result pre").waitFor();
  assert.match(await text("#result pre"), /^"\d+"$/);
  await page.fill("input[name=method]", "no_such_method");
  await page.locator("#call > button").click();
  await page.locator("#result .bad").waitFor();
  assert((await text("#result")).includes("MethodNotFound"), await text("#result"));
  await page.locator("#storage form button.main").click();
  await page.locator("caption", { hasText: "values" }).waitFor();
  assert((await text("main")).includes("<script>hacked=2</script>"), "a value of storage");
  await page.getByRole("button", { name: "Hex" }).click();
  await page.locator("#storage td", { hasText: "3c 73 63 72 69 70 74 3e" }).waitFor();
  await page.getByRole("button", { name: "Text" }).click();
  await page.locator("#contract .chips button", { hasText: /^ft_metadata$/ }).click();
  assert.equal(await page.inputValue("input[name=method]"), "ft_metadata");
  await page.getByRole("button", { name: "Transaction" }).click();
  await page.click("#call > button");
  await page.locator("#result .bad").waitFor(); // the contract has no key that a transaction could name
  assert((await text("#result")).includes("has no key with full access"), await text("#result"));
  await page.fill("input[name=method]", "storage_deposit");
  await page.fill("textarea[name=args]", JSON.stringify({ account_id: "system" }));
  await page.fill("input[name=signer]", scene.signer);
  await page.fill("input[name=deposit]", "0.5");
  await page.click("#call > button");
  await page.locator("#result .good").waitFor();
  const sent = (await page.locator("#result a[href^='#/tx/']").getAttribute("href")).split("/");
  const call = (await rpc("EXPERIMENTAL_tx_status", { tx_hash: sent[2], sender_account_id: sent[3], wait_until: "FINAL" })).transaction.actions[0].FunctionCall;
  assert.deepEqual([call.method_name, call.deposit, call.gas], ["storage_deposit", "5" + "0".repeat(23), 1e14]);
  await go(page, "account/" + scene.signer);
  await page.locator("caption", { hasText: "Keys (1)" }).waitFor();
  await rpc("sandbox_impersonate", {});
  quiet();
});

await step("mempool, validators, network", async () => {
  await go(page, "mempool");
  await page.locator("meter[aria-label^='congestion of shard']").first().waitFor();
  await go(page, "validators");
  await page.locator("td", { hasText: scene.signer }).first().waitFor();
  await page.locator(".cards li", { hasText: "Total stake" }).locator(".v", { hasText: /^[\d,]+ NEAR$/ }).waitFor();
  await go(page, "network");
  await page.getByText("This node has no peers").waitFor();
  quiet();
});

await step("the tree of actors, by keyboard, and one followed", async () => {
  await go(page, "actors");
  const row = (name) => page.locator("[role=treegrid] [role=row]:not([hidden])", { has: page.locator("[role=gridcell]", { hasText: new RegExp(`^[▾▸]?${name}$`) }) });
  await row("chain").waitFor();
  await page.locator("[role=row][aria-level='4']", { hasText: "mempool" }).first().waitFor();
  await page.locator(".vt-space [role=row][tabindex='0']").focus();
  const active = () => page.evaluate(() => document.activeElement.querySelector("[role=gridcell] span:last-child")?.textContent);
  assert.equal(await active(), "node");
  await page.keyboard.press("ArrowDown");
  assert.equal(await active(), "chain");
  assert.match(await page.evaluate(() => document.activeElement.title), /imports blocks/);
  await page.keyboard.press("End");
  await page.keyboard.press("Home");
  assert.equal(await active(), "node");
  const rows = () => page.locator("[role=treegrid]").getAttribute("aria-rowcount").then(Number);
  const all = await rows();
  await page.keyboard.press("ArrowLeft");
  const folded = (is, most) => page.waitForFunction(([is, most]) => document.activeElement.getAttribute("aria-expanded") === is &&
    (Number(document.querySelector("[role=treegrid]").getAttribute("aria-rowcount")) <= 2) === most, [is, most]);
  await folded("false", true);
  await page.keyboard.press("ArrowRight");
  await folded("true", false);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator("section[aria-label='Followed actor'] h2", { hasText: "chain" }).waitFor();
  await rpc("sandbox_mine", { blocks: 40 });
  await page.waitForFunction(() => /highest [1-9]/.test(document.querySelector("canvas[aria-label^='Messages per second']").getAttribute("aria-label")));
  await page.locator("dt", { hasText: "Standstills" }).waitFor();
  await page.locator("[role=columnheader] button", { hasText: "Messages/s" }).click();
  assert.equal(await page.locator("[role=columnheader]", { hasText: "Messages/s" }).getAttribute("aria-sort"), "descending");
  await page.fill("main input[type=search]", "mempool");
  await page.waitForFunction((n) => Number(document.querySelector("[role=treegrid]").getAttribute("aria-rowcount")) < n, all);
  await page.fill("main input[type=search]", "");
  quiet();
});

await step("the sandbox's tasks", async () => {
  await rpc("sandbox_set_production", { mode: "manual" });
  await go(page, "sandbox");
  const height = () => rpc("block", { finality: "optimistic" }).then((b) => b.header.height);
  const form = (task) => page.locator(`form[data-task=${task}]`);
  // submit fills the fields of a task, and waits for what comes of it.
  const submit = async (task, fields, ends = "good") => {
    for (const [name, v] of Object.entries(fields)) {
      const x = form(task).locator(`[name=${name}]`);
      if (v === true) await x.check();
      else if (await x.evaluate((e) => e.tagName === "SELECT")) await x.selectOption(v);
      else await x.fill(v);
    }
    await page.evaluate(() => document.querySelectorAll("#done p").forEach((p) => p.remove()));
    await form(task).locator("button.main").click();
    if (!ends) return;
    await page.locator("#done .good, #done .bad").waitFor();
    assert.equal(await page.locator("#done p.good, #done p.bad").getAttribute("class"), ends, task + ": " + (await text("#done")));
  };
  const answer = (verb) => page.locator("dialog button", { hasText: verb }).click();
  await page.locator(".cards li", { hasText: "Blocks" }).locator(".v", { hasText: "manual" }).waitFor();
  assert.equal(await form("sandbox_set_production").locator("select").inputValue(), "manual");
  const before = await height();
  await submit("sandbox_mine", { blocks: "3" });
  assert((await height()) >= before + 3);
  await submit("sandbox_snapshot", { name: "here" });
  await page.locator("td", { hasText: "here" }).waitFor();
  const [snapshot] = await rpc("sandbox_snapshots");
  assert.equal(snapshot.height, await height());
  await submit("sandbox_fast_forward", { delta_height: "50" });
  assert.equal(await height(), snapshot.height + 51); // neard's way ends with the block above the height
  // What is lost is asked for, and nothing happens without the answer.
  await page.click("button[aria-label='Revert to here']");
  await page.locator("dialog", { hasText: "Later blocks and later snapshots will be lost" }).waitFor();
  await answer("Cancel");
  assert.equal(await height(), snapshot.height + 51);
  await page.click("button[aria-label='Revert to here']");
  await page.keyboard.press("Escape");
  await page.click("button[aria-label='Revert to here']");
  await answer("Revert");
  await page.locator("#done .good", { hasText: "Revert to here: done" }).waitFor();
  assert.equal(await height(), snapshot.height);
  const view = (account_id) => rpc("query", { request_type: "view_account", finality: "optimistic", account_id });
  await submit("sandbox_set_balance", { account_id: "rich.test.near", amount: "12.5" });
  assert.equal((await view("rich.test.near")).amount, "125" + "0".repeat(23));
  await submit("sandbox_set_balance", { account_id: "NO ACCOUNT", amount: "5" }, "bad");
  await submit("sandbox_set_balance", { account_id: "rich.test.near", amount: "1,5" }, "bad");
  await submit("sandbox_deal", { token_id: scene.token, account_id: scene.signer, amount: "1.5" });
  const balance = await rpc("query", { request_type: "call_function", finality: "optimistic", account_id: scene.token, method_name: "ft_balance_of", args_base64: btoa(JSON.stringify({ account_id: scene.signer })) });
  assert.equal(JSON.parse(Buffer.from(balance.result).toString()), "1500000");
  const key = "ed25519:" + "5".repeat(44);
  await submit("sandbox_set_key", { account_id: "rich.test.near", public_key: key });
  const keys = () => rpc("query", { request_type: "view_access_key_list", finality: "optimistic", account_id: "rich.test.near" }).then((r) => r.keys.map((k) => k.public_key));
  assert.deepEqual(await keys(), [key]);
  await submit("sandbox_set_key", { remove: true }, null);
  await answer("Write");
  await page.locator("#done .good").waitFor();
  assert.deepEqual(await keys(), []);
  await form("sandbox_set_code").locator("[name=code]").setInputFiles({ name: "a.wasm", mimeType: "application/wasm", buffer: Buffer.from("0061736d01000000", "hex") });
  await submit("sandbox_set_code", { account_id: "rich.test.near" }, null);
  await answer("Write");
  await page.locator("#done .good").waitFor();
  assert.notEqual((await view("rich.test.near")).code_hash, "1".repeat(32));
  const saved = page.waitForEvent("download");
  await submit("sandbox_dump_state", { account_ids: "rich.test.near" });
  const records = JSON.parse(readFileSync(await (await saved).path(), "utf8"));
  assert(records.records.some((r) => r.Contract?.account_id === "rich.test.near"), JSON.stringify(records).slice(0, 500));
  await submit("sandbox_set_balance", { account_id: "rich.test.near", amount: "1" });
  await form("sandbox_load_state").locator("[name=records]").setInputFiles({ name: "state.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(records)) });
  await submit("sandbox_load_state", {}, null);
  await answer("Load");
  await page.locator("#done .good").waitFor();
  assert.equal((await view("rich.test.near")).amount, "125" + "0".repeat(23));
  await submit("frozen", {});
  await page.locator(".cards li", { hasText: "frozen" }).waitFor();
  const clock = () => rpc("sandbox_set_clock");
  const at = BigInt((await clock()).timestamp_nanosec);
  await submit("advance", { amount: "1.5", unit: "hours" });
  assert.equal(BigInt((await clock()).timestamp_nanosec) - at, 5400n * 10n ** 9n);
  await submit("set", { time: "2050-01-02T03:04:05" });
  assert.equal((await clock()).timestamp_nanosec, Date.parse("2050-01-02T03:04:05Z") + "000000");
  await form("frozen").locator("button", { hasText: "Run" }).click();
  await page.waitForFunction(() => !document.querySelector(".cards").textContent.includes("frozen"));
  await submit("sandbox_mock_verification", { ed25519_verify: true });
  await page.locator(".cards li", { hasText: "ed25519_verify" }).waitFor();
  await form("sandbox_mock_verification").locator("[name=ed25519_verify]").uncheck();
  await submit("sandbox_mock_verification", {});
  await submit("sandbox_tag", { name: "tests" });
  await page.locator("tr", { hasText: "tests" }).locator(".tag", { hasText: "open" }).waitFor();
  await page.click("button[aria-label='Gas of tests']");
  await page.locator("caption", { hasText: /^Functions in tests/ }).waitFor();
  await submit("sandbox_tag", { name: "" });
  await page.click("button[aria-label='Drop tag tests']");
  await answer("Drop");
  await page.getByText("No tag has been opened.").waitFor();
  assert(await page.locator("#task-fork").isHidden(), "this chain is no fork");
  quiet();
});

await step("a world's page says that it is one, and its path leads there", async () => {
  const world = await rpc("sandbox_new_world");
  await go(page, "sandbox");
  await page.locator("td a", { hasText: world.path }).click();
  await page.waitForFunction((path) => location.pathname === path + "/console/", world.path);
  await page.locator("#node", { hasText: `world ${world.id} of sandbox` }).waitFor();
  await page.waitForFunction((id) => document.title.includes(`world ${id} of sandbox`), world.id);
  const failed = [];
  const note = (r) => r.status() >= 400 && failed.push(`HTTP ${r.status()}: ${r.url()}`);
  page.on("response", note);
  for (const name of ["overview", "actors", "transactions", "mempool", "validators", "network", "sandbox"]) {
    await page.click("#nav-" + name);
    await page.waitForTimeout(300);
  }
  page.off("response", note);
  assert.deepEqual(failed, [], "a world has all that its console asks for");
  await page.locator("#node a", { hasText: "sandbox" }).click();
  await page.waitForFunction(() => location.pathname === "/console/");
  await page.waitForSelector("#link.live");
  assert(!(await text("#node")).includes("world"));
  await rpc("sandbox_drop_world", { id: world.id });
  quiet();
});

const evil = `<img src=x onerror="globalThis.hacked=3"><script>globalThis.hacked=4</script>`;

await step("what others write is text", async () => {
  for (const hash of ["account/", "tx/", "block/", "receipt/", "chunk/", "search/", ""]) {
    await page.goto(url + "/console/#/" + hash + encodeURIComponent(evil));
    await page.locator("main h1").first().waitFor();
    await page.goto(url + "/console/#/" + hash + evil);
    await page.locator("main h1").first().waitFor();
  }
  // A node that lies in every text: whatever is a string in a reply is markup.
  const spoil = (v) => (typeof v === "string" ? (/^\d+$/.test(v) ? v : evil) : Array.isArray(v) ? v.map(spoil) : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, spoil(x)])) : v);
  await page.route((u) => u.pathname === "/", async (route) => {
    const asked = route.request().postDataJSON();
    const reply = await route.fetch();
    const body = await reply.json();
    const bytes = ["view_code", "view_state"].includes(asked.params?.request_type);
    const result = bytes ? body.result : spoil(body.result);
    if (asked.method === "tx" || asked.method === "EXPERIMENTAL_tx_status") restore(result, body.result);
    await route.fulfill({ json: { ...body, result, error: body.error && spoil(body.error) } });
  });
  // Ids that lead from one receipt to the next, and base64, stay as they are, or there would be no tree.
  const restore = (to, from) => {
    for (const k of Object.keys(from ?? {})) {
      if (["receipt_ids", "id", "receipt_id", "args", "SuccessValue"].includes(k)) to[k] = from[k];
      else if (typeof from[k] === "object") restore(to[k], from[k]);
    }
  };
  for (const hash of ["", "blocks", "mempool", "validators", "network", "sandbox", "block/" + scene.block, "chunk/" + scene.chunk, `tx/${scene.tx}/${scene.signer}`, "receipt/" + scene.receipt, "account/" + scene.token]) {
    await page.goto("about:blank");
    await go(page, hash);
    await page.waitForTimeout(300);
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined, hash);
    assert.equal(await page.locator("main img, main script, main iframe").count(), 0, hash);
  }
  await page.locator("main", { hasText: "<img src=x" }).waitFor();
  await page.unroute((u) => u.pathname === "/").catch(() => {});
  await page.unrouteAll();
  quiet();
});

await step("the policy refuses what got in all the same", async () => {
  await go(page, "");
  const made = await page.evaluate(() => {
    let refused = 0;
    try {
      document.body.innerHTML = "<b>x</b>";
    } catch {
      refused++;
    }
    const s = document.createElement("script");
    try {
      s.textContent = "globalThis.hacked = 5";
      document.body.append(s);
    } catch {
      refused++;
    }
    const b = document.createElement("button");
    try {
      b.setAttribute("onclick", "globalThis.hacked = 6");
      document.body.append(b);
      b.click();
    } catch {
      refused++;
    }
    b.remove();
    s.remove();
    return { refused, hacked: globalThis.hacked };
  });
  assert.equal(made.hacked, undefined);
  assert(made.refused >= 1, "markup of a string");
  assert.equal(await page.evaluate(() => fetch("http://127.0.0.1:1/").then(() => "sent", () => "refused")), "refused");
  assert(trouble.splice(0).some((t) => /Content Security Policy|Trusted/.test(t)), "the browser says so");
});

await step("landmarks, names, focus, both colour schemes", async () => {
  for (const hash of ["", "actors", "blocks", "mempool", "validators", "network", "sandbox", "account/" + scene.token, `tx/${scene.tx}/${scene.signer}`]) {
    await go(page, hash);
    await page.waitForTimeout(200);
    const wrong = await page.evaluate(() => {
      const out = [];
      const one = (s) => document.querySelectorAll(s).length === 1 || out.push(`${document.querySelectorAll(s).length} of ${s}`);
      for (const s of ["header", "nav[aria-label]", "main", "main h1", "[role=search]", "[aria-live=polite].hidden"]) one(s);
      if (!document.documentElement.lang) out.push("no language");
      for (const e of document.querySelectorAll("input, select, textarea")) if (!e.labels?.length && !e.getAttribute("aria-label")) out.push("no label: " + e.outerHTML);
      for (const e of document.querySelectorAll("button, a[href]")) if (!(e.textContent.trim() || e.getAttribute("aria-label"))) out.push("no name: " + e.outerHTML);
      for (const e of document.querySelectorAll("th")) if (!e.scope) out.push("no scope: " + e.outerHTML);
      for (const e of document.querySelectorAll("main table")) if (!e.caption) out.push("no caption: " + e.outerHTML.slice(0, 80));
      for (const e of document.querySelectorAll("canvas")) if (e.getAttribute("role") !== "img" || !e.getAttribute("aria-label")) out.push("a picture without words");
      const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
      if (new Set(ids).size !== ids.length) out.push("ids twice");
      return out;
    });
    assert.deepEqual(wrong, [], hash);
  }
  await page.goto("about:blank");
  await go(page, "");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.click("#nav-validators");
  await page.locator("h1", { hasText: "Validators" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "main", "a page that is gone to has the focus");
  assert.equal(await page.locator("nav a[aria-current=page]").innerText(), "Validators");
  assert.equal(await page.title(), "Validators – Troupe");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "q");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const ratios = await page.evaluate(() => {
      const s = getComputedStyle(document.documentElement);
      const light = (name) => {
        const h = s.getPropertyValue(name).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
        const [r, g, b] = [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
      const out = {};
      for (const ink of ["--ink", "--muted", "--accent", "--good", "--bad", "--warn"]) for (const bg of ["--bg", "--panel", "--mark", "--soft"]) out[ink + " on " + bg] = ratio(ink, bg);
      for (const [ink, bg] of [["--on", "--main"], ["--on", "--danger"], ["--good", "--good-bg"], ["--bad", "--bad-bg"], ["--warn", "--warn-bg"], ["--ink", "--warn-bg"]]) out[ink + " on " + bg] = ratio(ink, bg);
      return { out, body: getComputedStyle(document.body).backgroundColor };
    });
    for (const [what, r] of Object.entries(ratios.out)) assert(r >= 4.5, `${colorScheme}: ${what}: ${r.toFixed(2)}`);
    assert.equal(ratios.body === "rgb(13, 16, 22)", colorScheme === "dark");
  }
  quiet();
});

await step("a node that does not answer is asked again", async () => {
  await go(page, "sandbox");
  await page.locator("td").first().waitFor();
  await page.route((u) => u.pathname === "/", (route) => route.abort());
  await page.locator("[role=alert]", { hasText: "The node does not answer; trying again." }).waitFor();
  await page.unrouteAll();
  await page.waitForFunction(() => document.querySelector("[role=alert]").hidden);
  trouble.splice(0); // the browser reports each request that failed
});

await step("the focus stays where lists come anew", async () => {
  const has = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.getAttribute("href") ?? document.activeElement.tagName);
  await rpc("sandbox_snapshot", { name: "focus" });
  await go(page, "sandbox");
  await page.getByRole("button", { name: "Drop snapshot focus" }).focus();
  await page.waitForTimeout(3500); // the list is asked for each 3 s
  assert.equal(await has(), "Drop snapshot focus");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel"); // of the question
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter"); // what had the focus is gone: no other button has it then
  await page.waitForFunction(() => ![...document.querySelectorAll("button")].some((b) => b.getAttribute("aria-label") === "Drop snapshot focus"));
  assert.equal(await has(), "MAIN");
  await go(page, "blocks");
  const height = () => rpc("block", { finality: "optimistic" }).then((b) => b.header.height);
  await rpc("sandbox_mine", { blocks: 3 });
  await shown(await height());
  const link = page.locator("main tbody tr td:nth-child(7) a").first(); // the author, whom all lines name
  await link.focus();
  const line = () => page.evaluate(() => document.activeElement.closest("tr")?.querySelector("a").getAttribute("href"));
  const before = await line();
  assert(before);
  await rpc("sandbox_mine", { blocks: 3 });
  await shown(await height());
  await page.waitForTimeout(400);
  assert.equal(await line(), before);
  quiet();
});

await browser.close();
