// near-api-js 7, unmodified, against a node in instant mode: accounts, transfers, keys of all three curves, stakes,
// meta transactions, every wait_until level, every view the library has, and its typed errors.
import * as near from "near-api-js";
import * as errors from "near-api-js/rpc-errors";
import { call, done, equal, ok, step, throws, url, validatorKey } from "./check.mjs";

const { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions, createTransaction, nearToYocto } = near;

// One retry: a node that answers 408 or 500 where it should not must show, not be hidden by twelve attempts.
const provider = new JsonRpcProvider({ url }, { retries: 1, wait: 100, backoff: 1 });
const key = validatorKey();
const root = new Account(key.account_id, provider, KeyPairSigner.fromSecretKey(key.secret_key));

const alice = `alice.${root.accountId}`;
const bob = `bob.${root.accountId}`;
const aliceKey = KeyPair.fromRandom("ed25519");
const bobKey = KeyPair.fromRandom("ed25519");
const account = (id, pair) => new Account(id, provider, KeyPairSigner.fromSecretKey(pair.toString()));
const aliceAccount = account(alice, aliceKey);
const bobAccount = account(bob, bobKey);

// signed makes a transaction by hand, where a test wants a nonce, a key or a block hash that Account would not choose.
async function signed({ signer, pair, nonce, receiver, list, blockHash }) {
  const block = blockHash ?? (await provider.viewBlock({ finality: "final" })).header.hash;
  const tx = createTransaction(signer, pair.getPublicKey(), receiver, nonce, list, near.baseDecode(block));
  const { signedTransaction } = await KeyPairSigner.fromSecretKey(pair.toString()).signTransaction(tx);
  return signedTransaction;
}

// nextNonce reads the key's nonce from the newest block.
async function nextNonce(id, pair) {
  const found = await provider.viewAccessKey({ accountId: id, publicKey: pair.getPublicKey(), finalityQuery: { finality: "optimistic" } });
  return found.nonce + 1n;
}

const final = { finality: "final" };
const amountOf = async (id) => (await provider.viewAccount({ accountId: id, blockQuery: { finality: "optimistic" } })).amount;
const send = (from, receiverId, list, waitUntil = "FINAL", more = {}) =>
  from.signAndSendTransaction({ receiverId, actions: list, waitUntil, ...more });

// --- accounts and transfers
await step("create a sub-account", async () => {
  const result = await root.createSubAccount({ accountOrPrefix: "alice", publicKey: aliceKey.getPublicKey(), nearToTransfer: nearToYocto("1000") });
  equal(result.status, { SuccessValue: "" }, "status");
  const list = await aliceAccount.getAccessKeyList();
  equal(list.keys.map((k) => k.public_key), [aliceKey.getPublicKey().toString()], "keys");
  equal(await amountOf(alice), nearToYocto("1000"), "balance");
});
await step("create a second one, by full name", async () => {
  await root.createAccount({ newAccountId: bob, publicKey: bobKey.getPublicKey(), nearToTransfer: nearToYocto("500") });
  equal((await bobAccount.getState()).codeHash, "1".repeat(32), "code hash");
});
await step("transfer", async () => {
  const before = await amountOf(bob);
  await aliceAccount.transfer({ receiverId: bob, amount: nearToYocto("2.5") });
  equal((await amountOf(bob)) - before, nearToYocto("2.5"), "received");
});
await step("transfer to an implicit account, which then spends", async () => {
  const pair = KeyPair.fromRandom("ed25519");
  const id = Buffer.from(pair.getPublicKey().data).toString("hex");
  await aliceAccount.transfer({ receiverId: id, amount: nearToYocto("3") });
  await account(id, pair).transfer({ receiverId: alice, amount: nearToYocto("1") });
  ok((await amountOf(id)) < nearToYocto("2"), "a fee was paid");
});
await step("transfer to an ETH-implicit account", async () => {
  const id = "0x" + "ab".repeat(20);
  await aliceAccount.transfer({ receiverId: id, amount: 5n });
  equal(await amountOf(id), 5n, "balance");
});
await step("two transactions in one call", async () => {
  const results = await root.signAndSendTransactions({
    transactions: [
      { receiverId: alice, actions: [actions.transfer(1n)] },
      { receiverId: bob, actions: [actions.transfer(1n)] },
    ],
    waitUntil: "FINAL",
  });
  equal(results.map((r) => r.final_execution_status), ["FINAL", "FINAL"], "statuses");
});
await step("ten transactions at once by one key", async () => {
  const before = await amountOf(bob);
  await Promise.all(Array.from({ length: 10 }, () => aliceAccount.transfer({ receiverId: bob, amount: 7n })));
  equal((await amountOf(bob)) - before, 70n, "received");
});

