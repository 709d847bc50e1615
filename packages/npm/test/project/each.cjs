// What each of the 50 tests with a world of its own does: all of them change the same account, and none sees another.
const assert = require("node:assert/strict");
const { near } = require("@troupe-chain/sandbox");
const { send, transfer } = require("./transactions.cjs");

let alice;

exports.setup = async (chain) => {
  const shared = process.env.TROUPE_SANDBOX_URL;
  assert.equal(shared !== undefined && chain.url.startsWith(shared), process.env.SHARED !== undefined);
  alice = await chain.createAccount("alice.near", { balance: near(1000) });
  await chain.createAccount("bob.near", { balance: near(5) });
};
exports.check = async (world, i) => {
  assert.equal((await world.account("bob.near")).amount, near(5).toString());
  const status = await send(world, alice, "bob.near", [transfer(near(i + 1))]);
  assert.deepEqual(status.status, { SuccessValue: "" });
  assert.equal((await world.account("bob.near")).amount, near(i + 6).toString());
};
