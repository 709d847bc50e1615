import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { keyPairFromSecret, keyPairFromSeed, near, RpcError, Sandbox, SandboxError } from "@troupe-chain/sandbox";
import txs from "./transactions.cjs";

const { call, send, signed, transfer } = txs;
const wasm = readFileSync(process.env.FT_WASM);
let sandbox, alice, token;
before(async () => {
  sandbox = await Sandbox.start({ accounts: 2, balance: 50 });
});
after(() => sandbox.stop());

const refused = (cause, word) => (err) => err instanceof RpcError && err.cause.name === cause && String(err.message).includes(word);

test("accounts and keys", async () => {
  assert.equal(sandbox.accounts.length, 2);
  assert.equal((await sandbox.account("dev1.near")).amount, near(50).toString());
  await send(sandbox, sandbox.accounts[0], "dev1.near", [transfer(near("0.5"))]);
  assert.equal((await sandbox.account("dev1.near")).amount, near("50.5").toString());
  await send(sandbox, sandbox.root, "dev1.near", [transfer(1n)]);
  alice = await sandbox.createAccount("alice.near", { balance: near(10) });
  assert.equal((await sandbox.account("alice.near")).amount, near(10).toString());
  const status = await send(sandbox, alice, "dev0.near", [transfer(near(1))]);
  assert.deepEqual(status.status, { SuccessValue: "" });
  assert.deepEqual(keyPairFromSecret(alice.secretKey), { secretKey: alice.secretKey, publicKey: alice.publicKey });
  const given = await sandbox.createAccount("given.near", { secretKey: keyPairFromSeed("given").secretKey });
  assert.equal(given.publicKey, keyPairFromSeed("given").publicKey);
  // the key that nearcore derives from "near"
  assert.equal(keyPairFromSeed("near").publicKey, "ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c");
});

test("patches", async () => {
  await sandbox.setBalance("alice.near", near(77));
  assert.equal((await sandbox.account("alice.near")).amount, near(77).toString());
  const key = keyPairFromSeed("second");
  await sandbox.setKey("alice.near", key.publicKey, 5);
  await send(sandbox, { accountId: "alice.near", ...key }, "dev0.near", [transfer(1n)], { nonce: 6 });
  await sandbox.removeKey("alice.near", key.publicKey);
  await assert.rejects(sandbox.call("EXPERIMENTAL_view_access_key", { finality: "optimistic", account_id: "alice.near", public_key: key.publicKey }), refused("UNKNOWN_ACCESS_KEY", ""));
  await sandbox.setStorage("alice.near", "key", "value");
  const state = () => sandbox.call("query", { request_type: "view_state", finality: "optimistic", account_id: "alice.near", prefix_base64: "" });
  assert.deepEqual((await state()).values, [{ key: "a2V5", value: "dmFsdWU=" }]);
  await sandbox.patchState([{ Data: { account_id: "alice.near", data_key: "a2V5", value: null } }]);
  assert.deepEqual((await state()).values, []);
  await assert.rejects(sandbox.patchState([{ Data: { account_id: "nobody.near", data_key: "a2V5", value: "" } }]), refused("CANNOT_PATCH", "nobody.near"));
  const dump = await sandbox.dumpState(["alice.near"]);
  const { amount } = dump.find((r) => r.Account).Account.account;
  await sandbox.setBalance("alice.near", 1n);
  assert.equal((await sandbox.account("alice.near")).amount, "1");
  await sandbox.loadState(dump);
  assert.equal((await sandbox.account("alice.near")).amount, amount);
});

