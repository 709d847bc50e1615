//! Signed transactions of every action, whole, cut short, and with bytes changed.

use crate::rng::Rng;
use crate::said;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use borsh::BorshDeserialize;
use near_primitives::transaction::SignedTransaction;
use serde_json::{Value, json};

pub fn all(rng: &mut Rng) -> Vec<Value> {
    let mut out = vec![];
    for line in include_str!("../transactions.txt").lines() {
        let whole = STANDARD.decode(line).expect("base64 of a transaction a line");
        for i in 0..120 {
            let mut raw = whole.clone();
            match i % 4 {
                _ if i == 0 => {}
                0 => raw.truncate(rng.below(raw.len())),
                1 => {
                    let at = rng.below(raw.len());
                    raw[at] = rng.next() as u8;
                }
                2 => {
                    let at = rng.below(raw.len());
                    raw[at] = [0, 1, 2, 3, 4, 14, 0x7f, 0x80, 0xc3, 0xff][rng.below(10)];
                    if rng.below(2) == 0 {
                        let n = rng.below(raw.len());
                        raw.truncate(n);
                    }
                }
                _ => {
                    for _ in 0..1 + rng.below(3) {
                        let at = rng.below(raw.len());
                        raw[at] = raw[at].wrapping_add([1, 255, 2][rng.below(3)]);
                    }
                    if rng.below(8) == 0 {
                        raw.push(0);
                    }
                }
            }
            let read = SignedTransaction::try_from_slice(&raw);
            let hash = read.as_ref().ok().map(|t| t.get_hash().to_string());
            out.push(json!({"tx": STANDARD.encode(&raw), "error": said(&read), "hash": hash}));
        }
    }
    out
}
