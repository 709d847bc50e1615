//! What client_config shows of keys that config.json does not have, and the values of genesis.json that init writes, as
//! near-chain-configs has them.

use near_chain_configs as c;
use serde_json::{Value, json};

macro_rules! defaults {
    ($($name:literal: $value:expr;)*) => { vec![$(json!({"name": $name, "value": $value})),*] };
}

pub fn all() -> Vec<Value> {
    defaults! {
        "block_request_timeout": c::default_block_request_timeout();
        "chunk_validation_threads": c::default_chunk_validation_threads();
        "chunk_wait_mult": c::default_chunk_wait_mult();
        "chunks_cache_height_horizon": c::default_chunks_cache_height_horizon();
        "enable_early_prepare_transactions": c::default_enable_early_prepare_transactions();
        "enable_multiline_logging": c::default_enable_multiline_logging();
        "epoch_sync": c::default_epoch_sync();
        "gc": c::GCConfig::default();
        "header_sync_expected_height_per_second": c::default_header_sync_expected_height_per_second();
        "header_sync_initial_timeout": c::default_header_sync_initial_timeout();
        "header_sync_progress_timeout": c::default_header_sync_progress_timeout();
        "header_sync_stall_ban_timeout": c::default_header_sync_stall_ban_timeout();
        "log_summary_period": c::default_log_summary_period();
        "orphan_state_witness_max_size": c::default_orphan_state_witness_max_size();
        "orphan_state_witness_pool_size": c::default_orphan_state_witness_pool_size();
        "produce_chunk_add_transactions_time_limit": c::default_produce_chunk_add_transactions_time_limit();
        "protocol_version_check": c::ProtocolVersionCheckConfig::default();
        "resharding_config": c::ReshardingConfig::default();
        "state_request_server_threads": c::default_state_request_server_threads();
        "state_request_throttle_period": c::default_state_request_throttle_period();
        "state_requests_per_throttle_period": c::default_state_requests_per_throttle_period();
        "state_sync": c::StateSyncConfig::default();
        "state_sync_p2p_timeout": c::default_state_sync_p2p_timeout();
        "state_sync_retry_backoff": c::default_state_sync_retry_backoff();
        "sync_check_period": c::default_sync_check_period();
        "sync_height_threshold": c::default_sync_height_threshold();
        "sync_max_block_requests": c::default_sync_max_block_requests();
        "sync_step_period": c::default_sync_step_period();
        "transaction_pool_size_limit": c::default_transaction_pool_size_limit();
        "transaction_pool_strict_nonce_ttl_blocks": c::default_transaction_pool_strict_nonce_ttl_blocks();
        "trie_viewer_state_size_limit": c::default_trie_viewer_state_size_limit();
        "tx_routing_height_horizon": c::default_tx_routing_height_horizon();
        "view_access_keys_limit": c::default_view_access_keys_limit();
        "view_client_threads": c::default_view_client_threads();
    }
}
