use std::fmt;

use ed25519_dalek::{Signer, SigningKey};

use crate::{Error, Result};

/// The yoctoNEAR of a NEAR: `5 * NEAR`.
pub const NEAR: u128 = 1_000_000_000_000_000_000_000_000;
/// The gas of a TGas: `30 * TGAS`.
pub const TGAS: u64 = 1_000_000_000_000;

/// Converts NEAR in decimals to yoctoNEAR.
///
/// # Errors
///
/// [`Error::Input`] if the text is not digits with at most 24 decimals, or the amount is too large.
///
/// ```
/// # use troupe_sandbox::{near, NEAR};
/// assert_eq!(near("1.5")?, NEAR + NEAR / 2);
/// # Ok::<(), troupe_sandbox::Error>(())
/// ```
pub fn near(amount: &str) -> Result<u128> {
    let (whole, rest) = amount.split_once('.').unwrap_or((amount, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let parsed = if !whole.is_empty() && digits(whole) && digits(rest) && rest.len() <= 24 {
        format!("{whole}{rest:0<24}").parse().ok()
    } else {
        None
    };
    parsed.ok_or_else(|| {
        Error::Input(format!(
            "{amount:?} is no amount of NEAR: must be digits with at most 24 decimals, and below 2^128 yoctoNEAR"
        ))
    })
}

/// An ed25519 key pair. Its `Debug` form has the public key only.
#[derive(Clone)]
pub struct KeyPair {
    signing: SigningKey,
    secret: String,
    public: String,
}

impl KeyPair {
    fn new(seed: [u8; 32]) -> Self {
        let signing = SigningKey::from_bytes(&seed);
        let text = |bytes: &[u8]| format!("ed25519:{}", bs58::encode(bytes).into_string());
        let (secret, public) =
            (text(&signing.to_keypair_bytes()), text(signing.verifying_key().as_bytes()));
        Self { signing, secret, public }
    }

    /// Makes a random key pair.
    ///
    /// # Panics
    ///
    /// Panics if the operating system has no random numbers.
    pub fn random() -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("random numbers of the operating system");
        Self::new(seed)
    }

    /// Derives a key pair from a word, as nearcore's `from_seed` and `troupe keys new --seed` do.
    /// Anyone can derive it, so it is only for tests. The client commands of troupe find keys that
    /// are derived from the account's name.
    pub fn from_seed(word: &str) -> Self {
        let mut seed = [b' '; 32];
        for (to, from) in seed.iter_mut().zip(word.bytes()) {
            *to = from;
        }
        Self::new(seed)
    }

    /// Reads a secret key: `ed25519:` and base58 of 64 bytes, or of 32 (the seed alone).
    ///
    /// # Errors
    ///
    /// [`Error::Input`] if it has another form. The error does not contain the key.
    pub fn from_secret(secret_key: &str) -> Result<Self> {
        let bytes = secret_key
            .strip_prefix("ed25519:")
            .and_then(|s| bs58::decode(s).into_vec().ok())
            .filter(|b| b.len() == 64 || b.len() == 32);
        let seed = bytes.and_then(|b| b[..32].try_into().ok());
        seed.map(Self::new).ok_or_else(|| {
            Error::Input("a secret key must be ed25519: and base58 of 64 bytes".into())
        })
    }

    /// Returns the secret key in NEAR's text form: `ed25519:` and base58 of seed and public key.
    pub fn secret_key(&self) -> &str {
        &self.secret
    }

    /// Returns the public key in NEAR's text form: `ed25519:` and base58.
    pub fn public_key(&self) -> &str {
        &self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signing.sign(message).to_bytes()
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("public_key", &self.public).finish_non_exhaustive()
    }
}

/// An account, with the key that signs for it.
#[derive(Clone, Debug)]
pub struct Account {
    id: String,
    key: Option<KeyPair>,
}

impl Account {
    /// Makes an account of an id and a full access key. It does not change the chain.
    pub fn new(id: impl Into<String>, key: KeyPair) -> Self {
        Self { id: id.into(), key: Some(key) }
    }

    /// Makes an account whose key is not known, such as one of a forked chain. Its transactions
    /// have no signature: allow that with [`Chain::impersonate`](crate::Chain::impersonate).
    pub fn impersonated(id: impl Into<String>) -> Self {
        Self { id: id.into(), key: None }
    }

    /// Returns the account's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the key pair.
    ///
    /// # Panics
    ///
    /// Panics for an account of [`Account::impersonated`].
    pub fn key(&self) -> &KeyPair {
        self.key.as_ref().unwrap_or_else(|| panic!("{} is impersonated: it has no key", self.id))
    }

    /// Returns the secret key, `ed25519:...`, which near-api and near-workspaces parse.
    ///
    /// # Panics
    ///
    /// Panics for an account of [`Account::impersonated`].
    pub fn secret_key(&self) -> &str {
        self.key().secret_key()
    }

    /// Returns the public key, `ed25519:...`.
    ///
    /// # Panics
    ///
    /// Panics for an account of [`Account::impersonated`].
    pub fn public_key(&self) -> &str {
        self.key().public_key()
    }

    pub(crate) fn signer(&self) -> Option<&KeyPair> {
        self.key.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (text, want) in [
            ("0", 0),
            ("1", NEAR),
            ("0.5", NEAR / 2),
            ("1.", NEAR),
            ("000000000000000000000000000000000000000000001", NEAR),
            ("0.000000000000000000000001", 1),
            ("340282366920938.463463374607431768211455", u128::MAX),
        ] {
            assert_eq!(near(text).unwrap(), want, "{text}");
        }
        for text in [
            "",
            ".5",
            "-1",
            "1e3",
            "1,5",
            "1.5.0",
            " 1",
            "0.0000000000000000000000001",
            "340282366920938.463463374607431768211456",
        ] {
            assert!(matches!(near(text), Err(Error::Input(_))), "{text}");
        }
    }

    #[test]
    fn keys() {
        // the key that nearcore derives from "near"
        let key = KeyPair::from_seed("near");
        assert_eq!(key.public_key(), "ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c");
        let read = KeyPair::from_secret(key.secret_key()).unwrap();
        assert_eq!(read.public_key(), key.public_key());
        let seed = format!("ed25519:{}", bs58::encode(&key.signing.to_bytes()).into_string());
        assert_eq!(KeyPair::from_secret(&seed).unwrap().secret_key(), key.secret_key());
        assert_ne!(KeyPair::random().public_key(), KeyPair::random().public_key());
        assert!(!format!("{key:?}").contains(key.secret_key()));
        for text in
            ["", "ed25519:", "ed25519:0", "ed25519:abc", &key.secret_key()[8..], "secp256k1:abc"]
        {
            let err = KeyPair::from_secret(text).unwrap_err();
            assert!(matches!(err, Error::Input(_)));
        }
    }
}
