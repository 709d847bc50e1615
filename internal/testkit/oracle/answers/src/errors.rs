//! Every error of every method, with random values, as near-jsonrpc-primitives writes it into a reply.

use crate::rng::Rng;
use crate::values::{code, hash, key, name, number, tx_errors};
use near_jsonrpc_primitives::errors::RpcError;
use near_jsonrpc_primitives::types as t;
use near_primitives::errors::{ActionErrorKind, FunctionCallError, TxExecutionError};
use near_primitives::types::{BlockId, BlockReference, EpochId, Finality, ShardId, SyncCheckpoint};
use near_primitives::views::TxExecutionStatus;
use serde_json::{Value, json};

const TX: &[&str] = &["tx", "tx_status", "EXPERIMENTAL_tx_status", "send_tx", "broadcast_tx_commit"];
const CHANGES: &[&str] = &["changes", "block_effects", "EXPERIMENTAL_changes_in_block"];
const PROOF: &[&str] = &["light_client_proof", "EXPERIMENTAL_light_client_block_proof"];

struct Errors(Vec<Value>);

impl Errors {
    /// An error of methods; hidden: what the reply does not show of it.
    fn add(&mut self, methods: &[&str], hidden: &str, e: impl Into<RpcError>) {
        let e: RpcError = e.into();
        self.0.push(json!({"methods": methods, "hidden": hidden, "error": serde_json::to_string(&e).expect("json")}));
    }
}

fn reference(rng: &mut Rng) -> BlockReference {
    match rng.below(7) {
        0 => BlockReference::BlockId(BlockId::Height(number(rng))),
        1 => BlockReference::BlockId(BlockId::Hash(hash(rng))),
        2 => BlockReference::Finality(Finality::None),
        3 => BlockReference::Finality(Finality::DoomSlug),
        4 => BlockReference::Finality(Finality::Final),
        5 => BlockReference::SyncCheckpoint(SyncCheckpoint::Genesis),
        _ => BlockReference::SyncCheckpoint(SyncCheckpoint::EarliestAvailable),
    }
}

fn text(rng: &mut Rng) -> String {
    rng.pick(&["", "went wrong", "a \"quoted\" \\ text\n", "äöü \u{7f} <&>", "first: second: it broke"]).to_string()
}

pub fn all(rng: &mut Rng) -> Vec<Value> {
    let mut out = Errors(vec![]);
    let executed = tx_errors(rng);
    for _ in 0..8 {
        blocks(rng, &mut out);
        queries(rng, &mut out);
        views(rng, &mut out);
        others(rng, &mut out);
    }
    for e in executed {
        match e {
            TxExecutionError::InvalidTxError(context) => out.add(TX, "", t::transactions::RpcTransactionError::InvalidTransaction { context }),
            TxExecutionError::ActionError(e) => {
                if let ActionErrorKind::FunctionCallError(vm_error) = e.kind {
                    call(rng, &mut out, vm_error);
                }
            }
        }
    }
    out.0
}

/// Of those errors a node makes only these anew; the others are of old outcomes.
fn call(rng: &mut Rng, out: &mut Errors, vm_error: FunctionCallError) {
    match vm_error {
        FunctionCallError::CompilationError(_) | FunctionCallError::MethodResolveError(_) | FunctionCallError::ExecutionError(_) => {}
        _ => return,
    }
    let e = t::call_function::RpcCallFunctionError::ContractExecutionError { vm_error, block_height: number(rng), block_hash: hash(rng) };
    out.add(&["EXPERIMENTAL_call_function"], "", e);
}

fn blocks(rng: &mut Rng, out: &mut Errors) {
    use t::blocks::RpcBlockError as B;
    use t::changes::RpcStateChangesError as S;
    use t::chunks::RpcChunkError as C;
    use t::config::RpcProtocolConfigError as P;
    use t::gas_price::RpcGasPriceError as G;
    let lost = if rng.below(2) == 0 { format!("BLOCK HEIGHT: {}", number(rng)) } else { format!("BLOCK: {}", hash(rng)) };
    let header = lost.replace("BLOCK: ", "BLOCK HEADER: ");
    out.add(&["block"], &lost, B::UnknownBlock { error_message: lost.clone() });
    out.add(&["block"], "", B::NotSyncedYet);
    out.add(&["block"], "", B::InternalError { error_message: text(rng) });
    for m in ["chunk", "EXPERIMENTAL_congestion_level"] {
        out.add(&[m], &lost, C::UnknownBlock { error_message: lost.clone() });
        out.add(&[m], "", C::InvalidShardId { shard_id: ShardId::new(number(rng)) });
        out.add(&[m], "", C::UnknownChunk { chunk_hash: near_primitives::sharding::ChunkHash(hash(rng)) });
        out.add(&[m], "", C::InternalError { error_message: text(rng) });
    }
    out.add(&["gas_price"], &header, G::UnknownBlock { error_message: header.clone() });
    out.add(&["gas_price"], "", G::InternalError { error_message: text(rng) });
    out.add(&["EXPERIMENTAL_protocol_config"], &header, P::UnknownBlock { error_message: header.clone() });
    out.add(&["EXPERIMENTAL_protocol_config"], "", P::InternalError { error_message: text(rng) });
    out.add(CHANGES, &lost, S::UnknownBlock { error_message: lost.clone() });
    out.add(CHANGES, "", S::NotSyncedYet);
    out.add(CHANGES, "", S::InternalError { error_message: text(rng) });
    out.add(CHANGES, "", S::ShardNotApplied { shard_id: ShardId::new(number(rng)) });
}

