package network

import (
	"testing"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestChunkRequestKeepsSlotUntilRead: a peer's chunk request keeps its inbox slot until the
// validator has read it. So no peer has more of them in the mailbox than it has slots.
func TestChunkRequestKeepsSlotUntilRead(t *testing.T) {
	var taken []func()
	a := &Actor{host: new(tcp.Server), inbox: newInbox(new(Status)),
		o: Options{Validator: receiveFunc(func(m consensus.Received, done func()) {
			if _, ok := m.Message.(*primitives.ChunkRequest); !ok {
				t.Errorf("the validator got %T, want a chunk request", m.Message)
			}
			taken = append(taken, done)
		})}}
	peer := primitives.SecretKeyFromSeed(primitives.ED25519, "peer").PublicKey()
	asked := 0
	ask := func() bool { // does what Actor does with a request from a peer
		d := near.Deliver{From: peer, Msg: &wire.Routed{Body: &wire.ChunkRequest{}}}
		p := a.inbox.admit(&d)
		if p == nil {
			return false
		}
		asked++
		a.Handle(delivered{d, p})
		return true
	}
	for ask() {
		if asked > maxInboxEach {
			break
		}
	}
	if asked != maxInboxEach || len(taken) != maxWithValidator {
		t.Fatalf("%d requests wait, %d of them at the validator", asked, len(taken))
	}
	for len(taken) > 0 {
		done := taken[0]
		taken = taken[1:]
		done()
	}
	if a.inbox.all != 0 || len(a.inbox.each) != 0 || !ask() {
		t.Errorf("%d slots are still taken, want none", a.inbox.all)
	}
}
