//! Signatures: good ones, and each thing that can be wrong with one.

use super::{bytes, chance, flip, Rng};
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::Signer;
use rand::Rng as _;

type Slices = [Vec<u8>; 3];

const ED25519_ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// y coordinates of points of small order that are not below the modulus, and the modulus with what lies above it.
fn over25519(n: u8) -> [u8; 32] {
    let mut b = [0xff; 32];
    b[31] = 0x7f;
    b[0] = 0xed + n;
    b
}

/// a plus the order of the base point, as numbers of 32 bytes.
fn plus_order(a: &mut [u8]) {
    let mut carry = 0u16;
    for (x, y) in a.iter_mut().zip(ED25519_ORDER) {
        carry += u16::from(*x) + u16::from(y);
        *x = carry as u8;
        carry >>= 8;
    }
}

/// Signature, message, key.
pub fn ed25519(rng: &mut Rng, i: usize) -> (String, Slices) {
    let key = ed25519_dalek::SigningKey::from_bytes(&rng.gen());
    let n = [0, 1, 32, 33, 64, 111, 112, 127, 128, 200, 1000][rng.gen_range(0..11)];
    let mut message = bytes(rng, n);
    let mut s = key.sign(&message).to_bytes().to_vec();
    let mut k = key.verifying_key().to_bytes().to_vec();
    let kind = match i % 20 {
        0..=3 => "good",
        4 => {
            flip(rng, &mut s);
            "signature flipped"
        }
        5 => {
            flip(rng, &mut k);
            "key flipped"
        }
        6 => {
            message.push(1);
            "another message"
        }
        7 => {
            plus_order(&mut s[32..]);
            "s plus the order"
        }
        8 => {
            s[63] |= [0x20, 0x40, 0x80][rng.gen_range(0..3)];
            "high bits of s"
        }
        9 => {
            let n = rng.gen_range(0..70);
            s = bytes(rng, n);
            "signature's length"
        }
        10 => {
            let n = rng.gen_range(0..40);
            k = bytes(rng, n);
            "key's length"
        }
        11..=13 => {
            // A key of small order: R = sB + T holds whenever hA = -T, for which a few messages do.
            let a = EIGHT_TORSION[rng.gen_range(0..8)];
            let t = EIGHT_TORSION[rng.gen_range(0..8)];
            let z = Scalar::from_bytes_mod_order(rng.gen());
            k = a.compress().to_bytes().to_vec();
            s = [(z * ED25519_BASEPOINT_POINT + t).compress().to_bytes(), z.to_bytes()].concat();
            "key of small order"
        }
        14 => {
            // R of small order beside a good key: s = h·a would be needed.
            s[..32].copy_from_slice(&EIGHT_TORSION[rng.gen_range(0..8)].compress().to_bytes());
            "R of small order"
        }
        15 => {
            // The identity as key in all its spellings, s = 0 and R the identity.
            k = [1u8; 1].iter().copied().chain([0; 31]).collect();
            if chance(rng, 50) {
                k = over25519(1).to_vec(); // y = p + 1
            }
            if chance(rng, 50) {
                k[31] |= 0x80;
            }
            let r: [u8; 32] = match rng.gen_range(0..3) {
                0 => over25519(1),
                1 => {
                    let mut r = [0; 32];
                    (r[0], r[31]) = (1, 0x80);
                    r
                }
                _ => {
                    let mut r = [0; 32];
                    r[0] = 1;
                    r
                }
            };
            s = [r, [0; 32]].concat();
            "identity in many spellings"
        }
        16 => {
            k = over25519(rng.gen_range(0..19)).to_vec();
            if chance(rng, 30) {
                k[31] |= 0x80;
            }
            "key's y over the modulus"
        }
        17 => {
            // A key with a torsion part: mixed order.
            let mut hash = [0u8; 32];
            hash.copy_from_slice(&bytes(rng, 32));
            let a = Scalar::from_bytes_mod_order(hash);
            let t = EIGHT_TORSION[rng.gen_range(1..8)];
            let key = (a * ED25519_BASEPOINT_POINT + t).compress();
            let r = Scalar::from_bytes_mod_order(rng.gen());
            let point = (r * ED25519_BASEPOINT_POINT).compress();
            use sha2::Digest;
            let h = sha2::Sha512::new().chain_update(point.0).chain_update(key.0).chain_update(&message).finalize();
            let z = r + Scalar::from_bytes_mod_order_wide(&h.into()) * a;
            k = key.to_bytes().to_vec();
            s = [point.to_bytes(), z.to_bytes()].concat();
            "key of mixed order"
        }
        18 => {
            k = bytes(rng, 32);
            "key is noise"
        }
        _ => {
            s = bytes(rng, 64);
            s[63] &= 0x1f;
            "signature is noise"
        }
    };
    (kind.into(), [s, message, k])
}