// --- keys
for (const curve of ["ed25519", "secp256k1", "ml-dsa-65"]) {
  await step(`add a full-access key (${curve}), use it, delete it`, async () => {
    const pair = KeyPair.fromRandom(curve);
    await aliceAccount.addFullAccessKey(pair.getPublicKey());
    equal((await aliceAccount.getAccessKey(pair.getPublicKey())).permission, "FullAccess", "permission");
    await account(alice, pair).transfer({ receiverId: bob, amount: 11n });
    await aliceAccount.deleteKey(pair.getPublicKey());
    await throws("AccessKeyDoesNotExistError", () => aliceAccount.getAccessKey(pair.getPublicKey()));
  });
}
await step("add a function-call key, use it, delete it", async () => {
  const pair = KeyPair.fromRandom("ed25519");
  await aliceAccount.addFunctionCallAccessKey({ publicKey: pair.getPublicKey(), contractId: bob, methodNames: ["a", "b"], allowance: nearToYocto("0.25") });
  const { permission } = await aliceAccount.getAccessKey(pair.getPublicKey());
  equal(permission, { FunctionCall: { allowance: nearToYocto("0.25").toString(), receiver_id: bob, method_names: ["a", "b"] } }, "permission");
  await throws("AccessKeyRequiresFullAccessActionError", () => account(alice, pair).transfer({ receiverId: bob, amount: 1n }));
  await aliceAccount.deleteKey(pair.getPublicKey());
  equal((await aliceAccount.getAccessKeyList()).keys.length, 1, "keys left");
});
await step("delete a key that is not there", async () => {
  const pair = KeyPair.fromRandom("ed25519");
  const error = await throws("DeleteKeyDoesNotExistActionError", () => aliceAccount.deleteKey(pair.getPublicKey()));
  equal(error.accountId, alice, "account");
});
await step("add a key twice", () => throws("AddKeyAlreadyExistsActionError", () => aliceAccount.addFullAccessKey(aliceKey.getPublicKey())));

// --- code: deployed and read back; nothing here executes it
const code = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
await step("deploy code and read it", async () => {
  await bobAccount.deployContract(code);
  const view = await bobAccount.getContractCode();
  equal([...view.code], [...code], "code");
});
await step("deploy global code and use it", async () => {
  // Its distribution is a receipt of its own, in no outcome's list: the next block has it, and FINAL is later than that.
  await send(bobAccount, bob, [actions.deployGlobalContract(code, "accountId")], "FINAL");
  await aliceAccount.useGlobalContract({ accountId: bob });
  const view = await provider.viewGlobalContractCode({ identifier: { accountId: bob } });
  equal([...view.code], [...code], "code");
  equal((await provider.viewAccount({ accountId: alice })).global_contract_account_id, bob, "contract of alice");
});
await step("contract state is empty", async () => equal((await bobAccount.getContractState()).values, [], "values"));

// --- stake
await step("stake, read the proposal, stake back", async () => {
  const pair = KeyPair.fromRandom("ed25519");
  await send(root, root.accountId, [actions.stake(nearToYocto("50000001"), near.PublicKey.from(key.public_key))]);
  const { current_proposals: proposals } = await provider.viewValidators();
  equal(proposals.map((p) => [p.account_id, p.stake]), [[root.accountId, nearToYocto("50000001").toString()]], "proposals");
  equal((await provider.viewAccount({ accountId: root.accountId })).locked, nearToYocto("50000001"), "locked");
  const error = await throws("InsufficientStakeActionError", () => send(aliceAccount, alice, [actions.stake(nearToYocto("1"), pair.getPublicKey())]));
  equal(error.stake, nearToYocto("1"), "stake");
  await throws("TriesToStakeActionError", () => send(aliceAccount, alice, [actions.stake(nearToYocto("999999999"), pair.getPublicKey())]));
  await throws("TriesToUnstakeActionError", () => send(aliceAccount, alice, [actions.stake(0n, pair.getPublicKey())]));
});

