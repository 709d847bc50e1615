// What protocol 88 brings, by near-api-js 7 and near-kit, unmodified: a contract of near-sdk 5.30.0, and universal
// accounts. Neither library has the action UniversalStateInit, so its bytes are made here.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import * as near from "near-api-js";
import { Near } from "near-kit";
import { call, done, equal, need, ok, step, throws, url, validatorKey } from "./check.mjs";

const { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions, createTransaction, encodeTransaction, nearToYocto } = near;

const provider = new JsonRpcProvider({ url }, { retries: 1, wait: 100, backoff: 1 });
const key = validatorKey();
const root = new Account(key.account_id, provider, KeyPairSigner.fromSecretKey(key.secret_key));
// Each library has an account, since each counts the nonces of its keys.
const kitId = `kit.${root.accountId}`;
const kitKey = KeyPair.fromRandom("ed25519");
const clientOf = (id, pair) => new Near({ network: { rpcUrl: url, networkId: "localnet" }, privateKey: pair.toString(), defaultSignerId: id, defaultWaitUntil: "FINAL" });
const kit = clientOf(kitId, kitKey);
const optimistic = { finality: "optimistic" };
const amountOf = async (id) => (await provider.viewAccount({ accountId: id, blockQuery: optimistic })).amount;
const result = (outcome) => JSON.parse(Buffer.from(outcome.status.SuccessValue, "base64").toString());

// --- the contract
const book = `book.${root.accountId}`;
const bookKey = KeyPair.fromRandom("ed25519");
const owner = `owner.${root.accountId}`;
const bookAccount = new Account(book, provider, KeyPairSigner.fromSecretKey(bookKey.toString()));

await step("status: protocol 88", async () => {
  const status = await provider.viewNodeStatus();
  equal([status.protocol_version, status.latest_protocol_version], [88, 88], "versions");
});
await step("deploy a contract of near-sdk 5.30.0 and initialize it", async () => {
  await root.createAccount({ newAccountId: kitId, publicKey: kitKey.getPublicKey(), nearToTransfer: nearToYocto("100") });
  await root.createAccount({ newAccountId: owner, publicKey: KeyPair.fromRandom("ed25519").getPublicKey(), nearToTransfer: nearToYocto("1") });
  await root.createAccount({ newAccountId: book, publicKey: bookKey.getPublicKey(), nearToTransfer: nearToYocto("50") });
  await bookAccount.deployContract(new Uint8Array(readFileSync(need("GUESTBOOK"))));
  await bookAccount.callFunction({ contractId: book, methodName: "new", args: { owner, opens_ms: 0 }, gas: 50_000_000_000_000n });
});
await step("near-api-js: a call with a deposit, its event and what it returns", async () => {
  const outcome = await root.signAndSendTransaction({
    receiverId: book,
    actions: [actions.functionCall("sign", { text: "by near-api-js" }, 50_000_000_000_000n, nearToYocto("1"))],
    waitUntil: "FINAL",
  });
  equal(result(outcome), 1, "count");
  const logs = outcome.receipts_outcome.flatMap((r) => r.outcome.logs);
  ok(logs.some((l) => l.startsWith("EVENT_JSON:") && JSON.parse(l.slice(11)).data.premium === true), `the event is in ${logs}`);
});
await step("near-kit: a call with a deposit", async () => {
  equal(result(await kit.call(book, "sign", { text: "by near-kit" }, { attachedDeposit: "0.001 NEAR", gas: "50 Tgas" })), 2, "count");
});
await step("no gas that calls burn is paid to the contract: it has the deposits and no more", async () => {
  const before = await amountOf(book);
  await root.callFunction({ contractId: book, methodName: "sign", args: { text: "again" }, gas: 50_000_000_000_000n, deposit: 7n });
  equal((await amountOf(book)) - before, 7n, "of the call");
});
await step("payout: a promise pays the owner, a callback returns", async () => {
  const before = await amountOf(owner);
  const outcome = await root.signAndSendTransaction({
    receiverId: book,
    actions: [actions.functionCall("payout", {}, 100_000_000_000_000n, 0n)],
    waitUntil: "FINAL",
  });
  equal(result(outcome), "paid", "result");
  equal((await amountOf(owner)) - before, nearToYocto("0.005"), "paid");
});
await step("reads, by both libraries", async () => {
  const texts = ["by near-api-js", "by near-kit", "again"];
  const byApi = await provider.callFunction({ contractId: book, method: "messages", args: { limit: 5 } });
  equal(byApi.map((m) => [m.sender, m.text, m.premium]), texts.map((t, i) => [i === 1 ? kitId : root.accountId, t, i === 0]), "near-api-js");
  const byKit = await kit.view(book, "messages", { from: 1 });
  equal(byKit.map((m) => m.text), texts.slice(1), "near-kit");
});

