package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// ListQuery selects transactions of the current chain, the newest first. A filter that is zero
// excludes nothing. All other filters apply together.
type ListQuery struct {
	// Account selects the transactions of an account. The account signed or received the
	// transaction or executed one of the transaction's receipts, or an event of NEP-141, NEP-171 or
	// NEP-245 names the account.
	Account primitives.AccountID
	// Method selects transactions with a call of a method whose name begins with it.
	Method string
	// Failed selects the transactions that failed or have a failed receipt.
	Failed bool

	Limit  int               // maximum number of transactions
	Blocks int               // number of newest blocks to describe
	After  primitives.Height // only blocks above this height are read; 0: all
	Before *ListPosition     // Next of the previous reply, after which the list continues; nil: from the head on
}

// ListPosition is a place in a block, after which the list continues with transactions before that
// place.
type ListPosition struct {
	Height primitives.Height
	Index  int // index of a transaction in the block; the list continues with transactions before that one
}

// TransactionList is the answer to a ListQuery.
type TransactionList struct {
	Head primitives.Height
	// From is the lowest height that was read. If none was read, From is above Head.
	From primitives.Height
	// Next is the value of ListQuery.Before for the next page of the list. Next is nil if the list
	// has reached ListQuery.After or the node's oldest block.
	Next         *ListPosition
	Transactions []ListedTransaction
	Blocks       []ListedBlock // newest blocks, the newest first
	// Tokens are contracts with events that name ListQuery.Account. The contract with the latest
	// event comes first.
	Tokens []TokenContract
}

// ListedTransaction is what a list shows of a transaction.
type ListedTransaction struct {
	Transaction *primitives.SignedTransaction
	Block       At
	Timestamp   uint64 // time of the block in ns since 1970
	Shard       primitives.ShardID
	Status      ListedStatus
	// Failure describes why the transaction failed, in printable characters; empty: the transaction
	// did not fail.
	Failure string
	Gas     primitives.Gas     // gas burnt so far
	Tokens  primitives.Balance // tokens burnt so far
	// Receipts is the number of receipts that have run. Failed is the number of run receipts that
	// failed. Pending is the number of receipts that have not run.
	Receipts, Failed, Pending int
}

// ListedStatus is how far the execution of a transaction is.
type ListedStatus string

// The values of ListedStatus. The result is known before all receipts have run.
const (
	ListedPending   ListedStatus = "pending"
	ListedSucceeded ListedStatus = "succeeded"
	ListedFailed    ListedStatus = "failed"
)

// ListedBlock is what a list shows of a block.
type ListedBlock struct {
	At
	Author       primitives.AccountID
	Timestamp    uint64         // ns since 1970
	Gas          primitives.Gas // gas that the previous chunks used, as the chunk headers state
	Chunks       int            // number of new chunks
	Shards       int
	Transactions int // number of transactions in the new chunks
}

// TokenContract is a contract with events about an account.
type TokenContract struct {
	Contract primitives.AccountID
	Standard string            // "nep141", "nep171" or "nep245"
	Height   primitives.Height // height of the last event
}

// Bounds of a list.
const (
	MaxListed        = 200 // maximum of ListQuery.Limit and of ListQuery.Blocks
	MaxListedActions = 8   // maximum number of actions that are listed for a transaction
	MaxTokens        = 100
)

