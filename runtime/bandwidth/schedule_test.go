package bandwidth

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/congestion"
)

// TestRemainingIsDistributedAsInVectorA48: nearcore
// runtime/runtime/src/bandwidth_scheduler/distribute_remaining.rs:199-252.
func TestRemainingIsDistributedAsInVectorA48(t *testing.T) {
	t.Parallel()
	type link struct{ from, to int }
	every := func(n int) (all []link) {
		for i := range n * n {
			all = append(all, link{i / n, i % n})
		}
		return all
	}
	for _, tt := range []struct {
		name          string
		send, receive []uint64
		open          []link
		want          map[link]uint64
	}{
		{"one link", []uint64{50}, []uint64{100}, every(1), map[link]uint64{{0, 0}: 50}},
		{"closed", []uint64{50}, []uint64{100}, nil, nil},
		{"three", []uint64{300, 300, 300}, []uint64{300, 300, 300}, every(3), map[link]uint64{
			{0, 0}: 100, {0, 1}: 100, {0, 2}: 100, {1, 0}: 100, {1, 1}: 100, {1, 2}: 100, {2, 0}: 100, {2, 1}: 100, {2, 2}: 100}},
		{"two to one", []uint64{100, 100, 100}, []uint64{100, 100, 100}, []link{{1, 0}, {1, 2}, {0, 1}, {2, 1}},
			map[link]uint64{{0, 1}: 50, {1, 0}: 50, {1, 2}: 50, {2, 1}: 50}},
		{"two congested", []uint64{300, 300, 300}, []uint64{300, 300, 300}, []link{{0, 0}, {0, 1}, {1, 0}, {1, 2}, {2, 0}},
			map[link]uint64{{0, 0}: 100, {0, 1}: 200, {1, 0}: 100, {1, 2}: 200, {2, 0}: 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := len(tt.send)
			open, want := make([]bool, n*n), make([]uint64, n*n)
			for _, l := range tt.open {
				open[l.from*n+l.to] = true
			}
			for l, v := range tt.want {
				want[l.from*n+l.to] = v
			}
			if got := distributeRemaining(tt.send, tt.receive, open); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// TestRemainingBandwidthIsNearlyAllUsed follows nearcore's randomized_test: budgets are not
// exceeded, forbidden links get nothing, and if all links are allowed at least 99 % of the possible
// bandwidth is granted.
func TestRemainingBandwidthIsNearlyAllUsed(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		n := 1 + rng.IntN(9)
		allOpen := rng.IntN(2) == 0
		budgets := func() []uint64 {
			b := make([]uint64, n)
			for i := range b {
				if rng.IntN(10) > 0 {
					b[i] = rng.Uint64N(1000)
				}
			}
			return b
		}
		send, receive, open := budgets(), budgets(), make([]bool, n*n)
		for i := range open {
			open[i] = allOpen || rng.IntN(2) == 0
		}
		grants := distributeRemaining(send, receive, open)
		sent, received, total := make([]uint64, n), make([]uint64, n), uint64(0)
		for i, g := range grants {
			sent[i/n] += g
			received[i%n] += g
			total += g
			if g > 0 && !open[i] {
				t.Fatalf("closed link %d got %d", i, g)
			}
		}
		var sendAll, receiveAll uint64
		for i := range n {
			if sent[i] > send[i] || received[i] > receive[i] {
				t.Fatalf("budgets %v, %v passed: %v", send, receive, grants)
			}
			sendAll, receiveAll = sendAll+send[i], receiveAll+receive[i]
		}
		if allOpen && total < min(sendAll, receiveAll)*99/100 {
			t.Fatalf("%d granted of %v to %v", total, send, receive)
		}
	}
}

// slowSchedule is a second implementation of the scheduler, with maps and lists as in nearcore.
func slowSchedule(prev *State, in *Input) (State, map[[2]primitives.ShardID]uint64) {
	type link struct{ s, r primitives.ShardID }
	status := map[primitives.ShardID]Status{}
	for _, st := range in.Statuses {
		status[st.Shard] = st
	}
	allowed := func(l link) bool {
		r, ok := status[l.r]
		s := status[l.s]
		return ok && !r.Missing && !s.Missing && (!r.FullyCongested || r.AllowedSender == l.s)
	}
	allowance, grant := map[link]uint64{}, map[link]uint64{}
	for _, a := range prev.Links {
		allowance[link{a.Sender, a.Receiver}] = a.Allowance
	}
	sendLeft, receiveLeft := map[primitives.ShardID]uint64{}, map[primitives.ShardID]uint64{}
	for _, id := range in.Shards {
		sendLeft[id], receiveLeft[id] = in.Params.MaxShard, in.Params.MaxShard
	}
	try := func(l link, v uint64) bool {
		if !allowed(l) || sendLeft[l.s] < v || receiveLeft[l.r] < v {
			return false
		}
		sendLeft[l.s] -= v
		receiveLeft[l.r] -= v
		grant[l] += v
		if allowance[l] > v {
			allowance[l] -= v
		} else {
			allowance[l] = 0
		}
		return true
	}
	each := func(do func(link)) {
		for _, s := range in.Shards {
			for _, r := range in.Shards {
				do(link{s, r})
			}
		}
	}
	each(func(l link) {
		allowance[l] = min(in.Params.MaxAllowance, allowance[l]+in.Params.MaxShard/uint64(len(in.Shards)))
	})
	each(func(l link) { try(l, in.Params.Base) })

	type wish struct {
		l     link
		steps []uint64
	}
	lists := map[uint64][]wish{}
	requests := slices.Clone(in.Requests)
	sort.SliceStable(requests, func(i, j int) bool { return requests[i].Shard < requests[j].Shard })
	values := in.Params.Values()
	for _, from := range requests {
		for _, r := range from.Requests {
			w, total := wish{l: link{from.Shard, primitives.ShardID(r.ToShard)}}, in.Params.Base
			for i, v := range values {
				if r.Bitmap[i/8]>>(i%8)&1 == 1 && v > total {
					w.steps = append(w.steps, v-total)
					total = v
				}
			}
			if len(w.steps) > 0 && slices.Contains(in.Shards, w.l.s) && slices.Contains(in.Shards, w.l.r) {
				lists[allowance[w.l]] = append(lists[allowance[w.l]], w)
			}
		}
	}
	rng := primitives.NewChaCha20Rng(in.Seed)
	for len(lists) > 0 {
		var top uint64
		for a := range lists {
			top = max(top, a)
		}
		list := lists[top]
		delete(lists, top)
		primitives.Shuffle(rng, list)
		for _, w := range list {
			if try(w.l, w.steps[0]) && len(w.steps) > 1 {
				lists[allowance[w.l]] = append(lists[allowance[w.l]], wish{w.l, w.steps[1:]})
			}
		}
	}

	sendLinks, receiveLinks := map[primitives.ShardID]uint64{}, map[primitives.ShardID]uint64{}
	each(func(l link) {
		if allowed(l) {
			sendLinks[l.s]++
			receiveLinks[l.r]++
		}
	})
	average := func(left, links map[primitives.ShardID]uint64) []primitives.ShardID {
		key := map[primitives.ShardID]uint64{}
		for _, id := range in.Shards {
			if links[id] > 0 {
				key[id] = left[id] / links[id]
			}
		}
		order := slices.Clone(in.Shards)
		sort.SliceStable(order, func(i, j int) bool { return key[order[i]] < key[order[j]] })
		return order
	}
	senders, receivers := average(sendLeft, sendLinks), average(receiveLeft, receiveLinks)
	for _, s := range senders {
		for _, r := range receivers {
			if l := (link{s, r}); allowed(l) {
				g := min(sendLeft[s]/sendLinks[s], receiveLeft[r]/receiveLinks[r])
				grant[l] += g
				sendLeft[s] -= g
				receiveLeft[r] -= g
				sendLinks[s]--
				receiveLinks[r]--
			}
		}
	}
	next, out := State{}, map[[2]primitives.ShardID]uint64{}
	each(func(l link) {
		next.Links = append(next.Links, LinkAllowance{l.s, l.r, allowance[l]})
		out[[2]primitives.ShardID{l.s, l.r}] = grant[l]
	})
	ids := make([]uint64, len(in.Shards))
	for i, id := range in.Shards {
		ids[i] = uint64(id)
	}
	inner := primitives.HashBytes(appendUint64s(ids))
	next.SanityCheck = primitives.HashBytes(append(prev.SanityCheck[:], inner[:]...))
	return next, out
}

// appendUint64s appends the borsh encoding of a Vec<u64>, byte by byte.
func appendUint64s(v []uint64) []byte {
	b := []byte{byte(len(v)), byte(len(v) >> 8), byte(len(v) >> 16), byte(len(v) >> 24)}
	for _, x := range v {
		for i := range 8 {
			b = append(b, byte(x>>(8*i)))
		}
	}
	return b
}

// randomInput returns a random input of the scheduler for one block. Layouts change, some shards are unknown,
// missing or congested, and requests repeat and overlap.
func randomInput(t testing.TB, rng *rand.Rand) *Input {
	ids := rng.Perm(12)[:1+rng.IntN(8)]
	in := &Input{Params: paramsFor(t, len(ids))}
	for i := range in.Seed {
		in.Seed[i] = byte(rng.Uint32())
	}
	for _, id := range ids {
		in.Shards = append(in.Shards, primitives.ShardID(id))
	}
	for _, id := range rng.Perm(12) {
		if rng.IntN(8) > 0 {
			in.Statuses = append(in.Statuses, Status{Shard: primitives.ShardID(id), Missing: rng.IntN(6) == 0,
				FullyCongested: rng.IntN(4) == 0, AllowedSender: primitives.ShardID(rng.IntN(12))})
		}
		if rng.IntN(3) == 0 {
			continue
		}
		from := SenderRequests{Shard: primitives.ShardID(id)}
		for range rng.IntN(10) {
			r := primitives.BandwidthRequest{ToShard: uint16(rng.IntN(12))}
			for i := range r.Bitmap {
				r.Bitmap[i] = byte(rng.IntN(256) & rng.Int()) // a quarter of the bits
			}
			from.Requests = append(from.Requests, r)
		}
		in.Requests = append(in.Requests, from)
	}
	return in
}

func TestScheduleMatchesSlowReference(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	var state State
	for round := range 3000 {
		in := randomInput(t, rng)
		before := State{Links: slices.Clone(state.Links), SanityCheck: state.SanityCheck}
		got, grants := Schedule(&state, in)
		want, wantGrants := slowSchedule(&before, in)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: state\n got %v\nwant %v", round, got, want)
		}
		if !reflect.DeepEqual(state, before) {
			t.Fatalf("round %d: the old state was changed", round)
		}
		send, receive := map[primitives.ShardID]uint64{}, map[primitives.ShardID]uint64{}
		for l, w := range wantGrants {
			g := grants.Get(l[0], l[1])
			if g != w {
				t.Fatalf("round %d: grant %v = %d, want %d", round, l, g, w)
			}
			send[l[0]] += g
			receive[l[1]] += g
		}
		for _, id := range in.Shards {
			if send[id] > in.Params.MaxShard || receive[id] > in.Params.MaxShard {
				t.Fatalf("round %d: shard %d sends %d, receives %d", round, id, send[id], receive[id])
			}
		}
		state = got
	}
}

// idle returns the status of n shards without congestion and missed chunks.
func idle(t testing.TB, n int) *Input {
	in := &Input{Params: paramsFor(t, n)}
	for i := range n {
		in.Shards = append(in.Shards, primitives.ShardID(i))
		in.Statuses = append(in.Statuses, Status{Shard: primitives.ShardID(i)})
	}
	return in
}

// TestSingleShardGetsAllBandwidth checks that without requests a single shard gets all bandwidth to
// itself, and that its allowance is its fair share minus the base bandwidth.
func TestSingleShardGetsAllBandwidth(t *testing.T) {
	t.Parallel()
	in := idle(t, 1)
	next, grants := Schedule(&State{}, in)
	if got := grants.Get(0, 0); got != 4_500_000 {
		t.Errorf("grant = %d, want 4500000", got)
	}
	if want := []LinkAllowance{{0, 0, 4_400_000}}; !slices.Equal(next.Links, want) {
		t.Errorf("links = %v, want %v", next.Links, want)
	}
	if got := grants.Get(0, 1) + grants.Get(1, 0); got != 0 {
		t.Errorf("grants of unknown shards = %d, want 0", got)
	}
}

// TestLargestReceiptIsGrantedOnIdleNetwork checks that on an idle network a request for the maximum
// value is granted in the same block, and that the other links keep their base bandwidth.
func TestLargestReceiptIsGrantedOnIdleNetwork(t *testing.T) {
	t.Parallel()
	in := idle(t, 6)
	r, ok := in.Params.Request(4, []uint64{in.Params.MaxReceiptSize})
	if !ok {
		t.Fatal("no request")
	}
	in.Requests = []SenderRequests{{Shard: 2, Requests: []primitives.BandwidthRequest{r}}}
	_, grants := Schedule(&State{}, in)
	if got := grants.Get(2, 4); got < in.Params.MaxReceiptSize {
		t.Errorf("grant = %d, want at least %d", got, in.Params.MaxReceiptSize)
	}
	for _, to := range in.Shards {
		if got := grants.Get(2, to); got < in.Params.Base {
			t.Errorf("grant to %d = %d, want the base at least", to, got)
		}
	}
}

func TestStatusFollowsCongestionAndMissedChunks(t *testing.T) {
	t.Parallel()
	full := primitives.CongestionInfo{ReceiptBytes: 1 << 40, AllowedShard: 3}
	for _, tt := range []struct {
		c    congestion.Control
		want Status
	}{
		{congestion.Control{Config: &june86.CongestionControl}, Status{Shard: 5}},
		{congestion.Control{Config: &june86.CongestionControl, Missed: 1}, Status{Shard: 5, Missing: true}},
		{congestion.Control{Config: &june86.CongestionControl, Info: full}, Status{Shard: 5, FullyCongested: true, AllowedSender: 3}},
		{congestion.Control{Config: &june86.CongestionControl, Missed: 125}, Status{Shard: 5, Missing: true, FullyCongested: true}},
	} {
		if got := NewStatus(5, &tt.c); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.c, got, tt.want)
		}
	}
}

// BenchmarkSchedule is nearcore's worst case (scheduler.rs
// measure_scheduler_worst_case_performance): all links request all values and have different allowances. It
// also measures the usual case without requests.
func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{1, 6, 32} {
		for _, load := range []string{"idle", "worst"} {
			in := idle(b, n)
			state, _ := Schedule(&State{}, in)
			if load == "worst" {
				next := in.Params.MaxAllowance - in.Params.MaxShard/uint64(n)
				for i := range state.Links {
					state.Links[i].Allowance = next
					next--
				}
				for _, from := range in.Shards {
					r := SenderRequests{Shard: from}
					for _, to := range in.Shards {
						r.Requests = append(r.Requests, primitives.BandwidthRequest{ToShard: uint16(to), Bitmap: [5]byte{255, 255, 255, 255, 255}})
					}
					in.Requests = append(in.Requests, r)
				}
			}
			b.Run(fmt.Sprintf("shards=%d/load=%s", n, load), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Schedule(&state, in)
				}
			})
		}
	}
}
