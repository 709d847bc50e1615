// Transactions in borsh, written by hand, so that the tests of the package need no other one.
const { createHash, createPrivateKey, sign } = require("node:crypto");
const { fromBase58 } = require("@troupe-chain/sandbox");

const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
const u128 = (n) => Buffer.concat([u64(BigInt(n) & 0xffffffffffffffffn), u64(BigInt(n) >> 64n)]);
const bytes = (b) => Buffer.concat([u32(Buffer.from(b).length), Buffer.from(b)]);

const transfer = (amount) => Buffer.concat([Buffer.of(3), u128(amount)]);
const call = (method, args, deposit = 0n, gas = 50_000_000_000_000n) =>
  Buffer.concat([Buffer.of(2), bytes(method), bytes(JSON.stringify(args)), u64(gas), u128(deposit)]);

/** Encodes and signs a transaction. Without a signature, as impersonation accepts it, if `unsigned`. */
async function signed(chain, account, receiver, actions, { nonce, unsigned } = {}) {
  const head = await chain.call("block", { finality: "optimistic" });
  if (nonce === undefined) {
    const key = await chain.call("query", { request_type: "view_access_key", finality: "optimistic", account_id: account.accountId, public_key: account.publicKey });
    nonce = key.nonce + 1;
  }
  const tx = Buffer.concat([
    bytes(account.accountId), Buffer.of(0), fromBase58(account.publicKey.slice(8)), u64(nonce), bytes(receiver),
    fromBase58(head.header.hash), u32(actions.length), ...actions,
  ]);
  const seed = Buffer.from(fromBase58(account.secretKey.slice(8))).subarray(0, 32);
  const key = createPrivateKey({ key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]), format: "der", type: "pkcs8" });
  const signature = unsigned ? Buffer.alloc(64) : sign(null, createHash("sha256").update(tx).digest(), key);
  return Buffer.concat([tx, Buffer.of(0), signature]);
}
const send = async (chain, account, receiver, actions, options) => chain.send(await signed(chain, account, receiver, actions, options));

module.exports = { call, send, signed, transfer };
