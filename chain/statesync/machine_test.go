package statesync

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// simHost is a simulated host. Times are in ms.
type simHost struct {
	delay  int64
	silent bool
	none   bool
	wrong  bool
	asked  int
	until  int64 // time at which it disconnects; 0: never
	line   int64 // ms that a part takes over its link, one after the other; 0: no limit
	free   int64 // time at which the link is free again
	sent   int
}

type later struct {
	at int64
	do func()
}

// world is a Machine with simulated hosts for two shards, in virtual time.
type world struct {
	t      *testing.T
	m      *Machine
	now    int64
	hosts  map[PeerID]*simHost
	later  []later
	banned map[PeerID]bool
	flight map[PeerID]int
	total  uint64
}

func newWorld(t *testing.T, total uint64, hosts ...*simHost) *world {
	w := &world{t: t, m: New([]primitives.ShardID{1, 2}, Options{}), hosts: map[PeerID]*simHost{}, banned: map[PeerID]bool{}, flight: map[PeerID]int{}, total: total}
	for i, h := range hosts {
		w.hosts[PeerID(fmt.Sprintf("host %d", i))] = h
	}
	return w
}

func (w *world) step(ev Event) {
	out := w.m.Step(w.now, ev)
	for _, id := range out.Ban {
		w.banned[id] = true
	}
	for _, a := range out.Ask {
		h := w.hosts[a.Peer]
		if w.banned[a.Peer] {
			w.t.Fatalf("%v is banned, and asked", a.Peer)
		}
		h.asked++
		if w.m.hosts[a.Peer].asked > MaxAsked || len(w.m.hosts[a.Peer].recent) > Rate {
			w.t.Fatalf("%v is asked too much", a.Peer)
		}
		if h.silent {
			continue
		}
		at := w.now + h.delay
		if h.line > 0 && !a.Item.Header {
			h.free = max(h.free, w.now) + h.line
			at = h.free + h.delay
			h.sent++
		}
		w.later = append(w.later, later{at, func() { w.answer(a, h) }})
	}
}

func (w *world) answer(a Ask, h *simHost) {
	if !w.m.Expects(a.Peer, a.Item) {
		return
	}
	if h.none {
		w.step(None{a.Peer, a.Item})
		return
	}
	w.step(Arrived{a.Peer, a.Item})
	if a.Item.Header && !h.wrong && !w.m.shard(a.Item.Shard).known {
		w.step(ItemVerified{From: a.Peer, Item: a.Item})
		w.step(Known{Shard: a.Item.Shard, Total: w.total, Has: []uint64{0}})
		return
	}
	w.step(ItemVerified{From: a.Peer, Item: a.Item, Bad: h.wrong})
}

// run continues until everything is present, and returns the time in ms.
func (w *world) run(limit int64) int64 {
	w.t.Helper()
	for w.now < limit && !w.m.Done() {
		var list Hosts
		for id, h := range w.hosts {
			if !w.banned[id] && (h.until == 0 || w.now < h.until) {
				list.List = append(list.List, Host{id, []primitives.ShardID{1, 2}})
			}
		}
		w.step(list)
		w.now += 100
		var rest []later
		due := w.later
		w.later = nil
		for _, l := range due {
			if l.at <= w.now {
				l.do()
			} else {
				rest = append(rest, l)
			}
		}
		w.later = append(w.later, rest...)
	}
	if !w.m.Done() {
		have, total := w.m.Parts()
		w.t.Fatalf("not done after %d ms: %d of %d parts", w.now, have, total)
	}
	return w.now
}

// TestPartsArriveFromSeveralHosts: parts arrive from several hosts at once, even if some are
// silent, have nothing, disconnect or send invalid data. Hosts that send invalid data are banned.
func TestPartsArriveFromSeveralHosts(t *testing.T) {
	t.Parallel()
	one := newWorld(t, 40, &simHost{delay: 1000}).run(1 << 20)
	w := newWorld(t, 40, &simHost{delay: 1000}, &simHost{delay: 1000}, &simHost{delay: 1000}, &simHost{delay: 1000})
	four := w.run(1 << 20)
	if four*3 > one {
		t.Errorf("one host: %d ms, four: %d ms", one, four)
	}
	for id, h := range w.hosts {
		if h.asked < 10 {
			t.Errorf("%v was asked %d times", id, h.asked)
		}
	}
	w = newWorld(t, 30, &simHost{delay: 200}, &simHost{silent: true}, &simHost{wrong: true, delay: 50}, &simHost{none: true, delay: 50}, &simHost{delay: 100, until: 3000})
	took := w.run(300_000)
	if !w.banned["host 2"] || len(w.banned) != 1 {
		t.Errorf("banned: %v", w.banned)
	}
	if n := w.hosts["host 1"].asked; n > 40 {
		t.Errorf("a silent host was asked %d times in %d ms", n, took)
	}
	if have, total := w.m.Parts(); have != 60 || total != 60 {
		t.Errorf("%d of %d parts", have, total)
	}
}

