package stream

import (
	"slices"
	"strings"
)

// fields contains the members of nearcore's structs in the order of declaration: a table beside
// those of package view, for the slow reference. The key is the name of the member that contains
// the object or a list of such objects. For a variant the key is the variant's name. If two structs
// share a name, the list contains the members of one struct and then those of the other. An object
// without an entry keeps its order. A name with the prefix # denotes a whole text.
var fields = parseFields(`
#header: height prev_height epoch_id next_epoch_id hash prev_hash prev_state_root block_body_hash chunk_receipts_root chunk_headers_root chunk_tx_root
  outcome_root chunks_included challenges_root timestamp timestamp_nanosec random_value validator_proposals chunk_mask gas_price block_ordinal rent_paid
  validator_reward total_supply challenges_result last_final_block last_ds_final_block next_bp_hash block_merkle_root epoch_sync_data_hash approvals
  signature latest_protocol_version chunk_endorsements shard_split prev_last_certified_block_epoch_id spice_chunk_endorsement_stats
  chunk_execution_root
#chunk: chunk_hash prev_block_hash outcome_root prev_state_root encoded_merkle_root encoded_length height_created height_included shard_id gas_used
  gas_limit rent_paid validator_reward balance_burnt outgoing_receipts_root tx_root validator_proposals congestion_info bandwidth_requests
  proposed_split signature
#transaction: signer_id public_key nonce receiver_id actions priority_fee signature hash nonce_index nonce_mode
#receipt: predecessor_id receiver_id receipt_id receipt priority
#outcome: proof block_hash id outcome
#change: cause type change
validator_proposals: validator_stake_struct_version account_id public_key stake
spice_chunk_endorsement_stats: produced expected
congestion_info: delayed_receipts_gas buffered_receipts_gas receipt_bytes allowed_shard
requests: to_shard requested_values_bitmap
AddKey: public_key access_key
FunctionCall: method_name args gas deposit allowance receiver_id method_names
GasKeyFunctionCall: balance num_nonces allowance receiver_id method_names
Stake: stake public_key
delegate_action: sender_id receiver_id actions nonce max_block_height public_key
V2: sender_id receiver_id actions nonce max_block_height public_key
TransferToGasKey: public_key deposit
WithdrawFromGasKey: public_key amount
DeterministicStateInit: code data state_init deposit
UniversalStateInit: state_init deposit
Action: signer_id signer_public_key gas_price output_data_receivers input_data_ids actions is_promise_yield refund_to
Data: data_id data is_promise_resume
GlobalContractDistribution: id target_shard already_delivered_shards code nonce
outcome: logs receipt_ids gas_burnt tokens_burnt executor_id status metadata
proof: hash direction
metadata: version gas_profile contracts
gas_profile: cost_category cost gas_used
cause: type tx_hash receipt_hash
change: account_id amount locked code_hash storage_usage storage_paid_at global_contract_hash global_contract_account_id state
  bootstrap_nonce public_key access_key index nonce key_base64 value_base64 code_base64
InvalidNonce: tx_nonce ak_nonce
NonceTooLarge: tx_nonce upper_bound
NotEnoughBalance: signer_id balance cost
LackBalanceForState: signer_id account_id amount
TransactionSizeExceeded: size limit
ContractSizeExceeded: size limit
ReceiptSizeExceeded: size limit
ShardCongested: shard_id congestion_level
ShardStuck: shard_id missed_chunks
InvalidNonceIndex: tx_nonce_index num_nonces
NotEnoughGasKeyBalance: signer_id balance cost
NotEnoughBalanceForDeposit: signer_id balance cost reason
ReceiverMismatch: tx_receiver ak_receiver
NotEnoughAllowance: account_id public_key allowance cost
TotalPrepaidGasExceeded: total_prepaid_gas limit
TotalNumberOfActionsExceeded: total_number_of_actions limit
AddKeyMethodNamesNumberOfBytesExceeded: total_number_of_bytes limit
InvalidDeterministicStateInitReceiver: receiver_id derived_id
InvalidUniversalStateInitReceiver: receiver_id derived_id
TotalNumberOfStateInitKeysExceeded: number_of_keys limit
TotalNumberOfStateInitEntriesExceeded: number_of_entries limit
TotalPromiseInputSizeExceeded: size limit
GasKeyInvalidNumNonces: requested_nonces limit
TotalNumberOfDeployActionsExceeded: number_of_deploy_actions limit
NumberInputDataDependenciesExceeded: number_of_input_data_dependencies limit
NumberPromisesExceeded: number_of_promises limit
CreateAccountOnlyByRegistrar: account_id registrar_account_id predecessor_id
ActorNoPermission: account_id actor_id
TriesToStake: account_id stake locked balance
InsufficientStake: account_id stake minimum_stake
DelegateActionSenderDoesNotMatchTxReceiver: sender_id receiver_id
DelegateActionInvalidNonce: delegate_nonce ak_nonce
DelegateActionInvalidNonceIndex: nonce_index num_nonces
InsufficientGasKeyBalance: account_id public_key balance required
GasKeyBalanceTooHigh: account_id public_key balance
`)

// parseFields parses lines of a name and its members. An indented line continues the one before.
func parseFields(text string) map[string][]string {
	out := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		rest := line
		if !strings.HasPrefix(line, " ") {
			name, rest, _ = strings.Cut(strings.TrimSpace(line), ":")
		}
		for key := range strings.FieldsSeq(rest) {
			if !slices.Contains(out[name], key) { // structs that share a name may share members
				out[name] = append(out[name], key)
			}
		}
	}
	return out
}