test("contract: code, call, view, deal", async () => {
  token = await sandbox.createAccount("token.near", { code: wasm });
  const metadata = { spec: "ft-1.0.0", name: "T", symbol: "T", icon: null, reference: null, reference_hash: null, decimals: 6 };
  const made = await send(sandbox, token, "token.near", [call("new", { owner_id: "token.near", total_supply: "10", metadata })]);
  assert.deepEqual(made.status, { SuccessValue: "" });
  await send(sandbox, alice, "token.near", [call("storage_deposit", {}, 1250000000000000000000n)]);
  await sandbox.deal("token.near", "alice.near", 1234n);
  assert.equal(await sandbox.view("token.near", "ft_balance_of", { account_id: "alice.near" }), "1234");
  await assert.rejects(sandbox.view("token.near", "no_such_method"), refused("CONTRACT_EXECUTION_ERROR", "MethodNotFound"));
});

test("createAccount replaces an account", async () => {
  const old = await sandbox.createAccount("again.near", { code: wasm });
  await sandbox.setStorage("again.near", "key", "value");
  const again = await sandbox.createAccount("again.near", { balance: 5n });
  const { amount, code_hash, storage_usage } = await sandbox.account("again.near");
  assert.deepEqual({ amount, code_hash, storage_usage }, { amount: "5", code_hash: "1".repeat(32), storage_usage: 182 });
  const { keys } = await sandbox.call("query", { request_type: "view_access_key_list", finality: "optimistic", account_id: "again.near" });
  assert.deepEqual(keys.map((k) => k.public_key), [again.publicKey]);
  assert.notEqual(old.publicKey, again.publicKey);
  const state = await sandbox.call("query", { request_type: "view_state", finality: "optimistic", account_id: "again.near", prefix_base64: "" });
  assert.deepEqual(state.values, []);
});

test("trace, simulate, profile, dump and replay", async () => {
  const tx = await signed(sandbox, alice, "token.near", [call("ft_transfer", { receiver_id: "token.near", amount: "4" }, 1n)]);
  const simulated = await sandbox.simulate({ signed_tx_base64: tx.toString("base64") });
  assert.equal(simulated.simulation.complete, true);
  assert.deepEqual(simulated.status, { SuccessValue: "" });
  assert.equal(await sandbox.view("token.near", "ft_balance_of", { account_id: "alice.near" }), "1234");
  let hash;
  const profile = await sandbox.profile(async () => {
    hash = (await sandbox.send(tx, "FINAL")).transaction.hash;
  });
  assert.equal(profile.transactions, 1);
  assert.ok(profile.functions.some((f) => f.account_id === "token.near" && f.gas > 0), JSON.stringify(profile));
  const trace = await sandbox.trace({ tx_hash: hash }, { profile: true });
  assert.equal(trace.simulated, false);
  assert.ok(trace.outcomes.some((o) => o.calls.some((c) => c.method_name === "ft_transfer" && c.host_calls.some((h) => h.name === "storage_write"))));
  assert.ok(trace.profile, Object.keys(trace).join());
  const dump = await sandbox.dumpTransaction(hash);
  const world = await sandbox.newWorld();
  const replay = await world.replay(dump, { replace: true });
  assert.equal(replay.same, true, replay.differs);
  await world.end();
  assert.deepEqual((await sandbox.call("sandbox_tags", null)), []);
});

test("impersonation", async () => {
  const unsigned = await signed(sandbox, alice, "dev0.near", [transfer(1n)], { unsigned: true });
  await assert.rejects(sandbox.send(unsigned), refused("INVALID_TRANSACTION", "InvalidSignature"));
  await sandbox.impersonate(["alice.near"]);
  assert.deepEqual((await sandbox.send(unsigned)).status, { SuccessValue: "" });
  await sandbox.impersonate([]);
  await assert.rejects(send(sandbox, alice, "dev0.near", [transfer(1n)], { unsigned: true }), refused("INVALID_TRANSACTION", ""));
});

