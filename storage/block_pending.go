package storage

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// pendingBlock is the flat head's block, or a block above the flat head on any branch.
type pendingBlock struct {
	ref, prev BlockRef
	// parent is nil for the flat head's block: an advance of the flat head clears the pointer, so
	// that the blocks below the flat head can be freed.
	parent     atomic.Pointer[pendingBlock]
	children   []*pendingBlock // child blocks; guarded by Store.commitMu
	entry      *entry
	body       atomic.Pointer[body] // changes and ids of the block; nil: only in the log (see block_evict.go)
	evictedNum uint32               // number of the block in tree.evicted; guarded by tree.mu
	split      *pendingBlock        // this block or its nearest ancestor in which a shard is split; nil: none
	puts       *Batch               // rows of the engine that are written with the block; nil: none
	bytes      int                  // size in bytes of the keys and values that the block changed
	// count and sum are running totals along a branch, up to and including this block: the number
	// of blocks, and the bytes of their changes. The totals start at an arbitrary block, so only
	// the difference of the totals of two blocks of one branch has a meaning.
	count, sum int
}

// body is the part of a block that is searched by ID or key.
type body struct {
	shards []pendingShard
	keys   []pendingKey // keys that the block changed in all shards, ascending by flat key
}

type pendingShard struct {
	id       primitives.ShardID
	chunk    *primitives.Hash
	outcomes []primitives.Hash
	txs      []looseTx
	// receipts are the IDs of the outgoing receipts, then of the local receipts, of the delayed
	// receipts, and of the receipts with a stored origin. upTo holds the end of each part except
	// the last.
	receipts []primitives.Hash
	upTo     [len(receiptKinds) - 1]int
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

// receiptKinds are the parts of pendingShard.receipts, in order.
var receiptKinds = [...]kind{kindOutgoing, kindLocal, kindDelayed, kindOrigins}

// setReceipts fills in the IDs of the four parts.
func (s *pendingShard) setReceipts(outgoing, local, delayed []Receipt, origins []Origin) {
	s.receipts = make([]primitives.Hash, 0, len(outgoing)+len(local)+len(delayed)+len(origins))
	for i, list := range [...][]Receipt{outgoing, local, delayed} {
		for j := range list {
			s.receipts = append(s.receipts, list[j].ID)
		}
		s.upTo[i] = len(s.receipts)
	}
	for _, o := range origins {
		s.receipts = append(s.receipts, o.Receipt)
	}
}

// receiptAt returns the kind of the list that has the n-th receipt, and the receipt's index in that
// list.
func (s *pendingShard) receiptAt(n int) (k kind, index int) {
	from := 0
	for i, end := range s.upTo {
		if n < end {
			return receiptKinds[i], n - from
		}
		from = end
	}
	return kindOrigins, n - from
}

// place is the position of an ID in a pending block. shard is an index into body.shards, and index
// an element of the list. list is kindChunk, kindOutcomes, kindTransactions (transactions without
// an outcome) or kindOutgoing (all of pendingShard.receipts).
type place struct {
	list  kind
	shard int32
	index int32
}

// found is a place in terms of the block's record: section kind, shard ID and item index.
type found struct {
	kind  kind
	shard primitives.ShardID
	index int
}

func newPending(e *entry, b *Block, parent *pendingBlock) *pendingBlock {
	p := &pendingBlock{ref: b.Ref, prev: b.Prev, entry: e}
	if b.Puts != nil && b.Puts.Len() > 0 {
		// Do not keep the scratch memory of the batch.
		p.puts = &Batch{b: b.Puts.b, n: b.Puts.n}
	}
	d := &body{shards: make([]pendingShard, len(b.Shards))}
	for i := range b.Shards {
		s, out := &b.Shards[i], &d.shards[i]
		out.id, out.changes = s.ID, s.Changes
		out.outcomes = make([]primitives.Hash, len(s.Outcomes))
		executed := make(map[primitives.Hash]bool, len(s.Outcomes))
		for j := range s.Outcomes {
			out.outcomes[j] = s.Outcomes[j].ID
			executed[s.Outcomes[j].ID] = true
		}
		if s.Chunk != nil {
			// Copy the hash: a pointer into the chunk would keep the chunk's encodings in memory.
			hash := s.Chunk.Hash
			out.chunk = &hash
			for j := range s.Chunk.Transactions {
				if h := s.Chunk.Transactions[j].Hash; !executed[h] {
					out.txs = append(out.txs, looseTx{h, j})
				}
			}
		}
		out.setReceipts(s.Outgoing, s.Local, s.Delayed, s.Origins)
	}
	p.fill(d)
	p.follow(parent)
	return p
}

// fill sets the body of the block.
func (p *pendingBlock) fill(d *body) {
	p.bytes = d.sortKeys()
	p.body.Store(d)
}

// follow links the block to its parent, which may be nil.
func (p *pendingBlock) follow(parent *pendingBlock) {
	p.count, p.sum = 1, p.bytes
	if parent != nil {
		p.count, p.sum = parent.count+1, parent.sum+p.bytes
		p.parent.Store(parent)
		p.split = parent.split
	}
	if len(p.entry.head.Splits) > 0 {
		p.split = p
	}
}

// sortKeys fills in d.keys, sorted, and returns the bytes of keys and values.
func (d *body) sortKeys() (bytes int) {
	n := 0
	for i := range d.shards {
		n += len(d.shards[i].changes)
	}
	d.keys = make([]pendingKey, 0, n)
	for i := range d.shards {
		s := &d.shards[i]
		for j := range s.changes {
			c := &s.changes[j]
			d.keys = append(d.keys, pendingKey{flatKey(s.id, c.Key), s.id, j, c})
			bytes += len(c.Key) + len(c.Old) + len(c.Last())
		}
	}
	if len(d.shards) > 1 || slices.ContainsFunc(d.keys, func(k pendingKey) bool { return shardBound(k.flat[0]) }) {
		slices.SortFunc(d.keys, func(a, b pendingKey) int { return strings.Compare(a.flat, b.flat) })
	}
	return bytes
}

// change returns the block's change of a flat key, or nil if there is none.
func (d *body) change(flat string) *Change {
	i, ok := slices.BinarySearchFunc(d.keys, flat, func(k pendingKey, f string) int { return strings.Compare(k.flat, f) })
	if !ok {
		return nil
	}
	return d.keys[i].change
}

// eachID calls f for all IDs of the block.
func (d *body) eachID(f func(id *primitives.Hash, at place)) {
	for i := range d.shards {
		s := &d.shards[i]
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

// id returns the ID at a place.
func (d *body) id(at place) primitives.Hash {
	s := &d.shards[at.shard]
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

func (d *body) found(at place) found {
	s, n := &d.shards[at.shard], int(at.index)
	switch {
	case at.list == kindTransactions:
		return found{kindTransactions, s.id, s.txs[n].index}
	case at.list == kindOutgoing:
		k, index := s.receiptAt(n)
		return found{k, s.id, index}
	}
	return found{at.list, s.id, n}
}

// loadPending reads a pending block from the block's record.
func (s *Store) loadPending(e *entry) (*pendingBlock, error) {
	r, err := s.whole(e)
	if err != nil {
		return nil, err
	}
	return r.pending()
}

// pending makes a pending block from a record that is in memory.
func (r *Record) pending() (*pendingBlock, error) {
	e := r.e
	d, err := r.body()
	if err != nil {
		return nil, err
	}
	p := &pendingBlock{ref: e.head.Ref, prev: e.head.Prev, entry: e}
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
	p.fill(d)
	return p, nil
}

// body makes a block's body without sorting its keys.
func (r *Record) body() (*body, error) {
	d := &body{shards: make([]pendingShard, len(r.e.head.Shards))}
	for i := range r.e.head.Shards {
		sh, out := &r.e.head.Shards[i], &d.shards[i]
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
		delayed, err := r.Delayed(sh.ID)
		if err != nil {
			return nil, err
		}
		origins, err := r.Origins(sh.ID)
		if err != nil {
			return nil, err
		}
		out.setReceipts(outgoing, local, delayed, origins)
		if out.changes, err = r.Changes(sh.ID); err != nil {
			return nil, err
		}
	}
	return d, nil
}
