package network

import (
	"sync"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// Limits of peers' messages in the mailbox. They correspond to a second of a busy peer's messages.
const (
	maxInbox      = 8192
	maxInboxEach  = 1024
	minInboxEach  = 64       // number of a peer's messages that the inbox accepts even if maxInbox is reached
	maxInboxBytes = 64 << 20 // bytes of a peer's routed messages and blocks; the last message may exceed this limit
)

// delivered is a message of a peer to the actor.
type delivered struct {
	near.Deliver
	in *slot // the message's slot in the inbox; nil: the message needs no slot
}

// slot is a message's share of the inbox limits.
type slot struct {
	in     *inbox
	source source
	size   int
	own    bool // the slot does not count toward maxInbox
}

// source is the key by which messages are counted: the peer that delivered them, or the validator's
// node that signed them. A peer's gossiped blocks are counted separately from its other messages.
// Otherwise a malicious peer could fill its share with other messages, so that this node drops a
// gossiped block from that peer. Gossip delivers a block only once, so the dropped block would not
// arrive from another peer. The rates of gossip bound gossiped blocks too.
type source struct {
	of     wire.PeerID
	gossip bool
}

// usage is the number of a source's messages in the mailbox, and the bytes of these messages.
type usage struct{ messages, bytes int }

// inbox bounds the messages of peers in the mailbox. The inbox drops further messages; peers repeat
// the messages that are needed. A message that a validator's node signed counts for that node,
// whichever peer delivers it. All other messages count for the peer that delivers them. So no peer
// can use up the share of a validator. Safe for concurrent use.
type inbox struct {
	mu     sync.Mutex
	all    int // number of messages that count toward maxInbox
	gossip int // number of gossiped blocks that count toward maxInbox
	each   map[source]usage
	seats  map[wire.PeerID]bool // ids of the nodes of validators
	front  *Status
}

func newInbox(f *Status) *inbox { return &inbox{each: map[source]usage{}, front: f} }

// setSeats sets the nodes of validators.
func (i *inbox) setSeats(nodes []wire.PeerID) {
	seats := make(map[wire.PeerID]bool, len(nodes))
	for _, id := range nodes {
		seats[id] = true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seats = seats
}

// admit returns a slot for a message, or nil if the caller must drop the message.
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

// count returns the counter to which a slot belongs. A slot that is own belongs to no counter.
func (i *inbox) count(p *slot) *int {
	if p.source.gossip {
		return &i.gossip
	}
	return &i.all
}

// done releases a slot. A nil slot is allowed.
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

// deliver handles a message that the host received. The host calls deliver on the host's
// goroutines. deliver does not block.
func (a *Actor) deliver(d near.Deliver) {
	switch m := d.Msg.(type) {
	case *wire.BlockRequest, *wire.HeadersRequest, *wire.EpochSyncRequest, *wire.StateHeaderRequest,
		*wire.StatePartRequest:
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
	case *wire.OptimisticBlock:
		if a.o.Validator == nil || fromWire(m) == nil {
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
	if a.o.Validator != nil {
		if m := fromWire(d.Msg); m != nil {
			a.receiveInTurn(consensus.Received{From: consensus.Peer(fromOf(d.From)), Message: m}, p)
			return
		}
	}
	a.self(delivered{d, p})
}
