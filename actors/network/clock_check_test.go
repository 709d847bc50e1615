package network

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// second is the time between two blocks of the tests.
const second = time.Second

// clockRun passes blocks to a check. early returns by how much block i arrives before its timestamp,
// and by how much its timestamp is above its parent's.
func clockRun(c *clockCheck, blocks int, early func(i int) (before, above time.Duration)) {
	base := time.Unix(1_700_000_000, 0)
	for i := range blocks {
		before, above := early(i)
		at := base.Add(time.Duration(i) * second)
		hash := primitives.HashBytes(fmt.Append(nil, i))
		c.arrived("b", hash, at.Add(time.Hour)) // a late copy of another peer
		c.arrived("a", hash, at)
		c.arrived("a", hash, at.Add(-time.Hour)) // the same peer again
		made := uint64(at.Add(before).UnixNano())
		c.imported(hash, made, made-uint64(above))
		c.imported(hash, made, 0) // a block counts once
	}
}

// TestClockIsJudgedByBlocks: early blocks show a clock that is behind, late blocks only if none is
// in time, and a minority of false timestamps changes nothing.
func TestClockIsJudgedByBlocks(t *testing.T) {
	const ms = time.Millisecond
	usual := func(i int) time.Duration { return -time.Duration(50+i*37%400) * ms } // of the network
	off := func(by time.Duration) func(int) (time.Duration, time.Duration) {       // all blocks
		return func(i int) (time.Duration, time.Duration) { return usual(i) + by, second }
	}
	for _, x := range []struct {
		name   string
		blocks int
		early  func(i int) (before, above time.Duration)
		want   clockState
	}{
		{"clocks agree", 100, off(0), clockAgrees},
		{"few blocks", clockEnough - 1, off(90 * second), clockUnknown},
		{"enough blocks", clockEnough, off(90 * second), clockIsBehind},
		{"behind by 2 s", 100, off(2 * second), clockIsBehind},
		{"behind by less than the delay", 100, off(40 * ms), clockAgrees},
		{"ahead by 10 s", 100, off(-10 * second), clockMaybeAhead},
		{"ahead by 2 s", 100, off(-2 * second), clockAgrees},
		{"most blocks are late", 100, func(i int) (time.Duration, time.Duration) {
			if i%10 == 0 {
				return usual(i), second
			}
			return -time.Minute, second
		}, clockAgrees},
		{"a third of the producers are ahead", 99, func(i int) (time.Duration, time.Duration) {
			if i%3 == 0 {
				return 100 * second, second
			}
			return usual(i), second
		}, clockAgrees},
		{"a third of the producers are behind", 99, func(i int) (time.Duration, time.Duration) {
			if i%3 == 0 {
				return -100 * second, second
			}
			return usual(i), second
		}, clockAgrees},
		{"one producer has moved the chain 100 s ahead", 60, func(i int) (time.Duration, time.Duration) {
			if i < 30 {
				return usual(i), second
			}
			if i == 30 {
				return 100 * second, 100 * second
			}
			return 100*second - time.Duration(i-30)*second, 1
		}, clockAgrees},
		{"one of fifty producers keeps the chain 110 s ahead", 4000, func(i int) (time.Duration, time.Duration) {
			if i%50 == 0 {
				return 110 * second, 50 * second
			}
			return 110*second - time.Duration(i%50)*second, 1
		}, clockAgrees},
		{"ahead by 10 s, and every second timestamp follows its parent's", 100, func(i int) (time.Duration, time.Duration) {
			return usual(i) - 10*second, time.Duration(1 + i%2*int(second))
		}, clockMaybeAhead},
		{"the clock was corrected", 200, func(i int) (time.Duration, time.Duration) {
			if i < 140 {
				return 90 * second, second
			}
			return usual(i), second
		}, clockAgrees},
		{"the clock was set wrong", 200, func(i int) (time.Duration, time.Duration) {
			if i < 140 {
				return usual(i), second
			}
			return 90 * second, second
		}, clockIsBehind},
	} {
		t.Run(x.name, func(t *testing.T) {
			var c clockCheck
			clockRun(&c, x.blocks, x.early)
			if offset, got := c.offset(); got != x.want {
				t.Errorf("state %d with the median %v, want %d", got, offset, x.want)
			}
			if n := c.arrivals["a"].Len() + c.arrivals["b"].Len(); n != 0 || len(c.samples) > clockSamples {
				t.Errorf("%d arrivals, %d samples are kept", n, len(c.samples))
			}
			if c.forget(); len(c.samples) != 0 {
				t.Error("samples are not forgotten")
			}
		})
	}
}

