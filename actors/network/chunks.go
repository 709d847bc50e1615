package network

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/parts"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

const (
	maxWaiting   = 1024
	maxDone      = 1024
	maxDoneBytes = 256 << 20
	askedEach    = 32    // chunks that one neighbour is asked for at a time; the others have their turn with a later tick
	askedWait    = 2_000 // ms for an answer, before the same is asked for again
)

// asked are requests for chunks that were not answered: to ask who is slow more than he can do makes him slower.
type asked struct {
	of   map[primitives.Hash]question
	each map[wire.PeerID]int
	late map[primitives.Hash]bool // chunks that were not answered in time, once
}

type question struct {
	peer wire.PeerID // "": an account, by route
	at   int64
}

func newAsked() asked {
	return asked{of: map[primitives.Hash]question{}, each: map[wire.PeerID]int{}, late: map[primitives.Hash]bool{}}
}

// over forgets a request: it was answered, or is too old.
func (a *asked) over(chunk primitives.Hash) {
	if q, ok := a.of[chunk]; ok {
		delete(a.of, chunk)
		if a.each[q.peer]--; a.each[q.peer] == 0 {
			delete(a.each, q.peer)
		}
	}
}

// waits tells whether an answer may still come.
func (a *asked) waits(chunk primitives.Hash, now int64) bool {
	q, ok := a.of[chunk]
	if ok && now-q.at >= askedWait {
		a.over(chunk)
		a.late[chunk] = true
		ok = false
	}
	return ok
}

func (a *asked) put(chunk primitives.Hash, peer wire.PeerID, now int64) {
	a.over(chunk)
	a.of[chunk] = question{peer, now}
	a.each[peer]++
}

// clean forgets what nobody will answer.
func (a *asked) clean(now int64) {
	for chunk := range a.of {
		a.waits(chunk, now)
	}
	if len(a.late) > maxDone {
		clear(a.late)
	}
}

// lacking is a block that lacks chunks, of an epoch that the chain has not come to.
type lacking struct {
	block   *primitives.Block
	headers []*primitives.ChunkHeader
}

func (a *Actor) newPool() *parts.Pool {
	p := parts.New(a.o.Account, a.dist, a.o.Engine.Coding(), primitives.Signature.Verify, a.o.Random)
	h := a.o.Engine.Tip().Header()
	_, _ = p.Step(0, parts.Head{Hash: h.Hash(), Prev: h.PrevHash, Height: h.Height}) // it can't fail
	return p
}

// chunksWanted has the bodies that a block lacks asked for. What is complete here the chain gets once more: it had no room, or does not know of it.
func (a *Actor) chunksWanted(m *messages.ChunksWanted) {
	wanted := map[primitives.Hash]bool{}
	for _, hash := range m.Chunks {
		if c := a.done.all[hash]; c != nil {
			a.o.Out.Chunk(messages.ChunkReceivedAlone{Chunk: c})
		} else {
			wanted[hash] = true
		}
	}
	l := lacking{block: m.Block}
	for _, h := range m.Block.Body.Chunks {
		if h.HeightIncluded == m.Block.Header.Height && wanted[h.ChunkHash()] {
			l.headers = append(l.headers, h)
		}
	}
	if len(l.headers) > 0 && !a.ask(&l) && len(a.waiting) < maxWaiting {
		a.waiting = append(a.waiting, l)
	}
}

// ask asks for chunks if a block of their epoch is part of the chain; false: there is none yet.
func (a *Actor) ask(l *lacking) bool {
	h := l.block.Header
	ancestor := h.PrevHash
	if _, known := a.dist.Epoch(ancestor); !known {
		tip := a.o.Engine.Tip().Hash
		var id primitives.EpochID
		err := a.o.Engine.Epochs(func(m *epoch.Manager) (err error) { id, err = m.EpochIDFromPrev(tip); return err })
		if err != nil || id != h.EpochID {
			return false
		}
		ancestor = tip
	}
	a.partsStep(parts.Wanted{Headers: l.headers, Ancestor: ancestor}, "")
	return true
}

// askWaiting tries again what could not be asked for.
func (a *Actor) askWaiting(final primitives.Height) {
	left := a.waiting[:0]
	for i := range a.waiting {
		if l := &a.waiting[i]; l.block.Header.Height > final && !a.ask(l) {
			left = append(left, *l)
		}
	}
	clear(a.waiting[len(left):])
	a.waiting = left
}

func (a *Actor) partsTick() {
	a.asked.clean(a.now())
	a.partsStep(parts.Tick{}, "")
}

