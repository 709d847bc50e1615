package libp2p

import (
	"fmt"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Metrics are the counters of a Transport. They are safe for concurrent use, and outlive a
// Transport.
type Metrics struct {
	connections, met                      atomic.Int64
	streams, idleClosed, bans             atomic.Uint64
	spread, heard, refused, held, flooded atomic.Uint64
	spreadBytes, heardBytes, lost, beside atomic.Uint64
}

// Metrics appends the counters in Prometheus text format.
func (c *Metrics) Metrics(b []byte) []byte {
	for _, g := range []struct {
		name, kind, help string
		value            uint64
	}{
		{"connections", "gauge", "Open libp2p connections", uint64(max(c.connections.Load(), 0))},
		{"peers", "gauge", "libp2p peers with a complete T2 handshake", uint64(max(c.met.Load(), 0))},
		{"streams_total", "counter", "Streams of frames opened", c.streams.Load()},
		{"idle_closed_total", "counter", "Connections closed because no handshake completed in time", c.idleClosed.Load()},
		{"bans_total", "counter", "Peers banned", c.bans.Load()},
		{"gossip_sent_total", "counter", "Gossip messages published by this node", c.spread.Load()},
		{"gossip_sent_bytes_total", "counter",
			"Bytes of gossip messages published by this node, counted once for each message", c.spreadBytes.Load()},
		{"gossip_received_total", "counter", "Gossip messages received from peers, without duplicates", c.heard.Load()},
		{"gossip_received_bytes_total", "counter", "Bytes of gossip messages received from peers, without duplicates", c.heardBytes.Load()},
		{"gossip_refused_total", "counter", "Received gossip messages that were invalid", c.refused.Load()},
		{"gossip_held_total", "counter",
			"Received gossip messages that were not relayed, without blame: not verifiable here, not new, or above the relay rate", c.held.Load()},
		{"gossip_flooded_total", "counter", "Received gossip messages dropped because the peer exceeded its rate", c.flooded.Load()},
		{"gossip_lost_total", "counter", "Gossip messages dropped because a queue was full", c.lost.Load()},
		{"gossip_beside_total", "counter", "Blocks sent over a connection because gossip had dropped them", c.beside.Load()},
	} {
		b = fmt.Appendf(b, "# HELP troupe_libp2p_%s %s\n# TYPE troupe_libp2p_%s %s\ntroupe_libp2p_%s %d\n", g.name, g.help,
			g.name, g.kind, g.name, g.value)
	}
	return b
}

// tracer counts messages that gossipsub drops silently, and tracks the peers to which gossipsub has
// a stream.
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

// DropRPC handles an RPC that gossipsub drops because the receiving peer is slow. DropRPC queues
// the blocks in the RPC to be sent over the peer's connection. The node would not send these blocks
// again, because Spread has reported them as delivered by gossip.
func (t tracer) DropRPC(rpc *pubsub.RPC, id peer.ID) {
	t.o.Counters.lost.Add(1)
	for _, m := range rpc.GetPublish() {
		// Skip large blocks, because the RPC may be dropped for all peers of the mesh.
		if m.GetTopic() != t.name(blocks) || len(m.GetData()) > maxDroppedBytes {
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
