use std::fmt;

use serde_json::Value;

use crate::Outcome;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can fail. [`Error::Rpc`] and [`Error::Transaction`] are refusals by the chain; the others
/// are about the node, its address, or an argument.
///
/// Its `Debug` form is its message, so that a test that returns `Result<(), Error>` shows it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no binary of troupe where [`find_binary`](crate::find_binary) looks for one.
    #[error("{0}")]
    NoBinary(String),
    /// The port that was asked for is in use.
    #[error("{address} is in use: choose another port, or 0 for a free one")]
    PortTaken {
        /// The address, host:port.
        address: String,
    },
    /// The node ended before it was ready, or was not ready in time.
    #[error("{message}")]
    StartFailed {
        /// What failed, with the node's last lines.
        message: String,
        /// The last lines that the node wrote.
        lines: Vec<String>,
    },
    /// The node has ended, or does not answer at its address.
    #[error("{message}")]
    NodeEnded {
        /// What failed, with the node's last lines if this process started it.
        message: String,
        /// The last lines that the node wrote. Empty for a node that another process started.
        lines: Vec<String>,
    },
    /// The world was ended, or ended by itself since it got no request for ten minutes.
    #[error("{method}: the world at {url} has ended")]
    WorldEnded {
        /// The method that was called.
        method: String,
        /// The world's address.
        url: String,
    },
    /// The node refused a request.
    #[error(transparent)]
    Rpc(#[from] Box<RpcError>),
    /// A transaction was executed and failed.
    #[error(transparent)]
    Transaction(#[from] Box<TransactionError>),
    /// The reply is not that of a NEAR node, or has another form than the caller wants.
    #[error("{0}")]
    BadReply(String),
    /// An argument is invalid: a key, an amount, an address, or arguments that are not JSON.
    #[error("{0}")]
    Input(String),
    /// A contract did not compile.
    #[error("{0}")]
    Build(String),
    /// A subscription has ended.
    #[error("the subscription at {url} has ended: {reason}")]
    SubscriptionClosed {
        /// The address of the WebSocket.
        url: String,
        /// The node's reason, such as `SLOW_READER` or `NODE_STOPPING`.
        reason: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns the name of the cause, such as `UNKNOWN_ACCOUNT`, if the node refused a request.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Rpc(e) => Some(&e.cause),
            _ => None,
        }
    }

    /// Returns the failed transaction, if it is one that was executed.
    pub fn transaction(&self) -> Option<&TransactionError> {
        match self {
            Self::Transaction(e) => Some(e),
            _ => None,
        }
    }
}

/// An error reply of the node: NEAR's name, cause and info.
#[derive(Clone, Debug)]
pub struct RpcError {
    /// The method that was called.
    pub method: String,
    /// `HANDLER_ERROR`, `REQUEST_VALIDATION_ERROR` or `INTERNAL_ERROR`.
    pub name: String,
    /// The cause's name, which identifies the error: `UNKNOWN_ACCOUNT`, `SANDBOX_REFUSED`, ...
    pub cause: String,
    /// The cause's details. Its fields depend on the cause.
    pub info: Value,
    /// The code of JSON-RPC.
    pub code: i64,
    /// The message of JSON-RPC.
    pub message: String,
    /// The field `data` of the reply: a text, or an object for a refused transaction.
    pub data: Value,
    /// The contract and the function that a view called: `app.near members`. Else empty.
    pub call: String,
}

impl RpcError {
    pub(crate) fn new(method: &str, error: &Value) -> Self {
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let name = text(&error["name"]).unwrap_or_else(|| "UNKNOWN".into());
        Self {
            method: method.into(),
            cause: text(&error["cause"]["name"]).unwrap_or_else(|| name.clone()),
            name,
            info: error["cause"]["info"].clone(),
            code: error["code"].as_i64().unwrap_or(0),
            message: text(&error["message"]).unwrap_or_default(),
            data: error["data"].clone(),
            call: String::new(),
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.call.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}: {}", self.method, self.call, self.cause)?;
        let texts = [&self.info["reason"], &self.info["error_message"], &self.data];
        if let Some(text) = texts.iter().find_map(|v| v.as_str().filter(|s| !s.is_empty())) {
            write!(f, ": {text}")
        } else if !self.data.is_null() {
            write!(f, ": {}", self.data)
        } else if !self.message.is_empty() {
            write!(f, ": {}", self.message)
        } else {
            Ok(())
        }
    }
}

impl std::error::Error for RpcError {}

/// A transaction that was executed and failed.
#[derive(Clone, Debug)]
pub struct TransactionError {
    /// NEAR's description of the failure, for instance
    /// `{"ActionError": {"index": 0, "kind": {"FunctionCallError": ...}}}`.
    pub failure: Value,
    /// What was executed until then.
    pub outcome: Outcome,
}

impl TransactionError {
    /// Returns the contract's panic or the runtime's error as a text, else the failure as JSON.
    pub fn reason(&self) -> String {
        let kind = &self.failure["ActionError"]["kind"];
        match kind["FunctionCallError"]["ExecutionError"].as_str() {
            Some(text) => text.into(),
            None if kind.is_null() => self.failure.to_string(),
            None => kind.to_string(),
        }
    }

    /// Returns who sent what to whom: ` of alice.near to app.near (join)`. Empty if the node's
    /// reply has no transaction.
    fn subject(&self) -> String {
        let transaction = &self.outcome.status["transaction"];
        let (Some(from), Some(to)) =
            (transaction["signer_id"].as_str(), transaction["receiver_id"].as_str())
        else {
            return String::new();
        };
        let actions = transaction["actions"].as_array().into_iter().flatten();
        let methods: Vec<&str> =
            actions.filter_map(|a| a["FunctionCall"]["method_name"].as_str()).collect();
        match methods[..] {
            [] => format!(" of {from} to {to}"),
            _ => format!(" of {from} to {to} ({})", methods.join(", ")),
        }
    }
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hash, subject) = (&self.outcome.hash, self.subject());
        write!(f, "transaction {hash}{subject} failed: {}", self.reason())?;
        for log in self.outcome.logs() {
            write!(f, "\n  log: {log}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TransactionError {}
