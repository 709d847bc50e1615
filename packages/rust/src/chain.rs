use std::collections::{BTreeMap, HashMap};
use std::future::{Future, IntoFuture};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::{engine::general_purpose::STANDARD, Engine};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Value};

use crate::process::Node;
use crate::transaction::{from_json, to_json};
use crate::{
    io, Account, AccountView, Action, Block, Clock, ClockOptions, Error, FunctionCall, KeyPair,
    Outcome, Production, ProductionOptions, Profile, Replay, Result, RpcError, SignedTransaction,
    Snapshot, Tag, Trace, TransactionDump, WaitUntil, WorldInfo, WorldOptions, NEAR,
};

/// nearcore: 100 bytes for an account, and 82 for a key with full access.
const STORAGE_OF_ACCOUNT: u64 = 182;
const NO_CODE: &str = "11111111111111111111111111111111";
/// How long an error waits for the end of the process: a connection fails before it is known.
const END: Duration = Duration::from_millis(200);
/// How long dropping a world waits for the node.
const DROP: Duration = Duration::from_secs(2);
/// How often a transaction is signed when transactions of another program with the key are first.
const NONCE_TRIES: usize = 10;

/// A chain: the sandbox's own, or that of a [`World`]. Every method that needs a block makes it at
/// once. Cloning it is cheap, and a clone is the same chain.
///
/// Its functions do not depend on the caller's runtime. Dropping one of their futures cancels the
/// request; the node may have executed it.
#[derive(Clone, Debug)]
pub struct Chain(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    url: String,
    network_id: String,
    node: Option<Arc<Node>>,
    /// The last nonce that was signed, by public key: transactions that are in flight at once must
    /// differ, and equal ones with the same nonce would be one.
    nonces: Mutex<HashMap<String, u64>>,
    /// A lock for each account that signs, which `transact` holds until its transaction is done:
    /// the node refuses one that arrives after another of the same key with a higher nonce.
    signers: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Chain {
    pub(crate) fn new(url: String, network_id: String, node: Option<Arc<Node>>) -> Self {
        Self(Arc::new(Inner {
            url,
            network_id,
            node,
            nonces: Mutex::default(),
            signers: Mutex::default(),
        }))
    }

    /// Returns the address of JSON-RPC, for near-api, near-workspaces and other clients.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Returns the address of the WebSocket: every method, and subscriptions.
    pub fn ws_url(&self) -> String {
        format!("ws{}/ws", self.0.url.trim_start_matches("http").trim_end_matches('/'))
    }

    /// Returns the network's name that clients sign for and store keys under: the chain id.
    pub fn network_id(&self) -> &str {
        &self.0.network_id
    }

    /// Calls a method of JSON-RPC. The [pages of the methods] have their parameters and results.
    ///
    /// [pages of the methods]: https://github.com/troupe-chain/troupe/blob/main/docs/rpc/README.md
    ///
    /// # Errors
    ///
    /// [`Error::Rpc`] if the node refuses; [`Error::WorldEnded`], [`Error::NodeEnded`], and
    /// [`Error::BadReply`] if the result has not the form of `R`. So for all methods of a chain.
    pub async fn rpc<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<R> {
        let params = serde_json::to_value(&params)
            .map_err(|e| Error::Input(format!("{method}: parameters that are not JSON: {e}")))?;
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = request.to_string().into_bytes();
        let url = self.0.url.clone();
        let (status, reply) = match io::run(async move { io::post(&url, body).await }).await {
            Ok(reply) => reply,
            Err(reason) => return Err(self.ended(method, reason).await),
        };
        let mut reply: Value = serde_json::from_slice(&reply).map_err(|e| {
            let text = String::from_utf8_lossy(&reply[..reply.len().min(200)]);
            let url = self.url();
            Error::BadReply(format!("{method}: {url} replies {status} with {text:?}: {e}"))
        })?;
        if let Some(error) = reply.get("error").filter(|e| !e.is_null()) {
            return Err(self.refused(method, error));
        }
        let result = match reply.get_mut("result") {
            Some(result) => result.take(),
            None => {
                let url = self.url();
                return Err(Error::BadReply(format!("{method}: the reply of {url} has no result")));
            }
        };
        serde_json::from_value(result)
            .map_err(|e| Error::BadReply(format!("{method}: the result of {}: {e}", self.url())))
    }

    pub(crate) fn refused(&self, method: &str, error: &Value) -> Error {
        let error = RpcError::new(method, error);
        if error.cause == "UNKNOWN_WORLD" {
            return Error::WorldEnded { method: method.into(), url: self.0.url.clone() };
        }
        Box::new(error).into()
    }

    async fn ended(&self, method: &str, reason: String) -> Error {
        let mut message = format!("{method}: no node answers at {}: {reason}", self.url());
        let Some(node) = self.0.node.clone() else {
            return Error::NodeEnded { message, lines: Vec::new() };
        };
        let (status, lines, text) = io::run_blocking(move || {
            let status = node.ended_within(END);
            (status.unwrap_or_else(|| "runs".into()), node.lines(), node.text())
        })
        .await;
        message = format!("{message}: the process {status}{text}");
        Error::NodeEnded { message, lines }
    }

    // ---- worlds and snapshots

    /// Makes a world: a chain that continues the head and never changes this one. It ends when it
    /// is dropped. It takes about a millisecond.
    pub async fn new_world(&self) -> Result<World> {
        self.new_world_with(WorldOptions::new()).await
    }

    /// Makes a world with options, such as one that continues a snapshot.
    pub async fn new_world_with(&self, options: WorldOptions) -> Result<World> {
        let info: WorldInfo = self.rpc("sandbox_new_world", options).await?;
        let url = self.url();
        let root = url.rfind("/world/").map_or(url, |at| &url[..at]);
        let chain = Self::new(
            format!("{root}{}", info.path),
            self.0.network_id.clone(),
            self.0.node.clone(),
        );
        Ok(World { chain, parent: self.clone(), info, ended: false })
    }

    /// Lists the worlds of the node.
    pub async fn worlds(&self) -> Result<Vec<WorldInfo>> {
        self.rpc("sandbox_worlds", ()).await
    }

    /// Remembers the head with its state, waiting transactions and clock.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        self.rpc("sandbox_snapshot", ()).await
    }

    /// Remembers the head under a name. An earlier snapshot of that name is forgotten.
    pub async fn snapshot_as(&self, name: &str) -> Result<Snapshot> {
        self.rpc("sandbox_snapshot", json!({ "name": name })).await
    }

    /// Lists the snapshots.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.rpc("sandbox_snapshots", ()).await
    }

    /// Goes back to a snapshot, by its name or itself. It exists afterwards too, later ones do not.
    pub async fn revert(&self, id: impl Into<String>) -> Result<Block> {
        self.rpc("sandbox_revert", json!({ "id": id.into() })).await
    }

    /// Forgets a snapshot.
    pub async fn drop_snapshot(&self, id: impl Into<String>) -> Result<()> {
        self.command("sandbox_drop_snapshot", json!({ "id": id.into() })).await
    }

    async fn command(&self, method: &str, params: Value) -> Result<()> {
        self.rpc::<Value>(method, params).await.map(drop)
    }

    // ---- blocks and time

    /// Makes blocks, and returns the last.
    pub async fn mine(&self, blocks: u64) -> Result<Block> {
        self.rpc("sandbox_mine", json!({ "blocks": blocks })).await
    }

    /// Makes blocks until a transaction and its receipts have run.
    pub async fn mine_until(&self, tx_hash: &str) -> Result<Block> {
        self.rpc("sandbox_mine", json!({ "until": tx_hash })).await
    }

    /// Goes to the first block of the next epoch.
    pub async fn next_epoch(&self) -> Result<Block> {
        self.rpc("sandbox_next_epoch", ()).await
    }

    /// Skips heights. Only the blocks around the end of an epoch are made.
    pub async fn fast_forward(&self, heights: u64) -> Result<()> {
        self.command("sandbox_fast_forward", json!({ "delta_height": heights })).await
    }

    /// Returns the clock.
    pub async fn clock(&self) -> Result<Clock> {
        self.rpc("sandbox_set_clock", ()).await
    }

    /// Changes the clock, and returns it. Time goes back only by [`Chain::revert`].
    pub async fn set_clock(&self, options: ClockOptions) -> Result<Clock> {
        self.rpc("sandbox_set_clock", options).await
    }

    /// Moves the clock forward.
    pub async fn advance_time(&self, by: Duration) -> Result<Clock> {
        self.set_clock(ClockOptions::new().advance(by)).await
    }

    /// Returns when blocks are made.
    pub async fn production(&self) -> Result<Production> {
        self.rpc("sandbox_set_production", ()).await
    }

    /// Sets when blocks are made, and returns the settings.
    pub async fn set_production(&self, options: ProductionOptions) -> Result<Production> {
        self.rpc("sandbox_set_production", options).await
    }

    /// Makes another branch win, over so many of the newest blocks that are not final. Returns its
    /// head.
    pub async fn reorg(&self, blocks: u64) -> Result<Block> {
        self.rpc("sandbox_reorg", json!({ "blocks": blocks })).await
    }

    // ---- accounts and state

    /// Creates an account with a full access key, without a transaction, when it is awaited. An
    /// account that exists is replaced, with its keys, contract and data.
    ///
    /// ```
    /// # use troupe_sandbox::{Sandbox, NEAR};
    /// # async fn doc(chain: &troupe_sandbox::Chain, wasm: Vec<u8>) -> troupe_sandbox::Result<()> {
    /// let alice = chain.create_account("alice.near").await?; // 100 NEAR
    /// let app = chain.create_account("app.near").balance(5 * NEAR).code(wasm).await?;
    /// # Ok(()) }
    /// ```
    pub fn create_account(&self, account_id: &str) -> CreateAccount<'_> {
        let (account_id, balance) = (account_id.into(), 100 * NEAR);
        CreateAccount { chain: self, account_id, balance, key: None, code: None }
    }

    /// Sets a balance in yoctoNEAR, and creates the account if it does not exist.
    pub async fn set_balance(&self, account_id: &str, yocto: u128) -> Result<()> {
        let params = json!({ "account_id": account_id, "amount": yocto.to_string() });
        self.command("sandbox_set_balance", params).await
    }

    /// Sets the contract of an account, or removes it. No function of it is called.
    pub async fn set_code(&self, account_id: &str, code: Option<&[u8]>) -> Result<()> {
        let params = json!({ "account_id": account_id, "code_base64": code.map(base64) });
        self.command("sandbox_set_code", params).await
    }

    /// Adds a full access key.
    pub async fn set_key(&self, account_id: &str, public_key: &str) -> Result<()> {
        let params = json!({ "account_id": account_id, "public_key": public_key });
        self.command("sandbox_set_key", params).await
    }

    /// Removes a key of any kind.
    pub async fn remove_key(&self, account_id: &str, public_key: &str) -> Result<()> {
        let params = json!({ "account_id": account_id, "public_key": public_key, "remove": true });
        self.command("sandbox_set_key", params).await
    }

    /// Sets one entry of a contract's storage, or removes it.
    pub async fn set_storage(
        &self,
        account_id: &str,
        key: impl AsRef<[u8]>,
        value: Option<&[u8]>,
    ) -> Result<()> {
        let params = json!({
            "account_id": account_id,
            "key_base64": base64(key.as_ref()),
            "value_base64": value.map(base64),
        });
        self.command("sandbox_set_storage", params).await
    }

    /// Writes records in the form of genesis.json, all in one block. A value of `null` removes it.
    pub async fn patch_state(&self, records: &[Value]) -> Result<()> {
        self.command("sandbox_patch_state", json!({ "records": records })).await
    }

    /// Sets an account's balance of a NEP-141 token. The total supply does not change.
    pub async fn deal(&self, token_id: &str, account_id: &str, amount: u128) -> Result<()> {
        let amount = amount.to_string();
        let params = json!({ "token_id": token_id, "account_id": account_id, "amount": amount });
        self.command("sandbox_deal", params).await
    }

    /// Returns the records of some accounts; of none: of all.
    pub async fn dump_state(&self, account_ids: &[&str]) -> Result<Vec<Value>> {
        #[derive(serde::Deserialize)]
        struct Dump {
            records: Vec<Value>,
        }
        let params = match account_ids {
            [] => Value::Null,
            ids => json!({ "account_ids": ids }),
        };
        self.rpc("sandbox_dump_state", params).await.map(|d: Dump| d.records)
    }

    /// Writes records of [`Chain::dump_state`]. Accounts among them are replaced as a whole.
    pub async fn load_state(&self, records: &[Value]) -> Result<()> {
        self.command("sandbox_load_state", json!({ "records": records })).await
    }

    /// Sets for which accounts transactions without a signature are accepted: those of
    /// [`Account::impersonated`]. An empty list ends that.
    pub async fn impersonate(&self, account_ids: &[&str]) -> Result<()> {
        self.command("sandbox_impersonate", json!({ "account_ids": account_ids })).await
    }

    /// Accepts transactions without a signature for every account.
    pub async fn impersonate_all(&self) -> Result<()> {
        self.command("sandbox_impersonate", json!({ "all": true })).await
    }

    // ---- reading

    /// Reads an account at the head.
    pub async fn account(&self, account_id: &str) -> Result<AccountView> {
        let params = json!({ "finality": "optimistic", "account_id": account_id });
        self.rpc("EXPERIMENTAL_view_account", params).await
    }

    /// Calls a view function with JSON arguments at the head, and parses its JSON result. An empty
    /// result is read as `null`.
    pub async fn view<R: DeserializeOwned>(
        &self,
        contract_id: &str,
        method: &str,
        args: impl Serialize,
    ) -> Result<R> {
        let result = self.view_bytes(contract_id, method, to_json(&args)?).await?;
        from_json(&result).map_err(|e| match e {
            Error::BadReply(text) => Error::BadReply(format!("{contract_id} {method}: {text}")),
            other => other,
        })
    }

    /// Calls a view function with arguments in any form at the head, and returns its result.
    pub async fn view_bytes(
        &self,
        contract_id: &str,
        method: &str,
        args: impl AsRef<[u8]>,
    ) -> Result<Vec<u8>> {
        #[derive(serde::Deserialize)]
        struct Reply {
            result: Vec<u8>,
        }
        let params = json!({
            "finality": "optimistic",
            "account_id": contract_id,
            "method_name": method,
            "args_base64": base64(args.as_ref()),
        });
        match self.rpc("EXPERIMENTAL_call_function", params).await {
            Ok(Reply { result }) => Ok(result),
            Err(Error::Rpc(mut refused)) => {
                refused.call = format!("{contract_id} {method}");
                Err(Error::Rpc(refused))
            }
            Err(other) => Err(other),
        }
    }

    // ---- transactions

    /// Calls a function of a contract in a transaction, when it is awaited.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use troupe_sandbox::{Account, Chain, NEAR};
    /// # async fn doc(chain: &Chain, alice: &Account) -> troupe_sandbox::Result<()> {
    /// let outcome = chain
    ///     .call_function(alice, "guestbook.near", "sign")
    ///     .args(json!({ "text": "hello" }))
    ///     .deposit(NEAR / 100)
    ///     .await?;
    /// let messages: u32 = outcome.json()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Transaction`] if it was executed and failed: a panic of the contract, for instance.
    /// [`Error::Rpc`] with the cause `INVALID_TRANSACTION` if it was refused.
    pub fn call_function<'a>(
        &'a self,
        signer: &'a Account,
        contract_id: &str,
        method: &str,
    ) -> FunctionCall<'a> {
        FunctionCall::new(self, signer, contract_id, method)
    }

    /// Transfers yoctoNEAR, and waits until all receipts have run.
    pub async fn transfer(&self, from: &Account, to: &str, yocto: u128) -> Result<Outcome> {
        self.transact(from, to, &[Action::Transfer(yocto)]).await
    }

    /// Signs and sends a transaction of several actions, and waits until all receipts have run.
    ///
    /// Transactions that one account signs on this chain are sent one after another, each when the
    /// one before has run. To have several in one block use [`Chain::sign`] and [`Chain::send`].
    pub async fn transact(
        &self,
        signer: &Account,
        receiver_id: &str,
        actions: &[Action],
    ) -> Result<Outcome> {
        self.transact_until(signer, receiver_id, actions, WaitUntil::default()).await
    }

    pub(crate) async fn transact_until(
        &self,
        signer: &Account,
        receiver_id: &str,
        actions: &[Action],
        wait_until: WaitUntil,
    ) -> Result<Outcome> {
        let lock = {
            let mut signers = self.0.signers.lock().unwrap_or_else(PoisonError::into_inner);
            signers.entry(signer.id().to_owned()).or_default().clone()
        };
        let _turn = lock.lock().await;
        let mut tries = 0;
        loop {
            let signed = self.sign(signer, receiver_id, actions).await?;
            tries += 1;
            match self.send(&signed, wait_until).await {
                Err(e) if tries < NONCE_TRIES && is_invalid_nonce(&e) => {}
                other => return other,
            }
        }
    }

    /// Signs a transaction with the next nonce of the signer's key, and does not send it. Each
    /// transaction that this chain signs with a key has a higher nonce than the one before, so send
    /// them in that order.
    pub async fn sign(
        &self,
        signer: &Account,
        receiver_id: &str,
        actions: &[Action],
    ) -> Result<SignedTransaction> {
        #[derive(serde::Deserialize)]
        struct Key {
            nonce: u64,
            block_hash: String,
        }
        let public_key = match signer.signer() {
            Some(key) => key.public_key().to_owned(),
            None => self.some_key(signer.id()).await?,
        };
        let params = json!({
            "finality": "optimistic",
            "account_id": signer.id(),
            "public_key": public_key,
        });
        let key: Key = self.rpc("EXPERIMENTAL_view_access_key", params).await?;
        let nonce = {
            let mut nonces = self.0.nonces.lock().unwrap_or_else(PoisonError::into_inner);
            let last = nonces.entry(public_key.clone()).or_default();
            *last = key.nonce.max(*last) + 1;
            *last
        };
        SignedTransaction::new(
            signer.id(),
            &public_key,
            signer.signer(),
            nonce,
            receiver_id,
            &key.block_hash,
            actions,
        )
    }

    /// Returns a public key of an account.
    async fn some_key(&self, account_id: &str) -> Result<String> {
        #[derive(serde::Deserialize)]
        struct Key {
            public_key: String,
        }
        #[derive(serde::Deserialize)]
        struct Keys {
            keys: Vec<Key>,
        }
        let params = json!({ "finality": "optimistic", "account_id": account_id, "limit": 100 });
        let list: Keys = self.rpc("EXPERIMENTAL_view_access_key_list", params).await?;
        let usable = ["ed25519:", "secp256k1:"];
        let mut keys = list.keys.into_iter().map(|k| k.public_key);
        keys.find(|k| usable.iter().any(|p| k.starts_with(p))).ok_or_else(|| {
            Error::Input(format!(
                "{account_id} has no access key to impersonate it with: add one with set_key"
            ))
        })
    }

    /// Sends a signed transaction in borsh, of [`Chain::sign`] or of another client, and returns
    /// when it has reached a status.
    pub async fn send(&self, signed: impl AsRef<[u8]>, wait_until: WaitUntil) -> Result<Outcome> {
        let signed = base64(signed.as_ref());
        let params = json!({ "signed_tx_base64": signed, "wait_until": wait_until });
        Outcome::read(self.rpc("send_tx", params).await?)
    }

    /// Runs a signed transaction with all its receipts at the head, and keeps nothing.
    pub async fn simulate(&self, signed: impl AsRef<[u8]>) -> Result<Outcome> {
        let signed = base64(signed.as_ref());
        let params = json!({ "signed_tx_base64": signed, "finality": "optimistic" });
        Outcome::read(self.rpc("EXPERIMENTAL_simulate_tx", params).await?)
    }

    /// Returns the host functions and gas of each contract call of a transaction of the chain.
    /// With `profile` it also has the gas by function, for speedscope.app.
    pub async fn trace(&self, tx_hash: &str, profile: bool) -> Result<Trace> {
        let params = json!({ "tx_hash": tx_hash, "profile": profile });
        self.rpc("EXPERIMENTAL_trace_tx", params).await
    }

    /// The same as [`Chain::trace`] for a signed transaction, which is simulated.
    pub async fn trace_signed(&self, signed: impl AsRef<[u8]>, profile: bool) -> Result<Trace> {
        let params = json!({
            "signed_tx_base64": base64(signed.as_ref()),
            "finality": "optimistic",
            "profile": profile,
        });
        self.rpc("EXPERIMENTAL_trace_tx", params).await
    }

    /// Returns everything that a transaction reads and writes: [`Chain::replay`] runs it again on
    /// any sandbox.
    pub async fn dump_transaction(&self, tx_hash: &str) -> Result<TransactionDump> {
        self.rpc("sandbox_dump_transaction", json!({ "tx_hash": tx_hash }))
            .await
            .map(TransactionDump)
    }

    /// Runs a dumped transaction again. With `replace` its accounts replace those of the chain.
    pub async fn replay(&self, dump: &TransactionDump, replace: bool) -> Result<Replay> {
        let names = ["signed_tx_base64", "records", "outcomes", "absent", "timestamp_nanosec"];
        let mut params: BTreeMap<&str, Value> =
            names.iter().filter_map(|&n| Some((n, dump.0.get(n)?.clone()))).collect();
        params.insert("replace", replace.into());
        self.rpc("sandbox_replay_transaction", params).await
    }

    /// Opens a tag: transactions that are submitted from now on belong to it.
    pub async fn tag(&self, name: &str) -> Result<Tag> {
        self.rpc("sandbox_tag", json!({ "name": name })).await
    }

    /// Ends the open tag: transactions that are submitted from now on belong to none.
    pub async fn end_tag(&self) -> Result<()> {
        self.command("sandbox_tag", Value::Null).await
    }

    /// Returns the gas of a tag's transactions by function.
    pub async fn profile(&self, tag: &str) -> Result<Profile> {
        self.rpc("sandbox_profile", json!({ "name": tag })).await
    }

    /// Returns what a future returns, and the gas of the transactions that are submitted until it
    /// is done, by function.
    pub async fn profile_of<T>(&self, of: impl Future<Output = T>) -> Result<(T, Profile)> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("profile-{}-{n}", std::process::id());
        self.tag(&name).await?;
        let value = of.await;
        self.end_tag().await?;
        let profile = self.profile(&name).await;
        self.command("sandbox_drop_tag", json!({ "name": name })).await?;
        Ok((value, profile?))
    }
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns whether a transaction was refused for its nonce: another one of its key was first.
fn is_invalid_nonce(err: &Error) -> bool {
    let Error::Rpc(e) = err else { return false };
    let at = |v: &Value| v["TxExecutionError"]["InvalidTxError"].get("InvalidNonce").is_some();
    e.cause == "INVALID_TRANSACTION" && (at(&e.data) || at(&e.info))
}

