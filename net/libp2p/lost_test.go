package libp2p

import (
	"sync"
	"testing"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

func bytesOf(h primitives.Height) []byte { return wire.Append(nil, &wire.Block{Block: block(h)}) }

// TestBlockOfBannedPeerIsImported: a block is imported even if the peer that delivered it first is
// banned right afterwards: gossipsub has marked the block as seen and drops other copies.
func TestBlockOfBannedPeerIsImported(t *testing.T) {
	var (
		a    *node
		made = make(chan struct{})
		x    = primitives.SecretKeyFromSeed(primitives.ED25519, "x").PublicKey()
	)
	a = run(t, "a", how{libp2p: true, look: func(m wire.Message) {
		b, is := m.(*wire.Block)
		if !is || b.Block.Header.Height != 9 {
			return
		}
		<-made
		id, _ := idOf(x)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && (!a.way.isBanned(id) || a.peers() != 1); {
			time.Sleep(time.Millisecond)
		}
	}})
	close(made)
	boot := []wire.PeerInfo{a.info()}
	bad, good := run(t, "x", how{libp2p: true, boot: boot}), run(t, "y", how{libp2p: true, boot: boot})
	a.connected(t, 2)
	bad.connected(t, 1)
	good.connected(t, 1)
	bad.reached(t, a)
	good.reached(t, a)
	bad.publish(t, blocks, bytesOf(9))
	bad.publish(t, transactions, []byte("no transactions"))
	eventually(t, "banned", time.Minute, func() bool { return a.way.isBanned(bad.way.me) && a.peers() == 1 })
	good.broadcastBlock(9)
	good.broadcastBlock(10)
	seen := map[primitives.Height]bool{}
	for len(seen) < 2 {
		select {
		case d := <-a.got:
			if m, is := d.Msg.(*wire.Block); is {
				seen[m.Block.Header.Height] = true
			}
		case <-time.After(time.Minute):
			t.Fatalf("of 9 and 10 there is only %v", seen)
		}
	}
}

// unconnected returns a transport with its posted events, and an unconnected peer.
func unconnected(t *testing.T) (w *Transport, posted chan near.Event, who wire.PeerID, id peer.ID) {
	t.Helper()
	posted = make(chan near.Event, 100)
	w = serve(t, Options{Key: primitives.SecretKeyFromSeed(primitives.ED25519, "a")}, recordingHandler{posted: posted})
	who = primitives.SecretKeyFromSeed(primitives.ED25519, "b").PublicKey()
	id, err := idOf(who)
	if err != nil {
		t.Fatal(err)
	}
	return w, posted, who, id
}

// TestGossipOfDisconnectedPeerIsValidated: a message that passed the rate check is validated even
// if its sender disconnects before that.
func TestGossipOfDisconnectedPeerIsValidated(t *testing.T) {
	w, posted, who, id := unconnected(t)
	name, data := w.name(blocks), bytesOf(9)
	rpc := &pubsub.RPC{RPC: pb.RPC{Publish: []*pb.Message{{Topic: &name, Data: data}}}}
	w.Met(who, wire.T2, true)
	if err := w.inspect(id, rpc); err != nil || len(rpc.Publish) != 1 {
		t.Fatalf("it is not let in: %v", err)
	}
	w.Met(who, wire.T2, false)
	w.validate(blocks, id, data)
	select {
	case ev := <-posted:
		if g, is := ev.(near.Gossiped); !is || g.Peer != who {
			t.Errorf("%+v", ev)
		}
	default:
		t.Error("the message was not validated")
	}
}

// TestBlockedValidationAdmitsLaterBlock: while validation is blocked, many messages of other peers
// do not prevent the validation of a later block.
func TestBlockedValidationAdmitsLaterBlock(t *testing.T) {
	busy, once := make(chan struct{}), sync.Once{}
	free := func() { once.Do(func() { close(busy) }) }
	defer free()
	a := run(t, "a", how{libp2p: true, look: func(wire.Message) { <-busy }})
	boot := []wire.PeerInfo{a.info()}
	var strangers []*node
	for _, name := range []string{"x", "y", "z"} {
		strangers = append(strangers, run(t, name, how{libp2p: true, boot: boot}))
	}
	good := run(t, "good", how{libp2p: true, boot: boot})
	a.connected(t, 4)
	good.connected(t, 1)
	h := primitives.Height(1000)
	for _, x := range strangers {
		x.connected(t, 1)
		x.reached(t, a)
		for range burst * blockRate {
			h++
			x.publish(t, blocks, bytesOf(h))
			time.Sleep(time.Millisecond) // a peer's own queue holds 256
		}
	}
	c := a.way.o.Counters
	eventually(t, "heard", time.Minute, func() bool { return c.heard.Load()+c.lost.Load() == uint64(len(strangers)*burst*blockRate) })
	good.reached(t, a)
	good.publish(t, blocks, bytesOf(9))
	time.Sleep(100 * time.Millisecond)
	free()
	deadline := time.After(time.Minute)
	for {
		select {
		case d := <-a.got:
			if m, is := d.Msg.(*wire.Block); is && m.Block.Header.Height == 9 {
				return
			}
		case <-deadline:
			t.Fatalf("the block was dropped, one of %d", c.lost.Load())
		}
	}
}

// TestBlockIsSentToPeerConnectedLater: a block published before a peer connected is sent to it over
// its connection.
func TestBlockIsSentToPeerConnectedLater(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	a.connected(t, 1)
	b.connected(t, 1)
	a.reached(t, b)
	a.broadcastBlock(9)
	next(t, b, isHeight(9))
	c := run(t, "c", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	a.connected(t, 2)
	c.connected(t, 1)
	a.reached(t, c)
	a.broadcastBlock(9) // the node sends the block after it has received the chunks
	if d, _ := next(t, c, isHeight(9)); d.From != a.key.PublicKey() {
		t.Errorf("c has it from %v", d.From)
	}
	a.backdateHandshakes()
	for drained := false; !drained; {
		select {
		case <-b.got:
		case <-time.After(100 * time.Millisecond):
			drained = true
		}
	}
	a.broadcastBlock(9)
	a.broadcastBlock(10)
	if _, m := next[*wire.Block](t, b, nil); m.Block.Header.Height != 10 {
		t.Errorf("b got block %d again", m.Block.Header.Height)
	}
}

// TestBlockDroppedByGossipIsSentDirectly: a block that gossip drops for a slow peer goes to it over
// its connection; other messages do not.
func TestBlockDroppedByGossipIsSentDirectly(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	a.connected(t, 1)
	b.connected(t, 1)
	message := func(on topic, data []byte) *pb.Message {
		name := a.way.name(on)
		return &pb.Message{Topic: &name, Data: data}
	}
	for h := range primitives.Height(3) {
		tracer{a.way}.DropRPC(&pubsub.RPC{RPC: pb.RPC{Publish: []*pb.Message{message(transactions, many(1)), message(blocks, bytesOf(9+h)), message(blocks, make([]byte, maxDroppedBytes+1))}}}, b.way.me)
	}
	for h := range primitives.Height(3) {
		if d, m := next[wire.Message](t, b, nil); d.From != a.key.PublicKey() || !isHeight(9+h)(m.(*wire.Block)) {
			t.Errorf("%T of %v", m, d.From)
		}
	}
	if c := a.way.o.Counters; c.spread.Load() != 0 || c.beside.Load() != 3 || c.lost.Load() < 3 {
		t.Errorf("%d messages are published, %d of the %d dropped ones go over a connection", c.spread.Load(), c.beside.Load(), c.lost.Load())
	}
}

// TestBlockIsSentDirectlyToNewPeer: a peer that may still be in its handshake, and would drop
// gossip, also gets a block over the connection.
func TestBlockIsSentDirectlyToNewPeer(t *testing.T) {
	w, _, who, id := unconnected(t)
	w.mu.Lock()
	w.joined[blocks][id], w.outbound[id] = time.Now(), time.Now()
	w.mu.Unlock()
	w.Met(who, wire.T2, true)
	goes := func(h primitives.Height, want bool) {
		t.Helper()
		for range 2 { // even if it was published for another peer
			if w.Spread(who, &wire.Block{Block: block(h)}) != want {
				t.Errorf("%d goes by gossip alone: %v", h, !want)
			}
		}
	}
	goes(9, false)
	(&node{way: w}).backdateHandshakes()
	w.Met(who, wire.T2, true) // over a second connection
	goes(9, true)
	goes(10, true)
	w.Met(who, wire.T2, false)
	goes(11, true)
	w.Met(who, wire.T2, false)
	if len(w.metAt) != 0 {
		t.Error("it is remembered")
	}
}
