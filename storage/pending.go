package storage

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// pendingBlock is a block above the folded one, of any branch, or the folded one itself. The index knows nothing of it.
type pendingBlock struct {
	ref, prev BlockRef
	// parent is nil behind the folded block: a fold cuts it, so that what is folded goes.
	parent   atomic.Pointer[pendingBlock]
	children []*pendingBlock // under commitMu
	entry    *entry
	shards   []pendingShard
	keys     []pendingKey // of all shards, ascending by flat key
	puts     *Batch       // rows of the engine's; nil: none
	bytes    int          // of keys and values
	// count and sum are the number of blocks and their bytes from some block on, which is the same for all: what lies between two of one
	// branch is a difference.
	count, sum int
}

type pendingShard struct {
	id       primitives.ShardID
	chunk    *primitives.Hash
	outcomes []primitives.Hash
	txs      []looseTx
	receipts []primitives.Hash // outgoing, then local
	outgoing int               // how many of them are outgoing
	changes  []Change
}

// looseTx is a transaction of a chunk that has no outcome.
type looseTx struct {
	hash  primitives.Hash
	index int
}

type pendingKey struct {
	flat   string
	shard  primitives.ShardID
	item   int
	change *Change
}

// place is where an id stands in a pending block: the position in a list of the shard with that number. list is kindChunk,
// kindOutcomes, kindTransactions (those without an outcome) or kindOutgoing (all receipts).
type place struct {
	list  kind
	shard int32
	index int32
}

// found is the same as others know it.
type found struct {
	kind  kind
	shard primitives.ShardID
	index int
}

func newPending(e *entry, b *Block, parent *pendingBlock) *pendingBlock {
	p := &pendingBlock{ref: b.Ref, prev: b.Prev, entry: e, shards: make([]pendingShard, len(b.Shards))}
	if b.Puts != nil && b.Puts.Len() > 0 {
		p.puts = b.Puts
	}
	for i := range b.Shards {
		s, out := &b.Shards[i], &p.shards[i]
		out.id, out.changes = s.ID, s.Changes
		out.outcomes = make([]primitives.Hash, len(s.Outcomes))
		executed := make(map[primitives.Hash]bool, len(s.Outcomes))
		for j := range s.Outcomes {
			out.outcomes[j] = s.Outcomes[j].ID
			executed[s.Outcomes[j].ID] = true
		}
		if s.Chunk != nil {
			out.chunk = &s.Chunk.Hash
			for j := range s.Chunk.Transactions {
				if h := s.Chunk.Transactions[j].Hash; !executed[h] {
					out.txs = append(out.txs, looseTx{h, j})
				}
			}
		}
		out.outgoing = len(s.Outgoing)
		out.receipts = make([]primitives.Hash, 0, len(s.Outgoing)+len(s.Local))
		for j := range s.Outgoing {
			out.receipts = append(out.receipts, s.Outgoing[j].ID)
		}
		for j := range s.Local {
			out.receipts = append(out.receipts, s.Local[j].ID)
		}
	}
	p.sortKeys()
	p.follow(parent)
	return p
}

// follow puts the block behind its parent; nil: there is none.
func (p *pendingBlock) follow(parent *pendingBlock) {
	p.count, p.sum = 1, p.bytes
	if parent != nil {
		p.count, p.sum = parent.count+1, parent.sum+p.bytes
		p.parent.Store(parent)
	}
}

func (p *pendingBlock) sortKeys() {
	n := 0
	for i := range p.shards {
		n += len(p.shards[i].changes)
	}
	p.keys = make([]pendingKey, 0, n)
	for i := range p.shards {
		s := &p.shards[i]
		for j := range s.changes {
			c := &s.changes[j]
			p.keys = append(p.keys, pendingKey{flatKey(s.id, c.Key), s.id, j, c})
			p.bytes += len(c.Key) + len(c.Old) + len(c.Last())
		}
	}
	if len(p.shards) > 1 || slices.ContainsFunc(p.keys, func(k pendingKey) bool { return shardBound(k.flat[0]) }) {
		slices.SortFunc(p.keys, func(a, b pendingKey) int { return strings.Compare(a.flat, b.flat) })
	}
}

