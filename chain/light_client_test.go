package chain

import (
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// headers implements HeaderSource for one chain, by height from 1 on.
type headers []*primitives.BlockHeader

var errNoHeader = errors.New("no such header")

func (c headers) find(is func(*primitives.BlockHeader) bool) (*primitives.BlockHeader, error) {
	for _, h := range c {
		if is(h) {
			return h, nil
		}
	}
	return nil, errNoHeader
}

func (c headers) ByHash(hash primitives.Hash) (*primitives.BlockHeader, error) {
	return c.find(func(h *primitives.BlockHeader) bool { return h.Hash() == hash })
}

func (c headers) ByHeight(height primitives.Height) (*primitives.BlockHeader, error) {
	return c.find(func(h *primitives.BlockHeader) bool { return h.Height == height })
}

func (c headers) NextHash(hash primitives.Hash) (primitives.Hash, error) {
	h, err := c.find(func(h *primitives.BlockHeader) bool { return h.PrevHash == hash })
	if err != nil {
		return primitives.Hash{}, err
	}
	return h.Hash(), nil
}

var (
	bps = []primitives.ValidatorStake{
		{AccountID: "aa", PublicKey: key("a").PublicKey(), Stake: near(10)},
		{AccountID: "bb", PublicKey: key("b").PublicKey(), Stake: near(10)},
		{AccountID: "cc", PublicKey: key("c").PublicKey(), Stake: near(10)},
		{AccountID: "dd", PublicKey: key("d").PublicKey(), Stake: near(10)},
	}
	epochs = []primitives.EpochID{{1}, {2}, {3}, {4}}
)

// grow returns headers of the heights 1 to n in epochs of the given length. Each header contains
// approvals of a, b and c.
func grow(n, length int) headers {
	var out headers
	parent := &primitives.BlockHeader{Version: primitives.HeaderV6}
	parent.Init()
	for i := 1; i <= n; i++ {
		height := primitives.Height(i)
		h := &primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: parent.Hash(), Signature: primitives.ZeroED25519Signature,
			BlockHeaderInnerLite: primitives.BlockHeaderInnerLite{Height: height, EpochID: epochs[(i-1)/length], NextEpochID: epochs[(i-1)/length+1],
				NextBPHash: primitives.BlockProducersHash(bps)}}
		h.LastDSFinalBlock, h.LastFinalBlock, h.PrevHeight = LastDSFinal(parent, height), LastFinal(parent, height), parent.Height
		inner := primitives.NewApprovalInner(parent.Hash(), parent.Height, height)
		for _, k := range []string{"a", "b", "c"} {
			h.Approvals = append(h.Approvals, key(k).Sign(inner.SignedBytes(height)))
		}
		h.Approvals = append(h.Approvals, "")
		parent = h.Init()
		out = append(out, h)
	}
	return out
}

func producers(primitives.EpochID) ([]primitives.ValidatorStake, error) { return bps, nil }

func verify(s primitives.Signature, data []byte, k primitives.PublicKey) bool {
	return s.Verify(data, k)
}

// TestLightClientBlockIsLastFinalOfItsEpoch: LightClientBlock returns the last final block, or an
// earlier one if the two blocks after it are in the next epoch (nearcore chain.rs:679).
func TestLightClientBlockIsLastFinalOfItsEpoch(t *testing.T) {
	t.Parallel()
	all := grow(12, 5)
	for head, want := range map[primitives.Height]primitives.Height{
		5: 3, // the two blocks after 3 are 4 and 5
		6: 3, // 4 is final, but 6 is in the next epoch: the final block as of 5
		7: 3, // 5 is final, but 6 and 7 are in the next epoch: the final block as of 5
		8: 6, 9: 7,
	} {
		got, err := LightClientBlock(all[head-1], all[:head], producers)
		if err != nil {
			t.Errorf("head %d: %v", head, err)
			continue
		}
		h := all[want-1]
		if got.InnerLite.Height != want || got.Hash() != h.Hash() || got.NextBlockInnerHash != all[want].InnerHash() {
			t.Errorf("head %d: block %d, want %d", head, got.InnerLite.Height, want)
		}
		if len(got.ApprovalsAfterNext) != 4 || got.ApprovalsAfterNext[0] != all[want+1].Approvals[0] {
			t.Errorf("head %d: not the approvals of the block after next", head)
		}
		client := &LightClientHead{Lite: all[0].BlockHeaderInnerLite, BPs: bps, NextBPs: bps}
		if _, err := client.Advance(got, verify); err != nil {
			t.Errorf("head %d: a light client refuses block %d: %v", head, want, err)
		}
	}
	if _, err := LightClientBlock(all[1], all[:2], producers); !errors.Is(err, errNoHeader) {
		t.Errorf("a chain without a final block: %v, want no header", err)
	}
}

