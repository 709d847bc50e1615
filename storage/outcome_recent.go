package storage

import (
	"encoding/binary"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// recentOutcomes holds the places of the outcomes of the blocks that the flat head passed last.
//
// Clients that wait for a transaction ask for its outcome just when the transaction's block leaves
// the tree. A lookup in the index would search the outcomes of the whole chain, and become slower
// as the chain grows. A place may be wrong, because two IDs may share their first bytes: a reader
// compares the ID and falls back to the index. No outcome of the blocks at height `from` and above
// is missing here. So if no block below `from` can contain an ID, a lookup need not search the
// index for the ID.
type recentOutcomes struct {
	mu   sync.Mutex
	at   map[uint64]recentPlace // place of an outcome by the first bytes of the outcome's ID
	ids  []uint64               // keys of the map at; once ids has recentIDs keys, ids[next] is the oldest
	next int
	// from is a height: the map at has all outcomes of the blocks at this height and above. from is
	// meaningless if the map is nil.
	from primitives.Height
}

type recentPlace struct {
	height primitives.Height
	shard  primitives.ShardID
	index  int32
}

// recentIDs is the number of places that are kept: some seconds of a busy chain, in 4 MiB.
const recentIDs = 1 << 16

// add adds a block that is in the index now. Blocks must be added in the order of the chain.
func (l *recentOutcomes) add(height primitives.Height, d *body) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at, l.from = map[uint64]recentPlace{}, height
	}
	for i := range d.shards {
		s := &d.shards[i]
		for j := range s.outcomes {
			key := binary.LittleEndian.Uint64(s.outcomes[j][:])
			if _, ok := l.at[key]; !ok {
				if len(l.ids) < recentIDs {
					l.ids = append(l.ids, key)
				} else {
					l.from = max(l.from, l.at[l.ids[l.next]].height+1)
					delete(l.at, l.ids[l.next])
					l.ids[l.next] = key
					l.next = (l.next + 1) % recentIDs
				}
			}
			l.at[key] = recentPlace{height, s.id, int32(j)}
		}
	}
}

func (l *recentOutcomes) find(id primitives.Hash) (pointer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.at[binary.LittleEndian.Uint64(id[:])]
	return pointer{id, p.height, p.shard, int(p.index)}, ok
}

// covers returns whether l has all outcomes of the blocks from a height up to the flat head.
func (l *recentOutcomes) covers(from primitives.Height) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at != nil && from >= l.from
}

// clear removes everything.
func (l *recentOutcomes) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.ids, l.next = nil, nil, 0
}

// outcomeRows returns the pointers to the outcomes of an ID that no block below the height `from`
// can contain. Pointers to recent blocks come first, from memory, then the pointers in the index.
func (f Finder) outcomeRows(from primitives.Height) pointerRows {
	return func(id primitives.Hash, yield func(pointer) (bool, error)) error {
		p, ok := f.s.recent.find(id)
		if ok {
			if more, err := yield(p); err != nil || !more {
				return err
			}
		} else if f.s.recent.covers(from) {
			return nil
		}
		return f.inBuckets(places)(id, yield)
	}
}
