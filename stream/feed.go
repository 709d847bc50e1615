package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Cursor identifies a block and, in a feed, the position after that block. Its text is HEIGHT:HASH.
// Its JSON is the same as on the WebSocket.
type Cursor struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// String is the cursor's text.
func (c Cursor) String() string {
	return strconv.FormatUint(uint64(c.Height), 10) + ":" + c.Hash.String()
}

// ParseCursor parses a cursor's text.
func ParseCursor(text string) (c Cursor, err error) {
	height, hash, ok := strings.Cut(text, ":")
	n, err := strconv.ParseUint(height, 10, 64)
	if c.Height = primitives.Height(n); ok && err == nil {
		if raw, e := primitives.DecodeBase58(hash, len(c.Hash)); e == nil && len(raw) == len(c.Hash) {
			c.Hash = primitives.Hash(raw)
			return c, nil
		}
	}
	return Cursor{}, fmt.Errorf("%.80q is not a cursor of the form HEIGHT:BLOCK_HASH", text)
}

// MarshalJSON writes {"block_hash", "height"}.
func (c Cursor) MarshalJSON() ([]byte, error) {
	return view.AppendCursor(nil, &view.Cursor{At: view.At(c), Index: view.WholeBlock}), nil
}

// UnmarshalJSON reads {"block_hash", "height"}.
func (c *Cursor) UnmarshalJSON(in []byte) error {
	var x struct {
		Hash   string  `json:"block_hash"`
		Height *uint64 `json:"height"`
	}
	if err := json.Unmarshal(in, &x); err != nil {
		return err
	}
	if x.Height == nil {
		return errors.New("the cursor has no height")
	}
	got, err := ParseCursor(strconv.FormatUint(*x.Height, 10) + ":" + x.Hash)
	*c = got
	return err
}

// Message is one message of a feed. It is a block, or a notice that blocks of earlier messages are
// no longer on the chain.
type Message struct {
	// Cursor is the block, or the last block that is still on the chain. A reader that resumes
	// after this block misses nothing.
	Cursor  Cursor
	Skipped []Cursor // blocks that are no longer on the chain, newest first; nil: the message is a block

	text   func() ([]byte, error)
	failed atomic.Pointer[error]
}

// NewMessage returns the message of a block. text is called when the message's JSON is needed.
func NewMessage(at Cursor, text func() ([]byte, error)) *Message {
	return &Message{Cursor: at, text: text}
}

// JSON returns nearcore's StreamerMessage of the block, byte for byte. For blocks that are no
// longer on the chain it returns {"cursor": Cursor, "reverted": [cursors]}, as on the WebSocket.
// The result may be shared and must not be changed.
func (m *Message) JSON() ([]byte, error) {
	if m.Skipped == nil {
		text, err := m.text()
		if err != nil {
			m.failed.Store(&err)
		}
		return text, err
	}
	return json.Marshal(struct {
		Cursor  Cursor   `json:"cursor"`
		Skipped []Cursor `json:"reverted"`
	}{m.Cursor, m.Skipped})
}

// Failed returns the last error of JSON, or nil. JSON can fail in the node's own process: a block
// may be garbage collected before its text is encoded.
func (m *Message) Failed() error {
	if err := m.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// FromNotice converts a notice of a subscription to messages.
func FromNotice(n *view.Notice) (*Message, error) {
	m := &Message{Cursor: Cursor(n.Cursor.At), text: n.Make}
	if n.Make != nil {
		return m, nil
	}
	var x struct {
		Message  json.RawMessage
		Reverted []Cursor
	}
	if err := json.Unmarshal(append(append([]byte{'{'}, n.Body...), '}'), &x); err != nil {
		return nil, err
	}
	m.Skipped, m.text = x.Reverted, func() ([]byte, error) { return x.Message, nil }
	if x.Message == nil && x.Reverted == nil {
		return nil, fmt.Errorf("the notice contains neither a message nor reverted blocks: %.80q", n.Body)
	}
	return m, nil
}

// Query selects the messages of a feed.
type Query struct {
	Finality view.RefKind // RefOptimistic, RefNearFinal or RefFinal
	After    *Cursor      // the feed begins after this block
	// From is the height at which to begin, if After is nil: with the first block at From or above.
	// If From and After are nil, the feed begins with the last block.
	From   *primitives.Height
	Shards *view.ShardFilter // shards in the messages; nil: all shards of the node
	Synced bool              // true: do not begin before the node has caught up with its network
}

// Source opens feeds. A Source may be a node in this process, a node at a URL, or a wrapper of
// another Source.
type Source interface {
	// Open begins a feed. Open waits until the node answers or the context ends. If the query
	// requires it, Open also waits until the node has caught up. Errors: ErrGone, ErrAhead,
	// ErrRefused. After any other error a retry may succeed.
	Open(context.Context, *Query) (Feed, error)
}

// Feed returns blocks in the order of the chain, each exactly once. A Feed does not buffer: Next
// reads the block.
type Feed interface {
	// Next waits for the next message. Errors: the context's error, ErrGone. After any error except
	// these two, the feed has ended. A new feed after the last cursor delivers the messages that
	// follow.
	Next(context.Context) (*Message, error)
	At() Cursor // returns the cursor at which the feed began
	Close()
}

// Errors that a retry does not fix.
var (
	ErrGone    = errors.New("the node does not store the blocks after that cursor any more")
	ErrAhead   = errors.New("the chain has not reached that height")
	ErrRefused = errors.New("the node refuses the request")
)

// Permanent returns whether a retry would fail too.
func Permanent(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, ErrAhead) || errors.Is(err, ErrRefused)
}
