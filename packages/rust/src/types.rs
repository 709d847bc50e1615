//! Parameters and results of the sandbox's methods. Fields that the node adds later are ignored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A block's height and hash.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// The height.
    pub height: u64,
    /// The hash, in base58.
    pub hash: String,
}

/// A remembered state of the chain.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name that was given, or a number.
    pub id: String,
    /// The height of the head.
    pub height: u64,
    /// The hash of the head.
    pub hash: String,
}

impl From<&Snapshot> for String {
    fn from(s: &Snapshot) -> String {
        s.id.clone()
    }
}

/// A world, as the node describes it.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct WorldInfo {
    /// The world's number.
    pub id: String,
    /// The path of its JSON-RPC: `/world/ID`.
    pub path: String,
    /// The address of its own, if it was made with [`WorldOptions::port`].
    pub addr: Option<String>,
    /// The world that it continues; `None` if it continues the sandbox's chain.
    pub parent: Option<String>,
    /// Where it began.
    pub begin: Block,
    /// The height of its head.
    pub height: u64,
    /// The hash of its head.
    pub hash: String,
    /// The memory that it takes.
    pub bytes: u64,
}

/// How to make a world.
#[derive(Clone, Debug, Serialize)]
pub struct WorldOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    quiet: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<bool>,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl WorldOptions {
    /// A world that continues the head and makes no blocks while nothing waits.
    pub fn new() -> Self {
        Self { snapshot: None, quiet: true, port: None }
    }
    /// Continues a snapshot instead of the head.
    pub fn snapshot(mut self, id: impl Into<String>) -> Self {
        self.snapshot = Some(id.into());
        self
    }
    /// Sets whether no blocks are made while nothing waits. Default: true.
    pub fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }
    /// Listens on a port of its own too: [`WorldInfo::addr`].
    pub fn port(mut self) -> Self {
        self.port = Some(true);
        self
    }
}

/// The clock of the chain, in nanoseconds since 1970.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Clock {
    /// Whether it stands still.
    pub frozen: bool,
    /// The time now.
    #[serde(rename = "timestamp_nanosec", deserialize_with = "decimal")]
    pub now: u64,
    /// The time that was set for the next block; 0: none.
    #[serde(rename = "next_timestamp_nanosec", deserialize_with = "decimal")]
    pub next: u64,
    /// How much later each block is than its parent; 0: as much as has passed.
    #[serde(rename = "interval_nanosec", deserialize_with = "decimal")]
    pub interval: u64,
}

/// Changes of the clock. What is not set stays as it is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClockOptions {
    #[serde(rename = "timestamp_nanosec", skip_serializing_if = "Option::is_none")]
    now: Option<String>,
    #[serde(rename = "next_timestamp_nanosec", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(rename = "interval_nanosec", skip_serializing_if = "Option::is_none")]
    interval: Option<String>,
    #[serde(rename = "advance_nanosec", skip_serializing_if = "Option::is_none")]
    advance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frozen: Option<bool>,
}

impl ClockOptions {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets the clock to a time, in nanoseconds since 1970.
    pub fn now(mut self, nanoseconds: u64) -> Self {
        self.now = Some(nanoseconds.to_string());
        self
    }
    /// Moves the clock forward.
    pub fn advance(mut self, by: std::time::Duration) -> Self {
        self.advance = Some(by.as_nanos().to_string());
        self
    }
    /// Gives the next block this time, in nanoseconds since 1970; the clock continues from there.
    pub fn next(mut self, nanoseconds: u64) -> Self {
        self.next = Some(nanoseconds.to_string());
        self
    }
    /// Makes each block this much later than its parent; zero ends that.
    pub fn interval(mut self, interval: std::time::Duration) -> Self {
        self.interval = Some(interval.as_nanos().to_string());
        self
    }
    /// Lets the clock stand still, or go on.
    pub fn frozen(mut self, frozen: bool) -> Self {
        self.frozen = Some(frozen);
        self
    }
}

/// When blocks are made.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProductionMode {
    /// As soon as a transaction waits.
    Instant,
    /// After each interval.
    Interval,
    /// Only by [`Chain::mine`](crate::Chain::mine).
    Manual,
}

/// The settings of block production.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Production {
    /// When blocks are made.
    pub mode: ProductionMode,
    /// Whether no blocks are made while nothing waits.
    pub quiet: bool,
    /// The interval of [`ProductionMode::Interval`].
    #[serde(rename = "interval_nanosec", deserialize_with = "decimal")]
    pub interval: u64,
}

/// Changes of block production. What is not set stays as it is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProductionOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<ProductionMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quiet: Option<bool>,
    #[serde(rename = "interval_nanosec", skip_serializing_if = "Option::is_none")]
    interval: Option<String>,
}

impl ProductionOptions {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets when blocks are made.
    pub fn mode(mut self, mode: ProductionMode) -> Self {
        self.mode = Some(mode);
        self
    }
    /// Sets whether no blocks are made while nothing waits.
    pub fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = Some(quiet);
        self
    }
    /// Sets the interval of [`ProductionMode::Interval`].
    pub fn interval(mut self, interval: std::time::Duration) -> Self {
        self.interval = Some(interval.as_nanos().to_string());
        self
    }
}