/// An account that is created when it is awaited. See [`Chain::create_account`].
#[derive(Debug)]
#[must_use = "the account is created when it is awaited"]
pub struct CreateAccount<'a> {
    chain: &'a Chain,
    account_id: String,
    balance: u128,
    key: Option<KeyPair>,
    code: Option<Vec<u8>>,
}

impl CreateAccount<'_> {
    /// Sets the balance in yoctoNEAR. Default: 100 NEAR.
    pub fn balance(mut self, yocto: u128) -> Self {
        self.balance = yocto;
        self
    }
    /// Sets the full access key. Default: a random one.
    pub fn key(mut self, key: KeyPair) -> Self {
        self.key = Some(key);
        self
    }
    /// Sets a contract. No function of it is called.
    pub fn code(mut self, wasm: impl Into<Vec<u8>>) -> Self {
        self.code = Some(wasm.into());
        self
    }
}

impl<'a> IntoFuture for CreateAccount<'a> {
    type Output = Result<Account>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (chain, id) = (self.chain, self.account_id);
            let key = self.key.unwrap_or_else(KeyPair::random);
            let access_key = json!({ "nonce": 0, "permission": "FullAccess" });
            let account = json!({
                "amount": self.balance.to_string(),
                "locked": "0",
                "code_hash": NO_CODE,
                "storage_usage": STORAGE_OF_ACCOUNT,
            });
            // as patch_state does, and it removes what the records do not have
            chain
                .load_state(&[
                    json!({ "Account": { "account_id": id, "account": account } }),
                    json!({ "AccessKey": {
                        "account_id": id, "public_key": key.public_key(), "access_key": access_key,
                    } }),
                ])
                .await?;
            if let Some(code) = self.code {
                chain.set_code(&id, Some(&code)).await?;
            }
            Ok(Account::new(id, key))
        })
    }
}

