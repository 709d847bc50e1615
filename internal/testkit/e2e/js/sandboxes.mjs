// The packages that start a sandbox binary, with this node in its place: near-sandbox 0.3, near-kit's Sandbox and
// near-workspaces 5 (which brings near-api-js 5, the older generation). The environment names the binary:
// NEAR_SANDBOX_BIN_PATH, a file, and for near-workspaces NEAR_SANDBOX_BINARY_PATH too, a folder with near-sandbox in it.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions, nearToYocto } from "near-api-js";
import { DEFAULT_PRIVATE_KEY, DEFAULT_PUBLIC_KEY, Sandbox } from "near-sandbox";
import { Near } from "near-kit";
import { Sandbox as KitSandbox } from "near-kit/sandbox";
import { call, done, equal, need, ok, step } from "./check.mjs";
import { metadata, storagePrice, wasm } from "./contracts.mjs";

need("NEAR_SANDBOX_BIN_PATH");
need("NEAR_SANDBOX_BINARY_PATH");
// reachable tells whether a node still answers.
const reachable = (url) => fetch(`${url}/status`).then(() => true, () => false);

await step("near-sandbox: start, use the root account, stop", async () => {
  const extra = KeyPair.fromRandom("ed25519");
  const sandbox = await Sandbox.start({
    config: {
      additionalGenesis: { epoch_length: 250 },
      additionalAccounts: [{ accountId: "extra.near", publicKey: extra.getPublicKey().toString(), privateKey: extra.toString(), balance: nearToYocto("1000") }],
      additionalConfig: { gc_num_epochs_to_keep: 7 },
    },
  });
  try {
    const provider = new JsonRpcProvider({ url: sandbox.rpcUrl });
    const view = await provider.viewAccount({ accountId: "sandbox" });
    equal(view.amount, 10_000_000_000_000_000_000_000_000_000n, "amount");
    equal((await provider.viewAccessKeyList({ accountId: "sandbox" })).keys.map((k) => k.public_key), [DEFAULT_PUBLIC_KEY], "keys");
    equal((await provider.query({ request_type: "view_account", finality: "final", account_id: "extra.near" })).amount, nearToYocto("1000").toString(), "extra account");
    equal((await provider.experimental_protocolConfig({ finality: "final" })).epoch_length, 250, "epoch length");
    const root = new Account("sandbox", provider, KeyPairSigner.fromSecretKey(DEFAULT_PRIVATE_KEY));
    const pair = KeyPair.fromRandom("ed25519");
    await root.createSubAccount({ accountOrPrefix: "alice", publicKey: pair.getPublicKey(), nearToTransfer: nearToYocto("10") });
    const alice = new Account("alice.sandbox", provider, KeyPairSigner.fromSecretKey(pair.toString()));
    for (let i = 0; i < 5; i++) await alice.transfer({ receiverId: "extra.near", amount: nearToYocto("1") });
    await alice.signAndSendTransaction({ receiverId: "alice.sandbox", actions: [actions.deleteAccount("sandbox")], waitUntil: "FINAL" });
    // near-workspaces' 09 wants a final block of 9901 to 10000 behind this: that of the end of an epoch at 10000, which the jump goes on from.
    equal((await call("sandbox_fast_forward", { delta_height: 10_000 }, sandbox.rpcUrl)).body.result, {}, "fast forward");
    equal(Math.ceil((await provider.viewBlock({ finality: "final" })).header.height / 100) * 100, 10_000, "final height, rounded up");
  } finally {
    const began = performance.now();
    await sandbox.tearDown();
    ok(performance.now() - began < 2000, "it stops at once");
  }
  ok(!(await reachable(sandbox.rpcUrl)), "the port is free");
  ok(!existsSync(sandbox.homeDir), "the folder is gone");
});

await step("near-sandbox: dump, and start from that", async () => {
  const pair = KeyPair.fromRandom("ed25519");
  const first = await Sandbox.start({});
  let dumped;
  try {
    const provider = new JsonRpcProvider({ url: first.rpcUrl });
    const root = new Account("sandbox", provider, KeyPairSigner.fromSecretKey(DEFAULT_PRIVATE_KEY));
    await root.createSubAccount({ accountOrPrefix: "alice", publicKey: pair.getPublicKey(), nearToTransfer: nearToYocto("10") });
    const alice = new Account("alice.sandbox", provider, KeyPairSigner.fromSecretKey(pair.toString()));
    await alice.deployContract(wasm("ft"));
    await alice.callFunction({ contractId: "alice.sandbox", methodName: "new", args: { owner_id: "alice.sandbox", total_supply: "77", metadata }, gas: 50_000_000_000_000n, deposit: 0n, waitUntil: "FINAL" });
    dumped = await first.dump();
    ok(dumped.genesis.records.some((r) => r.Contract?.account_id === "alice.sandbox"), "the code is among the records");
  } finally {
    await first.tearDown();
  }
  const second = await Sandbox.start({ config: { additionalGenesis: dumped.genesis, nodeKey: dumped.nodeKey, validatorKey: dumped.validatorKey } });
  try {
    const provider = new JsonRpcProvider({ url: second.rpcUrl });
    equal(await provider.callFunction({ contractId: "alice.sandbox", method: "ft_total_supply", args: {} }), "77", "supply");
    const alice = new Account("alice.sandbox", provider, KeyPairSigner.fromSecretKey(pair.toString()));
    await alice.callFunction({ contractId: "alice.sandbox", methodName: "ft_mint", args: { account_id: "alice.sandbox", amount: "3" }, gas: 50_000_000_000_000n, deposit: 1n, waitUntil: "FINAL" });
    equal(await provider.callFunction({ contractId: "alice.sandbox", method: "ft_total_supply", args: {} }), "80", "supply");
  } finally {
    await second.tearDown();
  }
});

