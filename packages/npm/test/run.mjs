// Tests the packed packages: installs dist/*.tgz with a new HOME in a temporary folder, without a network, and runs
// test/project there: node:test, and vitest, jest, near-api-js and near-kit, which npm gets from its registry. With
// --offline only what needs nothing from a registry. NODE names another node to run the tests with.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const pack = dirname(here);
const offline = process.argv.includes("--offline");
const node = process.env.NODE || process.execPath;
const major = Number(execFileSync(node, ["-p", "process.versions.node"], { encoding: "utf8" }).split(".")[0]);
const cache = execFileSync("npm", ["config", "get", "cache"], { encoding: "utf8" }).trim();
const registry = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim();

const top = mkdtempSync(join(tmpdir(), "troupe-npm-"));
const project = join(top, "project");
const [home, temp] = ["home", "tmp"].map((n) => join(top, n));
for (const d of [home, temp]) mkdirSync(d);
cpSync(join(here, "project"), project, { recursive: true });
const env = {
  PATH: `${dirname(node)}:${process.env.PATH}`, HOME: home, TMPDIR: temp, LANG: "C.UTF-8",
  FT_WASM: join(pack, "..", "..", "internal", "testkit", "contracts", "c", "ft.wasm"),
};
let failed = 0;

function run(what, command, args, more = {}) {
  const begin = performance.now();
  const r = spawnSync(command, args, { cwd: project, env: { ...env, ...more }, encoding: "utf8", timeout: 600_000 });
  const seconds = (performance.now() - begin) / 1000;
  const ok = r.status === 0;
  console.log(`${ok ? "ok  " : "FAIL"} ${what}: ${seconds.toFixed(2)} s`);
  if (!ok) {
    failed++;
    console.log(r.stdout, r.stderr, r.error ?? "");
  }
  return { seconds, ok };
}
const npm = (what, args, more) => run(what, "npm", ["install", "--no-audit", "--no-fund", "--no-package-lock", ...args], { PATH: process.env.PATH, ...more });

try {
  const tarballs = readdirSync(join(pack, "dist")).filter((f) => f.endsWith(".tgz")).map((f) => join(pack, "dist", f));
  if (tarballs.length < 2) throw new Error("packages/npm/dist has no packages: run make packages");
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", private: true }));
  npm("install the packages offline", ["--offline", ...tarballs]);

  run("import and require", node, ["--test", "imports.test.cjs"]);
  run("node:test, 50 tests with a world each", node, ["--test", "worlds.test.mjs"]);
  run("node:test from CommonJS", node, ["--test", "worlds.test.cjs"]);
  run("start, stop, errors, ends of the runner", node, ["--test", "start.test.mjs"]);
  run("replies, sockets and programs that are wrong", node, ["--test", "hostile.test.mjs"]);
  cpSync(join(project, "types.mts"), join(project, "types.cts"));
  run("the methods of /openapi.json", node, ["openapi.mjs"]);
  run("types, and the methods in them", node, [
    join(pack, "node_modules", "typescript", "bin", "tsc"), "--noEmit", "--strict", "--target", "es2022", "--module", "node16",
    "--types", "node", "--typeRoots", join(pack, "node_modules", "@types"), "types.mts", "types.cts", "methods.mts",
  ]);
  if (!offline) {
    const registered = { npm_config_cache: cache, npm_config_registry: registry };
    const tools = ["vitest@2.1.9", "jest@29.7.0", "ws@8", ...(major < 20 ? [] : ["near-kit@0.19.0", "near-api-js@7.3.1"])];
    npm(`install ${tools.join(" ")}`, tools, registered);
    run("every part of the API", node, ["--test", "api.test.mjs"]);
    run("runners that are killed", node, ["--test", "killed.test.mjs"]);
    for (const [name, more] of [["a sandbox per file", {}], ["one sandbox by the global setup", { SHARED: "1" }]]) {
      run(`vitest, 60 tests with a world each, ${name}`, node, ["node_modules/vitest/vitest.mjs", "run"], more);
      run(`jest, 50 tests with a world each, ${name}`, node, ["node_modules/jest/bin/jest.js"], more);
    }
    // the examples of README.md, each a file
    const readme = readFileSync(join(pack, "README.md"), "utf8");
    for (const [, name, text] of readme.matchAll(/<!-- file (\S+) -->\n```\w+\n([\s\S]*?)```/g)) {
      writeFileSync(join(project, name), text);
      if (major < 20 && /from "near-(kit|api-js)"/.test(text)) continue; // they need Node 20
      const args = name.endsWith(".vitest.mjs") ? ["node_modules/vitest/vitest.mjs", "run", name]
        : name.endsWith(".jest.cjs") ? ["node_modules/jest/bin/jest.js", name]
          : name.includes(".test.") ? ["--test", name] : [name];
      run(`README ${name}`, node, args);
    }
  }
  if (process.platform === "linux") {
    const running = readdirSync("/proc").filter((pid) => {
      try {
        return readlinkSync(`/proc/${pid}/exe`).startsWith(project);
      } catch {
        return false; // no process, one of another user, or one that has ended
      }
    });
    if (running.length) throw new Error(`these processes of troupe are left: ${running}`);
  }
  const left = readdirSync(temp).filter((f) => f.startsWith("troupe-dev-"));
  if (left.length) throw new Error(`left in the temporary folder: ${left}`);
} finally {
  rmSync(top, { recursive: true, force: true });
}
console.log(failed ? `${failed} failed` : `all passed with Node ${major}`);
process.exitCode = failed ? 1 : 0;
