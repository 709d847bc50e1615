package indexer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// These types are declared in package stream, because the node uses them too.
type (
	// Source is where blocks come from: a URL, or a node in this process (package indexer/node).
	Source = stream.Source
	// Message is a block, or a notice that blocks of earlier messages have left the chain.
	Message = stream.Message
	// Cursor identifies the last block that a consumer has handled. A stream continues after it.
	Cursor = stream.Cursor
	// Shards selects the shards whose data messages contain.
	Shards = view.ShardFilter
)

// ParseCursor parses the text of Cursor.String.
func ParseCursor(text string) (Cursor, error) { return stream.ParseCursor(text) }

// Errors that end Run, because a retry does not help.
var (
	ErrGone    = stream.ErrGone
	ErrAhead   = stream.ErrAhead
	ErrRefused = stream.ErrRefused
)

// Config configures Run. Only Source is required.
type Config struct {
	Source        Source
	SyncMode      SyncMode
	StreamingMode StreamingMode
	Finality      Finality
	Shards        *Shards // nil: all shards that the node tracks
	// OnTrouble is called with the reason of each pause before Run retries. nil: not called.
	OnTrouble func(error)
}

// SyncMode determines the first block of a stream.
type SyncMode struct {
	after *Cursor
	from  *primitives.Height
}

// LatestSynced starts with the last block of the requested finality. LatestSynced is the default
// SyncMode.
var LatestSynced = SyncMode{}

// FromInterruption continues after the cursor that the consumer stored last. If after is nil, none
// was stored: the stream then starts like LatestSynced, or at the height given by Or.
func FromInterruption(after *Cursor) SyncMode { return SyncMode{after: after} }

// Or returns the mode with the first height for a consumer that has not stored a cursor.
func (m SyncMode) Or(h primitives.Height) SyncMode {
	if m.after == nil {
		m.from = &h
	}
	return m
}

// BlockHeight starts with the first block at height h or above.
func BlockHeight(h primitives.Height) SyncMode { return SyncMode{from: &h} }

// The names of the modes in config.json and on the command line.
const (
	nameLatest       = "LatestSynced"
	nameInterruption = "FromInterruption"
	nameHeight       = "BlockHeight"
)

// ParseSyncMode parses LatestSynced, FromInterruption, BlockHeight=17, or FromInterruption=17,
// which starts at 17 if nothing is stored. after is the stored cursor; nil: none.
func ParseSyncMode(text string, after *Cursor) (SyncMode, error) {
	name, height, isHeight := strings.Cut(text, "=")
	n, err := strconv.ParseUint(height, 10, 64)
	switch {
	case name == nameInterruption && isHeight && err == nil:
		return FromInterruption(after).Or(primitives.Height(n)), nil
	case text == nameLatest:
		return LatestSynced, nil
	case text == nameInterruption:
		return FromInterruption(after), nil
	case name == nameHeight && isHeight && err == nil:
		return BlockHeight(primitives.Height(n)), nil
	}
	return SyncMode{}, fmt.Errorf("sync mode %.40q is unknown: use %s, %s, %[3]s=HEIGHT or %s=HEIGHT",
		text, nameLatest, nameInterruption, nameHeight)
}

// StreamingMode determines when the stream starts.
type StreamingMode int

// The streaming modes.
const (
	StreamWhileSyncing StreamingMode = iota // start at once
	WaitForFullSync                         // start when the node has caught up with its network
)

var streamingNames = []string{"StreamWhileSyncing", "WaitForFullSync"}

func (m StreamingMode) String() string { return streamingNames[m] }

// ParseStreamingMode parses the name of a mode.
func ParseStreamingMode(text string) (StreamingMode, error) {
	i, err := named("streaming mode", text, streamingNames)
	return StreamingMode(i), err
}

// Finality is the finality that a block must have before its message is delivered.
type Finality int

// The finalities. With None, and with DoomSlug if block producers equivocate, blocks can leave the
// chain again: see Message.Skipped.
const (
	Final Finality = iota
	DoomSlug
	None
)

var finalityNames = []string{"Final", "DoomSlug", "None"}

func (f Finality) String() string { return finalityNames[f] }

// ParseFinality parses the name of a finality.
func ParseFinality(text string) (Finality, error) {
	i, err := named("finality", text, finalityNames)
	return Finality(i), err
}

var finalityRefs = []view.RefKind{view.RefFinal, view.RefNearFinal, view.RefOptimistic}

func named(what, text string, names []string) (int, error) {
	for i, name := range names {
		if text == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%.40q is not a valid %s: use %s", text, what, strings.Join(names, ", "))
}

func (c *Config) query() *stream.Query {
	return &stream.Query{Finality: finalityRefs[c.Finality], After: c.SyncMode.after, From: c.SyncMode.from,
		Shards: c.Shards, Synced: c.StreamingMode == WaitForFullSync}
}

// BlockHeader has the header fields of a message that most consumers need.
type BlockHeader struct {
	Height primitives.Height
	Hash   primitives.Hash
}
