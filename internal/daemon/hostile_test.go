package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// hostilePeer is a peer that sends arbitrary messages.
type hostilePeer struct {
	*tcp.Server
	got chan near.Deliver
}

func newHostilePeer(t *testing.T, h *Daemon, name string) *hostilePeer {
	t.Helper()
	s := &hostilePeer{got: make(chan near.Deliver, 1024)}
	c := near.Config{Key: primitives.SecretKeyFromSeed(primitives.ED25519, name), Version: 86, Oldest: 83, ListenAddr: netip.MustParseAddrPort("127.0.0.1:0"),
		Genesis: wire.GenesisID{ChainID: h.home.Genesis.ChainID, Hash: h.Engine.Genesis().Hash},
		Boot:    []wire.PeerInfo{{ID: h.home.NodeKey.PublicKey(), Addr: netip.MustParseAddrPort(h.NetworkAddr().String())}}}
	on, err := tcp.Listen(c, func(d near.Deliver) {
		select {
		case s.got <- d:
		default:
		}
	}, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
		return near.AnnouncementsVerified{From: j.From, Good: j.List}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = on
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- on.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	eventually(t, "connected", func() bool { return len(s.Info().Peers) == 1 })
	return s
}

// answerOf waits for a message of a type.
func answerOf[T wire.Message](t *testing.T, s *hostilePeer) T {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case d := <-s.got:
			if m, ok := d.Msg.(T); ok {
				return m
			}
		case <-limit:
			t.Fatal("no answer")
		}
	}
}

// count returns the value of a network metric.
func count(t *testing.T, h *Daemon, name string) (n int) {
	t.Helper()
	for line := range strings.Lines(string(h.front.Metrics(nil))) {
		if strings.HasPrefix(line, name+" ") {
			if _, err := fmt.Sscanf(line, name+" %d", &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// TestHostileMessagesChangeNothing: peers send invalid, excessive and unrequested messages, and
// validly signed but useless ones. The node still serves an honest peer.
func TestHostileMessagesChangeNothing(t *testing.T) {
	hm, err := home.Load(made(t))
	if err != nil {
		t.Fatal(err)
	}
	on := true
	hm.Config.Network.Enabled, hm.Config.Network.Addr, hm.Config.Production = &on, "127.0.0.1:0", config.Manual
	a, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, a)
	mineBy(t, a, `{"blocks":20}`)
	honest, forger, flooder := newHostilePeer(t, a, "honest"), newHostilePeer(t, a, "forger"), newHostilePeer(t, a, "flooder")
	eventually(t, "met", func() bool { return a.front.Peers() == 3 })
	id := a.home.NodeKey.PublicKey()

	honest.Post(near.ToPeer{Peer: id, Msg: &wire.BlockRequest{Hash: a.Engine.Head().Hash}})
	whole := answerOf[*wire.Block](t, honest).Block
	for whole.Hash() != a.Engine.Head().Hash { // messages after the handshake come first
		whole = answerOf[*wire.Block](t, honest).Block
	}
	// A child of the head without a valid signature.
	forged := *whole.Header
	forged.Height, forged.PrevHash, forged.Signature = forged.Height+1, whole.Hash(), primitives.ZeroED25519Signature
	forger.Post(near.ToPeer{Peer: id, Msg: &wire.Block{Block: &primitives.Block{Header: forged.Init(), Body: whole.Body}}})
	eventually(t, "banned", func() bool { return count(t, a, "troupe_network_bans_total") == 1 && a.front.Peers() == 2 })

	// Orphan blocks of an unknown epoch, unrequested headers and chunk parts, transactions without
	// a valid signature.
	before := a.Engine.Head().Hash
	flood := func(i int) {
		far := *whole.Header
		far.Height, far.PrevHash, far.EpochID = far.Height+5, primitives.Hash{byte(i), byte(i >> 8), 1}, primitives.EpochID{9}
		flooder.Post(near.ToPeer{Peer: id, Msg: &wire.Block{Block: &primitives.Block{Header: far.Init(), Body: whole.Body}}})
		if i%10 == 0 {
			tx := draft(a, a.home.ValidatorKey, primitives.Nonce(i+1), "near", &primitives.Transfer{})
			flooder.Post(near.ToPeer{Peer: id, Msg: &wire.Transaction{Transaction: primitives.NewSignedTransaction(tx, primitives.ZeroED25519Signature)}})
			flooder.Post(near.ToPeer{Peer: id, Msg: &wire.Headers{Headers: []*primitives.BlockHeader{far.Init()}}})
			flooder.Post(near.RouteTo{Target: wire.ToPeer(id), Body: &wire.ChunkRequest{ChunkRequest: primitives.ChunkRequest{Ords: []uint64{0, 1 << 40}}}})
		}
	}
	sent := 0
	for ; sent < 3000; sent++ {
		flood(sent)
	}
	for len(honest.got) > 0 {
		<-honest.got
	}
	begun := time.Now()
	honest.Post(near.ToPeer{Peer: id, Msg: &wire.HeadersRequest{Hashes: []primitives.Hash{a.Engine.Genesis().Hash}}})
	if got := len(answerOf[*wire.Headers](t, honest).Headers); got != int(whole.Header.Height) {
		t.Errorf("%d headers beside the flood", got)
	}
	t.Logf("an honest peer is answered after %v", time.Since(begun))
	eventually(t, "counted", func() bool { // how many are refused depends on how fast they arrive
		for range 100 {
			flood(sent)
			sent++
		}
		return count(t, a, "troupe_network_messages_dropped_total") > 1000
	})
	if a.Engine.Head().Hash != before {
		t.Error("the head has moved")
	}
	if out := mineBy(t, a, `{"blocks":2}`); out.Result.Height != uint64(whole.Header.Height)+2 {
		t.Errorf("mined %+v", out.Result)
	}
	if n := count(t, a, "troupe_network_panics_total"); n != 0 {
		t.Errorf("%d panics", n)
	}
	if n := count(t, a, "troupe_network_bans_total"); n != 1 {
		t.Errorf("%d bans, want 0: an orphan block is no proof of a hostile peer", n)
	}
}
