package view

import (
	"maps"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// SandboxError is why a node does not do what a sandbox method asks.
type SandboxError struct{ Reason string }

func (e *SandboxError) Error() string { return "sandbox: " + e.Reason }

// Snapshot is a block that a sandbox can revert to.
type Snapshot struct {
	ID string
	At
}

// AppendJSON appends the object.
func (s *Snapshot) AppendJSON(b []byte) []byte {
	b = AppendString(append(b, `{"id":`...), s.ID)
	return s.At.AppendMembers(append(b, ','))
}

// AppendMembers appends "hash" and "height", and ends the object.
func (a *At) AppendMembers(b []byte) []byte {
	b = AppendString(append(b, `"hash":`...), a.Hash.String())
	return append(strconv.AppendUint(append(b, `,"height":`...), uint64(a.Height), 10), '}')
}

// SetClock is a change of a sandbox's clock; nil fields stay as they are. Times in ns since 1970.
type SetClock struct {
	Time, Next, Interval *uint64
	Advance              uint64 // ns by which the clock is advanced
	Frozen               *bool
}

// Clock is the state of a sandbox's clock. Times in ns since 1970.
type Clock struct {
	Time           uint64
	Frozen         bool
	Next, Interval uint64 // Next: timestamp of the next block; Interval: ns between blocks; 0: not set
}

// AppendJSON appends the object; times are decimal strings, as nearcore's timestamp_nanosec.
func (c *Clock) AppendJSON(b []byte) []byte {
	decimal := func(key string, n uint64) {
		b = append(append(b, key...), '"')
		b = append(strconv.AppendUint(b, n, 10), '"')
	}
	b = strconv.AppendBool(append(b, `{"frozen":`...), c.Frozen)
	decimal(`,"interval_nanosec":`, c.Interval)
	decimal(`,"next_timestamp_nanosec":`, c.Next)
	decimal(`,"timestamp_nanosec":`, c.Time)
	return append(b, '}')
}

// SetProduction sets when blocks are made; nil fields stay as they are.
type SetProduction struct {
	Mode     *string
	Quiet    *bool
	Interval *uint64 // ns between blocks if no transaction waits
}

// Production is when blocks are made.
type Production struct {
	Mode     string // instant, interval or manual
	Quiet    bool   // make a block only if a transaction or a request needs it
	Interval uint64 // ns between blocks if no transaction waits
}

// AppendJSON appends the object.
func (p *Production) AppendJSON(b []byte) []byte {
	b = strconv.AppendUint(append(b, `{"interval_nanosec":"`...), p.Interval, 10)
	b = AppendString(append(b, `","mode":`...), p.Mode)
	return append(strconv.AppendBool(append(b, `,"quiet":`...), p.Quiet), '}')
}

// Tag is a name that groups transactions.
type Tag struct {
	Name         string
	Transactions int
	Omitted      uint64 // number of transactions that were dropped because there were too many
	Open         bool   // transactions submitted from now on are added to this block
}

// MissChunks makes the next blocks lack new chunks of shards.
type MissChunks struct {
	Shards []primitives.ShardID // shards that get no new chunks; nil: all shards
	Blocks uint64               // number of next blocks without these chunks; 0: stop leaving out chunks
}

// ChunksMissed has, for each shard, the number of further blocks without a new chunk.
type ChunksMissed map[primitives.ShardID]uint64

// AppendJSON appends the object, by shard.
func (m ChunksMissed) AppendJSON(b []byte) []byte {
	b = append(b, `{"blocks_left":{`...)
	for i, id := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, '"'), uint64(id), 10)
		b = strconv.AppendUint(append(b, `":`...), m[id], 10)
	}
	return append(b, `}}`...)
}

// Reorganised is the result of a reorganisation.
type Reorganised struct {
	At        // the new head
	Gone []At // blocks that left the chain, newest first
}

