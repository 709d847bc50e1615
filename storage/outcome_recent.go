package storage

import (
	"encoding/binary"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// recentOutcomes are the places of the outcomes of the blocks that were folded last: who has waited for a transaction asks for it just when its block
// leaves the tree. In the index it would lie among those of the whole chain, whose look-ups become slower as the chain grows. What is here may be
// misses, as two ids may begin alike: who finds something holds it to the id, and asks the index if it is not that. Of the folded blocks from some height on
// nothing is left out, so that who knows that an id is of no block below need not look for what is not there.
type recentOutcomes struct {
	mu   sync.Mutex
	at   map[uint64]recentPlace // by first bytes of an id
	ids  []uint64               // of at, the oldest at next once it is full
	next int
	from primitives.Height // all is here from this height on; of no meaning where at is nil
}

type recentPlace struct {
	height primitives.Height
	shard  primitives.ShardID
	index  int32
}

// recentIDs is how many are kept: some seconds of a busy chain, in 4 MiB.
const recentIDs = 1 << 16

// add takes up a block that is in the index now; the one before it was the last.
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

// covers tells whether all outcomes of the folded blocks from a height on are here.
func (l *recentOutcomes) covers(from primitives.Height) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at != nil && from >= l.from
}

// clear forgets all.
func (l *recentOutcomes) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.ids, l.next = nil, nil, 0
}

// outcomeRows yields the pointers to outcomes with an id that is of no block below a height: what was folded lately, then the index.
func (s *Store) outcomeRows(from primitives.Height) pointerRows {
	return func(id primitives.Hash, yield func(pointer) (bool, error)) error {
		p, ok := s.recent.find(id)
		if ok {
			if more, err := yield(p); err != nil || !more {
				return err
			}
		} else if s.recent.covers(from) {
			return nil
		}
		return s.inBuckets(places)(id, yield)
	}
}