test("blocks, snapshots, clock, epochs", async () => {
  const world = await sandbox.newWorld();
  const snapshot = await world.snapshot("ready");
  assert.equal(snapshot.id, "ready");
  const block = await world.mine(3);
  assert.equal(block.height, snapshot.height + 3);
  await world.setBalance("alice.near", 5n * 10n ** 24n);
  assert.equal((await world.revert(snapshot)).height, snapshot.height);
  assert.notEqual((await world.account("alice.near")).amount, near(5).toString());
  assert.deepEqual((await world.snapshots()).map((s) => s.id), ["ready"]);
  await world.dropSnapshot("ready");
  await assert.rejects(world.revert("ready"), refused("SANDBOX_REFUSED", 'no snapshot "ready"'));
  const before = BigInt((await world.clock()).timestamp_nanosec);
  const clock = await world.advanceTime(86_400_000);
  assert.ok(BigInt(clock.timestamp_nanosec) - before >= 86_400n * 10n ** 9n);
  assert.equal((await world.clock({ frozen: true })).frozen, true);
  await world.fastForward(1000);
  const head = (await world.call("block", { finality: "optimistic" })).header;
  assert.ok(head.height >= snapshot.height + 1000, `${head.height}`);
  const next = await world.nextEpoch();
  assert.ok(next.height > head.height);
  assert.equal((await world.production({ mode: "manual" })).mode, "manual");
  await world.end();
});

test("worlds", async () => {
  const snapshot = await sandbox.snapshot();
  const a = await sandbox.newWorld({ snapshot });
  const b = await a.newWorld({ quiet: false });
  assert.equal(b.info.parent, a.id);
  assert.notEqual(a.url, b.url);
  await a.setBalance("dev0.near", near(1));
  assert.notEqual((await sandbox.account("dev0.near")).amount, near(1).toString());
  assert.equal((await sandbox.worlds()).length, 2);
  await a.end();
  await a.end();
  await b.end();
  for (const w of [a, b]) {
    await assert.rejects(w.mine(), (err) => err instanceof SandboxError && err.kind === "WorldEnded" && err.message.includes(w.url));
  }
  assert.deepEqual(await sandbox.worlds(), []);
});

test("typed errors of the node", async () => {
  await assert.rejects(sandbox.account("missing.near"), (err) => {
    assert.ok(err instanceof RpcError && err instanceof Error);
    assert.equal(err.cause.name, "UNKNOWN_ACCOUNT");
    assert.equal(err.cause.info.requested_account_id, "missing.near");
    assert.equal(err.type, "HANDLER_ERROR");
    assert.equal(err.method, "query");
    return true;
  });
  await assert.rejects(sandbox.call("no_such_method"), refused("METHOD_NOT_FOUND", "no_such_method"));
});

test("subscriptions", async () => {
  const options = globalThis.WebSocket ? {} : { webSocket: (await import("ws")).default };
  if (!globalThis.WebSocket) {
    await assert.rejects(sandbox.subscribe({ topic: "blocks" }), (err) => err.kind === "NoWebSocket" && err.message.includes("Node 22"));
  }
  const world = await sandbox.newWorld();
  const blocks = await world.subscribe({ topic: "blocks", finality: "optimistic" }, options);
  const transactions = await world.subscribe({ topic: "transactions", account_id: "alice.near" }, options);
  const made = await world.mine(2);
  const heights = [];
  for await (const m of blocks) {
    heights.push(m.block.header.height);
    if (m.block.header.height === made.height) break;
  }
  assert.ok(heights.length >= 2 && heights.at(-1) === made.height, heights.join());
  assert.deepEqual(await blocks.next(), { done: true, value: undefined });
  const status = await send(world, alice, "dev0.near", [transfer(1n)]);
  const reached = []; // the account's earlier transactions reach further statuses too
  for (;;) {
    const { transaction } = (await transactions.next()).value;
    if (transaction?.tx_hash !== status.transaction.hash) continue;
    reached.push(transaction.final_execution_status);
    if (reached.includes("EXECUTED_OPTIMISTIC")) break;
  }
  await assert.rejects(world.subscribe({ topic: "weather" }, options), (err) => err instanceof RpcError);
  const rest = assert.rejects(
    async () => { for await (const _ of transactions); },
    (err) => err instanceof SandboxError && err.kind === "SubscriptionClosed" && err.reason !== undefined,
  );
  await world.end();
  await rest;
});
