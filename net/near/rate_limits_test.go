package near

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestBucketFollowsNearcore takes tokens as the tests of nearcore's TokenBucket do
// (chain/network/src/rate_limits/token_bucket.rs).
func TestBucketFollowsNearcore(t *testing.T) {
	const ms = time.Millisecond
	type step struct {
		at    time.Duration
		take  int // number of tokens that the bucket has; then it is empty
		empty bool
	}
	for _, x := range []struct {
		name  string
		rate  Rate
		steps []step
	}{
		{"initial tokens", Rate{10, 5, 1}, []step{{0, 5, true}}},
		{"initial is above maximum", Rate{2, 5, 1}, []step{{0, 2, true}}},
		{"maximum 0", Rate{0, 0, 0}, []step{{0, 0, true}, {time.Hour, 0, true}}},
		{"maximum 0 with refill", Rate{0, 0, 5}, []step{{0, 0, true}, {time.Hour, 0, true}}},
		{"refill", Rate{1000, 0, 10}, []step{{0, 0, true}, {500 * ms, 5, true}}},
		{"no refill", Rate{10, 10, 0}, []step{{0, 10, true}, {100 * time.Second, 0, true}}},
		{"parts of tokens", Rate{5, 0, 0.4},
			[]step{{0, 0, true}, {time.Second, 0, true}, {2 * time.Second, 0, true}, {3 * time.Second, 1, true}}},
		{"full bucket", Rate{5, 2, 1},
			[]step{{2 * time.Second, 0, false}, {9 * time.Second, 5, true}, {20 * time.Second, 5, true}}},
		{"clock goes back", Rate{10, 10, 1},
			[]step{{0, 10, true}, {-100 * time.Second, 0, true}, {0, 0, true}, {time.Second, 1, true}}},
		{"large rate", Rate{1 << 31, 1, 3e38},
			[]step{{0, 1, true}, {time.Second, 1000, false}, {1000 * time.Hour, 1000, false}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := bucket{uint64(min(x.rate.Initial, x.rate.Maximum)) * tokenParts, start}
			for i, s := range x.steps {
				for n := range s.take {
					if !b.take(start.Add(s.at), x.rate) {
						t.Fatalf("step %d: %d tokens, want %d", i, n, s.take)
					}
				}
				if s.empty && b.take(start.Add(s.at), x.rate) {
					t.Fatalf("step %d: more than %d tokens", i, s.take)
				}
			}
		})
	}
	b, now := bucket{0, start}, start // a token of a low rate comes in time if it is asked for often
	for range 99_900 {
		if now = now.Add(10 * ms); b.take(now, Rate{10, 0, 0.001}) {
			t.Fatalf("a token after %v", now.Sub(start))
		}
	}
	tokens := 0
	for range 200 {
		if now = now.Add(10 * ms); b.take(now, Rate{10, 0, 0.001}) {
			tokens++
		}
	}
	if tokens != 1 {
		t.Errorf("%d tokens after 1001 s, want 1", tokens)
	}
}

