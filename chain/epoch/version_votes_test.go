package epoch

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestVotesAreCountedByStake: each block producer's stake counts once for its latest vote, and
// percentages are of all block producers' stake, rounded down (nearcore
// chain/epoch-manager/src/lib.rs:554). A chunk-only producer and a producer without a block do not
// vote.
func TestVotesAreCountedByStake(t *testing.T) {
	t.Parallel()
	info := &EpochInfo{Validators: stakes("a", 500, 300, 199, 1000, 1), BlockProducers: []ValidatorID{0, 1, 2, 4, 0, 0}}
	a := newAggregator(primitives.EpochID{}, info)
	for id, v := range []primitives.ProtocolVersion{89, 88, 90, 0, 89} {
		a.Votes[id], a.Voted[id] = v, v != 0
	}
	v := a.votes(info)
	if v.Total != primitives.Yocto(1000) || len(v.Stakes) != 3 {
		t.Fatalf("votes %+v", v)
	}
	for i, want := range []struct {
		version primitives.ProtocolVersion
		percent uint64
	}{{88, 30}, {89, 50}, {90, 19}} {
		if x := v.Stakes[i]; x.Version != want.version || v.Percent(x.Stake) != want.percent {
			t.Errorf("votes %d: version %d with %d%%, want %+v", i, x.Version, v.Percent(x.Stake), want)
		}
	}
	for newest, want := range map[primitives.ProtocolVersion]struct {
		stake   uint64
		version primitives.ProtocolVersion
	}{87: {1000, 89}, 88: {700, 89}, 89: {199, 90}, 90: {0, 0}} {
		if stake, version := v.Above(newest); stake != primitives.Yocto(want.stake) || version != want.version {
			t.Errorf("above %d: %v for %d, want %+v", newest, stake, version, want)
		}
		if a.votesAbove(newest) != (want.version != 0) {
			t.Errorf("votesAbove(%d) = %v", newest, !a.votesAbove(newest))
		}
	}
	if got := (&VersionVotes{}).Percent(primitives.Yocto(1)); got != 0 {
		t.Errorf("%d%% of no stake", got)
	}
}