await step("near-sandbox: two at once", async () => {
  const both = await Promise.all([Sandbox.start({}), Sandbox.start({})]);
  for (const sandbox of both) await new JsonRpcProvider({ url: sandbox.rpcUrl }).viewAccount({ accountId: "sandbox" });
  for (const sandbox of both) await sandbox.tearDown();
});

await step("near-kit: its sandbox, transfers, restart", async () => {
  const sandbox = await KitSandbox.start();
  try {
    const near = new Near({ network: sandbox });
    const { id } = sandbox.rootAccount;
    await near.transaction(id).createAccount(`alice.${id}`).transfer(`alice.${id}`, "5 NEAR").send();
    ok(await near.accountExists(`alice.${id}`, { finality: "optimistic" }), "it exists");
    await sandbox.restart(); // without its data folder: a new chain of the same genesis
    ok(!(await near.accountExists(`alice.${id}`, { finality: "optimistic" })), "a new chain");
    await sandbox.patchState([
      { Account: { account_id: `bob.${id}`, account: { amount: "7000000000000000000000000", locked: "0", code_hash: "11111111111111111111111111111111", storage_usage: 182 } } },
      { Data: { account_id: id, data_key: "YQ==", value: "Yg==" } },
    ]);
    ok(await near.accountExists(`bob.${id}`, { finality: "optimistic" }), "patched");
    const height = async () => (await near.getStatus()).sync_info.latest_block_height;
    const before = await height();
    await sandbox.fastForward(100_000);
    ok((await height()) >= before + 100_000, "heights were passed over");

    const amount = async (account) => (await near.rpc.getAccount(account, { finality: "optimistic" })).amount;
    const snapshot = await sandbox.dumpState();
    ok(snapshot.records.some((r) => r.Data?.account_id === id && r.Data.data_key === "YQ=="), "what was patched is dumped");
    await near.transaction(id).transfer(`bob.${id}`, "1 NEAR").send({ waitUntil: "FINAL" });
    equal(await amount(`bob.${id}`), "8000000000000000000000000", "before it is restored");
    await sandbox.restoreState(snapshot);
    equal(await amount(`bob.${id}`), "7000000000000000000000000", "restored");
    const path = await sandbox.saveSnapshot();
    await near.transaction(id).transfer(`bob.${id}`, "2 NEAR").send({ waitUntil: "FINAL" });
    await sandbox.restart(await sandbox.loadSnapshot(path));
    equal(await amount(`bob.${id}`), "7000000000000000000000000", "restarted with what was saved");
  } finally {
    await sandbox.stop();
  }
  ok(!(await reachable(sandbox.rpcUrl)), "the port is free");
});

await step("near-workspaces: accounts, transfers, keys", async () => {
  const { Worker } = createRequire(import.meta.url)("near-workspaces");
  const worker = await Worker.init();
  try {
    const { rootAccount: root } = worker;
    const alice = await root.createSubAccount("alice", { initialBalance: 3_000000000000000000000000n });
    const bob = await root.createSubAccount("bob");
    ok(await alice.exists(), "alice exists");
    const before = (await bob.balance()).total;
    await alice.transfer(bob, 1_000000000000000000000000n);
    equal(BigInt((await bob.balance()).total) - BigInt(before), 1_000000000000000000000000n, "received");
    equal((await alice.viewAccessKeys(alice.accountId)).keys.length, 1, "keys");
    const dev = await root.devCreateAccount();
    ok(await dev.exists(), "a dev account");
    const result = await alice.delete(root.accountId);
    ok(result.succeeded, "deleted");

    const token = await root.devDeploy(wasm("ft"), { method: "new", args: { owner_id: root.accountId, total_supply: "1000", metadata } });
    equal(await token.view("ft_total_supply"), "1000", "supply");
    await bob.call(token, "storage_deposit", { account_id: bob.accountId }, { attachedDeposit: `${storagePrice}` });
    await root.call(token, "ft_mint", { account_id: bob.accountId, amount: "5" }, { attachedDeposit: "1" });
    equal(await token.view("ft_balance_of", { account_id: bob.accountId }), "5", "minted");
    const refused = await bob.callRaw(token, "ft_transfer", { receiver_id: "nobody.near", amount: "1" }, { attachedDeposit: "1" });
    ok(refused.failed, "a call that fails");
    ok((await token.viewStateRaw()).length > 0, "state");

    // Its 07, 09 and the record builder: data, accounts, keys and code by patches, each sent twice by the library.
    await bob.patchState("key", "value");
    equal((await bob.viewStateRaw("key")).map(({ key, value }) => [key, value]), [["a2V5", "dmFsdWU="]], "patched data");
    await bob.updateAccount({ amount: "9000000000000000000000000" });
    equal((await bob.accountView()).amount, "9000000000000000000000000", "patched amount");
    const pair = KeyPair.fromRandom("ed25519");
    await bob.updateAccessKey(pair.getPublicKey().toString(), { nonce: 10, permission: "FullAccess" });
    equal((await bob.viewAccessKey(bob.accountId, pair.getPublicKey().toString())).nonce, 10, "patched key");
    await token.updateContract(Buffer.from(wasm("ft"))); // it takes no other code than that of the account's hash
    equal(await token.view("ft_total_supply"), "1005", "supply behind patched code");
    const from = (await worker.provider.block({ finality: "optimistic" })).header.height;
    await worker.provider.fastForward(10_000);
    ok((await worker.provider.block({ finality: "optimistic" })).header.height >= from + 10_000, "heights were passed over");
  } finally {
    await worker.tearDown();
  }
});

done();