func TestLightClientRefusesAlteredBlock(t *testing.T) {
	t.Parallel()
	all := grow(12, 5)
	good := func() (*LightClientHead, *primitives.LightClientBlock) {
		b, err := LightClientBlock(all[4], all[:5], producers)
		if err != nil {
			t.Fatal(err)
		}
		b.ApprovalsAfterNext = slices.Clone(b.ApprovalsAfterNext) // a copy, because the original is the header's
		return &LightClientHead{Lite: all[0].BlockHeaderInnerLite, BPs: bps, NextBPs: bps[:3]}, b
	}
	for name, change := range map[string]func(*LightClientHead, *primitives.LightClientBlock){
		"not higher":         func(l *LightClientHead, _ *primitives.LightClientBlock) { l.Lite.Height = 3 },
		"an unknown epoch":   func(l *LightClientHead, _ *primitives.LightClientBlock) { l.Lite.EpochID = epochs[3] },
		"another block":      func(_ *LightClientHead, b *primitives.LightClientBlock) { b.InnerLite.Timestamp++ },
		"another prev block": func(_ *LightClientHead, b *primitives.LightClientBlock) { b.PrevBlockHash[0]++ },
		"another next block": func(_ *LightClientHead, b *primitives.LightClientBlock) { b.NextBlockInnerHash[0]++ },
		"another rest":       func(_ *LightClientHead, b *primitives.LightClientBlock) { b.InnerRestHash[0]++ },
		"half of the stake":  func(_ *LightClientHead, b *primitives.LightClientBlock) { b.ApprovalsAfterNext[1] = "" },
		"a list cut short": func(_ *LightClientHead, b *primitives.LightClientBlock) {
			b.ApprovalsAfterNext = b.ApprovalsAfterNext[:2]
		},
		"an approval by another key": func(_ *LightClientHead, b *primitives.LightClientBlock) {
			b.ApprovalsAfterNext[3] = b.ApprovalsAfterNext[0]
		},
		"other producers":       func(l *LightClientHead, _ *primitives.LightClientBlock) { l.BPs = bps[1:] },
		"other next producers":  func(_ *LightClientHead, b *primitives.LightClientBlock) { b.NextBPs = bps[:2] },
		"an empty list of them": func(_ *LightClientHead, b *primitives.LightClientBlock) { b.NextBPs = []primitives.ValidatorStake{} },
		"nobody has any stake":  func(l *LightClientHead, _ *primitives.LightClientBlock) { l.BPs = nil },
		"more stake than before": func(l *LightClientHead, _ *primitives.LightClientBlock) {
			l.BPs = append(l.BPs[:3:3], primitives.ValidatorStake{Stake: near(50)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, b := good()
			change(l, b)
			was := *l
			if got, err := l.Advance(b, verify); err == nil {
				t.Errorf("accepted block %d", got.Lite.Height)
			}
			if l.Lite != was.Lite {
				t.Error("a refusal changed the head")
			}
		})
	}
	l, b := good()
	next, err := l.Advance(b, verify)
	if err != nil || next.Lite != b.InnerLite || len(next.NextBPs) != 4 || len(next.BPs) != 4 {
		t.Errorf("next head = %+v, %v", next, err)
	}
	b.NextBPs = nil // optional within an epoch
	if next, err = l.Advance(b, verify); err != nil || len(next.NextBPs) != 3 {
		t.Errorf("without next_bps: %+v, %v, want the old ones", next, err)
	}
	// The next block is in the next epoch, so NextBPs of the head become the new head's BPs.
	l = &LightClientHead{Lite: all[4].BlockHeaderInnerLite, BPs: bps[:1], NextBPs: bps}
	if b, err = LightClientBlock(all[8], all[:9], producers); err != nil {
		t.Fatal(err)
	}
	if next, err = l.Advance(b, verify); err != nil || len(next.BPs) != 4 {
		t.Errorf("into the next epoch: %+v, %v", next, err)
	}
	b.NextBPs = nil
	if _, err = l.Advance(b, verify); err == nil {
		t.Error("into the next epoch without saying who produces the one after")
	}
}

// TestBlockIsFinalAfterTwoNextHeights: a block becomes final when the next two heights have blocks
// on it (nearcore block_header.rs).
func TestBlockIsFinalAfterTwoNextHeights(t *testing.T) {
	t.Parallel()
	h := func(height primitives.Height, parent *primitives.BlockHeader) *primitives.BlockHeader {
		x := &primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: parent.Hash(), BlockHeaderInnerLite: primitives.BlockHeaderInnerLite{Height: height}}
		x.LastDSFinalBlock, x.LastFinalBlock = LastDSFinal(parent, height), LastFinal(parent, height)
		return x.Init()
	}
	b0 := (&primitives.BlockHeader{Version: primitives.HeaderV6}).Init()
	b1 := h(1, b0)
	b2 := h(2, b1)
	b3 := h(3, b2)
	b5 := h(5, b3)
	b6 := h(6, b5)
	b7 := h(7, b6)
	b8 := h(8, b7)
	for _, tt := range []struct {
		at        *primitives.BlockHeader
		ds, final *primitives.BlockHeader
	}{{b2, b1, b0}, {b3, b2, b1}, {b5, b2, b1}, {b6, b5, b1}, {b7, b6, b5}, {b8, b7, b6}} {
		if tt.at.LastDSFinalBlock != tt.ds.Hash() || tt.at.LastFinalBlock != tt.final.Hash() {
			t.Errorf("block %d: final is not %d and %d", tt.at.Height, tt.ds.Height, tt.final.Height)
		}
	}
}
