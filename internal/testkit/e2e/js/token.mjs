// near-api-js 7, unmodified, with contracts: deploys a token, mints, transfers, transfers with a receiver that refunds, views,
// state by prefix, upgrade, gas profile, and every way in which the library types a call that fails.
import { createHash } from "node:crypto";
import * as near from "near-api-js";
import * as errors from "near-api-js/rpc-errors";
import { FungibleToken } from "near-api-js/tokens";
import { call, done, equal, ok, step, throws, url, validatorKey } from "./check.mjs";
import { amountOf, b64, events, metadata, profile, storagePrice, wasm } from "./contracts.mjs";

const { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions, nearToYocto, teraToGas } = near;
const provider = new JsonRpcProvider({ url }, { retries: 1, wait: 100, backoff: 1 });
const key = validatorKey();
const root = new Account(key.account_id, provider, KeyPairSigner.fromSecretKey(key.secret_key));
const optimistic = { blockQuery: { finality: "optimistic" } };

// made is a sub-account with some NEAR; names are spread over the shards.
async function made(name) {
  const pair = KeyPair.fromRandom("ed25519");
  const id = `${name}.${root.accountId}`;
  await root.createAccount({ newAccountId: id, publicKey: pair.getPublicKey(), nearToTransfer: nearToYocto("100") });
  return new Account(id, provider, KeyPairSigner.fromSecretKey(pair.toString()));
}
const [token, alice, bob, defi, panicker, burner] = [
  await made("token"), await made("alice"), await made("bob"), await made("zdefi"), await made("panicker"), await made("burner"),
];
const view = (contract, method, args = {}) => provider.callFunction({ contractId: contract.accountId, method, args, ...optimistic });
const balanceOf = async (account) => BigInt(await view(token, "ft_balance_of", { account_id: account.accountId }));
// change calls a method and returns the whole outcome.
const change = (from, contract, methodName, args, { deposit = 0n, gas = 100 } = {}) =>
  from.callFunctionRaw({ contractId: contract.accountId, methodName, args, deposit, gas: teraToGas(gas), waitUntil: "FINAL" });

