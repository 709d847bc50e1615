package replay

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	peers "github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// recordedPeer is a peer that answers with the messages of a recorded network.
type recordedPeer struct {
	host   *tcp.Server
	n      *network
	blocks map[primitives.Hash]*primitives.Block
	index  map[primitives.Hash]int // of blocks and the genesis, by height
	todo   chan near.Deliver
	parts  int // given
}

// play starts it.
func play(t *testing.T, n *network, e *engine.Engine) (*recordedPeer, wire.PeerInfo) {
	t.Helper()
	p := &recordedPeer{n: n, blocks: map[primitives.Hash]*primitives.Block{}, index: map[primitives.Hash]int{}, todo: make(chan near.Deliver, 10_000)}
	for i, b := range n.blocks {
		p.blocks[b.Hash()] = b
		p.index[b.Hash()] = i
	}
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "player")
	var err error
	p.host, err = tcp.Listen(near.Config{Key: key, Genesis: wire.GenesisID{ChainID: e.Chain().ID, Hash: e.Genesis().Hash}, Version: 86, Oldest: 83,
		ListenAddr: netip.MustParseAddrPort("127.0.0.1:0")},
		func(d near.Deliver) {
			select {
			case p.todo <- d:
			default:
			}
		}, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
			return near.AnnouncementsVerified{From: j.From}
		})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.host.Run(t.Context())
	}()
	go func() {
		for d := range p.todo {
			p.answer(&d)
		}
	}()
	t.Cleanup(func() {
		<-ended
		close(p.todo)
	})
	last := n.blocks[len(n.blocks)-1]
	p.host.Post(near.Head{Block: last, TrackedShards: e.Head().Layout.ShardIDs()})
	return p, wire.PeerInfo{ID: key.PublicKey(), Addr: p.host.Addr()}
}

func (p *recordedPeer) answer(d *near.Deliver) {
	switch m := d.Msg.(type) {
	case *wire.BlockRequest:
		if b := p.blocks[m.Hash]; b != nil {
			p.host.Post(near.ToPeer{Peer: d.From, Msg: &wire.Block{Block: b}})
		}
	case *wire.HeadersRequest:
		for _, hash := range m.Hashes {
			i, ok := p.index[hash]
			if !ok && hash != p.n.blocks[0].Header.PrevHash {
				continue
			}
			if !ok {
				i = -1
			}
			out := &wire.Headers{}
			for _, b := range p.n.blocks[i+1 : min(len(p.n.blocks), i+513)] {
				out.Headers = append(out.Headers, b.Header)
			}
			p.host.Post(near.ToPeer{Peer: d.From, Msg: out})
			return
		}
	case *wire.Routed:
		q, ok := m.Body.(*wire.ChunkRequest)
		if !ok {
			return
		}
		a := &wire.ChunkResponse{ChunkResponse: primitives.ChunkResponse{ChunkHash: q.ChunkHash}}
		seen := map[uint64]bool{}
		for _, c := range p.n.partial[q.ChunkHash] {
			for _, x := range c.Parts {
				for _, ord := range q.Ords {
					if x.Ord == ord && !seen[ord] {
						seen[ord] = true
						a.Parts = append(a.Parts, x)
						p.parts++
					}
				}
			}
		}
		p.host.Post(near.RouteTo{Target: wire.RouteBack(m.Hash()), Body: a})
	}
}

// listenFunc implements network.Listener, and stores no peers.
type listenFunc func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error)

func (f listenFunc) Listen(deliver func(near.Deliver),
	verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error) {
	return f(deliver, verify)
}

func (f listenFunc) Remember([]wire.PeerInfo) {}

// TestNodeFollowsRecordedNeards: a node whose only peer answers with recorded messages of neards
// follows their chain from the genesis to the end. The bytes of each block are equal, and the
// states are those that the next block's chunks name.
func TestNodeFollowsRecordedNeards(t *testing.T) {
	n := readNetwork(t, netPath())
	e := n.open(t, engine.Options{Par: par})
	p, boot := play(t, n, e)
	l, err := tcp.Bind("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "follower")
	front := &peers.Status{MaxPeers: 40, Awaits: true}
	f, err := node.Start(node.Options{
		Engine: e, Mode: production.Manual, Mempool: txpool.Limits{Transactions: 1000, Bytes: 10 << 20, KeyTransactions: 100},
		Delays: doomslug.Delays{Endorsement: int64(600 * time.Millisecond), Skip: int64(2 * time.Second), MaxWait: int64(6 * time.Second), ChunkWait: [2]uint64{1, 3}},
		Network: &peers.Options{Peer: key.PublicKey(), Status: front, Random: rand.IntN,
			Listener: listenFunc(func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error) {
				return tcp.New(l, near.Config{Key: key, Genesis: wire.GenesisID{ChainID: e.Chain().ID, Hash: e.Genesis().Hash}, Version: 86, Oldest: 83,
					Boot: []wire.PeerInfo{boot}, Draw: rand.IntN}, deliver, verify), nil
			})},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := l.(*net.TCPListener); !ok {
		t.Fatal("no TCP")
	}
	last := n.blocks[len(n.blocks)-1]
	begun := time.Now()
	for limit := begun.Add(8 * time.Minute); e.Head().Hash != last.Hash(); time.Sleep(5 * time.Millisecond) {
		if h, halted := f.Halted(); halted {
			t.Fatalf("halted: %s", h.Reason)
		}
		if time.Now().After(limit) {
			is, best := front.Syncing()
			t.Fatalf("at %d, not at %d; syncing %v to %d; %d parts given", e.Head().Height(), last.Header.Height, is, best, p.parts)
		}
	}
	t.Logf("%d blocks in %v, %d parts", len(n.blocks), time.Since(begun), p.parts)
	roots, differ := 0, 0
	for i, b := range n.blocks[:len(n.blocks)-1] {
		got, err := e.WholeBlock(b.Hash())
		if err != nil {
			t.Fatalf("block %d: %v", b.Header.Height, err)
		}
		if !bytes.Equal(got.AppendBorsh(nil), b.AppendBorsh(nil)) {
			t.Errorf("block %d is another", b.Header.Height)
		}
		next := n.blocks[i+1]
		at, err := e.Block(b.Hash())
		if err != nil || next.Header.PrevHash != b.Hash() {
			t.Fatalf("block %d: %v", b.Header.Height, err)
		}
		for k, h := range next.Body.Chunks {
			if h.HeightIncluded != next.Header.Height {
				continue
			}
			if roots++; at.Shards[k].Extra == nil || at.Shards[k].Extra.StateRoot != h.PrevStateRoot {
				differ++
			}
		}
	}
	if differ > 0 || roots < 3*len(n.blocks) {
		t.Errorf("%d of %d roots differ", differ, roots)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