// TestClockCountsOnlyImportedBlocks: blocks that peers invent are not imported, and their arrivals
// take bounded memory. An imported block without a known arrival is no sample. The arrivals from peers
// that have disconnected are forgotten.
func TestClockCountsOnlyImportedBlocks(t *testing.T) {
	var c clockCheck
	block := func(i int) primitives.Hash { return primitives.HashBytes(fmt.Append(nil, i)) }
	for i := range 5 * clockArrivals {
		c.arrived("liar", block(i), time.Unix(1, 0))
	}
	if got := c.arrivals["liar"].Len(); got != clockArrivals || len(c.samples) != 0 {
		t.Errorf("%d arrivals, %d samples", got, len(c.samples))
	}
	c.imported(primitives.HashBytes([]byte("never seen")), 1<<62, 0)
	c.imported(block(0), 1<<62, 0) // the oldest arrival is forgotten
	if len(c.samples) != 0 {
		t.Error("a block without an arrival is a sample")
	}
	c.imported(block(5*clockArrivals-1), 2e9, 0)
	if len(c.samples) != 1 || c.samples[0] != time.Second {
		t.Errorf("samples %v", c.samples)
	}
	c.arrived("a", block(-1), time.Unix(1, 0))
	c.keep(map[wire.PeerID]bool{"a": true})
	if len(c.arrivals) != 1 || c.arrivals["a"].Len() != 1 {
		t.Errorf("arrivals from %d peers are kept", len(c.arrivals))
	}
}

// TestLyingPeersDoNotSilenceClockCheck: of ten neighbours, all but one lie: they invent blocks, send
// true blocks late, and claim false heights, so that the node requests each block. The check still
// finds that the clock is behind, or that it is right. Only verified headers far above the tip end it.
func TestLyingPeersDoNotSilenceClockCheck(t *testing.T) {
	for _, x := range []struct {
		name     string
		behind   time.Duration
		verified primitives.Height // height of the verified headers above the tip
		want     clockState
	}{
		{"right clock", 0, 1, clockAgrees}, {"clock is behind", 90 * second, 1, clockIsBehind},
		{"the same, with headers of the next blocks", 90 * second, relayWindow, clockIsBehind},
		{"the node is behind", 90 * second, relayWindow + 1, clockUnknown},
	} {
		t.Run(x.name, func(t *testing.T) {
			var c clockCheck
			base := time.Unix(1_700_000_000, 0)
			invented := 0
			for tip := range primitives.Height(40) {
				made := base.Add(time.Duration(tip) * second)
				b := heightAndHash{tip + 1, primitives.HashBytes(fmt.Append(nil, "true", tip))}
				at := made.Add(300*time.Millisecond - x.behind)
				lie := func() {
					for i := range 9 {
						for range 3 * clockArrivals {
							invented++
							h := heightAndHash{tip + 1 + primitives.Height(invented)%relayWindow,
								primitives.HashBytes(fmt.Append(nil, invented))}
							c.note(wire.PeerID(fmt.Sprint("liar", i)), h, tip, tip+x.verified, at)
						}
						c.note(wire.PeerID(fmt.Sprint("liar", i)), b, tip, tip+x.verified, at.Add(20*second))
					}
				}
				lie()
				c.note("honest", b, tip, tip+x.verified, at)
				lie()
				c.imported(b.hash, uint64(made.UnixNano()), uint64(made.Add(-second).UnixNano()))
			}
			if offset, got := c.offset(); got != x.want {
				t.Errorf("state %d with the median %v, want %d", got, offset, x.want)
			}
		})
	}
}

// TestClockCheckIgnoresBlocksAwayFromTip: blocks at or below the tip, and blocks far above it, are no
// samples.
func TestClockCheckIgnoresBlocksAwayFromTip(t *testing.T) {
	const tip = 100
	for height, want := range map[primitives.Height]int{
		99: 0, tip: 0, 101: 1, tip + relayWindow: 1, tip + relayWindow + 1: 0,
	} {
		var c clockCheck
		c.note("a", heightAndHash{height, primitives.Hash{1}}, tip, tip, time.Unix(1, 0))
		if c.imported(primitives.Hash{1}, 1e9, 0); len(c.samples) != want {
			t.Errorf("height %d: %d samples, want %d", height, len(c.samples), want)
		}
	}
}

// TestClockIsReportedSparingly: a warning comes at once, again after ten minutes, and its end is
// reported once.
func TestClockIsReportedSparingly(t *testing.T) {
	var c clockCheck
	at := time.Unix(1_700_000_000, 0)
	for i, x := range []struct {
		minutes int
		s       clockState
		want    bool
	}{
		{0, clockUnknown, false}, {0, clockAgrees, false}, {1, clockIsBehind, true}, {2, clockIsBehind, false},
		{10, clockMaybeAhead, false}, {11, clockIsBehind, true}, {12, clockUnknown, false}, {13, clockAgrees, true},
		{14, clockAgrees, false}, {15, clockMaybeAhead, true},
	} {
		if got := c.report(at.Add(time.Duration(x.minutes)*time.Minute), x.s); got != x.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

// TestClockMetricsFollowResult: there is no offset until there are enough samples.
func TestClockMetricsFollowResult(t *testing.T) {
	var f Status
	for _, x := range []struct {
		r    *clockResult
		want string // offset, unless it is absent, and suspect
	}{
		{nil, "0"}, {&clockResult{0, clockUnknown}, "0"},
		{&clockResult{-200 * time.Millisecond, clockAgrees}, "-0.2 0"},
		{&clockResult{90 * time.Second, clockIsBehind}, "90 1"}, {&clockResult{-9 * time.Second, clockMaybeAhead}, "-9 1"},
	} {
		f.clock.Store(x.r)
		var got []string
		for line := range strings.Lines(string(f.Metrics(nil))) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, "troupe_network_clock") {
				got = append(got, value)
			}
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%+v: %q, want %q", x.r, got, x.want)
		}
	}
}