// --- meta transactions
await step("delegate action through a relayer", async () => {
  const { signedDelegate } = await aliceAccount.createSignedMetaTransaction({ receiverId: bob, actions: [actions.transfer(13n)] });
  const before = await amountOf(bob);
  const result = await bobAccount.relayMetaTransaction(signedDelegate);
  equal(result.status, { SuccessValue: "" }, "status");
  // bob paid the gas and got 13; the gas is far more than that.
  ok((await amountOf(bob)) < before, "the relayer paid");
  await throws("DelegateActionInvalidNonceActionError", () => bobAccount.relayMetaTransaction(signedDelegate));
});
await step("an expired delegate action", async () => {
  // A time to live of one block: by the time the relayer's transaction ran, it is over.
  const { signedDelegate } = await aliceAccount.createSignedMetaTransaction({ receiverId: bob, actions: [actions.transfer(13n)], blockHeightTtl: 0 });
  await root.transfer({ receiverId: bob, amount: 1n });
  await throws("DelegateActionExpiredActionError", () => bobAccount.relayMetaTransaction(signedDelegate));
});
await step("a delegate action signed by another key", async () => {
  const { signedDelegate } = await aliceAccount.createSignedMetaTransaction({ receiverId: bob, actions: [actions.transfer(13n)] });
  signedDelegate.delegateAction.actions[0].transfer.deposit = 14n;
  await throws("DelegateActionInvalidSignatureActionError", () => bobAccount.relayMetaTransaction(signedDelegate));
});

// --- wait levels: each by an Account of its own, as the delegate actions have moved the key's nonce, which Account remembers
const reached = {
  NONE: ["NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"],
  INCLUDED: ["INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"],
  EXECUTED_OPTIMISTIC: ["EXECUTED_OPTIMISTIC", "EXECUTED", "FINAL"],
  INCLUDED_FINAL: ["INCLUDED_FINAL", "EXECUTED", "FINAL"],
  EXECUTED: ["EXECUTED", "FINAL"],
  FINAL: ["FINAL"],
};
for (const [level, allowed] of Object.entries(reached)) {
  await step(`wait_until ${level}`, async () => {
    const tx = await account(alice, aliceKey).createSignedTransaction({ receiverId: bob, actions: [actions.transfer(1n)] });
    const result = await provider.sendTransactionUntil(tx, level);
    ok(allowed.includes(result.final_execution_status), `${result.final_execution_status} after waiting for ${level}`);
    const txHash = near.baseEncode(new Uint8Array(await crypto.subtle.digest("SHA-256", near.encodeTransaction(tx.transaction))));
    const seen = await provider.viewTransactionStatus({ txHash, accountId: alice, waitUntil: level === "NONE" ? "INCLUDED" : level });
    ok(seen.final_execution_status === "INCLUDED" || seen.transaction.hash === txHash, "the transaction is in the reply");
    const all = await provider.viewTransactionStatusWithReceipts({ txHash, accountId: alice, waitUntil: "FINAL" });
    equal(all.final_execution_status, "FINAL", "status with receipts");
    ok(all.receipts.length >= 1, "it has receipts");
    // The same transaction again is no error: it is known, and so waits for what it has.
    equal((await provider.sendTransactionUntil(tx, "FINAL")).final_execution_status, "FINAL", "sent again");
  });
}
await step("broadcast_tx_async by sendTransactionAsync, then tx", async () => {
  const tx = await account(alice, aliceKey).createSignedTransaction({ receiverId: bob, actions: [actions.transfer(1n)] });
  equal((await provider.sendTransactionAsync(tx)).final_execution_status, "NONE", "status");
  const txHash = new Uint8Array(await crypto.subtle.digest("SHA-256", near.encodeTransaction(tx.transaction)));
  equal((await provider.viewTransactionStatus({ txHash, accountId: alice, waitUntil: "FINAL" })).final_execution_status, "FINAL", "status later");
});

