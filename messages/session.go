package messages

import (
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// SessionID identifies a client's connection. IDs are unique in a process.
type SessionID uint64

// Client identifies a client for the fair sharing of limited resources. Sessions with the same
// Client share one turn. A session with an empty Client is a client of its own.
type Client string

// ofPeer is the prefix of clients that are peers.
const ofPeer = "peer "

// ClientPeer returns the Client for the peer id, which forwards requests of its own clients.
func ClientPeer(id string) Client { return Client(ofPeer + id) }

// OfPeer returns whether c is a result of ClientPeer.
func (c Client) OfPeer() bool { return strings.HasPrefix(string(c), ofPeer) }

// OpenSession: node -> rpc, no reply. The session's actor starts with the first message to the
// session. A duplicate changes nothing.
type OpenSession struct{ Session SessionID }

// CloseSession: node -> rpc, no reply. The client has disconnected. The session's waits end without
// an answer.
type CloseSession struct{ Session SessionID }

// AwaitTransaction: node -> rpc -> session, answered with one Awaited unless the session is closed
// or ForgetTransaction comes first. If the session is not open, the error is ErrNoSession. A
// session actor that has failed is restarted.
type AwaitTransaction struct {
	Waiter Address
	Client Client
	Hash   primitives.Hash
	// Tx is nil if only the hash is known. If Tx is set, the wait also ends when Tx becomes
	// invalid.
	Tx *primitives.SignedTransaction
	// Submit means that the waiter submits Tx to the mempool, after the waiter has sent Watch to
	// txtracker.
	Submit bool
	Until  view.ExecutionLevel
	// Seen is the position that readers saw when the request arrived.
	Seen Position
	// Again is the number of reorganisations that made an answer to this wait invalid. Results of
	// waits with a lower number are not reused.
	Again int
	// Dropped is the error with which this node dropped the transaction before this wait, or nil if
	// this node did not drop the transaction. DroppedAt is the height of the in-memory head at the
	// drop. The wait ends with Dropped if no block up to DroppedAt includes the transaction.
	Dropped   error
	DroppedAt primitives.Height
}

// Awaited answers AwaitTransaction. Level is the level reached at block At.Head, the first block
// that satisfies the wait. Err is nil if the wait succeeded.
type Awaited struct {
	Level view.ExecutionLevel
	At    Position
	Err   error
}

// ForgetTransaction: node -> rpc -> session, no reply. The client no longer waits for the answer.
type ForgetTransaction struct{ Waiter Address }
