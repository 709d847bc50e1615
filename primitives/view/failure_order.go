package view

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"
)

// Order of a failure's members. A failure is stored as JSON with ascending keys, as in replies of
// the RPC, because RPC replies pass through a map in nearcore. nearcore serializes the indexer's
// messages directly from structs, so the members of the indexer's failures are in the order of
// declaration.

// failureFields contains these orders. The key is the name of the variant that contains the object.
// If two structs share a name, the list contains the members of the first struct and then the
// members of the second. An object without an entry keeps its order, so structs whose members are
// in ascending order need no entry.
var failureFields = parseFields(`
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

// order is the order of a struct's members: a list sorted by name, with each member's position.
type order []place

type place struct {
	key  string
	rank int
}

// parseFields parses lines of a name and its members. An indented line continues the line before.
func parseFields(text string) map[string]order {
	out := map[string]order{}
	name := ""
	for line := range strings.Lines(text) {
		rest := line
		if !strings.HasPrefix(line, " ") {
			name, rest, _ = strings.Cut(strings.TrimSpace(line), ":")
		}
		for key := range strings.FieldsSeq(rest) {
			// Structs that share a name may share members.
			if o := out[name]; !slices.ContainsFunc(o, func(p place) bool { return p.key == key }) {
				out[name] = append(o, place{key, len(o)})
			}
		}
	}
	for _, o := range out {
		slices.SortFunc(o, func(x, y place) int { return strings.Compare(x.key, y.key) })
	}
	return out
}

// orderer rewrites JSON with ascending keys so that the members of objects are in the order of
// nearcore's structs. An orderer parses each text once, into nodes, and writes each byte once. It
// copies a value that is already in order.
type orderer struct {
	nodes []node
	kids  []int32 // members of the objects that are being written, outermost object first
}

// node is a value in a text: its bytes and, if it is a member of an object, the bytes of its name.
// The nodes of a value's descendants follow the value's node.
type node struct {
	key, keyEnd int32 // offsets of the member's name without quotes; keyEnd 0: no name
	from, to    int32
	end         int32 // index of the first node after this node's descendants
	rank        int32 // position of the member in the written object
	moves       bool  // true: the value contains an object whose members must be reordered
	kind        byte  // first byte of the value's text
}

// size returns how many bytes the orderer holds for later texts.
func (o *orderer) size() int { return cap(o.nodes) * int(unsafe.Sizeof(node{})) }

// value appends text, which is one JSON value, with its members in order.
func (o *orderer) value(b []byte, name string, text []byte) []byte {
	o.nodes = o.nodes[:0]
	o.read(text, 0, []byte(name))
	return o.write(b, text, 0)
}

// read parses the value that begins at offset at, and returns the offset after the value.
func (o *orderer) read(text []byte, at int, name []byte) int {
	i := len(o.nodes)
	o.nodes = append(o.nodes, node{from: int32(at), kind: text[at]})
	moves := false
	switch text[at] {
	case '"':
		at += stringLen(text[at:])
	case '[':
		for at++; text[at] != ']'; {
			if text[at] == ',' {
				at++
			}
			k := len(o.nodes)
			at = o.read(text, at, name)
			moves = moves || o.nodes[k].moves
		}
		at++
	case '{':
		at, moves = o.object(text, at, name)
	default:
		for at++; at < len(text) && text[at] != ',' && text[at] != ']' && text[at] != '}'; {
			at++
		}
	}
	n := &o.nodes[i]
	n.to, n.end, n.moves = int32(at), int32(len(o.nodes)), moves
	return at
}

// object parses an object's members. Package view's members and the struct's positions are both
// sorted by name, so one pass matches them.
func (o *orderer) object(text []byte, at int, name []byte) (behind int, moves bool) {
	places := failureFields[string(name)]
	next, last, others := 0, int32(-1), int32(len(places))
	for at++; text[at] != '}'; {
		if text[at] == ',' {
			at++
		}
		n := stringLen(text[at:])
		key := text[at+1 : at+n-1]
		k := len(o.nodes)
		value := o.read(text, at+n+1, key)
		m := &o.nodes[k]
		m.key, m.keyEnd = int32(at+1), int32(at+n-1)
		at = value
		if next > 0 && places[next-1].key >= string(key) { // the names did not ascend
			next = 0
		}
		for next < len(places) && places[next].key < string(key) {
			next++
		}
		if next < len(places) && places[next].key == string(key) {
			m.rank = int32(places[next].rank)
		} else { // members without a known position follow the members with one, in their current order
			m.rank = others
			others++
		}
		moves = moves || m.moves || m.rank < last
		last = m.rank
	}
	return at + 1, moves
}

// write appends the value at node i, with its members in order.
func (o *orderer) write(b, text []byte, i int32) []byte {
	n := &o.nodes[i]
	if !n.moves {
		return append(b, text[n.from:n.to]...)
	}
	if n.kind == '[' {
		b = append(b, '[')
		for k := i + 1; k < n.end; k = o.nodes[k].end {
			if k > i+1 {
				b = append(b, ',')
			}
			b = o.write(b, text, k)
		}
		return append(b, ']')
	}
	base := len(o.kids)
	for k := i + 1; k < n.end; k = o.nodes[k].end {
		o.kids = append(o.kids, k)
	}
	o.arrange(o.kids[base:])
	b = append(b, '{')
	for at, end := base, len(o.kids); at < end; at++ {
		k := o.kids[at]
		m := &o.nodes[k]
		if at > base {
			b = append(b, ',')
		}
		b = append(append(b, text[m.key-1:m.keyEnd+1]...), ':')
		b = o.write(b, text, k)
	}
	o.kids = o.kids[:base]
	return append(b, '}')
}

// arrange sorts an object's members by position.
func (o *orderer) arrange(members []int32) {
	for i := 1; i < len(members); i++ { // insertion sort: members are few and mostly in order
		for k := i; k > 0 && o.nodes[members[k]].rank < o.nodes[members[k-1]].rank; k-- {
			members[k], members[k-1] = members[k-1], members[k]
		}
	}
}

// stringLen returns the length of the JSON string that text begins with.
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
