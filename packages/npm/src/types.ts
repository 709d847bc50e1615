// The shapes of the methods that control a sandbox. docs/rpc has a page for each, and GET /openapi.json the same in JSON
// Schema; `make packages-test` compares the names of the methods and of their parameters with it.

/** yoctoNEAR: a bigint or decimal text. */
export type Amount = bigint | string;
/** Nanoseconds since 1970, or a duration in nanoseconds: a bigint, a decimal text, or a number below 2^53. */
export type Nanoseconds = bigint | string | number;
export type Finality = "optimistic" | "near-final" | "final";
export type WaitUntil = "NONE" | "INCLUDED" | "EXECUTED_OPTIMISTIC" | "INCLUDED_FINAL" | "EXECUTED" | "FINAL";
export type ProductionMode = "instant" | "interval" | "manual";
/** The name or number of a snapshot. */
export type SnapshotId = string | number;
type Nothing = Record<string, never>;

export interface Block {
  height: number;
  hash: string;
}
export interface Snapshot extends Block {
  id: string;
}
export interface WorldInfo extends Block {
  id: string;
  path: string;
  addr: string | null;
  parent: string | null;
  begin: Block;
  bytes: number;
}
export interface Clock {
  frozen: boolean;
  timestamp_nanosec: string;
  next_timestamp_nanosec: string;
  interval_nanosec: string;
}
export interface ClockOptions {
  /** Moves the clock forward by this much. */
  advance_nanosec?: Nanoseconds;
  /** Sets the clock to this time. */
  timestamp_nanosec?: Nanoseconds;
  /** The next block has this time, and the clock continues from there. */
  next_timestamp_nanosec?: Nanoseconds;
  /** The clock stands still. */
  frozen?: boolean;
  /** Each block is this much later than its parent. 0 ends that. */
  interval_nanosec?: Nanoseconds;
}
export interface Production {
  mode: ProductionMode;
  quiet: boolean;
  interval_nanosec: string;
}
export interface Tag {
  name: string;
  open: boolean;
  transactions: number;
  omitted: number;
}
/** Gas of the transactions of a tag. */
export interface Profile {
  transactions: number;
  /** Transactions that have not run yet. */
  waiting: number;
  /** Transactions that are not in the chain. */
  unknown: number;
  calls: number;
  gas_burnt: number;
  gas_calls: number;
  functions: { account_id: string; name: string; calls: number; gas: number; gas_total: number }[];
  host_functions: { name: string; calls: number; gas: number }[];
}

/** A permission of an access key, as in genesis.json. */
export type Permission =
  | "FullAccess"
  | { FunctionCall: { allowance: Amount | null; receiver_id: string; method_names: string[] } }
  | Record<string, unknown>;
/** A record as in genesis.json. null removes the entry. */
export type StateRecord =
  | { Account: { account_id: string; account: AccountValue | null } }
  | { AccessKey: { account_id: string; public_key: string; access_key: { nonce: number; permission: Permission } | null } }
  | { Contract: { account_id: string; code: string | null } }
  | { Data: { account_id: string; data_key: string; value: string | null } }
  | { GasKeyNonce: { account_id: string; public_key: string; index: number; nonce: number | null } }
  | { ReceivedData: { account_id: string; data_id: string; data?: string | null } }
  | { PostponedReceipt: Record<string, unknown> }
  | { DelayedReceipt: Record<string, unknown> };
export interface AccountValue {
  amount: Amount;
  locked: Amount;
  code_hash: string;
  storage_usage: number;
  version?: "V1" | "V2";
  global_contract_hash?: string | null;
  global_contract_account_id?: string | null;
}

/** An account, as `query` returns it. */
export interface AccountView {
  amount: string;
  locked: string;
  code_hash: string;
  storage_usage: number;
  block_height: number;
  block_hash: string;
}
export type ExecutionStatus = { SuccessValue: string } | { SuccessReceiptId: string } | { Failure: unknown } | string;
export interface Outcome {
  id: string;
  block_hash: string;
  outcome: {
    executor_id: string;
    gas_burnt: number;
    tokens_burnt: string;
    logs: string[];
    receipt_ids: string[];
    status: ExecutionStatus;
  };
}
/** The status of a transaction, as `tx_status` returns it. */
export interface TransactionStatus {
  final_execution_status: WaitUntil;
  status?: ExecutionStatus;
  transaction?: { hash: string; signer_id: string; receiver_id: string; nonce: number; actions: unknown[] };
  transaction_outcome?: Outcome;
  receipts_outcome?: Outcome[];
  receipts?: unknown[];
}
export interface Simulation extends TransactionStatus {
  simulation: { block_hash: string; block_height: number; blocks: number; complete: boolean; missing_imports?: unknown[] };
}

/** A transaction to trace: one of the chain, or a signed one that is simulated. */
export type Traced =
  | { tx_hash: string; sender_account_id?: string }
  | SimulateOptions;
