// What the contract scripts share: the wasm of internal/testkit/contracts and what they know of it.
import { readFileSync } from "node:fs";

// wasm is the built contract of a name.
export const wasm = (name) => new Uint8Array(readFileSync(new URL(`../../contracts/c/${name}.wasm`, import.meta.url)));

export const metadata = { spec: "ft-1.0.0", name: "Troupe", symbol: "TRP", icon: null, reference: null, reference_hash: null, decimals: 6 };

// What an account pays to be registered with the token.
export const storagePrice = 1250000000000000000000n;

// events are the NEP-297 events in the logs of all receipts, in order.
export const events = (result) =>
  result.receipts_outcome
    .flatMap((r) => r.outcome.logs)
    .filter((line) => line.startsWith("EVENT_JSON:"))
    .map((line) => JSON.parse(line.slice("EVENT_JSON:".length)));

// profile is the gas profile of a receipt as cost -> gas.
export const profile = (receipt) =>
  Object.fromEntries(receipt.outcome.metadata.gas_profile.map((entry) => [entry.cost, BigInt(entry.gas_used)]));

// b64 of a text, as view_state has keys and values.
export const b64 = (text) => Buffer.from(text).toString("base64");

// amountOf reads a 16-byte little-endian value of the token's state.
export const amountOf = (base64) => {
  const b = Buffer.from(base64, "base64");
  return b.readBigUInt64LE(0) + (b.readBigUInt64LE(8) << 64n);
};
