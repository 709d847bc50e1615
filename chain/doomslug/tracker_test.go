package doomslug

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

const ms = int64(1_000_000)

// delays returns the delays of nearcore's tests.
func delays() Delays {
	return Delays{Endorsement: 400 * ms, Skip: 1000 * ms, MaxWait: 3000 * ms, ChunkWait: [2]uint64{1, 3}}
}

func block(n byte) primitives.Hash { return primitives.HashBytes([]byte{n}) }

// text describes approvals: "E2" approves the tip for height 2, "S1>3" skips from height 1 to 3.
func text(ps []Proposal) string {
	var out []string
	for _, p := range ps {
		if p.Inner.Skip {
			out = append(out, fmt.Sprintf("S%d>%d", p.Inner.SkipHeight, p.Target))
		} else {
			out = append(out, fmt.Sprintf("E%d", p.Target))
		}
	}
	return strings.Join(out, " ")
}

// TestApprovalsFollowNearcoresTimes repeats nearcore's test_endorsements_and_skips_basic
// (doomslug.rs:820) with its numbers.
func TestApprovalsFollowNearcoresTimes(t *testing.T) {
	t.Parallel()
	type step struct {
		tip   byte // 0: none
		final primitives.Height
		wait  int64 // ms since the step before
		want  string
		most  bool // more than ten approvals are due at once
		pass  bool // the time passes without a Tick
	}
	var now int64
	d := New(delays(), 0, now)
	for i, s := range []step{
		{tip: 1, final: 1, wait: 399, want: ""},
		{wait: 1, want: "E2"},
		{wait: 0, want: ""},
		{wait: 599, want: ""},
		{wait: 1, want: "S1>3"},
		{tip: 2, final: 0, wait: 400, want: ""}, // height 2 was skipped, so its block is not approved
		{wait: 600, pass: true},
		{tip: 3, final: 0, wait: 400, want: "E4"},
		{wait: 799, want: ""},
		{wait: 1, want: "S3>5"},
		{wait: 800 + 499, want: ""},
		{wait: 1, want: "S3>6"},
		{wait: 500 + 899, want: ""},
		{wait: 1, want: "S3>7"},
		{wait: 100, want: ""},
		{tip: 5, final: 4, wait: 400, want: ""},
		{wait: 100_000, most: true},
		{wait: 17, pass: true},
		{tip: 6, final: 4, wait: 400, want: ""},
		{wait: 699, want: ""},
		{wait: 1, want: "S6>8"},
	} {
		if s.tip != 0 {
			d.Tip(block(s.tip), primitives.Height(s.tip), s.final, now)
		}
		now += s.wait * ms
		if s.pass {
			continue
		}
		got := d.Tick(now, false)
		if s.most {
			if len(got) <= 10 {
				t.Errorf("step %d: %d approvals after 100 s, want more than 10", i, len(got))
			}
			continue
		}
		if text(got) != s.want {
			t.Fatalf("step %d at %d ms: %q, want %q", i, now/ms, text(got), s.want)
		}
	}
}

// TestSkipDelayGrowsUpToMaxWait repeats nearcore's doomslug.rs
// test_get_delay_reacts_to_config_updates.
func TestSkipDelayGrowsUpToMaxWait(t *testing.T) {
	t.Parallel()
	d := delays()
	for _, tt := range []struct {
		skip, most int64
		n          primitives.Height
		want       int64
	}{
		{1000, 3000, 0, 1000}, {1000, 3000, 2, 1000}, {1000, 3000, 3, 1100}, {1000, 3000, 5, 1300}, {1000, 3000, 50, 3000},
		{2000, 5000, 5, 2600}, {2000, 5000, 50, 5000}, {1000, 3000, ^primitives.Height(0), 3000},
	} {
		d.Skip, d.MaxWait = tt.skip*ms, tt.most*ms
		if got := d.skip(tt.n); got != tt.want*ms {
			t.Errorf("%d ms, n = %d: %d ms, want %d", tt.skip, tt.n, got/ms, tt.want)
		}
	}
}

