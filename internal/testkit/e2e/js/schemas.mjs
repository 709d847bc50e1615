// @near-js/jsonrpc-client, whose functions check every request and every reply against zod schemas made from nearcore's
// OpenAPI: each method of this node is called in its forms, and the schemas judge the replies. near-api-js only signs.
import * as rpc from "@near-js/jsonrpc-client";
import * as schemas from "@near-js/jsonrpc-types";
import * as near from "near-api-js";
import { done, equal, ok, step, throws, url, validatorKey } from "./check.mjs";
import { metadata, wasm } from "./contracts.mjs";

const client = new rpc.NearRpcClient({ endpoint: url, retries: 0 });
const { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions, baseEncode, base64Encode, encodeTransaction, nearToYocto } = near;
const key = validatorKey();
const root = new Account(key.account_id, new JsonRpcProvider({ url }, { retries: 1 }), KeyPairSigner.fromSecretKey(key.secret_key));
const alice = `schemas.${root.accountId}`;
const pair = KeyPair.fromRandom("ed25519");
const account = new Account(alice, root.provider, KeyPairSigner.fromSecretKey(pair.toString()));

// What the schemas are asked about: an account with two keys and code, and a transaction with its receipts.
await root.createSubAccount({ accountOrPrefix: "schemas", publicKey: pair.getPublicKey(), nearToTransfer: nearToYocto("100") });
await account.addFunctionCallAccessKey({ publicKey: KeyPair.fromRandom("secp256k1").getPublicKey(), contractId: alice, methodNames: ["m"], allowance: 5n });
await account.deployContract(new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]));
const sent = await account.signAndSendTransaction({ receiverId: root.accountId, actions: [actions.transfer(3n)], waitUntil: "FINAL" });
const failed = await account.signAndSendTransaction({ receiverId: `no.${alice}`, actions: [actions.transfer(3n)], waitUntil: "FINAL", throwOnFailure: false });
const { signedDelegate } = await account.createSignedMetaTransaction({ receiverId: root.accountId, actions: [actions.transfer(1n)] });
const relayed = await root.relayMetaTransaction(signedDelegate);
const final = { finality: "final" };
const head = await rpc.block(client, final);
const base64 = (tx) => base64Encode(encodeTransaction(tx));
const newTx = () => new Account(alice, root.provider, KeyPairSigner.fromSecretKey(pair.toString())).createSignedTransaction({ receiverId: root.accountId, actions: [actions.transfer(1n)] });
const hashOf = async (tx) => baseEncode(new Uint8Array(await crypto.subtle.digest("SHA-256", encodeTransaction(tx.transaction))));

