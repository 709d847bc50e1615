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

// orderer writes JSON texts of package view with the members of their objects in the order of nearcore's structs. Each text is read once: a member is
// appended where it comes, and where that is not its place the object's members are put in order behind.
type orderer struct {
	members []member // of the objects that are being read, the outermost first
	scratch []byte
}

// member is one of an object: its name in the text, and where its whole lies in what was appended.
type member struct {
	key      []byte
	from, to int
}

// ordered appends a text.
func ordered(b []byte, name string, text []byte) []byte {
	var o orderer
	b, _ = o.value(b, []byte(name), text)
	return b
}

// value appends the value that text begins with, and gives its length in the text.
func (o *orderer) value(b, name, text []byte) ([]byte, int) {
	switch text[0] {
	case '"':
		n := stringLen(text)
		return append(b, text[:n]...), n
	case '[':
		b = append(b, '[')
		i := 1
		for text[i] != ']' {
			if text[i] == ',' {
				b = append(b, ',')
				i++
			}
			var n int
			b, n = o.value(b, name, text[i:])
			i += n
		}
		return append(b, ']'), i + 1
	case '{':
		return o.object(b, name, text)
	}
	n := 1
	for n < len(text) && text[n] != ',' && text[n] != ']' && text[n] != '}' {
		n++
	}
	return append(b, text[:n]...), n
}

func (o *orderer) object(b, name, text []byte) ([]byte, int) {
	base := len(o.members)
	b = append(b, '{')
	i := 1
	for text[i] != '}' {
		if text[i] == ',' {
			b = append(b, ',')
			i++
		}
		n := stringLen(text[i:])
		m := member{key: text[i+1 : i+n-1], from: len(b)}
		b = append(append(b, text[i:i+n]...), ':')
		i += n + 1
		b, n = o.value(b, m.key, text[i:])
		i += n
		m.to = len(b)
		o.members = append(o.members, m)
	}
	members := o.members[base:]
	if len(members) > 1 && arrange(name, members) {
		from := members[0].from
		for k := range members {
			from = min(from, members[k].from)
		}
		o.scratch = append(o.scratch[:0], b[from:]...)
		b = b[:from]
		for k := range members {
			if k > 0 {
				b = append(b, ',')
			}
			b = append(b, o.scratch[members[k].from-from:members[k].to-from]...)
		}
	}
	o.members = o.members[:base]
	return append(b, '}'), i + 1
}

// arrange puts members in the order of the struct of that name; false: they are.
func arrange(name []byte, members []member) (moved bool) {
	if string(name) == "data" { // a contract's first state: by the bytes of the keys, not by their base64
		less := func(x, y member) int { return bytes.Compare(decoded(x.key), decoded(y.key)) }
		if slices.IsSortedFunc(members, less) {
			return false
		}
		slices.SortStableFunc(members, less)
		moved = true
	}
	next := 0
	for _, key := range fields[string(name)] {
		for i := next; i < len(members); i++ {
			if string(members[i].key) != key {
				continue
			}
			if i != next {
				m := members[i]
				copy(members[next+1:i+1], members[next:i])
				members[next], moved = m, true
			}
			next++
			break
		}
	}
	return moved
}

func decoded(key []byte) []byte {
	out, _ := base64.StdEncoding.DecodeString(string(key)) // view has written it
	return out
}

// stringLen is the length of the JSON string that text begins with.
func stringLen(text []byte) int {
	end := bytes.IndexByte(text[1:], '"') + 2
	if bytes.IndexByte(text[:end], '\\') < 0 {
		return end
	}
	for i := 1; ; i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
}