func approvers(stakes ...[2]uint64) []chain.Approver {
	out := make([]chain.Approver, len(stakes))
	for i, s := range stakes {
		out[i] = chain.Approver{AccountID: primitives.AccountID(fmt.Sprintf("test%d", i+1)), StakeThis: primitives.Yocto(s[0]), StakeNext: primitives.Yocto(s[1])}
	}
	return out
}

func vote(account int, parent byte, target primitives.Height) *primitives.Approval {
	return &primitives.Approval{
		Inner: primitives.NewApprovalInner(block(parent), primitives.Height(parent), target), Target: target,
		Signature: primitives.Signature(fmt.Sprintf("%d on %d for %d", account, parent, target)), AccountID: primitives.AccountID(fmt.Sprintf("test%d", account)),
	}
}

// votesFor returns the approvals equal to a in the tracker; nil: there are none.
func (t *Tracker) votesFor(a *primitives.Approval) *votes {
	if h := t.heights[a.Target]; h != nil {
		return h.byInner[a.Inner]
	}
	return nil
}

// TestHeightIsReadyFromTwoThirdsOn repeats nearcore's doomslug.rs test_doomslug_approvals. The
// stakes are 2, 1, 3 and 1; five of seven are sufficient.
func TestHeightIsReadyFromTwoThirdsOn(t *testing.T) {
	t.Parallel()
	d, all := New(delays(), 0, 0), approvers([2]uint64{2}, [2]uint64{1}, [2]uint64{3}, [2]uint64{1})
	var now int64
	for i, s := range []struct {
		account int
		parent  byte
		target  primitives.Height
		wait    int64 // ms before this approval
		since   int64 // time in ms at which it became ready; -1: not ready
	}{
		{1, 1, 2, 0, -1}, {3, 1, 4, 0, -1}, {4, 1, 4, 0, -1}, {4, 1, 4, 100, -1}, {2, 1, 4, 0, 100}, {1, 1, 4, 0, 100},
		{4, 1, 2, 0, -1}, {3, 1, 2, 200, 300}, {2, 2, 4, 0, -1},
	} {
		now += s.wait * ms
		a := vote(s.account, s.parent, s.target)
		if !d.Vote(a, all, now) {
			t.Fatalf("vote %d was dropped", i)
		}
		v := d.votesFor(a)
		if got := v.update(now); got != (s.since >= 0) || got && v.readySince != s.since*ms {
			t.Errorf("vote %d: ready %v since %d ms, want since %d", i, got, v.readySince/ms, s.since)
		}
	}
	if got := d.LargestReady(); got != 4 {
		t.Errorf("largest ready height = %d, want 4", got)
	}
}

// TestNewVoteReplacesVoteForSameTarget repeats nearcore's doomslug.rs
// test_doomslug_one_approval_per_target_height.
func TestNewVoteReplacesVoteForSameTarget(t *testing.T) {
	t.Parallel()
	d, all := New(delays(), 0, 0), approvers([2]uint64{2, 0}, [2]uint64{1, 2}, [2]uint64{3, 3}, [2]uint64{2, 2})
	old, now := vote(1, 1, 4), vote(1, 3, 4) // a skip of height 1, an endorsement of 3
	stake := func(a *primitives.Approval) [2]uint64 {
		var have [2]uint64
		if v := d.votesFor(a); v != nil {
			for i := range v.approvers {
				if v.signatures[i] != "" {
					have[0] += v.approvers[i].StakeThis.Lo
					have[1] += v.approvers[i].StakeNext.Lo
				}
			}
		}
		return have
	}
	for i, s := range []struct {
		account  int
		parent   byte
		old, now [2]uint64
	}{
		{1, 1, [2]uint64{2, 0}, [2]uint64{}}, {1, 1, [2]uint64{2, 0}, [2]uint64{}}, {2, 1, [2]uint64{3, 2}, [2]uint64{}},
		{3, 1, [2]uint64{6, 5}, [2]uint64{}}, {1, 3, [2]uint64{4, 5}, [2]uint64{2, 0}}, {2, 3, [2]uint64{3, 3}, [2]uint64{3, 2}},
		{3, 3, [2]uint64{}, [2]uint64{6, 5}}, {3, 3, [2]uint64{}, [2]uint64{6, 5}},
	} {
		d.Vote(vote(s.account, s.parent, 4), all, 0)
		if got := stake(old); got != s.old {
			t.Errorf("vote %d: stake for the old parent = %v, want %v", i, got, s.old)
		}
		if got := stake(now); got != s.now {
			t.Errorf("vote %d: stake for the new parent = %v, want %v", i, got, s.now)
		}
	}
	if d.votesFor(old) != nil {
		t.Error("an approval that nobody gives any more is still tracked")
	}
}

