package messages

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// SessionID names a client's connection, in one process, for ever.
type SessionID uint64

// OpenSession: node -> rpc, no reply. A duplicate changes nothing.
type OpenSession struct{ Session SessionID }

// CloseSession: node -> rpc, no reply: the client is gone, and with it all its waits, which are not answered.
type CloseSession struct{ Session SessionID }

// AwaitTransaction: node -> rpc -> session, answered by Reply, once, unless the session is closed or the wait forgotten
// before. A session that is not open gives ErrNoSession.
type AwaitTransaction struct {
	Session SessionID
	Waiter  WaiterID
	Hash    primitives.Hash
	// Tx is nil if only the hash is known. With it the wait ends when the transaction can't be included any more.
	Tx *primitives.SignedTransaction
	// Pooled: the transaction is in a pool of this node, which says when it drops it. Else it is checked at every head.
	Pooled bool
	Until  view.ExecutionLevel
	Reply  Sender[Awaited]
}

// Awaited answers AwaitTransaction: Level is what is reached. Err is nil if that is what was waited for.
type Awaited struct {
	Level view.ExecutionLevel
	Err   error
}

// ForgetTransaction: node -> rpc -> session, no reply: nobody waits for this answer any more.
type ForgetTransaction struct {
	Session SessionID
	Waiter  WaiterID
}
