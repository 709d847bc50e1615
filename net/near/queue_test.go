package near

import (
	"testing"

	"github.com/troupe-chain/troupe/net/wire"
)

// TestConsensusPrecedesGossipAndSync: consensus precedes gossip and sync, each in order, and none
// starves.
func TestConsensusPrecedesGossipAndSync(t *testing.T) {
	var q Queue
	for i, p := range []Priority{Sync, Gossip, Consensus, Gossip, Consensus} {
		q.Put([]byte{byte(i)}, p)
	}
	var got []byte
	for f := q.Next(); f != nil; f = q.Next() {
		got = append(got, f...)
	}
	if string(got) != "\x02\x04\x01\x03\x00" || q.Bytes() != 0 {
		t.Errorf("order %v, %d bytes queued", got, q.Bytes())
	}
	for range 200 {
		q.Put([]byte{'c'}, Consensus)
	}
	q.Put([]byte{'g'}, Gossip)
	q.Put([]byte{'s'}, Sync)
	for i := 0; ; i++ {
		f := q.Next()
		if f == nil {
			t.Fatal("starved")
		}
		if f[0] == 's' {
			if i > 2*starvationLimit+2 {
				t.Errorf("sync has its turn after %d frames", i)
			}
			break
		}
	}
	big := make([]byte, wire.MaxFrame)
	q = Queue{}
	if first, second := q.Put(big, Sync), q.Put(big, Sync); !first || !second || q.Put([]byte{0}, Consensus) {
		t.Error("the bound of a queue is not 1 GiB")
	}
	for _, tt := range []struct {
		m    wire.Message
		want Priority
	}{{&wire.Handshake{Tier: wire.T2}, Consensus}, {&wire.Routed{Body: &wire.BlockApproval{}}, Consensus}, {&wire.Routed{Body: &wire.ForwardTx{}}, Gossip},
		{&wire.Routed{Body: &wire.ChunkResponse{}}, Consensus}, {&wire.RoutingTable{}, Gossip}, {&wire.Headers{}, Sync}, {&wire.StateResponse{}, Sync}} {
		if got := PriorityOf(tt.m); got != tt.want {
			t.Errorf("%v has priority %d, want %d", tt.m.Kind(), got, tt.want)
		}
	}
}
