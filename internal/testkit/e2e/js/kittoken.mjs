// near-kit, unmodified, with contracts: its schemas check every reply; the token by calls and views, state by pages, upgrade,
// a receiver that refunds, global code, and its errors.
import { Near, generateKey } from "near-kit";
import { done, equal, ok, step, throws, url, validatorKey } from "./check.mjs";
import { amountOf, b64, events, metadata, profile, storagePrice, wasm } from "./contracts.mjs";

const key = validatorKey();
const root = key.account_id;
const client = (id, privateKey) =>
  new Near({ network: { rpcUrl: url, networkId: "localnet" }, privateKey, defaultSignerId: id, defaultWaitUntil: "FINAL", retryConfig: { maxRetries: 0, initialDelayMs: 1 } });
const near = client(root, key.secret_key);
const optimistic = { finality: "optimistic" };

// made is a client of a new account.
async function made(name) {
  const id = `${name}.${root}`;
  const pair = generateKey();
  await near.transaction(root).createAccount(id).transfer(id, "100 NEAR").addKey(pair.publicKey.toString(), { type: "fullAccess" }).send({ waitUntil: "FINAL" });
  return { id, near: client(id, pair.secretKey) };
}
const token = await made("token");
const alice = await made("alice");
const defi = await made("zdefi");
const panicker = await made("panicker");
const one = { attachedDeposit: "1 yocto", gas: "100 Tgas" };
const balanceOf = async (id) => BigInt(await near.view(token.id, "ft_balance_of", { account_id: id }, optimistic));
const status = (result) => JSON.parse(Buffer.from(result.status.SuccessValue, "base64").toString() || "null");

await step("deploy, initialise, register, mint", async () => {
  const init = { owner_id: token.id, total_supply: "10", metadata };
  await token.near.transaction(token.id).deployContract(token.id, wasm("ft")).functionCall(token.id, "new", init, { gas: "50 Tgas" }).send({ waitUntil: "FINAL" });
  await defi.near.transaction(defi.id).deployContract(defi.id, wasm("defi")).send({ waitUntil: "FINAL" });
  await panicker.near.transaction(panicker.id).deployContract(panicker.id, wasm("panicker")).send({ waitUntil: "FINAL" });
  for (const who of [alice, defi]) await near.call(token.id, "storage_deposit", { account_id: who.id }, { attachedDeposit: `${storagePrice} yocto`, gas: "20 Tgas" });
  await token.near.call(token.id, "ft_mint", { account_id: alice.id, amount: "1000" }, one);
  equal(await balanceOf(alice.id), 1000n, "balance");
});
await step("transfer and transfer_call", async () => {
  await alice.near.call(token.id, "ft_transfer", { receiver_id: defi.id, amount: "5", memo: 'a "memo"' }, one);
  const sent = await alice.near.call(token.id, "ft_transfer_call", { receiver_id: defi.id, amount: "100", msg: "refund:25" }, one);
  equal(status(sent), "75", "used");
  equal(await balanceOf(alice.id), 920n, "rest");
  const whole = await alice.near.transaction(alice.id).functionCall(token.id, "ft_transfer_call", { receiver_id: defi.id, amount: "10", msg: "return" }, one).send({ waitUntil: "FINAL" });
  equal(status(whole), "0", "used");
  equal(events(whole).map((e) => e.event), ["ft_transfer", "ft_transfer"], "events");
  ok(profile(whole.receipts_outcome[0]).WASM_INSTRUCTION > 0n, "profile");
});
await step("a contract by its interface", async () => {
  const ft = near.contract(token.id);
  equal(await ft.view.ft_metadata({}, optimistic), metadata, "metadata");
});
await step("state, page by page", async () => {
  const got = {};
  let pages = 0;
  for (let afterKey; ; ) {
    const page = await near.viewState(token.id, { ...optimistic, prefix: b64("a"), limit: 1, ...(afterKey ? { afterKey } : {}) });
    pages++;
    for (const item of page.values) got[Buffer.from(item.key, "base64").toString().slice(1)] = amountOf(item.value);
    if (!(afterKey = page.last_key)) break;
  }
  equal(got, { [alice.id]: 920n, [defi.id]: 80n, [token.id]: 10n }, "balances");
  ok(pages >= 3, `${pages} pages`);
});
await step("upgrade", async () => {
  await token.near.call(token.id, "upgrade", wasm("ft2"), { gas: "250 Tgas" });
  equal(await near.view(token.id, "version", {}, optimistic), "2.0.0", "version");
});
await step("global code that runs", async () => {
  await token.near.transaction(token.id).publishContract(wasm("caller"), { identifiedBy: "account" }).send({ waitUntil: "FINAL" });
  const user = await made("user");
  await user.near.transaction(user.id).deployFromPublished({ accountId: token.id }).send({ waitUntil: "FINAL" });
  equal(status(await alice.near.call(user.id, "echo", { a: [1] }, { gas: "20 Tgas" })), { a: [1] }, "echo");
  const joined = await alice.near.call(user.id, "join", { all: [user.id, panicker.id], method: "echo", args: { x: 1 } }, { gas: "200 Tgas" });
  equal(status(joined), [{ ok: 7, value: '{"x":1}' }, { failed: true }], "joined");
});
await step("errors of calls", async () => {
  const fails = async (contract, method, panic, options = { gas: "20 Tgas" }) => {
    const error = await throws("FunctionCallError", () => alice.near.call(contract, method, {}, options));
    equal([error.contractId, error.methodName, error.panic], [contract, method, panic], method);
    return error;
  };
  await fails(panicker.id, "panic_utf8", "Smart contract panicked: I meant to");
  await fails(panicker.id, "divide", "WebAssembly trap: An arithmetic exception, e.g. divided by zero.");
  await fails(panicker.id, "spin", "Exceeded the prepaid gas.");
  equal((await fails(panicker.id, "after_work", "Smart contract panicked: after work")).logs, ["I was here"], "logs");
  await fails(panicker.id, "nothing_of_that_name", '{"MethodResolveError":"MethodNotFound"}');
  await fails(alice.id, "m", JSON.stringify({ CompilationError: { CodeDoesNotExist: { account_id: alice.id } } }));
});
await step("errors of views", async () => {
  const fails = async (contract, method, text) => {
    const error = await throws("FunctionCallError", () => near.view(contract, method, {}, optimistic));
    equal(error.panic, text, method);
  };
  await fails(panicker.id, "writes", 'wasm execution failed with error: HostError(ProhibitedInView { method_name: "storage_write" })');
  await fails(panicker.id, "panic_utf8", 'wasm execution failed with error: HostError(GuestPanic { panic_msg: "I meant to" })');
  await fails(panicker.id, "divide", "wasm execution failed with error: WasmTrap(IllegalArithmetic)");
  await fails(panicker.id, "nothing_of_that_name", "wasm execution failed with error: MethodResolveError(MethodNotFound)");
});

done();