// --- views
await step("blocks by finality, height and hash; chunks by hash and by shard", async () => {
  const block = await provider.viewBlock(final);
  equal((await provider.viewBlock({ blockId: block.header.height })).header.hash, block.header.hash, "by height");
  equal((await provider.viewBlock({ blockId: block.header.hash })).header.height, block.header.height, "by hash");
  const chunk = await provider.viewChunk(block.chunks[0].chunk_hash);
  equal(chunk.header.chunk_hash, block.chunks[0].chunk_hash, "chunk");
  const same = await provider.viewChunk([block.header.hash, block.chunks[0].shard_id]);
  equal(same.header.chunk_hash, block.chunks[0].chunk_hash, "chunk by shard");
});
await step("gas price, status, network, validators, seat price, protocol config", async () => {
  equal(typeof (await provider.viewGasPrice()).gas_price, "string", "gas price");
  equal(typeof (await provider.viewGasPrice((await provider.viewBlock(final)).header.height)).gas_price, "string", "gas price at a height");
  equal((await provider.viewNodeStatus()).validator_account_id, root.accountId, "validator");
  ok((await provider.getNetworkId()).length > 0, "chain id");
  const { current_validators: now } = await provider.viewValidators();
  equal(now.map((v) => v.account_id), [root.accountId], "validators");
  ok((await provider.getCurrentEpochSeatPrice()) > 0n, "seat price");
  ok((await provider.getNextEpochSeatPrice()) > 0n, "next seat price");
  const config = await provider.experimental_protocolConfig(final);
  equal(config.runtime_config.storage_amount_per_byte, "10000000000000000000", "storage price");
  await provider.experimental_protocolConfig({ sync_checkpoint: "genesis" });
});
await step("changes of accounts, keys, data and code; effects of a block; receipt; light client", async () => {
  const result = await send(aliceAccount, bob, [actions.transfer(17n)], "FINAL");
  const at = { blockId: result.receipts_outcome[0].block_hash };
  const changed = await provider.accountChanges([bob], at);
  ok(changed.changes.some((c) => c.type === "account_update" && c.change.account_id === bob), "bob changed");
  const inBlock = { blockId: result.transaction_outcome.block_hash };
  const keys = await provider.singleAccessKeyChanges([{ account_id: alice, public_key: aliceKey.getPublicKey().toString() }], inBlock);
  equal(keys.changes.map((c) => c.type), ["access_key_update"], "key changes");
  equal((await provider.accessKeyChanges([alice], inBlock)).changes.length, 1, "all key changes");
  equal((await provider.contractStateChanges([alice], inBlock)).changes, [], "data changes");
  equal((await provider.contractCodeChanges([alice], inBlock)).changes, [], "code changes");
  const effects = await provider.blockChanges(at);
  ok(effects.changes.some((c) => c.type === "account_touched" && c.account_id === bob), "bob touched");
  const receipt = await provider.viewTransactionReceipt(result.receipts_outcome[0].id);
  equal([receipt.predecessor_id, receipt.receiver_id], [alice, bob], "receipt");

  const head = (await provider.viewBlock(final)).header.hash;
  const proof = await provider.lightClientProof({ type: "transaction", transaction_hash: result.transaction.hash, sender_id: alice, light_client_head: head });
  equal(proof.outcome_proof.id, result.transaction.hash, "proved");
  const genesis = (await provider.viewBlock({ sync_checkpoint: "genesis" }).catch(() => provider.viewBlock({ blockId: 0 }))).header;
  ok(genesis.hash.length > 0, "genesis");
  await provider.nextLightClientBlock({ last_block_hash: (await provider.viewBlock({ blockId: 1 })).header.hash });
});

