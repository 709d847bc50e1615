package contracts

import "slices"

// probed describes a host function that the probe can call: its number of parameters (all i64), and
// its result.
type probed struct {
	name   string
	params int
	result byte // type of the result: 0 none, 1 i64, 2 i32
}

// functions are the probe's host functions. The index is the byte that calls the function in a
// program.
var functions = []probed{
	{"read_register", 2, 0}, {"register_len", 1, 1}, {"write_register", 3, 0}, {"current_account_id", 1, 0}, {"chain_id", 1, 0},
	{"signer_account_id", 1, 0}, {"signer_account_pk", 1, 0}, {"predecessor_account_id", 1, 0}, {"input", 1, 0},
	{"block_index", 0, 1}, {"block_timestamp", 0, 1}, {"epoch_height", 0, 1}, {"storage_usage", 0, 1}, {"account_balance", 1, 0},
	{"account_locked_balance", 1, 0}, {"attached_deposit", 1, 0}, {"prepaid_gas", 0, 1}, {"used_gas", 0, 1}, {"random_seed", 1, 0},
	{"sha256", 3, 0}, {"keccak256", 3, 0}, {"keccak512", 3, 0}, {"ed25519_verify", 6, 1}, {"p256_verify", 6, 1}, {"ripemd160", 3, 0},
	{"ecrecover", 7, 1}, {"value_return", 2, 0}, {"panic", 0, 0}, {"panic_utf8", 2, 0}, {"log_utf8", 2, 0}, {"log_utf16", 2, 0},
	{"promise_create", 8, 1}, {"promise_then", 9, 1}, {"promise_and", 2, 1}, {"promise_batch_create", 2, 1},
	{"promise_batch_then", 3, 1}, {"promise_set_refund_to", 3, 0}, {"promise_batch_action_state_init", 4, 1},
	{"promise_batch_action_state_init_by_account_id", 4, 1}, {"set_state_init_data_entry", 6, 0}, {"current_contract_code", 1, 1},
	{"refund_to_account_id", 1, 0}, {"promise_batch_action_create_account", 1, 0}, {"promise_batch_action_deploy_contract", 3, 0},
	{"promise_batch_action_deploy_global_contract", 3, 0}, {"promise_batch_action_deploy_global_contract_by_account_id", 3, 0},
	{"promise_batch_action_use_global_contract", 3, 0}, {"promise_batch_action_use_global_contract_by_account_id", 3, 0},
	{"promise_batch_action_function_call", 7, 0}, {"promise_batch_action_function_call_weight", 8, 0},
	{"promise_batch_action_transfer", 2, 0}, {"promise_batch_action_stake", 4, 0}, {"promise_batch_action_add_key_with_full_access", 4, 0},
	{"promise_batch_action_add_key_with_function_call", 9, 0}, {"promise_batch_action_delete_key", 3, 0},
	{"promise_batch_action_delete_account", 3, 0}, {"promise_batch_action_transfer_to_gas_key", 4, 0},
	{"promise_batch_action_add_gas_key_with_full_access", 4, 0}, {"promise_batch_action_add_gas_key_with_function_call", 9, 0},
	{"promise_yield_create", 7, 1}, {"promise_yield_create_with_id", 9, 1}, {"promise_yield_resume", 4, 2},
	{"promise_yield_resume_with_yield_id", 4, 2}, {"promise_results_count", 0, 1}, {"promise_result", 2, 1}, {"promise_return", 1, 0},
	{"storage_write", 5, 1}, {"storage_read", 3, 1}, {"storage_remove", 3, 1}, {"storage_has_key", 2, 1}, {"storage_iter_prefix", 2, 1},
	{"validator_stake", 3, 0}, {"validator_total_stake", 1, 0}, {"alt_bn128_g1_multiexp", 3, 0}, {"alt_bn128_g1_sum", 3, 0},
	{"alt_bn128_pairing_check", 2, 1}, {"bls12381_p1_sum", 3, 1}, {"bls12381_p2_sum", 3, 1}, {"bls12381_g1_multiexp", 3, 1},
	{"bls12381_g2_multiexp", 3, 1}, {"bls12381_map_fp_to_g1", 3, 1}, {"bls12381_map_fp2_to_g2", 3, 1},
	{"bls12381_pairing_check", 2, 1}, {"bls12381_p1_decompress", 3, 1}, {"bls12381_p2_decompress", 3, 1},
}

// laterFunctions are the host functions of protocol versions 87 and 88, which the recorded chains
// do not use. NewestProbe appends them to functions.
var laterFunctions = []probed{
	{"sha3_256", 3, 0}, {"sha3_384", 3, 0}, {"sha3_512", 3, 0}, {"ml_dsa_verify", 6, 1},
	{"universal_state_init_to_account_id", 3, 1}, {"promise_batch_action_universal_state_init", 4, 0},
}

// allFunctions is functions followed by laterFunctions.
var allFunctions = slices.Concat(functions, laterFunctions)
