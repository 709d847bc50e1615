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

// Cursor names a block, and in a feed the place behind it. Its text is HEIGHT:HASH; its JSON is
// that of the WebSocket.
type Cursor struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// String is the cursor's text.
func (c Cursor) String() string {
	return strconv.FormatUint(uint64(c.Height), 10) + ":" + c.Hash.String()
}

// ParseCursor reads a cursor's text.
func ParseCursor(text string) (c Cursor, err error) {
	height, hash, ok := strings.Cut(text, ":")
	n, err := strconv.ParseUint(height, 10, 64)
	if c.Height = primitives.Height(n); ok && err == nil {
		if raw, e := primitives.DecodeBase58(hash, len(c.Hash)); e == nil && len(raw) == len(c.Hash) {
			c.Hash = primitives.Hash(raw)
			return c, nil
		}
	}
	return Cursor{}, fmt.Errorf("%.80q is no cursor: HEIGHT:BLOCK_HASH", text)
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
		return errors.New("a cursor without a height")
	}
	got, err := ParseCursor(strconv.FormatUint(*x.Height, 10) + ":" + x.Hash)
	*c = got
	return err
}

// Message is one thing that a feed tells: a block, or that blocks it has told of are no part of the
// chain any more.
type Message struct {
	Cursor  Cursor   // the block, or where the chain goes another way: to be stored, to go on behind it
	Skipped []Cursor // those blocks, the last one first; nil: the message is of a block

	text   func() ([]byte, error)
	failed atomic.Pointer[error]
}

// NewMessage is that of a block, whose JSON text gives when it is wanted.
func NewMessage(at Cursor, text func() ([]byte, error)) *Message {
	return &Message{Cursor: at, text: text}
}

// JSON is nearcore's StreamerMessage of the block, byte for byte; of skipped blocks {"cursor":
// Cursor, "reverted": [cursors]}, as on the WebSocket. It may be shared with others: it is only
// read.
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

// Failed is the last error of JSON; nil: there was none. In the process of its node a block may go
// before its text is made.
func (m *Message) Failed() error {
	if err := m.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// FromNotice is the message of a notice that a subscription to messages was given.
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
		return nil, fmt.Errorf("a notice that is neither a message nor says what was reverted: %.80q", n.Body)
	}
	return m, nil
}

// Query says what a feed tells.
type Query struct {
	Finality view.RefKind // RefOptimistic, RefNearFinal or RefFinal
	After    *Cursor      // the feed begins behind it,
	// or with the first block at that height or above; neither: with the last block there is
	From   *primitives.Height
	Shards *view.ShardFilter // nil: all that the node holds
	Synced bool              // it does not begin before the node has caught up with its network
}

// Source gives feeds: a node in this process, one by its URL, or something between.
type Source interface {
	// Open begins a feed. It waits until the node answers, and has caught up if the query says so,
	// or the context ends. Errors: ErrGone, ErrAhead, ErrRefused; with any other it may succeed
	// later.
	Open(context.Context, *Query) (Feed, error)
}

// Feed tells of blocks in the order of the chain, each exactly once. What nobody asks for is not
// kept: it is read when it is wanted.
type Feed interface {
	// Next waits for what comes next. Errors: those of the context, ErrGone; with any other the
	// feed has ended, and a new one behind the last cursor goes on.
	Next(context.Context) (*Message, error)
	At() Cursor // where it began: at that block, or behind it
	Close()
}

// Errors that trying again does not mend.
var (
	ErrGone    = errors.New("the node does not store what comes behind that place any more")
	ErrAhead   = errors.New("the chain has not come to that height")
	ErrRefused = errors.New("the node does not give what was asked for")
)

// Permanent tells whether trying again is of no use.
func Permanent(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, ErrAhead) || errors.Is(err, ErrRefused)
}
