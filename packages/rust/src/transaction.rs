use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use base64::{engine::general_purpose::STANDARD, Engine};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Account, Chain, Error, KeyPair, Result, WaitUntil, TGAS};

/// The gas of a function call that does not set it.
const DEFAULT_GAS: u64 = 100 * TGAS;

/// A step of a transaction on its receiver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Creates the receiver.
    CreateAccount,
    /// Sets the receiver's contract.
    DeployContract(Vec<u8>),
    /// Calls a function of the receiver's contract.
    FunctionCall {
        /// The function.
        method: String,
        /// Its arguments, as the contract reads them.
        args: Vec<u8>,
        /// The gas that it may use.
        gas: u64,
        /// The attached deposit in yoctoNEAR.
        deposit: u128,
    },
    /// Transfers yoctoNEAR.
    Transfer(u128),
    /// Adds a full access key, `ed25519:...`.
    AddKey(String),
    /// Removes a key, `ed25519:...`.
    DeleteKey(String),
    /// Deletes the receiver. The account that is named gets its balance.
    DeleteAccount(String),
}

impl Action {
    /// Makes a function call with JSON arguments, 100 TGas and no deposit.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if the arguments do not serialize to JSON.
    pub fn call(method: impl Into<String>, args: impl Serialize) -> Result<Self> {
        let args = to_json(&args)?;
        Ok(Self::FunctionCall { method: method.into(), args, gas: DEFAULT_GAS, deposit: 0 })
    }

    fn encode(&self, to: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::CreateAccount => to.push(0),
            Self::DeployContract(code) => {
                to.push(1);
                encode_bytes(to, code);
            }
            Self::FunctionCall { method, args, gas, deposit } => {
                to.push(2);
                encode_bytes(to, method.as_bytes());
                encode_bytes(to, args);
                to.extend(gas.to_le_bytes());
                to.extend(deposit.to_le_bytes());
            }
            Self::Transfer(amount) => {
                to.push(3);
                to.extend(amount.to_le_bytes());
            }
            Self::AddKey(key) => {
                to.push(5);
                to.extend(public_key_bytes(key)?);
                to.extend(0u64.to_le_bytes());
                to.push(1); // full access
            }
            Self::DeleteKey(key) => {
                to.push(6);
                to.extend(public_key_bytes(key)?);
            }
            Self::DeleteAccount(beneficiary) => {
                to.push(7);
                encode_bytes(to, beneficiary.as_bytes());
            }
        }
        Ok(())
    }
}

/// A signed transaction, as bytes in borsh.
#[derive(Clone, Debug)]
pub struct SignedTransaction {
    hash: String,
    bytes: Vec<u8>,
}

impl SignedTransaction {
    /// Returns the transaction's hash, in base58.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Encodes and signs a transaction. Without a signer it gets a signature of zeros.
    pub(crate) fn new(
        signer_id: &str,
        public_key: &str,
        signer: Option<&KeyPair>,
        nonce: u64,
        receiver_id: &str,
        block_hash: &str,
        actions: &[Action],
    ) -> Result<Self> {
        let mut bytes = Vec::new();
        encode_bytes(&mut bytes, signer_id.as_bytes());
        bytes.extend(public_key_bytes(public_key)?);
        bytes.extend(nonce.to_le_bytes());
        encode_bytes(&mut bytes, receiver_id.as_bytes());
        let block = bs58::decode(block_hash).into_vec().unwrap_or_default();
        if block.len() != 32 {
            return Err(Error::BadReply(format!("{block_hash:?} is not the hash of a block")));
        }
        bytes.extend(block);
        bytes.extend(length(actions.len()));
        for action in actions {
            action.encode(&mut bytes)?;
        }
        let hash = Sha256::digest(&bytes);
        bytes.push(0); // ed25519
        bytes.extend(signer.map_or([0; 64], |key| key.sign(&hash)));
        Ok(Self { hash: bs58::encode(hash).into_string(), bytes })
    }
}

