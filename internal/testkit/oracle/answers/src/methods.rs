//! The methods of the RPC with near-jsonrpc-primitives' types of their parameters, results and errors.

use near_chain_configs::GenesisConfig;
use near_jsonrpc_primitives::types as t;
use near_primitives::hash::CryptoHash;
use near_primitives::views::validator_stake_view::ValidatorStakeView;
use near_primitives::views::{LightClientBlockView, StatusResponse};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A method by its name on the wire, or a path that is got. Those without parameters take whatever they get.
pub struct Method {
    pub name: &'static str,
    pub params: fn(&mut SchemaGenerator) -> Schema,
    pub result: fn(&mut SchemaGenerator) -> Schema,
    pub error: fn(&mut SchemaGenerator) -> Schema,
    /// Reads a result and writes it again; true: members in the order of the types, as for what is got, else ascending.
    pub again: fn(&str, bool) -> Result<String, String>,
    /// Reads the cause of an error and writes it again.
    pub cause: fn(&str, bool) -> Result<String, String>,
}

fn of<T: JsonSchema>(g: &mut SchemaGenerator) -> Schema {
    g.subschema_for::<T>()
}

fn again<T: Serialize + DeserializeOwned>(text: &str, as_types: bool) -> Result<String, String> {
    let v: T = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let written = if as_types { serde_json::to_string(&v) } else { serde_json::to_value(&v).and_then(|v| serde_json::to_string(&v)) };
    written.map_err(|e| e.to_string())
}

/// Results of types that cannot be read.
fn unread(text: &str, _: bool) -> Result<String, String> {
    Ok(text.to_string())
}

/// A light client's next block; an empty object: there is none yet.
fn light_client_block(text: &str, as_types: bool) -> Result<String, String> {
    if text == "{}" { Ok(text.to_string()) } else { again::<LightClientBlockView>(text, as_types) }
}

macro_rules! methods {
    ($($name:literal: $params:ty => $result:ty, $error:ty, $again:expr;)*) => {
        &[$(Method { name: $name, params: of::<$params>, result: of::<$result>, error: of::<$error>, again: $again, cause: again::<$error> }),*]
    };
}