// --- typed errors
await step("error: bad nonce", async () => {
  const nonce = await nextNonce(alice, aliceKey);
  const tx = await signed({ signer: alice, pair: aliceKey, nonce: nonce - 1n, receiver: bob, list: [actions.transfer(1n)] });
  const error = await throws("InvalidNonceError", () => provider.sendTransactionUntil(tx, "FINAL"));
  equal([error.accessKeyNonce, error.transactionNonce].map(Number), [Number(nonce - 1n), Number(nonce - 1n)], "nonces");
});
await step("error: nonce far too large", async () => {
  const tx = await signed({ signer: alice, pair: aliceKey, nonce: 1n << 62n, receiver: bob, list: [actions.transfer(1n)] });
  // neard checks the upper bound at inclusion only; then this very transaction is refused or never gets in.
  const reply = await call("send_tx", { signed_tx_base64: near.base64Encode(near.encodeTransaction(tx)), wait_until: "INCLUDED" });
  ok(reply.body.error, `refused: ${JSON.stringify(reply.body)}`);
});
await step("error: the signer is missing", async () => {
  const tx = await signed({ signer: `nobody.${root.accountId}`, pair: aliceKey, nonce: 1n, receiver: bob, list: [actions.transfer(1n)] });
  const error = await throws("SignerDoesNotExistError", () => provider.sendTransactionUntil(tx, "FINAL"));
  equal(error.signerId, `nobody.${root.accountId}`, "signer");
});
await step("error: the account of a view is missing", async () => {
  const error = await throws("AccountDoesNotExistError", () => provider.viewAccount({ accountId: "nobody.near" }));
  equal(error.accountId, "nobody.near", "account");
});
await step("error: the receiver is missing", async () => {
  const error = await throws("AccountDoesNotExistActionError", () => aliceAccount.transfer({ receiverId: `nobody.${root.accountId}`, amount: 1n }));
  equal(error.accountId, `nobody.${root.accountId}`, "account");
  ok(error.transactionResult, "the outcome is attached");
});
await step("error: the key is not the account's", async () => {
  const pair = KeyPair.fromRandom("ed25519");
  const tx = await signed({ signer: alice, pair, nonce: 1n, receiver: bob, list: [actions.transfer(1n)] });
  const error = await throws("AccessKeyNotFoundActionError", () => provider.sendTransactionUntil(tx, "FINAL"));
  equal(error.accountId, alice, "account");
});
await step("error: the signature is another key's", async () => {
  const tx = await signed({ signer: alice, pair: aliceKey, nonce: await nextNonce(alice, aliceKey), receiver: bob, list: [actions.transfer(1n)] });
  const other = await signed({ signer: alice, pair: bobKey, nonce: 1n, receiver: bob, list: [actions.transfer(1n)] });
  tx.signature = other.signature;
  await throws("InvalidSignatureError", () => provider.sendTransactionUntil(tx, "FINAL"));
});
await step("error: too little balance", async () => {
  const error = await throws("NotEnoughBalanceError", () => aliceAccount.transfer({ receiverId: bob, amount: nearToYocto("999999999") }));
  equal(error.signerId, alice, "signer");
});
await step("error: unknown block hash", async () => {
  const blockHash = near.baseEncode(crypto.getRandomValues(new Uint8Array(32)));
  const tx = await signed({ signer: alice, pair: aliceKey, nonce: await nextNonce(alice, aliceKey), receiver: bob, list: [actions.transfer(1n)], blockHash });
  await throws("TransactionExpiredError", () => provider.sendTransactionUntil(tx, "FINAL"));
});
await step("error: account exists, not a sub-account, top level name", async () => {
  await throws("AccountAlreadyExistsActionError", () => root.createSubAccount({ accountOrPrefix: "alice", publicKey: bobKey.getPublicKey() }));
  await throws("CreateAccountNotAllowedActionError", () => send(aliceAccount, `x.${bob}`, [actions.createAccount()]));
  await throws("CreateAccountOnlyByRegistrarActionError", () => send(aliceAccount, "toplevel", [actions.createAccount()]));
});
await step("error: unknown block, chunk, transaction, receipt, epoch, method", async () => {
  const unknown = near.baseEncode(new Uint8Array(32).fill(7));
  await throws("UnknownBlockError", () => provider.viewBlock({ blockId: 1_000_000_000 }));
  await throws("UnknownBlockError", () => provider.viewBlock({ blockId: unknown }));
  await throws("UnknownChunkError", () => provider.viewChunk(unknown));
  await throws("UnknownTransactionError", () => provider.viewTransactionStatus({ txHash: unknown, accountId: alice, waitUntil: "NONE" }));
  await throws("UnknownReceiptError", () => provider.viewTransactionReceipt(unknown));
  await throws("UnknownEpochError", () => provider.viewValidators({ epochId: unknown }));
  await throws("RpcMethodNotFoundError", () => provider.sendJsonRpc("nothing", {}));
  await throws("RpcRequestParseError", () => provider.sendJsonRpc("query", { request_type: "view_account", account_id: "UPPER", finality: "final" }));
});
await step("error: a bad action", async () => {
  await throws("DeleteActionMustBeFinalActionError", () => send(aliceAccount, alice, [actions.deleteAccount(bob), actions.transfer(1n)]));
  await throws("FunctionCallZeroAttachedGasActionError", () => send(aliceAccount, bob, [actions.functionCall("m", {}, 0n, 0n)]));
});
await step("a call of code is refused, saying so", async () => {
  // Until contracts run, the door refuses what would execute; on an account without code the protocol's own error comes.
  const reply = await throws("ContractCodeDoesNotExistError", () => send(aliceAccount, root.accountId, [actions.functionCall("m", {}, 30_000_000_000_000n, 0n)]));
  equal(reply.contractId, root.accountId, "account");
});

// --- the end of an account
await step("delete an account", async () => {
  const id = `carol.${root.accountId}`;
  const pair = KeyPair.fromRandom("ed25519");
  await root.createSubAccount({ accountOrPrefix: "carol", publicKey: pair.getPublicKey(), nearToTransfer: nearToYocto("10") });
  const before = await amountOf(alice);
  await account(id, pair).deleteAccount(alice);
  ok((await amountOf(alice)) > before + nearToYocto("9"), "the rest went to alice");
  await throws("AccountDoesNotExistError", () => provider.viewAccount({ accountId: id }));
});
await step("a staker cannot be deleted", () => throws("DeleteAccountStakingActionError", () => root.deleteAccount(alice)));

done();