// TestFailedHandshakesShowClock: the median of at least skewPeers peers counts, and handshakes of the
// last skewRecent.
func TestFailedHandshakesShowClock(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	skew := func(minutes, age time.Duration) near.ClockSkew {
		return near.ClockSkew{Ahead: minutes * time.Minute, At: now.Add(-age * time.Minute)}
	}
	for _, x := range []struct {
		name  string
		list  []near.ClockSkew
		want  time.Duration
		peers int
	}{
		{"none", nil, 0, 0},
		{"two peers", []near.ClockSkew{skew(30, 0), skew(30, 0)}, 0, 2},
		{"three peers", []near.ClockSkew{skew(31, 0), skew(-50, 9), skew(30, 1)}, 30 * time.Minute, 3},
		{"an old handshake", []near.ClockSkew{skew(31, 0), skew(31, 10), skew(30, 1)}, 0, 2},
		{"ahead", []near.ClockSkew{skew(-25, 0), skew(-24, 0), skew(-26, 0)}, -25 * time.Minute, 3},
	} {
		if got, peers := handshakeSkew(x.list, now); got != x.want || peers != x.peers {
			t.Errorf("%s: %v of %d peers, want %v of %d", x.name, got, peers, x.want, x.peers)
		}
	}
}

// TestFailedHandshakesAreLogged: handshakes that failed in the last skewRecent with at least skewPeers
// peers are logged once in clockAgain, with the side of the median, while blocks do not show whether
// the clock is right. Status, and so metrics and alerts, do not take the claims of peers.
func TestFailedHandshakesAreLogged(t *testing.T) {
	now := time.Now()
	skews := func(age time.Duration, ahead ...time.Duration) (out []near.ClockSkew) {
		for i, d := range ahead {
			out = append(out, near.ClockSkew{Peer: wire.PeerID(fmt.Sprint(i)), Ahead: d, At: now.Add(-age)})
		}
		return out
	}
	const half = 30 * time.Minute
	for _, x := range []struct {
		name   string
		skews  []near.ClockSkew
		blocks int // that show that the clock is right
		want   string
	}{
		{name: "no handshake", want: ""},
		{name: "two peers", skews: skews(0, half, half), want: ""},
		{name: "three peers ahead", skews: skews(0, half, 2*half, half),
			want: "3 peers failed because the clock of this machine is behind theirs, in the median by 30m0s"},
		{name: "three peers behind", skews: skews(0, -half, -2*half, -2*half),
			want: "3 peers failed because the clock of this machine is ahead of theirs, in the median by 1h0m0s"},
		{name: "a minority differs the other way", skews: skews(0, half, -half, half), want: "is behind theirs"},
		{name: "long ago", skews: skews(2*skewRecent, half, half, half), want: ""},
		{name: "blocks show the clock", skews: skews(0, half, half, half), blocks: clockEnough, want: ""},
		{name: "too few blocks", skews: skews(0, half, half, half), blocks: clockEnough - 1, want: "is behind theirs"},
	} {
		t.Run(x.name, func(t *testing.T) {
			var text strings.Builder
			log := logrus.New()
			log.SetOutput(&text)
			a := &Actor{o: Options{Status: new(Status), Log: log}}
			clockRun(&a.clock, x.blocks, func(int) (time.Duration, time.Duration) { return 0, second })
			for range 3 {
				a.compareHandshakes(&near.Info{Skews: x.skews})
			}
			lines := strings.Count(text.String(), "\n")
			if !strings.Contains(text.String(), x.want) || lines > 1 || (lines == 1) != (x.want != "") {
				t.Errorf("logged %q, want one line with %q", text.String(), x.want)
			}
			if a.o.Status.clock.Load() != nil {
				t.Error("the status has the claims of peers")
			}
			a.clock.warned = a.clock.warned.Add(-clockAgain)
			before := text.Len()
			if a.compareHandshakes(&near.Info{Skews: x.skews}); (text.Len() > before) != (x.want != "") {
				t.Errorf("the warning was repeated: %v", text.Len() > before)
			}
		})
	}
}