await step("deploy and initialise a token in one transaction", async () => {
  const result = await token.signAndSendTransaction({
    receiverId: token.accountId,
    actions: [
      actions.deployContract(wasm("ft")),
      actions.functionCall("new", { owner_id: token.accountId, total_supply: "1000000", metadata }, teraToGas(50), 0n),
    ],
    waitUntil: "FINAL",
  });
  equal(events(result), [
    { standard: "nep141", version: "1.0.0", event: "ft_mint", data: [{ owner_id: token.accountId, amount: "1000000", memo: "new tokens are minted" }] },
  ], "events");
  for (const [account, name] of [[defi, "defi"], [panicker, "panicker"], [burner, "burner"]]) await account.deployContract(wasm(name));
  const code = await provider.viewContractCode({ contractId: token.accountId, ...optimistic });
  equal(Buffer.from(code.code).equals(Buffer.from(wasm("ft"))), true, "code");
  equal(code.hash, near.baseEncode(createHash("sha256").update(wasm("ft")).digest()), "code hash");
});
await step("register accounts, with change", async () => {
  for (const account of [alice, bob, defi]) {
    const result = await change(root, token, "storage_deposit", { account_id: account.accountId }, { deposit: 2n * storagePrice });
    equal(JSON.parse(Buffer.from(result.status.SuccessValue, "base64")), { total: `${storagePrice}`, available: "0" }, "result");
    ok(result.receipts_outcome.length >= 3, "the call, the change and a refund");
  }
  equal(await view(token, "storage_balance_of", { account_id: alice.accountId }), { total: `${storagePrice}`, available: "0" }, "balance");
  equal(await view(token, "storage_balance_of", { account_id: "nobody.near" }), null, "of nobody");
});
await step("mint by the owner", async () => {
  await change(token, token, "ft_mint", { account_id: alice.accountId, amount: "5000" }, { deposit: 1n });
  equal(await balanceOf(alice), 5000n, "balance");
  equal(await view(token, "ft_total_supply"), "1005000", "supply");
  await throws("ContractExecutionError", () => change(alice, token, "ft_mint", { account_id: alice.accountId, amount: "1" }, { deposit: 1n }));
});
await step("transfer by the library's own class", async () => {
  const ft = new FungibleToken(token.accountId, { ...metadata });
  await ft.transfer({ from: alice, receiverId: bob.accountId, amount: 700n });
  equal(await ft.getBalance(bob), 700n, "balance");
  equal(await balanceOf(alice), 4300n, "rest");
});
await step("transfer_call: the receiver keeps all, a part, nothing", async () => {
  for (const [msg, used] of [["take", "100"], ["refund:30", "70"], ["return", "0"], ["promise:40", "60"], ["panic", "0"], ["garbage", "0"]]) {
    const before = await balanceOf(alice);
    const result = await change(alice, token, "ft_transfer_call", { receiver_id: defi.accountId, amount: "100", msg }, { deposit: 1n });
    equal(JSON.parse(Buffer.from(result.status.SuccessValue, "base64").toString()), used, `used at ${msg}`);
    equal(before - (await balanceOf(alice)), BigInt(used), `paid at ${msg}`);
    equal(events(result).map((e) => [e.event, e.data[0].memo]), used === "100" ? [["ft_transfer", undefined]] : [["ft_transfer", undefined], ["ft_transfer", "refund"]], "events");
  }
  equal(await view(defi, "deposited", { token_id: token.accountId, account_id: alice.accountId }), "170", "kept by the receiver");
});
await step("views", async () => {
  equal(await view(token, "ft_metadata"), metadata, "metadata");
  equal(await view(token, "storage_balance_bounds"), { min: `${storagePrice}`, max: `${storagePrice}` }, "bounds");
  equal(await view(token, "version"), "1.0.0", "version");
  const raw = await provider.callFunctionRaw({ contractId: token.accountId, method: "ft_total_supply", args: {}, ...optimistic });
  equal(Buffer.from(raw.result).toString(), '"1005000"', "bytes");
  equal(raw.logs, [], "logs");
});
await step("state by prefix", async () => {
  const state = await provider.viewContractState({ contractId: token.accountId, prefix: "a", ...optimistic });
  const got = Object.fromEntries(state.values.map((item) => [Buffer.from(item.key, "base64").toString().slice(1), amountOf(item.value)]));
  equal(got, {
    [alice.accountId]: await balanceOf(alice), [bob.accountId]: 700n, [defi.accountId]: await balanceOf(defi), [token.accountId]: 1000000n,
  }, "balances");
  const all = await provider.viewContractState({ contractId: token.accountId, prefix: "", ...optimistic });
  equal(all.values.map((item) => item.key).filter((k) => !k.startsWith("Y")).sort(), [b64("m"), b64("o"), b64("t")].sort(), "other keys");
});
await step("the gas profile adds up", async () => {
  const result = await change(alice, token, "ft_transfer", { receiver_id: bob.accountId, amount: "1" }, { deposit: 1n });
  const receipt = result.receipts_outcome[0];
  equal(receipt.outcome.metadata.version, 4, "version");
  const costs = profile(receipt);
  equal(costs.CONTRACT_LOADING_BYTES, 1089295n * BigInt(wasm("ft").length), "loading of the bytes");
  equal(costs.CONTRACT_LOADING_BASE, 35445963n, "loading");
  equal(costs.STORAGE_WRITE_BASE, 2n * 64196736000n, "two writes");
  ok(costs.WASM_INSTRUCTION > 0n, "instructions");
  const sum = Object.values(costs).reduce((a, b) => a + b, 0n);
  ok(sum <= BigInt(receipt.outcome.gas_burnt) && sum > BigInt(receipt.outcome.gas_burnt) / 20n, `profile ${sum} of ${receipt.outcome.gas_burnt}`);
});
await step("upgrade in place", async () => {
  const failed = await throws("ContractExecutionError", () => change(alice, token, "upgrade", wasm("ft2"), { gas: 200 }));
  ok(failed.message.includes("Only the owner may do this"), failed.message);
  await change(token, token, "upgrade", wasm("ft2"), { gas: 250 });
  equal(await view(token, "version"), "2.0.0", "version");
  equal(await view(token, "ft_owner"), token.accountId, "a new method");
  equal(await balanceOf(bob), 701n, "state stays");
});