impl AsRef<[u8]> for SignedTransaction {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What a transaction and its receipts did. Its `Debug` form leaves out `status`, which fills a
/// screen, and shows the value as a text.
#[derive(Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// The transaction's hash, in base58. Empty if the node was not asked to wait for a block.
    pub hash: String,
    /// The transaction's own outcome, and those of its receipts that have run.
    pub receipts: Vec<ReceiptOutcome>,
    /// The value that the called function returned.
    pub value: Vec<u8>,
    /// The whole reply of `send_tx`.
    pub status: Value,
}

/// What a receipt did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceiptOutcome {
    /// The receipt's id; of the first outcome the transaction's hash.
    pub id: String,
    /// The account that it ran on.
    pub executor_id: String,
    /// What the contract logged.
    pub logs: Vec<String>,
    /// Gas that it burnt.
    pub gas_burnt: u64,
    /// The cost in yoctoNEAR.
    pub tokens_burnt: u128,
    /// The failure in NEAR's form, if it failed.
    pub failure: Option<Value>,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("hash", &self.hash)
            .field("receipts", &self.receipts)
            .field("value", &String::from_utf8_lossy(&self.value))
            .finish_non_exhaustive()
    }
}

impl Outcome {
    fn new(status: Value) -> Self {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let receipts = std::iter::once(&status["transaction_outcome"])
            .chain(status["receipts_outcome"].as_array().into_iter().flatten())
            .filter(|o| o.is_object())
            .map(|o| {
                let outcome = &o["outcome"];
                let logs = outcome["logs"].as_array().into_iter().flatten().map(text).collect();
                ReceiptOutcome {
                    id: text(&o["id"]),
                    executor_id: text(&outcome["executor_id"]),
                    logs,
                    gas_burnt: outcome["gas_burnt"].as_u64().unwrap_or(0),
                    tokens_burnt: text(&outcome["tokens_burnt"]).parse().unwrap_or(0),
                    failure: outcome["status"].get("Failure").cloned(),
                }
            })
            .collect();
        let value = status["status"]["SuccessValue"].as_str().unwrap_or_default();
        Self {
            hash: text(&status["transaction"]["hash"]),
            receipts,
            value: STANDARD.decode(value).unwrap_or_default(),
            status,
        }
    }

    /// Reads the reply of `send_tx` and the like; an error if the transaction failed.
    pub(crate) fn read(status: Value) -> Result<Self> {
        match status["status"].get("Failure").cloned() {
            None => Ok(Self::new(status)),
            Some(failure) => {
                let outcome = Self::new(status);
                Err(Box::new(crate::TransactionError { failure, outcome }).into())
            }
        }
    }

    /// Parses the value that the called function returned as JSON. No value is read as `null`.
    ///
    /// # Errors
    ///
    /// [`Error::BadReply`] if the value is not JSON, or not that of the type.
    pub fn json<R: DeserializeOwned>(&self) -> Result<R> {
        from_json(&self.value)
    }

    /// Returns the logs of all receipts.
    pub fn logs(&self) -> impl Iterator<Item = &str> {
        self.receipts.iter().flat_map(|r| r.logs.iter().map(String::as_str))
    }

    /// Returns the gas that all receipts burnt.
    pub fn gas_burnt(&self) -> u64 {
        self.receipts.iter().map(|r| r.gas_burnt).sum()
    }

    /// Returns the cost of all receipts in yoctoNEAR.
    pub fn tokens_burnt(&self) -> u128 {
        self.receipts.iter().map(|r| r.tokens_burnt).sum()
    }
}

/// A call of a contract's function, which is sent when it is awaited. See
/// [`Chain::call_function`].
#[derive(Debug)]
#[must_use = "the call is sent when it is awaited"]
pub struct FunctionCall<'a> {
    chain: &'a Chain,
    signer: &'a Account,
    contract_id: String,
    method: String,
    args: Result<Vec<u8>>,
    gas: u64,
    deposit: u128,
    wait_until: WaitUntil,
}