// TestSlowLinkDeliversWithFewRepeats: over a link on which a part takes longer than the timeout,
// everything arrives, and few items are sent twice. Most requests go to a host with a faster link.
func TestSlowLinkDeliversWithFewRepeats(t *testing.T) {
	t.Parallel()
	for _, line := range []int64{5_000, 15_000, 45_000, 90_000} {
		slow := &simHost{line: line, delay: 50}
		w := newWorld(t, 10, slow)
		took := w.run(1 << 40)
		// two headers and 16 parts are sent; one part of each shard is present at the start
		if best := 18 * line; took > 2*best {
			t.Errorf("%d s a part: it took %d s, %d are the least", line/1000, took/1000, best/1000)
		}
		if slow.sent > 18*3/2+4 {
			t.Errorf("%d s a part: 18 parts were sent %d times", line/1000, slow.sent)
		}
		slow, fast := &simHost{line: line, delay: 50}, &simHost{delay: 100}
		w = newWorld(t, 40, slow, fast)
		if took := w.run(1 << 40); took > 300_000 {
			t.Errorf("%d s a part: beside a fast host it took %d s", line/1000, took/1000)
		}
	}
}

// TestLateResponseIsAcceptedOnce: a late response is accepted once, if it was requested and is
// still missing. If the item was requested from another host meanwhile, the response of that host
// is not expected any more.
func TestLateResponseIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	m := New([]primitives.ShardID{1}, Options{})
	m.Step(0, Hosts{List: []Host{{"a", []primitives.ShardID{1}}}})
	header, part := Item{Shard: 1, Header: true}, Item{Shard: 1, Part: 1}
	m.Step(1, Arrived{"a", header})
	m.Step(1, ItemVerified{From: "a", Item: header})
	m.Step(1, Known{Shard: 1, Total: 3})
	if !m.Expects("a", part) || m.Expects("a", Item{Shard: 1, Part: 9}) || m.Expects("b", part) {
		t.Fatal("Expects differs from the requested items")
	}
	m.Step(20_000, Hosts{List: []Host{{"a", []primitives.ShardID{1}}, {"b", []primitives.ShardID{1}}}})
	if r := m.asked[part]; r == nil || r.peer != "b" {
		t.Fatalf("asked of %+v", r)
	}
	if !m.Expects("a", part) || !m.Expects("b", part) {
		t.Error("the part is not expected from both hosts")
	}
	m.Step(20_001, Arrived{"a", part})
	if m.Expects("b", part) || m.Expects("a", part) {
		t.Error("the part is expected while it is verified")
	}
	m.Step(20_002, ItemVerified{From: "a", Item: part})
	if have, _ := m.Parts(); have != 1 || m.Expects("b", part) || m.Expects("a", part) {
		t.Errorf("%d parts are present", have)
	}
	for id, want := range map[PeerID]int{"a": 0, "b": 2} {
		if got := m.hosts[id].asked; got != want {
			t.Errorf("%v has %d to do, want %d", id, got, want)
		}
	}
}

// TestOneHonestHostIsEnough: if one honest host stays connected, everything arrives, whatever the
// other hosts do.
func TestOneHonestHostIsEnough(t *testing.T) {
	t.Parallel()
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		hosts := []*simHost{{delay: r.Int63n(4000)}}
		for range r.Intn(6) {
			hosts = append(hosts, &simHost{delay: r.Int63n(12_000), silent: r.Intn(3) == 0, none: r.Intn(3) == 0, wrong: r.Intn(3) == 0, until: r.Int63n(100_000) + 1})
		}
		w := newWorld(t, uint64(1+r.Intn(30)), hosts...)
		w.run(1_000_000)
		if w.banned["host 0"] {
			t.Fatalf("seed %d: the honest one is banned", seed)
		}
	}
}

