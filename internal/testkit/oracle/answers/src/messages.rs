//! Messages about chunks in both forms: before EarlyKickout and from it on, as nearcore's own types write and sign them.

use near_crypto::{InMemorySigner, SecretKey};
use near_primitives::bandwidth_scheduler::BandwidthRequests;
use near_primitives::congestion_info::CongestionInfo;
use near_primitives::hash::CryptoHash;
use near_primitives::merkle::{Direction, MerklePathItem};
use near_primitives::sharding::{
    PartialEncodedChunk, PartialEncodedChunkPart, PartialEncodedChunkV2, PartialEncodedChunkV3, ReceiptProof, ShardChunkHeader,
    ShardChunkHeaderV3, ShardProof,
};
use near_primitives::stateless_validation::contract_distribution::{
    ChunkContractAccesses, CodeHash, MainTransitionKey, PartialEncodedContractDeploys, PartialEncodedContractDeploysPart,
};
use near_primitives::stateless_validation::partial_witness::VersionedPartialEncodedStateWitness;
use near_primitives::stateless_validation::ChunkProductionKey;
use near_primitives::types::{Balance, EpochId, Gas, ShardId};
use near_primitives::validator_signer::{InMemoryValidatorSigner, ValidatorSigner};
use near_primitives::version::{ProtocolFeature, ProtocolVersion};
use serde_json::json;
use std::collections::HashSet;

/// The key that signs all messages.
const KEY: &str = "ed25519:3BrgWbasxUZcu4JjZKNJad6s8qQrUANk6Q1aoHTGcxaeWcFvwapnpF6ePEPv5PMSSoJ2fPXM88eFQkTW3HBKN99B";

pub fn all() -> Vec<serde_json::Value> {
    let key: SecretKey = KEY.parse().expect("key");
    let signer = InMemoryValidatorSigner::from_signer(InMemorySigner::from_secret_key("node0".parse().expect("account"), key));
    let new = ProtocolFeature::EarlyKickout.protocol_version();
    let mut out = vec![json!({"key": KEY, "version": new})];
    for version in [new - 1, new] {
        for anchor in [hash("prev_prev"), CryptoHash::default()] {
            out.push(line("VersionedPartialEncodedStateWitness", version, &witness(&signer, version, anchor)));
            out.push(line("ChunkContractAccesses", version, &accesses(&signer, version, anchor)));
            out.push(line("PartialEncodedContractDeploys", version, &deploys(&signer, version, anchor)));
            out.push(line("PartialEncodedChunk", version, &chunk(&signer, version, anchor)));
        }
    }
    out
}

fn line<T: borsh::BorshSerialize>(kind: &str, version: ProtocolVersion, v: &T) -> serde_json::Value {
    let bytes = borsh::to_vec(v).expect("borsh");
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    json!({"type": kind, "version": version, "borsh": hex})
}

fn hash(of: &str) -> CryptoHash {
    CryptoHash::hash_bytes(of.as_bytes())
}

fn key() -> ChunkProductionKey {
    ChunkProductionKey { shard_id: ShardId::new(3), epoch_id: EpochId(hash("epoch")), height_created: 1042 }
}

fn header(signer: &ValidatorSigner, version: ProtocolVersion) -> ShardChunkHeader {
    ShardChunkHeader::V3(ShardChunkHeaderV3::new(
        hash("prev"),
        hash("state"),
        hash("outcome"),
        hash("encoded"),
        77,
        1042,
        ShardId::new(3),
        Gas::from_gas(5),
        Gas::from_gas(1000),
        Balance::from_yoctonear(9),
        hash("outgoing"),
        hash("tx"),
        vec![],
        CongestionInfo::default(),
        BandwidthRequests::empty(),
        None,
        signer,
        version,
    ))
}

fn witness(signer: &ValidatorSigner, version: ProtocolVersion, anchor: CryptoHash) -> VersionedPartialEncodedStateWitness {
    let part = (0..40).collect();
    VersionedPartialEncodedStateWitness::new(EpochId(hash("epoch")), header(signer, version), anchor, 2, part, 123, signer, version)
}

fn accesses(signer: &ValidatorSigner, version: ProtocolVersion, anchor: CryptoHash) -> ChunkContractAccesses {
    let contracts = HashSet::from([CodeHash(hash("code"))]);
    let main = MainTransitionKey { block_hash: hash("main"), shard_id: ShardId::new(1) };
    ChunkContractAccesses::new(key(), contracts, main, hash("prev"), anchor, signer, version)
}

fn deploys(signer: &ValidatorSigner, version: ProtocolVersion, anchor: CryptoHash) -> PartialEncodedContractDeploys {
    let part = PartialEncodedContractDeploysPart { part_ord: 3, data: vec![1, 2, 3].into_boxed_slice(), encoded_length: 9 };
    PartialEncodedContractDeploys::new(key(), part, hash("prev"), anchor, signer, version)
}

fn chunk(signer: &ValidatorSigner, version: ProtocolVersion, anchor: CryptoHash) -> PartialEncodedChunk {
    let path = vec![MerklePathItem { hash: hash("path"), direction: Direction::Right }];
    let parts = vec![PartialEncodedChunkPart { part_ord: 4, part: vec![7, 8].into_boxed_slice(), merkle_proof: path.clone() }];
    let proof = ShardProof { from_shard_id: ShardId::new(3), to_shard_id: ShardId::new(0), proof: path };
    let prev_outgoing_receipts = vec![ReceiptProof(vec![], proof)];
    let header = header(signer, version);
    if ProtocolFeature::EarlyKickout.enabled(version) {
        let epoch_id = EpochId(hash("epoch"));
        PartialEncodedChunk::V3(PartialEncodedChunkV3 { header, parts, prev_outgoing_receipts, prev_prev_block_hash: anchor, epoch_id })
    } else {
        PartialEncodedChunk::V2(PartialEncodedChunkV2 { header, parts, prev_outgoing_receipts })
    }
}
