use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;

use crate::process::{Node, OnLine};
use crate::{binary, find_binary, io, Account, Chain, Error, KeyPair, ProductionOptions, Result};

const ROOT: &str = "test.near";

/// How to start a sandbox.
#[derive(Clone)]
pub struct StartOptions {
    port: u16,
    host: String,
    accounts: usize,
    balance: Option<String>,
    shards: Option<u32>,
    fork: Option<String>,
    quiet: bool,
    binary: Option<PathBuf>,
    env: Vec<(String, String)>,
    on_line: Option<OnLine>,
    timeout: Duration,
}

impl Default for StartOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl StartOptions {
    /// A chain of one shard, on a free port of 127.0.0.1, without funded accounts.
    pub const fn new() -> Self {
        Self {
            port: 0,
            host: String::new(),
            accounts: 0,
            balance: None,
            shards: None,
            fork: None,
            quiet: true,
            binary: None,
            env: Vec::new(),
            on_line: None,
            timeout: Duration::from_secs(60),
        }
    }
    /// Sets the port of JSON-RPC. Default 0: a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }
    /// Sets the address of JSON-RPC. Default: 127.0.0.1.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = host.into();
        self
    }
    /// Makes so many funded accounts: dev0.near, dev1.near, ... Default: 0.
    pub fn accounts(mut self, accounts: usize) -> Self {
        self.accounts = accounts;
        self
    }
    /// Sets the balance of each of them, in NEAR: `"10.5"`. Default: 10000.
    pub fn balance(mut self, near: impl Into<String>) -> Self {
        self.balance = Some(near.into());
        self
    }
    /// Sets the number of shards. Default: 1.
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = Some(shards);
        self
    }
    /// Continues another chain: `URL[@height|@hash|@tx:HASH]` of a node's JSON-RPC.
    pub fn fork(mut self, of: impl Into<String>) -> Self {
        self.fork = Some(of.into());
        self
    }
    /// Sets whether no blocks are made while nothing waits. Default: true.
    pub fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }
    /// Sets the binary of troupe. Default: what [`find_binary`] returns.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }
    /// Sets a variable for the node, beside those of this process. `RUST_LOG` of this process is
    /// not passed on.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
    /// Calls a function with each line that the node writes, among them one for each transaction.
    /// It must return soon.
    pub fn on_line(mut self, f: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_line = Some(Arc::new(f));
        self
    }
    /// Sets how long to wait for the node to be ready. Default: a minute.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
    pub(crate) fn account_count(&self) -> usize {
        self.accounts
    }

    fn address(&self) -> String {
        let host = if self.host.is_empty() { "127.0.0.1" } else { &self.host };
        if host.contains(':') {
            format!("[{host}]:{}", self.port)
        } else {
            format!("{host}:{}", self.port)
        }
    }

    fn args(&self) -> Vec<String> {
        let mut args: Vec<String> =
            ["dev", "--exit-with-stdin", "--rpc-addr", &self.address(), "--accounts"]
                .map(String::from)
                .into();
        args.push(self.accounts.to_string());
        let mut flag = |name: &str, value: Option<String>| {
            args.extend(value.map(|v| format!("{name}={v}")));
        };
        flag("--balance", self.balance.clone());
        flag("--shards", self.shards.map(|n| n.to_string()));
        flag("--fork", self.fork.clone());
        flag("--log-transactions", self.on_line.is_none().then(|| "failed".into()));
        args
    }
}

impl fmt::Debug for StartOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartOptions").field("args", &self.args()).finish_non_exhaustive()
    }
}

/// A node with a chain of its own in a temporary folder. All methods of [`Chain`] are its methods.
///
/// The node ends, and its chain is removed, when the sandbox is dropped or stopped, and with the
/// process that started it, however that ends.
#[derive(Debug)]
pub struct Sandbox {
    chain: Chain,
    root: Account,
    accounts: Vec<Account>,
    node: Option<Arc<Node>>,
}

impl Sandbox {
    /// Starts a node on a free port.
    ///
    /// # Errors
    ///
    /// [`Error::NoBinary`] and [`Error::StartFailed`].
    pub async fn start() -> Result<Self> {
        Self::start_with(StartOptions::new()).await
    }

    /// Starts a node with options.
    ///
    /// # Errors
    ///
    /// [`Error::NoBinary`], [`Error::PortTaken`] and [`Error::StartFailed`].
    pub async fn start_with(options: StartOptions) -> Result<Self> {
        let quiet = options.quiet;
        let accounts = options.accounts;
        let (url, node) = io::run(start_node(options)).await?;
        let sandbox = Self::new(url, accounts, Some(Arc::new(node))).await?;
        if quiet {
            sandbox.set_production(ProductionOptions::new().quiet(true)).await?;
        }
        Ok(sandbox)
    }

