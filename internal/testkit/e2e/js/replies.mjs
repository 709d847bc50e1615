// Every reply of every method about a recorded chain, read by the zod schemas of @near-js/jsonrpc-types by way of @near-js/jsonrpc-client, which parses the
// whole answer and throws at the first thing that does not fit. What the schemas want that neard's own replies lack is named in `lacking`.
import * as rpc from "@near-js/jsonrpc-client";
import { call, done, equal, ok, step, url } from "./check.mjs";

// These schemas are older than this nearcore: of a global contract they want {"CodeHash"} or {"AccountId"} where it says {"hash"} or {"account_id"}, and they
// know no action that has come since. Who reads neard's replies by them fails there; here they get what they know, so that the rest is read too.
const unknown = new Map(); // what was changed for them -> times
const older = (value) => {
  if (Array.isArray(value)) return value.map(older);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const [only, ...more] = inner !== null && typeof inner === "object" ? Object.keys(inner) : [];
      if (["id", "identifier"].includes(name) && more.length === 0 && ["hash", "account_id"].includes(only)) {
        unknown.set("global contract", (unknown.get("global contract") ?? 0) + 1);
        return [name, { [only === "hash" ? "CodeHash" : "AccountId"]: inner[only] }];
      }
      if (name === "actions" && Array.isArray(inner))
        return [name, inner.map((action) => {
          const kind = typeof action === "string" ? action : Object.keys(action)[0];
          if (!["DeterministicStateInit", "TransferToGasKey", "WithdrawFromGasKey", "DelegateV2"].includes(kind)) return older(action);
          unknown.set(kind, (unknown.get(kind) ?? 0) + 1);
          return "CreateAccount";
        })];
      return [name, older(inner)];
    }),
  );
};
const plain = globalThis.fetch;
globalThis.fetch = async (...request) => {
  const reply = await plain(...request);
  return new Response(JSON.stringify(older(await reply.json())), { status: reply.status, headers: { "content-type": "application/json" } });
};
const client = new rpc.NearRpcClient({ endpoint: url, retries: 0 });
const asked = new Map(); // method -> replies that were parsed
const refused = new Map(); // method: reason -> times
const wrong = new Map(); // what a schema did not take -> times

// ask calls a method; an error of the protocol is an answer too, if the caller names its cause.
async function ask(name, params, ...causes) {
  try {
    const reply = await rpc[name](client, params);
    asked.set(name, (asked.get(name) ?? 0) + 1);
    return reply;
  } catch (error) {
    const text = `${error?.message} ${JSON.stringify(error?.data ?? null)} ${JSON.stringify(error?.cause ?? null)}`;
    if (error?.constructor?.name === "JsonRpcClientError" && causes.some((cause) => text.includes(cause))) {
      refused.set(name, (refused.get(name) ?? 0) + 1);
      return null;
    }
    const what = `${name}: ${reason(error)}`;
    wrong.set(what, { times: (wrong.get(what)?.times ?? 0) + 1, params });
    return null;
  }
}

// reason is what a schema did not take: of a union that which went furthest.
function reason(error) {
  const at = String(error?.message).indexOf("[");
  let issues;
  try {
    issues = JSON.parse(String(error.message).slice(at));
  } catch {
    return `${error?.constructor?.name}: ${String(error?.message).slice(0, 400)} ${JSON.stringify(error?.data ?? null).slice(0, 200)}`;
  }
  const deep = (issue, base) => {
    const path = [...base, ...issue.path];
    if (!issue.errors) return [{ path, text: issue.message + (issue.expected ? `, want ${issue.expected}` : "") + (issue.values ? `, want ${issue.values}` : "") + (issue.keys ? ` ${issue.keys}` : "") }];
    return issue.errors.map((list) => list.flatMap((one) => deep(one, path))).sort((a, b) => Math.max(...b.map((x) => x.path.length)) - Math.max(...a.map((x) => x.path.length)) || a.length - b.length)[0];
  };
  return [...new Set(issues.flatMap((issue) => deep(issue, [])).map(({ path, text }) => `${path.map((x) => (typeof x === "number" ? "#" : x)).join(".")}: ${text}`))].sort().join("; ");
}

const none = "11111111111111111111111111111111";
const blocks = [];
const accounts = new Set();
const transactions = new Map(); // hash -> signer
const counts = { blocks: 0, shards: 0, missed: 0, chunks: 0, transactions: 0, receipts: 0, failures: 0, calls: 0, codes: 0 };
const final = { finality: "final" };

