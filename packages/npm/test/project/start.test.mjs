import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { findBinary, Sandbox, SandboxError, Worlds } from "@troupe-chain/sandbox";

const kind = (want, word) => (err) => {
  assert.ok(err instanceof SandboxError, err);
  assert.equal(err.kind, want, err.message);
  assert.ok(err.message.includes(word), err.message);
  return true;
};
const alive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const homes = (dir) => readdirSync(dir).filter((f) => f.startsWith("troupe-dev-"));
const until = async (what, done) => {
  for (const end = Date.now() + 20_000; !done(); await new Promise((r) => setTimeout(r, 20))) {
    if (Date.now() > end) throw new Error(`not in 20 s: ${what}`);
  }
};

test("the binary is that of the platform's package", () => {
  assert.match(findBinary({ PATH: "" }), new RegExp(`@troupe-chain/troupe-${process.platform}-${process.arch}/bin/troupe$`));
  assert.equal(findBinary({ PATH: "", TROUPE_BIN: process.execPath }), process.execPath);
  assert.throws(() => findBinary({ PATH: "", TROUPE_BIN: "/nowhere/troupe" }), kind("NoBinary", "/nowhere/troupe"));
});

test("a platform without a binary: PATH, else NoBinary", () => {
  const real = process.arch;
  Object.defineProperty(process, "arch", { value: "riscv64", configurable: true });
  try {
    assert.throws(() => findBinary({ PATH: "" }), kind("NoBinary", `${process.platform}-riscv64`));
    const dir = mkdtempSync(join(tmpdir(), "path-"));
    symlinkSync(process.execPath, join(dir, "troupe"));
    assert.equal(findBinary({ PATH: `/nowhere:${dir}` }), join(dir, "troupe"));
  } finally {
    Object.defineProperty(process, "arch", { value: real, configurable: true });
  }
});

test("two sandboxes at once, and stop", async () => {
  const temp = mkdtempSync(join(tmpdir(), "homes-"));
  const [a, b] = await Promise.all([1, 2].map(() => Sandbox.start({ env: { TMPDIR: temp } })));
  assert.notEqual(a.url, b.url);
  assert.equal(homes(temp).length, 2);
  await a.setBalance("only-a.near", 1n);
  await assert.rejects(b.account("only-a.near"));
  const joined = await Sandbox.connect(a.url);
  assert.equal((await joined.account("only-a.near")).amount, "1");
  await joined.stop();
  await a.mine();
  const pids = [a.pid, b.pid];
  await Promise.all([a.stop(), b.stop()]);
  await a.stop();
  assert.deepEqual([...pids.map(alive), homes(temp)], [false, false, []]);
  await assert.rejects(a.mine(), kind("NodeEnded", "exit code 0"));
});

test("a fork of another sandbox", async () => {
  const origin = await Sandbox.start({ accounts: 1 });
  await origin.createAccount("alice.near", { balance: 7n });
  await origin.setStorage("alice.near", "key", "value");
  await origin.mine(3); // the state above is final
  const fork = await Sandbox.start({ fork: origin.url });
  assert.equal((await fork.account("alice.near")).amount, "7");
  const alice = await fork.createAccount("alice.near", { balance: 8n });
  const { keys } = await fork.call("query", { request_type: "view_access_key_list", finality: "optimistic", account_id: "alice.near" });
  assert.deepEqual(keys.map((k) => k.public_key), [alice.publicKey]);
  assert.equal((await fork.account("alice.near")).amount, "8");
  assert.equal((await origin.account("alice.near")).amount, "7");
  await fork.stop();
  await origin.stop();
});

test("a port that is in use", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  await assert.rejects(Sandbox.start({ port }), kind("PortTaken", `127.0.0.1:${port}`));
  server.close();
  await once(server, "close");
  const sandbox = await Sandbox.start({ port });
  assert.equal(sandbox.url, `http://127.0.0.1:${port}`);
  await sandbox.stop();
});

test("a start that fails has the node's last lines", async () => {
  await assert.rejects(Sandbox.start({ shards: 0 }), (err) => kind("StartFailed", "--shards is 0")(err) && err.lines.some((l) => l.includes("--shards")));
  await assert.rejects(Sandbox.start({ binary: "/nowhere/troupe" }), kind("StartFailed", "ENOENT"));
  await assert.rejects(Sandbox.start({ binary: process.execPath }), kind("StartFailed", "exit code"));
  await assert.rejects(Sandbox.start({ startTimeout: 0 }), kind("StartFailed", "not ready after 0 ms"));
});

test("a binary that is older than the package", async () => {
  const binary = join(mkdtempSync(join(tmpdir(), "old-")), "troupe");
  for (const line of ["unknown flag: --exit-with-stdin", 'unknown command "dev" for "troupe"']) {
    writeFileSync(binary, `#!/bin/sh\necho 'troupe: ${line}' >&2\nexit 2\n`, { mode: 0o755 });
    await assert.rejects(Sandbox.start({ binary }), kind("StartFailed", `exit code 2; ${binary} is older than this package`));
  }
});

test("a node that is killed", async () => {
  const sandbox = await Sandbox.start();
  await sandbox.mine();
  process.kill(sandbox.pid, "SIGKILL");
  await assert.rejects(async () => { for (;;) await sandbox.mine(); }, kind("NodeEnded", "ended by SIGKILL"));
  await sandbox.stop();
});

test("a setup that fails ends its sandbox", async () => {
  const temp = mkdtempSync(join(tmpdir(), "homes-"));
  const worlds = new Worlds({ env: { TMPDIR: temp }, setup: async () => { throw new Error("of the setup"); } });
  await assert.rejects(worlds.run(() => assert.fail("it ran")), /of the setup/);
  assert.deepEqual(homes(temp), []);
  await worlds.stop();
});

test("output reaches onLine", async () => {
  const lines = [];
  const sandbox = await Sandbox.start({ onLine: (line) => lines.push(line) });
  assert.ok(lines.some((l) => l.includes(sandbox.url)));
  await sandbox.stop();
});

for (const [how, signal] of [["ends by itself without stop", null], ["is killed by SIGKILL", "SIGKILL"], ["is ended by SIGTERM", "SIGTERM"]]) {
  test(`no process and no folder is left when the runner ${how}`, async () => {
    const temp = mkdtempSync(join(tmpdir(), "homes-"));
    const program = `
      import { Sandbox } from "@troupe-chain/sandbox";
      const all = await Promise.all([Sandbox.start(), Sandbox.start()]);
      await all[0].newWorld();
      console.log(all.map((s) => s.pid).join(" "));
      ${signal ? "setInterval(() => {}, 1000);" : ""}`;
    const runner = spawn(process.execPath, ["--input-type=module", "-e", program], { env: { ...process.env, TMPDIR: temp }, stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(runner, "close");
    const [text] = await once(runner.stdout, "data");
    const pids = String(text).trim().split(" ").map(Number);
    assert.equal(pids.length, 2);
    if (signal) {
      assert.deepEqual([...pids.map(alive), homes(temp).length], [true, true, 2]);
      runner.kill(signal);
    }
    await ended;
    await until("both nodes end", () => !pids.some(alive));
    assert.deepEqual(homes(temp), []);
  });
}
