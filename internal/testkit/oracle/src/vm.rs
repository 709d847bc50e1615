//! One call: a job in, what nearcore makes of it out.

use crate::ext::{Ext, World};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as B64;
use near_parameters::{ActionCosts, ExtCosts, RuntimeConfig, RuntimeConfigStore, RuntimeFeesConfig};
use near_primitives_core::account::AccountContract;
use near_primitives_core::config::ViewConfig;
use near_primitives_core::types::{AccountId, Balance, Gas};
use near_vm_runner::logic::errors::{CompilationError, FunctionCallError, VMRunnerError};
use near_vm_runner::logic::types::PromiseResult;
use near_vm_runner::logic::{ReturnData, VMContext, VMOutcome};
use near_vm_runner::{Contract, ContractCode, MockContractRuntimeCache};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use strum::IntoEnumIterator;

/// A module, and how to call it. Whatever is left out is as `Default` says; bytes are base64.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Job {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The module: as base64, as a path, or as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wasm: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wat: String,
    pub method: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub args: String,
    /// Prepaid gas of each run.
    pub gas: Vec<u64>,
    #[serde(skip_serializing_if = "is_false")]
    pub view: bool,
    /// Of the account before the call, and the deposit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub balance: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deposit: String,
    /// Promise results, base64; null is a failed one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Option<String>>,
    /// Who gets the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// The fees of nearcore's own tests in place of mainnet's.
    #[serde(skip_serializing_if = "is_false")]
    pub test_fees: bool,
    /// max_gas_burnt in place of the config's.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_gas_burnt: u64,
    /// The release's protocol version whose parameters apply; 0: 85 with fix_contract_loading_error.
    #[serde(skip_serializing_if = "is_zero")]
    pub protocol: u64,
    /// As protocol 85: a module that does not load burns nothing.
    #[serde(skip_serializing_if = "is_false")]
    pub old_load_rule: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub predecessor: String,
    /// Storage before the call is what the first run of the job before left, if that succeeded; else it is empty.
    #[serde(skip_serializing_if = "is_false")]
    pub keep: bool,
}

fn is_false(b: &bool) -> bool {
    !*b
}
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Default for Job {
    fn default() -> Job {
        Job {
            name: String::new(),
            wasm: String::new(),
            file: String::new(),
            wat: String::new(),
            method: "main".into(),
            args: String::new(),
            gas: vec![100_000_000_000_000],
            view: false,
            balance: String::new(),
            deposit: String::new(),
            results: vec![],
            outputs: vec![],
            test_fees: false,
            max_gas_burnt: 0,
            protocol: 0,
            old_load_rule: false,
            predecessor: String::new(),
            keep: false,
        }
    }
}

impl Job {
    pub fn code(&self) -> Result<Vec<u8>, String> {
        if !self.wat.is_empty() {
            return wat::parse_str(&self.wat).map_err(|e| e.to_string());
        }
        if !self.file.is_empty() {
            return std::fs::read(&self.file).map_err(|e| format!("{}: {e}", self.file));
        }
        B64.decode(&self.wasm).map_err(|e| e.to_string())
    }
}

/// How a call ended, with nearcore's JSON of the error. Zeros and empty things are left out.
#[derive(Clone, Serialize, Deserialize, PartialEq)]
pub struct Run {
    pub gas: u64,
    pub burnt: u64,
    pub used: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compute: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsidized: Option<String>,
    /// Sha-256 of the promises of a call that succeeded; see `Ext::promises`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promises: Option<String>,
    /// Gas by cost, with the categories and names of an outcome's gas_profile.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub profile: Map<String, Value>,
}

struct Code(Arc<ContractCode>);

impl Contract for Code {
    fn hash(&self) -> near_primitives_core::hash::CryptoHash {
        *self.0.hash()
    }
    fn get_code(&self) -> Option<Arc<ContractCode>> {
        Some(Arc::clone(&self.0))
    }
}

/// Vm runs jobs with the parameters of their protocol: those of protocol 85 with the load rule of nearcore f0c7706f1's 86, or
/// those of a later release.
pub struct Vm {
    configs: BTreeMap<u64, RuntimeConfig>,
    cache: MockContractRuntimeCache,
    /// Before the last job, and after it.
    before: World,
    after: World,
}