// change returns what the block did to a flat key.
func (p *pendingBlock) change(flat string) *Change {
	i, ok := slices.BinarySearchFunc(p.keys, flat, func(k pendingKey, f string) int { return strings.Compare(k.flat, f) })
	if !ok {
		return nil
	}
	return p.keys[i].change
}

// rangeKeys returns the changed keys in [lo, hi); hi empty: to the end.
func (p *pendingBlock) rangeKeys(lo, hi string) []pendingKey {
	at := func(f string) int {
		i, _ := slices.BinarySearchFunc(p.keys, f, func(k pendingKey, f string) int { return strings.Compare(k.flat, f) })
		return i
	}
	if hi == "" {
		return p.keys[at(lo):]
	}
	return p.keys[at(lo):max(at(lo), at(hi))]
}

// eachID calls f for all ids of the block.
func (p *pendingBlock) eachID(f func(id *primitives.Hash, at place)) {
	for i := range p.shards {
		s := &p.shards[i]
		if s.chunk != nil {
			f(s.chunk, place{kindChunk, int32(i), 0})
		}
		for j := range s.outcomes {
			f(&s.outcomes[j], place{kindOutcomes, int32(i), int32(j)})
		}
		for j := range s.txs {
			f(&s.txs[j].hash, place{kindTransactions, int32(i), int32(j)})
		}
		for j := range s.receipts {
			f(&s.receipts[j], place{kindOutgoing, int32(i), int32(j)})
		}
	}
}

// id returns what stands at a place.
func (p *pendingBlock) id(at place) primitives.Hash {
	s := &p.shards[at.shard]
	switch at.list {
	case kindChunk:
		return *s.chunk
	case kindOutcomes:
		return s.outcomes[at.index]
	case kindTransactions:
		return s.txs[at.index].hash
	default:
		return s.receipts[at.index]
	}
}

func (p *pendingBlock) found(at place) found {
	s, n := &p.shards[at.shard], int(at.index)
	switch {
	case at.list == kindTransactions:
		return found{kindTransactions, s.id, s.txs[n].index}
	case at.list == kindOutgoing && n >= s.outgoing:
		return found{kindLocal, s.id, n - s.outgoing}
	}
	return found{at.list, s.id, n}
}

// loadPending reads a block from its record.
func (s *Store) loadPending(e *entry) (*pendingBlock, error) {
	r := &Record{s: s, e: e}
	p := &pendingBlock{ref: e.head.Ref, prev: e.head.Prev, entry: e, shards: make([]pendingShard, len(e.head.Shards))}
	for i := range e.head.Shards {
		sh, out := &e.head.Shards[i], &p.shards[i]
		out.id = sh.ID
		var err error
		if out.outcomes, err = r.OutcomeIDs(sh.ID); err != nil {
			return nil, err
		}
		if sh.HasChunk {
			out.chunk = &sh.Chunk
			err := r.transactions(sh.ID, func(j int, t Transaction, outcome int) {
				if outcome < 0 {
					out.txs = append(out.txs, looseTx{t.Hash, j})
				}
			})
			if err != nil {
				return nil, err
			}
		}
		outgoing, err := r.Outgoing(sh.ID)
		if err != nil {
			return nil, err
		}
		local, err := r.Local(sh.ID)
		if err != nil {
			return nil, err
		}
		out.outgoing = len(outgoing)
		for _, receipt := range append(outgoing, local...) {
			out.receipts = append(out.receipts, receipt.ID)
		}
		if out.changes, err = r.Changes(sh.ID); err != nil {
			return nil, err
		}
	}
	raw, err := r.one(kindPuts, 0)
	switch {
	case err == nil:
		p.puts, err = parseBatch(raw)
	case isAbsent(err):
		err = nil
	}
	if err != nil {
		return nil, err
	}
	p.sortKeys()
	return p, nil
}