impl<'a> FunctionCall<'a> {
    pub(crate) fn new(
        chain: &'a Chain,
        signer: &'a Account,
        contract_id: &str,
        method: &str,
    ) -> Self {
        Self {
            chain,
            signer,
            contract_id: contract_id.into(),
            method: method.into(),
            args: Ok(b"{}".to_vec()),
            gas: DEFAULT_GAS,
            deposit: 0,
            wait_until: WaitUntil::default(),
        }
    }

    /// Sets the arguments, as JSON. Default: `{}`.
    pub fn args(mut self, args: impl Serialize) -> Self {
        self.args = to_json(&args);
        self
    }
    /// Sets the arguments in another form, such as borsh.
    pub fn args_bytes(mut self, args: impl Into<Vec<u8>>) -> Self {
        self.args = Ok(args.into());
        self
    }
    /// Sets the gas that the call may use. Default: 100 TGas.
    pub fn gas(mut self, gas: u64) -> Self {
        self.gas = gas;
        self
    }
    /// Sets the attached deposit in yoctoNEAR.
    pub fn deposit(mut self, yocto: u128) -> Self {
        self.deposit = yocto;
        self
    }
    /// Sets when the call returns. Default: when all receipts have run.
    pub fn wait_until(mut self, wait_until: WaitUntil) -> Self {
        self.wait_until = wait_until;
        self
    }
}

impl<'a> IntoFuture for FunctionCall<'a> {
    type Output = Result<Outcome>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { chain, signer, contract_id, method, gas, deposit, .. } = self;
            let action = Action::FunctionCall { method, args: self.args?, gas, deposit };
            chain.transact_until(signer, &contract_id, &[action], self.wait_until).await
        })
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|e| Error::Input(format!("the arguments do not serialize to JSON: {e}")))
}

/// Parses a value that a contract returned.
pub(crate) fn from_json<R: DeserializeOwned>(bytes: &[u8]) -> Result<R> {
    let json = if bytes.is_empty() { b"null" } else { bytes };
    serde_json::from_slice(json).map_err(|e| {
        let text = String::from_utf8_lossy(&json[..json.len().min(200)]);
        Error::BadReply(format!("the contract returned {text:?}: {e}"))
    })
}

fn length(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes() // the node refuses far less
}

fn encode_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(length(bytes.len()));
    to.extend(bytes);
}

fn public_key_bytes(key: &str) -> Result<Vec<u8>> {
    let (kind, text, size) = match key.split_once(':') {
        Some(("ed25519", text)) => (0, text, 32),
        Some(("secp256k1", text)) => (1, text, 64),
        _ => (0, "", 32),
    };
    let bytes = bs58::decode(text).into_vec().unwrap_or_default();
    if bytes.len() != size {
        return Err(Error::Input(format!(
            "{key:?} is no public key: must be ed25519: or secp256k1:, and base58 of 32 or 64 bytes"
        )));
    }
    Ok([vec![kind], bytes].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_none_are_refused() {
        for key in [
            "",
            "ed25519",
            "ed25519:",
            "ed25519:1",
            "secp256k1:11111111111111111111111111111111",
            "x:11111111111111111111111111111111",
        ] {
            let err = Action::AddKey(key.into()).encode(&mut Vec::new()).unwrap_err();
            assert!(matches!(&err, Error::Input(m) if m.contains("no public key")), "{err}");
        }
        let mut bytes = Vec::new();
        Action::DeleteKey(format!("secp256k1:{}", "1".repeat(64))).encode(&mut bytes).unwrap();
        assert_eq!(bytes, [vec![6, 1], vec![0; 64]].concat());
    }

    #[test]
    fn values_of_contracts() {
        assert_eq!(from_json::<Option<u8>>(b"").unwrap(), None);
        assert_eq!(from_json::<u8>(b"7").unwrap(), 7);
        let err = from_json::<u8>(b"\"x\"").unwrap_err().to_string();
        assert!(err.contains("the contract returned"), "{err}");
    }
}
