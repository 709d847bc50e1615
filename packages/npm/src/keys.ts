import { createPrivateKey, createPublicKey, randomBytes } from "node:crypto";

/** A key pair in the text forms that near-api-js and near-kit read. */
export interface KeyPair {
  /** "ed25519:" and base58 of the seed and the public key: 64 bytes. */
  readonly secretKey: string;
  /** "ed25519:" and base58 of 32 bytes. */
  readonly publicKey: string;
}

/** An account with a full access key. */
export interface Account extends KeyPair {
  readonly accountId: string;
}

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** Encodes bytes in base58, as NEAR writes keys and hashes. */
export function base58(bytes: Uint8Array): string {
  let number = bytes.length === 0 ? 0n : BigInt("0x" + Buffer.from(bytes).toString("hex"));
  let text = "";
  for (; number > 0n; number /= 58n) text = alphabet[Number(number % 58n)] + text;
  for (const b of bytes) {
    if (b !== 0) break;
    text = "1" + text;
  }
  return text;
}

/** Decodes base58. Throws a TypeError for other characters. */
export function fromBase58(text: string): Uint8Array {
  let number = 0n;
  for (const c of text) {
    const digit = alphabet.indexOf(c);
    if (digit < 0) throw new TypeError(`${JSON.stringify(c)} is not a character of base58`);
    number = number * 58n + BigInt(digit);
  }
  const zeros = /^1*/.exec(text)![0].length;
  const hex = number === 0n ? "" : number.toString(16);
  return Buffer.concat([Buffer.alloc(zeros), Buffer.from(hex.length % 2 ? "0" + hex : hex, "hex")]);
}

// what stands before the seed in a private key in the PKCS #8 form (RFC 8410)
const pkcs8 = Buffer.from("302e020100300506032b657004220420", "hex");

function fromEntropy(seed: Buffer): KeyPair {
  const secret = createPrivateKey({ key: Buffer.concat([pkcs8, seed]), format: "der", type: "pkcs8" });
  const spki = createPublicKey(secret).export({ format: "der", type: "spki" });
  const key = spki.subarray(spki.length - 32);
  return { secretKey: "ed25519:" + base58(Buffer.concat([seed, key])), publicKey: "ed25519:" + base58(key) };
}

/** Makes a random ed25519 key pair. */
export function randomKeyPair(): KeyPair {
  return fromEntropy(randomBytes(32));
}

/**
 * Derives a key pair from a word, as nearcore's from_seed and `troupe keys new --seed` do. Anyone can derive it, so it
 * is only for tests. The client commands of troupe find keys that are derived from the account's name.
 */
export function keyPairFromSeed(word: string): KeyPair {
  const seed = Buffer.alloc(32, " ");
  seed.write(word, "utf8");
  return fromEntropy(seed);
}

/** Reads a secret key "ed25519:..." of 64 bytes (or 32: the seed alone). Throws a TypeError if it is none. */
export function keyPairFromSecret(secretKey: string): KeyPair {
  const bytes = secretKey.startsWith("ed25519:") ? fromBase58(secretKey.slice(8)) : new Uint8Array();
  if (bytes.length !== 64 && bytes.length !== 32) throw new TypeError("a secret key must be ed25519: and 64 bytes in base58");
  return fromEntropy(Buffer.from(bytes.subarray(0, 32)));
}

/** Converts NEAR to yoctoNEAR: near("1.5") is 1500000000000000000000000n. */
export function near(amount: string | number | bigint): bigint {
  const [whole = "", rest = "", more] = String(amount).replace(/_/g, "").split(".");
  if (more !== undefined || !/^\d+$/.test(whole) || !/^\d{0,24}$/.test(rest)) {
    throw new TypeError(`${amount} is no amount of NEAR: digits with at most 24 decimals`);
  }
  return BigInt(whole + rest.padEnd(24, "0"));
}