// --- universal accounts
const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
const u128 = (n) => Buffer.from(BigUint64Array.of(n & (2n ** 64n - 1n), n >> 64n).buffer);
const bytes = (b) => Buffer.concat([u32(b.length), b]);

// stateOf is the state of an account without code and data that begins with full access keys.
const stateOf = (...pairs) => {
  const handles = pairs.map((p) => Buffer.concat([Buffer.of(0), Buffer.from(p.getPublicKey().data)])).sort(Buffer.compare);
  return Buffer.concat([Buffer.of(0, 0), u32(0), u32(handles.length), ...handles]);
};

// idOf is the account of a state: the hash in Crockford's base 32.
const idOf = (state) => {
  const bits = [...createHash("sha3-256").update(state).digest()].map((b) => b.toString(2).padStart(8, "0")).join("") + "0000";
  return "0u" + bits.match(/.{5}/g).map((five) => "0123456789abcdefghjkmnpqrstvwxyz"[parseInt(five, 2)]).join("");
};
const stateInit = (state, deposit = 0n) => Buffer.concat([Buffer.of(15), bytes(state), u128(deposit)]);
const transfer = (amount) => Buffer.concat([Buffer.of(3), u128(amount)]);

// send signs a transaction of encoded actions with near-api-js and submits it; it returns the reply's result or error.
async function send(signer, pair, nonce, receiver, ...list) {
  const block = (await provider.viewBlock({ finality: "final" })).header.hash;
  const head = encodeTransaction(createTransaction(signer, pair.getPublicKey(), receiver, nonce, [], near.baseDecode(block)));
  const tx = Buffer.concat([head.slice(0, -4), u32(list.length), ...list]);
  const { signature } = pair.sign(createHash("sha256").update(tx).digest());
  const signed = Buffer.concat([tx, Buffer.of(0), Buffer.from(signature)]).toString("base64");
  const { body } = await call("send_tx", { signed_tx_base64: signed, wait_until: "FINAL" });
  return { signed, ...body };
}
const nonceOf = async (id, pair) => (await provider.viewAccessKey({ accountId: id, publicKey: pair.getPublicKey(), finalityQuery: optimistic })).nonce;

const pair = KeyPair.fromRandom("ed25519");
const state = stateOf(pair);
const id = idOf(state);
let bootstrap, first;

