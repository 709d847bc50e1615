package backend

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// TestUpcomingMessageEqualsStoredOne: the message built from memory before a block is persisted
// equals the one that the store gives afterwards.
func TestUpcomingMessageEqualsStoredOne(t *testing.T) {
	o, course := workload.RandomSplits(4, 60)
	course.PerStep = 12
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	script := workload.NewScript(c, course)
	texts, lacking := map[primitives.Hash][]byte{}, 0
	for range course.Blocks {
		m, err := script.Step()
		if err != nil {
			t.Fatal(err)
		}
		hash := m.Accepted.Entry.Hash
		d := b.upcoming(hash)
		if d == nil {
			lacking++
			continue
		}
		d.MakeAhead()
		if texts[hash], err = d.MessageJSON(nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(texts) < 10 {
		t.Fatalf("%d texts, %d blocks lack something in memory", len(texts), lacking)
	}
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	b = New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	same := 0
	for hash, text := range texts {
		want, err := b.StreamerMessage(view.BlockRef{Kind: view.RefHash, Hash: hash})
		if isLookup(err) {
			continue // on a branch that the store has dropped
		}
		if err != nil {
			t.Fatal(err)
		}
		if same++; !bytes.Equal(text, want) {
			t.Errorf("block %v: %d bytes, want %d", hash, len(text), len(want))
		}
	}
	if same < 10 {
		t.Errorf("%d of %d texts could be compared", same, len(texts))
	}
	t.Logf("%d texts, %d compared, %d blocks lacked something", len(texts), same, lacking)
}

// TestEarlyMessageIsServedOncePersisted: a message encoded before its block is persisted is served
// once the block is, and not before. If another instance of the block is persisted instead, it is
// never served. The number of such messages is bounded.
func TestEarlyMessageIsServedOncePersisted(t *testing.T) {
	o, _ := workload.RandomSplits(4, 10)
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := follower{b: New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})}
	s := &f.b.digests
	absent := func(n byte) *stream.Digest {
		x := *c.Engine.Head().Block
		return stream.NewDigest(&stream.Block{Block: &x, Hash: primitives.Hash{n}}, nil)
	}
	for n := range byte(3 * keptSoon) {
		d := absent(n)
		if !s.putUpcoming(d) || s.putUpcoming(absent(n)) {
			t.Fatal("a block has no early message, or two")
		}
		var lookup *view.LookupError
		if got, err := f.Digest(view.At{Height: d.At().Height, Hash: d.Hash}); !errors.As(err, &lookup) {
			t.Fatalf("a block that is not persisted was served: %v, %v", got, err)
		}
	}
	if len(s.soon.list) != keptSoon {
		t.Errorf("%d are kept, want %d", len(s.soon.list), keptSoon)
	}
	for _, lost := range []bool{false, true} {
		a, err := c.Next(nil)
		if err != nil {
			t.Fatal(err)
		}
		early := f.b.upcoming(a.Entry.Hash)
		if lost {
			x := *early.Block
			x.Block = new(primitives.Block)
			*x.Block = *a.Entry.Block
			early = stream.NewDigest(&x, nil)
		}
		if !s.putUpcoming(early) {
			t.Fatal("the message is not kept")
		}
		for range 2 {
			if got, err := f.Digest(at(a.Entry)); err != nil || (got == early) == lost {
				t.Errorf("lost %v: another block was served: %v", lost, err)
			}
		}
		if s.putUpcoming(early) {
			t.Errorf("lost %v: still kept after it was served", lost)
		}
	}
	a, err := c.Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Soon(a.Entry.Hash)
	for s.upcoming.Load() {
		time.Sleep(time.Millisecond)
	}
	d, err := f.Digest(at(a.Entry))
	if err != nil || d.Size() == 0 {
		t.Errorf("the text is not made: %v", err)
	}
}

// TestAheadEncodesAfter10ms: Ahead leaves the cores to the messages of the same block for 10 ms.
func TestAheadEncodesAfter10ms(t *testing.T) {
	o, _ := workload.RandomSplits(4, 10)
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := follower{b: New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})}
		f.Ahead()
		time.Sleep(restBeforeText - 1)
		synctest.Wait()
		if d := f.b.digests.get(a.Entry.Hash); d != nil {
			t.Error("the text is being made at once")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if d := f.b.digests.get(a.Entry.Hash); d == nil || d.Size() == 0 {
			t.Error("the text is not made")
		}
	})
	if restBeforeText != 10*time.Millisecond {
		t.Errorf("wait of %v before the text, want 10 ms", restBeforeText)
	}
}