const P256_ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";

/// Signature, message (already a hash), key.
pub fn p256(rng: &mut Rng, i: usize) -> (String, Slices) {
    use p256::ecdsa::signature::hazmat::PrehashSigner;
    let key = p256::ecdsa::SigningKey::from_slice(&{
        let mut b = bytes(rng, 32);
        b[0] = 1;
        b
    })
    .unwrap();
    let mut n = 32;
    if i % 5 == 0 {
        n = [16, 17, 20, 28, 31, 33, 48, 64, 100][rng.gen_range(0..9)];
    }
    let mut message = bytes(rng, n);
    if i % 7 == 0 {
        message.iter_mut().take(32).for_each(|b| *b = 0xff); // over the order
    }
    if i % 31 == 0 {
        message.fill(0);
    }
    let signature: p256::ecdsa::Signature = key.sign_prehash(&message).unwrap();
    let mut s = signature.to_bytes().to_vec();
    if chance(rng, 50) {
        // the other s
        let (r, z) = signature.split_scalars();
        s = p256::ecdsa::Signature::from_scalars(r, -z).unwrap().to_bytes().to_vec();
    }
    let mut k = key.verifying_key().to_encoded_point(true).as_bytes().to_vec();
    let order = hex::decode(P256_ORDER).unwrap();
    let kind = match i % 19 {
        0..=5 => "good",
        6 => {
            flip(rng, &mut s);
            "signature flipped"
        }
        7 => {
            flip(rng, &mut k);
            "key flipped"
        }
        8 => {
            let at = rng.gen_range(0..message.len().min(32));
            message[at] ^= 1;
            "another message"
        }
        9 => {
            let n = rng.gen_range(0..16);
            message.truncate(n);
            "short message"
        }
        10 => {
            let at = 32 * rng.gen_range(0..2);
            s[at..at + 32].fill(0);
            "r or s zero"
        }
        11 => {
            let at = 32 * rng.gen_range(0..2);
            s[at..at + 32].copy_from_slice(&order);
            if chance(rng, 50) {
                s[at + 31] -= 1;
            }
            "r or s at the order"
        }
        12 => {
            s[..32].fill(0xff);
            "r of ones"
        }
        13 => {
            let n = rng.gen_range(0..70);
            s = bytes(rng, n);
            "signature's length"
        }
        14 => {
            let n = rng.gen_range(0..70);
            k = bytes(rng, n);
            "key's length"
        }
        15 => {
            k[0] = rng.gen_range(0..8);
            "key's prefix"
        }
        16 => {
            k = bytes(rng, 33);
            k[0] = 2 + (k[0] & 1);
            "key is noise"
        }
        17 => {
            k[1..].fill(0xff);
            "key over the modulus"
        }
        _ => {
            message.extend(bytes(rng, 40));
            "longer message"
        }
    };
    (kind.into(), [s, message, k])
}

const SECP256K1_ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";

