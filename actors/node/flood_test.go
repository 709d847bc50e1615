package node

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/libp2p"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// flooded is a node that an attacker floods.
type flooded struct {
	*member
	refused atomic.Int64 // invalid blocks
	asks    atomic.Int64 // requests for chunk parts that it has sent
	over    netip.AddrPort
}

// stand starts a node and connects it to the node to, by TCP, or by libp2p if over is set. If to is
// nil, the node is the block producer. stand returns after the node has begun to listen, so that
// another node can be connected to it.
func stand(t *testing.T, name string, over bool, to *flooded) *flooded {
	t.Helper()
	f := &flooded{member: &member{}}
	listening := make(chan struct{})
	var once sync.Once
	f.sandbox = start(t, 2, func(o *Options) {
		o.Mode = production.Manual
		var boot []peerwire.PeerInfo
		if to != nil {
			o.Keys, boot = nil, append(boot, to.info)
		}
		o.hooks.trip = func(kind string, m any, after bool) {
			if _, is := m.(messages.BlockRefused); is && after && kind == network.Name {
				f.refused.Add(1)
			}
		}
		f.front, f.info = networked(t, o, name, boot...)
		defer func() {
			listen := o.Network.Listener
			o.Network.Listener = listenFunc(func(deliver func(near.Deliver),
				verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error) {
				h, err := listen.Listen(deliver, verify)
				if err == nil {
					h.Tap = f.tap
				}
				once.Do(func() { close(listening) })
				return h, err
			})
		}()
		if !over {
			return
		}
		r := newTransports()
		if to != nil {
			r.spots[to.info.ID] = nodeAddrs{id: to.info.ID, over: to.over}
		}
		r.take(name, o, false, true)
		inner := o.Network.Listener
		o.Network.Listener = listenFunc(func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server,
			error) {
			h, err := inner.Listen(deliver, verify)
			r.mu.Lock()
			f.over = r.spots[f.info.ID].over
			r.mu.Unlock()
			return h, err
		})
	})
	<-listening
	return f
}

// tap counts the requests for chunk parts that the node sends.
func (f *flooded) tap(x tcp.Tapped) {
	if !x.Sent || len(x.Frame) == 0 {
		return
	}
	m, err := peerwire.Decode(x.Frame)
	if err != nil {
		return
	}
	if r, is := m.(*peerwire.Routed); is {
		if _, is := r.Body.(*peerwire.ChunkRequest); is {
			f.asks.Add(1)
		}
	}
}

// newAttacker returns an attacker's node that is connected to f.
func newAttacker(t *testing.T, name string, over bool, f *flooded) *attacker {
	t.Helper()
	if !over {
		x := attack(t, name, f.member, "test")
		until(t, x.connected)
		return x
	}
	x := &attacker{key: primitives.SecretKeyFromSeed(primitives.ED25519, name), to: f.info.ID}
	id := peerwire.GenesisID{ChainID: "test", Hash: f.e.Genesis().Hash}
	way, err := libp2p.New(libp2p.Options{Key: x.key, Genesis: id, Listen: netip.MustParseAddrPort("127.0.0.1:0"),
		Here: map[peerwire.PeerID]bool{f.info.ID: true}})
	if err != nil {
		t.Fatal(err)
	}
	boot := []peerwire.PeerInfo{{ID: f.info.ID, Addr: f.over}}
	x.Server = tcp.NewOver(nil, way, near.Config{Key: x.key, Genesis: id, Version: 86, Oldest: 83, Boot: boot,
		OnlyBoot: true, Draw: rand.IntN},
		func(near.Deliver) { x.seen.Add(1) }, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
			return near.AnnouncementsVerified{From: j.From}
		})
	ended := make(chan error, 1)
	go func() { ended <- x.Run(t.Context()) }()
	t.Cleanup(func() { <-ended })
	until(t, x.connected)
	return x
}

// signedWrong returns a copy of right with a wrong state root, signed by the producer of height.
func signedWrong(right *primitives.Block, key primitives.SecretKey, height primitives.Height,
	salt int) *primitives.Block {
	h := *right.Header
	x := &primitives.Block{Header: &h, Body: right.Body}
	h.Height, h.Timestamp, h.PrevStateRoot = height, h.Timestamp+uint64(salt), primitives.Hash{1}
	h.Init()
	chain.SignBlock(x, key)
	return x
}

