// Runners that are killed while a test runs. Their workers are processes that go on; the sandboxes must end.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const alive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const until = async (what, done) => {
  for (const end = Date.now() + 60_000; !done(); await new Promise((r) => setTimeout(r, 50))) {
    if (Date.now() > end) throw new Error(`not in 60 s: ${what}`);
  }
};
// writes the ids of its own process and of its sandbox, and does not end
const body = `async (sandbox) => {
  fs.writeFileSync("ids-" + process.pid, process.pid + " " + sandbox.pid + " .");
  await new Promise((resolve) => setTimeout(resolve, 600_000));
}`;
const esm = 'import * as fs from "node:fs"; import { Worlds } from "@troupe-chain/sandbox"; const worlds = new Worlds();\n';
const runners = {
  "node --test": {
    file: ["test.mjs", `import { test } from "node:test"; ${esm} test("hangs", async () => (${body})(await worlds.sandbox()));`],
    args: ["--test", "1.test.mjs", "2.test.mjs"],
  },
  vitest: {
    file: ["vitest.mjs", `import { test } from "vitest"; ${esm} test("hangs", async () => (${body})(await worlds.sandbox()), 600_000);`],
    config: ["vitest.config.mjs", 'export default { test: { include: ["*.vitest.mjs"], pool: "forks", minWorkers: 2, maxWorkers: 2 } };'],
    args: ["../node_modules/vitest/vitest.mjs", "run"],
  },
  jest: {
    file: ["jest.cjs", `const fs = require("node:fs"); const { Worlds } = require("@troupe-chain/sandbox"); const worlds = new Worlds();
test("hangs", async () => { jest.useFakeTimers(); const s = await worlds.sandbox(); jest.useRealTimers(); await (${body})(s); }, 600_000);`],
    config: ["jest.config.cjs", 'module.exports = { testMatch: ["**/*.jest.cjs"], moduleFileExtensions: ["cjs", "js"], transform: {}, maxWorkers: 2 };'],
    args: ["../node_modules/jest/bin/jest.js"],
  },
};

for (const [name, { file, config, args }] of Object.entries(runners)) {
  test(`no sandbox is left when ${name} is killed`, async () => {
    const dir = join(process.cwd(), `killed-${name.slice(0, 4)}`);
    mkdirSync(dir);
    for (const [path, text] of [[`1.${file[0]}`, file[1]], [`2.${file[0]}`, file[1]], ...(config ? [config] : [])]) writeFileSync(join(dir, path), text);
    const temp = join(dir, "temp");
    mkdirSync(temp);
    const env = { ...process.env, TMPDIR: temp };
    delete env.NODE_TEST_CONTEXT; // it would run its files in its own process
    const runner = spawn(process.execPath, args, { cwd: dir, env, detached: true, stdio: ["ignore", "inherit", "inherit"] });
    const ended = once(runner, "close");
    const ready = () => readdirSync(dir).filter((f) => f.startsWith("ids-") && readFileSync(join(dir, f), "utf8").endsWith("."));
    const homes = () => readdirSync(temp).filter((f) => f.startsWith("troupe-dev-"));
    // a machine with one core runs one file at a time, and another worker may be about to start
    await until("a test runs", () => ready().length > 0 || runner.exitCode !== null);
    assert.equal(runner.exitCode, null, `${name} ended`);
    const pids = ready().map((f) => Number(readFileSync(join(dir, f), "utf8").split(" ")[1]));
    assert.ok(pids.every(alive) && homes().length > 0);
    runner.kill("SIGKILL");
    try {
      for (let i = 0; i < 3; i++, await new Promise((r) => setTimeout(r, 700))) {
        await until("the sandboxes end", () => !pids.some(alive) && homes().length === 0);
      }
    } finally {
      try {
        process.kill(-runner.pid, "SIGKILL"); // its workers
      } catch (err) {
        assert.equal(err.code, "ESRCH"); // they have ended
      }
    }
    await ended;
    rmSync(dir, { recursive: true });
  });
}