// AppendJSON appends the object.
func (r *Reorganised) AppendJSON(b []byte) []byte {
	b = append(b, `{"reverted":[`...)
	for i := range r.Gone {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.Gone[i].AppendMembers(append(b, '{'))
	}
	return r.At.AppendMembers(append(b, `],`...))
}

// Mine is how many blocks to make: a number, or until a transaction and all receipts that follow
// from it have been executed.
type Mine struct {
	Blocks uint64
	Until  *primitives.Hash
}

// ForkControl changes accounts of a fork.
type ForkControl struct{ Reset, Cut, Live []primitives.AccountID }

// Fork describes the chain that a fork continues, and counts the queries to the remote node.
type Fork struct {
	URL     string
	ChainID string
	At      // the pinned block
	// Live are accounts whose state follows the remote chain. LiveAt is the block from which it is
	// read. Cut are accounts whose state is not read from the remote chain.
	Live, Cut []primitives.AccountID
	LiveAt    *At

	Proven, Unproven                            uint64 // number of answers with and without a verified proof
	Memory, Disk                                uint64 // number of answers from the caches in memory and on disk
	Requests, Retries, Failures, Refused, Bytes uint64
	LastError                                   string
}

// AppendJSON appends the object.
func (f *Fork) AppendJSON(b []byte) []byte {
	accounts := func(name string, list []primitives.AccountID) {
		b = append(b, name...)
		b = appendList(b, list, func(b []byte, a *primitives.AccountID) []byte { return AppendAccountID(b, *a) })
	}
	count := func(name string, n uint64) { b = strconv.AppendUint(append(b, name...), n, 10) }
	b = AppendString(append(b, `{"url":`...), f.URL)
	b = AppendString(append(b, `,"chain_id":`...), f.ChainID)
	b = append(appendAt(append(b, ','), &f.At), `,"answers":{`...)
	count(`"proven":`, f.Proven)
	count(`,"unproven":`, f.Unproven)
	count(`,"from_memory":`, f.Memory)
	count(`,"from_disk":`, f.Disk)
	count(`},"requests":`, f.Requests)
	count(`,"retries":`, f.Retries)
	count(`,"failures":`, f.Failures)
	count(`,"refused":`, f.Refused)
	count(`,"bytes":`, f.Bytes)
	accounts(`,"cut":`, f.Cut)
	accounts(`,"live":`, f.Live)
	b = append(b, `,"live_at":`...)
	if f.LiveAt == nil {
		b = append(b, "null"...)
	} else {
		b = append(appendAt(append(b, '{'), f.LiveAt), '}')
	}
	b = append(b, `,"last_error":`...)
	if f.LastError == "" {
		return append(b, "null}"...)
	}
	return append(AppendString(b, f.LastError), '}')
}

// NewWorld has the options of a new world.
type NewWorld struct {
	Snapshot string // snapshot from which the world begins; empty: the head
	Quiet    *bool  // value of Production.Quiet in the world; nil: the value of the parent world
	Port     bool   // the world also listens on its own port
}

// World is a chain that continues from a block of another chain, its parent, in the same process.
type World struct {
	ID     string
	Parent string // name of the parent world; empty: the parent is the node's own chain
	Begin  At     // block after which the world begins
	Head   At
	Addr   string // address of the world's own port; empty: the world has none
	Bytes  uint64 // approximate memory of the world in bytes
}

// AppendJSON appends the object.
func (w *World) AppendJSON(b []byte) []byte {
	b = AppendString(append(b, `{"id":`...), w.ID)
	b = AppendString(append(b, `,"path":`...), "/world/"+w.ID)
	optional := func(key, value string) {
		if b = append(b, key...); value == "" {
			b = append(b, "null"...)
			return
		}
		b = AppendString(b, value)
	}
	optional(`,"addr":`, w.Addr)
	optional(`,"parent":`, w.Parent)
	b = w.Begin.AppendMembers(append(b, `,"begin":{`...))
	b = strconv.AppendUint(append(b, `,"bytes":`...), w.Bytes, 10)
	return w.Head.AppendMembers(append(b, ','))
}
