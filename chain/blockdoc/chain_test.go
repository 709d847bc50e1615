package blockdoc

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// four returns a recorded chain: its blocks, and the producers of each epoch by their hash. It has
// four validators, of which one is offline for a while, is kicked out and returns.
func four(t *testing.T) (blocks []*Document, lists map[primitives.Hash][]primitives.ValidatorStake) {
	t.Helper()
	lists = map[primitives.Hash][]primitives.ValidatorStake{}
	for _, line := range testutil.Lines(t, "../../internal/testkit/replay/testdata/four.jsonl.gz") {
		var j struct {
			Block json.RawMessage
			Light *struct {
				Next []stakeJSON `json:"next_bps"`
			}
		}
		if err := json.Unmarshal(line, &j); err != nil {
			t.Fatal(err)
		}
		if j.Block != nil {
			d, err := ParseBlock(append(json.RawMessage(nil), j.Block...))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Check(Known{}); err != nil {
				t.Fatal(err)
			}
			blocks = append(blocks, d)
		}
		if j.Light != nil && j.Light.Next != nil {
			list := stakesOf(j.Light.Next)
			lists[primitives.BlockProducersHash(list)] = list
		}
	}
	return blocks, lists
}

// nextOf returns the hash of the next epoch's producers; zero: c has no block.
func nextOf(c *Chain) (h primitives.Hash) {
	if c.Tip() != nil {
		h = c.Tip().Block.Header.NextBPHash
	}
	return h
}

// TestChainVerifiesRecordedBlocks verifies a recorded chain from several blocks on. Each block must
// become final when the headers say so, and the producers are found by their hash.
func TestChainVerifiesRecordedBlocks(t *testing.T) {
	t.Parallel()
	blocks, lists := four(t)
	for _, from := range []int{0, 1, 61, 130, 200} {
		if from >= len(blocks)-10 {
			continue
		}
		h := blocks[from].Block.Header
		producers := lists[blocks[max(0, from-70)].Block.Header.NextBPHash]
		// Blocks of the epoch before contain the hash of an epoch's producers.
		for i := from; i >= 0; i-- {
			if x := blocks[i].Block.Header; x.NextEpochID == h.EpochID {
				producers = lists[x.NextBPHash]
				break
			}
		}
		c := NewChain(blocks[from].Hash, h.EpochID, producers, primitives.Signature.Verify)
		finals, epochs := 0, 0
		for i, d := range blocks[from:] {
			if list := lists[nextOf(c)]; c.Needs() && list != nil {
				if c.Producers([]primitives.ValidatorStake{{AccountID: "a", PublicKey: list[0].PublicKey, Stake: primitives.NEAR(1)}}) || c.Producers(nil) {
					t.Fatal("producers whose hash the chain does not contain are accepted")
				}
				if c.Producers(list) {
					epochs++
				}
			}
			final, err := c.Add(d)
			// The recording ends before a block with these producers.
			if errors.Is(err, ErrProducers) && lists[nextOf(c)] == nil && len(blocks)-from-i < 130 {
				break
			}
			if err != nil {
				t.Fatalf("from %d: block %d: %v", from, d.Block.Header.Height, err)
			}
			last := d.Block.Header.LastFinalBlock
			switch {
			case i < 2:
			case final != nil && final.Hash != last:
				t.Errorf("block %d makes %d final, and names %v", d.Block.Header.Height, final.Block.Header.Height, last)
			case final == nil && last != c.last[1].Block.Header.LastFinalBlock:
				t.Errorf("block %d makes nothing final, and names %v", d.Block.Header.Height, last)
			case final != nil:
				finals++
			}
		}
		t.Logf("from block %d: %d blocks, %d of them final, %d lists of producers", from, len(blocks)-from, finals, epochs)
		if finals < (len(blocks)-from)*2/3 {
			t.Errorf("from block %d: %d of %d blocks became final", from, finals, len(blocks)-from)
		}
	}
}

// TestChainRefusesUnprovenBlock: a Chain refuses a block that is not the next one, lacks approvals,
// or has a wrong signature. The Chain is then unchanged.
func TestChainRefusesUnprovenBlock(t *testing.T) {
	t.Parallel()
	blocks, lists := four(t)
	first := blocks[0].Block.Header
	begin := func() *Chain {
		c := NewChain(blocks[0].Hash, first.EpochID, lists[first.NextBPHash], primitives.Signature.Verify)
		for _, d := range blocks[:8] {
			if _, err := c.Add(d); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	resealed := func(change func(*primitives.BlockHeader, *Document)) *Document {
		d := *blocks[8]
		h := *d.Block.Header
		h.Approvals = append([]primitives.Signature(nil), h.Approvals...)
		d.Block = &primitives.Block{Header: &h}
		change(&h, &d)
		d.Hash = h.Init().Hash()
		return &d
	}
	for name, d := range map[string]*Document{
		"the previous block":   blocks[7],
		"the block after next": blocks[9],
		"the checkpoint":       blocks[0],
		"another height":       resealed(func(h *primitives.BlockHeader, _ *Document) { h.Height++ }),
		"no higher":            resealed(func(h *primitives.BlockHeader, _ *Document) { h.Height = blocks[7].Block.Header.Height }),
		"no later":             resealed(func(h *primitives.BlockHeader, _ *Document) { h.Timestamp = blocks[7].Block.Header.Timestamp }),
		"another epoch":        resealed(func(h *primitives.BlockHeader, _ *Document) { h.EpochID[0]++ }),
		"other producers":      resealed(func(h *primitives.BlockHeader, _ *Document) { h.NextBPHash[0]++ }),
		"another state":        resealed(func(h *primitives.BlockHeader, _ *Document) { h.PrevStateRoot[0]++ }),
		"another's name":       resealed(func(_ *primitives.BlockHeader, d *Document) { d.Author = "node9" }),
		"too few":              resealed(func(h *primitives.BlockHeader, _ *Document) { h.Approvals[0], h.Approvals[1] = "", "" }),
		"swapped": resealed(func(h *primitives.BlockHeader, _ *Document) {
			h.Approvals[0], h.Approvals[1] = h.Approvals[1], h.Approvals[0]
		}),
	} {
		t.Run(name, func(t *testing.T) {
			c := begin()
			var lie *MismatchError
			if _, err := c.Add(d); !errors.As(err, &lie) {
				t.Errorf("got %v", err)
			}
			if final, err := c.Add(blocks[8]); err != nil || final.Hash != blocks[6].Hash {
				t.Errorf("the right one after %s: %v, %v", name, final, err)
			}
		})
	}
	c := NewChain(primitives.Hash{1}, first.EpochID, lists[first.NextBPHash], primitives.Signature.Verify)
	if _, err := c.Add(blocks[0]); err == nil || c.Needs() || c.Producers(lists[first.NextBPHash]) {
		t.Errorf("another block than the checkpoint: %v", err)
	}
	c = NewChain(blocks[0].Hash, primitives.EpochID{7}, lists[first.NextBPHash], primitives.Signature.Verify)
	if _, err := c.Add(blocks[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Add(blocks[1]); !errors.Is(err, ErrProducers) {
		t.Errorf("of an epoch whose producers are not known: %v", err)
	}
}
