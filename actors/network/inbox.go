package network

import (
	"sync"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// How many messages of peers may be in the mailbox: as many as a busy neighbour sends in a second, and not more.
const (
	maxInbox      = 8192
	maxInboxEach  = 1024
	leastInbox    = 64       // that a peer has places for, whatever others have
	maxInboxBytes = 64 << 20 // of routed messages and blocks of one, beside the last
)

// delivered is a message of a peer on its way to the actor.
type delivered struct {
	near.Deliver
	in *place // nil: it needs none
}

// place is that of a message on its way.
type place struct {
	in   *inbox
	lane lane
	size int
	own  bool // it is not one of maxInbox
}

// lane is where the messages of one wait behind each other. Blocks that gossip brings have lanes of their own: whatever else their bringer has sent, nobody else will
// bring them, and he could have filled his lane with a purpose. How many they are is bounded by gossip's rates too.
type lane struct {
	of     wire.PeerID
	gossip bool
}

// load is what is on its way of a lane.
type load struct{ messages, bytes int }

// inbox counts what is on its way. What is too much is dropped: whoever needs an answer asks again. Places are had by lanes: a node that a validator has signed to be its own
// has one, whoever brings what it says, and of all others who has brought it. So what a stranger sends, by himself or through a bridge, takes no validator's places.
type inbox struct {
	mu    sync.Mutex
	all   int // in lanes of neighbours
	told  int // in those of their gossip
	each  map[lane]load
	seats map[wire.PeerID]bool // nodes of validators
	front *Status
}

func newInbox(f *Status) *inbox { return &inbox{each: map[lane]load{}, front: f} }

// sits tells which nodes are validators'.
func (i *inbox) sits(nodes []wire.PeerID) {
	seats := make(map[wire.PeerID]bool, len(nodes))
	for _, id := range nodes {
		seats[id] = true
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seats = seats
}

// admit takes a place, nil: there is none.
func (i *inbox) admit(d *near.Deliver) *place {
	p := &place{in: i, lane: lane{of: d.From}}
	r, routed := d.Msg.(*wire.Routed)
	if routed {
		p.size = r.Size()
	} else {
		p.lane.gossip = d.Gossiped
	}
	if b, is := d.Msg.(*wire.Block); is {
		p.size = blockpool.SizeOf(b.Block)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.own = d.From == ""; routed && i.seats[r.Author] {
		p.lane.of, p.own = r.Author, true
	}
	all := i.count(p)
	has := i.each[p.lane]
	if has.messages >= maxInboxEach || has.bytes > maxInboxBytes || !p.own && *all >= maxInbox && has.messages >= leastInbox {
		i.front.dropped.Add(1)
		return nil
	}
	if !p.own {
		*all++
	}
	i.each[p.lane] = load{has.messages + 1, has.bytes + p.size}
	return p
}

// count is of what a place is one, if not its own.
func (i *inbox) count(p *place) *int {
	if p.lane.gossip {
		return &i.told
	}
	return &i.all
}

// done gives it back; nil: it had none.
func (p *place) done() {
	if p == nil {
		return
	}
	i := p.in
	i.mu.Lock()
	defer i.mu.Unlock()
	if !p.own {
		*i.count(p)--
	}
	has := i.each[p.lane]
	if has = (load{has.messages - 1, has.bytes - p.size}); has.messages == 0 {
		delete(i.each, p.lane)
		return
	}
	i.each[p.lane] = has
}

// deliver is called by the host for each message, and does not wait.
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
			if a.o.Statuses != nil {
				a.o.Statuses.took(d.From, body.Outcome)
			}
			return
		}
	case *wire.Block:
		if a.passed.has(m.Block) {
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
	if a.o.Hear != nil {
		if m := heard(d.Msg); m != nil {
			a.hear(consensus.Received{From: consensus.Peer(fromOf(d.From)), Message: m}, p)
			return
		}
	}
	a.self(delivered{d, p})
}