// TestReadyWaitsForMissingChunks: with sufficient approvals a height is ready at once if all chunks
// are available, otherwise after T*chunk_wait (doomslug.rs:722).
func TestReadyWaitsForMissingChunks(t *testing.T) {
	t.Parallel()
	d, all := New(delays(), 0, 0), approvers([2]uint64{1}, [2]uint64{1}, [2]uint64{1})
	d.Tip(block(5), 5, 4, 0)
	ready := func(now int64, chunks, want bool, again int64) {
		t.Helper()
		if got, wait := d.Ready(6, chunks, now); got != want || wait != again {
			t.Errorf("at %d: ready %v, ask again at %d, want %v, %d", now, got, wait, want, again)
		}
	}
	ready(0, true, false, 0)
	for i := 1; i <= 2; i++ {
		d.Vote(vote(i, 5, 6), all, 10*ms)
		ready(10*ms, true, false, 0) // two of three do not exceed two thirds
	}
	d.Vote(vote(3, 5, 6), all, 10*ms)
	ready(10*ms, true, true, 0)
	until := 10*ms + 1000*ms/3 // T(6 - 4) is a second
	ready(10*ms, false, false, until+1)
	ready(until, false, false, until+1)
	ready(until+1, false, true, 0)
	if got := d.Approvals(6, all); len(got) != 3 || got[1] != vote(2, 5, 6).Signature {
		t.Errorf("approvals = %q, want three", got)
	}
	if got := d.Approvals(7, all); !reflect.DeepEqual(got, make([]primitives.Signature, 3)) {
		t.Errorf("approvals of a height without votes = %q, want none", got)
	}
	// The approvals are for the previous tip, so they do not count on another tip of the same
	// height.
	d.Tip(block(99), 5, 4, 20*ms)
	ready(20*ms, true, false, 0)
}

// TestVotesOutsideMaxAheadAreDropped: approvals are kept for heights from the tip's to MaxAhead
// above it, and only of approvers.
func TestVotesOutsideMaxAheadAreDropped(t *testing.T) {
	t.Parallel()
	d, all := New(delays(), 0, 0), approvers([2]uint64{1})
	d.Tip(block(100), 100, 98, 0)
	for target, want := range map[primitives.Height]bool{99: false, 100: true, 101: true, 100 + MaxAhead: true, 100 + MaxAhead + 1: false, 0: false, ^primitives.Height(0): false} {
		if got := d.Vote(vote(1, 100, target), all, 0); got != want {
			t.Errorf("vote for %d on tip 100: accepted %v, want %v", target, got, want)
		}
	}
	if d.Vote(vote(2, 100, 101), all, 0) {
		t.Error("the vote of an unknown account was accepted")
	}
	if len(d.heights) != 3 {
		t.Errorf("%d heights are tracked, want 3", len(d.heights))
	}
	d.Tip(block(121), 121, 98, 0)
	if len(d.heights) != 1 {
		t.Errorf("%d heights are tracked after the tip moved, want 1: old ones go", len(d.heights))
	}
}

// TestSkipsOfTwoBranchesShareATarget: an approval that skips contains a height and no block, so
// approvals for one target may come with two lists of approvers.
func TestSkipsOfTwoBranchesShareATarget(t *testing.T) {
	t.Parallel()
	d := New(delays(), 0, 0)
	d.Tip(block(1), 1, 0, 0)
	few, many := approvers([2]uint64{1}), approvers([2]uint64{1}, [2]uint64{1}, [2]uint64{1})
	if !d.Vote(vote(1, 1, 4), few, 0) || !d.Vote(vote(3, 1, 4), many, 0) {
		t.Error("a vote was dropped")
	}
	if got := d.Approvals(4, many); got[0] == "" || got[1] != "" {
		t.Errorf("approvals = %q, want the first one's", got)
	}
}

