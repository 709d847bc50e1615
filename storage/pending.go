package storage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// pendingBlock is a block above the folded one, of any branch. Its changes are in memory: Flat does not have them yet.
type pendingBlock struct {
	ref, prev BlockRef
	entry     *entry
	shards    []pendingShard
	keys      []pendingKey // of all shards, ascending by flat key
	bytes     int          // of keys and values

	once sync.Once
	byID map[primitives.Hash][]found // made at the first look-up
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

// found is where an id of a pending block stands.
type found struct {
	kind  kind
	shard primitives.ShardID
	index int
}

func newPending(e *entry, b *Block) *pendingBlock {
	p := &pendingBlock{ref: b.Ref, prev: b.Prev, entry: e, shards: make([]pendingShard, len(b.Shards))}
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
	return p
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

// find returns where an id stands in the block.
func (p *pendingBlock) find(id primitives.Hash) []found {
	p.once.Do(func() {
		p.byID = map[primitives.Hash][]found{}
		add := func(id primitives.Hash, f found) { p.byID[id] = append(p.byID[id], f) }
		for i := range p.shards {
			s := &p.shards[i]
			if s.chunk != nil {
				add(*s.chunk, found{kindChunk, s.id, 0})
			}
			for j, id := range s.outcomes {
				add(id, found{kindOutcomes, s.id, j})
			}
			for _, t := range s.txs {
				add(t.hash, found{kindTransactions, s.id, t.index})
			}
			for j, id := range s.receipts {
				if j < s.outgoing {
					add(id, found{kindOutgoing, s.id, j})
				} else {
					add(id, found{kindLocal, s.id, j - s.outgoing})
				}
			}
		}
	})
	return p.byID[id]
}

// restorePending loads the blocks above the folded one, while the store opens. Entries that do not descend from the folded
// block are leftovers of a crash between a fold and the end of a commit; they are removed.
func (s *Store) restorePending() error {
	v := *s.view.Load()
	v.pending = map[primitives.Hash]*pendingBlock{}
	base, err := s.entry(v.folded)
	if err == nil {
		v.base, err = s.loadPending(base)
	}
	if err != nil {
		return err
	}
	var all []entry
	err = entries.Scan(s.db, appendHeight(nil, v.folded.Height+1), nil, func(_ []byte, e entry) bool {
		all = append(all, e)
		return true
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.head.Ref.Height, b.head.Ref.Height) })
	var batch Batch
	for i := range all {
		e := &all[i]
		if e.head.Prev != v.folded && v.pending[e.head.Prev.Hash] == nil {
			forget(&batch, &e.head, nil)
			continue
		}
		p, err := s.loadPending(e)
		if err != nil {
			return fmt.Errorf("block %v: %w", e.head.Ref, err)
		}
		v.pending[p.ref.Hash] = p
	}
	if v.head != v.folded && v.pending[v.head.Hash] == nil {
		return damaged("head %v is not in the index", v.head)
	}
	if batch.Len() > 0 {
		if err := s.db.write(&batch, false); err != nil {
			return err
		}
	}
	s.view.Store(&v)
	return nil
}

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
	p.sortKeys()
	return p, nil
}

// forget removes what the index says about a block because of its record. kept tells whether another block of the same
// height includes the same chunk.
func forget(batch *Batch, h *head, kept func(pointer) bool) {
	entries.Delete(batch, h.Ref)
	hashHeights.Delete(batch, shortRef{h.Ref.Hash, h.Ref.Height})
	for i := range h.Shards {
		sh := &h.Shards[i]
		if p := (pointer{sh.Chunk, h.Ref.Height, sh.ID, 0}); sh.HasChunk && (kept == nil || !kept(p)) {
			chunkPlaces.Delete(batch, p)
		}
	}
}
