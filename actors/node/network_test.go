package node

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// member is a node with peers.
type member struct {
	*sandbox
	front *network.Status
	info  peerwire.PeerInfo
}

// networked makes a node listen and dial boot.
func networked(t testing.TB, o *Options, name string, boot ...peerwire.PeerInfo) (*network.Status, peerwire.PeerInfo) {
	t.Helper()
	l, err := tcp.Bind("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	key := primitives.SecretKeyFromSeed(primitives.ED25519, name)
	at := l.Addr().(*net.TCPAddr).AddrPort()
	front := &network.Status{MaxPeers: 40, Awaits: len(boot) > 0}
	first := true
	c := near.Config{Key: key, Genesis: peerwire.GenesisID{ChainID: "test", Hash: o.Engine.Genesis().Hash},
		Version: 86, Oldest: 83, Boot: boot, Draw: rand.IntN, T1Period: time.Second}
	o.Network = &network.Options{Peer: key.PublicKey(), Status: front, Random: rand.IntN,
		Listener: listenFunc(func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error) {
			on := l
			if !first {
				var err error
				if on, err = tcp.Bind(at.String()); err != nil {
					return nil, err
				}
			}
			first = false
			c.Sparing = o.Network.Eager
			return tcp.New(on, c, deliver, verify), nil
		})}
	for account, key := range o.Keys {
		o.Network.Account, o.Network.Key = account, key
	}
	return front, peerwire.PeerInfo{ID: key.PublicKey(), Addr: at}
}

// listenFunc implements network.Listener, and stores no peers.
type listenFunc func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error)

func (f listenFunc) Listen(deliver func(near.Deliver),
	verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error) {
	return f(deliver, verify)
}

func (f listenFunc) Remember([]peerwire.PeerInfo) {}

// join starts a member. Without boot nodes it is the block producer.
func join(t *testing.T, name string, change func(*Options), boot ...peerwire.PeerInfo) *member {
	t.Helper()
	m := &member{}
	m.sandbox = start(t, 2, func(o *Options) {
		o.Mode = production.Manual
		if len(boot) > 0 {
			o.Keys = nil
		}
		if change != nil {
			change(o)
		}
		m.front, m.info = networked(t, o, name, boot...)
	})
	return m
}

// at waits until the member's head is that of other.
func (m *member) at(t *testing.T, other *sandbox) {
	t.Helper()
	limit := time.Now().Add(60 * time.Second)
	for m.e.Head().Hash != other.e.Head().Hash {
		if time.Now().After(limit) {
			t.Fatalf("at %d, not at %d", m.e.Head().Height(), other.e.Head().Height())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestNodesSyncAndForwardTransactions: a node that dials another one syncs from genesis, follows
// its blocks, and gets its own clients' transactions included. A third node that knows only the
// second one does the same.
func TestNodesSyncAndForwardTransactions(t *testing.T) {
	a := join(t, "a", nil)
	for range 30 {
		for range 3 {
			if _, err := a.Submit(a.tx("near", transfer(1))); err != nil {
				t.Fatal(err)
			}
		}
		mineBlocks(t, a.sandbox, 5)
	}
	b := join(t, "b", nil, a.info)
	if is, _ := b.front.Syncing(); !is {
		t.Error("a node that has met no peer reports that it is not syncing")
	}
	b.at(t, a.sandbox)
	c := join(t, "c", nil, b.info)
	c.at(t, a.sandbox)
	for range 5 {
		mineBlocks(t, a.sandbox, 1)
	}
	b.at(t, a.sandbox)
	c.at(t, a.sandbox)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		is, best := c.front.Syncing()
		if !is && best == a.e.Head().Height() {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("syncing %v to %d, at %d of %d", is, best, c.e.Head().Height(), a.e.Head().Height())
		}
	}
	for _, m := range []*member{b, c} {
		m.at(t, a.sandbox) // the transaction's base block is that head
		tx := a.tx("near", transfer(7))
		done := make(chan error, 1)
		go func() {
			out, err := m.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
			if err == nil && out.Level != view.LevelFinal {
				t.Errorf("level %v, want FINAL", out.Level)
			}
			done <- err
		}()
		for limit := time.Now().Add(time.Minute); a.Stats().Pooled == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("it does not arrive; submitted %+v\n%s", m.Stats(), m.front.Metrics(nil))
			}
		}
		mineBlocks(t, a.sandbox, 5)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a transaction that was submitted to another node does not come to its end")
		}
	}
	info := b.front.Info()
	if len(info.ActivePeers) != 2 || info.PeerMaxCount != 40 {
		t.Errorf("peers of b: %+v", info)
	}
	until(t, func() bool {
		k := c.front.Info().KnownProducers
		return len(k) == 1 && k[0].AccountID == validator && k[0].PeerID == a.info.ID
	})
}

