package stateprobe

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// servingNode starts a node that serves the states of its third epoch, and returns how peers know its
// chain and reach it.
func servingNode(t *testing.T) (*daemon.Daemon, wire.GenesisID, wire.PeerInfo) {
	t.Helper()
	const length = 20
	dir := testnode.Home(t, home.InitOptions{ChainID: "sandbox", NumShards: 2})
	path := filepath.Join(dir, "genesis.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"epoch_length", "transaction_validity_period"} {
		text = regexp.MustCompile(`"`+key+`":\s*\d+`).ReplaceAll(text, fmt.Appendf(nil, `"%s": %d`, key, length))
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	on := true
	hm.Config.Production = config.Manual // otherwise newer states replace the one that the test looks at
	hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
	h, err := daemon.Start(daemon.Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	for h.Engine.Head().Height() < 3*length+15 {
		r, err := http.Post("http://"+h.Addr.String(), "application/json",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"sandbox_mine","params":{"blocks":5}}`))
		if err != nil {
			t.Fatal(err)
		}
		var reply struct{ Error any }
		err = json.NewDecoder(r.Body).Decode(&reply)
		if _ = r.Body.Close(); err != nil || reply.Error != nil {
			t.Fatal(err, reply.Error)
		}
	}
	id, err := daemon.GenesisID(hm)
	if err != nil || id.Hash != h.Engine.Genesis().Hash || id.ChainID != hm.Genesis.ChainID {
		t.Fatalf("genesis %+v, %v; the node's is %v", id, err, h.Engine.Genesis().Hash)
	}
	at, err := netip.ParseAddrPort(h.NetworkAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	return h, id, wire.PeerInfo{ID: hm.NodeKey.PublicKey(), Addr: at}
}

// fakePeer starts a peer that answers as answer says; nil: no answer.
func fakePeer(t *testing.T, name string, chain wire.GenesisID, answer func(m wire.Message) wire.Message, events ...near.Event) wire.PeerInfo {
	t.Helper()
	key := primitives.SecretKeyFromSeed(primitives.ED25519, name)
	asked := make(chan near.Deliver, 100)
	s, err := tcp.Listen(near.Config{Key: key, Genesis: chain, Version: uint32(parameters.Newest(primitives.NumberingRelease)), Oldest: daemon.OldestPeer,
		ListenAddr: netip.MustParseAddrPort("127.0.0.1:0"), OnlyBoot: true,
	}, func(d near.Deliver) {
		select {
		case asked <- d:
		default:
		}
	}, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
		return near.AnnouncementsVerified{From: j.From}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 2)
	go func() { _ = s.Run(ctx); ended <- struct{}{} }()
	go func() {
		defer func() { ended <- struct{}{} }()
		for {
			select {
			case <-ctx.Done():
				return
			case d := <-asked:
				if m := answer(d.Msg); m != nil {
					s.Post(near.ToPeer{Peer: d.From, Msg: m})
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; <-ended })
	for _, ev := range events {
		s.Post(ev)
	}
	return wire.PeerInfo{ID: key.PublicKey(), Addr: s.Addr()}
}

func options(chain wire.GenesisID, peers ...wire.PeerInfo) Options {
	return Options{Chain: chain, Key: primitives.SecretKeyFromSeed(primitives.ED25519, "probe"), Peers: peers,
		Version: uint32(parameters.Newest(primitives.NumberingRelease)), Oldest: daemon.OldestPeer, Listen: netip.MustParseAddrPort("127.0.0.1:0"),
		Wait: time.Minute, Connect: 10 * time.Second}
}

// verdicts describes the answers of a peer.
func verdicts(p *Peer) (out []string) {
	for i := range p.Answers {
		item := "header"
		if n := p.Answers[i].Part; n != nil {
			item = fmt.Sprint(*n)
		}
		out = append(out, item+" "+string(p.Answers[i].Verdict))
	}
	return out
}

// TestProbeReportsWhatEachPeerGives: a node gives valid parts, both on its connection and by routed
// messages. A peer with the header but wrong parts is found out, and peers that are of another chain
// or cannot be reached have the reason.
func TestProbeReportsWhatEachPeerGives(t *testing.T) {
	t.Parallel()
	h, chain, node := servingNode(t)
	liar := fakePeer(t, "liar", chain, func(m wire.Message) wire.Message {
		switch m := m.(type) {
		case *wire.StateHeaderRequest:
			header, err := h.Engine.StateSyncHeader(m.SyncHash, m.ShardID)
			if err != nil {
				return nil
			}
			return &wire.StateResponse{StateResponse: primitives.StateResponse{ShardID: m.ShardID, SyncHash: m.SyncHash, Header: header}}
		case *wire.StatePartRequest:
			return &wire.StateResponse{StateResponse: primitives.StateResponse{ShardID: m.ShardID, SyncHash: m.SyncHash,
				Part: statesync.PackPart(m.Part, [][]byte{[]byte("no node")})}}
		case *wire.HeadersRequest:
			list, err := h.Engine.HeadersAfter(m.Hashes, 512)
			if err != nil {
				return nil
			}
			return &wire.Headers{Headers: list}
		}
		return nil
	})
	stranger := fakePeer(t, "stranger", wire.GenesisID{ChainID: "other", Hash: primitives.Hash{7}}, func(wire.Message) wire.Message { return nil })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := wire.PeerInfo{ID: primitives.SecretKeyFromSeed(primitives.ED25519, "gone").PublicKey(), Addr: l.Addr().(*net.TCPAddr).AddrPort()}
	_ = l.Close()

	o := options(chain, node, liar, stranger, gone)
	o.Shard = 1
	last := [2]int{}
	o.Progress = func(done, all int) { last = [2]int{done, all} }
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"header valid", "0 valid"}, {"header valid", "0 wrong"}, nil, nil}
	for i := range r.Peers {
		if got := verdicts(&r.Peers[i]); !slices.Equal(got, want[i]) {
			t.Errorf("peer %d: %q, want %q: %+v", i, got, want[i], r.Peers[i])
		}
	}
	if a := &r.Peers[0].Answers[1]; a.Bytes == 0 || !r.Peers[0].Announces || r.Peers[1].Announces {
		t.Errorf("%+v of %+v, %+v", a, r.Peers[0], r.Peers[1])
	}
	if e := r.Peers[2].Error; !strings.Contains(e, `of chain "other" with genesis`) {
		t.Errorf("of a peer of another chain: %q", e)
	}
	if e := r.Peers[3].Error; !strings.Contains(e, "cannot be reached") {
		t.Errorf("of a peer that does not listen: %q", e)
	}
	if last != [2]int{4, 4} {
		t.Errorf("progress %v", last)
	}
	sync, err := h.Engine.Header(r.Sync)
	if err != nil || sync == nil || sync.Height != r.Height || sync.EpochID != r.EpochID || r.Parts != 1 || r.StateRoot.IsZero() || r.Memory == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "1 of 4 peers gave valid parts, 1 of 2 parts are valid") ||
		!strings.Contains(text.String(), "part 0  wrong") {
		t.Errorf("%v:\n%s", err, &text)
	}

	// the same state by its sync block, from the wrong peer alone, and by routed messages
	o = options(chain, liar, node)
	o.Shard, o.Sync = 1, r.Sync
	if again, err := Run(t.Context(), o); err != nil || again.Height != r.Height {
		t.Errorf("by the sync block: %+v, %v", again, err)
	}
	o = options(chain, liar)
	o.Sync, o.Wait = r.Sync, time.Second
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrNoSync) {
		t.Errorf("without a peer that sends blocks: %v", err)
	}
	o = options(chain, node)
	o.Shard, o.Routed, o.Connect = 1, true, time.Minute
	routed, err := Run(t.Context(), o)
	if err != nil || len(routed.Peers) != 1 || !slices.Equal(verdicts(&routed.Peers[0]), want[0]) || routed.Sync != r.Sync {
		t.Errorf("by routed messages: %+v, %v", routed, err)
	}
	if _, err := Run(t.Context(), options(chain, stranger)); !errors.Is(err, ErrNoPeer) || !strings.Contains(err.Error(), `of chain "other"`) {
		t.Errorf("with peers of another chain only: %v", err)
	}

	header, err := h.Engine.StateSyncHeader(r.Sync, 1)
	if err != nil {
		t.Fatal(err)
	}
	point, err := h.Engine.Header(sync.PrevHash)
	if err != nil {
		t.Fatal(err)
	}
	testJudgeHeader(t, header, point)
	testUnreliablePeer(t, chain, header, sync, point)
}

// testJudgeHeader changes each part of a valid state header.
func testJudgeHeader(t *testing.T, valid *primitives.StateHeader, point *primitives.BlockHeader) {
	for name, c := range map[string]struct {
		change func(h *primitives.StateHeader)
		good   bool
	}{
		"unchanged": {func(*primitives.StateHeader) {}, true},
		"shard":     {func(h *primitives.StateHeader) { h.Chunk.Header.ShardID = 0 }, false},
		"state root": {func(h *primitives.StateHeader) {
			h.Chunk.Header.PrevStateRoot[0]++
			h.Chunk.Hash = h.Chunk.Header.ChunkHash()
		}, false},
		"hash":              {func(h *primitives.StateHeader) { h.Chunk.Hash[0]++ }, false},
		"height":            {func(h *primitives.StateHeader) { h.Chunk.Header.HeightIncluded++ }, false},
		"proof":             {func(h *primitives.StateHeader) { h.ChunkProof = nil }, false},
		"root node":         {func(h *primitives.StateHeader) { h.Root.Data = append([]byte{0}, h.Root.Data...) }, false},
		"memory usage":      {func(h *primitives.StateHeader) { h.Root.MemoryUsage++ }, false},
		"without root node": {func(h *primitives.StateHeader) { h.Root.Data = nil }, false},
	} {
		h := *valid
		c.change(&h)
		if err := judgeHeader(&h, point, 1); (err == nil) != c.good {
			t.Errorf("state header with another %s: %v", name, err)
		}
	}
}

// testUnreliablePeer probes a peer with a made-up state of seven parts. It does not have part 0 and
// answers no request after it, so it is not asked for the last parts.
func testUnreliablePeer(t *testing.T, chain wire.GenesisID, h *primitives.StateHeader, sync, point *primitives.BlockHeader) {
	header := *h
	header.Root.MemoryUsage = 200 << 20
	header.Root.Data = binary.LittleEndian.AppendUint64(bytes.Clone(h.Root.Data[:len(h.Root.Data)-8]), header.Root.MemoryUsage)
	header.Chunk.Header.PrevStateRoot = primitives.HashBytes(header.Root.Data)
	header.Chunk.Hash = header.Chunk.Header.ChunkHash()
	before, at := *point, *sync
	root, paths := primitives.Merklize([]primitives.Hash{primitives.HashBytes(
		borsh.AppendUint64(header.Chunk.Hash[:], uint64(header.Chunk.Header.HeightIncluded)))})
	before.ChunkHeadersRoot, header.ChunkProof = root, paths[0]
	at.PrevHash = before.Init().Hash()
	at.Init()
	var huge atomic.Bool // part 0 is longer than a part can be
	unreliable := fakePeer(t, "unreliable", chain, func(m wire.Message) wire.Message {
		out := &wire.StateResponse{StateResponse: primitives.StateResponse{ShardID: 1, SyncHash: at.Hash()}}
		switch m := m.(type) {
		case *wire.HeadersRequest:
			return &wire.Headers{Headers: []*primitives.BlockHeader{&before, &at}}
		case *wire.StateHeaderRequest:
			out.Header = &header
			return out
		case *wire.StatePartRequest:
			if huge.Load() {
				out.Part = &primitives.StatePart{Number: m.Part, Body: make([]byte, maxAnswer)}
				return out
			}
			if m.Part == 0 {
				return out
			}
		}
		return nil
	}, near.Snapshot{SyncHash: before.PrevHash, EpochHeight: 9, Shards: []primitives.ShardID{1}})
	o := options(chain, unreliable)
	o.Shard, o.Wait, o.Parts = 1, 2*time.Second, Selection{All: true}
	r, err := Run(t.Context(), o)
	if !errors.Is(err, ErrNoPart) || r == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	want := []string{"header valid", "0 unavailable", "1 silent", "2 silent", "3 silent", "4 skipped", "5 skipped", "6 skipped"}
	if got := verdicts(&r.Peers[0]); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	huge.Store(true)
	o.Wait, o.Parts = time.Minute, Selection{List: []PartRange{{0, 1}}}
	if r, err = Run(t.Context(), o); !errors.Is(err, ErrNoPart) || r == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if got, want := verdicts(&r.Peers[0]), []string{"header valid", "0 disconnected", "1 skipped"}; !slices.Equal(got, want) {
		t.Errorf("with parts that are too long: %q, want %q", got, want)
	}
}

// TestInventedAnnouncementsDoNotHideTheState: a host that announces an invented block of a later epoch, which
// any node of the network can do, does not keep the probe from trying the block that peers announce.
func TestInventedAnnouncementsDoNotHideTheState(t *testing.T) {
	t.Parallel()
	host := func(name string, epoch uint64, of byte, shards ...primitives.ShardID) *wire.SnapshotHost {
		return wire.NewSnapshotHost(primitives.SecretKeyFromSeed(primitives.ED25519, name), primitives.Hash{of}, epoch, shards)
	}
	i := &near.Info{Hosts: []*wire.SnapshotHost{
		host("invented", 1<<60, 1, 1), host("distant 1", 8, 2, 1), host("distant 2", 9, 3, 1), host("distant 3", 9, 4, 0, 1),
		host("distant 4", 9, 4, 1), host("peer", 8, 2, 1), host("another shard", 10, 5, 0),
	}}
	i.Peers = append(i.Peers, near.PeerState{Info: wire.PeerInfo{ID: i.Hosts[5].PeerID}})
	p := &prober{o: Options{Shard: 1}}
	got, err := p.announced(i)
	if want := []primitives.Hash{{2}, {1}, {4}, {3}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for k := range 20 {
		i.Hosts = append(i.Hosts, host(fmt.Sprint(k), 1<<60, byte(10+k), 1))
	}
	if got, err = p.announced(i); err != nil || len(got) != maxAnnounced || got[0] != (primitives.Hash{2}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := p.announced(&near.Info{}); !errors.Is(err, ErrNoSync) {
		t.Error(err)
	}
}

// TestPartsAreSelected: lists and ranges of parts, and samples from the first part to the last.
func TestPartsAreSelected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    uint64
		want []uint64
	}{
		{"all", 3, []uint64{0, 1, 2}}, {"2", 3, []uint64{2}}, {"5,1-3,2", 10, []uint64{1, 2, 3, 5}}, {"8-20", 10, []uint64{8, 9}}, {"7", 7, nil},
	} {
		s, err := ParseParts(c.text)
		if got := s.of(c.n); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s of %d: %v, %v, want %v", c.text, c.n, got, err, c.want)
		}
	}
	for _, text := range []string{"", "x", "3-1", "-1", "1-", "0-99999999999", "all,1"} {
		if s, err := ParseParts(text); err == nil {
			t.Errorf("%q is accepted: %+v", text, s)
		}
	}
	for _, c := range []struct {
		sample, n uint64
		want      []uint64
	}{{0, 100, []uint64{0, 33, 66, 99}}, {1, 100, []uint64{0}}, {3, 2, []uint64{0, 1}}, {2, 1, []uint64{0}}, {4, 0, nil}} {
		s := Selection{Sample: c.sample}
		if got := s.of(c.n); !slices.Equal(got, c.want) {
			t.Errorf("sample of %d of %d: %v, want %v", c.sample, c.n, got, c.want)
		}
	}
}