// partsStep steps the pool of chunks and does what it says.
func (a *Actor) partsStep(ev parts.Event, from wire.PeerID) {
	out, err := a.pool.Step(a.now(), ev)
	if err != nil {
		a.o.Log.WithError(err).WithField("peer", from).Debug("network: chunk parts dropped")
	}
	for _, s := range out.Send {
		if body := bodyOf(s.Body); body != nil {
			a.host.Post(near.RouteToAccount{AccountID: s.To, Body: body})
		}
	}
	slices.SortStableFunc(out.Ask, func(x, y parts.Ask) int {
		return cmp.Or(cmp.Compare(x.MinHeight, y.MinHeight), x.Request.ChunkHash.Compare(y.Request.ChunkHash))
	})
	for list := out.Ask; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].Request.ChunkHash == list[0].Request.ChunkHash {
			n++
		}
		a.askChunk(list[:n])
		list = list[n:]
	}
	for _, x := range out.Answer {
		a.host.Post(near.RouteTo{Target: wire.WayBack(x.To.(primitives.Hash)), Body: &wire.ChunkResponse{ChunkResponse: *x.Body}})
	}
	for _, h := range out.Bad {
		a.o.Log.WithField("shard", h.ShardID).WithField("height", h.HeightCreated).Warn("network: a chunk's producer has signed what is none")
	}
	for _, c := range out.Complete {
		a.done.add(c.Chunk)
		a.o.Out.Chunk(messages.ChunkReceivedAlone{Chunk: c.Chunk, From: fromOf(from)})
	}
}

func fromOf(id wire.PeerID) string {
	if id == "" {
		return ""
	}
	return id.String()
}

func bodyOf(b borsh.Appender) wire.Body {
	switch b := b.(type) {
	case *primitives.PartialChunk:
		return &wire.PartialChunk{PartialChunk: *b}
	case *primitives.ChunkForward:
		return &wire.ChunkForward{ChunkForward: *b}
	}
	return nil
}

// askChunk asks for what lacks of a chunk: a neighbour that holds the shard and is high enough for all of it, or the accounts for what is drawn for
// each: where there is no such neighbour, and now and then when one has not answered. A neighbour has all parts, and is asked for as
// many as make the chunk.
func (a *Actor) askChunk(list []parts.Ask) {
	now, chunk := a.now(), list[0].Request.ChunkHash
	if a.asked.waits(chunk, now) {
		return
	}
	var fit []wire.PeerID
	neighbours, accounts := false, false
	for i := range a.peers {
		p := &a.peers[i]
		height, told := a.heights[p.Info.ID]
		if !p.HasBlock && !told || max(p.Height, height) < list[0].MinHeight || !slices.Contains(p.TrackedShards, list[0].Shard) {
			continue
		}
		if neighbours = true; a.asked.each[p.Info.ID] < askedEach {
			fit = append(fit, p.Info.ID)
		}
	}
	for i := range list {
		accounts = accounts || list[i].Account != "" && a.reached[list[i].Account]
	}
	switch {
	case accounts && (!neighbours || a.asked.late[chunk] && !list[0].PreferPeer):
		a.asked.put(chunk, "", now)
		for i := range list {
			a.host.Post(near.RouteToAccount{AccountID: list[i].Account, Body: &wire.ChunkRequest{ChunkRequest: *list[i].Request}})
		}
	case len(fit) > 0:
		body := &wire.ChunkRequest{ChunkRequest: primitives.ChunkRequest{ChunkHash: chunk}}
		for i := range list {
			body.Ords = append(body.Ords, list[i].Request.Ords...)
			body.Shards = append(body.Shards, list[i].Request.Shards...)
		}
		slices.Sort(body.Ords)
		slices.Sort(body.Shards)
		body.Ords, body.Shards = slices.Compact(body.Ords), slices.Compact(body.Shards)
		if data := a.o.Engine.Coding().DataParts(); len(body.Ords) > data {
			body.Ords = body.Ords[:data]
		}
		to := fit[a.o.Random(len(fit))]
		a.asked.put(chunk, to, now)
		a.host.Post(near.RouteTo{Target: wire.ToPeer(to), Body: body})
	}
}

// bodies are chunks that are complete and in no block of the chain yet.
type bodies struct {
	all   map[primitives.Hash]*primitives.Chunk
	order []primitives.Hash
	bytes int
}

func newBodies() bodies { return bodies{all: map[primitives.Hash]*primitives.Chunk{}} }

func (b *bodies) add(c *primitives.Chunk) {
	if b.all[c.Hash] != nil {
		return
	}
	b.all[c.Hash] = c
	b.order = append(b.order, c.Hash)
	b.bytes += int(c.Header.EncodedLength)
	for len(b.order) > maxDone || b.bytes > maxDoneBytes {
		b.remove(b.order[0])
		b.order = b.order[1:]
	}
}

func (b *bodies) remove(hash primitives.Hash) {
	if c := b.all[hash]; c != nil {
		b.bytes -= int(c.Header.EncodedLength)
		delete(b.all, hash)
	}
}

// included forgets what a block has.
func (b *bodies) included(m *messages.BlockAccepted) {
	for i := range m.Shards {
		if c := m.Shards[i].Chunk; c != nil {
			b.remove(c.Hash)
		}
	}
	for len(b.order) > 0 && b.all[b.order[0]] == nil {
		b.order = b.order[1:]
	}
}
