// The page of actors with 10,000 of them, by a feed that is made up: 60 frames a second while all figures change each second and somebody scrolls.
// The machine may be busy with other things, which only takes frames away: so an empty page is looked at in turns, and the best of three looks counts;
// the page's own work in a frame counts in all of them.
import assert from "node:assert";
import { go, open, step, url } from "./check.mjs";

const ACTORS = 10_000;
const { browser, page, trouble } = await open();

const kinds = ["chain", "producer", "session", "waiter", "subscriber"];
let turn = 0;
const feed = () => {
  turn++;
  const actors = [["chain", 0, turn % 7, 900 * turn, 20, 0], ["producer", 1, 0, 700 * turn, 0, 0], ["rpc", 2, 0, turn, 0, 0], ["streams", 4, 0, turn, 0, 0]];
  for (let i = 0; actors.length < ACTORS; i++) {
    const s = `rpc/session-${i}`;
    actors.push([s, 2, (i * turn) % 13, i + turn * (i % 50), (i * turn) % 900, 0], [`${s}/waiter-${i}`, 3, (i + turn) % 3, turn * (i % 9), 0, 0]);
    if (i % 4 === 0) actors.push([`streams/subscriber-${i}`, 4, 0, turn * 30, 0, 0]);
  }
  actors.length = ACTORS;
  const counts = (n) => Array.from({ length: 13 }, (_, i) => (i < 5 ? n * turn * (i + 1) : 0));
  return {
    uptime_ns: turn * 1e9, total: ACTORS, bounds_ns: Array.from({ length: 12 }, (_, i) => 2 ** (12 + 2 * i)), actors,
    kinds: kinds.map((kind) => ({ kind, shard: null, alive: 1, mailbox: 1, messages: 1000 * turn, busy_ns: 2e8 * turn, oldest_ns: 0, since_ns: 0, restarts: 0, dead_letters: 0, standstills: 0, waited: counts(30), handled: counts(50) })),
  };
};
await page.route("**/console/api/actors", (route) => route.fulfill({ json: feed() }));

// look scrolls for some seconds and counts frames, and what of each the page's own program took.
const look = (ms) => page.evaluate(async (ms) => {
  const scroll = document.querySelector(".vt-scroll");
  const own = [];
  const long = [];
  const seen = new PerformanceObserver((l) => l.getEntries().forEach((e) => long.push(e.duration)));
  seen.observe({ entryTypes: ["longtask"] });
  const grid = globalThis.consoleLife.grid;
  const render = grid.render;
  grid.render = function () {
    const began = performance.now();
    render.call(this);
    own.push(performance.now() - began);
  };
  const times = [];
  const began = performance.now();
  let last = 0;
  await new Promise((done) => {
    const frame = (now) => {
      if (last) times.push(now - last);
      last = now;
      scroll.scrollTop = (scroll.scrollTop + 137) % (scroll.scrollHeight - scroll.clientHeight);
      if (now - began < ms) requestAnimationFrame(frame);
      else done();
    };
    requestAnimationFrame(frame);
  });
  grid.render = render;
  seen.disconnect();
  times.sort((a, b) => a - b);
  own.sort((a, b) => a - b);
  const at = (list, share) => list[Math.min(list.length - 1, Math.floor(list.length * share))];
  return {
    frames: times.length, rate: (1000 * times.length) / times.reduce((a, b) => a + b, 0), median: at(times, 0.5), p99: at(times, 0.99), worst: times.at(-1),
    draws: own.length, own50: at(own, 0.5), own99: at(own, 0.99), ownMost: own.at(-1), long, elements: document.querySelectorAll("*").length, rows: Number(document.querySelector("[role=treegrid]").getAttribute("aria-rowcount")),
  };
}, ms);

// empty counts the frames of a page that does nothing.
const empty = async (ms) => {
  await page.goto(url + "/health");
  return page.evaluate((ms) => new Promise((done) => {
    let n = 0;
    let first = 0;
    const frame = (now) => {
      first ||= now;
      if (now - first >= ms) done((1000 * n) / (now - first));
      else {
        n++;
        requestAnimationFrame(frame);
      }
    };
    requestAnimationFrame(frame);
  }), ms);
};

await step("10,000 actors at 60 frames a second", async () => {
  const looks = [];
  const idle = [];
  for (let i = 0; i < 3; i++) {
    idle.push(await empty(2000));
    await go(page, "actors");
    await page.waitForFunction((n) => Number(document.querySelector("[role=treegrid]").getAttribute("aria-rowcount")) >= n, ACTORS);
    await page.locator("[role=columnheader] button", { hasText: "Mailbox" }).click(); // sorted anew at each list, which is the dearest
    looks.push(await look(4000));
  }
  console.log(JSON.stringify(looks), "an empty page: " + idle.map((r) => r.toFixed(1)).join(", "));
  const bound = Math.min(58, 0.95 * Math.max(...idle));
  const best = looks.reduce((a, b) => (a.rate > b.rate ? a : b));
  assert(best.rows >= ACTORS, "rows");
  assert(best.elements < 1500, `${best.elements} elements for ${best.rows} rows`);
  assert(best.rate >= bound, `${best.rate.toFixed(1)} frames a second, at least ${bound.toFixed(1)} are wanted`);
  assert(best.median < 17.5, `a frame each ${best.median.toFixed(1)} ms`);
  assert(best.own99 < 8, `the page's own work in a frame: ${best.own99.toFixed(1)} ms at the 99th percentile`);
  for (const l of looks) {
    assert(l.draws > 30, "it was drawn while it was scrolled");
    assert(l.own50 < 4, `the page's own work in a frame: ${l.own50.toFixed(1)} ms`);
  }
  // What was scrolled to is what the list says.
  await page.evaluate(() => { document.querySelector(".vt-scroll").scrollTop = 1e9; });
  await page.waitForTimeout(300);
  const last = await page.locator(`[role=row][aria-rowindex='${best.rows}']`).count();
  assert.equal(last, 1, "the last row is drawn");
  assert.deepEqual(trouble, []);
});
await browser.close();