// some takes at most n of a list, from all over it.
const some = (list, n) => list.filter((_, i) => Math.floor((i * n) / list.length) !== Math.floor(((i - 1) * n) / list.length));
// told are the blocks that more is asked of: some of each kind.
const told = new Set();
const chunks = [];
await step("blocks and chunks, new and missed", async () => {
  // All are looked at, and some are read by the schemas, which takes its time.
  const kinds = { missed: [], transactions: [], receipts: [], epochs: [], quiet: [] };
  for (let at = { finality: "optimistic" }; ; ) {
    const { result: block } = (await call("block", at)).body;
    blocks.push(block);
    counts.missed += block.chunks.filter((chunk) => chunk.height_included !== block.header.height).length;
    const own = [];
    for (const header of block.chunks)
      if (header.height_included === block.header.height) own.push((await call("chunk", { chunk_id: header.chunk_hash })).body.result);
    counts.chunks += own.length;
    for (const chunk of own) {
      for (const tx of chunk.transactions) {
        transactions.set(tx.hash, tx.signer_id);
        accounts.add(tx.signer_id).add(tx.receiver_id);
      }
      for (const receipt of chunk.receipts) accounts.add(receipt.receiver_id);
      counts.receipts += chunk.receipts.length;
    }
    const kind =
      own.length < block.chunks.length ? "missed"
      : own.some((chunk) => chunk.transactions.length) ? "transactions"
      : own.some((chunk) => chunk.receipts.length) ? "receipts"
      : block.header.epoch_id !== blocks.at(-2)?.header.epoch_id ? "epochs"
      : "quiet";
    kinds[kind].push({ block, own });
    if (block.header.prev_hash === none) break;
    at = { block_id: block.header.prev_hash };
  }
  for (const kind of Object.values(kinds))
    for (const { block, own } of some(kind, 8)) {
      told.add(block);
      await ask("block", { blockId: block.header.hash });
      for (const header of block.chunks) await ask("chunk", { blockId: block.header.hash, shardId: header.shard_id }); // of a missed one the one before
      for (const chunk of own) chunks.push(chunk);
    }
  for (const chunk of some(chunks, 20)) await ask("chunk", { chunkId: chunk.header.chunk_hash });
  for (const at of [{ finality: "optimistic" }, { finality: "near-final" }, final, { syncCheckpoint: "genesis" }, { syncCheckpoint: "earliest_available" }]) await ask("block", at);
  counts.blocks = blocks.length;
  counts.shards = blocks[0].chunks.length;
  counts.transactions = transactions.size;
});
const head = blocks[0];
const receipts = new Map(); // id -> receiver
await step("transactions and their receipts", async () => {
  // Of each kind of action, status and failure some are read.
  const seen = new Map();
  for (const [txHash, senderAccountId] of transactions) {
    const { body } = await call("EXPERIMENTAL_tx_status", { tx_hash: txHash, sender_account_id: senderAccountId, wait_until: "NONE" });
    const result = body.result;
    if (!result?.receipts_outcome) continue;
    const kinds = [];
    for (const { id, outcome } of result.receipts_outcome) {
      receipts.set(id, outcome.executor_id);
      if (outcome.status.Failure) counts.failures++;
      kinds.push(JSON.stringify(outcome.status).replace(/"(index|amount|balance|account_id|cost|stake|[a-z_]*_id|SuccessReceiptId|SuccessValue|public_key|ExecutionError)":"?[^",}]*"?/g, "$1"));
    }
    const actions = result.transaction.actions.map((action) => (typeof action === "string" ? action : Object.keys(action)[0]));
    if (actions.includes("FunctionCall")) counts.calls++;
    const kind = [...new Set([...actions, ...kinds])].sort().join();
    seen.set(kind, (seen.get(kind) ?? 0) + 1);
    if (seen.get(kind) > 1) continue;
    const params = { txHash, senderAccountId, waitUntil: "NONE" };
    await ask("tx", params);
    await ask("experimentalTxStatus", params);
    for (const { receipt_id: receiptId } of result.receipts.slice(0, 4)) await ask("experimentalReceipt", { receiptId });
  }
  counts.kinds = seen.size;
});
await step("accounts: state, code, keys, data, calls", async () => {
  for (const accountId of some([...accounts], 20)) {
    for (const at of [{ finality: "optimistic" }, { blockId: blocks[blocks.length >> 1].header.hash }]) {
      const gone = ["UNKNOWN_ACCOUNT", "does not exist", "while viewing"];
      const account = await ask("query", { ...at, requestType: "view_account", accountId }, ...gone);
      if (!account) continue;
      const keys = await ask("query", { ...at, requestType: "view_access_key_list", accountId });
      for (const { publicKey } of (keys?.keys ?? []).slice(0, 1)) await ask("query", { ...at, requestType: "view_access_key", accountId, publicKey });
      if (account.codeHash !== none) {
        counts.codes++;
        await ask("query", { ...at, requestType: "view_code", accountId });
        await ask("query", { ...at, requestType: "call_function", accountId, methodName: "get", argsBase64: "" }, "wasm execution failed", "MethodNotFound", "CONTRACT_EXECUTION_ERROR");
      }
      await ask("query", { ...at, requestType: "view_state", accountId, prefixBase64: "" }, "too large", "TOO_LARGE");
      await ask("query", { finality: "optimistic", requestType: "view_state", accountId, prefixBase64: "", includeProof: true }, "too large", "TOO_LARGE");
    }
    await ask("viewAccount", { ...final, accountId }, "does not exist");
  }
});
await step("what blocks changed, under both names", async () => {
  let n = 0;
  for (const block of told) {
    const at = { blockId: block.header.hash };
    const effects = await ask("blockEffects", at);
    await ask("experimentalChangesInBlock", at);
    const accountIds = [...new Set((effects?.changes ?? []).map((change) => change.accountId))];
    for (const name of [["changes", "experimentalChanges"][n++ % 2]]) {
      await ask(name, { ...at, changesType: "account_changes", accountIds });
      await ask(name, { ...at, changesType: "all_access_key_changes", accountIds });
      await ask(name, { ...at, changesType: "contract_code_changes", accountIds });
      await ask(name, { ...at, changesType: "data_changes", accountIds, keyPrefixBase64: "" });
    }
    await ask("gasPrice", at);
    await ask("experimentalValidatorsOrdered", at);
    await ask("nextLightClientBlock", { lastBlockHash: block.header.hash }, "EPOCH_OUT_OF_BOUNDS", "UNKNOWN_BLOCK");
    for (const { shard_id: shardId } of block.chunks.slice(0, 2)) await ask("experimentalCongestionLevel", { ...at, shardId });
  }
});
await step("validators of each epoch", async () => {
  await ask("validators", "latest");
  for (const epochId of some([...new Set(blocks.map((block) => block.header.epoch_id))], 6)) await ask("validators", { epochId }, "UNKNOWN_EPOCH", "VALIDATOR_INFO_UNAVAILABLE");
});
await step("proofs", async () => {
  const lightClientHead = (await rpc.block(client, final)).header.hash;
  const unconfirmed = ["has not been confirmed", "not on current chain"]; // of the last blocks there
  let n = 0;
  for (const [transactionHash, senderId] of transactions) {
    if (n++ === 12) break;
    for (const name of ["lightClientProof", "experimentalLightClientProof"])
      await ask(name, { type: "transaction", transactionHash, senderId, lightClientHead }, ...unconfirmed);
  }
  n = 0;
  for (const [receiptId, receiverId] of receipts)
    if (n++ < 12) await ask("lightClientProof", { type: "receipt", receiptId, receiverId, lightClientHead }, ...unconfirmed);
  for (const block of some(blocks.slice(4, -1), 6))
    await ask("experimentalLightClientBlockProof", { blockHash: block.header.hash, lightClientHead });
});
await step("the node itself", async () => {
  for (const name of ["status", "health", "networkInfo"]) await ask(name, undefined);
  for (const name of ["maintenanceWindows", "experimentalMaintenanceWindows"]) await ask(name, { accountId: head.header ? "test.near" : "" }, "not a validator", "INTERNAL_ERROR", "validator");
  await ask("experimentalSplitStorageInfo", {});
});
await step("nothing was wrong", async () => {
  console.log(JSON.stringify(counts));
  if (unknown.size) console.log("unknown to the schemas:", Object.fromEntries(unknown));
  console.log(Object.fromEntries(asked));
  if (refused.size) console.log("refused, as it should be:", Object.fromEntries(refused));
  for (const [what, { times, params }] of [...wrong].slice(0, 40)) console.log(`wrong ${times} times: ${what}\n      first by ${JSON.stringify(params)}`);
  equal(wrong.size, 0, "kinds of replies that the schemas do not take");
});
await step("the chain has what it should", async () => {
  for (const [name, least] of Object.entries(JSON.parse(process.env.REPLIES_LEAST ?? "{}"))) ok(counts[name] >= least, `${name} ${counts[name]} is at least ${least}`);
});

done();