/// A chain that continues another one, and ends when it is dropped. All methods of [`Chain`] are
/// its methods.
#[derive(Debug)]
pub struct World {
    chain: Chain,
    parent: Chain,
    info: WorldInfo,
    ended: bool,
}

impl World {
    /// Returns the world's number.
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// Returns what the node said when the world began.
    pub fn info(&self) -> &WorldInfo {
        &self.info
    }

    /// Ends the world, and all worlds that continue it. A world that has ended by itself, or with
    /// its parent, is no error.
    pub async fn end(mut self) -> Result<()> {
        self.ended = true;
        end(self.parent.clone(), self.chain.clone(), self.info.id.clone()).await
    }
}

async fn end(parent: Chain, world: Chain, id: String) -> Result<()> {
    match parent.command("sandbox_drop_world", json!({ "id": id })).await {
        Ok(()) | Err(Error::WorldEnded { .. }) => Ok(()),
        // it has ended by itself: its own address says so
        Err(e) => match world.rpc::<Value>("status", ()).await {
            Err(Error::WorldEnded { .. }) => Ok(()),
            _ => Err(e),
        },
    }
}

impl Deref for World {
    type Target = Chain;
    fn deref(&self) -> &Chain {
        &self.chain
    }
}

impl Drop for World {
    /// Ends the world, and waits for that.
    fn drop(&mut self) {
        if !self.ended {
            // it cannot be reported, and the world ends by itself
            let _ =
                io::wait(DROP, end(self.parent.clone(), self.chain.clone(), self.info.id.clone()));
        }
    }
}
