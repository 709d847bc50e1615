// Transactions without a signature, which a sandbox takes from accounts that it impersonates. In borsh, as nearcore has them
// (core/primitives/src/transaction.rs).

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const KEYS = { ed25519: [0, 32], secp256k1: [1, 64] }; // type and length of public keys
const FUNCTION_CALL = 2;

/** decode58 returns the bytes of a base58 text, which must be that many. */
export function decode58(s, length) {
  let n = 0n;
  for (const c of s) {
    const digit = ALPHABET.indexOf(c);
    if (digit < 0) throw new Error(`${s} is not base58`);
    n = n * 58n + BigInt(digit);
  }
  const out = new Uint8Array(length);
  for (let i = length - 1; i >= 0; i--) {
    out[i] = Number(n & 255n);
    n >>= 8n;
  }
  if (n) throw new Error(`${s} has more than ${length} bytes`);
  return out;
}

/** encode58 returns bytes as base58. */
export function encode58(b) {
  let n = 0n;
  for (const x of b) n = n << 8n | BigInt(x);
  let out = '';
  for (; n; n /= 58n) out = ALPHABET[Number(n % 58n)] + out;
  for (let i = 0; i < b.length && !b[i]; i++) out = ALPHABET[0] + out;
  return out;
}

/** Writer appends values in borsh. */
class Writer {
  constructor() { this.out = []; }

  bytes(b) {
    for (const x of b) this.out.push(x);
    return this;
  }

  uint(v, size) {
    for (let n = BigInt(v), i = 0; i < size; i++, n >>= 8n) this.out.push(Number(n & 255n));
    return this;
  }

  text(s) { return this.list(new TextEncoder().encode(s)); }

  list(b) { return this.uint(b.length, 4).bytes(b); }
}

/** isUsable returns whether a public key is of a type that unsignedCall writes. */
export const isUsable = (key) => key.slice(0, key.indexOf(':')) in KEYS;

/** unsignedCall returns a SignedTransaction with one FunctionCall and a signature of zeros. gas is in gas, deposit in yoctoNEAR, args are bytes. */
export function unsignedCall({ signer, key, nonce, receiver, block, method, args, gas, deposit }) {
  const [kind, text] = key.split(':');
  const [type, length] = KEYS[kind];
  const w = new Writer();
  w.text(signer).uint(type, 1).bytes(decode58(text, length)).uint(nonce, 8).text(receiver).bytes(decode58(block, 32));
  w.uint(1, 4).uint(FUNCTION_CALL, 1).text(method).list(args).uint(gas, 8).uint(deposit, 16);
  w.uint(0, 1).bytes(new Uint8Array(64)); // an ed25519 signature
  return Uint8Array.from(w.out);
}