export interface SimulateOptions {
  /** The SignedTransaction in borsh and base64. */
  signed_tx_base64: string;
  skip_signature_check?: boolean;
  block_id?: number | string;
  /** Default: optimistic, the head. */
  finality?: Finality;
}
export interface HostCall {
  name: string;
  gas: number;
  /** Gas that the call had burnt before. */
  at: number;
  [more: string]: unknown;
}
export interface TracedCall {
  account_id: string;
  method_name: string;
  action: number;
  code_hash: string;
  deposit: string;
  gas_burnt: number;
  gas_prepaid: number;
  gas_used: number;
  gas_wasm: number;
  host_calls: HostCall[];
  host_calls_omitted: number;
  [more: string]: unknown;
}
export interface TracedOutcome {
  id: string;
  parent_id?: string;
  depth: number;
  block_hash: string;
  predecessor_id: string;
  executor_id: string;
  actions: string[];
  calls: TracedCall[];
  gas_burnt: number;
  tokens_burnt: string;
  logs: string[];
  status: ExecutionStatus;
  [more: string]: unknown;
}
/** The receipts of a transaction, with the host functions of each contract call. */
export interface Trace {
  transaction_hash: string;
  signer_id: string;
  receiver_id: string;
  block_hash: string;
  simulated: boolean;
  complete: boolean;
  status: ExecutionStatus;
  gas_burnt: number;
  tokens_burnt: string;
  outcomes: TracedOutcome[];
  /** With profile: gas by function, for speedscope.app. */
  profile?: unknown;
  [more: string]: unknown;
}
/** Everything that one transaction reads and writes. */
export interface TransactionDump {
  signed_tx_base64: string;
  records: StateRecord[];
  outcomes: unknown[];
  absent: string[];
  timestamp_nanosec: string;
  hash: string;
  height: number;
  same: boolean;
  differs?: string;
  mocked_verification?: string[];
}

/** Parameters and results of the methods that `call` knows. */
export interface Methods {
  sandbox_deal: { params: { token_id: string; account_id: string; amount: Amount }; result: Nothing };
  sandbox_drop_snapshot: { params: { id: SnapshotId }; result: Nothing };
  sandbox_drop_tag: { params: { name: string }; result: Nothing };
  sandbox_drop_world: { params: { id: SnapshotId }; result: Nothing };
  sandbox_dump_state: {
    params: { account_ids?: string[]; height?: number } | null;
    result: Block & { records: StateRecord[] };
  };
  sandbox_dump_transaction: { params: { tx_hash: string }; result: TransactionDump };
  sandbox_fast_forward: { params: { delta_height: number }; result: Nothing };
  sandbox_fork: { params: { cut?: string[]; live?: string[]; reset?: string[] } | null; result: Record<string, unknown> };
  sandbox_impersonate: { params: { account_ids?: string[]; all?: boolean }; result: Nothing };
  sandbox_load_state: { params: { records: StateRecord[] }; result: Nothing };
  sandbox_mine: { params: { blocks?: number; until?: string } | null; result: Block };
  sandbox_miss_chunks: {
    params: { blocks?: number; shard_ids?: number[] } | null;
    result: { blocks_left: Record<string, number> };
  };
  sandbox_mock_verification: {
    params: { ed25519_verify?: boolean; p256_verify?: boolean; ecrecover?: string | null } | null;
    result: { ed25519_verify: boolean; p256_verify: boolean; ecrecover: string | null };
  };
  sandbox_new_world: { params: { snapshot?: SnapshotId; quiet?: boolean; port?: boolean } | null; result: WorldInfo };
  sandbox_next_epoch: { params: null; result: Block };
  sandbox_patch_state: { params: { records: StateRecord[] }; result: Nothing };
  sandbox_profile: { params: { name: string }; result: Profile };
  sandbox_reorg: { params: { blocks?: number } | null; result: Block & { reverted: Block[] } };
  sandbox_replay_transaction: {
    params: {
      signed_tx_base64: string;
      records: StateRecord[];
      outcomes?: unknown[];
      absent?: string[];
      timestamp_nanosec?: Nanoseconds;
      replace?: boolean;
    };
    result: { tx_hash: string; same: boolean; differs?: string };
  };
  sandbox_revert: { params: { id: SnapshotId }; result: Block };
  sandbox_set_balance: { params: { account_id: string; amount: Amount }; result: Nothing };
  sandbox_set_clock: { params: ClockOptions | null; result: Clock };
  sandbox_set_code: { params: { account_id: string; code_base64: string | null }; result: Nothing };
  sandbox_set_key: {
    params: { account_id: string; public_key: string; nonce?: number; remove?: boolean };
    result: Nothing;
  };
  sandbox_set_production: {
    params: { mode?: ProductionMode; quiet?: boolean; interval_nanosec?: Nanoseconds } | null;
    result: Production;
  };
  sandbox_set_storage: {
    params: { account_id: string; key_base64: string; value_base64: string | null };
    result: Nothing;
  };
  sandbox_snapshot: { params: { name?: SnapshotId } | null; result: Snapshot };
  sandbox_snapshots: { params: null; result: Snapshot[] };
  sandbox_tag: { params: { name: string; tx_hashes?: string[] } | null; result: Tag | Nothing };
  sandbox_tags: { params: null; result: Tag[] };
  sandbox_worlds: { params: null; result: WorldInfo[] };
  EXPERIMENTAL_simulate_tx: { params: SimulateOptions; result: Simulation };
  EXPERIMENTAL_trace_tx: { params: Traced & { profile?: boolean }; result: Trace };
  send_tx: { params: { signed_tx_base64: string; wait_until?: WaitUntil }; result: TransactionStatus };
  tx_status: {
    params: { tx_hash: string; sender_account_id: string; wait_until?: WaitUntil };
    result: TransactionStatus;
  };
}
export type MethodName = keyof Methods;
