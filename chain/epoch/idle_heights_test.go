package epoch

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/primitives"
)

// busyHeights are the heights of the rest of a block's epoch that are not idle for an account.
func (r *tree) busyHeights(n *node, account primitives.AccountID) (busy []primitives.Height) {
	r.t.Helper()
	forecast, err := r.manager.ForecastIdle(n.info.Hash, account)
	if err != nil {
		r.t.Fatal(err)
	}
	idle, err := forecast.Heights()
	if err != nil {
		r.t.Fatal(err)
	}
	start, err := r.manager.EpochStartHeight(n.info.Hash)
	if err != nil {
		r.t.Fatal(err)
	}
	last := n.info.Height
	for i, x := range idle {
		if x.Start >= x.End || i > 0 && x.Start <= idle[i-1].End {
			r.t.Errorf("idle heights %v", idle)
		}
		for ; last < x.Start; last++ {
			busy = append(busy, last)
		}
		last = x.End
	}
	for ; last < start+primitives.Height(r.params.Epoch.EpochLength); last++ {
		busy = append(busy, last)
	}
	return busy
}

// TestIdleHeightsBefore87FollowDraws: before version 87, an account's idle heights are those at
// which neither the draw of block producers nor the canonical draw of chunk producers selects it,
// whatever heights were skipped. An account that is not a validator is always idle.
func TestIdleHeightsBefore87FollowDraws(t *testing.T) {
	t.Parallel()
	r := newTree(t, 40, stakes("test", 900, 700, 500, 300)...)
	at := r.nodes[0]
	for range 12 {
		at, _ = r.grow(at, primitives.Height(len(r.nodes)%3), nil)
	}
	info := r.epochInfo(r.nodes[len(r.nodes)-2])
	start, err := r.manager.EpochStartHeight(at.info.Hash)
	if err != nil {
		t.Fatal(err)
	}
	for id := range ValidatorID(4) {
		var want []primitives.Height
		for h := at.info.Height; h < start+40; h++ {
			busy := info.SampleBlockProducer(h) == id
			for i := range info.ShardLayout.NumShards() {
				p, err := info.SampleChunkProducer(info.ShardLayout, primitives.ShardIndex(i), h)
				if err != nil {
					t.Fatal(err)
				}
				busy = busy || p == id
			}
			if busy {
				want = append(want, h)
			}
		}
		if got := r.busyHeights(at, info.Validators[id].AccountID); !slices.Equal(got, want) {
			t.Errorf("%s is busy at %v, want %v", info.Validators[id].AccountID, got, want)
		}
	}
	if got := r.busyHeights(at, "stranger.near"); len(got) > 0 {
		t.Errorf("an account that is no validator is busy at %v", got)
	}
}

// TestIdleHeightsFrom87FollowBlacklist: from version 87 on, whether the next height is idle follows
// from the producers that the chain will require, also after a skipped height. At later heights no
// chunk is due from a producer that is excluded.
func TestIdleHeightsFrom87FollowBlacklist(t *testing.T) {
	t.Parallel()
	short := &earlykickout.Thresholds{GraceBlocks: 10, MinMissed: 3, MinProducedPercent: 80}
	r := kickoutTree(t, 200, short, stakes("test", 1_000_000, 1_000_000, 1_000_000)...)
	layout, at := primitives.SingleShardLayout(), r.nodes[0]
	moved, left := 0, 0
	for at.info.Height < 150 {
		skip := primitives.Height(0)
		if at.info.Height%7 == 3 {
			skip = 1
		}
		at = r.without(at, skip, 0)
		info, h := r.epochInfo(at), at.info.Height+1
		chunk, err := r.manager.ChunkProducerFromPrev(at.info.Hash, 0)
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := info.SampleChunkProducer(layout, 0, h)
		if err != nil {
			t.Fatal(err)
		}
		listed := len(r.list(at)) > 0
		for id := range info.Validators {
			account := info.Validators[id].AccountID
			busy := r.busyHeights(at, account)
			isBlock := func(h primitives.Height) bool { return info.SampleBlockProducer(h) == ValidatorID(id) }
			if want := isBlock(h) || chunk.AccountID == account; slices.Contains(busy, h) != want {
				t.Fatalf("on %d: %s is busy at %d: %t, want %t", at.info.Height, account, h, !want, want)
			}
			if listed && id == 0 {
				for _, h := range busy {
					if h > at.info.Height+1 && !isBlock(h) {
						t.Fatalf("on %d: %s, which is left out, is busy at %d", at.info.Height, account, h)
					}
				}
				left++
			}
		}
		if info.Validators[canonical].AccountID != chunk.AccountID {
			moved++
		}
	}
	if moved < 10 || left < 50 {
		t.Errorf("%d producers are not the canonical ones, a list at %d blocks", moved, left)
	}
}
