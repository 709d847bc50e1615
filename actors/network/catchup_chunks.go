package network

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// chunkFetch fetches the chunks of one block for a shard that is being caught up.
type chunkFetch struct {
	answers    chan *primitives.ChunkResponse
	shard      primitives.ShardID
	block      *engine.BlockNode
	missing    map[primitives.Hash]int   // hash of a chunk that has not arrived -> its index in the block
	holders    [][]primitives.AccountID  // accounts that have the chunk, by index in the block
	nextHolder map[primitives.Hash]int   // hash of a chunk -> index of the next holder to ask
	tries      int                       // number of requests since the last tick
	asked      map[primitives.Hash]int64 // hash of a chunk -> time of its last request in ms
	wait       map[primitives.Hash]int64 // hash of a chunk -> ms to wait before the next holder is asked
	pool       *chunkparts.Pool          // verifies and assembles the parts
}

// maxFetched is the maximum number of queued responses of one fetch. Further responses are dropped,
// and the chunks are requested again.
const maxFetched = 64

// fetchPeriod is the interval between checks for overdue requests. After fetchLimit a fetch fails
// with ErrNotYet, and the engine starts it again.
const (
	fetchPeriod = 200 * time.Millisecond
	fetchLimit  = time.Minute
)

// holderWait is the time in ms that a holder has for its response before this node asks the next
// holder. The wait doubles with each holder, up to maxHolderWait, because the connection may be
// slow.
const (
	holderWait    = 200
	maxHolderWait = 3000
)

// Every ownersEvery-th tick sends requests to the part owners instead of the holders. Between two
// ticks, at most maxHolderTries holders are asked for each chunk.
const (
	ownersEvery    = 4
	maxHolderTries = 4
)

// singleShardView is the view of the chain for a node that tracks one shard and stores nothing.
type singleShardView struct {
	engine.ChunkPartsView
	shard primitives.ShardID
}

// Holds, StoredPartial and Stored implement chunkparts.Chain.
func (o singleShardView) Holds(_ primitives.Hash, shard primitives.ShardID) (bool, error) {
	return shard == o.shard, nil
}

func (o singleShardView) StoredPartial(primitives.Hash) *primitives.PartialChunk { return nil }

func (o singleShardView) Stored(primitives.Hash) *primitives.Chunk { return nil }

// answered passes a chunk parts response to the fetches that need it. answered does not block. Safe
// for concurrent use.
func (s *Shards) answered(r *primitives.ChunkResponse) {
	s.fetchMu.Lock()
	defer s.fetchMu.Unlock()
	for _, f := range s.fetches[r.ChunkHash] {
		select {
		case f.answers <- r:
		default:
		}
	}
}

