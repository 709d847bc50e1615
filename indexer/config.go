package indexer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// What a feed is made of is declared in package stream, which a node has too.
type (
	// Source is where blocks come from.
	Source = stream.Source
	// Message is a block, or tells of blocks that are no part of the chain any more.
	Message = stream.Message
	// Cursor names a block, and the place behind it.
	Cursor = stream.Cursor
	// Shards says which shards are shown.
	Shards = view.ShardFilter
)

// ParseCursor reads what Cursor.String writes.
func ParseCursor(text string) (Cursor, error) { return stream.ParseCursor(text) }

// Errors that end Run.
var (
	ErrGone    = stream.ErrGone
	ErrAhead   = stream.ErrAhead
	ErrRefused = stream.ErrRefused
)

// Config says what is streamed. Only the Source has no default.
type Config struct {
	Source        Source
	SyncMode      SyncMode
	StreamingMode StreamingMode
	Finality      Finality
	Shards        *Shards // nil: all that the node holds
	// OnTrouble gets the reason of each pause before Run retries. nil: not reported.
	OnTrouble func(error)
}

// SyncMode says where to begin.
type SyncMode struct {
	after *Cursor
	from  *primitives.Height
}

// LatestSynced begins with the last block that there is, of the finality that is asked for: the
// default.
var LatestSynced = SyncMode{}

// FromInterruption continues after the last message that the consumer has stored. nil: it has
// stored none, and the mode is LatestSynced.
func FromInterruption(after *Cursor) SyncMode { return SyncMode{after: after} }

// Or is where FromInterruption begins while nothing is stored: with the first block at a height or
// above.
func (m SyncMode) Or(h primitives.Height) SyncMode {
	if m.after == nil {
		m.from = &h
	}
	return m
}

// BlockHeight begins with the first block at a height or above.
func BlockHeight(h primitives.Height) SyncMode { return SyncMode{from: &h} }

// The names of the modes in config.json and on the command line.
const (
	nameLatest       = "LatestSynced"
	nameInterruption = "FromInterruption"
	nameHeight       = "BlockHeight"
)

// ParseSyncMode reads LatestSynced, FromInterruption, BlockHeight=17, or FromInterruption=17, which
// begins at 17 while nothing is stored; after is what a consumer has stored.
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
	return SyncMode{}, fmt.Errorf("sync mode %.40q is unknown: use %s, %s, %[3]s=17 or %s=17", text, nameLatest, nameInterruption, nameHeight)
}

// StreamingMode says when to begin.
type StreamingMode int

// The streaming modes.
const (
	StreamWhileSyncing StreamingMode = iota // at once
	WaitForFullSync                         // when the node has caught up with its network
)

var streamingNames = []string{"StreamWhileSyncing", "WaitForFullSync"}

func (m StreamingMode) String() string { return streamingNames[m] }

// ParseStreamingMode reads the name of one.
func ParseStreamingMode(text string) (StreamingMode, error) {
	i, err := named("streaming mode", text, streamingNames)
	return StreamingMode(i), err
}

// Finality says how final a block must be.
type Finality int

// The finalities. With None and, should block producers be slashed, DoomSlug a block may turn out
// to be no part of the chain: Message.Skipped.
const (
	Final Finality = iota
	DoomSlug
	None
)

var finalityNames = []string{"Final", "DoomSlug", "None"}

func (f Finality) String() string { return finalityNames[f] }

// ParseFinality reads the name of one.
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
	return &stream.Query{Finality: finalityRefs[c.Finality], After: c.SyncMode.after, From: c.SyncMode.from, Shards: c.Shards, Synced: c.StreamingMode == WaitForFullSync}
}

// BlockHeader is what most consumers look at of a message's block first.
type BlockHeader struct {
	Height primitives.Height
	Hash   primitives.Hash
}
