package vm

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// UsageBounds are the upper bounds of the buckets of Durations (nearcore
// runtime/near-vm-runner/src/metrics.rs).
var UsageBounds = [...]time.Duration{25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}

// Durations are a histogram of durations. Counts are not cumulative; the last one is for durations
// above all UsageBounds.
type Durations struct {
	Counts [len(UsageBounds) + 1]uint64
	Sum    time.Duration
}

// Purpose is why a contract is called.
type Purpose byte

// The purposes (nearcore core/primitives-core/src/apply.rs ApplyChunkReason).
const (
	PurposeUpdate   Purpose = iota // a chunk is applied
	PurposeValidate                // a chunk is applied to check a witness
	PurposeView                    // views and simulations
	Purposes
)

// String returns nearcore's label of the purpose.
func (p Purpose) String() string {
	return [Purposes]string{"update_shard", "validate_chunk", "view_shard"}[p]
}

// ShardUsage measures the contracts of one shard since the VM was made.
type ShardUsage struct {
	Shard     primitives.ShardID
	Execution Durations // calls, without looking up and compiling their code
	// Compilation is preparation and compilation, without the wait for a compiler. Code that other
	// validators announce is not in it.
	Compilation   Durations
	Lookups, Hits [Purposes]uint64 // lookups of code for calls, and how many of them compiled nothing
}

// durations is the counting side of Durations.
type durations struct {
	counts [len(UsageBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (d *durations) add(took time.Duration) {
	i := 0
	for i < len(UsageBounds) && took > UsageBounds[i] {
		i++
	}
	d.counts[i].Add(1)
	d.sum.Add(int64(took))
}

func (d *durations) read() (out Durations) {
	for i := range d.counts {
		out.Counts[i] = d.counts[i].Load()
	}
	out.Sum = time.Duration(d.sum.Load())
	return out
}

type shardUsage struct {
	execution, compilation durations
	lookups, hits          [Purposes]atomic.Uint64
}

// usage counts by shard. A call costs two reads of the clock and some atomic additions. Safe for
// concurrent use.
type usage struct {
	mu sync.Mutex // held while a shard is added
	of atomic.Pointer[map[primitives.ShardID]*shardUsage]
}

// shard returns the counters of a shard. Shards are those of the chain's layouts, so they are few.
func (u *usage) shard(id primitives.ShardID) *shardUsage {
	if m := u.of.Load(); m != nil {
		if s := (*m)[id]; s != nil {
			return s
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	with := map[primitives.ShardID]*shardUsage{}
	if m := u.of.Load(); m != nil {
		if s := (*m)[id]; s != nil {
			return s
		}
		maps.Copy(with, *m)
	}
	s := new(shardUsage)
	with[id] = s
	u.of.Store(&with)
	return s
}

func (u *usage) executed(id primitives.ShardID, took time.Duration) { u.shard(id).execution.add(took) }

func (u *usage) compiled(from action.CodeFrom, took time.Duration) {
	if from.InShard {
		u.shard(from.Shard).compilation.add(took)
	}
}

// looked counts the lookup of a call's code.
func (u *usage) looked(b *action.Block, hit bool) {
	p := PurposeUpdate
	switch {
	case b.Beside:
		p = PurposeView
	case b.Validates:
		p = PurposeValidate
	}
	s := u.shard(b.ShardID)
	s.lookups[p].Add(1)
	if hit {
		s.hits[p].Add(1)
	}
}

// Usage returns the measurements of each shard whose contracts were called or compiled, by id.
func (v *VM) Usage() (out []ShardUsage) {
	m := v.usage.of.Load()
	if m == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(*m)) {
		s := (*m)[id]
		x := ShardUsage{Shard: id, Execution: s.execution.read(), Compilation: s.compilation.read()}
		for p := range s.lookups {
			x.Lookups[p], x.Hits[p] = s.lookups[p].Load(), s.hits[p].Load()
		}
		out = append(out, x)
	}
	return out
}
