package network

import (
	"sync"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// How many messages of peers may be in the mailbox: what a busy neighbour sends in a second.
const (
	maxInbox      = 8192
	maxInboxEach  = 1024
	minInboxEach  = 64       // of a peer, whatever others have
	maxInboxBytes = 64 << 20 // of one peer's routed messages and blocks, beyond which one more is accepted
)

// delivered is a message of a peer on its way to the actor.
type delivered struct {
	near.Deliver
	in *slot // nil: it needs none
}

// slot is the place of a message in the inbox.
type slot struct {
	in     *inbox
	source source
	size   int
	own    bool // not counted in maxInbox
}

// source is what messages are counted by: a peer, or a validator's node that signed them.
// Gossiped blocks count separately: no other peer will bring them, and their bringer may have
// filled its share on purpose. Gossip's own rates bound them too.
type source struct {
	of     wire.PeerID
	gossip bool
}

// usage is what a source has in the mailbox.
type usage struct{ messages, bytes int }

// inbox bounds the messages of peers in the mailbox. Further ones are dropped; a peer that
// needs an answer asks again. Messages signed by a validator's node count for that node,
// whichever peer brings them; all others count for the peer. So what other nodes send, directly
// or through a bridge, takes no validator's share. Safe for concurrent use.
type inbox struct {
	mu     sync.Mutex
	all    int // from neighbours
	gossip int // gossiped blocks of neighbours
	each   map[source]usage
	seats  map[wire.PeerID]bool // nodes of validators
	front  *Status
}

func newInbox(f *Status) *inbox { return &inbox{each: map[source]usage{}, front: f} }

// setSeats sets which nodes are validators'.
func (i *inbox) setSeats(nodes []wire.PeerID) {
	seats := make(map[wire.PeerID]bool, len(nodes))
	for _, id := range nodes {
		seats[id] = true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seats = seats
}

// admit returns a slot, or nil if there is none.
func (i *inbox) admit(d *near.Deliver) *slot {
	p := &slot{in: i, source: source{of: d.From}}
	r, routed := d.Msg.(*wire.Routed)
	if routed {
		p.size = r.Size()
	} else {
		p.source.gossip = d.Gossiped
	}
	if b, is := d.Msg.(*wire.Block); is {
		p.size = blockpool.SizeOf(b.Block)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.own = d.From == ""; routed && i.seats[r.Author] {
		p.source.of, p.own = r.Author, true
	}
	all := i.count(p)
	has := i.each[p.source]
	if has.messages >= maxInboxEach || has.bytes > maxInboxBytes || !p.own && *all >= maxInbox &&
		has.messages >= minInboxEach {
		i.front.dropped.Add(1)
		return nil
	}
	if !p.own {
		*all++
	}
	i.each[p.source] = usage{has.messages + 1, has.bytes + p.size}
	return p
}

// count returns the counter that a slot is part of, if it is not own.
func (i *inbox) count(p *slot) *int {
	if p.source.gossip {
		return &i.gossip
	}
	return &i.all
}

// done frees a slot. nil does nothing.
func (p *slot) done() {
	if p == nil {
		return
	}
	i := p.in
	i.mu.Lock()
	defer i.mu.Unlock()
	if !p.own {
		*i.count(p)--
	}
	has := i.each[p.source]
	if has = (usage{has.messages - 1, has.bytes - p.size}); has.messages == 0 {
		delete(i.each, p.source)
		return
	}
	i.each[p.source] = has
}

// deliver is called by the host for each message. It does not wait.
func (a *Actor) deliver(d near.Deliver) {
	switch m := d.Msg.(type) {
	case *wire.BlockRequest, *wire.HeadersRequest, *wire.EpochSyncRequest, *wire.StateHeaderRequest, *wire.StatePartRequest:
		a.server.put(d)
		return
	case *wire.Routed:
		switch body := m.Body.(type) {
		case *wire.ChunkResponse:
			if a.o.Shards != nil {
				a.o.Shards.answered(&body.ChunkResponse)
			}
		case *wire.ChunkRequest, *wire.RoutedStateHeaderRequest, *wire.RoutedStatePartRequest, *wire.TxStatusRequest:
			a.server.put(d)
			return
		case *wire.TxStatusResponse:
			if a.o.TxStatuses != nil {
				a.o.TxStatuses.addAnswer(d.From, body.Outcome)
			}
			return
		}
	case *wire.Block:
		if a.gossiped.has(m.Block) {
			a.self(delivered{d, nil})
			return
		}
	case *wire.Headers, *wire.Transaction, *wire.EpochSyncResponse, *wire.StateResponse:
	default:
		return
	}
	p := a.inbox.admit(&d)
	if p == nil {
		return
	}
	if a.o.Receive != nil {
		if m := fromWire(d.Msg); m != nil {
			a.receiveInTurn(consensus.Received{From: consensus.Peer(fromOf(d.From)), Message: m}, p)
			return
		}
	}
	a.self(delivered{d, p})
}