    /// Uses a node that runs already, such as one of `troupe dev`. The node goes on when the
    /// sandbox is dropped. `accounts` says how many accounts dev0.near, dev1.near, ... it has.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if the URL is not `http://...`; [`Error::NodeEnded`] if no node answers.
    pub async fn connect(url: &str, accounts: usize) -> Result<Self> {
        let parsed = url.parse::<Uri>().ok().filter(|u| u.authority().is_some());
        match parsed.as_ref().and_then(Uri::scheme_str) {
            Some("http") => Self::new(url.trim_end_matches('/').into(), accounts, None).await,
            _ => {
                Err(Error::Input(format!("{url:?} is no address of a sandbox: must be http://...")))
            }
        }
    }

    async fn new(url: String, accounts: usize, node: Option<Arc<Node>>) -> Result<Self> {
        #[derive(serde::Deserialize)]
        struct Status {
            chain_id: String,
        }
        let status: Status =
            Chain::new(url.clone(), String::new(), node.clone()).rpc("status", ()).await?;
        let derived = |id: String| {
            let key = KeyPair::from_seed(&id);
            Account::new(id, key)
        };
        Ok(Self {
            chain: Chain::new(url, status.chain_id, node.clone()),
            root: derived(ROOT.into()),
            accounts: (0..accounts).map(|i| derived(format!("dev{i}.near"))).collect(),
            node,
        })
    }

    /// Returns the validator test.near, which has a billion NEAR. In a fork it does not exist.
    pub fn root(&self) -> &Account {
        &self.root
    }

    /// Returns the accounts that [`StartOptions::accounts`] made.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Returns the id of the node's process; `None` if it was not started here.
    pub fn pid(&self) -> Option<u32> {
        self.node.as_ref().map(|n| n.pid)
    }

    /// Returns the last lines that the node wrote.
    pub fn lines(&self) -> Vec<String> {
        self.node.as_ref().map(|n| n.lines()).unwrap_or_default()
    }

    /// Ends the node and removes its chain, and waits for that without blocking this thread. A
    /// node that was not started here goes on.
    pub async fn stop(mut self) {
        if let Some(node) = self.node.take() {
            io::run_blocking(move || node.stop()).await;
        }
    }
}

impl Deref for Sandbox {
    type Target = Chain;
    fn deref(&self) -> &Chain {
        &self.chain
    }
}

impl Drop for Sandbox {
    /// Ends the node if it was started here, and waits for that: some 20 milliseconds.
    fn drop(&mut self) {
        if let Some(node) = &self.node {
            node.stop();
        }
    }
}

/// Starts the process, and waits for its address.
async fn start_node(options: StartOptions) -> Result<(String, Node)> {
    let path = match &options.binary {
        Some(path) => binary::check(path)
            .map_err(|e| Error::NoBinary(format!("the binary of the options is {e}")))?,
        None => find_binary()?,
    };
    let (address, name) = (options.address(), path.display());
    let started = Node::start(&path, &options.args(), &options.env, options.on_line, |line| {
        line.strip_prefix("JSON-RPC  ").filter(|u| u.starts_with("http:")).map(str::to_owned)
    });
    let (node, ready) = started.map_err(|e| Error::StartFailed {
        message: format!("{name} cannot be started: {e}"),
        lines: Vec::new(),
    })?;
    let status = match tokio::time::timeout(options.timeout, ready).await {
        Ok(Ok(url)) => return Ok((url, node)),
        Ok(Err(_)) => None, // it has closed its outputs
        Err(_) => Some(format!("was not ready after {:?}", options.timeout)),
    };
    let (node, ended) = io::run_blocking(move || {
        let ended = node.ended_within(Duration::from_secs(1));
        node.stop();
        (node, ended)
    })
    .await;
    let lines = node.lines();
    if lines.iter().any(|l| l.contains("--rpc-addr: ") && l.contains("is in use")) {
        return Err(Error::PortTaken { address });
    }
    let status = status.or(ended).unwrap_or_else(|| "closed its output".into());
    // all flags are this crate's
    let unknown = ["troupe: unknown flag: --", "troupe: unknown command \"dev\""];
    let old = lines.iter().any(|l| unknown.iter().any(|u| l.starts_with(u)));
    let old = if old { ": it is older than this crate" } else { "" };
    Err(Error::StartFailed { message: format!("{name} {status}{old}{}", node.text()), lines })
}
