// The older packages, unmodified: @near-js/accounts 1, providers 1, keystores, signers, transactions and crypto, of which near-api-js 5 is made.
import { createRequire } from "node:module";
import { done, equal, ok, step, throws, url, validatorKey } from "./check.mjs";
import { metadata, storagePrice, wasm } from "./contracts.mjs";

const require = createRequire(import.meta.url); // their modules for import name files that Node does not find
const { Account, Connection, Contract, LocalAccountCreator } = require("@near-js/accounts");
const { KeyPair } = require("@near-js/crypto");
const { InMemoryKeyStore } = require("@near-js/keystores");
const { FailoverRpcProvider, JsonRpcProvider } = require("@near-js/providers");
const { InMemorySigner } = require("@near-js/signers");
const { actionCreators } = require("@near-js/transactions");

const key = validatorKey();
const provider = new JsonRpcProvider({ url }, { retries: 1, wait: 100, backoff: 1 });
const store = new InMemoryKeyStore();
await store.setKey("localnet", key.account_id, KeyPair.fromString(key.secret_key));
const connection = new Connection("localnet", provider, new InMemorySigner(store), "");
const root = new Account(connection, key.account_id);
const near = (n) => BigInt(n) * 10n ** 24n;
const final = { finality: "final" };

// made is a sub-account with a key in the store.
async function made(name, amount = 100) {
  const pair = KeyPair.fromRandom("ed25519");
  const id = `${name}.${root.accountId}`;
  await store.setKey("localnet", id, pair);
  await root.createAccount(id, pair.getPublicKey(), near(amount));
  return new Account(connection, id);
}
let alice, token, sent;

