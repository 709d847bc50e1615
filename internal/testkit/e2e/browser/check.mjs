// What the pages' tests share: a browser, steps, and what must never happen while they run.
import assert from "node:assert";
import { chromium } from "playwright-core";

export const url = process.env.NEAR_RPC_URL;
export const scene = JSON.parse(process.env.SCENE ?? "{}");

// pages are all pages of the console, with what the scene has for them.
export const pages = { overview: "", actors: "actors", blocks: "blocks", transactions: "transactions", mempool: "mempool", validators: "validators", network: "network", sandbox: "sandbox", block: "block/" + scene.block,
  chunk: "chunk/" + scene.chunk, transaction: `tx/${scene.tx}/${scene.signer}`, receipt: "receipt/" + scene.receipt, account: "account/" + scene.token, search: "search/nothing!" };

// open starts a browser with one page. What the page does wrong is in trouble: errors, refused by the policy, requests to elsewhere.
export async function open(options = {}) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-timer-throttling"] });
  const context = await browser.newContext({ viewport: { width: 1180, height: 820 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const trouble = [];
  page.on("pageerror", (e) => trouble.push("error: " + e.message));
  page.on("console", (m) => m.type() === "error" && !m.text().startsWith("Failed to load resource: the server responded") /* a fault is an HTTP status, too */ && trouble.push("console: " + m.text()));
  page.on("request", (r) => !r.url().startsWith(url) && !r.url().startsWith("data:") && trouble.push("asks elsewhere: " + r.url()));
  page.setDefaultTimeout(20_000);
  return { browser, context, page, trouble };
}

// rpc asks the node.
export async function rpc(method, params = null) {
  const r = await (await fetch(url, { method: "POST", body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) })).json();
  assert(!r.error, method + ": " + JSON.stringify(r.error));
  return r.result;
}

export async function step(name, f) {
  const began = performance.now();
  try {
    await f();
  } catch (e) {
    console.error(`FAILED: ${name}\n${e.stack}`);
    process.exit(1);
  }
  console.log(`${name}: ${(performance.now() - began).toFixed(0)} ms`);
}

// go shows a page of the console and waits until it is drawn.
export async function go(page, hash) {
  await page.goto(url + "/console/#/" + hash);
  await page.locator("main h1").first().waitFor();
}
