package messages

import (
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// SessionID names a client's connection, in one process, for ever.
type SessionID uint64

// Client names who is behind a session, for sharing out what is scarce: sessions with the same Client share one turn. Empty:
// the session is a client of its own.
type Client string

// ofPeer begins the names of clients that are other nodes.
const ofPeer = "peer "

// ClientPeer names another node, which has passed on what its clients want.
func ClientPeer(id string) Client { return Client(ofPeer + id) }

// OfPeer tells whether it is one.
func (c Client) OfPeer() bool { return strings.HasPrefix(string(c), ofPeer) }

// OpenSession: node -> rpc, no reply. The session's actor is made for its first message. A duplicate changes nothing.
type OpenSession struct{ Session SessionID }

// CloseSession: node -> rpc, no reply: the client is gone, and with it all its waits, which are not answered.
type CloseSession struct{ Session SessionID }

// AwaitTransaction: node -> rpc -> session, answered with Awaited, once, unless the session is closed or the wait forgotten
// before. A session that is not open gives ErrNoSession; one that has failed is made anew.
type AwaitTransaction struct {
	Waiter Address
	Client Client
	Hash   primitives.Hash
	// Tx is nil if only the hash is known. With it the wait ends when the transaction can't be included any more.
	Tx *primitives.SignedTransaction
	// Submit: the waiter sends Tx to its signer's pool, once it is sure to be told of the block that includes it.
	Submit bool
	Until  view.ExecutionLevel
	// Again is how often a reorganisation has taken the answer away. What those who began before knew is not believed then.
	Again int
	// Dropped is why this node has dropped the transaction before, nil: it has not, and DroppedAt how far the chain had come in memory then: if
	// it is in no block up to there, the wait ends.
	Dropped   error
	DroppedAt primitives.Height
}

// Awaited answers AwaitTransaction: Level is what was reached with the block At.Head, the first that satisfies the wait. Err is
// nil if that is what was waited for.
type Awaited struct {
	Level view.ExecutionLevel
	At    Position
	Err   error
}

// ForgetTransaction: node -> rpc -> session, no reply: nobody waits for this answer any more.
type ForgetTransaction struct{ Waiter Address }