// TestUnrequestedResponseChangesNothing: responses that were not requested, and results for them,
// change nothing.
func TestUnrequestedResponseChangesNothing(t *testing.T) {
	t.Parallel()
	m := New([]primitives.ShardID{1}, Options{})
	m.Step(0, Hosts{List: []Host{{"a", []primitives.ShardID{1}}, {"b", []primitives.ShardID{2}}}})
	i := Item{Shard: 1, Header: true}
	if !m.Expects("a", i) || m.Expects("b", i) {
		t.Fatal("the wrong host got the request")
	}
	m.Step(1, Arrived{"b", i})
	m.Step(1, ItemVerified{From: "b", Item: i})
	m.Step(1, None{"b", i})
	m.Step(1, ItemVerified{From: "a", Item: i}) // it has not arrived
	if m.Headers() || !m.Expects("a", i) {
		t.Error("an unrequested response was accepted")
	}
	m.Step(1, Known{Shard: 9, Total: 3})
	m.Step(1, Known{Shard: 1, Total: 1 << 40})
	if m.Done() {
		t.Error("it is done")
	}
}

// TestInvalidPackedDataIsAnError: parts and proofs are decoded as they were encoded; invalid data
// gives an error.
func TestInvalidPackedDataIsAnError(t *testing.T) {
	t.Parallel()
	p := PackPart(3, [][]byte{{1, 2}, {}, {3}})
	got, err := UnpackPart(p)
	if err != nil || len(got) != 3 || string(got[0]) != "\x01\x02" || p.Number != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, body := range [][]byte{nil, {1, 2, 3}, p.Body[:len(p.Body)-1]} {
		if _, err := UnpackPart(&primitives.StatePart{Compressed: true, Body: body}); err == nil {
			t.Errorf("%x was read", body)
		}
		if _, err := UnpackProof(body); err == nil {
			t.Errorf("%x was read as a proof", body)
		}
	}
	if _, err := UnpackPart(&primitives.StatePart{Body: []byte{1, 0, 0, 0, 0}}); err == nil {
		t.Error("an unknown form was read")
	}
}

// TestEndOfEachRequestIsReported: a request ends once, with its time: by the item, by a refusal, or by
// the timeout. A response after the timeout is not reported.
func TestEndOfEachRequestIsReported(t *testing.T) {
	m, header := New([]primitives.ShardID{1}, Options{}), Item{Shard: 1, Header: true}
	var got []Ended
	step := func(now int64, ev Event) {
		got = append(got, m.Step(now, ev).Ended...)
	}
	step(0, Hosts{List: []Host{{ID: "a", Shards: []primitives.ShardID{1}}}})
	step(300, None{From: "a", Item: header})
	step(2000, Tick{})   // asks again after the pause
	step(12_000, Tick{}) // the time is over
	step(12_100, Arrived{From: "a", Item: header})
	step(12_200, ItemVerified{From: "a", Item: header, Own: true})
	step(20_000, Tick{})
	step(20_050, Arrived{From: "a", Item: header})
	step(20_060, Arrived{From: "a", Item: header})
	want := []Ended{{header, Refused, 300}, {header, TimedOut, 10_000}, {header, Success, 50}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestRequestsInFlightAreBounded: of many hosts and parts, at most MaxInFlight are requested at once.
// An answer makes room for the next request.
func TestRequestsInFlightAreBounded(t *testing.T) {
	m := New([]primitives.ShardID{7}, Options{})
	var hosts []Host
	for i := range MaxInFlight {
		hosts = append(hosts, Host{ID: PeerID(fmt.Sprint(i)), Shards: []primitives.ShardID{7}})
	}
	m.Step(0, Known{Shard: 7, Total: 1000})
	first := m.Step(0, Hosts{hosts}).Ask
	if len(first) != MaxInFlight {
		t.Fatalf("%d requests of 1000 parts from %d hosts, want %d", len(first), len(hosts), MaxInFlight)
	}
	a := first[0]
	if out := m.Step(1, Arrived{a.Peer, a.Item}); len(out.Ask) != 0 {
		t.Errorf("%d requests while all others are in flight, want 0", len(out.Ask))
	}
	if out := m.Step(2, ItemVerified{From: a.Peer, Item: a.Item}); len(out.Ask) != 1 {
		t.Errorf("%d requests after one ended, want 1", len(out.Ask))
	}
}