pub const BALANCE: u128 = 10u128.pow(25);
pub const DEPOSIT: u128 = 10u128.pow(24);
pub const HEIGHT: u64 = 1234;
pub const ACTION_HASH: [u8; 32] = [7; 32];

pub fn signer_key() -> Vec<u8> {
    (0..33).collect() // ed25519, then bytes 1 to 32
}

impl Vm {
    pub fn new() -> Vm {
        let store = RuntimeConfigStore::new(None);
        let mut june = RuntimeConfig::clone(store.get_config(85));
        Arc::make_mut(&mut june.wasm_config).fix_contract_loading_error = true;
        let mut configs = BTreeMap::from([(0, june)]);
        for protocol in [86, 87, 88] {
            configs.insert(protocol, RuntimeConfig::clone(store.get_config(protocol as u32)));
        }
        Vm { configs, cache: MockContractRuntimeCache::default(), before: World::default(), after: World::default() }
    }

    /// The parameters of a Job's protocol.
    pub fn config(&self, protocol: u64) -> Result<&RuntimeConfig, String> {
        self.configs.get(&protocol).ok_or_else(|| format!("no parameters of protocol {protocol}"))
    }

    /// The size of the module that nearcore compiles, or why it does not.
    pub fn prepared(&self, code: &[u8], protocol: u64) -> Result<usize, String> {
        let w = &self.config(protocol)?.wasm_config;
        near_vm_runner::prepare::prepare_contract(code, w, w.vm_kind).map(|c| c.len()).map_err(|e| format!("{e:?}"))
    }

    /// Forgets compiled modules.
    pub fn forget(&mut self) {
        self.cache = MockContractRuntimeCache::default();
    }

    /// Runs a job. What its first run leaves in storage is there for the next job that keeps it.
    pub fn run(&mut self, job: &Job) -> Result<Vec<Run>, String> {
        let after = std::mem::take(&mut self.after);
        self.before = if job.keep { after } else { World::default() };
        let code = Code(Arc::new(ContractCode::new(job.code()?, None)));
        let mut runs = vec![];
        for (i, gas) in job.gas.iter().enumerate() {
            let (run, storage) = self.once(job, &code, *gas)?;
            if i == 0 {
                self.after = if run.err.is_none() { storage } else { self.before.clone() };
            }
            runs.push(run);
        }
        Ok(runs)
    }

    /// Runs the last job again, with other gas and without leaving anything.
    pub fn again(&self, job: &Job, gas: &[u64]) -> Result<Vec<Run>, String> {
        let code = Code(Arc::new(ContractCode::new(job.code()?, None)));
        gas.iter().map(|gas| Ok(self.once(job, &code, *gas)?.0)).collect()
    }