await step("near-api-js: a transfer creates an uninitialized account", async () => {
  await root.transfer({ receiverId: id, amount: nearToYocto("3") });
  const { body } = await call("query", { request_type: "view_account", account_id: id, finality: "optimistic" });
  const { amount, state: is, locked, storage_usage } = body.result;
  equal({ amount, is, locked, storage_usage }, { amount: nearToYocto("3").toString(), is: "uninitialized", locked: "0", storage_usage: 100 }, "account");
  bootstrap = BigInt(body.result.bootstrap_nonce);
  ok(bootstrap > 0n && bootstrap % 1_000_000n === 0n && bootstrap < BigInt(body.result.block_height) * 1_000_000n, `the nonce ${bootstrap} is that of a height`);
  equal(await amountOf(id), nearToYocto("3"), "by near-api-js");
  equal((await provider.viewAccessKeyList({ accountId: id, finalityQuery: optimistic })).keys, [], "keys");
});
await step("near-kit: it transfers to it, and reads it", async () => {
  await kit.transaction(kitId).transfer(id, "2 NEAR").send({ waitUntil: "FINAL" });
  equal(await amountOf(id), nearToYocto("5"), "balance");
  equal(await kit.getBalance(id), "4.99", "what can be spent: without the price of storage");
  equal(await kit.accountExists(id), true, "it exists");
});
await step("near-kit: a call of it fails as an action", async () => {
  const error = await throws("InvalidTransactionError", () => kit.call(id, "m", {}, { gas: "10 Tgas" }));
  equal(error.details.ActionError.kind, { AccountNotInitialized: { account_id: id } }, "kind");
});
await step("its first transaction, signed by its key, installs the key", async () => {
  const other = await send(id, KeyPair.fromRandom("ed25519"), bootstrap + 1n, id, stateInit(state));
  ok(JSON.stringify(other.error).includes("InvalidAccessKeyError"), `another key: ${JSON.stringify(other.error)}`);
  first = await send(id, pair, bootstrap + 1n, id, stateInit(state));
  equal(first.result?.status, { SuccessValue: "" }, `status ${JSON.stringify(first.error)}`);
  const list = await provider.viewAccessKeyList({ accountId: id, finalityQuery: optimistic });
  equal(list.keys.map((k) => [k.public_key, k.access_key.permission]), [[pair.getPublicKey().toString(), "FullAccess"]], "keys");
});
await step("the same bytes again are not run again", async () => {
  const before = await amountOf(id);
  const { body } = await call("send_tx", { signed_tx_base64: first.signed, wait_until: "FINAL" });
  ok(body.error === undefined || JSON.stringify(body.error).includes("InvalidNonce"), JSON.stringify(body.error));
  equal(await amountOf(id), before, "balance");
});
await step("near-api-js reads the transaction with the action", async () => {
  const tx = await provider.viewTransactionStatus({ txHash: first.result.transaction.hash, accountId: id, waitUntil: "FINAL" });
  equal(tx.transaction.actions, [{ UniversalStateInit: { state_init: state.toString("base64"), deposit: "0" } }], "actions");
});
await step("near-api-js and near-kit: the account signs as any other", async () => {
  const before = await amountOf(owner);
  await new Account(id, provider, KeyPairSigner.fromSecretKey(pair.toString())).transfer({ receiverId: owner, amount: 5n });
  const its = clientOf(id, pair);
  await its.transaction(id).transfer(owner, "6 yocto").send({ waitUntil: "FINAL" });
  equal((await amountOf(owner)) - before, 11n, "received");
  equal(await result(await its.call(book, "sign", { text: "universal" }, { attachedDeposit: "1 yocto", gas: "50 Tgas" })), 4, "count");
  equal((await kit.view(book, "messages", { from: 3 }))[0].sender, id, "sender");
});
await step("a relayer initializes another account, whose two keys then work; deposits that storage does not need come back", async () => {
  const keys = [KeyPair.fromRandom("ed25519"), KeyPair.fromRandom("ed25519")];
  const state = stateOf(...keys);
  const id = idOf(state);
  const rootKey = KeyPair.fromString(key.secret_key);
  for (const balance of [nearToYocto("1"), nearToYocto("2")]) {
    const nonce = (await nonceOf(root.accountId, rootKey)) + 1n;
    const reply = await send(root.accountId, rootKey, nonce, id, stateInit(state, nearToYocto("7")), transfer(nearToYocto("1")));
    equal(reply.result?.status, { SuccessValue: "" }, `status ${JSON.stringify(reply.error)}`);
    equal(await amountOf(id), balance, "balance");
  }
  for (const pair of keys) await new Account(id, provider, KeyPairSigner.fromSecretKey(pair.toString())).transfer({ receiverId: owner, amount: 1n });
});
await step("a state that is not the id's, and bytes that are not canonical, are refused", async () => {
  const rootKey = KeyPair.fromString(key.secret_key);
  const nonce = (await nonceOf(root.accountId, rootKey)) + 1n;
  const wrong = await send(root.accountId, rootKey, nonce, id, stateInit(stateOf(KeyPair.fromRandom("ed25519"))));
  ok(/ActionsValidation/.test(JSON.stringify(wrong.error)), `wrong state: ${JSON.stringify(wrong)}`);
  const long = Buffer.concat([state, Buffer.of(0)]);
  const bad = await send(root.accountId, rootKey, nonce, idOf(long), stateInit(long));
  ok(/ActionsValidation/.test(JSON.stringify(bad.error)), `bytes behind the state: ${JSON.stringify(bad)}`);
});
done();