fn queries(rng: &mut Rng, out: &mut Errors) {
    use t::query::RpcQueryError as Q;
    let (block_height, block_hash) = (number(rng), hash(rng));
    for e in [
        Q::NoSyncedBlocks,
        Q::UnavailableShard { requested_shard_id: ShardId::new(number(rng)) },
        Q::GarbageCollectedBlock { block_height, block_hash },
        Q::UnknownBlock { block_reference: reference(rng) },
        Q::InvalidAccount { requested_account_id: name(rng), block_height, block_hash },
        Q::UnknownAccount { requested_account_id: name(rng), block_height, block_hash },
        Q::NoContractCode { contract_account_id: name(rng), block_height, block_hash },
        Q::TooLargeContractState { contract_account_id: name(rng), block_height, block_hash },
        Q::UnknownGasKey { public_key: key(rng), block_height, block_hash },
        Q::TooManyAccessKeys { requested_account_id: name(rng), limit: 1 + rng.below(1000) as u32, block_height, block_hash },
        Q::NoGlobalContractCode { identifier: code(rng), block_height, block_hash },
        Q::InternalError { error_message: text(rng) },
    ] {
        let old = match &e {
            Q::UnknownBlock { block_reference: BlockReference::BlockId(BlockId::Height(h)) } => Some(format!("BLOCK HEIGHT: {h} \n Cause: Unknown")),
            Q::UnknownBlock { block_reference: BlockReference::BlockId(BlockId::Hash(h)) } => Some(format!("BLOCK HEADER: {h}")),
            _ => None,
        };
        let mut e: RpcError = e.into();
        if let Some(old) = old {
            e.data = Some(Box::new(json!(format!("DB Not Found Error: {old}")))); // chain/jsonrpc/src/lib.rs process_query_response
        }
        out.add(&["query"], "", e);
    }
}

/// Errors of the methods that each have one kind of query. Those of query that become internal errors of theirs are left out: Troupe
/// has query's.
fn views(rng: &mut Rng, out: &mut Errors) {
    use t::query::RpcQueryError as Q;
    let (block_height, block_hash) = (number(rng), hash(rng));
    let common = |rng: &mut Rng| {
        vec![
            Q::UnknownBlock { block_reference: reference(rng) },
            Q::InvalidAccount { requested_account_id: name(rng), block_height, block_hash },
            Q::UnknownAccount { requested_account_id: name(rng), block_height, block_hash },
            Q::InternalError { error_message: text(rng) },
        ]
    };
    for e in common(rng) {
        out.add(&["EXPERIMENTAL_view_account"], "", t::view_account::RpcViewAccountError::from(e));
    }
    for e in [common(rng), vec![Q::NoContractCode { contract_account_id: name(rng), block_height, block_hash }]].concat() {
        out.add(&["EXPERIMENTAL_view_code"], "", t::view_code::RpcViewCodeError::from(e));
    }
    for e in [common(rng), vec![Q::TooLargeContractState { contract_account_id: name(rng), block_height, block_hash }]].concat() {
        out.add(&["EXPERIMENTAL_view_state"], "", t::view_state::RpcViewStateError::from(e));
    }
    for e in [common(rng), vec![Q::UnknownAccessKey { public_key: key(rng), block_height, block_hash }]].concat() {
        out.add(&["EXPERIMENTAL_view_access_key"], "", t::view_access_key::RpcViewAccessKeyError::from(e));
    }
    for e in common(rng) {
        out.add(&["EXPERIMENTAL_view_access_key_list"], "", t::view_access_key_list::RpcViewAccessKeyListError::from(e));
    }
    for e in [common(rng), vec![Q::UnknownGasKey { public_key: key(rng), block_height, block_hash }]].concat() {
        out.add(&["EXPERIMENTAL_view_gas_key_nonces"], "", t::view_gas_key_nonces::RpcViewGasKeyNoncesError::from(e));
    }
    for e in [common(rng), vec![Q::NoContractCode { contract_account_id: name(rng), block_height, block_hash }]].concat() {
        out.add(&["EXPERIMENTAL_call_function"], "", t::call_function::RpcCallFunctionError::from(e));
    }
}