// attacker is an attacker with a valid handshake.
type attacker struct {
	*tcp.Server
	key  primitives.SecretKey
	to   peerwire.PeerID
	got  chan near.Deliver
	seen atomic.Int64
}

func attack(t *testing.T, name string, of *member, chain string) *attacker {
	t.Helper()
	return attackAt(t, name, of, chain, nil)
}

// attackAt does the same as attack. If head is set, the attacker claims to have that head, and
// connects to no peer but the member.
func attackAt(t *testing.T, name string, of *member, chain string, head near.Event) *attacker {
	t.Helper()
	x := &attacker{key: primitives.SecretKeyFromSeed(primitives.ED25519, name), got: make(chan near.Deliver, 1000),
		to: of.info.ID}
	h, err := tcp.Listen(near.Config{Key: x.key, Genesis: peerwire.GenesisID{ChainID: chain,
		Hash: of.e.Genesis().Hash}, Version: 86, Oldest: 83,
		ListenAddr: netip.MustParseAddrPort("127.0.0.1:0"), Boot: []peerwire.PeerInfo{of.info}, OnlyBoot: head != nil}, func(d near.Deliver) {
		x.seen.Add(1)
		select {
		case x.got <- d:
		default:
		}
	}, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
		return near.AnnouncementsVerified{From: j.From}
	})
	if err != nil {
		t.Fatal(err)
	}
	x.Server = h
	if head != nil {
		h.Post(head)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Run(t.Context()) }()
	t.Cleanup(func() { <-ended })
	return x
}

func (x *attacker) connected() bool {
	return slices.ContainsFunc(x.Info().Peers, func(p near.PeerState) bool { return p.Info.ID == x.to })
}

// forged returns an unsigned block on a node's head, step heights above it.
func forged(on *sandbox, step primitives.Height) *primitives.Block {
	b := on.e.Head().Block
	h := *b.Header
	h.PrevHash, h.PrevHeight = b.Hash(), h.Height
	h.Height += step
	h.Signature = primitives.ZeroED25519Signature
	h.Init()
	return &primitives.Block{Header: &h, Body: b.Body}
}

