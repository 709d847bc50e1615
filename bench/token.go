package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// The load of --ft-transfer: every shard has one or more token contracts, all accounts hold the
// same balance, and transactions call ft_transfer. The token is the NEP-141 contract in
// internal/testkit/contracts, with its checks and events.
const (
	tokenGas      = 10_000_000_000_000
	tokensHeld    = 1_000_000_000
	tokenMetadata = `{"spec":"ft-1.0.0","name":"Bench","symbol":"BENCH","decimals":6}`
	// targetCalls is the target in calls per second on one core of the machine for which targets
	// are stated.
	targetCalls = 10_000
	// mostCalls exceeds the number of calls, with their receipts and refunds, that fit into a chunk
	// of 1 PGas.
	mostCalls = 700
	// maxContracts is the maximum number of tokens of a shard. Each account holds each of these
	// tokens.
	maxContracts = 100
)

// tokenOf returns the account of the n-th token in an account's shard. The names of the account and
// the token begin with the same letter.
func tokenOf(account primitives.AccountID, n int) primitives.AccountID {
	if n == 0 {
		return account[:1] + "token.w"
	}
	return account[:1] + primitives.AccountID(fmt.Sprintf("token%02d.w", n))
}

// pair is a key and its value in the contract's storage.
type pair struct{ key, value []byte }

// token is a token contract and the balances of the token's holders.
type token struct {
	id      primitives.AccountID
	account primitives.Account
	code    []byte
	data    []pair // entries of the contract's state, in ascending order of keys
}

func newToken(id primitives.AccountID, holders int, amount primitives.Balance) *token {
	t := &token{id: id, code: contracts.C("ft")}
	put := func(name string, value []byte) { t.data = append(t.data, pair{[]byte(name), value}) }
	for i := range holders {
		put("a"+string(workload.Account(i)), balance(tokensHeld))
	}
	put("m", []byte(tokenMetadata))
	put("o", []byte(id))
	put("t", balance(uint64(holders)*tokensHeld))
	slices.SortFunc(t.data, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	t.settle(amount)
	return t
}

// newPlain returns the contract whose methods do almost nothing, with the storage entry that these
// methods read.
func newPlain(id primitives.AccountID, amount primitives.Balance) *token {
	t := &token{id: id, code: contracts.Plain(), data: []pair{{[]byte(contracts.PlainKey), balance(1)}}}
	t.settle(amount)
	return t
}

// newHog returns an account with the contract "hog", which writes storage.
func newHog(id primitives.AccountID, amount primitives.Balance) *token {
	t := &token{id: id, code: contracts.C("hog")}
	t.settle(amount)
	return t
}

// settle creates the contract's account, with the storage usage of the contract's code and data.
func (t *token) settle(amount primitives.Balance) {
	t.account = primitives.Account{Amount: amount, StorageUsage: 100 + uint64(len(t.code)), Version: primitives.AccountV1}
	t.account.Contract = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes(t.code)}
	for _, p := range t.data {
		t.account.StorageUsage += uint64(len(p.key)+len(p.value)) + 40
	}
}

// balance returns an amount as the token stores it.
func balance(v uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, v), 0)
}

// withToken adds a token to the entries of a shard's state. The input must be in ascending order of
// keys.
func withToken(state iter.Seq2[[]byte, []byte], t *token) iter.Seq2[[]byte, []byte] {
	more := []pair{{primitives.AppendAccountKey(nil, t.id), t.account.AppendBorsh(nil)}, {primitives.AppendCodeKey(nil, t.id), t.code}}
	for _, p := range t.data {
		more = append(more, pair{primitives.AppendContractDataKey(nil, t.id, p.key), p.value})
	}
	return func(yield func(k, v []byte) bool) {
		at := 0
		for k, v := range state {
			for at < len(more) && bytes.Compare(more[at].key, k) < 0 {
				if !yield(more[at].key, more[at].value) {
					return
				}
				at++
			}
			if !yield(k, v) {
				return
			}
		}
		for _, p := range more[at:] {
			if !yield(p.key, p.value) {
				return
			}
		}
	}
}

// addTokens creates the VM and the names of the tokens.
func (n *shardNet) addTokens(each int) (err error) {
	if n.vm, err = vm.New(vm.Options{}); err != nil {
		return err
	}
	for i := range n.shards {
		var ids []primitives.AccountID
		for k := range each {
			ids = append(ids, tokenOf(workload.Account(int(n.shards[i].names[0])), k))
		}
		n.tokens = append(n.tokens, ids)
	}
	return nil
}

// call changes a transaction to a token transfer between two holders.
func (n *shardNet) call(rng *rand.Rand, tx *primitives.Transaction, token primitives.AccountID, s *shard) {
	to := workload.Account(int(s.names[s.zipf.Draw(rng)]))
	for to == tx.SignerID {
		to = workload.Account(int(s.names[rng.IntN(len(s.names))]))
	}
	tx.ReceiverID = token
	tx.Actions = []primitives.Action{&primitives.FunctionCall{
		Method: "ft_transfer", Gas: tokenGas, Deposit: primitives.Yocto(1),
		Args: fmt.Appendf(nil, `{"receiver_id":%q,"amount":"%d"}`, to, 1+rng.IntN(1000)),
	}}
}

// what returns the name of the measured operation for reports.
func (o *ShardOptions) what() string {
	if o.Tokens {
		return "ft_transfer"
	}
	return "transfers"
}

func (o *ShardOptions) target() float64 {
	if o.Tokens {
		return targetCalls
	}
	return targetTransfers
}

// most returns the number of transactions that are tried in a chunk first.
func (o *ShardOptions) most() int {
	if o.Tokens {
		return mostCalls
	}
	return mostTransfers
}

// failed returns the first failure in results as an error, because no call of the benchmark should
// fail.
func failed(results []*apply.Result) error {
	for _, r := range results {
		for i := range r.Outcomes {
			if o := &r.Outcomes[i].Outcome; o.Status.Kind == primitives.StatusFailure {
				return fmt.Errorf("bench: ft_transfer of %s failed: %s", o.ExecutorID, o.Status.Failure)
			}
		}
	}
	return nil
}