// AppendTransactionList appends JSON with ascending keys.
func AppendTransactionList(b []byte, l *TransactionList) []byte {
	b = append(b, `{"blocks":[`...)
	for i := range l.Blocks {
		x := &l.Blocks[i]
		b = AppendAccountID(append(separate(b, i), `{"author":`...), x.Author)
		b = AppendHash(append(b, `,"block_hash":`...), &x.Hash)
		b = appendUint(append(b, `,"block_height":`...), x.Height)
		b = strconv.AppendInt(append(b, `,"chunks":`...), int64(x.Chunks), 10)
		b = appendUint(append(b, `,"gas_used":`...), x.Gas)
		b = strconv.AppendInt(append(b, `,"shards":`...), int64(x.Shards), 10)
		b = appendUintString(append(b, `,"timestamp_nanosec":`...), x.Timestamp)
		b = append(strconv.AppendInt(append(b, `,"transactions":`...), int64(x.Transactions), 10), '}')
	}
	b = appendUint(append(b, `],"from_height":`...), l.From)
	b = appendUint(append(b, `,"head_height":`...), l.Head)
	b = append(b, `,"next":`...)
	if p := l.Next; p != nil {
		b = appendUint(append(b, `{"height":`...), p.Height)
		b = append(strconv.AppendInt(append(b, `,"index":`...), int64(p.Index), 10), '}')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"tokens":[`...)
	for i := range l.Tokens {
		x := &l.Tokens[i]
		b = appendUint(append(separate(b, i), `{"block_height":`...), x.Height)
		b = AppendAccountID(append(b, `,"contract_id":`...), x.Contract)
		b = append(AppendString(append(b, `,"standard":`...), x.Standard), '}')
	}
	b = append(b, `],"transactions":[`...)
	for i := range l.Transactions {
		b = appendListed(separate(b, i), &l.Transactions[i])
	}
	return append(b, "]}"...)
}

func separate(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

func appendListed(b []byte, x *ListedTransaction) []byte {
	t := x.Transaction
	b = append(b, `{"actions":[`...)
	shown := min(len(t.Actions), MaxListedActions)
	for i, a := range t.Actions[:shown] {
		b = append(separate(b, i), `{`...)
		switch a := a.(type) {
		case *primitives.FunctionCall:
			b = AppendBalance(append(b, `"deposit":`...), a.Deposit)
			b = append(b, `,"kind":"FunctionCall"`...)
			b = AppendString(append(b, `,"method_name":`...), a.Method)
		case *primitives.Transfer:
			b = AppendBalance(append(b, `"deposit":`...), a.Deposit)
			b = append(b, `,"kind":"Transfer"`...)
		default:
			b = AppendString(append(b, `"kind":`...), ActionName(a))
		}
		b = append(b, '}')
	}
	b = strconv.AppendInt(append(b, `],"actions_omitted":`...), int64(len(t.Actions)-shown), 10)
	b = AppendHash(append(b, `,"block_hash":`...), &x.Block.Hash)
	b = appendUint(append(b, `,"block_height":`...), x.Block.Height)
	if x.Failure != "" {
		b = AppendString(append(b, `,"failure":`...), x.Failure)
	}
	b = appendUint(append(b, `,"gas_burnt":`...), x.Gas)
	b = strconv.AppendInt(append(b, `,"receipts":`...), int64(x.Receipts), 10)
	b = strconv.AppendInt(append(b, `,"receipts_failed":`...), int64(x.Failed), 10)
	b = strconv.AppendInt(append(b, `,"receipts_pending":`...), int64(x.Pending), 10)
	b = AppendAccountID(append(b, `,"receiver_id":`...), t.ReceiverID)
	b = appendUint(append(b, `,"shard_id":`...), x.Shard)
	b = AppendAccountID(append(b, `,"signer_id":`...), t.SignerID)
	b = AppendString(append(b, `,"status":`...), string(x.Status))
	b = appendUintString(append(b, `,"timestamp_nanosec":`...), x.Timestamp)
	b = AppendBalance(append(b, `,"tokens_burnt":`...), x.Tokens)
	hash := t.Hash()
	return append(AppendHash(append(b, `,"transaction_hash":`...), &hash), '}')
}

// ActionName returns the name of an action's view.
func ActionName(a primitives.Action) string {
	if d, ok := a.(*primitives.DeployGlobalContract); ok && d.Mode == primitives.GlobalByAccountID {
		return "DeployGlobalContractByAccountId"
	}
	if u, ok := a.(*primitives.UseGlobalContract); ok && u.ID.Account != "" {
		return "UseGlobalContractByAccountId"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", a), "*primitives.")
}