/// An account at the head.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct AccountView {
    /// The balance in yoctoNEAR.
    #[serde(deserialize_with = "decimal")]
    pub amount: u128,
    /// What is staked, in yoctoNEAR.
    #[serde(deserialize_with = "decimal")]
    pub locked: u128,
    /// The hash of the contract; ones for none.
    pub code_hash: String,
    /// The bytes of storage that the account pays for.
    pub storage_usage: u64,
    /// The height of the block that this is read at.
    pub block_height: u64,
    /// The hash of that block.
    pub block_hash: String,
}

/// How far a transaction must be before a call returns.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum WaitUntil {
    /// It was accepted.
    None,
    /// It is in a block.
    Included,
    /// All its receipts have run.
    #[default]
    ExecutedOptimistic,
    /// Its block is final.
    IncludedFinal,
    /// All its receipts have run, and its block is final.
    Executed,
    /// The blocks of all its receipts are final.
    Final,
}

/// The state of a group of transactions that [`Chain::tag`](crate::Chain::tag) opened.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Tag {
    /// Its name.
    pub name: String,
    /// Whether transactions that are submitted now belong to it.
    pub open: bool,
    /// How many transactions it has.
    pub transactions: u64,
    /// How many it could not remember.
    pub omitted: u64,
}

/// Gas of the transactions of a tag.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// How many transactions have run.
    pub transactions: u64,
    /// Transactions that have not run yet.
    pub waiting: u64,
    /// Transactions that are not in the chain.
    pub unknown: u64,
    /// Function calls.
    pub calls: u64,
    /// Gas burnt by all receipts.
    pub gas_burnt: u64,
    /// Gas burnt by function calls.
    pub gas_calls: u64,
    /// Gas by function of the contracts.
    pub functions: Vec<FunctionGas>,
    /// Gas by host function.
    pub host_functions: Vec<HostFunctionGas>,
}

/// Gas of a contract's function.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct FunctionGas {
    /// The contract.
    pub account_id: String,
    /// The function.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// Gas of the function itself.
    pub gas: u64,
    /// Gas with the functions that it calls.
    pub gas_total: u64,
}

/// Gas of a host function.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct HostFunctionGas {
    /// The host function, such as `storage_write`.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Gas of these calls.
    pub gas: u64,
}

/// The receipts of a transaction, with the host functions of each contract call.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Trace {
    /// The transaction.
    pub transaction_hash: String,
    /// Whether it was simulated.
    pub simulated: bool,
    /// Whether all receipts have run.
    pub complete: bool,
    /// The result, in NEAR's form: `{"SuccessValue": ...}` or `{"Failure": ...}`.
    pub status: Value,
    /// Gas burnt by all receipts.
    pub gas_burnt: u64,
    /// Their cost in yoctoNEAR.
    #[serde(deserialize_with = "decimal")]
    pub tokens_burnt: u128,
    /// The transaction and its receipts.
    pub outcomes: Vec<TracedOutcome>,
    /// Gas by function, for speedscope.app, if it was asked for.
    #[serde(default)]
    pub profile: Value,
}

/// A traced receipt.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct TracedOutcome {
    /// The receipt, or the transaction.
    pub id: String,
    /// How deep it is below the transaction.
    pub depth: u64,
    /// The account that it ran on.
    pub executor_id: String,
    /// Gas that it burnt.
    pub gas_burnt: u64,
    /// What the contract logged.
    pub logs: Vec<String>,
    /// The contract calls in it.
    pub calls: Vec<TracedCall>,
    /// The result, in NEAR's form.
    pub status: Value,
}

/// A traced contract call.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct TracedCall {
    /// The contract.
    pub account_id: String,
    /// The function.
    pub method_name: String,
    /// Gas that it burnt.
    pub gas_burnt: u64,
    /// Gas of WebAssembly instructions.
    pub gas_wasm: u64,
    /// The host functions that it called, in order.
    pub host_calls: Vec<HostCall>,
    /// How many more there were.
    pub host_calls_omitted: u64,
}

/// A traced call of a host function.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct HostCall {
    /// The host function, such as `storage_read`.
    pub name: String,
    /// Gas of the call.
    pub gas: u64,
    /// Gas that the contract call had burnt before.
    pub at: u64,
    /// Keys, values and other details.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Everything that one transaction reads and writes, to run it again elsewhere.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TransactionDump(pub(crate) Map<String, Value>);

/// The result of a replayed transaction.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Replay {
    /// The transaction.
    pub tx_hash: String,
    /// Whether everything came out as in the dump.
    pub same: bool,
    /// What differs.
    pub differs: Option<String>,
}

/// Reads a number that JSON has as a decimal text.
fn decimal<'de, D, T>(d: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr,
{
    let text = String::deserialize(d)?;
    text.parse().map_err(|_| serde::de::Error::custom(format!("{text:?} is not a number")))
}
