package messages

import (
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// SessionID identifies a client's connection. Ids are unique in a process.
type SessionID uint64

// Client identifies a client for fair sharing of scarce resources. Sessions with the same
// Client share one turn. If it is empty the session is a client of its own.
type Client string

// ofPeer is the prefix of clients that are other nodes.
const ofPeer = "peer "

// ClientPeer returns the Client of a peer that forwards its clients' requests.
func ClientPeer(id string) Client { return Client(ofPeer + id) }

// OfPeer returns whether c is a peer.
func (c Client) OfPeer() bool { return strings.HasPrefix(string(c), ofPeer) }

// OpenSession: node -> rpc, no reply. The session's actor starts with its first message. A
// duplicate changes nothing.
type OpenSession struct{ Session SessionID }

// CloseSession: node -> rpc, no reply. The client is gone; its waits end without an answer.
type CloseSession struct{ Session SessionID }

// AwaitTransaction: node -> rpc -> session, answered with one Awaited unless the session is
// closed or the wait forgotten before. A session that is not open gives ErrNoSession; one that
// has failed is restarted.
type AwaitTransaction struct {
	Waiter Address
	Client Client
	Hash   primitives.Hash
	// Tx is nil if only the hash is known. With it the wait ends when the transaction becomes
	// invalid.
	Tx *primitives.SignedTransaction
	// Submit: the waiter sends Tx to its signer's pool, after txtracker has been asked to watch
	// it.
	Submit bool
	Until  view.ExecutionLevel
	// Again counts the reorganisations that took the answer away. Results that waits of an earlier
	// count share are not trusted.
	Again int
	// Dropped is why this node has dropped the transaction before, nil if it has not. DroppedAt is
	// the in-memory head at that time. If no block up to there includes it, the wait ends.
	Dropped   error
	DroppedAt primitives.Height
}

// Awaited answers AwaitTransaction. Level is what was reached with block At.Head, the first
// that satisfies the wait. Err is nil if the wait succeeded.
type Awaited struct {
	Level view.ExecutionLevel
	At    Position
	Err   error
}

// ForgetTransaction: node -> rpc -> session, no reply. The answer is no longer wanted.
type ForgetTransaction struct{ Waiter Address }
