package network

import (
	"sync"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// How many messages of peers may be in the mailbox: as many as a busy neighbour sends in a second, and not more.
const (
	maxInbox     = 8192
	maxInboxEach = 1024
)

// delivered is a message of a peer on its way to the actor.
type delivered struct {
	near.Deliver
	in *inbox // where it has its place; nil: it needs none
}

// inbox counts what is on its way. What is too much is dropped: whoever needs an answer asks again.
type inbox struct {
	mu    sync.Mutex
	all   int
	each  map[wire.PeerID]int
	front *Front
}

func newInbox(f *Front) *inbox { return &inbox{each: map[wire.PeerID]int{}, front: f} }

// admit takes a place; false: there is none.
func (i *inbox) admit(from wire.PeerID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.all >= maxInbox || i.each[from] >= maxInboxEach {
		i.front.dropped.Add(1)
		return false
	}
	i.all++
	i.each[from]++
	return true
}

// done gives it back; nil: it had none.
func (i *inbox) done(from wire.PeerID) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all--
	if i.each[from]--; i.each[from] == 0 {
		delete(i.each, from)
	}
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
	if !a.inbox.admit(d.From) {
		return
	}
	if a.o.Hear != nil {
		if m := heard(d.Msg); m != nil {
			a.o.Hear(consensus.Received{From: consensus.Peer(fromOf(d.From)), Message: m}, func() { a.inbox.done(d.From) })
			return
		}
	}
	a.self(delivered{d, a.inbox})
}

// rate bounds how often a peer may do something: so many times a second, and as many at once as in two.
type rate struct {
	left float64
	at   int64 // ms
}

// allow tells whether it may once more.
func (r *rate) allow(now int64, perSecond float64) bool {
	r.left = min(2*perSecond, r.left+float64(now-r.at)*perSecond/1000)
	if r.at = now; r.left < 1 {
		return false
	}
	r.left--
	return true
}
