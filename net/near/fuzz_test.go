package near

import (
	"net/netip"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// FuzzStep passes any decodable message to connections before and after the handshake, twice and
// with time in between. It must not panic, every frame it writes must decode, and Wake must be in
// the future.
func FuzzStep(f *testing.F) {
	for i, x := range readRecording(f, beginning).frames {
		if i%7 == 0 {
			f.Add(wire.Append(nil, x.msg), byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte, tier byte) {
		m, err := wire.Decode(frame)
		if err != nil {
			return
		}
		n := New(Config{Key: keyFor("n"), Genesis: wire.GenesisID{ChainID: "test"}, Version: 86, Oldest: 83,
			ListenAddr: netip.MustParseAddrPort("127.0.0.1:1"), Draw: func(int) int { return 0 }}, start)
		peer := New(Config{Key: keyFor("p"), Genesis: n.Genesis, Version: 86, Oldest: 83, ListenAddr: netip.MustParseAddrPort("127.0.0.2:1")}, start)
		head := headAt(3)
		head.T1 = map[primitives.AccountID][]primitives.PublicKey{"p": {keyFor("v").PublicKey()}}
		now := start
		step := func(ev Event) {
			for _, e := range n.Step(now, ev) {
				if w, ok := e.(Write); ok {
					if _, err := wire.Decode(wire.Append(nil, w.Msg)); err != nil {
						t.Fatalf("%T is written so that it cannot be read: %v", w.Msg, err)
					}
				}
			}
		}
		step(head)
		step(Accepted{1, netip.MustParseAddrPort("127.0.0.3:1")})
		step(Accepted{2, netip.MustParseAddrPort("127.0.0.2:1")})
		hello := peer.handshake(start, wire.T2, n.me, 86, peer.propose(start, n.me))
		if tier%2 == 1 {
			hello.Tier = wire.T1
			own(hello, keyFor("v"), peer.me, start)
		}
		step(Received{Conn: 2, Msg: hello})
		for range 3 {
			step(Received{Conn: 1, Msg: m})
			step(Received{Conn: 2, Msg: m})
			now = now.Add(2 * time.Second)
			if step(Tick{}); !n.Wake().After(now) {
				t.Fatalf("to be woken at %v, which is not after %v", n.Wake(), now)
			}
		}
	})
}