// TestEachVariantHasItsRateKey: neard's get_key_and_token_cost, for every message that this node
// reads.
func TestEachVariantHasItsRateKey(t *testing.T) {
	unlimited := map[string]bool{"": true, "HandshakeFailure": true, "LastEdge": true, "Disconnect": true, "Challenge": true}
	for _, m := range []wire.Message{
		&wire.LastEdge{}, &wire.RoutingTable{}, &wire.NonceRequest{}, &wire.PeersRequest{}, &wire.PeersResponse{},
		&wire.HeadersRequest{}, &wire.Headers{}, &wire.BlockRequest{}, &wire.Block{}, &wire.Transaction{},
		&wire.Disconnect{}, &wire.Challenge{}, &wire.StateHeaderRequest{}, &wire.StatePartRequest{},
		&wire.StateResponse{}, &wire.EpochSyncRequest{}, &wire.EpochSyncResponse{}, &wire.OptimisticBlock{},
		&wire.SnapshotHosts{}, &wire.AccountsData{}, &wire.HandshakeFailure{},
	} {
		if name := wire.Variant(m); (rateKeyOf(m) == "") != unlimited[name] || name == "" {
			t.Errorf("%T: variant %q, key %q", m, name, rateKeyOf(m))
		}
	}
	for _, x := range []struct {
		body wire.Body
		want string
	}{
		{&wire.BlockApproval{}, "BlockApproval"}, {&wire.PartialChunk{}, "VersionedPartialEncodedChunk"},
		{&wire.ChunkForward{}, "PartialEncodedChunkForward"},
		{&wire.PartialWitness{}, "PartialEncodedStateWitness"}, {&wire.VersionedWitness{}, "PartialEncodedStateWitness"},
		{&wire.PartialWitnessForward{}, "PartialEncodedStateWitnessForward"},
		{&wire.VersionedWitnessForward{}, "PartialEncodedStateWitnessForward"},
		{&wire.ChunkEndorsement{}, "ChunkEndorsement"}, {&wire.ForwardTx{}, "ForwardTx"},
		{&wire.WitnessAck{}, "ChunkStateWitnessAck"},
		{&wire.RoutedStatePartRequest{}, ""}, {&wire.RoutedStateHeaderRequest{}, ""}, {&wire.StateRequestAck{}, ""},
		{&wire.Ping{}, ""}, {&wire.Pong{}, ""},
	} {
		if got := rateKeyOf(&wire.Routed{Body: x.body}); got != x.want {
			t.Errorf("%T: %q, want %q", x.body, got, x.want)
		}
	}
}

// TestConfiguredRatesDropMessages: messages above a limit are dropped and counted, each peer has its
// own limit, and the connection stays open. Without configuration, only epoch sync is limited.
func TestConfiguredRatesDropMessages(t *testing.T) {
	optimistic := func() wire.Message { return &wire.OptimisticBlock{Block: &primitives.OptimisticBlock{}} }
	proof := func() wire.Message { return &wire.EpochSyncRequest{} }
	for _, x := range []struct {
		name  string
		rates map[string]Rate
		m     func() wire.Message
		wants [3]int // of ten messages each: at once, after a second, after a minute
	}{
		{"optimistic blocks by default", nil, optimistic, [3]int{10, 10, 10}},
		{"proofs by default", nil, proof, [3]int{1, 0, 1}},
		{"proofs without a limit", map[string]Rate{}, proof, [3]int{10, 10, 10}},
		{"optimistic blocks", map[string]Rate{"OptimisticBlock": {Maximum: 4, Initial: 4, Refill: 2}}, optimistic,
			[3]int{4, 2, 4}},
		{"few at first", map[string]Rate{"OptimisticBlock": {Maximum: 9, Initial: 0, Refill: 0.1}}, optimistic,
			[3]int{0, 0, 6}},
		{"none", map[string]Rate{"OptimisticBlock": {}}, optimistic, [3]int{0, 0, 0}},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newTestNetwork(t, 1)
			a := f.add("a", func(c *Config) { withoutDialling(c); c.Rates = x.rates })
			b, d := f.add("b", withoutDialling), f.add("d", withoutDialling)
			f.dial(b, a, wire.T2)
			f.dial(d, a, wire.T2)
			f.run(3 * time.Second)
			send := func(from *testNode) (taken int) {
				for range 10 {
					ev := Received{Conn: a.ready[wire.T2][from.me].id, Msg: x.m()}
					for _, e := range a.Step(f.now, ev) {
						if _, ok := e.(Deliver); ok {
							taken++
						}
					}
				}
				return taken
			}
			all := 0
			for i, wait := range []time.Duration{0, time.Second, time.Minute} {
				f.run(wait)
				got := send(b)
				if all += got; got != x.wants[i] {
					t.Errorf("after %v, %d messages are taken, want %d", wait, got, x.wants[i])
				}
			}
			if got, want := a.Info().RateLimited[wire.Variant(x.m())], uint64(30-all); got != want {
				t.Errorf("%d counted, want %d", got, want)
			}
			if len(a.ready[wire.T2]) != 2 {
				t.Error("a connection was closed")
			}
			if x.wants[0] > 0 && send(d) == 0 {
				t.Error("the messages of one peer use up the limit of another")
			}
		})
	}
}