// --- what fails, and as which class
const fails = async (contract, method, className, text, args = {}, options) => {
  const error = await throws(className, () => change(alice, contract, method, args, options));
  ok(error.message.includes(text), `${method}: ${error.message}, want ${text}`);
  return error;
};
await step("a call that panics, traps, or burns all its gas", async () => {
  const error = await fails(panicker, "panic_utf8", "ContractExecutionError", "Smart contract panicked: I meant to");
  ok(error instanceof errors.ContractExecutionError && error.transactionResult.receipts_outcome.length > 0, "the outcome comes with it");
  await fails(panicker, "panic", "ContractExecutionError", "Smart contract panicked: explicit guest panic");
  await fails(panicker, "unreachable", "ContractExecutionError", "WebAssembly trap: An `unreachable` opcode was executed.");
  await fails(panicker, "divide", "ContractExecutionError", "WebAssembly trap: An arithmetic exception, e.g. divided by zero.");
  await fails(panicker, "out_of_bounds", "ContractExecutionError", "WebAssembly trap: Memory out of bounds trap.");
  await fails(panicker, "stack", "ContractExecutionError", "Accessed memory outside the bounds.");
  await fails(panicker, "balance", "ContractExecutionError", "Exceeded the account balance.");
  await fails(burner, "spin", "ContractExecutionError", "Exceeded the prepaid gas.", {}, { gas: 10 });
});
await step("a method that is not there, one nobody can call, no contract", async () => {
  await throws("ContractMethodNotFoundError", () => change(alice, panicker, "nothing_of_that_name", {}));
  await throws("ContractMethodInvalidSignatureError", () => change(alice, panicker, "takes_a_parameter", {}));
  const none = await throws("ContractCodeDoesNotExistError", () => change(alice, bob, "m", {}));
  equal(none.contractId, bob.accountId, "of whom");
});
await step("a failure deep in the tree is found by the receipt", async () => {
  const result = await change(alice, token, "ft_transfer_call", { receiver_id: defi.accountId, amount: "1", msg: "panic" }, { deposit: 1n });
  const failed = result.receipts_outcome.filter((r) => r.outcome.status.Failure);
  equal(failed.map((r) => r.outcome.executor_id), [defi.accountId], "who failed");
  equal(failed[0].outcome.status.Failure.ActionError.kind.FunctionCallError, { ExecutionError: "Smart contract panicked: the receiver does not want this" }, "why");
});
await step("views that fail", async () => {
  // What the old form of `query` says as a text, the library types only for methods and code that are not there.
  const of = async (className, contract, method) => (await throws(className, () => view(contract, method))).message;
  const failed = "wasm execution failed with error: ";
  equal(await of("RpcError", panicker, "writes"), `${failed}HostError(ProhibitedInView { method_name: "storage_write" })`, "writes");
  equal(await of("RpcError", panicker, "panic_utf8"), `${failed}HostError(GuestPanic { panic_msg: "I meant to" })`, "panics");
  equal(await of("RpcError", panicker, "divide"), `${failed}WasmTrap(IllegalArithmetic)`, "divides");
  equal(await of("RpcError", burner, "spin"), `${failed}HostError(GasLimitExceeded)`, "spins");
  for (const [method, name] of [["signer", "signer_account_id"], ["bad_account", "promise_batch_create"]]) {
    const { body } = await call("query", { request_type: "call_function", finality: "optimistic", account_id: panicker.accountId, method_name: method, args_base64: "" });
    equal(body.result.error, `${failed}HostError(ProhibitedInView { method_name: "${name}" })`, method);
  }
  await of("ContractMethodNotFoundError", panicker, "nothing_of_that_name");
  await of("ContractCodeDoesNotExistError", bob, "m");
  // The new form has the error itself, with host errors as texts.
  const fresh = async (className, method) =>
    (await throws(className, () => provider.sendJsonRpc("EXPERIMENTAL_call_function", { finality: "optimistic", account_id: panicker.accountId, method_name: method, args_base64: "" }))).message;
  equal(await fresh("ContractExecutionError", "writes"), "storage_write is not allowed in view calls", "writes, new form");
  equal(await fresh("ContractExecutionError", "panic_utf8"), "Smart contract panicked: I meant to", "panics, new form");
  await fresh("ContractMethodNotFoundError", "nothing_of_that_name");
  equal(await view(panicker, "context"), panicker.accountId, "what views may do");
});

done();