fn others(rng: &mut Rng, out: &mut Errors) {
    use t::indexer::RpcIndexerBlockError as I;
    use t::light_client::{RpcLightClientNextBlockError as N, RpcLightClientProofError as L};
    use t::receipts::{RpcReceiptError as R, RpcReceiptToTxError as O};
    use t::status::RpcStatusError as S;
    use t::transactions::{RpcTransactionError as T, RpcTransactionResponse, TimeoutErrorCause as Cause};
    use t::validator::RpcValidatorError as V;
    let lost = format!("BLOCK HEADER: {}", hash(rng));
    for e in [
        L::UnknownBlock { error_message: lost.clone() },
        L::InconsistentState { number_or_shards: rng.below(100), execution_outcome_shard_id: ShardId::new(number(rng)) },
        L::NotConfirmed { transaction_or_receipt_id: hash(rng) },
        L::UnknownTransactionOrReceipt { transaction_or_receipt_id: hash(rng) },
        L::UnavailableShard { transaction_or_receipt_id: hash(rng), shard_id: ShardId::new(number(rng)) },
        L::InternalError { error_message: text(rng) },
    ] {
        out.add(PROOF, &lost, e);
    }
    for e in [N::UnknownBlock { error_message: lost.clone() }, N::EpochOutOfBounds { epoch_id: EpochId(hash(rng)) }, N::InternalError { error_message: text(rng) }] {
        out.add(&["next_light_client_block"], &lost, e);
    }
    for e in [R::UnknownReceipt { receipt_id: hash(rng) }, R::InternalError { error_message: text(rng) }] {
        out.add(&["EXPERIMENTAL_receipt"], "", e);
    }
    for e in [
        O::UnknownReceipt { receipt_id: hash(rng) },
        O::DepthExceeded { receipt_id: hash(rng), limit: number(rng) as u32 },
        O::Unsupported { error_message: text(rng) },
        O::OutcomesNotStored,
        O::WindowTooLarge { requested: number(rng), maximum: number(rng) },
        O::MalformedHint { error_message: text(rng) },
        O::BudgetExceeded { scanned: number(rng), limit: number(rng) },
        O::InternalError { error_message: text(rng) },
    ] {
        out.add(&["EXPERIMENTAL_receipt_to_tx"], "", e);
    }
    let lost = format!("BLOCK: {}", hash(rng));
    let unavailable = "Block either has never been observed on the node or has been garbage collected: DB Not Found Error: ";
    for e in [
        I::DataUnavailable { error_message: format!("{unavailable}{lost} \n Cause: Unknown") },
        I::IncompleteData { error_message: text(rng) },
        I::Unsupported { error_message: text(rng) },
        I::LimitExceeded,
        I::Busy,
        I::InternalError { error_message: text(rng) },
    ] {
        out.add(&["EXPERIMENTAL_indexer_block"], &lost, e);
    }
    let level = [
        TxExecutionStatus::Included,
        TxExecutionStatus::ExecutedOptimistic,
        TxExecutionStatus::IncludedFinal,
        TxExecutionStatus::Executed,
        TxExecutionStatus::Final,
    ][rng.below(5)]
    .clone();
    let status = RpcTransactionResponse { final_execution_outcome: None, final_execution_status: level };
    for e in [
        T::DoesNotTrackShard,
        T::RequestRouted { transaction_hash: hash(rng) },
        T::UnknownTransaction { requested_transaction_hash: hash(rng) },
        T::TimeoutError(Some(Cause::NotObserved)),
        T::TimeoutError(Some(Cause::Pending { status: Box::new(status) })),
        T::TimeoutError(Some(Cause::DoesNotTrackShard { shard_id: ShardId::new(number(rng)) })),
        T::TimeoutError(Some(Cause::default())),
    ] {
        out.add(TX, "", e);
    }
    let debug_info = text(rng);
    out.add(TX, &debug_info.clone(), T::InternalError { debug_info });
    let elapsed = std::time::Duration::new(rng.below(100_000) as u64, rng.below(1_000_000_000) as u32);
    for e in [
        S::NodeIsSyncing,
        S::NoNewBlocks { elapsed: elapsed.try_into().expect("short") },
        S::EpochOutOfBounds { epoch_id: EpochId(hash(rng)) },
        S::InternalError { error_message: text(rng) },
    ] {
        out.add(&["status", "health"], "", e);
    }
    for m in ["validators", "EXPERIMENTAL_validators_ordered"] {
        for e in [V::UnknownEpoch, V::ValidatorInfoUnavailable, V::InternalError { error_message: text(rng) }] {
            out.add(&[m], "", e);
        }
    }
    out.add(&["maintenance_windows"], "", t::maintenance::RpcMaintenanceWindowsError::InternalError { error_message: text(rng) });
    out.add(&["client_config"], "", t::client_config::RpcClientConfigError::InternalError { error_message: text(rng) });
    out.add(&["EXPERIMENTAL_split_storage_info"], "", t::split_storage::RpcSplitStorageInfoError::InternalError { error_message: text(rng) });
    out.add(&["network_info"], "", t::network_info::RpcNetworkInfoError::InternalError { error_message: text(rng) });
    out.add(&["sandbox_patch_state"], "", t::sandbox::RpcSandboxPatchStateError::InternalError { error_message: text(rng) });
    out.add(&["sandbox_fast_forward"], "", t::sandbox::RpcSandboxFastForwardError::InternalError { error_message: text(rng) });
    out.add(&[""], "", RpcError::parse_error(text(rng)));
    out.add(&[""], "", RpcError::method_not_found(text(rng)));
}
