package libp2p

import (
	"bytes"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

func transfer(key primitives.SecretKey, nonce primitives.Nonce) *primitives.SignedTransaction {
	tx := primitives.Transaction{SignerID: "a.near", PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce}, ReceiverID: "b.near",
		Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}
	h := primitives.NewSignedTransaction(tx, primitives.ZeroED25519Signature).Hash()
	return primitives.NewSignedTransaction(tx, key.Sign(h[:]))
}

// TestGossipReachesDistantPeers: a message reaches peers that are not connected to its publisher,
// unless the node in between does not accept it. A transaction reaches all peers, once.
func TestGossipReachesDistantPeers(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	c := run(t, "c", how{libp2p: true, boot: []wire.PeerInfo{b.info()}})
	b.connected(t, 2)
	a.connected(t, 1)
	c.connected(t, 1)
	a.reached(t, b)
	b.reached(t, a, c)
	c.reached(t, b)
	for _, n := range []*node{a, b, c} {
		n.backdateHandshakes()
	}
	h := primitives.Height(100)
	eventually(t, "in the mesh", time.Minute, func() bool { // the mesh is built once a second
		h++
		a.broadcastBlock(h)
		if d, _ := next(t, b, isHeight(h)); d.From != a.key.PublicKey() {
			t.Errorf("b has it from %v", d.From)
		}
		for limit := time.After(100 * time.Millisecond); ; {
			select {
			case d := <-c.got:
				if m, ok := d.Msg.(*wire.Block); ok && m.Block.Header.Height == h && d.From == b.key.PublicKey() {
					return true
				}
			case <-limit:
				return false
			}
		}
	})
	b.verdict.Store(int32(near.Hold))
	a.broadcastBlock(8)
	next(t, b, isHeight(8))
	b.verdict.Store(int32(near.Pass))
	a.broadcastBlock(9)
	if _, m := next[*wire.Block](t, c, nil); m.Block.Header.Height != 9 {
		t.Errorf("c has %d, which b would not hand on", m.Block.Header.Height)
	}
	if n := a.way.o.Counters.spread.Load(); n != uint64(h-100+2) {
		t.Errorf("%d messages of a were spread, want %d", n, h-100+2)
	}

	next(t, b, isHeight(9))
	for range 2 { // a peer that received it by gossip receives it over the connection, each time
		a.rebroadcastBlock(9)
		if d, _ := next(t, b, isHeight(9)); d.From != a.key.PublicKey() {
			t.Errorf("b has it again from %v", d.From)
		}
	}
	a.broadcastBlock(9)
	a.rebroadcastBlock(10)
	if _, m := next[*wire.Block](t, b, nil); m.Block.Header.Height != 10 {
		t.Errorf("b got block %d, which it had before", m.Block.Header.Height)
	}
	if n := a.way.o.Counters.spread.Load(); n != uint64(h-100+2) {
		t.Errorf("%d messages of a were published, want %d: repeated ones are not", n, h-100+2)
	}

	for i := range primitives.Nonce(3) {
		tx := &wire.ForwardTx{SignedTransaction: *transfer(a.key, i)}
		a.Post(near.RouteTo{Target: wire.ToPeer(b.key.PublicKey()), Body: tx})
		a.Post(near.RouteTo{Target: wire.ToPeer(b.key.PublicKey()), Body: tx})
	}
	for _, n := range []*node{b, c} {
		seen := map[primitives.Nonce]bool{}
		for range 3 {
			_, m := next[*wire.Routed](t, n, nil)
			seen[m.Body.(*wire.ForwardTx).Nonce.Nonce] = true
		}
		if len(seen) != 3 {
			t.Errorf("%v, want three transactions", seen)
		}
	}
	select {
	case d := <-b.got:
		t.Errorf("b got %T again", d.Msg)
	case <-time.After(100 * time.Millisecond):
	}
}

// publish publishes any data, also invalid messages.
func (n *node) publish(t testing.TB, on topic, data []byte) {
	t.Helper()
	if err := n.way.topics[on].Publish(t.Context(), data); err != nil {
		t.Fatal(err)
	}
}

