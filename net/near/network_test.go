package near

import (
	"bytes"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// testNetwork connects nodes in one process. Frames are encoded and decoded, and take latency. All
// choices come from a seed.
type testNetwork struct {
	t       testing.TB
	now     time.Time
	rng     *rand.Rand
	latency func() time.Duration
	nodes   map[string]*testNode
	byAddr  map[netip.AddrPort]*testNode
	ends    map[ConnID]end
	nextID  ConnID
	queue   deliveries
	seq     int
	log     []string // what was written, "a>b kind"
	drop    func(from, to string) bool
}

// testNode is a node of a testNetwork, with what it delivered.
type testNode struct {
	*PeerManager
	name      string
	delivered []Deliver
	verify    func(VerifyAnnouncements) AnnouncementsVerified
}

type end struct {
	owner, other *testNode
	peer         ConnID // the other end
	open         bool
	last         time.Time // nothing arrives before this
}

type delivery struct {
	at  time.Time
	seq int
	do  func()
}

type deliveries []delivery

func (d deliveries) Len() int { return len(d) }
func (d deliveries) Less(i, j int) bool {
	return d[i].at.Before(d[j].at) || d[i].at.Equal(d[j].at) && d[i].seq < d[j].seq
}
func (d deliveries) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *deliveries) Push(x any)   { *d = append(*d, x.(delivery)) }
func (d *deliveries) Pop() any {
	old := *d
	x := old[len(old)-1]
	*d = old[:len(old)-1]
	return x
}

var start = time.Unix(1_800_000_000, 0)

func newTestNetwork(t testing.TB, seed uint64) *testNetwork {
	f := &testNetwork{t: t, now: start, rng: rand.New(rand.NewPCG(seed, 0)), nodes: map[string]*testNode{}, byAddr: map[netip.AddrPort]*testNode{},
		ends: map[ConnID]end{}}
	f.latency = func() time.Duration { return time.Millisecond }
	return f
}

func keyFor(name string) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, name)
}

func idOf(name string) wire.PeerID { return keyFor(name).PublicKey() }

// add starts a node; change may change its config.
func (f *testNetwork) add(name string, change func(*Config)) *testNode {
	c := Config{Key: keyFor(name), Genesis: wire.GenesisID{ChainID: "test"}, Version: 86, Oldest: 83, Draw: f.rng.IntN,
		ListenAddr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(len(f.nodes) + 1)}), 24567)}
	if change != nil {
		change(&c)
	}
	m := &testNode{PeerManager: New(c, f.now), name: name, verify: func(j VerifyAnnouncements) AnnouncementsVerified {
		return AnnouncementsVerified{From: j.From, Good: j.List}
	}}
	f.nodes[name], f.byAddr[c.ListenAddr] = m, m
	return m
}

func (m *testNode) info() wire.PeerInfo { return wire.PeerInfo{ID: m.me, Addr: m.ListenAddr} }

// step passes an event to a node and carries out the effects.
func (f *testNetwork) step(m *testNode, ev Event) {
	for _, e := range m.Step(f.now, ev) {
		f.carryOut(m, e)
	}
}

func (f *testNetwork) later(d time.Duration, do func()) {
	f.seq++
	heap.Push(&f.queue, delivery{f.now.Add(d), f.seq, do})
}

func (f *testNetwork) carryOut(m *testNode, e Effect) {
	switch e := e.(type) {
	case Write:
		f.send(m, e)
	case Close:
		x := f.ends[e.Conn]
		f.log = append(f.log, fmt.Sprintf("%s closes %v", m.name, e.Reason))
		if x.open {
			f.shut(e.Conn)
		}
	case Dial:
		f.later(f.latency(), func() { f.connect(m, e) })
	case Deliver:
		m.delivered = append(m.delivered, e)
	case VerifyAnnouncements:
		f.later(0, func() { f.step(m, m.verify(e)) })
	}
}

func (f *testNetwork) connect(m *testNode, e Dial) {
	other := f.byAddr[e.Peer.Addr]
	if other == nil || f.drop != nil && f.drop(m.name, other.name) {
		f.step(m, DialFailed(e))
		return
	}
	a, b := f.nextID+1, f.nextID+2
	f.nextID = b
	f.ends[a] = end{m, other, b, true, f.now}
	f.ends[b] = end{other, m, a, true, f.now}
	f.step(other, Accepted{b, netip.AddrPortFrom(m.ListenAddr.Addr(), 50000)})
	f.step(m, Dialled{a, e.Peer, e.Tier})
}

// dial opens a connection without a Dial effect.
func (f *testNetwork) dial(from, to *testNode, tier wire.Tier) {
	f.connect(from, Dial{to.info(), tier})
}

func (f *testNetwork) send(m *testNode, w Write) {
	x, known := f.ends[w.Conn]
	if !known {
		return
	}
	f.log = append(f.log, fmt.Sprintf("%s>%s %v", m.name, x.other.name, w.Msg.Kind()))
	frame := wire.Append(nil, w.Msg)
	at := f.now.Add(f.latency())
	if at.Before(x.last) {
		at = x.last
	}
	x.last = at
	f.ends[w.Conn] = x
	f.later(at.Sub(f.now), func() {
		if f.drop != nil && f.drop(m.name, x.other.name) {
			return
		}
		msg, err := wire.Decode(frame)
		if err != nil {
			f.t.Fatalf("%s sends %x: %v", m.name, frame, err)
		}
		if again := wire.Append(nil, msg); !bytes.Equal(again, frame) {
			f.t.Fatalf("%s sends %x, read as %x", m.name, frame, again)
		}
		f.step(x.other, Received{Conn: x.peer, Msg: msg})
	})
}

// shut closes both ends of a connection; what was written before arrives.
func (f *testNetwork) shut(id ConnID) {
	x := f.ends[id]
	x.open = false
	f.ends[id] = x
	if y := f.ends[x.peer]; y.open {
		y.open = false
		f.ends[x.peer] = y
		at := x.last
		if at.Before(f.now) {
			at = f.now
		}
		f.later(at.Sub(f.now), func() { f.step(x.other, Closed{x.peer}) })
	}
}

// run lets time pass.
func (f *testNetwork) run(d time.Duration) {
	until := f.now.Add(d)
	for {
		next, who := until, (*testNode)(nil)
		for _, name := range sortedNames(f.nodes) {
			if w := f.nodes[name].Wake(); w.Before(next) {
				next, who = w, f.nodes[name]
			}
		}
		if len(f.queue) > 0 && !f.queue[0].at.After(next) {
			x := heap.Pop(&f.queue).(delivery)
			f.now = x.at
			x.do()
			continue
		}
		if who == nil {
			f.now = until
			return
		}
		if next.After(f.now) {
			f.now = next
		}
		f.step(who, Tick{})
		if w := who.Wake(); !w.After(f.now) {
			f.t.Fatalf("%s wants to be woken at %v, which is now", who.name, w)
		}
	}
}

func sortedNames(m map[string]*testNode) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// wrote returns what was written from one node to another, without handshakes.
func (f *testNetwork) wrote(from, to string) string {
	var out []string
	for _, line := range f.log {
		if kind, ok := strings.CutPrefix(line, from+">"+to+" "); ok {
			out = append(out, kind)
		}
	}
	return strings.Join(out, " ")
}

// low and high return the name with the lower and the higher id.
func low(a, b string) (string, string) {
	if idOf(a) > idOf(b) {
		a, b = b, a
	}
	return a, b
}
