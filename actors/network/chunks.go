package network

import (
	"slices"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

const (
	maxWaiting   = 1024
	maxBodies    = 1024
	maxBodyBytes = 256 << 20
)

// lackingBlock is a block with missing chunks that this node cannot request yet, because no known
// block is in the epoch of the lacking block. Only headers are stored here; chain/blockpool stores
// the block.
type lackingBlock struct {
	header  *primitives.BlockHeader
	headers []*primitives.ChunkHeader
}

func (a *Actor) newPool() *chunkparts.Pool {
	p := chunkparts.New(a.o.Account, a.dist, a.o.Engine.Coding(), primitives.Signature.Verify, a.o.Random)
	h := a.o.Engine.Tip().Header()
	_, _ = p.Step(0, chunkparts.Head{Hash: h.Hash(), Prev: h.PrevHash, Height: h.Height}) // cannot fail
	return p
}

// chunksWanted requests the missing chunk bodies of a block. If this actor has some of the bodies,
// the chain actor dropped them for lack of space, so chunksWanted sends these bodies to the chain
// actor again.
func (a *Actor) chunksWanted(m *messages.ChunksWanted) {
	wanted := map[primitives.Hash]bool{}
	for _, hash := range m.Chunks {
		if c := a.bodies.all[hash]; c != nil {
			a.o.Out.Chunk(messages.ChunkReceivedAlone{Chunk: c})
		} else {
			wanted[hash] = true
		}
	}
	l := lackingBlock{header: m.Block.Header}
	for _, h := range m.Block.Body.Chunks {
		if h.HeightIncluded == m.Block.Header.Height && wanted[h.ChunkHash()] {
			l.headers = append(l.headers, h)
		}
	}
	if len(l.headers) > 0 && !a.ask(&l) && len(a.waiting) < maxWaiting {
		a.waiting = append(a.waiting, l)
	}
}

// ask requests the chunks of a block. ask returns false if no known block is in the epoch of the
// lacking block.
func (a *Actor) ask(l *lackingBlock) bool {
	h := l.header
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
	a.partsStep(chunkparts.Wanted{Headers: l.headers, Ancestor: ancestor}, "")
	return true
}

// askWaiting requests again the chunks of blocks in waiting, and drops blocks at or below the final
// height.
func (a *Actor) askWaiting(final primitives.Height) {
	left := a.waiting[:0]
	for i := range a.waiting {
		if l := &a.waiting[i]; l.header.Height > final && !a.ask(l) {
			left = append(left, *l)
		}
	}
	clear(a.waiting[len(left):])
	a.waiting = left
}

func (a *Actor) partsTick() { a.partsStep(chunkparts.Tick{}, "") }

// partsStep steps the chunk parts pool and carries out its effects. On a validator, partsStep does
// nothing, because the consensus core has its own chunk parts pool.
func (a *Actor) partsStep(ev chunkparts.Event, from wire.PeerID) {
	if a.o.Validator != nil {
		return
	}
	out, err := a.pool.Step(a.now(), ev)
	if err != nil {
		a.o.Log.WithError(err).WithField("peer", from).Debug("network: chunk parts dropped")
	}
	for _, s := range out.Send {
		if body := bodyOf(s.Body); body != nil {
			a.host.Post(near.RouteToAccount{AccountID: s.To, Body: body})
		}
	}
	for i := range out.Ask {
		a.askParts(&out.Ask[i])
	}
	for _, x := range out.Answer {
		if len(x.Body.Parts)+len(x.Body.Receipts) == 0 { // an empty answer means that this node has nothing to send
			continue
		}
		a.host.Post(near.RouteTo{Target: wire.RouteBack(x.To.(primitives.Hash)),
			Body: &wire.ChunkResponse{ChunkResponse: *x.Body}})
	}
	for _, h := range out.Bad {
		a.o.Log.WithField("shard", h.ShardID).WithField("height",
			h.HeightCreated).Warn("network: a chunk producer has signed an invalid chunk")
	}
	for _, c := range out.Complete {
		a.bodies.add(c.Chunk)
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

// askParts sends a request for chunk parts. The request goes to the account q.Account, or to a
// random connected peer that tracks the shard and is high enough. If the account and a peer are
// possible, q.PreferPeer decides. An old chunk is mostly requested from an archival peer, if there is
// one, because other nodes have probably deleted it.
func (a *Actor) askParts(q *chunkparts.Ask) {
	body := &wire.ChunkRequest{ChunkRequest: *q.Request}
	old := a.prefersArchives(q.MinHeight)
	if q.Account != "" && !q.PreferPeer && a.reached[q.Account] && !old {
		a.host.Post(near.RouteToAccount{AccountID: q.Account, Body: body})
		return
	}
	fit := a.chunkPeers(q, old)
	switch {
	case len(fit) > 0:
		// The peer has all parts. DataParts parts are enough to assemble the chunk.
		if data := a.o.Engine.Coding().DataParts(); len(body.Ords) > data {
			body.Ords = body.Ords[:data]
		}
		a.host.Post(near.RouteTo{Target: wire.ToPeer(fit[a.o.Random(len(fit))]), Body: body})
	case q.Account != "":
		a.host.Post(near.RouteToAccount{AccountID: q.Account, Body: body})
	}
}

// notOldOneIn is the average number of requests for old chunks of which one is sent as if the chunk
// were new.
const notOldOneIn = 4

// prefersArchives returns whether to send a request for a chunk only to archival peers. That a peer
// is archival, and the height of the chain, are only claims of peers. So a peer with false claims
// does not get every request: else it could keep the chunk away from this node.
func (a *Actor) prefersArchives(height primitives.Height) bool {
	return a.sync.IsOld(height) && a.o.Random(notOldOneIn) > 0
}

// chunkPeers returns the connected peers that probably have a chunk. For an old chunk these are the
// archival peers, if there are any.
func (a *Actor) chunkPeers(q *chunkparts.Ask, old bool) []wire.PeerID {
	var fit, archives []wire.PeerID
	for i := range a.peers {
		p := &a.peers[i]
		if max(p.Height, a.heights[p.Info.ID]) < q.MinHeight || !p.HasBlock && a.heights[p.Info.ID] == 0 ||
			!slices.Contains(p.TrackedShards, q.Shard) {
			continue
		}
		if fit = append(fit, p.Info.ID); p.Archival {
			archives = append(archives, p.Info.ID)
		}
	}
	if old && len(archives) > 0 {
		return archives
	}
	return fit
}

// chunkBodies are complete chunks, kept until no block can need them. If there are too many bodies,
// the oldest ones are removed.
type chunkBodies struct {
	all   map[primitives.Hash]*primitives.Chunk
	order []primitives.Hash
	bytes int
}

func newChunkBodies() chunkBodies { return chunkBodies{all: map[primitives.Hash]*primitives.Chunk{}} }

func (b *chunkBodies) add(c *primitives.Chunk) {
	if b.all[c.Hash] != nil {
		return
	}
	b.all[c.Hash] = c
	b.order = append(b.order, c.Hash)
	b.bytes += int(c.Header.EncodedLength)
	for len(b.order) > maxBodies || b.bytes > maxBodyBytes {
		b.remove(b.order[0])
		b.order = b.order[1:]
	}
}

func (b *chunkBodies) remove(hash primitives.Hash) {
	if c := b.all[hash]; c != nil {
		b.bytes -= int(c.Header.EncodedLength)
		delete(b.all, hash)
	}
}

// final removes chunks that no block can need: chunks created at or below the final height.
func (b *chunkBodies) final(height primitives.Height) {
	left := b.order[:0]
	for _, hash := range b.order {
		switch c := b.all[hash]; {
		case c == nil:
		case c.Header.HeightCreated <= height:
			b.remove(hash)
		default:
			left = append(left, hash)
		}
	}
	b.order = left
}
