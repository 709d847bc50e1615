export { type AccountOptions, Chain, World, type WorldOptions } from "./chain.js";
export { findBinary, platforms } from "./binary.js";
export { RpcError, type RpcErrorObject, SandboxError, type SandboxErrorKind } from "./errors.js";
export { type Cursor, type Message, type Subscription, type Topic, type WebSocketConstructor, type WebSocketLike } from "./events.js";
export { type Account, base58, fromBase58, type KeyPair, keyPairFromSecret, keyPairFromSeed, near, randomKeyPair } from "./keys.js";
export { Sandbox, type StartOptions } from "./sandbox.js";
export type * from "./types.js";
export { urlVariable, Worlds, type WorldsOptions } from "./worlds.js";
