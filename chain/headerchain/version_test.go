package headerchain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
)

// TestHeadersOfNewerVersionAreRefused: a chain accepts headers that vote for a version above
// Options.Newest, and those of the next epoch, in which the version of the epoch after it is decided. The
// first header of that epoch is refused with ErrVersion, which is no fault of the peer, and changes
// nothing, also after a restart. With a newer program the same header is the next head.
func TestHeadersOfNewerVersionAreRefused(t *testing.T) {
	c := newChainOf(t, 12, 86)
	c.vote = 87
	version := func(id primitives.EpochID) primitives.ProtocolVersion {
		t.Helper()
		v, err := c.Epochs().ProtocolVersion(id)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for len(c.firsts) < 2 || !c.ended() {
		c.extend(t)
		h := c.Head().Header
		want := primitives.ProtocolVersion(86 + len(c.firsts) - 1) // the first epoch's votes decide about the third
		if own, next := version(h.EpochID), version(h.NextEpochID); own != 86 || next != want {
			t.Fatalf("block %d: version %d, then %d, want 86 and %d", h.Height, own, next, want)
		}
	}
	head := c.Head().Header
	h, _, _ := c.build(t)
	for range 2 {
		_, err := c.Add(h, false, h.Timestamp)
		if !errors.Is(err, headerchain.ErrVersion) || errors.As(err, new(chain.Invalid)) {
			t.Errorf("the first header of 87: %v, want %v", err, headerchain.ErrVersion)
		} else if text := "has version 87, this program runs versions up to 86: install a newer release"; !strings.Contains(err.Error(), text) {
			t.Errorf("the first header of 87: %v, want %q", err, text)
		}
		if at := c.Head().Header; at.Hash() != head.Hash() {
			t.Errorf("the head is block %d, want %d", at.Height, head.Height)
		}
		c.open(t)
	}
	c.options.Newest = 87
	c.open(t)
	c.extend(t)
	if at := c.Head().Header; at.Hash() != h.Hash() {
		t.Errorf("with a newer program the head is block %d, want the refused one, %d", at.Height, h.Height)
	}
}
