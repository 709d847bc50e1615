package network

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Status is what others see of the network, from any goroutine and over the actor's restarts.
type Status struct {
	MaxPeers uint32
	Awaits   bool   // there are boot nodes: without ever having heard of a peer's head the node knows nothing of the chain's head
	FirstMet func() // called when the first peer is there; nil: nobody asks
	Log      *logrus.Logger

	host                       atomic.Pointer[tcp.Server]           // nil: there is none now
	key                        atomic.Pointer[primitives.SecretKey] // with which the validator signs now; nil: as in Options
	info                       atomic.Pointer[near.Info]
	syncing, stuck, met        atomic.Bool
	knows                      atomic.Bool // a peer has said what its head is, and the sync machine has heard of it
	best                       atomic.Uint64
	headers                    atomic.Uint64 // the height of the highest header that was judged
	stuckAgain                 atomic.Int64
	sent, received             atomic.Uint64 // bytes, of this host
	sentRate, receivedRate     atomic.Uint64 // a second
	dropped, served, forwarded atomic.Uint64
	bans, panics               atomic.Uint64
	statesHere, statesAll      atomic.Uint64           // parts of the states that come
	lastSent, lastReceived     uint64                  // the actor's
	early                      recentSet[primitives.Hash] // the last blocks of which others were told before they were adopted
	earlySlots                     recentSet[heightSlot]         // of these
}

// Holds tells whether a validator has said that its node holds a shard.
func (f *Status) Holds(account primitives.AccountID, shard primitives.ShardID) bool {
	i := f.info.Load()
	return i != nil && slices.Contains(i.Holders[account], shard)
}

// reset forgets the connections of a host that has ended.
func (f *Status) reset() {
	f.info.Store(nil)
	f.sentRate.Store(0)
	f.receivedRate.Store(0)
	f.lastSent, f.lastReceived = 0, 0
}

func (f *Status) show(i *near.Info, h *tcp.Server) {
	f.info.Store(i)
	if len(i.Peers) > 0 && f.met.CompareAndSwap(false, true) && f.FirstMet != nil {
		f.FirstMet()
	}
	f.sent.Store(h.Sent.Load())
	f.received.Store(h.Received.Load())
}

// measure counts bytes since it was called last, ms ago.
func (f *Status) measure(h *tcp.Server, ms uint64) {
	sent, received := h.Sent.Load(), h.Received.Load()
	f.sentRate.Store((sent - f.lastSent) * 1000 / ms)
	f.receivedRate.Store((received - f.lastReceived) * 1000 / ms)
	f.lastSent, f.lastReceived = sent, received
}

func (f *Status) syncs(active, stuck bool, best primitives.Height) {
	f.syncing.Store(active)
	f.stuck.Store(stuck)
	f.best.Store(uint64(best))
}

func (f *Status) states(here, all uint64) {
	f.statesHere.Store(here)
	f.statesAll.Store(all)
}

// recovered ends a panic over what one peer has asked for.
func (f *Status) recovered(what string) {
	if p := recover(); p != nil {
		f.note(what, p)
	}
}

func (f *Status) note(what string, reason any) {
	f.panics.Add(1)
	if f.Log != nil {
		f.Log.Errorf("network: %s: %v\n%s", what, reason, debug.Stack())
	}
}

// Syncing tells whether the node is behind its peers, or can't know, and how high the highest of them is.
func (f *Status) Syncing() (bool, primitives.Height) {
	return f.syncing.Load() || f.Awaits && (!f.knows.Load() || f.stuck.Load()), primitives.Height(f.best.Load())
}

// Peers is how many are connected.
func (f *Status) Peers() int {
	if i := f.info.Load(); i != nil {
		return len(i.Peers)
	}
	return 0
}

// Met tells whether any peer was connected since the node began.
func (f *Status) Met() bool { return f.met.Load() }

// Info is the state of the network as network_info tells it. As at neard a producer has no address: it is that of the active peer of that id.
func (f *Status) Info() *view.NetworkInfo {
	out := &view.NetworkInfo{PeerMaxCount: f.MaxPeers, SentBytesPerSec: f.sentRate.Load(), ReceivedBytesPerSec: f.receivedRate.Load()}
	i := f.info.Load()
	if i == nil {
		return out
	}
	for k := range i.Peers {
		p := &i.Peers[k]
		x := view.Peer{ID: p.Info.ID, AccountID: p.Info.AccountID}
		if p.Info.Addr.IsValid() {
			x.Addr = p.Info.Addr.String()
		}
		out.ActivePeers = append(out.ActivePeers, x)
	}
	for _, a := range i.Producers {
		out.KnownProducers = append(out.KnownProducers, view.KnownProducer{AccountID: a.AccountID, PeerID: a.PeerID})
	}
	return out
}

// Metrics appends what there is to count in Prometheus' text form, with neard's names where it has one.
func (f *Status) Metrics(b []byte) []byte {
	var peers, producers, reachable int
	if i := f.info.Load(); i != nil {
		peers, producers, reachable = len(i.Peers), len(i.Producers), i.Reachable
	}
	syncing, best := f.Syncing()
	is := 0
	if syncing {
		is = 1
	}
	for _, g := range []struct {
		name, kind, help string
		value            uint64
	}{
		{"near_peer_connections_total", "gauge", "Number of connected peers", uint64(peers)},
		{"near_peer_reachable", "gauge", "Total number of peers that are reachable from this peer using potentially a chain of peer connections", uint64(reachable)},
		{"troupe_network_known_producers", "gauge", "Validators of whom it is known which node is theirs", uint64(producers)},
		{"troupe_sync_active", "gauge", "1: the node is behind its peers and catches up", uint64(is)},
		{"troupe_sync_highest_peer", "gauge", "Height of the highest peer that is believed", uint64(best)},
		{"troupe_sync_state_parts", "gauge", "Parts that there are of the state with which the node is to begin; 0: none comes", f.statesAll.Load()},
		{"troupe_sync_state_parts_here", "gauge", "How many of them have come", f.statesHere.Load()},
		{"troupe_network_sent_bytes_total", "counter", "Bytes of frames sent since the last listener", f.sent.Load()},
		{"troupe_network_received_bytes_total", "counter", "Bytes of frames received since the last listener", f.received.Load()},
		{"troupe_network_requests_served_total", "counter", "Requests of peers that were answered", f.served.Load()},
		{"troupe_network_messages_dropped_total", "counter", "Messages of peers dropped because too many came", f.dropped.Load()},
		{"troupe_network_transactions_forwarded_total", "counter", "Transactions sent to who makes chunks", f.forwarded.Load()},
		{"troupe_network_bans_total", "counter", "Peers banned for what this node has seen", f.bans.Load()},
		{"troupe_network_panics_total", "counter", "Messages of peers over which something panicked", f.panics.Load()},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", g.name, g.help, g.name, g.kind, g.name, g.value)
	}
	return b
}

// Announcement is what was last announced of whose node a validator's account has; nil: nothing.
func (f *Status) Announcement(account primitives.AccountID) *wire.Announcement {
	if i := f.info.Load(); i != nil {
		for _, a := range i.Producers {
			if a.AccountID == account {
				return a
			}
		}
	}
	return nil
}

// Rekey has the validator's data signed with another key, or none, by whatever host there will be.
func (f *Status) Rekey(key primitives.SecretKey) { f.key.Store(&key) }

// Progress tells how far headers and state are.
func (f *Status) Progress(p *view.Progress) {
	p.Headers = max(p.Headers, primitives.Height(f.headers.Load()))
	p.Parts, p.PartsHere = f.statesAll.Load(), f.statesHere.Load()
}
