import { subscribe, type Subscription, type Topic, type WebSocketConstructor } from "./events.js";
import { type Account, keyPairFromSecret, near, randomKeyPair } from "./keys.js";
import { call, encode } from "./rpc.js";
import { SandboxError } from "./errors.js";
import type {
  AccountView, Amount, Block, Clock, ClockOptions, Finality, MethodName, Methods, Nanoseconds, Production, ProductionMode,
  Profile, SimulateOptions, Simulation, Snapshot, SnapshotId, StateRecord, Tag, Trace, Traced, TransactionDump,
  TransactionStatus, WaitUntil, WorldInfo,
} from "./types.js";

/** nearcore: 100 bytes for an account, and 82 for a key with full access. */
const storageOfAccount = 182;
const noCode = "11111111111111111111111111111111";

export interface AccountOptions {
  /** Default: 100 NEAR. */
  balance?: Amount;
  /** "ed25519:..."; default: a random key. */
  secretKey?: string;
  /** A contract to set. No function of it is called. */
  code?: Uint8Array;
}
export interface WorldOptions {
  /** Continue from this snapshot instead of the head. */
  snapshot?: SnapshotId | Snapshot;
  /** Make no blocks while nothing waits. Default: true. */
  quiet?: boolean;
  /** Listen on a port of its own too: `World.info.addr`. */
  port?: boolean;
}

const base64 = (bytes: Uint8Array | string): string => Buffer.from(bytes).toString("base64");
const idOf = (snapshot: SnapshotId | Snapshot): SnapshotId => (typeof snapshot === "object" ? snapshot.id : snapshot);

/** A chain: the sandbox's own, or that of a world. Every method that needs a block makes it at once. */
export class Chain {
  /** JSON-RPC, for near-api-js, near-kit and other clients. */
  readonly url: string;
  /** WebSocket: every method, and subscriptions. */
  readonly wsUrl: string;
  /** The network's name that clients sign for and store keys under: the chain id. */
  readonly networkId: string;

  constructor(url: string, networkId: string) {
    this.url = url;
    this.networkId = networkId;
    this.wsUrl = url.replace(/^http/, "ws").replace(/\/$/, "") + "/ws";
  }

  /** Returns the error to throw for a failed call. Sandbox adds what it knows about the node's end. */
  protected async failure(err: unknown): Promise<unknown> {
    return err;
  }

