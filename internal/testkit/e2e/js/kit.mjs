// near-kit, unmodified: its schemas check the replies, and it has what near-api-js lacks: gas keys, transactions of version 1
// with strict nonces, delegate actions of version 2, state init of deterministic accounts, ML-DSA keys.
import { Near, generateKey } from "near-kit";
import { call, done, equal, ok, step, throws, url, validatorKey } from "./check.mjs";

const key = validatorKey();
const root = key.account_id;
const near = new Near({ network: { rpcUrl: url, networkId: "localnet" }, privateKey: key.secret_key, defaultSignerId: root, defaultWaitUntil: "FINAL", retryConfig: { maxRetries: 0, initialDelayMs: 1 } });
const alice = `kit.${root}`;
const pair = generateKey();
// as makes a client that signs for an account.
const as = (id, secretKey) => new Near({ network: { rpcUrl: url, networkId: "localnet" }, privateKey: secretKey, defaultSignerId: id, defaultWaitUntil: "FINAL" });
const aliceNear = as(alice, pair.secretKey);
const send = (builder) => builder.send({ waitUntil: "FINAL" });
const optimistic = { finality: "optimistic" };

await step("status, block, gas price, genesis config", async () => {
  const status = await near.getStatus();
  ok(status.sync_info.latest_block_height >= 0, "height");
  const block = await near.rpc.getBlock({ finality: "final" });
  ok(block.header.height >= 0, "block");
  ok(BigInt((await near.rpc.getGasPrice()).gas_price) > 0n, "gas price");
  ok((await near.rpc.genesisConfig()).chain_id.length > 0, "chain id");
});
await step("create an account with a key and money", async () => {
  const result = await send(near.transaction(root).createAccount(alice).transfer(alice, "100 NEAR").addKey(pair.publicKey.toString(), { type: "fullAccess" }));
  ok(result.status.SuccessValue === "", JSON.stringify(result.status));
  ok(await near.accountExists(alice), "it exists");
  ok(!(await near.accountExists(`nobody.${root}`)), "another does not");
  equal((await near.getAccessKeys(alice)).keys.length, 1, "keys");
  equal((await near.getAccessKey(alice, pair.publicKey.toString())).permission, "FullAccess", "permission");
  equal(await near.getAccessKey(alice, generateKey().publicKey.toString()), null, "unknown key");
});
await step("send and account view", async () => {
  const before = BigInt((await near.rpc.getAccount(alice, optimistic)).amount);
  await near.send(alice, "1.5 NEAR");
  equal(BigInt((await near.rpc.getAccount(alice, optimistic)).amount) - before, 1_500000000000000000000000n, "received");
  ok((await near.getAccount(alice)).balance, "balance");
  ok((await near.getBalance(alice)).length > 0, "balance text");
});
await step("transaction status at each level", async () => {
  const { transaction } = await near.send(alice, "1 yocto");
  for (const level of ["INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"])
    equal((await near.getTransactionStatus(transaction.hash, root, level)).final_execution_status, "FINAL", level);
});
await step("each level of send, as of the first block that satisfies it", async () => {
  // A transfer has run before its block is final, so INCLUDED_FINAL is passed over, as in neard.
  const levels = { NONE: "NONE", INCLUDED: "INCLUDED", EXECUTED_OPTIMISTIC: "EXECUTED_OPTIMISTIC", INCLUDED_FINAL: "EXECUTED", EXECUTED: "EXECUTED", FINAL: "FINAL" };
  for (const [level, want] of Object.entries(levels))
    for (let i = 0; i < 15; i++)
      equal((await aliceNear.transaction(alice).transfer(root, "1 yocto").send({ waitUntil: level })).final_execution_status, want, `${level}, ${i}`);
});
await step("what has run is found executed, and final once somebody waits for that", async () => {
  // As near-kit's tests/integration/tx-status.test.ts has it.
  const id = `early.${root}`;
  const { transaction } = await near.transaction(root).createAccount(id).transfer(id, "3 NEAR").addKey(generateKey().publicKey.toString(), { type: "fullAccess" }).send({ waitUntil: "EXECUTED_OPTIMISTIC" });
  const early = await near.getTransactionStatus(transaction.hash, root);
  equal(early.final_execution_status, "EXECUTED_OPTIMISTIC", "at once");
  ok(early.receipts.length > 0, "receipts");
  equal((await near.getTransactionStatus(transaction.hash, root, "FINAL")).final_execution_status, "FINAL", "later");
});
await step("function-call key", async () => {
  const other = generateKey();
  await send(aliceNear.transaction(alice).addKey(other.publicKey.toString(), { type: "functionCall", receiverId: root, methodNames: ["m"], allowance: "0.25 NEAR" }));
  ok((await near.getAccessKey(alice, other.publicKey.toString(), optimistic)).permission.FunctionCall, "permission");
  await send(aliceNear.transaction(alice).deleteKey(alice, other.publicKey.toString()));
  equal(await near.getAccessKey(alice, other.publicKey.toString(), optimistic), null, "deleted");
});
await step("stake", async () => {
  // 50,000,002: above what other scripts on this chain stake with the same key.
  await send(near.transaction(root).stake(key.public_key, "50000002 NEAR"));
});
await step("gas key: add, fund, transact at two indices, withdraw, delete", async () => {
  const gas = generateKey();
  const text = gas.publicKey.toString();
  await send(aliceNear.transaction(alice).addKey(text, { type: "gasKeyFullAccess", numNonces: 3 }));
  await send(aliceNear.transaction(alice).transferToGasKey(text, "2 NEAR"));
  equal((await near.rpc.getGasKeyNonces(alice, text, optimistic)).nonces.length, 3, "nonces");
  const before = BigInt((await near.rpc.getAccount(alice, optimistic)).amount);
  for (const index of [0, 2, 0]) {
    const result = await send(aliceNear.transaction(alice).signWith(gas.secretKey).useGasKey(index).transfer(root, "1 yocto"));
    equal(result.final_execution_status, "FINAL", `index ${index}`);
    // near-kit's schema drops the index from the view.
    const { body } = await call("tx", { tx_hash: result.transaction.hash, sender_account_id: alice });
    equal(body.result.transaction.nonce_index, index, "index of the view");
  }
  equal(before - BigInt((await near.rpc.getAccount(alice, optimistic)).amount), 3n, "the account paid no gas");
  const { permission } = await near.getAccessKey(alice, text, optimistic);
  ok(BigInt(permission.GasKeyFullAccess.balance) < 2_000000000000000000000000n, "the key paid it");
  // Deleting burns at most 1 NEAR, so the rest comes back first.
  await send(aliceNear.transaction(alice).withdrawFromGasKey(text, "1.5 NEAR"));
  await send(aliceNear.transaction(alice).deleteKey(alice, text));
});
await step("strict nonce", async () => {
  const result = await send(aliceNear.transaction(alice).strictNonceMode().transfer(root, "1 yocto"));
  const { body } = await call("tx", { tx_hash: result.transaction.hash, sender_account_id: alice });
  equal(body.result.transaction.nonce_mode, "strict", "mode of the view");
});
await step("a delegate action through a relayer; of version 2 none since protocol 87", async () => {
  // An account of its own: a delegate action moves the key's nonce, which near-kit remembers.
  const id = `delegate.${root}`;
  const own = generateKey();
  await send(near.transaction(root).createAccount(id).transfer(id, "1 NEAR").addKey(own.publicKey.toString(), { type: "fullAccess" }));
  const ownNear = as(id, own.secretKey);
  const one = await ownNear.transaction(id).transfer(root, "1 yocto").delegate();
  const result = await send(near.transaction(root).signedDelegateAction(one.signedDelegateAction));
  equal(result.final_execution_status, "FINAL", "status");
  ok(result.status.SuccessValue === "", JSON.stringify(result.status));
  const two = await ownNear.transaction(id).transfer(root, "1 yocto").delegateV2();
  const error = await throws("InvalidTransactionError", () => send(near.transaction(root).signedDelegateActionV2(two.signedDelegateAction)));
  equal(error.details, { InvalidTxError: { ActionsValidation: { RemovedProtocolFeature: { protocol_feature: "DelegateV2", version: 88 } } } }, "details");
});
const code = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
await step("deploy, publish, use published code, state init", async () => {
  await send(aliceNear.transaction(alice).deployContract(alice, code));
  await near.getContractCode(alice, optimistic);
  await send(aliceNear.transaction(alice).publishContract(code, { identifiedBy: "account" }));
  ok(await near.globalContractExists({ accountId: alice }, optimistic), "published");
  await send(aliceNear.transaction(alice).deployFromPublished({ accountId: alice }));
  const data = new Map([[new Uint8Array([1]), new Uint8Array([2, 3])]]);
  const made = await send(aliceNear.transaction(alice).stateInit({ code: { accountId: alice }, data, deposit: "1 NEAR" }));
  const receiver = made.transaction.receiver_id;
  ok(receiver.startsWith("0s"), receiver);
  const state = await near.viewState(receiver, { ...optimistic, includeProof: true });
  equal(state.values.map((item) => [item.key, item.value]), [["AQ==", "AgM="]], "state");
  const pages = [];
  for await (const item of near.viewStateAll(receiver, { ...optimistic, limit: 1 })) pages.push(item);
  equal(pages.length, 1, "items over pages");
});
await step("block effects", async () => {
  const result = await near.send(alice, "1 yocto");
  const effects = await near.rpc.blockEffects({ blockId: result.transaction_outcome.block_hash });
  ok(effects.changes.some((change) => change.account_id === root), "root was touched");
});
await step("typed errors", async () => {
  await throws("AccountDoesNotExistError", () => near.getAccount("nobody.near"));
  await throws("UnknownBlockError", () => near.rpc.getBlock({ blockId: 1_000_000_000 }));
  await throws("AccountDoesNotExistError", () => near.viewState("nobody.near"));
  await throws("InvalidTransactionError", () => send(aliceNear.transaction(alice).transfer(`nobody.${root}`, "1 yocto")));
  const poor = await throws("InvalidTransactionError", () => send(aliceNear.transaction(alice).transfer(root, "999999999 NEAR")));
  ok(poor.details.InvalidTxError.NotEnoughBalance, "too little balance");
});
await step("delete the account", async () => {
  await send(aliceNear.transaction(alice).deleteAccount({ beneficiary: root }));
  ok(!(await near.accountExists(alice, optimistic)), "gone");
});

done();