await step("accounts: create, state, balance, keys, details", async () => {
  alice = await made("alice");
  equal((await alice.state()).amount, near(100).toString(), "amount");
  equal((await alice.getAccountBalance()).total, near(100).toString(), "balance");
  equal((await alice.getAccessKeys()).length, 1, "keys");
  const other = KeyPair.fromRandom("ed25519");
  await alice.addKey(other.getPublicKey(), root.accountId, ["m"], near(1));
  equal((await alice.getAccountDetails()).authorizedApps.length, 1, "authorized apps");
  await alice.deleteKey(other.getPublicKey());
  equal((await alice.getAccessKeys()).length, 1, "keys left");
  const pair = KeyPair.fromRandom("ed25519");
  await new LocalAccountCreator(root, near(3)).createAccount(`local.${root.accountId}`, pair.getPublicKey());
  equal((await new Account(connection, `local.${root.accountId}`).state()).amount, near(3).toString(), "of the creator");
});
await step("transfers, alone and many at once", async () => {
  sent = await alice.sendMoney(root.accountId, near(1));
  equal(sent.status, { SuccessValue: "" }, "status");
  await alice.signAndSendTransaction({ receiverId: root.accountId, actions: [actionCreators.transfer(1n), actionCreators.transfer(2n)] });
});
await step("contracts: deploy, call, view, a class of methods, state", async () => {
  token = await made("token");
  await token.deployContract(wasm("ft"));
  await token.functionCall({ contractId: token.accountId, methodName: "new", args: { owner_id: token.accountId, total_supply: "10", metadata }, gas: 50_000_000_000_000n });
  await alice.functionCall({ contractId: token.accountId, methodName: "storage_deposit", args: {}, gas: 50_000_000_000_000n, attachedDeposit: storagePrice });
  await token.functionCall({ contractId: token.accountId, methodName: "ft_mint", args: { account_id: alice.accountId, amount: "5" }, gas: 50_000_000_000_000n, attachedDeposit: 1n });
  equal(await alice.viewFunction({ contractId: token.accountId, methodName: "ft_balance_of", args: { account_id: alice.accountId } }), "5", "balance");
  const contract = new Contract(alice, token.accountId, { viewMethods: ["ft_total_supply"], changeMethods: ["ft_transfer"], useLocalViewExecution: false });
  equal(await contract.ft_total_supply({}), "15", "supply");
  await contract.ft_transfer({ args: { receiver_id: token.accountId, amount: "2" }, amount: "1" }).then(
    () => ok(true, "sent"),
    (error) => ok(String(error).length > 0, "an error that says something"),
  );
  ok((await token.viewState("")).length > 0, "state");
  const local = new Contract(alice, token.accountId, { viewMethods: ["ft_total_supply"], changeMethods: [], useLocalViewExecution: true });
  equal(await local.ft_total_supply({}), "15", "supply, executed by the library itself");
});
await step("meta transactions and stake", async () => {
  // Another object of the account: one that has sent something remembers the nonce of before, and each of its transactions is refused once for it.
  const signed = await new Account(connection, alice.accountId).signedDelegate({ actions: [actionCreators.transfer(3n)], blockHeightTtl: 60, receiverId: root.accountId });
  const relayed = await root.signAndSendTransaction({ receiverId: alice.accountId, actions: [actionCreators.signedDelegate(signed)] });
  equal(relayed.status, { SuccessValue: "" }, "status");
  await root.stake(key.public_key, near(50_000_003));
});
await step("errors have their types", async () => {
  const error = await throws("TypedError", () => new Account(connection, "nobody.near").state());
  equal(error.type, "AccountDoesNotExist", "type");
  equal((await throws("ServerError", () => alice.sendMoney(root.accountId, near(1_000_000)))).type, "NotEnoughBalance", "type");
  await throws("ServerTransactionError", () => alice.functionCall({ contractId: token.accountId, methodName: "none", args: {}, gas: 50_000_000_000_000n }));
  equal((await throws("TypedError", () => provider.block({ blockId: 1_000_000_000 }))).type, "HANDLER_ERROR", "type");
});
await step("providers: every view", async () => {
  const head = await provider.block(final);
  equal((await provider.status()).chain_id.length > 0, true, "status");
  const at = { blockId: sent.transaction_outcome.block_hash };
  const block = await provider.block(at);
  await provider.chunk(block.chunks[0].chunk_hash);
  await provider.chunk([block.header.height, block.chunks[0].shard_id]);
  ok((await provider.blockChanges(at)).changes.length > 0, "block changes");
  equal((await provider.txStatus(sent.transaction.hash, alice.accountId, "FINAL")).final_execution_status, "FINAL", "tx");
  ok((await provider.txStatusReceipts(sent.transaction.hash, alice.accountId, "FINAL")).receipts.length > 0, "receipts");
  await provider.txStatusString(sent.transaction.hash, alice.accountId, "FINAL");
  ok(BigInt((await provider.gasPrice(null)).gas_price) > 0n, "gas price");
  ok((await provider.validators(null)).current_validators.length >= 1, "validators");
  await provider.validators(head.header.epoch_id).then(() => true, (error) => ok(/epoch/i.test(String(error)), String(error)));
  ok((await provider.experimental_protocolConfig(final)).protocol_version > 80, "protocol");
  await provider.accessKeyChanges([alice.accountId], at);
  await provider.singleAccessKeyChanges([{ account_id: alice.accountId, public_key: (await alice.getAccessKeys())[0].public_key }], at);
  await provider.accountChanges([alice.accountId], at);
  await provider.contractStateChanges([token.accountId], at, "");
  await provider.contractCodeChanges([token.accountId], at);
  await provider.nextLightClientBlock({ last_block_hash: (await provider.block({ blockId: 1 })).header.hash });
  await provider.lightClientProof({ type: "transaction", light_client_head: head.header.hash, transaction_hash: sent.transaction.hash, sender_id: alice.accountId }).then(
    (proof) => ok(proof.outcome_proof, "proof"),
    (error) => ok(/not confirmed|NOT_CONFIRMED/i.test(String(error)), String(error)), // the head is not above it yet
  );
  equal((await provider.query(`account/${alice.accountId}`, "")).amount, (await alice.state()).amount, "by path");
  await provider.query({ request_type: "view_access_key_list", account_id: alice.accountId, finality: "optimistic" });
  const failover = new FailoverRpcProvider([new JsonRpcProvider({ url: "http://127.0.0.1:9" }, { retries: 1, wait: 1, backoff: 1 }), provider]);
  ok((await failover.status()).chain_id.length > 0, "by the second provider");
});
await step("delete an account", async () => {
  await alice.deleteAccount(root.accountId);
  await throws("TypedError", () => alice.state());
});

done();