// TestFloodOfInvalidBlocksBansPeer: a peer has the key of a block producer and signs a thousand
// invalid blocks, of the next height or of one far above. The node that it floods refuses and bans
// it, as do nodes that it connects to later. A node connected to the flooded one gets at most two
// of the blocks. Both nodes get all valid blocks meanwhile. Sockets and libp2p are tested.
func TestFloodOfInvalidBlocksBansPeer(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		for _, far := range []primitives.Height{0, 60} {
			t.Run(fmt.Sprintf("over=%v/above=%d", over, far), func(t *testing.T) {
				a := stand(t, "a", over, nil)
				b := stand(t, "b", over, a)
				behind := stand(t, "behind", over, b)
				until(t, func() bool { return len(b.front.Info().ActivePeers) >= 2 })
				apart := start(t, 2, func(o *Options) { o.Mode = production.Manual })
				mineBlocks(t, apart, 1)
				right := apart.e.Head().Block
				if right.Header.PrevHash != b.e.Head().Hash {
					t.Fatal("it is of another chain")
				}
				sent, enemies := 0, 0
				for wave := range 3 {
					x := newAttacker(t, fmt.Sprint("enemy", wave), over, b)
					enemies++
					for begun := time.Now(); x.connected() && time.Since(begun) < 20*time.Second; {
						x.Post(near.ToAll{Msg: &peerwire.Block{Block: signedWrong(right, a.key, right.Header.Height+far, sent)}})
						if sent++; sent%20 == 0 {
							time.Sleep(20 * time.Millisecond)
						}
						if sent >= 1000 {
							break
						}
					}
					for limit := time.Now().Add(time.Minute); slices.ContainsFunc(b.front.Info().ActivePeers,
						func(p view.Peer) bool { return p.ID == x.key.PublicKey() }); {
						if time.Sleep(time.Millisecond); time.Now().After(limit) {
							t.Fatalf("the peer that sent %d invalid blocks is still connected; %d refused, %d by the connected node", sent,
								b.refused.Load(), behind.refused.Load())
						}
					}
				}
				judged, heard := b.refused.Load(), behind.refused.Load()
				for range 5 {
					mineBlocks(t, a.sandbox, 1)
					b.at(t, a.sandbox)
					behind.at(t, a.sandbox)
				}
				t.Logf("%d attackers sent %d invalid blocks: %d refused, %d by the connected node", enemies, sent, judged, heard)
				if heard > 2 {
					t.Errorf("the connected node checked %d of them", heard)
				}
				if len(b.front.Info().ActivePeers) < 2 {
					t.Error("an honest peer is banned")
				}
			})
		}
	}
}

// TestOrphanFloodRequestsNoChunks: blocks with unknown parents and unknown chunks, signed by their
// producer, cause no requests for these chunks. Otherwise each chunk would be requested for a
// thousand seconds, several times a second, from all part owners.
func TestOrphanFloodRequestsNoChunks(t *testing.T) {
	a := stand(t, "a", false, nil)
	mineBlocks(t, a.sandbox, 1)
	b := stand(t, "b", false, a)
	b.at(t, a.sandbox)
	x := newAttacker(t, "enemy", false, b)
	before := b.asks.Load()
	head := b.e.Head().Block
	for i := range 200 {
		h := *head.Header
		o := &primitives.Block{Header: &h, Body: head.Body}
		h.Height, h.PrevHeight, h.PrevHash = 10+primitives.Height(i), 9+primitives.Height(i), primitives.HashBytes(fmt.Append(nil, i))
		o.Body.Chunks = nil
		for s, c := range head.Body.Chunks {
			c := *c
			c.PrevBlockHash, c.HeightCreated, c.HeightIncluded, c.EncodedLength = h.PrevHash, h.Height, h.Height, uint64(1000*i+s)
			o.Body.Chunks = append(o.Body.Chunks, &c)
		}
		h.BlockBodyHash = o.Body.Hash()
		h.Init()
		chain.SignBlock(o, a.key)
		x.Post(near.ToPeer{Peer: b.info.ID, Msg: &peerwire.Block{Block: o}})
	}
	time.Sleep(2 * time.Second) // enough time to request each of them five times
	asked := b.asks.Load() - before
	mineBlocks(t, a.sandbox, 3)
	b.at(t, a.sandbox)
	t.Logf("%d requests for parts of 400 chunks in 2 s", asked)
	if asked > 0 {
		t.Errorf("%d requests for parts of chunks that only an orphan names", asked)
	}
}

// TestMailboxMessagesOfPeerAreBounded: while the chain actor is busy, its mailbox holds no more
// messages of one peer than the peer has inbox slots.
func TestMailboxMessagesOfPeerAreBounded(t *testing.T) {
	busy, once := make(chan struct{}), sync.Once{}
	free := func() { once.Do(func() { close(busy) }) }
	defer free()
	var held atomic.Bool
	b := &flooded{member: &member{}}
	b.sandbox = start(t, 2, func(o *Options) {
		o.Mode = production.Manual
		o.hooks.trip = func(kind string, m any, after bool) {
			if _, is := m.(messages.BlockReceived); is && !after && kind != network.Name && !held.Swap(true) {
				<-busy
			}
		}
		b.front, b.info = networked(t, o, "b")
	})
	x := newAttacker(t, "enemy", false, b)
	waiting := func() (n int64) {
		for _, s := range b.Meter() {
			if s.Name == "chain" {
				n = s.Mailbox
			}
		}
		return n
	}
	most, sent, head := int64(0), 0, b.e.Head().Block
	for begun := time.Now(); time.Since(begun) < 7*time.Second; time.Sleep(10 * time.Millisecond) {
		for range 4 {
			h := *head.Header
			h.Height, h.Timestamp = primitives.Height(1+sent%100), uint64(sent)
			h.Init()
			x.Post(near.ToPeer{Peer: b.info.ID, Msg: &peerwire.Block{Block: &primitives.Block{Header: &h, Body: head.Body}}})
			sent++
		}
		most = max(most, waiting())
	}
	t.Logf("%d sent, %d wait at the most", sent, most)
	if most > 1100 {
		t.Errorf("%d wait", most)
	}
	free()
	until(t, func() bool { return waiting() == 0 })
}
