//! Draws of chunk producers of which some are left out, as nearcore's EpochInfo makes them.

use crate::rng::Rng;
use near_crypto::PublicKey;
use near_primitives::epoch_info::EpochInfo;
use near_primitives::shard_layout::ShardLayout;
use near_primitives::types::validator_stake::ValidatorStake;
use near_primitives::types::{AccountId, Balance, ShardId, ValidatorId};
use near_primitives::validator_mandates::{ValidatorMandates, ValidatorMandatesConfig};
use serde_json::json;
use std::collections::HashSet;

/// An epoch a line, with draws: [shard, height, excluded, producer or null].
pub fn all(rng: &mut Rng) -> Vec<serde_json::Value> {
    let mut out = vec![json!({"type": "EpochInfo", "draws": ["shard", "height", "excluded", "producer"]})];
    out.extend((0..200).map(|_| epoch(rng)));
    out
}

fn stake(rng: &mut Rng) -> u128 {
    match rng.below(4) {
        0 => 1 + rng.below(5) as u128,
        1 => 1_000_000,
        2 => (rng.next() as u128) << 30,
        _ => (rng.below(900) as u128 + 100) * 10u128.pow(27),
    }
}

fn epoch(rng: &mut Rng) -> serde_json::Value {
    let n = 1 + rng.below(9);
    let shards = 1 + rng.below(4);
    let validators: Vec<ValidatorStake> = (0..n)
        .map(|i| {
            let account: AccountId = format!("test{i}").parse().expect("account");
            let key = PublicKey::empty(near_crypto::KeyType::ED25519);
            let least = if i == 0 { 10u128.pow(20) } else { 0 }; // enough for a mandate a shard
            ValidatorStake::new(account, key, Balance::from_yoctonear(least + stake(rng)))
        })
        .collect();
    let boundaries: Vec<AccountId> = (1..shards).map(|i| format!("b{i}").parse().expect("account")).collect();
    let mut ids: Vec<u64> = (0..shards as u64).map(|i| i * 7 + rng.below(3) as u64).collect();
    rng.shuffle(&mut ids);
    let layout = ShardLayout::v2(boundaries, ids.iter().map(|&i| ShardId::new(i)).collect(), None);
    let settlements: Vec<Vec<ValidatorId>> =
        (0..shards).map(|_| (0..1 + rng.below(7)).map(|_| rng.below(n) as u64).collect()).collect();
    let mut seed = [0u8; 32];
    for chunk in seed.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next().to_le_bytes());
    }
    let mandates = ValidatorMandates::new(ValidatorMandatesConfig::new(4, shards), &validators);
    let index = validators.iter().enumerate().map(|(i, v)| (v.account_id().clone(), i as u64)).collect();
    let info = EpochInfo::new(
        1, validators, index, (0..n as u64).collect(), settlements.clone(), Default::default(), Default::default(), Default::default(),
        Balance::ZERO, Balance::ZERO, 87, seed, mandates, layout.clone(), None,
    );
    let mut draws = vec![];
    for _ in 0..40 {
        let shard = rng.below(shards);
        let id = ShardId::new(ids[shard]);
        let height = if rng.below(8) == 0 { u64::MAX - rng.below(3) as u64 } else { rng.below(2_000_000) as u64 };
        let mut exclude = HashSet::new();
        let share = rng.below(5);
        for v in &settlements[shard] {
            if rng.below(4) < share {
                exclude.insert(*v);
            }
        }
        if rng.below(5) == 0 {
            exclude.insert(n as u64 + 3); // of no validator
        }
        let producer = info.sample_chunk_producer_excluding(&layout, id, height, &exclude);
        let mut list: Vec<u64> = exclude.into_iter().collect();
        list.sort();
        draws.push(json!([ids[shard], height, list, producer]));
    }
    let bytes = borsh::to_vec(&info).expect("borsh");
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    json!({"info": hex, "draws": draws})
}