await step("status", async () => equal((await rpc.status(client)).validatorAccountId, root.accountId, "validator"));
await step("health", async () => equal(await rpc.health(client), null, "result"));
await step("network_info", async () => equal((await rpc.networkInfo(client)).numActivePeers, 0, "peers"));
await step("block", async () => {
  for (const reference of [{ blockId: head.header.height }, { blockId: head.header.hash }, final, { finality: "optimistic" }, { finality: "near-final" },
    { syncCheckpoint: "genesis" }, { syncCheckpoint: "earliest_available" }, { blockId: 0 }])
    ok((await rpc.block(client, reference)).header.hash.length > 30, JSON.stringify(reference));
  await rpc.block(client, { blockId: sent.transaction_outcome.block_hash });
});
await step("chunk", async () => {
  const { chunks } = await rpc.block(client, { blockId: sent.transaction_outcome.block_hash });
  for (const reference of [{ chunkId: chunks[0].chunkHash }, { blockId: head.header.height, shardId: chunks[0].shardId }, { blockId: sent.transaction_outcome.block_hash, shardId: chunks[0].shardId }])
    await rpc.chunk(client, reference);
  // A delegate action in a chunk: an action inside an action.
  const at = await rpc.block(client, { blockId: relayed.transaction_outcome.block_hash });
  const { transactions } = await rpc.chunk(client, { chunkId: at.chunks[0].chunkHash });
  equal(transactions.length, 1, "transactions");
});
await step("query", async () => {
  const at = [final, { blockId: head.header.height }, { finality: "optimistic" }];
  for (const reference of at) {
    const views = [
      { requestType: "view_account", accountId: root.accountId },
      { requestType: "view_code", accountId: alice },
      { requestType: "view_state", accountId: alice, prefixBase64: "", includeProof: !reference.blockId }, // of a block that is not among the newest there may be none
      { requestType: "view_access_key", accountId: alice, publicKey: pair.getPublicKey().toString() },
      { requestType: "view_access_key_list", accountId: alice },
    ];
    for (const view of views) ok((await rpc.query(client, { ...reference, ...view })).blockHeight > 0, view.requestType);
  }
  const view = await rpc.viewAccount(client, { accountId: root.accountId, finality: "final" });
  ok(BigInt(view.amount) > 0n && BigInt(view.locked) > 0n, "amounts");
  await rpc.viewAccessKey(client, { accountId: alice, publicKey: pair.getPublicKey().toString(), finality: "final" });
});
await step("call_function, what it returns, and a call that fails", async () => {
  await account.deployContract(wasm("ft"));
  await account.callFunction({ contractId: alice, methodName: "new", args: { owner_id: alice, total_supply: "12", metadata }, gas: 50_000_000_000_000n, deposit: 0n, waitUntil: "FINAL" });
  const view = { accountId: alice, finality: "optimistic", argsBase64: "e30=" };
  ok((await rpc.viewFunction(client, { ...view, methodName: "ft_metadata" })).result.length > 10, "bytes");
  equal(await rpc.viewFunctionAsJson(client, { ...view, methodName: "ft_total_supply" }), "12", "supply");
  const { result } = await rpc.query(client, { ...view, requestType: "call_function", methodName: "ft_total_supply" });
  equal(rpc.parseCallResultToJson({ result }), "12", "supply");
  await throws("JsonRpcClientError", () => rpc.viewFunction(client, { ...view, methodName: "nothing" }));
});
await step("tx and EXPERIMENTAL_tx_status of a success, a failure and a meta transaction", async () => {
  for (const result of [sent, failed, relayed]) {
    const params = { txHash: result.transaction.hash, senderAccountId: result.transaction.signer_id, waitUntil: "FINAL" };
    equal((await rpc.tx(client, params)).finalExecutionStatus, "FINAL", "tx");
    const all = await rpc.experimentalTxStatus(client, params);
    equal(all.receiptsOutcome.length, all.receipts.length, "receipts");
  }
});
await step("send_tx at each level, broadcast_tx_async, broadcast_tx_commit", async () => {
  for (const waitUntil of ["NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"]) {
    const tx = await newTx();
    const params = { signedTxBase64: base64(tx), waitUntil };
    // neard's answer at NONE and, unless it has run by then, at INCLUDED is the level alone: no form for it in these schemas.
    if (waitUntil.startsWith("N") || waitUntil === "INCLUDED") ok((await client.makeRequest("send_tx", params)).finalExecutionStatus, "level");
    else await rpc.sendTx(client, params);
    await rpc.tx(client, { txHash: await hashOf(tx), senderAccountId: alice, waitUntil: "FINAL" });
    await rpc.tx(client, { signedTxBase64: base64(tx), waitUntil: "EXECUTED" });
  }
  const tx = await newTx();
  equal(await rpc.broadcastTxAsync(client, { signedTxBase64: base64(tx) }), await hashOf(tx), "hash");
  await rpc.tx(client, { txHash: await hashOf(tx), senderAccountId: alice, waitUntil: "FINAL" });
  ok((await rpc.broadcastTxCommit(client, { signedTxBase64: base64(await newTx()) })).status, "status");
});
await step("gas_price", async () => {
  for (const params of [{}, { blockId: null }, { blockId: head.header.height }, { blockId: head.header.hash }]) await rpc.gasPrice(client, params);
});
await step("validators", async () => {
  equal((await rpc.validators(client, "latest")).currentValidators.length, 1, "now");
  await rpc.validators(client, { epochId: head.header.epochId });
});
await step("EXPERIMENTAL_validators_ordered", async () => {
  equal((await rpc.experimentalValidatorsOrdered(client, { blockId: head.header.hash })).length, 1, "validators");
});
await step("congestion level, maintenance windows, split storage", async () => {
  equal((await rpc.experimentalCongestionLevel(client, { blockId: head.header.hash, shardId: head.chunks[0].shardId })).congestionLevel, 0, "level");
  for (const windows of [rpc.maintenanceWindows, rpc.experimentalMaintenanceWindows])
    equal((await windows(client, { accountId: root.accountId })).length, 0, "windows of who makes every block");
  equal((await rpc.experimentalSplitStorageInfo(client, {})).hotDbKind, "RPC", "kind");
});
await step("block_effects and changes, under both names", async () => {
  const at = { blockId: sent.receipts_outcome[0].block_hash };
  for (const effects of [rpc.blockEffects, rpc.experimentalChangesInBlock])
    ok((await effects(client, at)).changes.some((c) => c.accountId === root.accountId), "touched");
  for (const changes of [rpc.changes, rpc.experimentalChanges])
    for (const kind of [
      { changesType: "account_changes", accountIds: [alice, root.accountId] },
      { changesType: "single_access_key_changes", keys: [{ accountId: alice, publicKey: pair.getPublicKey().toString() }] },
      { changesType: "all_access_key_changes", accountIds: [alice] },
      { changesType: "contract_code_changes", accountIds: [alice] },
      { changesType: "data_changes", accountIds: [alice], keyPrefixBase64: "" },
    ]) await changes(client, { ...at, ...kind });
});
// fits parses with a schema that is older than this protocol version: nothing may be wrong but these fields, which nearcore
// has since removed and neard's replies lack too.
function fits(schema, value, removed) {
  const { error } = schema.safeParse(value);
  equal((error?.issues ?? []).map((issue) => issue.path.join(".")).sort(), removed.sort(), "differences from the schema");
}
await step("genesis_config under both names, EXPERIMENTAL_protocol_config", async () => {
  const seats = ["avgHiddenValidatorSeatsPerShard", "numBlockProducerSeatsPerShard"];
  for (const method of ["genesis_config", "EXPERIMENTAL_genesis_config"])
    fits(schemas.GenesisConfigSchema(), await client.makeRequest(method, null), [...seats]);
  for (const at of [final, { blockId: head.header.height }, { syncCheckpoint: "genesis" }])
    fits(schemas.RpcProtocolConfigResponseSchema(), await client.makeRequest("EXPERIMENTAL_protocol_config", at), [...seats, "runtimeConfig.wasmConfig.saturatingFloatToInt"]);
});
await step("client_config", async () => {
  // Durations that may change while neard runs are texts in its replies today; three keys have other names.
  fits(schemas.RpcClientConfigResponseSchema(), await client.makeRequest("client_config", null), [
    "blockFetchHorizon", "blockProductionTrackingDelay", "chunkWaitMult", "doomslugStepPeriod", "epochSync.epochSyncHorizon",
    "maxBlockProductionDelay", "maxBlockWaitDelay", "minBlockProductionDelay", "stateSyncEnabled",
  ]);
});
await step("EXPERIMENTAL_receipt", async () => {
  for (const result of [sent, failed, relayed])
    for (const outcome of result.receipts_outcome) equal((await rpc.experimentalReceipt(client, { receiptId: outcome.id })).receiptId, outcome.id, "receipt");
});
await step("light client: next block and proofs, under their names", async () => {
  await rpc.nextLightClientBlock(client, { lastBlockHash: (await rpc.block(client, { blockId: 1 })).header.hash });
  const lightClientHead = (await rpc.block(client, final)).header.hash;
  for (const proof of [rpc.lightClientProof, rpc.experimentalLightClientProof]) {
    await proof(client, { type: "transaction", transactionHash: sent.transaction.hash, senderId: alice, lightClientHead });
    await proof(client, { type: "receipt", receiptId: sent.receipts_outcome[0].id, receiverId: root.accountId, lightClientHead });
  }
  await rpc.experimentalLightClientBlockProof(client, { blockHash: sent.transaction_outcome.block_hash, lightClientHead });
});
await step("errors carry code and data", async () => {
  const error = await throws("JsonRpcClientError", () => rpc.query(client, { ...final, requestType: "view_account", accountId: "nobody.near" }));
  equal([error.code, error.message], [-32000, "Server error"], "error");
  ok(String(error.data).startsWith("account nobody.near does not exist while viewing"), error.data);
  const bad = await throws("JsonRpcClientError", () => client.makeRequest("block", { block_id: "bad" }));
  equal(bad.code, -32700, "code");
});

done();
