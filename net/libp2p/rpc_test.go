package libp2p

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/network"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// gossips opens a gossip stream of a host without gossipsub, which would open another one.
func (w *Transport) gossips(t testing.TB, to *node) network.Stream {
	t.Helper()
	m, err := multiaddr(to.way.Addr(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.host.Connect(t.Context(), addrInfo(to, m)); err != nil {
		t.Fatal(err)
	}
	s, err := w.host.NewStream(t.Context(), to.way.me, pubsub.GossipSubID_v11)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Reset() })
	return s
}

// rpcOf returns an RPC with as many copies of what as fit.
func rpcOf(size int, what []byte) []byte {
	body := bytes.Repeat(what, size/len(what))
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// within returns a length-delimited field.
func within(id byte, inner []byte) []byte {
	return append(binary.AppendUvarint([]byte{id<<3 | 2}, uint64(len(inner))), inner...)
}

// TestRPCMemoryIsProportionalToLength: an RPC takes memory in proportion to its length, not to its
// number of entries, before and after the handshake.
func TestRPCMemoryIsProportionalToLength(t *testing.T) {
	names := bytes.Repeat([]byte{1<<3 | 2, 0}, 1<<20)
	for _, x := range []struct {
		name string
		met  bool
		rpc  []byte
	}{
		{"empty messages", false, rpcOf(8<<20, []byte{2<<3 | 2, 0})},
		{"empty subscriptions", false, rpcOf(8<<20, []byte{1<<3 | 2, 0})},
		{"empty messages of a peer", true, rpcOf(4<<20, []byte{2<<3 | 2, 0})},
		{"empty subscriptions of a peer", true, rpcOf(4<<20, []byte{1<<3 | 2, 0})},
		{"empty words", true, rpcOf(4<<20, within(controlField, bytes.Repeat([]byte{3<<3 | 2, 0}, 1<<20)))},
		{"empty names", true, rpcOf(4<<20, within(controlField, within(2, names)))},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := run(t, "a", how{libp2p: true})
			from := bare(t, "b", nil)
			from.stop()
			if x.met {
				key := primitives.SecretKeyFromSeed(primitives.ED25519, "b")
				if _, err := from.dial(t, a).Write(handshakeFrame(key, a)); err != nil {
					t.Fatal(err)
				}
				a.connected(t, 1)
			}
			s := from.gossips(t, a)
			before := allocatedBytes()
			for range 4 {
				if _, err := s.Write(x.rpc); err != nil {
					break // the stream was closed
				}
			}
			_ = s.CloseWrite()
			_ = s.SetReadDeadline(time.Now().Add(20 * time.Second))
			_, _ = io.Copy(io.Discard, s)
			if n, most := allocatedBytes()-before, uint64(24*len(x.rpc)); n > most {
				t.Errorf("%d MiB of RPCs took %d MiB", 4*len(x.rpc)>>20, n>>20)
			}
		})
	}
}

// allocatedBytes returns the memory allocated so far.
func allocatedBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestValidationUsesHalfTheCores: validating transactions of peers uses at most half of the cores,
// a bounded number of batches of each peer waits, and blocks do not wait behind them.
func TestValidationUsesHalfTheCores(t *testing.T) {
	var at, most atomic.Int32
	release := make(chan struct{})
	a := run(t, "a", how{libp2p: true, look: func(m wire.Message) {
		if _, ok := m.(*wire.Transaction); ok {
			for n := at.Add(1); ; {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			<-release
			at.Add(-1)
		}
	}})
	good := run(t, "good", how{libp2p: true, boot: []wire.PeerInfo{a.over()}})
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x")
	x := bare(t, "x", nil)
	x.stop()
	if _, err := x.dial(t, a).Write(handshakeFrame(key, a)); err != nil {
		t.Fatal(err)
	}
	c := a.way.o.Counters
	eventually(t, "met", time.Minute, func() bool { return c.met.Load() == 2 })
	good.reached(t, a)
	s := x.gossips(t, a)
	const n = 500
	var rpc []byte
	for i := range n {
		b := appendBatch(nil, time.Now(), transfer(key, primitives.Nonce(i)))
		rpc = append(rpc, within(2, append(within(2, b), within(4, []byte(a.way.name(transactions)))...))...)
	}
	if _, err := s.Write(append(binary.AppendUvarint(nil, uint64(len(rpc))), rpc...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "heard", time.Minute, func() bool { return c.heard.Load() >= n })
	good.broadcastBlock(1)
	next(t, a, isHeight(1))
	eventually(t, "all that is too much is dropped", 10*time.Second, func() bool { return c.lost.Load() == n-maxChecks })
	if half := max(1, runtime.GOMAXPROCS(0)/2); int(most.Load()) != half {
		t.Errorf("%d are looked at at once, want %d", most.Load(), half)
	}
	close(release)
	eventually(t, "all are looked at", time.Minute, func() bool { a.way.mu.Lock(); defer a.way.mu.Unlock(); return len(a.way.checks) == 0 })
}