// TestNoHeightIsApprovedTwice: no height is approved twice, not even after a restart. LargestTarget
// covers each approval.
func TestNoHeightIsApprovedTwice(t *testing.T) {
	t.Parallel()
	d := New(delays(), 7, 0) // 7 was on disk
	d.Tip(block(5), 5, 4, 0)
	if got := text(d.Tick(500*ms, false)); got != "" {
		t.Errorf("%q, want nothing: 6 may have been voted for before", got)
	}
	d.Tip(block(7), 7, 5, 500*ms)
	got := d.Tick(500*ms, true) // forced: no delay
	if text(got) != "E8" || got[0].LargestTarget != 8 {
		t.Errorf("%q with %v, want E8 and 8 on disk", text(got), got)
	}
	p := d.SkipTo(20, 600*ms)
	if text([]Proposal{p}) != "S7>20" || p.LargestTarget != 20 || d.LargestTarget() != 20 {
		t.Errorf("skip = %+v, want from 7 to 20", p)
	}
}

// TestApprovalIsDueExactlyAtNext: no approval is due before the time that Next returns, and one is
// due at that time.
func TestApprovalIsDueExactlyAtNext(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	d, now, height := New(delays(), 0, 0), int64(0), primitives.Height(0)
	for range 2000 {
		if rng.IntN(4) == 0 {
			height += primitives.Height(1 + rng.IntN(3))
			d.Tip(block(byte(height)), height, height-min(height, primitives.Height(rng.IntN(5))), now)
		}
		next := d.Next()
		if next > now && len(d.Tick(next-1, false)) != 0 {
			t.Fatalf("an approval was due before %d", next)
		}
		before := *d
		now = max(now, next)
		if got := d.Tick(now, false); len(got) == 0 && d.pending == before.pending && d.timerHeight == before.timerHeight {
			t.Fatalf("no approval was due at %d", now)
		}
	}
}

// TestEqualEventsGiveEqualOutputs: equal events cause equal outputs, whatever the order of maps.
func TestEqualEventsGiveEqualOutputs(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (out []string) {
		rng := rand.New(rand.NewPCG(seed, 1))
		all := approvers([2]uint64{3, 1}, [2]uint64{2, 2}, [2]uint64{4, 0}, [2]uint64{1, 1}, [2]uint64{5, 3})
		d, now, height := New(delays(), 0, 0), int64(0), primitives.Height(1)
		d.Tip(block(1), 1, 0, 0)
		for range 300 {
			now += rng.Int64N(700) * ms
			switch rng.IntN(4) {
			case 0:
				out = append(out, text(d.Tick(now, rng.IntN(3) == 0)))
			case 1, 2:
				parent := byte(max(height, 3) - primitives.Height(rng.IntN(3)))
				ok := d.Vote(vote(1+rng.IntN(6), parent, height+primitives.Height(rng.IntN(4))), all, now)
				out = append(out, fmt.Sprint(ok, d.LargestReady()))
			case 3:
				target := height + 1 + primitives.Height(rng.IntN(3))
				ready, wait := d.Ready(target, rng.IntN(2) == 0, now)
				out = append(out, fmt.Sprint(ready, wait, d.Approvals(target, all)))
				if ready && rng.IntN(2) == 0 {
					height = target
					d.Tip(block(byte(height)), height, height-2, now)
				}
			}
		}
		return out
	}
	for seed := range uint64(20) {
		if a, b := run(seed), run(seed); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}

// TestDelayFarAheadDoesNotOverflow: the delay of a height very far above the final block is
// MaxWait, without an overflow of 64 bits. A sole validator that skips nothing can be that far
// ahead.
func TestDelayFarAheadDoesNotOverflow(t *testing.T) {
	t.Parallel()
	d := Delays{Skip: 1 << 48, MaxWait: 1 << 48}
	for _, n := range []primitives.Height{0, 3, 327_000, 330_000, 1 << 20, 1 << 40} {
		if got := d.skip(n); got != 1<<48 {
			t.Errorf("%d heights: %d", n, got)
		}
	}
}
