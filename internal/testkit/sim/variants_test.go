package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// TestValidFormsBecomeFinal: of each valid form some blocks become final. Invalid forms are
// refused, V7 from version 87 on, and before 87 chunks of other heights are included. A form that
// all nodes drop silently is noticed only because none of its blocks becomes final.
func TestValidFormsBecomeFinal(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() || testutil.Racing {
		seeds = 1
	}
	sum := map[string]Tally{}
	for _, name := range []string{"forms", "reformed"} {
		s, err := ScenarioOf(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range seeds {
			r, err := Run(Options{Seed: seed, Scenario: s})
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation != nil {
				t.Fatalf("%s, seed %d: %v\n%s", name, seed, r.Violation, strings.Join(r.Tail, "\n"))
			}
			for what, x := range r.Forms {
				y := sum[what]
				sum[what] = Tally{x.Said + y.Said, x.Taken + y.Taken, x.Refused + y.Refused}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(sum)) {
		t.Logf("%-14s %+v", what, sum[what])
	}
	if seeds == 1 {
		return
	}
	right := []string{created, misnumberedChunk}
	for _, f := range forms {
		switch x := sum[f.name]; {
		case f.right:
			right = append(right, f.name)
		case x.Taken > 0 || x.Refused == 0 && x.Said > 0: // a split is seldom told by the byzantine validator
			t.Errorf("%s: got %+v", f.name, x)
		}
	}
	for _, what := range right {
		if x := sum[what]; x.Taken == 0 || x.Refused > 0 {
			t.Errorf("%s: got %+v", what, x)
		}
	}
	for _, what := range []string{unendorsed, "V7" + since87, "long V7" + since87} {
		if x := sum[what]; x.Taken > 0 || x.Refused == 0 {
			t.Errorf("%s: got %+v", what, x)
		}
	}
}

// TestChecksNoticeDisagreementOnBlocks: the checks notice a block that one node accepts and another
// refuses, and a block of the byzantine validator that is accepted although invalid or refused
// although valid.
func TestChecksNoticeDisagreementOnBlocks(t *testing.T) {
	w := newFaultlessWorld(t, 8, func(s *Scenario) { s.Byzantine, s.Faults = true, 30*second })
	b := w.nodes[2].engine.Head().Block
	i := slices.IndexFunc(b.Body.Chunks, func(h *primitives.ChunkHeader) bool { return h.HeightIncluded == b.Header.Height })
	if i < 0 {
		t.Fatal("the head has no chunks")
	}
	chunk := b.Body.Chunks[i].ChunkHash()
	refuse := func(err error) func(*verdicts, *node) {
		return func(v *verdicts, n *node) { v.refused(n, err) }
	}
	block := refuse(&consensus.Refusal{Block: b.Hash(), Err: chain.InvalidChunk})
	body := refuse(&consensus.Refusal{Block: b.Hash(), Err: fmt.Errorf("copy: %w", chain.InvalidBodyHash)})
	piece := refuse(&consensus.ChunkRefusal{Chunk: chunk, Err: errors.New("bad")})
	take := func(v *verdicts, n *node) { v.taken(n, b) }
	say := func(right bool) func(*verdicts, *node) {
		return func(v *verdicts, _ *node) { v.say(b, "V5", right, "") }
	}
	other := func(v *verdicts, _ *node) {
		x := &primitives.Block{Header: b.Header, Body: b.Body}
		x.Body.Challenges = []byte{0, 0, 0, 0, 1}
		v.say(x, "other body", false, "")
	}
	misnumbered := func(on primitives.Height) func(*verdicts, *node) {
		return func(v *verdicts, _ *node) { v.created(&misnumbered{chunk: &primitives.Chunk{Hash: chunk}, on: on}) }
	}
	head := b.Header.Height
	for name, c := range map[string]struct {
		does []func(*verdicts, *node)
		bad  bool
	}{
		"refused by all":                 {[]func(*verdicts, *node){block, block}, false},
		"taken by all":                   {[]func(*verdicts, *node){take, take}, false},
		"refused, and taken":             {[]func(*verdicts, *node){block, take}, true},
		"taken, and refused":             {[]func(*verdicts, *node){take, block}, true},
		"its chunk refused, and taken":   {[]func(*verdicts, *node){piece, take}, true},
		"taken, and its chunk refused":   {[]func(*verdicts, *node){take, piece}, true},
		"right, and refused":             {[]func(*verdicts, *node){say(true), block}, true},
		"right, and taken":               {[]func(*verdicts, *node){say(true), take}, false},
		"wrong, and refused":             {[]func(*verdicts, *node){say(false), block}, false},
		"wrong, and taken":               {[]func(*verdicts, *node){say(false), take}, true},
		"another body refused":           {[]func(*verdicts, *node){say(true), other, body, take}, false},
		"no other body refused":          {[]func(*verdicts, *node){say(true), body}, true},
		"another body, and it refused":   {[]func(*verdicts, *node){say(true), other, block}, true},
		"of another height, refused":     {[]func(*verdicts, *node){misnumbered(head), piece}, true},
		"of another height, and too old": {[]func(*verdicts, *node){misnumbered(0), piece, take}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w.check.violation = nil
			v := &w.check.verdicts
			v.init(&w.check)
			for i, do := range c.does {
				do(v, w.nodes[1+i%2])
			}
			if got := w.check.violation; (got != nil) != c.bad {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestThirdBlockOfHeightIsAccepted: a node that refused two blocks of a producer accepts the third,
// which is valid and which another node has imported. With one byzantine validator of four, nothing
// else resolves that situation.
func TestThirdBlockOfHeightIsAccepted(t *testing.T) {
	w := newFaultlessWorld(t, 5, nil)
	w.s.Byzantine = true // so that its blocks may be refused; it says nothing by itself
	byzantine := w.nodes[0]
	var third primitives.Hash
	w.net.drop = func(from, to *node, m consensus.Message) bool {
		b, ok := m.(*primitives.Block)
		if !ok || from != byzantine {
			return false
		}
		hash := b.Hash()
		if by, err := byzantine.engine.BlockProducer(b.Header.PrevHash, b.Header.Height); third.IsZero() &&
			err == nil && by.AccountID == byzantine.name && b.Header.Height > 5 {
			third = hash
			for i := range forms {
				if f := &forms[i]; f.name == "split" || f.name == "bits" {
					x := w.write(byzantine, b, f)
					w.check.verdicts.say(x, f.name, false, "")
					w.net.carry(byzantine, w.nodes[1], x)
					w.net.carry(byzantine, w.nodes[2], x)
				}
			}
		}
		return hash == third && to != w.nodes[3]
	}
	w.reach(t, 40)
	if at, err := w.nodes[1].engine.Block(third); err != nil || at.Hash != third {
		t.Errorf("%v is not there: %v", third, err)
	}
	if x := w.check.verdicts.tally; x["split"] != (Tally{1, 0, 1}) || x["bits"] != (Tally{1, 0, 1}) {
		t.Errorf("got %+v", x)
	}
}