    fn once(&self, job: &Job, code: &Code, gas: u64) -> Result<(Run, World), String> {
        let config = self.config(job.protocol)?;
        let mut wasm = config.wasm_config.clone();
        if job.max_gas_burnt > 0 {
            Arc::make_mut(&mut wasm).limit_config.max_gas_burnt = Gas::from_gas(job.max_gas_burnt);
        }
        if job.old_load_rule {
            Arc::make_mut(&mut wasm).fix_contract_loading_error = false;
        }
        let fees = if job.test_fees { Arc::new(RuntimeFeesConfig::test()) } else { Arc::clone(&config.fees) };
        let yocto = |s: &str, or: u128| if s.is_empty() { Ok(or) } else { s.parse::<u128>().map_err(|e| e.to_string()) };
        let account = |s: &str| s.parse::<AccountId>().map_err(|e| e.to_string());
        let bytes = |s: &str| B64.decode(s).map_err(|e| e.to_string());
        let mut results = vec![];
        for r in &job.results {
            results.push(match r {
                Some(b) => PromiseResult::Successful(Rc::from(bytes(b)?)),
                None => PromiseResult::Failed,
            });
        }
        let context = VMContext {
            current_account_id: account("alice.near")?,
            signer_account_id: account("bob.near")?,
            signer_account_pk: signer_key(),
            predecessor_account_id: account(if job.predecessor.is_empty() { "carol.near" } else { &job.predecessor })?,
            refund_to_account_id: account("david.near")?,
            input: Rc::from(bytes(&job.args)?),
            promise_results: results.into(),
            block_height: HEIGHT,
            block_timestamp: 42,
            epoch_height: 3,
            account_balance: Balance::from_yoctonear(yocto(&job.balance, BALANCE)?),
            account_locked_balance: Balance::from_yoctonear(5),
            storage_usage: 100_000,
            account_contract: AccountContract::Local(*code.0.hash()),
            attached_deposit: Balance::from_yoctonear(yocto(&job.deposit, DEPOSIT)?),
            prepaid_gas: Gas::from_gas(gas),
            random_seed: vec![9; 32],
            view_config: job.view.then(|| ViewConfig { max_gas_burnt: Gas::from_gas(gas) }),
            output_data_receivers: job.outputs.iter().map(|s| account(s)).collect::<Result<_, _>>()?,
        };
        let mut ext = Ext::new(self.before.clone(), ACTION_HASH, HEIGHT);
        ext.post_quantum_keys = job.protocol > 0; // the vectors of before have no such keys
        ext.stakes.insert(account("val.near")?, 7 * 10u128.pow(28));
        ext.stakes.insert(account("bob.near")?, 11);
        let counter = context.make_gas_counter(&wasm);
        let prepared = near_vm_runner::prepare(code, wasm, Some(&self.cache), counter, &job.method);
        match near_vm_runner::run(prepared, &mut ext, &context, fees) {
            Ok(o) => Ok((outcome(gas, o, &ext), ext.world)),
            // What the runtime makes a nop of; anything else would stop the node.
            Err(VMRunnerError::LoadingError(msg)) => {
                Ok((outcome(gas, VMOutcome::nop_outcome(FunctionCallError::LoadingError { msg }), &ext), ext.world))
            }
            Err(e) => Err(format!("{e:?}")),
        }
    }
}

fn outcome(gas: u64, o: VMOutcome, ext: &Ext) -> Run {
    let mut profile = Map::new();
    let mut put = |category: &str, name: String, gas: Gas| {
        if gas > Gas::ZERO {
            profile.insert(format!("{category}.{}", name.to_ascii_uppercase()), json!(gas.as_gas()));
        }
    };
    for c in ActionCosts::iter() {
        put("ACTION_COST", format!("{c:?}"), o.profile.get_action_cost(c));
    }
    for c in ExtCosts::iter() {
        put("WASM_HOST_COST", format!("{c:?}"), o.profile.get_ext_cost(c));
    }
    put("WASM_HOST_COST", "WASM_INSTRUCTION".into(), o.profile.get_wasm_cost());
    let ok = o.aborted.is_none();
    Run {
        gas,
        burnt: o.burnt_gas.as_gas(),
        used: o.used_gas.as_gas(),
        compute: o.compute_usage,
        logs: o.logs,
        value: match &o.return_data {
            ReturnData::Value(v) if ok => Some(B64.encode(v)),
            _ => None,
        },
        receipt: match &o.return_data {
            ReturnData::ReceiptIndex(i) if ok => Some(*i),
            _ => None,
        },
        balance: ok.then(|| o.balance.as_yoctonear().to_string()),
        storage: ok.then_some(o.storage_usage),
        subsidized: (ok && o.subsidized_amount.as_yoctonear() > 0).then(|| o.subsidized_amount.as_yoctonear().to_string()),
        promises: if ok { ext.promises() } else { None },
        profile,
        err: o.aborted.map(|e| failure(&e)),
    }
}

/// The error as it stands in an outcome's JSON (nearcore conversions.rs).
fn failure(e: &FunctionCallError) -> Value {
    match e {
        FunctionCallError::CompilationError(CompilationError::PrepareError(p)) => {
            json!({"CompilationError": {"PrepareError": format!("{p:?}")}})
        }
        // The text is the engine's own and no part of the protocol.
        FunctionCallError::CompilationError(_) => json!({"CompilationError": {"WasmerCompileError": {"msg": ""}}}),
        FunctionCallError::MethodResolveError(m) => json!({"MethodResolveError": format!("{m:?}")}),
        FunctionCallError::LinkError { msg } => json!({"ExecutionError": format!("Link Error: {msg}")}),
        // As above: no text.
        FunctionCallError::LoadingError { .. } => json!({"ExecutionError": "Loading Error"}),
        FunctionCallError::HostError(_) | FunctionCallError::WasmTrap(_) => json!({"ExecutionError": e.to_string()}),
    }
}