  /** Calls a method of the node. The methods of the sandbox are typed; others return `unknown` or what R says. */
  call<M extends MethodName>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]>;
  call<R = unknown, M extends string = string>(method: M extends MethodName ? never : M, params?: unknown): Promise<R>;
  async call(method: string, params?: unknown): Promise<unknown> {
    try {
      return await call(this.url, method, params);
    } catch (err) {
      throw await this.failure(err);
    }
  }

  // ---- worlds and snapshots

  /** Makes a world: a chain that continues this one and never changes it. End it with `end`. */
  async newWorld(options: WorldOptions = {}): Promise<World> {
    const { snapshot, quiet = true, port } = options;
    const info = await this.call("sandbox_new_world", {
      quiet,
      ...(snapshot === undefined ? {} : { snapshot: idOf(snapshot) }),
      ...(port === undefined ? {} : { port }),
    });
    return new World(this, info);
  }
  /** Lists the worlds of this process. */
  worlds(): Promise<WorldInfo[]> {
    return this.call("sandbox_worlds", null);
  }
  /** Remembers the head with its state, waiting transactions and clock. */
  snapshot(name?: SnapshotId): Promise<Snapshot> {
    return this.call("sandbox_snapshot", name === undefined ? null : { name });
  }
  snapshots(): Promise<Snapshot[]> {
    return this.call("sandbox_snapshots", null);
  }
  /** Goes back to a snapshot. It exists afterwards too, later ones do not. */
  revert(snapshot: SnapshotId | Snapshot): Promise<Block> {
    return this.call("sandbox_revert", { id: idOf(snapshot) });
  }
  async dropSnapshot(snapshot: SnapshotId | Snapshot): Promise<void> {
    await this.call("sandbox_drop_snapshot", { id: idOf(snapshot) });
  }

  // ---- blocks and time

  /** Makes blocks, and returns the last. */
  mine(blocks = 1): Promise<Block> {
    return this.call("sandbox_mine", { blocks });
  }
  /** Makes blocks until a transaction and its receipts have run. */
  mineUntil(txHash: string): Promise<Block> {
    return this.call("sandbox_mine", { until: txHash });
  }
  /** Goes to the first block of the next epoch. */
  nextEpoch(): Promise<Block> {
    return this.call("sandbox_next_epoch", null);
  }
  /** Skips heights. Only the blocks around the end of an epoch are made. */
  async fastForward(heights: number): Promise<void> {
    await this.call("sandbox_fast_forward", { delta_height: heights });
  }
  /** Returns the clock, after changing it. */
  clock(options?: ClockOptions): Promise<Clock> {
    return this.call("sandbox_set_clock", options ?? null);
  }
  /** Moves the clock forward by milliseconds. */
  advanceTime(milliseconds: number): Promise<Clock> {
    return this.clock({ advance_nanosec: BigInt(Math.round(milliseconds)) * 1_000_000n });
  }
  /** Sets when blocks are made, and returns the settings. Without options it only returns them. */
  production(options?: { mode?: ProductionMode; quiet?: boolean; interval_nanosec?: Nanoseconds }): Promise<Production> {
    return this.call("sandbox_set_production", options ?? null);
  }
  /** Makes another branch win, over the newest blocks that are not final. */
  reorg(blocks = 1): Promise<Block & { reverted: Block[] }> {
    return this.call("sandbox_reorg", { blocks });
  }

  // ---- accounts and state

  /**
   * Creates an account with a full access key, without a transaction, and returns the key. An account that exists is
   * replaced, with its keys, contract and data.
   */
  async createAccount(accountId: string, options: AccountOptions = {}): Promise<Account> {
    const key = options.secretKey === undefined ? randomKeyPair() : keyPairFromSecret(options.secretKey);
    const account = { amount: options.balance ?? near(100), locked: "0", code_hash: noCode, storage_usage: storageOfAccount };
    // as patchState does, and it removes what the records do not have
    await this.loadState([
      { Account: { account_id: accountId, account } },
      { AccessKey: { account_id: accountId, public_key: key.publicKey, access_key: { nonce: 0, permission: "FullAccess" } } },
    ]);
    if (options.code !== undefined) await this.setCode(accountId, options.code);
    return { accountId, ...key };
  }
  /** Sets a balance in yoctoNEAR, and creates the account if it does not exist. */
  async setBalance(accountId: string, amount: Amount): Promise<void> {
    await this.call("sandbox_set_balance", { account_id: accountId, amount });
  }
  /** Sets the contract of an account, or removes it. */
  async setCode(accountId: string, code: Uint8Array | null): Promise<void> {
    await this.call("sandbox_set_code", { account_id: accountId, code_base64: code && base64(code) });
  }
  /** Adds a full access key. */
  async setKey(accountId: string, publicKey: string, nonce?: number): Promise<void> {
    await this.call("sandbox_set_key", { account_id: accountId, public_key: publicKey, ...(nonce === undefined ? {} : { nonce }) });
  }
  /** Removes a key of any kind. */
  async removeKey(accountId: string, publicKey: string): Promise<void> {
    await this.call("sandbox_set_key", { account_id: accountId, public_key: publicKey, remove: true });
  }
  /** Sets one entry of a contract's storage, or removes it. Texts are UTF-8. */
  async setStorage(accountId: string, key: Uint8Array | string, value: Uint8Array | string | null): Promise<void> {
    await this.call("sandbox_set_storage", {
      account_id: accountId,
      key_base64: base64(key),
      value_base64: value === null ? null : base64(value),
    });
  }
  /** Writes records in the form of genesis.json, all in one block. */
  async patchState(records: StateRecord[]): Promise<void> {
    await this.call("sandbox_patch_state", { records });
  }
  /** Sets an account's balance of a NEP-141 token. The total supply does not change. */
  async deal(tokenId: string, accountId: string, amount: Amount): Promise<void> {
    await this.call("sandbox_deal", { token_id: tokenId, account_id: accountId, amount });
  }
  /** Returns the records of some accounts, or of all. */
  async dumpState(accountIds?: string[]): Promise<StateRecord[]> {
    return (await this.call("sandbox_dump_state", accountIds ? { account_ids: accountIds } : null)).records;
  }
  /** Writes records of dumpState. Accounts among them are replaced as a whole. */
  async loadState(records: StateRecord[]): Promise<void> {
    await this.call("sandbox_load_state", { records });
  }
  /**
   * Sets for which accounts unsigned transactions are accepted: those with an ed25519 signature of 64 zero bytes, any key
   * of the account, and a nonce above that key's. "all": every account; an empty list: none.
   */
  async impersonate(accounts: string[] | "all"): Promise<void> {
    await this.call("sandbox_impersonate", accounts === "all" ? { all: true } : { account_ids: accounts });
  }

  // ---- reading

  /** Reads an account at the head. */
  account(accountId: string, finality: Finality = "optimistic"): Promise<AccountView> {
    return this.call<AccountView>("query", { request_type: "view_account", finality, account_id: accountId });
  }
  /** Calls a view function with JSON arguments, and parses its JSON result. An empty result is undefined. */
  async view<R = unknown>(contractId: string, method: string, args: unknown = {}, finality: Finality = "optimistic"): Promise<R> {
    // of `query`, the reply to a failed call is a result with a text and not an error
    const reply = await this.call<{ result: number[] }>("EXPERIMENTAL_call_function", {
      finality,
      account_id: contractId,
      method_name: method,
      args_base64: base64(encode(args)),
    });
    return (reply.result.length ? JSON.parse(Buffer.from(reply.result).toString("utf8")) : undefined) as R;
  }

  // ---- transactions

  /** Submits a SignedTransaction in borsh, and answers when it has reached a status. */
  send(signed: Uint8Array | string, waitUntil: WaitUntil = "EXECUTED_OPTIMISTIC"): Promise<TransactionStatus> {
    return this.call("send_tx", { signed_tx_base64: typeof signed === "string" ? signed : base64(signed), wait_until: waitUntil });
  }
  /** Returns the host functions, gas and storage of each contract call of a transaction. */
  trace(transaction: Traced, options: { profile?: boolean } = {}): Promise<Trace> {
    return this.call("EXPERIMENTAL_trace_tx", { ...transaction, ...options });
  }
  /** Runs a transaction with all its receipts and keeps nothing. */
  simulate(transaction: SimulateOptions): Promise<Simulation> {
    const at = transaction.block_id === undefined ? { finality: "optimistic" as const } : {};
    return this.call("EXPERIMENTAL_simulate_tx", { ...at, ...transaction });
  }
  /** Returns everything that a transaction reads and writes: `replay` runs it again on any sandbox. */
  dumpTransaction(txHash: string): Promise<TransactionDump> {
    return this.call("sandbox_dump_transaction", { tx_hash: txHash });
  }
  replay(dump: TransactionDump, options: { replace?: boolean } = {}): Promise<{ tx_hash: string; same: boolean; differs?: string }> {
    const { signed_tx_base64, records, outcomes, absent, timestamp_nanosec } = dump;
    return this.call("sandbox_replay_transaction", { signed_tx_base64, records, outcomes, absent, timestamp_nanosec, ...options });
  }
  /** Opens a tag: transactions that are submitted from now on belong to it. null: to none. */
  async tag(name: string | null): Promise<Tag | undefined> {
    const tag = await this.call("sandbox_tag", name === null ? null : { name });
    return "name" in tag ? (tag as Tag) : undefined;
  }
  /** Returns the gas of a tag's transactions by function; or of those that a function submits. */
  async profile(of: string | (() => Promise<unknown>)): Promise<Profile> {
    if (typeof of === "string") return this.call("sandbox_profile", { name: of });
    const name = `profile-${process.pid}-${++profiles}`;
    await this.tag(name);
    try {
      try {
        await of();
      } finally {
        await this.tag(null);
      }
      return await this.profile(name);
    } finally {
      await this.call("sandbox_drop_tag", { name });
    }
  }

  // ---- events

  /** Subscribes to blocks, transactions, outcomes, events or messages. `webSocket` is needed before Node 22. */
  async subscribe(topic: Topic, options: { webSocket?: WebSocketConstructor } = {}): Promise<Subscription> {
    return subscribe(this.wsUrl, topic, options.webSocket);
  }
}

let profiles = 0;

/** A chain that continues another one. */
export class World extends Chain {
  readonly id: string;
  /** What the node said when the world began. */
  readonly info: WorldInfo;
  private readonly parent: Chain;
  private ended = false;

  constructor(parent: Chain, info: WorldInfo) {
    super(parent.url.replace(/\/world\/[^/]*$/, "") + info.path, parent.networkId);
    this.parent = parent;
    this.info = info;
    this.id = info.id;
  }

  protected override failure(err: unknown): Promise<unknown> {
    return this.parent["failure"](err);
  }

  /** Ends the world, and all worlds that continue it. Ending it twice, or after its parent, does nothing. */
  async end(): Promise<void> {
    if (this.ended) return;
    this.ended = true;
    const known = (err: unknown): boolean => err instanceof SandboxError && err.kind === "WorldEnded";
    try {
      await this.parent.call("sandbox_drop_world", { id: this.id });
    } catch (err) {
      if (known(err)) return;
      // it has ended by itself: its own address says so
      const now = await this.call("status").catch((e: unknown) => e);
      if (!known(now)) throw err;
    }
  }
}