// TestHostilePeersDoNotStopTheNode: a peer of another chain is rejected. Peers that send garbage,
// one byte a second, a thousand requests a second, or invalid blocks are tolerated or banned. The
// node keeps making and serving blocks.
func TestHostilePeersDoNotStopTheNode(t *testing.T) {
	a := join(t, "a", nil)
	mineBlocks(t, a.sandbox, 20)

	stranger := attack(t, "stranger", a, "another")
	garbage, err := net.Dial("tcp", a.info.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = garbage.Close() }()
	go func() {
		junk := make([]byte, 1000)
		for i := 0; ; i++ {
			for k := range junk {
				junk[k] = byte(rand.Uint32())
			}
			if _, err := garbage.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(junk))),
				junk...)); err != nil || t.Context().Err() != nil {
				return
			}
		}
	}()
	slow, err := net.Dial("tcp", a.info.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	_, _ = slow.Write([]byte{0xff, 0xff, 0, 0, 1})

	flood := attack(t, "flood", a, "test")
	liar := attack(t, "liar", a, "test")
	until(t, func() bool { return flood.connected() && liar.connected() })
	if stranger.connected() {
		t.Error("a node of another chain was let in")
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	var sent atomic.Int64
	go func() {
		defer close(ended)
		hash, gone := a.e.Head().Hash, primitives.HashBytes([]byte("gone"))
		var chunk primitives.Hash
		for _, h := range a.e.Head().Block.Body.Chunks {
			chunk = h.ChunkHash()
		}
		each := time.NewTicker(10 * time.Millisecond)
		defer each.Stop()
		for {
			select {
			case <-stop:
				return
			case <-each.C:
			}
			for range 4 {
				flood.Post(near.ToPeer{Peer: a.info.ID, Msg: &peerwire.BlockRequest{Hash: hash}})
				flood.Post(near.ToPeer{Peer: a.info.ID, Msg: &peerwire.HeadersRequest{Hashes: []primitives.Hash{gone,
					a.e.Genesis().Hash}}})
				flood.Post(near.RouteTo{Target: peerwire.ToPeer(a.info.ID),
					Body: &peerwire.ChunkRequest{ChunkRequest: primitives.ChunkRequest{ChunkHash: chunk,
						Ords: []uint64{0, 5, 1 << 40}}}})
				flood.Post(near.RouteTo{Target: peerwire.ToPeer(a.info.ID),
					Body: &peerwire.ChunkRequest{ChunkRequest: primitives.ChunkRequest{ChunkHash: gone, Ords: []uint64{1}}}})
				sent.Add(4)
			}
		}
	}()
	b := join(t, "b", nil, a.info)
	b.at(t, a.sandbox)
	begun := time.Now()
	for range 20 {
		mineBlocks(t, a.sandbox, 1)
		b.at(t, a.sandbox)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("20 blocks took %v beside the flood", took)
	}
	liar.Post(near.ToPeer{Peer: a.info.ID, Msg: &peerwire.Block{Block: forged(a.sandbox, 1)}})
	until(t, func() bool { return !liar.connected() })
	until(t, func() bool { return flood.seen.Load() > 100 && sent.Load() >= 500 })
	close(stop)
	<-ended
	if !flood.connected() {
		t.Errorf("not connected any more after %d requests", sent.Load())
	}
	before := a.e.Head().Height()
	mineBlocks(t, a.sandbox, 1)
	if a.e.Head().Height() != before+1 {
		t.Error("no block")
	}
	until(t, func() bool { return len(a.front.Info().ActivePeers) == 2 }) // b and the flooding peer, which is tolerated
}

// TestRelayOfForgedChunkIsNotBanned: a block producer puts a chunk with a forged signature into a
// block. A peer that relays this block is not banned, since the block's own signature is valid. A
// peer that sends an unsigned block is banned.
func TestRelayOfForgedChunkIsNotBanned(t *testing.T) {
	a := join(t, "a", nil)
	var refused atomic.Int64
	b := join(t, "b", func(o *Options) {
		o.hooks.trip = func(kind string, m any, after bool) {
			if _, is := m.(messages.BlockRefused); is && after && kind == network.Name {
				refused.Add(1)
			}
		}
	}, a.info)
	apart := start(t, 2, func(o *Options) { o.Mode = production.Manual })
	mineBlocks(t, apart, 1)
	x := *apart.e.Head().Block
	if x.Header.PrevHash != b.e.Head().Hash {
		t.Fatal("it is of another chain")
	}
	h, c := *x.Header, *x.Body.Chunks[0]
	c.Signature = apart.key.Sign(nil)
	x.Header = &h
	x.Body.Chunks = append([]*primitives.ChunkHeader{&c}, x.Body.Chunks[1:]...)
	h.BlockBodyHash = x.Body.Hash()
	h.Init()
	chain.SignBlock(&x, apart.key)
	relay, liar := attack(t, "relay", b, "test"), attack(t, "liar", b, "test")
	until(t, func() bool { return relay.connected() && liar.connected() })
	relay.Post(near.ToPeer{Peer: b.info.ID, Msg: &peerwire.Block{Block: &x}})
	until(t, func() bool { return refused.Load() == 1 })
	liar.Post(near.ToPeer{Peer: b.info.ID, Msg: &peerwire.Block{Block: forged(b.sandbox, 1)}})
	until(t, func() bool { return !liar.connected() })
	if !relay.connected() {
		t.Error("a peer that relays a block signed by its producer is banned")
	}
}

// TestUnchangedHeadIsBroadcastAgain: a follower broadcasts an unchanged head again, to peers that
// have not sent it, a limited number of times.
func TestUnchangedHeadIsBroadcastAgain(t *testing.T) {
	t.Parallel()
	a := join(t, "a", nil)
	b := join(t, "b", nil, a.info)
	x := attack(t, "x", b, "test")
	until(t, x.connected)
	mineBlocks(t, a.sandbox, 1)
	b.at(t, a.sandbox)
	told := func(within time.Duration) (n int) {
		for limit := time.After(within); ; {
			select {
			case d := <-x.got:
				if m, is := d.Msg.(*peerwire.Block); is && d.From == b.info.ID && m.Block.Hash() == b.e.Head().Hash {
					n++
				}
			case <-limit:
				return n
			}
		}
	}
	if n := told(time.Second); n != 1 {
		t.Fatalf("a new block is sent %d times, want once", n)
	}
	if n := told(4 * time.Second); n != 1 {
		t.Errorf("an unchanged head is sent %d more times, want once", n)
	}
	x.Post(near.ToPeer{Peer: b.info.ID, Msg: &peerwire.Block{Block: b.e.Head().Block}})
	if n := told(8 * time.Second); n != 0 {
		t.Errorf("a peer that sent the head gets it %d times, want none", n)
	}
}

// TestStoppedFollowerCatchesUp: a follower that was stopped while blocks were made catches up. A
// follower whose network actor fails continues.
func TestStoppedFollowerCatchesUp(t *testing.T) {
	var trip atomic.Bool
	a := join(t, "a", nil)
	mineBlocks(t, a.sandbox, 3)
	b := join(t, "b", func(o *Options) {
		o.hooks.trip = func(kind string, _ any, after bool) {
			if kind == network.Name && !after && trip.CompareAndSwap(true, false) {
				panic("tripped on purpose")
			}
		}
	}, a.info)
	b.at(t, a.sandbox)
	for range 2 {
		trip.Store(true)
		until(t, func() bool { return !trip.Load() })
		mineBlocks(t, a.sandbox, 10)
		b.at(t, a.sandbox)
	}
}