// TestAdmissionDropsBeforeVerification: a copy of a routed message is dropped for duplicateWindow, and
// a message above a limit is not remembered, so that it is no copy. Admit does not look at signatures.
// The PeerManager decides the same for messages that the caller has not admitted, and only for these.
func TestAdmissionDropsBeforeVerification(t *testing.T) {
	f := newTestNetwork(t, 1)
	one := map[string]Rate{"ForwardTx": {Maximum: 1, Initial: 1, Refill: 10}} // one in 100 ms
	a := f.add("a", func(c *Config) { withoutDialling(c); c.Rates = one })
	b := f.add("b", withoutDialling)
	f.dial(b, a, wire.T2)
	f.run(3 * time.Second)
	ping := func(n uint64) *wire.Routed {
		m := wire.NewRouted(b.Key, wire.ToPeer(a.me), &wire.Ping{Nonce: n, Source: b.me}, 0)
		m.Signature = primitives.ZeroED25519Signature[:64] + primitives.Signature(rune('a'+n))
		return m
	}
	tx := wire.NewRouted(b.Key, wire.ToPeer(a.me), &wire.ForwardTx{}, 0)
	const ms = time.Millisecond
	x, began := a.NewAdmission(f.now), f.now
	for i, s := range []struct {
		at   time.Duration
		m    wire.Message
		want bool
	}{
		{0, ping(1), true}, {0, ping(1), false}, {0, ping(2), true}, {50 * ms, ping(1), false}, {51 * ms, ping(1), true},
		{60 * ms, ping(1).Bare(), true}, {60 * ms, ping(1).Bare(), true}, // the connection has only one copy of it
		{70 * ms, &wire.PeersRequest{}, true}, {70 * ms, &wire.PeersRequest{}, true},
		{100 * ms, tx, true}, {101 * ms, tx, false}, {199 * ms, tx, false}, {210 * ms, tx, true}, {211 * ms, ping(2), true},
	} {
		if got := x.Admit(began.Add(s.at), s.m); got != s.want {
			t.Errorf("message %d at %v: admitted %v, want %v", i, s.at, got, s.want)
		}
	}
	if got := a.Info().RateLimited["ForwardTx"]; got != 2 {
		t.Errorf("%d are counted as limited, want 2", got)
	}
	c := a.ready[wire.T2][b.me].id
	for _, s := range []struct {
		admitted bool
		want     int
	}{{false, 1}, {true, 4}} {
		f.run(time.Second)
		taken := 0
		for range 4 {
			for _, e := range a.Step(f.now, Received{Conn: c, Msg: tx, Admitted: s.admitted}) {
				if _, ok := e.(Deliver); ok {
					taken++
				}
			}
		}
		if taken != s.want {
			t.Errorf("admitted by the caller: %v; %d of 4 messages are delivered, want %d", s.admitted, taken, s.want)
		}
	}
}

// TestManagerIsFullOfTransactions: after more than maxTxsPerBlock transactions the manager is full until
// the next block.
func TestManagerIsFullOfTransactions(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	f.dial(b, a, wire.T2)
	f.run(3 * time.Second)
	c := a.ready[wire.T2][b.me].id
	tx := wire.NewRouted(b.Key, wire.ToPeer(a.me), &wire.ForwardTx{}, 0)
	for i := range 2 * maxTxsPerBlock {
		if a.IsFull() != (i > maxTxsPerBlock) {
			t.Fatalf("full after %d transactions: %v", i, a.IsFull())
		}
		a.Step(f.now, Received{Conn: c, Msg: tx, Admitted: true})
	}
	h := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	a.Step(f.now, Received{Conn: c, Msg: &wire.Block{Block: &primitives.Block{Header: h.Init()}}})
	if a.IsFull() {
		t.Error("full after a block")
	}
}