// TestInvalidGossipBansPeer: a peer that publishes invalid messages is banned and can't reconnect.
func TestInvalidGossipBansPeer(t *testing.T) {
	forged := transfer(primitives.SecretKeyFromSeed(primitives.ED25519, "x"), 1)
	forged = primitives.NewSignedTransaction(forged.Transaction, primitives.ZeroED25519Signature)
	good := appendBatch(nil, time.Now(), transfer(primitives.SecretKeyFromSeed(primitives.ED25519, "x"), 1))
	for name, bad := range map[string]struct {
		on   topic
		data []byte
	}{
		"malformed block":       {blocks, []byte("no protobuf")},
		"another message":       {blocks, wire.Append(nil, &wire.EpochSyncRequest{})},
		"no transactions":       {transactions, good[:8]},
		"cut transactions":      {transactions, good[:len(good)-1]},
		"loose transactions":    {transactions, append(bytes.Clone(good), 1, 0, 0, 0, 9)},
		"too many transactions": {transactions, many(maxBatch + 1)},
		"unsigned transaction":  {transactions, appendBatch(nil, time.Now(), forged)},
		"one transaction twice": {transactions, appendBatch(bytes.Clone(good), time.Now(), transfer(primitives.SecretKeyFromSeed(primitives.ED25519, "x"), 1))},
		"a block and a field":   {blocks, append(wire.Append(nil, &wire.Block{Block: block(7)}), 0x98, 0x06, 0x01)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := run(t, "a", how{libp2p: true})
			x := run(t, "x", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
			a.connected(t, 1)
			x.connected(t, 1)
			x.reached(t, a)
			x.publish(t, bad.on, bad.data)
			eventually(t, "banned", time.Minute, func() bool { return a.way.isBanned(x.way.me) })
			a.connected(t, 0)
			eventually(t, "gone", time.Minute, func() bool { return len(a.way.host.Network().ConnsToPeer(x.way.me)) == 0 })
			if _, err := x.way.Dial(t.Context(), a.info()); err == nil {
				eventually(t, "refused", time.Minute, func() bool { return len(a.way.host.Network().ConnsToPeer(x.way.me)) == 0 })
			}
			if len(a.got) != 0 {
				t.Errorf("the node got %T, want nothing", (<-a.got).Msg)
			}
		})
	}
}

func many(n int) (b []byte) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x")
	for i := range n {
		b = appendBatch(b, time.Now(), transfer(key, primitives.Nonce(i)))
	}
	return b
}