// Chunks implements engine.PartSource.
func (s *Shards) Chunks(ctx context.Context, block primitives.Hash,
	shard primitives.ShardID) (out []*primitives.Chunk, err error) {
	defer func() {
		if p := recover(); p != nil { // a peer's message caused the panic
			s.o.Status.note("a chunk", p)
			out, err = nil, pause(ctx, engine.ErrNotYet)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	e := s.o.Engine
	x, err := e.Block(block)
	if err != nil {
		return nil, pause(ctx, err)
	}
	out = make([]*primitives.Chunk, len(x.Block.Body.Chunks))
	place := map[primitives.Hash]int{}
	w := chunkparts.Wanted{Ancestor: x.Header().PrevHash}
	for i, h := range x.Block.Body.Chunks {
		if h.HeightIncluded != x.Height() {
			continue
		}
		if c := x.Shards[i].Chunk; h.ShardID != shard && x.Shards[i].Held() && c != nil && c.Proofs == nil {
			continue // the engine already has the whole chunk
		}
		w.Headers = append(w.Headers, h)
		place[h.ChunkHash()] = i
	}
	if len(w.Headers) == 0 {
		return out, nil
	}
	f := &chunkFetch{answers: make(chan *primitives.ChunkResponse, maxFetched), shard: shard, block: x, missing: place,
		nextHolder: map[primitives.Hash]int{},
		asked:      map[primitives.Hash]int64{}, wait: map[primitives.Hash]int64{}}
	if f.holders, err = s.holders(x); err != nil {
		return nil, pause(ctx, err)
	}
	s.enter(f)
	defer s.leave(f)
	f.pool = chunkparts.New("", singleShardView{e.ChunkPartsView(e.FindChunk), shard}, e.Coding(),
		primitives.Signature.Verify, s.o.Random)
	do := func(ev chunkparts.Event) (asks []chunkparts.Ask) {
		got, err := f.pool.Step(s.now(), ev)
		if err != nil {
			s.o.Log.WithError(err).WithField("shard", shard).Debug("network: parts of a chunk dropped")
		}
		for _, c := range got.Complete {
			if i, is := place[c.Chunk.Hash]; is {
				out[i] = c.Chunk
				delete(place, c.Chunk.Hash)
			}
		}
		return got.Ask
	}
	do(w)
	for hash := range place {
		s.askHolder(f, hash)
	}
	tick := time.NewTicker(fetchPeriod)
	defer tick.Stop()
	for n := 1; len(place) > 0; {
		select {
		case <-ctx.Done():
			return nil, engine.ErrNotYet
		case r := <-f.answers:
			before := len(place)
			if len(r.Parts)+len(r.Receipts) > 0 {
				f.progress(s.now(), r.ChunkHash)
			}
			// An empty response means that the holder does not have the chunk.
			if do(chunkparts.Response{ChunkResponse: r}); len(place) == before && len(r.Parts)+len(r.Receipts) == 0 {
				if _, is := place[r.ChunkHash]; is && f.tries < maxHolderTries*len(w.Headers) {
					s.askHolder(f, r.ChunkHash)
				}
			}
		case <-tick.C:
			asks := do(chunkparts.Tick{})
			if f.tries = 0; n%ownersEvery == 0 { // if no holder has the chunk, request the parts from their owners
				for i := range asks {
					s.o.Tell(partsRequest{&asks[i]})
				}
			} else {
				for hash := range place {
					if f.isOverdue(s.now(), hash) {
						s.askHolder(f, hash)
					}
				}
			}
			n++
		}
	}
	return out, nil
}

// holders returns, for each chunk of a block by shard index, the validators that should track the
// shard of the chunk. The chunk's producer comes first.
func (s *Shards) holders(x *engine.BlockNode) (out [][]primitives.AccountID, err error) {
	d := s.o.Engine.ChunkPartsView(s.o.Engine.FindChunk)
	id, all := x.Header().EpochID, []primitives.AccountID(nil)
	err = s.o.Engine.Epochs(func(m *epoch.Manager) error {
		info, err := m.EpochInfo(id)
		if err != nil {
			return err
		}
		for i := range info.Validators {
			all = append(all, info.Validators[i].AccountID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, h := range x.Block.Body.Chunks {
		var list []primitives.AccountID
		p, err := d.Maker(h.PrevBlockHash, h.ShardID)
		if err == nil && p.AccountID != s.o.Account && h.HeightIncluded == x.Height() {
			list = append(list, p.AccountID)
		}
		makers, err := s.o.Engine.Validation().Producers(id, h.ShardID)
		if err != nil {
			return nil, err
		}
		for _, a := range makers {
			if a != s.o.Account && !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
		for _, a := range all { // add validators that already track the shard for the next epoch
			if a != s.o.Account && !slices.Contains(list, a) && d.Cares(a, x.Hash, h.ShardID) {
				list = append(list, a)
			}
		}
		out = append(out, list)
	}
	return out, nil
}

// isOverdue returns whether the holder that was asked last has not responded in time. If so, the
// next holder gets twice the time.
func (f *chunkFetch) isOverdue(now int64, hash primitives.Hash) bool {
	wait := max(f.wait[hash], holderWait)
	if now-f.asked[hash] < wait {
		return false
	}
	f.wait[hash] = min(2*wait, maxHolderWait)
	return true
}

// progress restarts the wait for a chunk, because a part of the chunk has arrived.
func (f *chunkFetch) progress(now int64, hash primitives.Hash) {
	f.asked[hash] = now
	delete(f.wait, hash)
}

// askHolder requests missing pieces of a chunk from the next holder. For a chunk of the fetched
// shard, the pieces are enough parts to assemble the chunk. For a chunk of another shard, the
// pieces are the chunk's receipt proofs.
func (s *Shards) askHolder(f *chunkFetch, hash primitives.Hash) {
	i := f.missing[hash]
	list := f.holders[i]
	if len(list) == 0 {
		return
	}
	to := list[f.nextHolder[hash]%len(list)]
	f.nextHolder[hash]++
	f.tries++
	f.asked[hash] = s.now()
	h := f.block.Block.Body.Chunks[i]
	q := &primitives.ChunkRequest{ChunkHash: hash}
	if h.ShardID == f.shard {
		for ord := range uint64(s.o.Engine.Coding().DataParts()) {
			q.Ords = append(q.Ords, ord)
		}
	} else {
		q.Shards = []primitives.ShardID{f.shard}
	}
	s.o.Tell(partsRequest{&chunkparts.Ask{Account: to, Shard: h.ShardID, Request: q}})
}

func (s *Shards) enter(f *chunkFetch) {
	s.fetchMu.Lock()
	defer s.fetchMu.Unlock()
	for hash := range f.missing {
		s.fetches[hash] = append(s.fetches[hash], f)
	}
}

func (s *Shards) leave(f *chunkFetch) {
	s.fetchMu.Lock()
	defer s.fetchMu.Unlock()
	for hash, list := range s.fetches {
		if list = slices.DeleteFunc(list, func(x *chunkFetch) bool { return x == f }); len(list) == 0 {
			delete(s.fetches, hash)
		} else {
			s.fetches[hash] = list
		}
	}
}
