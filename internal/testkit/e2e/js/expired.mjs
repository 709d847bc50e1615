// An expired block hash, on a chain whose transactions stay valid for a few seconds only: near-api-js' typed error, for a
// transaction with an old hash, and for one that was executed and is sent again too late.
import * as near from "near-api-js";
import { done, ok, step, throws, url, validatorKey } from "./check.mjs";

const { Account, JsonRpcProvider, KeyPairSigner, actions } = near;
const provider = new JsonRpcProvider({ url }, { retries: 1 });
const key = validatorKey();
const root = new Account(key.account_id, provider, KeyPairSigner.fromSecretKey(key.secret_key));
const validity = 20; // as the test wrote into genesis.json

const executed = await root.createSignedTransaction({ receiverId: "near", actions: [actions.transfer(1n)] });
await step("a fresh one is executed", async () => {
  const result = await provider.sendTransactionUntil(executed, "FINAL");
  ok(result.final_execution_status === "FINAL", result.final_execution_status);
});
const old = await root.createSignedTransaction({ receiverId: "near", actions: [actions.transfer(1n)] });
const begin = (await provider.viewBlock({ finality: "optimistic" })).header.height;
while ((await provider.viewBlock({ finality: "optimistic" })).header.height <= begin + validity + 1) await new Promise((wake) => setTimeout(wake, 100));
await step("one that waited too long is not", () => throws("TransactionExpiredError", () => provider.sendTransactionUntil(old, "FINAL")));
await step("nor one that was executed, as it is checked again", () => throws("TransactionExpiredError", () => provider.sendTransactionUntil(executed, "FINAL")));
await step("its outcome is still to be had", async () => {
  const bytes = near.encodeTransaction(executed.transaction);
  const txHash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const { status } = await provider.viewTransactionStatus({ txHash, accountId: key.account_id, waitUntil: "FINAL" });
  ok(status.SuccessValue === "", JSON.stringify(status));
});
await step("a new one is", async () => {
  await root.signAndSendTransaction({ receiverId: "near", actions: [actions.transfer(1n)], waitUntil: "FINAL" });
});

done();
