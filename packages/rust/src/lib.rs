#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod binary;
mod chain;
mod contract;
mod error;
#[cfg(feature = "events")]
mod events;
mod io;
mod keys;
mod process;
mod sandbox;
mod transaction;
mod types;
mod worlds;

pub use binary::find_binary;
pub use chain::{Chain, CreateAccount, World};
pub use contract::build_contract;
pub use error::{Error, Result, RpcError, TransactionError};
#[cfg(feature = "events")]
#[cfg_attr(docsrs, doc(cfg(feature = "events")))]
pub use events::{Finality, Message, Subscription, Topic};
pub use keys::{near, Account, KeyPair, NEAR, TGAS};
pub use sandbox::{Sandbox, StartOptions};
pub use transaction::{Action, FunctionCall, Outcome, ReceiptOutcome, SignedTransaction};
pub use types::{
    AccountView, Block, Clock, ClockOptions, FunctionGas, HostCall, HostFunctionGas, Production,
    ProductionMode, ProductionOptions, Profile, Replay, Snapshot, Tag, Trace, TracedCall,
    TracedOutcome, TransactionDump, WaitUntil, WorldInfo, WorldOptions,
};
pub use worlds::{SetupFuture, Worlds};
