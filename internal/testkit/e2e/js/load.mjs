// Load by clients as they are, on a network: near-api-js 7 transfers and calls a contract, near-kit does both. Each
// waits until a transaction is final before it sends the next one, checks what it returned, and reads. NEAR_RPC_URLS
// are nodes, which serve all the while. It runs until its standard input ends, and its last line says as JSON what was
// sent, and what failed.
import { readFileSync } from "node:fs";
import * as near from "near-api-js";
import { Near } from "near-kit";
import { equal, need, url, validatorKey } from "./check.mjs";

const { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions, nearToYocto } = near;
const urls = need("NEAR_RPC_URLS").split(",");
const gas = 50_000_000_000_000n;
const accountAt = (at, id, pair) =>
  new Account(id, new JsonRpcProvider({ url: at }, { retries: 1, wait: 100, backoff: 1 }), KeyPairSigner.fromSecretKey(pair.toString()));

const key = validatorKey();
const root = accountAt(url, key.account_id, key.secret_key);
const run = (from, receiverId, ...list) => from.signAndSendTransaction({ receiverId, actions: list, waitUntil: "FINAL" });
const add = (pair) => actions.addFullAccessKey(pair.getPublicKey());
const result = (outcome) => JSON.parse(Buffer.from(outcome.status.SuccessValue, "base64").toString());

const sent = { transfers: 0, calls: 0, reads: 0 };
const failed = [];
let slowest = 0;
let stopped = false;

// count runs one request and counts it, or its failure.
async function count(kind, what, body) {
  const began = performance.now();
  try {
    await body();
    sent[kind]++;
  } catch (error) {
    failed.push(`${new Date().toISOString()} ${what}: ${error?.name} ${error?.message} ${JSON.stringify(error?.details ?? error?.cause ?? {})}`.slice(0, 600));
  }
  if (kind !== "reads") slowest = Math.max(slowest, performance.now() - began);
}

// --- accounts, and the contract that all call
const book = { id: `book.${root.accountId}`, pair: KeyPair.fromRandom("ed25519") };
const workers = urls.flatMap((at, i) =>
  ["api", "kit", "api2", "kit2"].map((name) => ({ at, lib: name.slice(0, 3), id: `${name}-${i}.${root.accountId}`, pair: KeyPair.fromRandom("ed25519") })),
);
for (const { id, pair } of [book, ...workers]) await run(root, id, actions.createAccount(), actions.transfer(nearToYocto("100")), add(pair));
await run(
  accountAt(url, book.id, book.pair),
  book.id,
  actions.deployContract(new Uint8Array(readFileSync(need("GUESTBOOK")))),
  actions.functionCall("new", { owner: root.accountId, opens_ms: 0 }, gas, 0n),
);

async function byApi({ at, id, pair }) {
  const account = accountAt(at, id, pair);
  await count("transfers", "near-api-js transfer", async () => equal((await run(account, root.accountId, actions.transfer(1n))).status, { SuccessValue: "" }, "status"));
  await count("calls", "near-api-js call", async () => {
    const outcome = await run(account, book.id, actions.functionCall("sign", { text: id }, gas, 1n));
    if (!(result(outcome) > 0)) throw new Error(`the call returned ${JSON.stringify(outcome.status)}`);
  });
  await count("reads", "near-api-js read", async () => {
    const n = await account.provider.callFunction({ contractId: book.id, method: "len", args: {} });
    if (!(n > 0)) throw new Error(`len returned ${n}`);
  });
}

async function byKit({ at, id, pair, kit }) {
  await count("transfers", "near-kit transfer", () => kit.transaction(id).transfer(root.accountId, "1 yocto").send({ waitUntil: "FINAL" }));
  await count("calls", "near-kit call", async () => {
    const outcome = await kit.call(book.id, "payout", {}, { gas: "100 Tgas" });
    equal(result(outcome), "paid", "payout");
  });
  await count("reads", "near-kit read", async () => {
    const messages = await kit.view(book.id, "messages", { limit: 3 });
    if (messages.length === 0) throw new Error("no messages");
  });
}

process.stdin.resume();
process.stdin.on("end", () => (stopped = true));
console.log("running");
await Promise.all(
  workers.map(async (w) => {
    w.kit = new Near({
      network: { rpcUrl: w.at, networkId: "localnet" },
      privateKey: w.pair.toString(),
      defaultSignerId: w.id,
      defaultWaitUntil: "FINAL",
      retryConfig: { maxRetries: 0, initialDelayMs: 1 },
    });
    while (!stopped) await (w.lib === "api" ? byApi(w) : byKit(w));
  }),
);
console.log(JSON.stringify({ ...sent, failed: failed.length, slowest_ms: Math.round(slowest), failures: failed.slice(0, 20) }));
process.exit(failed.length === 0 ? 0 : 1);
