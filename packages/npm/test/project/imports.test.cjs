const assert = require("node:assert/strict");
const { test } = require("node:test");

test("import and require give the same classes", async () => {
  for (const name of ["", "/node-test", "/vitest", "/jest"]) {
    const required = require("@troupe-chain/sandbox" + name);
    const imported = await import("@troupe-chain/sandbox" + name);
    assert.ok(Object.keys(required).length > 0);
    for (const k of Object.keys(required)) assert.equal(imported[k], required[k], k);
  }
  assert.equal(typeof require("@troupe-chain/sandbox/global-setup").default, "function");
  assert.equal((await import("@troupe-chain/sandbox/global-setup")).default.default, require("@troupe-chain/sandbox/global-setup").default);
});