/// Hash, signature, v, malleability flag.
pub fn recover(rng: &mut Rng, i: usize) -> (String, [Vec<u8>; 2], u64, u64) {
    let key = k256::ecdsa::SigningKey::from_slice(&{
        let mut b = bytes(rng, 32);
        b[0] = 1;
        b
    })
    .unwrap();
    let mut h = bytes(rng, 32);
    if i % 23 == 0 {
        h.fill(0xff);
    }
    if i % 29 == 0 {
        h.fill(0);
    }
    let (signature, id) = key.sign_prehash_recoverable(&h).unwrap();
    let mut s = signature.to_bytes().to_vec();
    let mut v = u64::from(id.to_byte());
    let mut flag = u64::from(chance(rng, 30));
    let order = hex::decode(SECP256K1_ORDER).unwrap();
    let kind = match i % 17 {
        0..=4 => "good",
        5 | 6 => {
            let (r, z) = signature.split_scalars();
            s = k256::ecdsa::Signature::from_scalars(r, -z).unwrap().to_bytes().to_vec();
            v ^= 1;
            "high s"
        }
        7 => {
            v = rng.gen_range(0..4);
            "another v"
        }
        8 => {
            v = [4, 5, 27, 28, 255, 256, u64::MAX][rng.gen_range(0..7)];
            "v too large"
        }
        9 => {
            flag = [2, 3, 256, u64::MAX][rng.gen_range(0..4)];
            "flag too large"
        }
        10 => {
            let at = 32 * rng.gen_range(0..2);
            s[at..at + 32].fill(0);
            "r or s zero"
        }
        11 => {
            let at = 32 * rng.gen_range(0..2);
            s[at..at + 32].copy_from_slice(&order);
            match rng.gen_range(0..3) {
                0 => s[at + 31] -= 1,
                1 => s[at + 31] += 1,
                _ => {}
            }
            "r or s at the order"
        }
        12 => {
            // r small enough that r plus the order is below the modulus
            s[..32].fill(0);
            s[31] = rng.gen_range(1..60);
            v = rng.gen_range(0..4);
            "small r"
        }
        13 => {
            s = bytes(rng, 64);
            v = rng.gen_range(0..4);
            "noise"
        }
        14 => {
            let n = rng.gen_range(0..70);
            s = bytes(rng, n);
            "signature's length"
        }
        15 => {
            let n = rng.gen_range(0..40);
            h = bytes(rng, n);
            "hash's length"
        }
        _ => {
            flip(rng, &mut s);
            "flipped"
        }
    };
    (kind.into(), [h, s], v, flag)
}

/// ML-DSA-65: signature, message, key. A signature is 48 bytes of a hash, 3200 of z, 55 of hints and 6 of their numbers. What
/// belongs together stands together, so that it compresses. Signing is random; what is signed is not.
pub fn ml_dsa(rng: &mut Rng) -> Vec<(String, Slices)> {
    let mut out = vec![];
    for (k, n) in [32, 0, 1, 200].into_iter().enumerate() {
        let secret = near_crypto::SecretKey::from_seed(near_crypto::KeyType::MLDSA65, &format!("oracle {k}"));
        let message = bytes(rng, n);
        let signature = borsh::to_vec(&secret.sign(&message)).unwrap()[1..].to_vec();
        let key = secret.public_key().key_data().to_vec();
        let mut add = |kind: &str, s: &[u8], m: &[u8], k: &[u8]| out.push((kind.to_string(), [s.to_vec(), m.to_vec(), k.to_vec()]));
        add("good", &signature, &message, &key);
        add("longer message", &signature, &[&message[..], &[0]].concat(), &key);
        for i in 0..24 {
            let (mut s, mut m, mut k) = (signature.clone(), message.clone(), key.clone());
            let kind = match i {
                0..4 => {
                    flip(rng, &mut s[..48]);
                    "hash"
                }
                4..8 => {
                    flip(rng, &mut s[48..3248]);
                    "z"
                }
                8 => {
                    s[48..3248].fill(0xff);
                    "z too large"
                }
                9 => {
                    s[48..3248].fill(0);
                    "z at its end"
                }
                10..14 => {
                    flip(rng, &mut s[3248..3303]);
                    "hints"
                }
                14 => {
                    // behind the last hint there is zero
                    s[3302] = 1;
                    "hint behind the last"
                }
                15..18 => {
                    flip(rng, &mut s[3303..]);
                    "number of hints"
                }
                18 => {
                    s[3303..].fill(56);
                    "too many hints"
                }
                19 => {
                    let n = s[3303] as usize;
                    if n > 1 {
                        s.swap(3248, 3249);
                    }
                    "hints out of order"
                }
                20 => {
                    s[3249] = s[3248];
                    "hint twice"
                }
                21..23 if !m.is_empty() => {
                    flip(rng, &mut m);
                    "message"
                }
                _ => {
                    flip(rng, &mut k);
                    "key"
                }
            };
            add(kind, &s, &m, &k);
        }
        add("signature too short", &signature[..3308], &message, &key);
        add("signature too long", &[&signature[..], &[0]].concat(), &message, &key);
        add("key too short", &signature, &message, &key[..1951]);
        add("key too long", &signature, &message, &[&key[..], &[0]].concat());
        add("nothing", &[], &message, &key);
    }
    out.push(("zeros".into(), [vec![0; 3309], vec![], vec![0; 1952]]));
    out.push(("ones".into(), [vec![0xff; 3309], vec![], vec![0xff; 1952]]));
    out
}
