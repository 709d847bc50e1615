package network

import (
	"testing"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestChunkRequestsKeepTheirPlace: what a peer asks of the validator has its place until the validator has taken it, so that no more lie in its mailbox than
// a peer has places.
func TestChunkRequestsKeepTheirPlace(t *testing.T) {
	var taken []func()
	a := &Actor{host: new(tcp.Host), inbox: newInbox(new(Front)), o: Options{Hear: func(m consensus.Received, done func()) {
		if _, ok := m.Message.(*primitives.ChunkRequest); !ok {
			t.Errorf("%T is heard", m.Message)
		}
		taken = append(taken, done)
	}}}
	peer := primitives.SecretKeyFromSeed(primitives.ED25519, "peer").PublicKey()
	ask := func() bool { // as the server does
		d := near.Deliver{From: peer, Msg: &wire.Routed{Body: &wire.ChunkRequest{}}}
		if !a.inbox.admit(peer) {
			return false
		}
		a.Handle(delivered{d, a.inbox})
		return true
	}
	for ask() {
		if len(taken) > maxInboxEach {
			break
		}
	}
	if len(taken) != maxInboxEach {
		t.Fatalf("%d requests wait for the validator", len(taken))
	}
	for _, done := range taken {
		done()
	}
	if a.inbox.all != 0 || len(a.inbox.each) != 0 || !ask() {
		t.Errorf("behind them %d places are taken", a.inbox.all)
	}
}