pub const METHODS: &[Method] = methods! {
    "block": t::blocks::RpcBlockRequest => t::blocks::RpcBlockResponse, t::blocks::RpcBlockError, again::<t::blocks::RpcBlockResponse>;
    "chunk": t::chunks::RpcChunkRequest => t::chunks::RpcChunkResponse, t::chunks::RpcChunkError, again::<t::chunks::RpcChunkResponse>;
    "EXPERIMENTAL_congestion_level":
        t::congestion::RpcCongestionLevelRequest => t::congestion::RpcCongestionLevelResponse,
        t::congestion::RpcCongestionLevelError, again::<t::congestion::RpcCongestionLevelResponse>;
    "gas_price":
        t::gas_price::RpcGasPriceRequest => t::gas_price::RpcGasPriceResponse,
        t::gas_price::RpcGasPriceError, again::<t::gas_price::RpcGasPriceResponse>;
    "query": t::query::RpcQueryRequest => t::query::RpcQueryResponse, t::query::RpcQueryError, again::<t::query::RpcQueryResponse>;
    "EXPERIMENTAL_view_account":
        t::view_account::RpcViewAccountRequest => t::view_account::RpcViewAccountResponse,
        t::view_account::RpcViewAccountError, again::<t::view_account::RpcViewAccountResponse>;
    "EXPERIMENTAL_view_code":
        t::view_code::RpcViewCodeRequest => t::view_code::RpcViewCodeResponse,
        t::view_code::RpcViewCodeError, again::<t::view_code::RpcViewCodeResponse>;
    "EXPERIMENTAL_view_state":
        t::view_state::RpcViewStateRequest => t::view_state::RpcViewStateResponse,
        t::view_state::RpcViewStateError, again::<t::view_state::RpcViewStateResponse>;
    "EXPERIMENTAL_view_access_key":
        t::view_access_key::RpcViewAccessKeyRequest => t::view_access_key::RpcViewAccessKeyResponse,
        t::view_access_key::RpcViewAccessKeyError, again::<t::view_access_key::RpcViewAccessKeyResponse>;
    "EXPERIMENTAL_view_access_key_list":
        t::view_access_key_list::RpcViewAccessKeyListRequest => t::view_access_key_list::RpcViewAccessKeyListResponse,
        t::view_access_key_list::RpcViewAccessKeyListError, again::<t::view_access_key_list::RpcViewAccessKeyListResponse>;
    "EXPERIMENTAL_view_gas_key_nonces":
        t::view_gas_key_nonces::RpcViewGasKeyNoncesRequest => t::view_gas_key_nonces::RpcViewGasKeyNoncesResponse,
        t::view_gas_key_nonces::RpcViewGasKeyNoncesError, again::<t::view_gas_key_nonces::RpcViewGasKeyNoncesResponse>;
    "EXPERIMENTAL_call_function":
        t::call_function::RpcCallFunctionRequest => t::call_function::RpcCallFunctionResponse,
        t::call_function::RpcCallFunctionError, again::<t::call_function::RpcCallFunctionResponse>;
    "changes":
        t::changes::RpcStateChangesInBlockByTypeRequest => t::changes::RpcStateChangesInBlockResponse,
        t::changes::RpcStateChangesError, again::<t::changes::RpcStateChangesInBlockResponse>;
    "block_effects":
        t::changes::RpcStateChangesInBlockRequest => t::changes::RpcStateChangesInBlockByTypeResponse,
        t::changes::RpcStateChangesError, again::<t::changes::RpcStateChangesInBlockByTypeResponse>;
    "EXPERIMENTAL_changes_in_block":
        t::changes::RpcStateChangesInBlockRequest => t::changes::RpcStateChangesInBlockByTypeResponse,
        t::changes::RpcStateChangesError, again::<t::changes::RpcStateChangesInBlockByTypeResponse>;
    "EXPERIMENTAL_indexer_block":
        t::indexer::RpcIndexerBlockRequest => t::indexer::RpcIndexerBlockResponse,
        t::indexer::RpcIndexerBlockError, again::<t::indexer::RpcIndexerBlockResponse>;
    "tx":
        t::transactions::RpcTransactionStatusRequest => t::transactions::RpcTransactionResponse,
        t::transactions::RpcTransactionError, again::<t::transactions::RpcTransactionResponse>;
    "tx_status":
        t::transactions::RpcTransactionStatusRequest => t::transactions::RpcTransactionResponse,
        t::transactions::RpcTransactionError, again::<t::transactions::RpcTransactionResponse>;
    "EXPERIMENTAL_tx_status":
        t::transactions::RpcTransactionStatusRequest => t::transactions::RpcTransactionResponse,
        t::transactions::RpcTransactionError, again::<t::transactions::RpcTransactionResponse>;
    "send_tx":
        t::transactions::RpcSendTransactionRequest => t::transactions::RpcTransactionResponse,
        t::transactions::RpcTransactionError, again::<t::transactions::RpcTransactionResponse>;
    "broadcast_tx_commit":
        t::transactions::RpcSendTransactionRequest => t::transactions::RpcTransactionResponse,
        t::transactions::RpcTransactionError, again::<t::transactions::RpcTransactionResponse>;
    "broadcast_tx_async":
        t::transactions::RpcSendTransactionRequest => CryptoHash,
        t::transactions::RpcTransactionError, again::<CryptoHash>;
    "EXPERIMENTAL_receipt":
        t::receipts::RpcReceiptRequest => t::receipts::RpcReceiptResponse,
        t::receipts::RpcReceiptError, again::<t::receipts::RpcReceiptResponse>;
    "EXPERIMENTAL_receipt_to_tx":
        t::receipts::RpcReceiptToTxRequest => t::receipts::RpcReceiptToTxResponse,
        t::receipts::RpcReceiptToTxError, again::<t::receipts::RpcReceiptToTxResponse>;
    "light_client_proof":
        t::light_client::RpcLightClientExecutionProofRequest => t::light_client::RpcLightClientExecutionProofResponse,
        t::light_client::RpcLightClientProofError, again::<t::light_client::RpcLightClientExecutionProofResponse>;
    "EXPERIMENTAL_light_client_block_proof":
        t::light_client::RpcLightClientBlockProofRequest => t::light_client::RpcLightClientBlockProofResponse,
        t::light_client::RpcLightClientProofError, again::<t::light_client::RpcLightClientBlockProofResponse>;
    "next_light_client_block":
        t::light_client::RpcLightClientNextBlockRequest => t::light_client::RpcLightClientNextBlockResponse,
        t::light_client::RpcLightClientNextBlockError, light_client_block;
    "status": () => t::status::RpcStatusResponse, t::status::RpcStatusError, again::<t::status::RpcStatusResponse>;
    "GET status": () => StatusResponse, (), again::<StatusResponse>;
    "health": () => t::status::RpcHealthResponse, t::status::RpcStatusError, again::<t::status::RpcHealthResponse>;
    "network_info":
        () => t::network_info::RpcNetworkInfoResponse,
        t::network_info::RpcNetworkInfoError, again::<t::network_info::RpcNetworkInfoResponse>;
    "GET network_info": () => t::network_info::RpcNetworkInfoResponse, (), again::<t::network_info::RpcNetworkInfoResponse>;
    "validators":
        t::validator::RpcValidatorRequest => t::validator::RpcValidatorResponse,
        t::validator::RpcValidatorError, again::<t::validator::RpcValidatorResponse>;
    "EXPERIMENTAL_validators_ordered":
        t::validator::RpcValidatorsOrderedRequest => Vec<ValidatorStakeView>,
        t::validator::RpcValidatorError, again::<Vec<ValidatorStakeView>>;
    "maintenance_windows":
        t::maintenance::RpcMaintenanceWindowsRequest => t::maintenance::RpcMaintenanceWindowsResponse,
        t::maintenance::RpcMaintenanceWindowsError, again::<t::maintenance::RpcMaintenanceWindowsResponse>;
    "genesis_config": () => GenesisConfig, (), again::<GenesisConfig>;
    "EXPERIMENTAL_protocol_config":
        t::config::RpcProtocolConfigRequest => t::config::RpcProtocolConfigResponse,
        t::config::RpcProtocolConfigError, again::<t::config::RpcProtocolConfigResponse>;
    "client_config": () => t::client_config::RpcClientConfigResponse, t::client_config::RpcClientConfigError, unread;
    "EXPERIMENTAL_split_storage_info":
        t::split_storage::RpcSplitStorageInfoRequest => t::split_storage::RpcSplitStorageInfoResponse,
        t::split_storage::RpcSplitStorageInfoError, again::<t::split_storage::RpcSplitStorageInfoResponse>;
    "sandbox_patch_state":
        t::sandbox::RpcSandboxPatchStateRequest => t::sandbox::RpcSandboxPatchStateResponse,
        t::sandbox::RpcSandboxPatchStateError, again::<t::sandbox::RpcSandboxPatchStateResponse>;
    "sandbox_fast_forward":
        t::sandbox::RpcSandboxFastForwardRequest => t::sandbox::RpcSandboxFastForwardResponse,
        t::sandbox::RpcSandboxFastForwardError, again::<t::sandbox::RpcSandboxFastForwardResponse>;
};