// TestGossipFloodBansPeer: messages above the rate are dropped, and a peer that continues is
// banned. Others are unaffected.
func TestGossipFloodBansPeer(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	x := run(t, "x", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	a.connected(t, 2)
	b.connected(t, 1)
	x.connected(t, 1)
	x.reached(t, a)
	b.reached(t, a)
	c := a.way.o.Counters
	for i := range 3 * blockRate * burst {
		x.publish(t, blocks, wire.Append(nil, &wire.Block{Block: block(primitives.Height(1000 + i))}))
	}
	eventually(t, "flooded", time.Minute, func() bool { return c.flooded.Load() > 0 })
	b.broadcastBlock(5)
	next(t, a, isHeight(5))
	eventually(t, "banned", 60*time.Second, func() bool {
		for range 100 {
			x.publish(t, blocks, wire.Append(nil, &wire.Block{Block: block(primitives.Height(time.Now().UnixNano()))}))
		}
		return a.way.isBanned(x.way.me)
	})
	a.connected(t, 1)
	b.broadcastBlock(6)
	next(t, a, isHeight(6))
}

// TestGossipBeforeHandshakeIsIgnored: gossip before the handshake has no effect.
func TestGossipBeforeHandshakeIsIgnored(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	x := bare(t, "x", nil)
	m, err := multiaddr(a.way.Addr(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.host.Connect(t.Context(), addrInfo(a, m)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "joined", time.Minute, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.reaches(blocks, a.way.me)
	})
	held := func() uint64 { return a.way.o.Counters.held.Load() }
	if err := x.topics[blocks].Publish(t.Context(), wire.Append(nil, &wire.Block{Block: block(7)})); err != nil {
		t.Fatal(err)
	}
	eventually(t, "held", time.Minute, func() bool { return held() == 1 })
	if len(a.got) != 0 || a.way.o.Counters.heard.Load() != 0 {
		t.Error("gossip before the handshake was counted or delivered")
	}
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	a.connected(t, 1)
	b.connected(t, 1)
	b.reached(t, a)
	b.publish(t, blocks, wire.Append(nil, &wire.Block{Block: block(7)}))
	if d, _ := next(t, a, isHeight(7)); d.From != b.key.PublicKey() {
		t.Errorf("from %v", d.From)
	}
}

// TestGossipRateAllowsBursts: a burst is allowed, then only the rate; a lasting excess is a flood.
func TestGossipRateAllowsBursts(t *testing.T) {
	now := time.Unix(1000, 0)
	count := func(r *rates, n, size int, is allowance) (out int) {
		for range n {
			if r.allow(now, blocks, size) == is {
				out++
			}
		}
		return out
	}
	r := newRates()
	if n := count(r, 1000, 1, allowed); n != blockRate*burst {
		t.Errorf("%d at once, want %d", n, blockRate*burst)
	}
	now = now.Add(time.Second)
	if n := count(r, 1000, 1, allowed); n != blockRate {
		t.Errorf("%d a second, want %d", n, blockRate)
	}
	if n := count(r, maxExcess, 1, flooding); n != 1000-blockRate*burst+1000-blockRate {
		t.Errorf("%d messages above the limit", n)
	}
	for range 100 { // a live chain, on which gossip never pauses
		if now = now.Add(time.Second); count(r, 1, 1, allowed) != 1 {
			t.Error("one a second is too much")
		}
	}
	if count(r, 2*blockRate*burst, 1, flooding) != 0 {
		t.Error("never forgiven")
	}
	if n := count(newRates(), 100, blockBytes, allowed); n != burst {
		t.Errorf("%d large ones, want %d", n, burst)
	}
}

// TestRelayedGossipStaysBelowPeersLimits: a node relays at most half of what its peers accept,
// whatever it receives: two flooding peers do not make honest nodes ban each other. Known messages
// are neither relayed nor verified again.
func TestRelayedGossipStaysBelowPeersLimits(t *testing.T) {
	verified := make(chan struct{}, 1<<20)
	a := run(t, "a", how{libp2p: true, look: func(m wire.Message) {
		if _, is := m.(*wire.Transaction); is {
			verified <- struct{}{}
		}
	}})
	var kept, sent, tooMuch int
	same := transfer(a.key, 7)
	for i := range 2000 {
		if a.way.validateTransactions(a, a.key.PublicKey(), appendBatch(nil, time.UnixMilli(int64(i)), same)) == near.Pass {
			sent++
		}
	}
	if sent != 1 || len(verified) != 1 {
		t.Errorf("one transaction in 2000 batches is handed on %d times, its signature looked at %d times", sent, len(verified))
	}
	forged := primitives.NewSignedTransaction(same.Transaction, primitives.ZeroED25519Signature)
	if a.way.validateTransactions(a, a.key.PublicKey(), appendBatch(nil, time.Now(), forged)) != near.Refuse {
		t.Error("a known transaction with another signature is taken")
	}
	neighbour, begun := newRates(), time.Now()
	for h := range 5 * blockRate * burst {
		b := block(primitives.Height(h + 1))
		frame := wire.Append(nil, &wire.Block{Block: b})
		if a.way.validateBlock(a, a.key.PublicKey(), frame) != near.Pass {
			kept++
			a.way.mu.Lock()
			if a.way.notGossiped.state(b.Hash(), time.Now()) == never {
				t.Error("a block that is not relayed by gossip will not go over connections")
			}
			a.way.mu.Unlock()
		} else if neighbour.allow(time.Now(), blocks, 2*len(frame)) != allowed {
			tooMuch++
		}
	}
	if tooMuch > 0 {
		t.Errorf("a neighbour takes %d of them for too much", tooMuch)
	}
	if most := blockRate*burst/2 + int(time.Since(begun).Seconds()*blockRate) + 1; 5*blockRate*burst-kept > most {
		t.Errorf("%d blocks are handed on, at most %d", 5*blockRate*burst-kept, most)
	}
	own := 0
	for i := range 200 { // its own messages are within the same limit
		x := *transfer(a.key, primitives.Nonce(i))
		x.Transaction.Actions = []primitives.Action{&primitives.FunctionCall{Args: make([]byte, 1<<20)}}
		tx := primitives.NewSignedTransaction(x.Transaction, x.Signature)
		a.way.mu.Lock()
		a.way.joined[transactions][a.way.me], a.way.outbound[a.way.me] = time.Now(), time.Now()
		a.way.mu.Unlock()
		if a.way.Spread(a.key.PublicKey(), &wire.Routed{Author: a.key.PublicKey(), Body: &wire.ForwardTx{SignedTransaction: *tx}}) {
			own++
		}
	}
	if own == 0 || own > 20 {
		t.Errorf("%d transactions of 1 MiB are spread at once", own)
	}
}

// TestUnvalidatedBlockIsSentAfterImport: a block that could not be validated when it arrived by
// gossip is sent over connections once it is imported.
func TestUnvalidatedBlockIsSentAfterImport(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	c := run(t, "c", how{libp2p: true, boot: []wire.PeerInfo{b.info()}})
	b.connected(t, 2)
	a.reached(t, b)
	b.reached(t, a, c)
	b.verdict.Store(int32(near.Hold))
	a.broadcastBlock(8)
	next(t, b, isHeight(8))
	b.broadcastBlock(8) // its parent is present
	if d, _ := next(t, c, isHeight(8)); d.From != b.key.PublicKey() {
		t.Errorf("from %v", d.From)
	}
}

// TestGossipPanicIsReported: a panic while handling a gossip message is reported, and the transport
// continues.
func TestGossipPanicIsReported(t *testing.T) {
	told := make(chan any, 10)
	a := run(t, "a", how{libp2p: true, alarm: func(reason any) { told <- reason }, look: func(m wire.Message) {
		if x, is := m.(*wire.Block); is && x.Block.Header.Height == 5 {
			panic("over a block")
		}
	}})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	a.connected(t, 1)
	b.connected(t, 1)
	b.reached(t, a)
	b.broadcastBlock(5)
	select {
	case reason := <-told:
		if reason != "over a block" {
			t.Errorf("%v", reason)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was delivered within a minute")
	}
	b.broadcastBlock(6)
	next(t, a, isHeight(6))
}

// TestPublishedHashesAreRemembered: published hashes are remembered until enough newer ones arrive.
func TestPublishedHashesAreRemembered(t *testing.T) {
	r, now := newRecent(), time.Unix(1000, 0)
	key := primitives.HashBytes([]byte("x"))
	if r.state(key, now) != never {
		t.Error("known before")
	}
	r.put(key, now)
	for after, want := range map[time.Duration]age{0: fresh, time.Second: fresh, 3 * time.Second: stale, 59 * time.Second: stale, 2 * time.Minute: never} {
		if got := r.state(key, now.Add(after)); got != want {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
	for i := range 3 * maxRecent {
		r.put(primitives.HashBytes(borsh.AppendUint32(nil, uint32(i))), now)
	}
	if n := len(r.now) + len(r.before); n > 2*maxRecent {
		t.Errorf("%d are remembered", n)
	}
}

// FuzzBatch: any input is refused, or decodes to transactions that encode to the same batch.
func FuzzBatch(f *testing.F) {
	f.Add(many(1))
	f.Add(many(3))
	f.Add([]byte("12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		txs, err := readBatch(b)
		if err != nil {
			return
		}
		again := bytes.Clone(b[:8])
		for _, tx := range txs {
			again = appendBatch(again, time.Time{}, tx)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x is read, and written %x", b, again)
		}
	})
}

// TestNodeKeyConvertsToPeerID: a node key converts to a libp2p id and back; other key types do not.
func TestNodeKeyConvertsToPeerID(t *testing.T) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	id, err := idOf(key.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	priv, err := privateOf(key)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := peer.IDFromPrivateKey(priv); err != nil || same != id {
		t.Errorf("%v, %v, want %v", same, err, id)
	}
	if back, err := PeerOf(id); err != nil || back != key.PublicKey() {
		t.Errorf("%v, %v", back, err)
	}
	other := primitives.SecretKeyFromSeed(primitives.SECP256K1, "a")
	if _, err := idOf(other.PublicKey()); err == nil {
		t.Error("a name of another kind of key")
	}
	if _, err := New(Options{Key: other, Listen: netip.MustParseAddrPort(loopback)}); err == nil {
		t.Error("a node of another kind of key")
	}
}

// hostileBatch returns a batch of one validly signed transaction with n one-byte actions.
func hostileBatch(n int) []byte {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x")
	tx := primitives.Transaction{SignerID: "a.near", PublicKey: key.PublicKey(), ReceiverID: "b.near"}
	b := tx.AppendBorsh(nil)
	b = append(borsh.AppendUint32(b[:len(b)-4], uint32(n)), make([]byte, n)...)
	h := primitives.HashBytes(b)
	sig := key.Sign(h[:])
	b = sig.AppendBorsh(b)
	return append(borsh.AppendUint32(borsh.AppendUint64(nil, 1), uint32(len(b))), b...)
}

// TestLargeBatchIsRefusedBeforeDecoding: a small batch that would take much memory is refused
// before it is decoded, and so is a batch that is too long.
func TestLargeBatchIsRefusedBeforeDecoding(t *testing.T) {
	if txs, err := readBatch(hostileBatch(100)); err != nil || len(txs[0].Transaction.Actions) != 100 {
		t.Fatalf("the bomb is none: %v", err)
	}
	data := hostileBatch(maxTx - 200)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readBatch(data); !errors.Is(err, borsh.ErrTooMuch) {
		t.Errorf("%v", err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 32<<20 {
		t.Errorf("%d MiB for it", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	for _, n := range []int{maxTx, 16 << 20} {
		if _, err := readBatch(hostileBatch(n)); !errors.Is(err, errBatch) {
			t.Errorf("%d actions: %v", n, err)
		}
	}
}

// TestGossipIsReportedToTap: gossip is reported to Tap on both sides, as frames without a
// connection.
func TestGossipIsReportedToTap(t *testing.T) {
	type heard struct {
		node string
		sent bool
		from string
		kind string
	}
	seen := make(chan heard, 1000)
	tap := func(node string) func(tcp.Tapped) {
		return func(x tcp.Tapped) {
			if x.Conn != 0 {
				return
			}
			m, err := wire.Decode(x.Frame)
			if err != nil {
				t.Errorf("%s, sent %v: %v", node, x.Sent, err)
				return
			}
			seen <- heard{node, x.Sent, x.Remote, m.Kind().String()}
		}
	}
	a := run(t, "a", how{libp2p: true, tap: tap("a")})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.over()}, tap: tap("b")})
	a.connected(t, 1)
	b.connected(t, 1)
	a.reached(t, b)
	a.broadcastBlock(7)
	next(t, b, isHeight(7))
	a.Post(near.RouteTo{Target: wire.ToPeer(b.key.PublicKey()), Body: &wire.ForwardTx{SignedTransaction: *transfer(a.key, 1)}})
	next[*wire.Routed](t, b, nil)
	who := a.key.PublicKey().String()
	want := map[heard]bool{}
	for _, kind := range []string{(&wire.Block{}).Kind().String(), (&wire.Transaction{}).Kind().String()} {
		want[heard{"a", true, "", kind}], want[heard{"b", false, who, kind}] = true, true
	}
	for len(want) > 0 {
		select {
		case x := <-seen:
			if !want[x] {
				t.Errorf("%+v, or it for the second time", x)
			}
			delete(want, x)
		case <-time.After(10 * time.Second): // a block may arrive over a connection first
			t.Fatalf("Tap did not get %+v", want)
		}
	}
}
