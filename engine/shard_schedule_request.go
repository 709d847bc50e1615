package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ask runs question on its own goroutine. One of the next calls of Step runs the answer that
// question returns. If question panics, its answer is to do nothing, so that Step asks again.
func (s *Schedule) ask(c *catchup, question func(context.Context) answer) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	asked := make(chan answer, 1)
	c.reply = asked
	s.asking.Add(1)
	run := func() {
		defer s.asking.Done()
		defer cancel()
		reply := doNothing
		defer func() { asked <- reply }()
		reply = question(ctx)
	}
	if s.Go != nil {
		s.Go(run)
	} else {
		go run()
	}
}

func doNothing() {}

func (s *Schedule) askHeader(c *catchup) {
	point := c.point.Hash
	s.ask(c, func(ctx context.Context) answer {
		h, err := s.source.State(ctx, point, c.id)
		if err != nil {
			return doNothing
		}
		total := uint64(0)
		if h.Chunk == nil {
			err = fmt.Errorf("%w: the peer's state header of shard %d has no chunk", ErrChunk, c.id)
		} else {
			total, err = h.Parts()
		}
		if err != nil {
			s.source.Refused(point, c.id, err)
			return doNothing
		}
		return func() { c.header, c.total = h, total }
	})
}

// fetchParts requests the missing parts of a shard's state. If all parts are stored, fetchParts
// calls Enter.
func (s *Schedule) fetchParts(c *catchup) error {
	has, err := c.session.Has()
	if err != nil {
		return err
	}
	if uint64(len(has)) >= c.total {
		if err := c.session.Enter(c.total); err != nil && !errors.Is(err, ErrNotYet) {
			return err
		}
		return nil
	}
	c.received.Store(uint64(len(has)))
	point, j, total := c.point.Hash, c.session, c.total
	s.ask(c, func(ctx context.Context) answer {
		parallel.Until(int(total), s.Parallel, func(i int) bool {
			k := uint64(i)
			if slices.Contains(has, k) {
				return true
			}
			id := trie.PartID{Index: k, Total: total}
			if s.source.Part(ctx, point, c.id, id, func(part [][]byte) error { return j.Part(id, part) }) != nil {
				return false
			}
			c.received.Add(1)
			return true
		})
		return doNothing // stored parts are kept; the next step requests the missing parts
	})
	return nil
}

// askBelowFlatHead requests the chunks of the block `at` and its descendants up to the flat head,
// at most catchUpBlocks blocks.
func (s *Schedule) askBelowFlatHead(c *catchup, at storage.BlockRef) error {
	folded := s.e.store.Tip().FlatHead.Height
	list := []primitives.Hash{at.Hash}
	for h := at.Height + 1; h <= folded && len(list) < catchUpBlocks; h = at.Height + 1 {
		var err error
		if at, err = s.e.store.NextBlock(h); err != nil {
			return err
		}
		list = append(list, at.Hash)
	}
	s.askChunks(c, list)
	return nil
}

func (s *Schedule) askChunks(c *catchup, blocks []primitives.Hash) {
	s.ask(c, func(ctx context.Context) answer {
		got := map[primitives.Hash][]*primitives.Chunk{}
		var mu sync.Mutex
		parallel.Until(len(blocks), s.Parallel, func(k int) bool {
			chunks, err := s.source.Chunks(ctx, blocks[k], c.id)
			if err != nil {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			got[blocks[k]] = chunks
			return true
		})
		return func() { maps.Copy(c.chunks, got) }
	})
}
