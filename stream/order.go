package stream

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
)

// Package view writes objects with ascending keys, as replies of the RPC have them, which pass through a map in nearcore. The indexer's
// messages come straight from nearcore's structs, so they have the order in which those declare their members.

// fields are those orders, by the name of the member under which an object, or a list of such, stands: of a variant its name. Where two
// structs share a name, theirs follow each other. An object that is not here keeps the order that it has; nor is anything said where
// both orders are the same. Names that begin with # are those of whole texts.
var fields = parseFields(`
#header: height prev_height epoch_id next_epoch_id hash prev_hash prev_state_root block_body_hash chunk_receipts_root chunk_headers_root chunk_tx_root
  outcome_root chunks_included challenges_root timestamp timestamp_nanosec random_value validator_proposals chunk_mask gas_price block_ordinal rent_paid
  validator_reward total_supply challenges_result last_final_block last_ds_final_block next_bp_hash block_merkle_root epoch_sync_data_hash approvals
  signature latest_protocol_version chunk_endorsements shard_split
#chunk: chunk_hash prev_block_hash outcome_root prev_state_root encoded_merkle_root encoded_length height_created height_included shard_id gas_used
  gas_limit rent_paid validator_reward balance_burnt outgoing_receipts_root tx_root validator_proposals congestion_info bandwidth_requests
  proposed_split signature
#transaction: signer_id public_key nonce receiver_id actions priority_fee signature hash nonce_index nonce_mode
#receipt: predecessor_id receiver_id receipt_id receipt priority
#outcome: proof block_hash id outcome
#change: cause type change
validator_proposals: validator_stake_struct_version account_id public_key stake
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
Action: signer_id signer_public_key gas_price output_data_receivers input_data_ids actions is_promise_yield refund_to
Data: data_id data is_promise_resume
GlobalContractDistribution: id target_shard already_delivered_shards code nonce
outcome: logs receipt_ids gas_burnt tokens_burnt executor_id status metadata
proof: hash direction
metadata: version gas_profile contracts
gas_profile: cost_category cost gas_used
cause: type tx_hash receipt_hash
change: account_id amount locked code_hash storage_usage storage_paid_at global_contract_hash global_contract_account_id public_key access_key index nonce
  key_base64 value_base64 code_base64
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

// parseFields reads lines of a name and its members; a line that is indented goes on with the one before.
func parseFields(text string) map[string][]string {
	out := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		rest := line
		if !strings.HasPrefix(line, " ") {
			name, rest, _ = strings.Cut(strings.TrimSpace(line), ":")
		}
		out[name] = append(out[name], strings.Fields(rest)...)
	}
	return out
}

// member is one of an object: its text with the quotes, and the value's.
type member struct{ key, value []byte }

// ordered appends a JSON text, written by package view, with the members of its objects in the order of nearcore's structs.
func ordered(b []byte, name string, text []byte) []byte {
	switch text[0] {
	case '[':
		b = append(b, '[')
		for i := 1; text[i] != ']'; {
			if text[i] == ',' {
				b = append(b, ',')
				i++
			}
			n := valueLen(text[i:])
			b = ordered(b, name, text[i:i+n])
			i += n
		}
		return append(b, ']')
	case '{':
		return orderedObject(b, name, text)
	}
	return append(b, text...)
}

func orderedObject(b []byte, name string, text []byte) []byte {
	var few [32]member
	members := few[:0]
	for i := 1; text[i] != '}'; {
		if text[i] == ',' {
			i++
		}
		n := valueLen(text[i:])
		m := member{key: text[i : i+n]}
		i += n + 1 // the colon
		n = valueLen(text[i:])
		m.value = text[i : i+n]
		i += n
		members = append(members, m)
	}
	b = append(b, '{')
	first := true
	put := func(m *member) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(b, m.key...), ':')
		b = ordered(b, string(m.key[1:len(m.key)-1]), m.value)
		m.key = nil
	}
	if name == "data" { // a contract's first state: by the bytes of the keys, not by their base64
		slices.SortFunc(members, func(x, y member) int { return bytes.Compare(decoded(x.key), decoded(y.key)) })
	}
	for _, key := range fields[name] {
		for i := range members {
			if k := members[i].key; len(k) == len(key)+2 && string(k[1:len(k)-1]) == key {
				put(&members[i])
				break
			}
		}
	}
	for i := range members {
		if members[i].key != nil {
			put(&members[i])
		}
	}
	return append(b, '}')
}

func decoded(key []byte) []byte {
	out, _ := base64.StdEncoding.DecodeString(string(key[1 : len(key)-1])) // view has written it
	return out
}

// valueLen is the length of the JSON value that text begins with.
func valueLen(text []byte) int {
	switch text[0] {
	case '"':
		for i := 1; ; i++ {
			switch text[i] {
			case '"':
				return i + 1
			case '\\':
				i++
			}
		}
	case '{', '[':
		for i, depth := 0, 0; ; i++ {
			switch text[i] {
			case '"':
				i += valueLen(text[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	if i := bytes.IndexAny(text, ",]}:"); i >= 0 {
		return i
	}
	return len(text)
}
