import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Sandbox, SandboxError } from "@troupe-chain/sandbox";

const kind = (want, word) => (err) => {
  assert.ok(err instanceof SandboxError, err);
  assert.equal(err.kind, want, err.message);
  assert.ok(err.message.includes(word), err.message);
  return true;
};

/** A server that answers `status`, and everything else by reply(response). */
async function liar(reply) {
  const server = createServer((req, res) => {
    let body = "";
    req.on("data", (d) => (body += d));
    req.on("end", () => (body.includes('"status"') ? res.end('{"result":{"chain_id":"x"}}') : reply(res)));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}

test("replies that are none", async () => {
  for (const [what, reply, want, word] of [
    ["html", (res) => res.writeHead(502).end("<html>"), "BadReply", "HTTP 502"],
    ["null", (res) => res.end("null"), "BadReply", "no JSON-RPC reply"],
    ["a number", (res) => res.end("5"), "BadReply", "no JSON-RPC reply"],
    ["no result", (res) => res.end("{}"), "BadReply", "no result"],
    ["deep JSON", (res) => res.end("[".repeat(1e6)), "BadReply", "not JSON"],
    ["a redirect", (res) => res.writeHead(307, { location: "http://127.0.0.1:1" }).end(), "BadReply", "HTTP 307"],
    ["cut", (res) => { res.writeHead(200, { "content-length": 100 }); res.write("{"); setImmediate(() => res.destroy()); }, "NodeEnded", "no node answers"],
    ["endless", (res) => {
      const block = Buffer.alloc(4 << 20, " ");
      const more = () => { while (!res.destroyed && res.write(block)); };
      res.on("drain", more);
      more();
    }, "BadReply", "larger than 256 MiB"],
  ]) {
    const { server, url } = await liar(reply);
    const chain = await Sandbox.connect(url);
    await assert.rejects(chain.mine(), kind(want, word), what);
    server.close();
    server.closeAllConnections();
  }
});

/** A WebSocket that receives what the test says. */
function socketOf(script) {
  return class {
    listeners = { open: [], message: [], close: [], error: [] };
    closed = false;
    constructor() {
      setImmediate(() => this.emit("open", {}));
    }
    addEventListener(type, listener) {
      this.listeners[type].push(listener);
    }
    emit(type, event) {
      for (const l of this.listeners[type]) l(event);
    }
    send() {
      setImmediate(() => script((text) => this.emit("message", { data: text }), this));
    }
    close() {
      this.closed = true;
    }
  };
}
const began = '{"id":1,"result":{"cursor":{"block_hash":"h","height":1}}}';

test("a socket with garbage", async () => {
  const { server, url } = await liar((res) => res.end("{}"));
  const chain = await Sandbox.connect(url);
  await assert.rejects(chain.subscribe({ topic: "blocks" }, { webSocket: socketOf((say) => say("\u0000{")) }), kind("BadReply", "not JSON"));
  const s = await chain.subscribe({ topic: "blocks" }, { webSocket: socketOf((say) => {
    say(began);
    for (const text of ["null", "5", "[]", "{}", '{"params":null}', '{"params":{"closed":null,"cursor":{"height":2}}}']) say(text);
    say("<html>");
    say('{"params":{"cursor":{"height":3}}}');
  }) });
  assert.equal((await s.next()).value.cursor.height, 2);
  await assert.rejects(s.next(), kind("BadReply", "<html>"));
  server.close();
});

test("a flood that nobody reads ends the subscription", async () => {
  const { server, url } = await liar((res) => res.end("{}"));
  const chain = await Sandbox.connect(url);
  let socket, sent = 0;
  const s = await chain.subscribe({ topic: "messages" }, { webSocket: socketOf((say, self) => {
    socket = self;
    say(began);
    for (const big = "x".repeat(1 << 20); sent < 1000 && !self.closed; ) say(`{"params":{"cursor":{"height":${++sent}},"big":"${big}"}}`);
  }) });
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(socket.closed && sent < 70, `${sent} messages`);
  for (let height = 1; height <= sent; height++) assert.equal((await s.next()).value.cursor.height, height);
  await assert.rejects(s.next(), (err) => kind("SubscriptionClosed", "wait to be read")(err) && err.reason === "SLOW_READER");
  server.close();
});

test("a flood of small messages takes bounded memory and is read in time", { timeout: 60_000 }, async () => {
  const { server, url } = await liar((res) => res.end("{}"));
  const chain = await Sandbox.connect(url);
  let sent = 0;
  const s = await chain.subscribe({ topic: "blocks" }, { webSocket: socketOf((say, self) => {
    say(began);
    while (!self.closed && sent < 1e6) say(`{"params":{"n":${++sent}}}`);
  }) });
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(sent < 300_000, `${sent} messages`);
  for (let n = 1; n <= sent; n++) assert.equal((await s.next()).value.n, n);
  await assert.rejects(s.next(), kind("SubscriptionClosed", `${sent} messages wait`));
  server.close();
});

test("a subscription that does not begin", { timeout: 10_000 }, async () => {
  const { server, url } = await liar((res) => res.end("{}"));
  const chain = await Sandbox.connect(url);
  for (const [text, want, word] of [
    ['{"id":1,"result":true}', "BadReply", "no cursor"],
    ['{"id":1}', "BadReply", "no cursor"],
    ['{"id":1,"result":{"cursor":5}}', "BadReply", "no cursor"],
    ['{"params":{"closed":{"reason":"DONE"}}}', "SubscriptionClosed", "DONE"],
    ['{"params":{"closed":{"reason":{"x":1}}}}', "SubscriptionClosed", "unknown"],
  ]) {
    await assert.rejects(chain.subscribe({ topic: "blocks" }, { webSocket: socketOf((say) => say(text)) }), kind(want, word), text);
  }
  server.close();
});

test("a foreign program that is called troupe", async () => {
  const dir = mkdtempSync(join(tmpdir(), "foreign-"));
  const foreign = (text) => {
    const file = join(dir, "troupe");
    writeFileSync(file, `#!${process.execPath}\n${text}`);
    chmodSync(file, 0o755);
    return file;
  };
  await assert.rejects(Sandbox.start({ binary: foreign("console.error('usage: troupe [play]'); process.exit(64)") }), kind("StartFailed", "usage: troupe [play]"));
  // it writes without a line break, and ignores that its stdin ends
  const chatty = foreign("const x = 'x'.repeat(1 << 16); setInterval(() => process.stdout.write(x), 1); process.stdin.resume()");
  await assert.rejects(Sandbox.start({ binary: chatty, startTimeout: 2000 }), (err) => {
    kind("StartFailed", "not ready after 2000 ms")(err);
    assert.ok(err.message.length < 20 << 20);
    return true;
  });
});
