package libp2p

import (
	"fmt"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Metrics are what there is to count, from any goroutine and over the restarts of a Way.
type Metrics struct {
	connections, met                      atomic.Int64
	streams, lonely, bans                 atomic.Uint64
	spread, heard, refused, held, flooded atomic.Uint64
	spreadBytes, heardBytes, lost, beside atomic.Uint64
}

// Metrics appends them in Prometheus' text form.
func (c *Metrics) Metrics(b []byte) []byte {
	for _, g := range []struct {
		name, kind, help string
		value            uint64
	}{
		{"connections", "gauge", "Connections of libp2p", uint64(max(c.connections.Load(), 0))},
		{"peers", "gauge", "Peers over libp2p whose handshake is done", uint64(max(c.met.Load(), 0))},
		{"streams_total", "counter", "Streams that carried a connection of frames", c.streams.Load()},
		{"idle_closed_total", "counter", "Connections closed because nobody shook hands over them", c.lonely.Load()},
		{"bans_total", "counter", "Peers banned", c.bans.Load()},
		{"gossip_sent_total", "counter", "Messages of this node that were spread", c.spread.Load()},
		{"gossip_sent_bytes_total", "counter", "Their bytes, once each", c.spreadBytes.Load()},
		{"gossip_received_total", "counter", "Messages of others that came by gossip for the first time", c.heard.Load()},
		{"gossip_received_bytes_total", "counter", "Their bytes", c.heardBytes.Load()},
		{"gossip_refused_total", "counter", "Those that were rubbish", c.refused.Load()},
		{"gossip_held_total", "counter", "Those that were not handed on, since nothing could be said of them", c.held.Load()},
		{"gossip_flooded_total", "counter", "Those that came too fast", c.flooded.Load()},
		{"gossip_lost_total", "counter", "Messages dropped because a queue of gossip was full", c.lost.Load()},
		{"gossip_beside_total", "counter", "Blocks of those that went to a peer by its connection", c.beside.Load()},
	} {
		b = fmt.Appendf(b, "# HELP troupe_libp2p_%s %s\n# TYPE troupe_libp2p_%s %s\ntroupe_libp2p_%s %d\n", g.name, g.help, g.name, g.kind, g.name, g.value)
	}
	return b
}

// tracer counts what gossipsub drops without a word, and notes to whom it can send.
type tracer struct{ *Transport }

func (t tracer) RejectMessage(_ *pubsub.Message, reason string) {
	switch reason {
	case pubsub.RejectValidationQueueFull, pubsub.RejectValidationThrottled:
		t.o.Counters.lost.Add(1)
	case pubsub.RejectUnexpectedSignature, pubsub.RejectUnexpectedAuthInfo, pubsub.RejectInvalidSignature, pubsub.RejectMissingSignature:
		t.o.Counters.refused.Add(1)
	}
}

func (t tracer) OnNewOutboundStream(id peer.ID, _ protocol.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outbound[id] = time.Now()
}

func (t tracer) OnClosedOutboundStream(id peer.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.outbound, id)
}

// DropRPC has a block go by the connection to who takes gossip too slowly: who is told of it here
// is told by nobody a second time.
func (t tracer) DropRPC(rpc *pubsub.RPC, id peer.ID) {
	t.o.Counters.lost.Add(1)
	for _, m := range rpc.GetPublish() {
		if m.GetTopic() != t.name(blocks) || len(m.GetData()) > maxDroppedBytes { // each of its mesh may find no room
			continue
		}
		select {
		case t.dropped <- dropped{id, m.GetData()}:
		default:
		}
	}
}

func (t tracer) UndeliverableMessage(*pubsub.Message) { t.o.Counters.lost.Add(1) }
func (tracer) Join(string)                            {}
func (tracer) Leave(string)                           {}
func (tracer) Graft(peer.ID, string)                  {}
func (tracer) Prune(peer.ID, string)                  {}
func (tracer) ValidateMessage(*pubsub.Message)        {}
func (tracer) DeliverMessage(*pubsub.Message)         {}
func (tracer) DuplicateMessage(*pubsub.Message)       {}
func (tracer) ThrottlePeer(peer.ID)                   {}
func (tracer) RecvRPC(*pubsub.RPC)                    {}
func (tracer) SendRPC(*pubsub.RPC, peer.ID)           {}
