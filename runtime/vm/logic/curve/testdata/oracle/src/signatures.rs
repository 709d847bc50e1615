// Signatures: 0 or 1 as the host function returns it, 2 where it returns 0 before it has read the message.

pub fn p256(sig: &[u8], hash: &[u8], key: &[u8]) -> u8 {
    use p256::ecdsa::{signature::hazmat::PrehashVerifier, Signature, VerifyingKey};
    let Ok(sig) = Signature::from_slice(sig) else { return 2 };
    let Ok(key) = VerifyingKey::from_sec1_bytes(key) else { return 0 };
    key.verify_prehash(hash, &sig).is_ok() as u8
}

pub fn ed25519(sig: &[u8], msg: &[u8], key: &[u8]) -> u8 {
    use ed25519_dalek::{Signature, Verifier, VerifyingKey};
    if sig[63] & 0xe0 != 0 {
        return 2;
    }
    let sig = Signature::from_bytes(sig.try_into().unwrap());
    let Ok(key) = VerifyingKey::from_bytes(key.try_into().unwrap()) else { return 0 };
    key.verify(msg, &sig).is_ok() as u8
}

// The order of secp256k1, and the first s that the malleability flag refuses.
const ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
const UPPER: &str = "7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1";

pub fn ecrecover(hash: &[u8], sig: &[u8], v: u8, no_upper: bool) -> Vec<u8> {
    use secp256k1::{ecdsa::*, Message, Secp256k1};
    let (order, upper) = (crate::unhex(ORDER), crate::unhex(UPPER)); // big-endian: compared as bytes
    if sig[..32] >= order[..] || sig[32..] >= if no_upper { upper } else { order }[..] {
        return vec![0];
    }
    let id = RecoveryId::from_i32(v.into()).unwrap();
    let Ok(sig) = RecoverableSignature::from_compact(sig, id) else { return vec![0] };
    match Secp256k1::new().recover_ecdsa(&Message::from_slice(hash).unwrap(), &sig) {
        Ok(key) => [&[1], &key.serialize_uncompressed()[1..]].concat(),
        Err(_) => vec![0],
    }
}
